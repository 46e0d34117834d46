"""Read databases of lossless-claw, of any version: columns are looked for, never assumed.

In its `summary_parents` the summary is the newer one and its "parent" is a source. A message is built from its parts where
they contain the host's own blocks; older messages have only a role and a text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import structs

from lossless.errors import InvalidInput, LosslessError
from lossless.formats import openclaw
from lossless.imports import sqlite_reader
from lossless.imports.base import History, PastFile, PastItem, PastMessage, PastSummary
from lossless.imports.sqlite_reader import Tables, name_set, parse_json, parse_time
from lossless.model import Message, Text, ToolCall
from lossless.store.header import refuse_database
from lossless.store.sqlite.foreign import Foreign

SYSTEM = "lossless-claw"
OWN_TABLES = frozenset({"conversations", "message_parts", "context_items", "summary_messages", "summary_parents"})
NEEDED: Tables = {
    "conversations": frozenset({"conversation_id", "session_id", "created_at"}),
    "messages": frozenset({"message_id", "conversation_id", "seq", "role", "content", "created_at"}),
    "summaries": frozenset({"summary_id", "conversation_id", "content", "created_at"}),
    "summary_messages": frozenset({"summary_id", "message_id", "ordinal"}),
    "summary_parents": frozenset({"summary_id", "parent_summary_id", "ordinal"}),
    "context_items": frozenset({"conversation_id", "ordinal", "item_type", "message_id", "summary_id"}),
}
KNOWN: Tables = {
    "conversations": NEEDED["conversations"]
    | {"session_key", "active", "archived_at", "archive_cause", "title", "bootstrapped_at", "updated_at"},
    "messages": NEEDED["messages"]
    | {"token_count", "identity_hash", "openclaw_sender_metadata", "transcript_entry_id", "large_content"}
    | {"stable_event_key"},
    "summaries": NEEDED["summaries"]
    | {"kind", "depth", "token_count", "earliest_at", "latest_at", "descendant_count", "descendant_token_count"}
    | {"source_message_token_count", "file_ids", "model"},
    "summary_messages": NEEDED["summary_messages"],
    "summary_parents": NEEDED["summary_parents"],
    "context_items": NEEDED["context_items"] | {"created_at"},
    "message_parts": name_set(
        "part_id message_id session_id part_type ordinal text_content is_ignored is_synthetic tool_call_id tool_name"
        " tool_status tool_input tool_output tool_error tool_title patch_hash patch_files file_mime file_name file_url"
        " subtask_prompt subtask_desc subtask_agent step_reason step_cost step_tokens_in step_tokens_out snapshot_hash"
        " compaction_auto metadata"
    ),
    "large_files": name_set(
        "file_id conversation_id file_name mime_type byte_size line_count storage_uri exploration_summary created_at"
    ),
}
BOOKKEEPING = ("conversation_bootstrap_state", "conversation_compaction_", "lcm_migration_state", "focus_brief_sources")
"""Tables of the program's own bookkeeping, which contain no messages."""
SINCE = (
    ("messages", "stable_event_key", "0.15"),
    ("conversations", "archive_cause", "0.14"),
    ("messages", "transcript_entry_id", "0.13"),
    ("conversations", "active", "0.6"),
    ("summaries", "model", "0.5"),
    ("conversations", "session_key", "0.4"),
)
FILES = "lcm-files"
_MOST_BYTES = 1_000_000_000
_OWN_COLUMNS = ("part_id", "message_id", "session_id", "part_type", "ordinal", "metadata")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LosslessClaw:
    """A database of lossless-claw, with the directory of its files."""

    system = SYSTEM

    def __init__(self, source: Foreign, files_dir: Path | None = None) -> None:
        self._source = source
        self._tables = source.tables()
        sqlite_reader.check_schema(source, SYSTEM, self._tables, NEEDED)
        self._root = (files_dir or source.path.parent / FILES).resolve()
        self.version = next((since for table, column, since in SINCE if self._has(table, column)), "0.1")
        first = source.all(
            "SELECT c.conversation_id, c.session_id, c.created_at, m.message_id, m.role, m.content FROM conversations c"
            " LEFT JOIN messages m ON m.conversation_id = c.conversation_id"
            " ORDER BY c.conversation_id, m.seq, m.message_id LIMIT 1"
        )
        self.identity = sqlite_reader.make_identity(SYSTEM, first)
        self.unmapped = [
            *sqlite_reader.list_additions(source, self._tables, KNOWN, (*BOOKKEEPING, "focus_briefs")),
            *self._list_strays(),
            *self._list_unreadable(),
        ]

    def _has(self, table: str, column: str) -> bool:
        return column in self._tables.get(table, ())

    def _columns(self, table: str, *columns: str) -> str:
        """Return these columns for a SELECT, with NULL for those that this version lacks."""
        return ", ".join(f"t.{each}" if self._has(table, each) else f"NULL AS {each}" for each in columns)

    def _list_strays(self) -> Iterator[str]:
        for what, table, column, of in (
            ("focus briefs", "focus_briefs", "", ""),
            ("parts of messages that are missing", "message_parts", "message_id", "messages"),
            ("links to messages of summaries that are missing", "summary_messages", "summary_id", "summaries"),
            ("links to sources of summaries that are missing", "summary_parents", "summary_id", "summaries"),
            ("summaries of conversations that are missing", "summaries", "conversation_id", "conversations"),
            ("files of conversations that are missing", "large_files", "conversation_id", "conversations"),
        ):
            if table in self._tables:
                lost = f" WHERE {column} NOT IN (SELECT {column} FROM {of})" if of else ""  # noqa: S608 - constants
                count = self._source.all(f"SELECT count(*) FROM {table}{lost}")[0][0]  # noqa: S608 - constants
                if count:
                    yield f"{count:,} {what} are not imported."

    def histories(self) -> list[History]:
        rows = self._source.all(
            "SELECT t.conversation_id, t.session_id, t.created_at,"  # noqa: S608 - constants
            f" {self._columns('conversations', 'session_key', 'active', 'updated_at', 'title', 'archived_at', 'archive_cause')}"
            " FROM conversations t ORDER BY t.conversation_id"
        )
        histories = [self._history(*row) for row in rows]
        # Before there were keys, one session could have several rows: the newest is the one in use.
        newest = {each.key: each.ref for each in histories if each.active}
        histories = [structs.replace(each, active=each.active and newest[each.key] == each.ref) for each in histories]
        return histories + [self._orphaned_history(row[0]) for row in self._without_conversation()]

    def _history(
        self,
        number: int,
        session: str | None,
        created: object,
        key: str | None,
        active: int | None,
        updated: object,
        title: str | None,
        archived: object,
        cause: str | None,
    ) -> History:
        at = parse_time(created) or _EPOCH
        return History(
            ref=str(number),
            key=(key or "").strip() or (session or "").strip() or f"{SYSTEM}:{number}",
            session=session or None,
            active=active != 0,
            created_at=at,
            updated_at=parse_time(updated) or at,
            title=title,
            archived_at=parse_time(archived),
            archive_cause=cause,
            messages=self._count("messages", number),
            summaries=self._count("summaries", number),
            files=self._count("large_files", number),
        )

    def _count(self, table: str, conversation: int) -> int:
        if table not in self._tables:
            return 0
        found = self._source.all(f"SELECT count(*) FROM {table} WHERE conversation_id = :id", id=conversation)  # noqa: S608 - constants
        return int(found[0][0])

    def _without_conversation(self) -> list[tuple[Any, ...]]:
        return self._source.all(
            "SELECT DISTINCT conversation_id FROM messages"
            " WHERE conversation_id NOT IN (SELECT conversation_id FROM conversations) ORDER BY 1"
        )

    def _orphaned_history(self, number: int) -> History:
        note = f"Conversation {number} is missing, its messages are not: they are imported as {SYSTEM}:{number}."
        if note not in self.unmapped:
            self.unmapped.append(note)
        return self._history(number, None, None, None, 0, None, None, None, None)

    def messages(self, history: History, *, after: str | None = None) -> Iterator[PastMessage]:
        rows = self._source.rows(
            "SELECT t.message_id, t.role, t.content, t.created_at,"  # noqa: S608 - constants
            f" {self._columns('messages', 'transcript_entry_id', 'stable_event_key', 'openclaw_sender_metadata')}"
            " FROM messages t WHERE t.conversation_id = :id AND (:after IS NULL OR (t.seq, t.message_id) >"
            " (SELECT b.seq, b.message_id FROM messages b WHERE b.message_id = :after)) ORDER BY t.seq, t.message_id",
            id=int(history.ref),
            after=None if after is None else int(after),
        )
        for number, role, content, created, entry, event, sender in rows:
            at = parse_time(created) or history.created_at
            message = structs.replace(
                _message(role, content or "", self._parts(number)),
                at=at,
                event_id=entry or f"claw:{number}",
                name=_sender(sender),
            )
            yield PastMessage(ref=str(number), message=message, created_at=at, aliases=(event,) if event else ())

    def _parts(self, message: int) -> list[dict[str, Any]]:
        columns = sorted(self._tables.get("message_parts", frozenset()) & KNOWN["message_parts"])
        if not columns:
            return []
        rows = self._source.rows(
            f"SELECT {', '.join(columns)} FROM message_parts WHERE message_id = :id ORDER BY ordinal",  # noqa: S608 - known names
            id=message,
        )
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def summaries(self, history: History) -> Iterator[PastSummary]:
        number = int(history.ref)
        edges = self._edges(number)
        depth = sqlite_reader.depths(edges)
        for ref in sorted(edges, key=lambda each: depth[each]):  # stable: within a depth, in the order they were made
            row = self._source.all(
                "SELECT t.content, t.created_at,"  # noqa: S608 - constants
                f" {self._columns('summaries', 'earliest_at', 'latest_at', 'model', 'file_ids')}"
                " FROM summaries t WHERE t.summary_id = :id",
                id=ref,
            )[0]
            text, created, earliest, latest, model, files = row
            yield PastSummary(
                ref=ref,
                depth=depth[ref],
                text=text or "",
                sources=edges[ref] or self._source_messages(ref),
                created_at=parse_time(created) or history.updated_at,
                earliest_at=parse_time(earliest),
                latest_at=parse_time(latest),
                model=model or "unknown",
                file_ids=tuple(each for each in parse_json(files) or () if isinstance(each, str)),
            )

    def _edges(self, conversation: int) -> dict[str, tuple[str, ...]]:
        """Return the sources of each summary, in the order the summaries were made."""
        names = self._source.all(
            "SELECT summary_id FROM summaries WHERE conversation_id = :id ORDER BY created_at, rowid", id=conversation
        )
        found: dict[str, list[str]] = {name: [] for (name,) in names}
        for summary, below in self._source.all(
            "SELECT l.summary_id, l.parent_summary_id FROM summary_parents l JOIN summaries s"
            " ON s.summary_id = l.summary_id WHERE s.conversation_id = :id ORDER BY l.summary_id, l.ordinal",
            id=conversation,
        ):
            found[summary].append(below)
        return {name: tuple(below) for name, below in found.items()}

    def _source_messages(self, summary: str) -> tuple[str, ...]:
        rows = self._source.all(
            "SELECT message_id FROM summary_messages WHERE summary_id = :id ORDER BY ordinal", id=summary
        )
        return tuple(str(row[0]) for row in rows)

    def items(self, history: History) -> Iterator[PastItem]:
        for kind, message, summary in self._source.rows(
            "SELECT item_type, message_id, summary_id FROM context_items WHERE conversation_id = :id ORDER BY ordinal",
            id=int(history.ref),
        ):
            yield PastItem("message", str(message)) if kind == "message" else PastItem("summary", str(summary))

    def files(self, history: History) -> Iterator[PastFile]:
        if "large_files" not in self._tables:
            return
        for ref, name, mime, uri, size, summary, created in self._source.rows(
            f"SELECT {self._columns('large_files', 'file_id', 'file_name', 'mime_type', 'storage_uri', 'byte_size')},"  # noqa: S608 - constants
            f" {self._columns('large_files', 'exploration_summary', 'created_at')}"
            " FROM large_files t WHERE t.conversation_id = :id ORDER BY t.rowid",
            id=int(history.ref),
        ):
            yield PastFile(
                ref=str(ref),
                name=name,
                mime=mime,
                data=self._bytes(str(uri)),
                summary=summary or "",
                created_at=parse_time(created) or history.created_at,
                size=size if isinstance(size, int) else None,
            )

    def _bytes(self, uri: str) -> bytes | None:
        """Return the bytes of a file in the files directory; no other file is read, whatever a row says."""
        with suppress(OSError, ValueError, InvalidInput):
            path = _path_inside(self._root, uri)
            return _read(path) if path else None
        return None

    def _list_unreadable(self) -> Iterator[str]:
        if "large_files" not in self._tables:
            return
        for ref, uri in self._source.rows("SELECT file_id, storage_uri FROM large_files ORDER BY rowid"):
            try:
                path = _path_inside(self._root, str(uri))
                readable = path is not None and os.access(path, os.R_OK) and _is_readable(path.stat())
            except (OSError, ValueError):
                readable = False
            if not readable:
                yield f"The bytes of {ref} are not in {self._root}. Its description is imported."

    def close(self) -> None:
        self._source.close()


def _path_inside(root: Path, uri: str) -> Path | None:
    """Return the file in the files directory that a stored address names, even after a move."""
    path = Path(unquote(urlsplit(uri).path) if uri.startswith("file:") else uri)
    for candidate in (path, root / path.parent.name / path.name, root / path.name):
        found = candidate.resolve()
        if found.is_relative_to(root) and found.is_file():
            return found
    return None


def _is_readable(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_BYTES


def _read(path: Path) -> bytes | None:
    refuse_database(path)  # it may be open in this process, and locked
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as stream:
        return stream.read() if _is_readable(os.fstat(handle)) else None


def _sender(metadata: object) -> str | None:
    sender = parse_json(metadata)
    names = (
        [sender.get(each) for each in ("senderName", "senderUsername", "senderId")] if isinstance(sender, dict) else []
    )
    return next((name for name in names if isinstance(name, str) and name), None)


def _message(role: str, content: str, parts: list[dict[str, Any]]) -> Message:
    """Return the host's message; if its parts are empty, the role and the text stored beside them."""
    plain = Message(role, (Text(content),))
    if not parts:
        return plain
    try:
        message = openclaw.load(_record(role, parts))
    except LosslessError:
        return plain
    says = message.text or any(not isinstance(part, Text) for part in message.parts if not _is_empty(part))
    return message if says or not content else plain


def _is_empty(part: Any) -> bool:
    return isinstance(part, ToolCall) and not part.name


def _record(role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a message of the host, built from its parts."""
    notes = [note if isinstance(note := parse_json(part.get("metadata")), dict) else {} for part in parts]
    first, note = parts[0], notes[0]
    host_role = note.get("originalRole") or {"tool": "toolResult"}.get(role, role)
    record: dict[str, Any] = {"role": host_role}
    if host_role == "toolResult":
        record["toolCallId"] = note.get("toolCallId") or first.get("tool_call_id") or ""
        if name := note.get("toolName") or first.get("tool_name"):
            record["toolName"] = name
    if len(parts) == 1 and "raw" not in note and first["part_type"] == "text":
        record["content"] = first.get("text_content") or ""
    else:
        record["content"] = [_block(part, each, host_role) for part, each in zip(parts, notes, strict=True)]
    for key, name in (("modelApi", "api"), ("modelProvider", "provider"), ("modelId", "model")):
        if key in note:
            record[name] = note[key]
    if host_role == "toolResult":
        record["isError"] = bool(note.get("isError"))
    if isinstance(field := note.get("topLevelReasoningField"), str):
        record[field] = note.get("topLevelReasoningContent")
    return record


def _block(part: dict[str, Any], note: dict[str, Any], role: str) -> Any:
    """Return one block of a message: as the host wrote it, or built from its columns."""
    if "raw" in note:
        return note["raw"]
    match part["part_type"], role:
        case "text", _:
            return {"type": "text", "text": part.get("text_content") or ""}
        case "reasoning", _:
            return {"type": "thinking", "thinking": part.get("text_content") or ""}
        case "tool", "toolResult":
            return {"type": "text", "text": part.get("tool_output") or part.get("text_content") or ""}
        case "tool", _ if part.get("tool_name"):
            arguments = parse_json(part.get("tool_input"))
            return {
                "type": "toolCall",
                "id": part.get("tool_call_id") or "",
                "name": part["tool_name"],
                "arguments": arguments if isinstance(arguments, dict) else part.get("tool_input") or {},
            }
    fields = {key: value for key, value in part.items() if value is not None and key not in _OWN_COLUMNS}
    return {"type": part["part_type"], **fields, **({"metadata": note} if note else {})}
