"""Read databases of hermes-lcm, and of its successor lcm-x.

Messages are in OpenAI's shape and belong to a session. The context is not stored: it is the summaries that are no source of
another one, and the messages that no summary covers. When a session ends, summaries may be carried over to the next: sessions
that share some become one conversation, so that their sources stay below them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from lossless.errors import LosslessError
from lossless.formats import openai_chat
from lossless.imports import sqlite_reader
from lossless.imports.base import History, PastFile, PastItem, PastMessage, PastSummary
from lossless.imports.sqlite_reader import Tables, parse_json, parse_time
from lossless.model import Message, Text
from lossless.store.sqlite.foreign import Foreign

SYSTEM = "hermes-lcm"
OWN_TABLES = frozenset({"summary_nodes", "lcm_lifecycle_state"})
NEEDED: Tables = {
    "messages": frozenset({"store_id", "session_id", "role", "content", "timestamp"}),
    "summary_nodes": frozenset(
        {"node_id", "session_id", "depth", "summary", "source_ids", "source_type", "created_at"}
    ),
}
KNOWN: Tables = {
    "messages": NEEDED["messages"] | {"source", "tool_call_id", "tool_calls", "tool_name", "token_estimate", "pinned"},
    "summary_nodes": NEEDED["summary_nodes"]
    | {"token_count", "source_token_count", "earliest_at", "latest_at", "expand_hint"},
}
BOOKKEEPING = ("metadata", "lcm_migration_state", "lcm_lifecycle_state")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Node(Struct, frozen=True):
    """The session and sources of a summary, without its text."""

    id: int
    session: str
    sources: tuple[int, ...]
    of_nodes: bool


class HermesLcm:
    """A database of hermes-lcm or lcm-x."""

    system = SYSTEM

    def __init__(self, source: Foreign) -> None:
        self._source = source
        self._tables = source.tables()
        sqlite_reader.check_schema(source, SYSTEM, self._tables, NEEDED)
        self.version = self._schema()
        first = source.all(
            "SELECT store_id, session_id, role, content, timestamp FROM messages ORDER BY store_id LIMIT 1"
        )
        self.identity = sqlite_reader.make_identity(SYSTEM, first)
        self.unmapped = sqlite_reader.list_additions(source, self._tables, KNOWN, BOOKKEEPING)
        self._nodes = {node.id: node for node in self._read_nodes()}
        self._groups = self._group_sessions()

    def _schema(self) -> str:
        rows = (
            self._source.all("SELECT value FROM metadata WHERE key = 'schema_version'")
            if "metadata" in self._tables
            else []
        )
        return f"schema {rows[0][0]}" if rows else "unknown"

    def _columns(self, table: str, *columns: str) -> str:
        return ", ".join(f"t.{each}" if each in self._tables[table] else f"NULL AS {each}" for each in columns)

    def _read_nodes(self) -> Iterator[_Node]:
        for number, session, sources, kind in self._source.rows(
            "SELECT node_id, session_id, source_ids, source_type FROM summary_nodes ORDER BY node_id"
        ):
            decoded = parse_json(sources)
            ids = tuple(each for each in decoded if type(each) is int) if isinstance(decoded, list) else ()
            if not isinstance(decoded, list) or len(ids) < len(decoded):
                self.unmapped.append(f"What summary {number} was made from is not written as a list of numbers.")
            yield _Node(id=number, session=session, sources=ids, of_nodes=kind == "nodes")

    def _group_sessions(self) -> dict[str, list[str]]:
        """Return the sessions of each conversation, oldest first, under the name of the newest."""
        born = self._source.all(
            "SELECT session_id FROM (SELECT session_id, timestamp AS at FROM messages UNION ALL"
            " SELECT session_id, created_at FROM summary_nodes) GROUP BY 1 ORDER BY min(at), 1"
        )
        leader = {session: session for (session,) in born}
        homes = self._foreign_sessions()
        for node in self._nodes.values():
            for each in node.sources:
                other = self._nodes[each].session if node.of_nodes and each in self._nodes else node.session
                other = other if node.of_nodes else homes.get(each, node.session)
                leader[_leader(leader, other)] = _leader(leader, node.session)
        groups: dict[str, list[str]] = defaultdict(list)
        for (session,) in born:
            groups[_leader(leader, session)].append(session)
        for sessions in groups.values():
            if len(sessions) > 1:
                self.unmapped.append(
                    f"The sessions {', '.join(sessions)} share summaries: they become one conversation."
                )
        return {sessions[-1]: sessions for sessions in groups.values()}

    def _foreign_sessions(self) -> dict[int, str]:
        """Return the sessions of messages that a summary of another session covers."""
        rows = self._source.all(
            "SELECT m.store_id, m.session_id FROM summary_nodes n JOIN json_each(CASE WHEN json_valid(n.source_ids)"
            " THEN n.source_ids ELSE '[]' END) j JOIN messages m ON m.store_id = j.value"
            " WHERE n.source_type <> 'nodes' AND m.session_id <> n.session_id"
        )
        return dict(rows)

    def histories(self) -> list[History]:
        keys, active = self._lifecycles()
        return [self._history(sessions, keys, active) for sessions in self._groups.values()]

    def _lifecycles(self) -> tuple[dict[str, str], set[str]]:
        """Return the conversation of each session, and the sessions that have not ended."""
        if "lcm_lifecycle_state" not in self._tables:
            return {}, {session for sessions in self._groups.values() for session in sessions}
        keys: dict[str, str] = {}
        current = set()
        for conversation, now, before in self._source.all(
            "SELECT conversation_id, current_session_id, last_finalized_session_id FROM lcm_lifecycle_state"
        ):
            keys |= {session: conversation for session in (before, now) if session}
            current.add(now)
        every = {session for sessions in self._groups.values() for session in sessions}
        return keys, current | (every - keys.keys())

    def _history(self, sessions: Sequence[str], keys: dict[str, str], active: set[str]) -> History:
        newest = sessions[-1]
        count, first, last = self._source.all(
            "SELECT count(*), min(timestamp), max(timestamp) FROM messages WHERE session_id IN"
            " (SELECT value FROM json_each(:sessions))",
            sessions=_listing(sessions),
        )[0]
        at = parse_time(first) or _EPOCH
        return History(
            ref=newest,
            key=next((keys[each] for each in reversed(sessions) if each in keys), newest) or f"{SYSTEM}:unnamed",
            session=newest or None,
            active=newest in active,
            created_at=at,
            updated_at=parse_time(last) or at,
            messages=count,
            summaries=len(self._nodes_of(sessions)),
        )

    def _nodes_of(self, sessions: Sequence[str]) -> list[_Node]:
        wanted = set(sessions)
        return [node for node in self._nodes.values() if node.session in wanted]

    def messages(self, history: History, *, after: str | None = None) -> Iterator[PastMessage]:
        columns = self._columns("messages", "tool_call_id", "tool_calls", "tool_name", "pinned", "source")
        for number, role, content, time, call, calls, tool, pinned, origin in self._source.rows(
            f"SELECT t.store_id, t.role, t.content, t.timestamp, {columns} FROM messages t WHERE t.store_id > :after"  # noqa: S608 - constants
            " AND t.session_id IN (SELECT value FROM json_each(:sessions)) ORDER BY t.store_id",
            after=-1 if after is None else int(after),
            sessions=_listing(self._groups[history.ref]),
        ):
            at = parse_time(time) or history.created_at
            message = _message(role, content, call, calls, tool)
            extra = {**message.extra, SYSTEM: {"source": origin}} if origin else message.extra
            message = structs.replace(message, at=at, event_id=f"hermes:{number}", extra=extra)
            yield PastMessage(ref=str(number), message=message, created_at=at, pinned=bool(pinned))

    def summaries(self, history: History) -> Iterator[PastSummary]:
        nodes = self._nodes_of(self._groups[history.ref])
        depth = sqlite_reader.depths({str(n.id): tuple(map(str, n.sources)) if n.of_nodes else () for n in nodes})
        for node in sorted(nodes, key=lambda each: depth[str(each.id)]):
            text, created, earliest, latest, hint = self._source.all(
                f"SELECT t.summary, t.created_at, {self._columns('summary_nodes', 'earliest_at', 'latest_at', 'expand_hint')}"  # noqa: S608 - constants
                " FROM summary_nodes t WHERE t.node_id = :id",
                id=node.id,
            )[0]
            yield PastSummary(
                ref=str(node.id),
                depth=max(depth[str(node.id)], int(node.of_nodes)),
                text=f"{text}\n\n{hint}" if hint and hint not in text else text,
                sources=tuple(map(str, node.sources)),
                created_at=parse_time(created) or history.updated_at,
                earliest_at=parse_time(earliest),
                latest_at=parse_time(latest),
            )

    def items(self, history: History) -> Iterator[PastItem]:
        """Yield what the newest session shows, without what earlier sessions left out."""
        sessions = self._groups[history.ref]
        nodes = self._nodes_of(sessions)
        consumed = {each for node in nodes if node.of_nodes for each in node.sources}
        covered = {each for node in nodes if not node.of_nodes for each in node.sources}
        places = {
            self._first_message(node): PastItem("summary", str(node.id))
            for node in nodes
            if node.session == sessions[-1] and node.id not in consumed
        }
        for (number,) in self._source.rows(
            "SELECT store_id FROM messages WHERE session_id = :session", session=sessions[-1]
        ):
            if number not in covered:
                places[number, 0] = PastItem("message", str(number))
        yield from (places[place] for place in sorted(places))

    def _first_message(self, node: _Node) -> tuple[int, int]:
        """Return the start of a summary; no two summaries have the same."""
        seen, below = {node.id}, node
        while below.of_nodes and below.sources and below.sources[0] not in seen and below.sources[0] in self._nodes:
            below = self._nodes[below.sources[0]]
            seen.add(below.id)
        return below.sources[0] if below.sources and not below.of_nodes else 0, node.id

    def files(self, history: History) -> Iterator[PastFile]:
        return iter(())

    def close(self) -> None:
        self._source.close()


def _leader(leader: dict[str, str], session: str) -> str:
    while leader[session] != session:
        session = leader[session]
    return session


def _listing(names: Sequence[str]) -> str:
    from lossless.store import jsontext

    return jsontext.dumps(list(names))


def _message(role: str, content: str | None, call: str | None, calls: str | None, tool: str | None) -> Message:
    record: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        record |= {"tool_call_id": call or ""} | ({"name": tool} if tool else {})
    decoded = parse_json(calls)
    if isinstance(decoded, list) and decoded:
        record["tool_calls"] = decoded
    try:
        message = openai_chat.load(record)
    except LosslessError:
        message = Message(role, (Text(content or ""),))
    if calls and "tool_calls" not in record and calls not in ("[]", "null"):
        message = structs.replace(message, parts=(*message.parts, Text(calls)))  # damaged, but part of the message
    return message
