"""Every query that both databases share, beside the row it becomes.

Written in the subset both speak, with `:name` parameters. A dialect adds connecting, transactions,
bulk writing, search and its own care; nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec.structs import asdict, astuple, replace

from lossless.errors import ContextMoved, StoreFull
from lossless.store import jsontext
from lossless.store.base import (
    MESSAGE,
    SPAN,
    USER_MESSAGE,
    BranchRow,
    ConversationRow,
    DebtRow,
    FileRow,
    GrantRow,
    ItemRow,
    KnownEvent,
    Manifest,
    Match,
    MessageRow,
    NewManifest,
    NewMessage,
    NewSummary,
    PinRow,
    ReadRow,
    SummaryMatch,
    SummaryRow,
    TextKind,
    TextRow,
)

_CONVERSATION = "id, key, active, session, next_seq, context_tokens, created_at, updated_at"
_MESSAGE = ", ".join(f"m.{column}" for column in (*NewMessage.__struct_fields__, "id"))
_SUMMARY = ", ".join(f"s.{column}" for column in SummaryRow.__struct_fields__)
_ACTIVE = f"SELECT {_CONVERSATION} FROM conversation WHERE owner = :owner AND key = :key AND active = 1"  # noqa: S608 - constants
_FILE = "id, sha256, name, mime, bytes, lines, summary, created_at"
# Ownership is asked of the database in every statement, not remembered by its callers.
_DEBT = ", ".join(f"d.{column}" for column in DebtRow.__struct_fields__).replace("d.key", "c.key")
_BRANCH = ", ".join(f"s.{column}" for column in BranchRow.__struct_fields__)
_GRANT = ", ".join(column for column in GrantRow.__struct_fields__ if column != "conversation_ids")
_FREE = "d.next_at <= :now AND (d.lease_until IS NULL OR d.lease_until <= :now)"
_UNSETTLED = "(s.stale = 1 OR s.level = 'extractive' OR s.level = 'cut')"
_OWNED = "EXISTS (SELECT 1 FROM conversation c WHERE c.id = :conversation AND c.owner = :owner)"
_TEXTS = {
    "message": (
        "message",
        "coalesce(t.at, t.created_at)",
        f"t.id > c.id * {SPAN} AND t.id < (c.id + 1) * {SPAN}",
        "t.role, NULL, NULL",
    ),
    "summary": (
        "summary",
        "coalesce(t.latest_at, t.created_at)",
        "t.conversation_id = c.id",
        "NULL, t.public_id, t.depth",
    ),
}
"""Of each kind of text: its table, its time, what joins it to its conversation, and what it has besides."""
_NO_LIMIT = 9_223_372_036_854_775_807

Row = tuple[Any, ...]


class SQLStore(ABC):
    """The shared half of a store; see `lossless.store.base.Store` for what each method promises."""

    owner: str
    location: str
    read_only: bool

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def all(self, sql: str, **parameters: Any) -> list[Row]:
        """The rows of a query, in this thread's transaction if there is one."""

    @abstractmethod
    def run(self, sql: str, **parameters: Any) -> int:
        """A write inside the transaction; how many rows it changed."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Many rows into one table, in the fastest way the database has."""

    @abstractmethod
    def index(self, texts: Sequence[tuple[int, str]]) -> None:
        """The words of new messages into the search index."""

    @abstractmethod
    def remember_events(self, conversation_id: int, events: Sequence[tuple[str, int]]) -> None:
        """Event ids of new messages, where the database keeps them apart from the messages."""

    @abstractmethod
    def search(
        self,
        question: str,
        *,
        conversation_ids: Sequence[int] | None = None,
        limit: int = 20,
        since: int | None = None,
        before: int | None = None,
        roles: Sequence[str] | None = None,
    ) -> list[Match]: ...

    @abstractmethod
    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]: ...

    @abstractmethod
    def check_search(self) -> list[str]: ...

    @abstractmethod
    def rebuild_search(self) -> int: ...

    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def integrity(self) -> list[str]: ...

    for_update = ""
    skip_locked = ""

    def conversation(self, key: str) -> ConversationRow | None:
        rows = self.all(_ACTIVE, owner=self.owner, key=key)
        return _conversation(rows[0]) if rows else None

    def conversations(self) -> list[ConversationRow]:
        rows = self.all(
            f"SELECT {_CONVERSATION} FROM conversation WHERE owner = :owner ORDER BY updated_at DESC, id DESC",  # noqa: S608 - constants
            owner=self.owner,
        )
        return [_conversation(row) for row in rows]

    def lock_conversation(self, key: str, session: str | None, now: int) -> ConversationRow:
        find = _ACTIVE + self.for_update
        rows = self.all(find, owner=self.owner, key=key)
        if not rows:
            # Whoever loses the race to create it finds the winner's row.
            self.run(
                "INSERT INTO conversation (owner, key, session, created_at, updated_at)"
                " VALUES (:owner, :key, :session, :now, :now) ON CONFLICT DO NOTHING",
                owner=self.owner,
                key=key,
                session=session,
                now=now,
            )
            rows = self.all(find, owner=self.owner, key=key)
        found = _conversation(rows[0])
        if session is not None and found.session != session:
            self.run("UPDATE conversation SET session = :session WHERE id = :id", session=session, id=found.id)
        return found

    def append(self, conversation: ConversationRow, rows: Sequence[NewMessage], now: int) -> None:
        first = conversation.next_seq
        start = conversation.id * SPAN + first
        if first + len(rows) > SPAN:
            raise StoreFull(f"The conversation {conversation.key} is full.", hint="Go on under another key.")
        self.insert(
            "message",
            ("id", *NewMessage.__struct_fields__),
            [(at, *astuple(row)) for at, row in enumerate(rows, start)],
        )
        self.index([(at, row.text) for at, row in enumerate(rows, start)])
        self.remember_events(
            conversation.id, [(row.event_id, seq) for seq, row in enumerate(rows, first) if row.event_id is not None]
        )
        seen = [
            (conversation.id, seq, None, row.tokens, USER_MESSAGE if row.role == "user" else MESSAGE)
            for seq, row in enumerate(rows, first)
            if row.outside is None
        ]
        self.insert("item", ("conversation_id", "ordinal", "summary_id", "tokens", "depth"), seen)
        self.run(
            "UPDATE conversation SET next_seq = next_seq + :count, context_tokens = context_tokens + :tokens,"
            " updated_at = :now WHERE id = :id",
            count=len(rows),
            tokens=sum(item[3] for item in seen),
            now=now,
            id=conversation.id,
        )

    def keep_copy(self, conversation_id: int, seq: int, row: NewMessage) -> bool:
        added = self.run(
            "INSERT INTO copy (message_id, digest, text, parts, meta, at, created_at)"
            " VALUES (:message, :digest, :text, :parts, :meta, :at, :created_at) ON CONFLICT DO NOTHING",
            message=conversation_id * SPAN + seq,
            digest=row.digest,
            text=row.text,
            parts=row.parts,
            meta=row.meta,
            at=row.at,
            created_at=row.created_at,
        )
        return added > 0

    def copies(self, conversation_id: int, seq: int) -> list[bytes]:
        """The digests of the other texts kept under a message's event id."""
        rows = self.all(
            f"SELECT digest FROM copy WHERE message_id = :message AND {_OWNED} ORDER BY created_at, digest",  # noqa: S608 - constants
            message=conversation_id * SPAN + seq,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [bytes(row[0]) for row in rows]

    def messages(self, conversation_id: int, *, after: int = 0, limit: int | None = None) -> list[MessageRow]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT {_MESSAGE} FROM message m WHERE m.id > :first AND m.id < :last AND {_OWNED}"  # noqa: S608 - constants
            " ORDER BY m.id LIMIT :limit",
            first=base + max(0, min(after, SPAN - 1)),
            last=base + SPAN,
            limit=_NO_LIMIT if limit is None else min(limit, _NO_LIMIT),
            conversation=conversation_id,
            owner=self.owner,
        )
        return [_message(row, base) for row in rows]

    def messages_at(self, conversation_id: int, seqs: Sequence[int]) -> list[MessageRow]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT {_MESSAGE} FROM message m WHERE m.id IN ({self.each_of('ids', 'bigint')}) AND {_OWNED} ORDER BY m.id",  # noqa: S608 - constants
            ids=self.listing([base + seq for seq in seqs]),
            conversation=conversation_id,
            owner=self.owner,
        )
        return [_message(row, base) for row in rows]

    @abstractmethod
    def known_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]: ...

    @abstractmethod
    def hold_files(self, *, alone: bool) -> None: ...

    @abstractmethod
    def each_of(self, name: str, kind: str) -> str:
        """A query giving the column `value`, of an SQL type, for each element of a list parameter."""

    @abstractmethod
    def listing(self, values: Sequence[Any]) -> Any:
        """A list as the parameter that `each_of` reads."""

    @abstractmethod
    def needle(self, literal: str, *, folded: bool) -> tuple[str, str]:
        """How a literal is looked for in `t.text`: a condition with a place for a parameter, and the parameter.

        Texts without it may pass, if that is faster; a `folded` one is in lower case and found in either.
        """

    def digests(self, conversation_id: int, *, after: int = 0) -> list[bytes]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT digest FROM message m WHERE m.id > :first AND m.id < :last AND {_OWNED} ORDER BY m.id",  # noqa: S608 - constants
            first=base + after,
            last=base + SPAN,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [bytes(row[0]) for row in rows]

    def items(self, conversation_id: int) -> list[ItemRow]:
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"  # noqa: S608 - constants
            f" WHERE i.conversation_id = :conversation AND {_OWNED} ORDER BY i.ordinal",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in rows]

    def newest_items(self, conversation_id: int, limit: int) -> list[ItemRow]:
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"  # noqa: S608 - constants
            f" WHERE i.conversation_id = :conversation AND {_OWNED} ORDER BY i.ordinal DESC LIMIT :limit",
            conversation=conversation_id,
            limit=limit,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in reversed(rows)]

    def context_messages(self, conversation_id: int, *, first: int = 0) -> list[MessageRow]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT {_MESSAGE} FROM item i JOIN message m ON m.id = :base + i.ordinal"  # noqa: S608 - constants
            " WHERE i.conversation_id = :conversation AND i.ordinal >= :first AND i.summary_id IS NULL"
            f" AND {_OWNED} ORDER BY i.ordinal",
            base=base,
            conversation=conversation_id,
            first=first,
            owner=self.owner,
        )
        return [_message(row, base) for row in rows]

    def replace(self, conversation: ConversationRow, items: Sequence[ItemRow], summary: NewSummary) -> ItemRow:
        first, last = items[0].ordinal, items[-1].ordinal
        with self.transaction():
            held = self.lock_conversation(conversation.key, None, summary.created_at)
            there = [] if held.id != conversation.id else self._between(held.id, first, last)
            if there != [(item.ordinal, item.summary_id, item.tokens) for item in items]:
                raise ContextMoved(f"The context of {conversation.key} changed while it was being summarised.")
            summary_id = self._insert_summary(conversation.id, summary)
            self._link(conversation.id, summary_id, items)
            self.run(
                "DELETE FROM item WHERE conversation_id = :conversation AND ordinal >= :first AND ordinal <= :last",
                conversation=conversation.id,
                first=first,
                last=last,
            )
            columns = ("conversation_id", "ordinal", "summary_id", "tokens", "depth")
            self.insert("item", columns, [(conversation.id, first, summary_id, summary.tokens, summary.depth)])
            self.run(
                "UPDATE conversation SET context_tokens = context_tokens + :change WHERE id = :id",
                change=summary.tokens - sum(item.tokens for item in items),
                id=conversation.id,
            )
            self.index_summary(summary_id, summary.text)
        return ItemRow(first, summary_id, summary.tokens, summary.depth)

    def _between(self, conversation_id: int, first: int, last: int) -> list[Row]:
        return self.all(
            "SELECT ordinal, summary_id, tokens FROM item WHERE conversation_id = :conversation"
            " AND ordinal >= :first AND ordinal <= :last ORDER BY ordinal",
            conversation=conversation_id,
            first=first,
            last=last,
        )

    def _insert_summary(self, conversation_id: int, summary: NewSummary) -> int:
        columns = NewSummary.__struct_fields__
        places = ", ".join(f":{column}" for column in columns)
        rows = self.all(
            f"INSERT INTO summary (conversation_id, {', '.join(columns)})"  # noqa: S608 - constants
            f" VALUES (:conversation_id, {places}) RETURNING id",
            conversation_id=conversation_id,
            **asdict(summary),
        )
        return int(rows[0][0])

    def _link(self, conversation_id: int, summary_id: int, items: Sequence[ItemRow]) -> None:
        if items[0].is_message:
            base = conversation_id * SPAN
            self.insert(
                "summary_message", ("message_id", "summary_id"), [(base + i.ordinal, summary_id) for i in items]
            )
        else:
            links = [(summary_id, item.summary_id, at) for at, item in enumerate(items)]
            self.insert("summary_source", ("summary_id", "source_id", "ordinal"), links)

    def summaries(self, conversation_id: int, ids: Sequence[int] | None = None) -> list[SummaryRow]:
        chosen = "" if ids is None else f"AND s.id IN ({self.each_of('ids', 'bigint')})"
        rows = self.all(
            f"SELECT {_SUMMARY} FROM summary s WHERE s.conversation_id = :conversation {chosen} AND {_OWNED}"  # noqa: S608 - constants
            " ORDER BY s.id",
            conversation=conversation_id,
            ids=self.listing(ids or ()),
            owner=self.owner,
        )
        return [SummaryRow(*row) for row in rows]

    def sources(self, conversation_id: int, summary_id: int) -> tuple[list[int], list[int]]:
        messages = self.all(
            f"SELECT l.message_id FROM summary_message l WHERE l.summary_id = :id AND {_OWNED} ORDER BY 1",  # noqa: S608 - constants
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        summaries = self.all(
            f"SELECT l.source_id FROM summary_source l WHERE l.summary_id = :id AND {_OWNED} ORDER BY l.ordinal",  # noqa: S608 - constants
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [row[0] % SPAN for row in messages], [row[0] for row in summaries]

    def source_ids(self, conversation_id: int, ids: Sequence[int]) -> dict[int, list[str]]:
        rows = self.all(
            "SELECT l.summary_id, s.public_id FROM summary_source l JOIN summary s ON s.id = l.source_id"  # noqa: S608 - constants
            f" WHERE l.summary_id IN ({self.each_of('ids', 'bigint')}) AND s.conversation_id = :conversation AND {_OWNED}"
            " ORDER BY l.summary_id, l.ordinal",
            ids=self.listing(ids),
            conversation=conversation_id,
            owner=self.owner,
        )
        found: dict[int, list[str]] = {}
        for summary_id, public_id in rows:
            found.setdefault(summary_id, []).append(public_id)
        return found

    def summary_id(self, conversation_id: int, public_id: str) -> int | None:
        rows = self.all(
            f"SELECT s.id FROM summary s WHERE s.public_id = :id AND s.conversation_id = :conversation AND {_OWNED}",  # noqa: S608 - constants
            id=public_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return int(rows[0][0]) if rows else None

    def leaf_of(self, conversation_id: int, seq: int) -> int | None:
        rows = self.all(
            f"SELECT max(l.summary_id) FROM summary_message l WHERE l.message_id = :id AND {_OWNED}",  # noqa: S608 - constants
            id=conversation_id * SPAN + seq,
            conversation=conversation_id,
            owner=self.owner,
        )
        return None if rows[0][0] is None else int(rows[0][0])

    def consumer(self, conversation_id: int, summary_id: int) -> int | None:
        rows = self.all(
            f"SELECT max(l.summary_id) FROM summary_source l WHERE l.source_id = :id AND {_OWNED}",  # noqa: S608 - constants
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return None if rows[0][0] is None else int(rows[0][0])

    def revisions(self, conversation_id: int, ids: Sequence[int]) -> dict[tuple[int, int], str]:
        rows = self.all(
            "SELECT r.summary_id, r.revision, r.text FROM revision r JOIN summary s ON s.id = r.summary_id"  # noqa: S608 - constants
            f" WHERE r.summary_id IN ({self.each_of('ids', 'bigint')}) AND s.conversation_id = :conversation AND {_OWNED}",
            ids=self.listing(ids),
            conversation=conversation_id,
            owner=self.owner,
        )
        return {(summary_id, revision): text for summary_id, revision, text in rows}

    @abstractmethod
    def index_summary(self, summary_id: int, text: str) -> None:
        """The words of a summary into its search index, in the place of what it said before."""

    def unsettled(self, conversation_id: int, *, tries: int, limit: int) -> list[SummaryRow]:
        rows = self.all(
            f"SELECT {_SUMMARY} FROM summary s WHERE s.conversation_id = :conversation AND {_UNSETTLED}"  # noqa: S608 - constants
            f" AND s.tries < :tries AND {_OWNED} ORDER BY s.depth, s.id LIMIT :limit",
            conversation=conversation_id,
            tries=tries,
            limit=limit,
            owner=self.owner,
        )
        return [SummaryRow(*row) for row in rows]

    def before(self, conversation_id: int, summary_id: int, depth: int) -> list[SummaryRow]:
        rows = self.all(
            f"SELECT {_SUMMARY} FROM summary s WHERE s.conversation_id = :conversation AND s.depth = :depth"  # noqa: S608 - constants
            f" AND s.id < :id AND {_OWNED} ORDER BY s.id DESC LIMIT 2",
            conversation=conversation_id,
            depth=depth,
            id=summary_id,
            owner=self.owner,
        )
        return [SummaryRow(*row) for row in reversed(rows)]

    def revise(self, conversation_id: int, old: SummaryRow, new: NewSummary) -> bool:
        with self.transaction():
            # Held first, as `replace` does: two that write the same context never wait for each other.
            self.all(
                f"SELECT id FROM conversation WHERE id = :conversation{self.for_update}",  # noqa: S608 - constants
                conversation=conversation_id,
            )
            changed = self.run(
                "UPDATE summary SET text = :text, tokens = :tokens, model = :model, level = :level,"  # noqa: S608 - constants
                " prompt_version = :prompt_version, faithful = :faithful, created_at = :created_at,"
                " revision = revision + 1, stale = 0, tries = 0"
                f" WHERE id = :id AND conversation_id = :conversation AND revision = :revision AND {_OWNED}",
                id=old.id,
                conversation=conversation_id,
                revision=old.revision,
                owner=self.owner,
                text=new.text,
                tokens=new.tokens,
                model=new.model,
                level=new.level,
                prompt_version=new.prompt_version,
                faithful=new.faithful,
                created_at=new.created_at,
            )
            if not changed:
                return False
            self._keep_revision(old)
            self.run(
                "UPDATE summary SET stale = 1, tries = 0 WHERE id IN"
                " (SELECT summary_id FROM summary_source WHERE source_id = :id)",
                id=old.id,
            )
            shown = self.run("UPDATE item SET tokens = :tokens WHERE summary_id = :id", tokens=new.tokens, id=old.id)
            if shown:
                self.run(
                    "UPDATE conversation SET context_tokens = context_tokens + :change WHERE id = :id",
                    change=new.tokens - old.tokens,
                    id=conversation_id,
                )
            self.index_summary(old.id, new.text)
        return True

    def _keep_revision(self, old: SummaryRow) -> None:
        columns = ("text", "tokens", "model", "level", "prompt_version", "faithful", "created_at")
        values = tuple(getattr(old, column) for column in columns)
        self.insert("revision", ("summary_id", "revision", *columns), [(old.id, old.revision, *values)])

    def note_try(self, conversation_id: int, summary_id: int) -> None:
        with self.transaction():
            self.run(
                f"UPDATE summary SET tries = tries + 1 WHERE id = :id AND conversation_id = :conversation AND {_OWNED}",  # noqa: S608 - constants
                id=summary_id,
                conversation=conversation_id,
                owner=self.owner,
            )

    def family(self, key: str) -> list[ConversationRow]:
        rows = self.all(
            f"SELECT {_CONVERSATION} FROM conversation WHERE owner = :owner AND key = :key ORDER BY active DESC, id DESC",  # noqa: S608 - constants
            owner=self.owner,
            key=key,
        )
        return [_conversation(row) for row in rows]

    def summary_named(self, public_id: str) -> tuple[int, SummaryRow] | None:
        rows = self.all(
            f"SELECT c.id, {_SUMMARY} FROM summary s JOIN conversation c ON c.id = s.conversation_id"  # noqa: S608 - constants
            " WHERE s.public_id = :id AND c.owner = :owner",
            id=public_id,
            owner=self.owner,
        )
        return (rows[0][0], SummaryRow(*rows[0][1:])) if rows else None

    def consumers(self, conversation_id: int, summary_id: int) -> list[str]:
        rows = self.all(
            "SELECT s.public_id FROM summary_source l JOIN summary s ON s.id = l.summary_id"  # noqa: S608 - constants
            f" WHERE l.source_id = :id AND s.conversation_id = :conversation AND {_OWNED} ORDER BY s.id",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [row[0] for row in rows]

    def links_below(self, conversation_id: int, summary_id: int) -> list[tuple[int, int]]:
        # UNION and not UNION ALL: a damaged history that leads back to itself must end all the same.
        rows = self.all(
            "WITH RECURSIVE below (id) AS (SELECT s.id FROM summary s WHERE s.id = :id AND s.conversation_id = :conversation"  # noqa: S608 - constants
            f" AND {_OWNED} UNION SELECT l.source_id FROM summary_source l JOIN below b ON b.id = l.summary_id)"
            " SELECT l.summary_id, l.source_id FROM summary_source l JOIN below b ON b.id = l.summary_id"
            " ORDER BY l.summary_id, l.ordinal",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [(row[0], row[1]) for row in rows]

    def branches(self, conversation_id: int, ids: Sequence[int]) -> dict[int, BranchRow]:
        rows = self.all(
            f"SELECT {_BRANCH} FROM summary s WHERE s.conversation_id = :conversation"  # noqa: S608 - constants
            f" AND s.id IN ({self.each_of('ids', 'bigint')}) AND {_OWNED}",
            conversation=conversation_id,
            ids=self.listing(ids),
            owner=self.owner,
        )
        return {row[0]: BranchRow(*row) for row in rows}

    def leaves_over(self, conversation_id: int, seqs: Sequence[int]) -> dict[int, str]:
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT l.message_id, s.public_id FROM summary_message l JOIN summary s ON s.id = l.summary_id"  # noqa: S608 - constants
            f" WHERE l.message_id IN ({self.each_of('ids', 'bigint')}) AND s.conversation_id = :conversation"
            f" AND {_OWNED} ORDER BY s.id DESC",
            ids=self.listing([base + seq for seq in seqs]),
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0] - base: row[1] for row in rows}

    def places(
        self,
        kind: TextKind,
        conversation_ids: Sequence[int],
        *,
        among: Sequence[int] | None = None,
        holding: Sequence[tuple[Sequence[str], bool]] = (),
        since: int | None = None,
        before: int | None = None,
        below: tuple[int, int] | None = None,
        limit: int,
    ) -> list[tuple[int, int]]:
        table, time, within, _ = _TEXTS[kind]
        conditions = [
            (f"t.id IN ({self.each_of('among', 'bigint')})", among is not None),
            (f"{time} >= :since", since is not None),
            (f"{time} < :before", before is not None),
            (f"({time}, t.id) < (:at, :id)", below is not None),
        ]
        chosen = [condition for condition, is_asked in conditions if is_asked]
        needles: dict[str, str] = {}
        for any_of, folded in holding:
            held = []
            for literal in any_of:
                name = f"needle{len(needles)}"
                condition, needles[name] = self.needle(literal, folded=folded)
                held.append(condition.format(f":{name}"))
            chosen.append(f"({' OR '.join(held)})")
        # Whoever names the ids finds their conversations; else a conversation is a stretch of ids.
        joined = f"{table} t JOIN conversation c ON c.id = t.conversation_id"
        if among is None:
            joined = f"conversation c JOIN {table} t ON {within}"
        rows = self.all(
            f"SELECT {time}, t.id FROM {joined} WHERE c.owner = :owner"  # noqa: S608 - constants
            f" AND c.id IN ({self.each_of('conversations', 'bigint')})"
            + "".join(f" AND {condition}" for condition in chosen)
            + " ORDER BY 1 DESC, 2 DESC LIMIT :limit",
            owner=self.owner,
            conversations=self.listing(conversation_ids),
            among=self.listing(among or ()),
            since=since,
            before=before,
            at=below[0] if below else None,
            id=below[1] if below else None,
            limit=limit,
            **needles,
        )
        return [(row[0], row[1]) for row in rows]

    def texts(self, kind: TextKind, ids: Sequence[int]) -> list[TextRow]:
        table, time, _, more = _TEXTS[kind]
        rows = self.all(
            f"SELECT t.id, c.id, {time}, t.text, {more} FROM {table} t JOIN conversation c ON c.id = t.conversation_id"  # noqa: S608 - constants
            f" WHERE t.id IN ({self.each_of('ids', 'bigint')}) AND c.owner = :owner",
            ids=self.listing(ids),
            owner=self.owner,
        )
        return [TextRow(*row) for row in rows]

    def without_vector(self, conversation_id: int, model: str, *, after: int = 0, limit: int) -> list[tuple[int, str]]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT m.id, m.text FROM message m WHERE m.id > :after AND m.id < :last AND {_OWNED}"  # noqa: S608 - constants
            " AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.message_id = m.id AND v.model = :model)"
            " ORDER BY m.id DESC LIMIT :limit",
            after=base + after,
            last=base + SPAN,
            conversation=conversation_id,
            owner=self.owner,
            model=model,
            limit=limit,
        )
        return [(row[0], row[1]) for row in rows]

    def add_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        for identity, data in vectors:
            self.run(
                "INSERT INTO vector (message_id, model, data) SELECT m.id, :model, :data FROM message m"
                " JOIN conversation c ON c.id = m.conversation_id WHERE m.id = :id AND c.owner = :owner"
                " ON CONFLICT (message_id) DO UPDATE SET model = excluded.model, data = excluded.data",
                id=identity,
                model=model,
                data=data,
                owner=self.owner,
            )

    def vectors(self, model: str, ids: Sequence[int]) -> dict[int, bytes]:
        rows = self.all(
            "SELECT v.message_id, v.data FROM vector v JOIN message m ON m.id = v.message_id"  # noqa: S608 - our names
            " JOIN conversation c ON c.id = m.conversation_id WHERE v.model = :model AND c.owner = :owner"
            f" AND v.message_id IN ({self.each_of('ids', 'bigint')})",
            ids=self.listing(ids),
            model=model,
            owner=self.owner,
        )
        return {row[0]: row[1] for row in rows}

    def vectors_in(
        self,
        model: str,
        conversation_ids: Sequence[int],
        *,
        since: int | None = None,
        before: int | None = None,
        below: int | None = None,
        limit: int,
    ) -> list[tuple[int, bytes]]:
        # A stretch of the table, read backwards, so that nothing has to be sorted.
        conditions = [
            ("v.message_id < :below", below is not None),
            (
                "EXISTS (SELECT 1 FROM message m WHERE m.id = v.message_id AND coalesce(m.at, m.created_at) >= :since"
                " AND coalesce(m.at, m.created_at) < :before)",
                since is not None or before is not None,
            ),
        ]
        rows = self.all(
            "SELECT v.message_id, v.data FROM vector v WHERE v.message_id > :first AND v.message_id < :last"  # noqa: S608 - our names
            f" AND v.model = :model AND v.message_id / {SPAN} IN (SELECT c.id FROM conversation c"
            f" WHERE c.owner = :owner AND c.id IN ({self.each_of('conversations', 'bigint')}))"
            + "".join(f" AND {condition}" for condition, is_asked in conditions if is_asked)
            + " ORDER BY v.message_id DESC LIMIT :limit",
            first=min(conversation_ids, default=0) * SPAN,
            last=(max(conversation_ids, default=0) + 1) * SPAN,
            model=model,
            owner=self.owner,
            conversations=self.listing(conversation_ids),
            since=-_NO_LIMIT if since is None else since,
            before=_NO_LIMIT if before is None else before,
            below=below,
            limit=limit,
        )
        return [(row[0], row[1]) for row in rows]

    def add_grant(self, row: GrantRow) -> None:
        *values, conversation_ids = astuple(row)
        columns = (*GrantRow.__struct_fields__[:-1], "owner")
        self.insert("recall_grant", columns, [(*values, self.owner)])
        self.run(
            "INSERT INTO grant_conversation (grant_id, conversation_id) SELECT :id, c.id FROM conversation c"  # noqa: S608 - constants
            f" WHERE c.owner = :owner AND c.id IN ({self.each_of('ids', 'bigint')})",
            id=row.id,
            owner=self.owner,
            ids=self.listing(conversation_ids),
        )

    def grant(self, grant_id: str) -> GrantRow | None:
        rows = self.all(
            f"SELECT {_GRANT} FROM recall_grant WHERE id = :id AND owner = :owner",  # noqa: S608 - constants
            id=grant_id,
            owner=self.owner,
        )
        if not rows:
            return None
        allowed = self.all(
            "SELECT conversation_id FROM grant_conversation WHERE grant_id = :id ORDER BY 1", id=grant_id
        )
        return GrantRow(*(*rows[0], tuple(each[0] for each in allowed)))

    def reserve(self, grant_id: str, tokens: int, now: int) -> bool:
        with self.transaction():
            held = self.run(
                "UPDATE recall_grant SET used_tokens = used_tokens + :tokens WHERE id = :id AND owner = :owner"
                " AND used_tokens + :tokens <= max_tokens AND revoked_at IS NULL AND expires_at > :now",
                tokens=tokens,
                id=grant_id,
                owner=self.owner,
                now=now,
            )
        return held > 0

    def spend(self, grant_id: str, unused: int, reads: Sequence[ReadRow]) -> None:
        with self.transaction():
            self.run(
                "UPDATE recall_grant SET used_tokens = used_tokens - :unused WHERE id = :id AND owner = :owner",
                unused=unused,
                id=grant_id,
                owner=self.owner,
            )
            columns = ("grant_id", *ReadRow.__struct_fields__)
            self.insert("grant_read", columns, [(grant_id, *astuple(read)) for read in reads])

    def reads(self, grant_id: str) -> list[ReadRow]:
        rows = self.all(
            "SELECT r.verb, r.what, r.tokens, r.at FROM grant_read r JOIN recall_grant g ON g.id = r.grant_id"
            " WHERE g.id = :id AND g.owner = :owner ORDER BY r.at",
            id=grant_id,
            owner=self.owner,
        )
        return [ReadRow(*row) for row in rows]

    def revoke(self, grant_id: str, now: int) -> bool:
        with self.transaction():
            known = self.run(
                "UPDATE recall_grant SET revoked_at = coalesce(revoked_at, :now) WHERE id = :id AND owner = :owner",
                now=now,
                id=grant_id,
                owner=self.owner,
            )
        return known > 0

    def forget_grants(self, ended_before: int) -> int:
        with self.transaction():
            return self.run(
                "DELETE FROM recall_grant WHERE owner = :owner AND coalesce(revoked_at, expires_at) < :before",
                owner=self.owner,
                before=ended_before,
            )

    def owe(self, conversation_id: int, window: int, overhead: int, model: str | None, now: int) -> None:
        self.run(
            "INSERT INTO debt (conversation_id, pending, window_tokens, overhead, model, requested_at)"
            " VALUES (:conversation, 1, :window, :overhead, :model, :now) ON CONFLICT (conversation_id) DO UPDATE SET"
            " attempts = CASE debt.pending WHEN 1 THEN debt.attempts ELSE 0 END,"
            " next_at = CASE debt.pending WHEN 1 THEN debt.next_at ELSE 0 END,"
            " requested_at = CASE debt.pending WHEN 1 THEN debt.requested_at ELSE excluded.requested_at END,"
            " pending = 1, window_tokens = excluded.window_tokens, overhead = excluded.overhead, model = excluded.model,"
            " revision = debt.revision + 1",
            conversation=conversation_id,
            window=window,
            overhead=overhead,
            model=model,
            now=now,
        )

    def debt(self, conversation_id: int) -> DebtRow | None:
        rows = self.all(
            f"SELECT {_DEBT} FROM debt d JOIN conversation c ON c.id = d.conversation_id"  # noqa: S608 - constants
            " WHERE d.conversation_id = :conversation AND c.owner = :owner",
            conversation=conversation_id,
            owner=self.owner,
        )
        return _debt(rows[0]) if rows else None

    def is_owed(self) -> bool:
        rows = self.all(
            "SELECT 1 FROM debt d JOIN conversation c ON c.id = d.conversation_id"
            " WHERE c.owner = :owner AND c.active = 1 AND d.pending = 1 LIMIT 1",
            owner=self.owner,
        )
        return bool(rows)

    def claim(self, worker: str, *, now: int, idle_before: int, lease_until: int, tries: int) -> DebtRow | None:
        found = self._payable(now, idle_before)
        unsettled = [] if found or not tries else self._with_unsettled(now, idle_before, tries)
        if not (found or unsettled):
            return None  # seen without holding anything: looking for work must not keep writers waiting
        with self.transaction():
            for conversation_id in unsettled:
                self._owe_anew(conversation_id, now)
            found = self._payable(now, idle_before, self.skip_locked)
            if not found:
                return None
            self.run(
                "UPDATE debt SET worker = :worker, lease_until = :until WHERE conversation_id = :conversation",
                worker=worker,
                until=lease_until,
                conversation=found[0].conversation_id,
            )
        return replace(found[0], worker=worker, lease_until=lease_until)

    def _owe_anew(self, conversation_id: int, now: int) -> None:
        """Summaries are to be made anew, unless compaction is owed by now, which comes first."""
        self.run(
            "INSERT INTO debt (conversation_id, pending, window_tokens, overhead, requested_at)"
            " VALUES (:conversation, 1, 0, 0, :now) ON CONFLICT (conversation_id) DO UPDATE SET"
            " pending = 1, window_tokens = 0, overhead = 0, model = NULL, attempts = 0, next_at = 0,"
            " requested_at = excluded.requested_at, revision = debt.revision + 1 WHERE debt.pending = 0",
            conversation=conversation_id,
            now=now,
        )

    def _payable(self, now: int, idle_before: int, lock: str = "") -> list[DebtRow]:
        rows = self.all(
            f"SELECT {_DEBT} FROM debt d JOIN conversation c ON c.id = d.conversation_id"  # noqa: S608 - constants
            f" WHERE c.owner = :owner AND c.active = 1 AND c.updated_at <= :idle AND d.pending = 1 AND {_FREE}"
            f" ORDER BY d.window_tokens = 0, d.requested_at LIMIT 1{lock}",
            owner=self.owner,
            idle=idle_before,
            now=now,
        )
        return [_debt(row) for row in rows]

    def _with_unsettled(self, now: int, idle_before: int, tries: int) -> list[int]:
        """A conversation with summaries to be made anew and no debt, if there is one."""
        rows = self.all(
            "SELECT c.id FROM conversation c LEFT JOIN debt d ON d.conversation_id = c.id"  # noqa: S608 - constants
            " WHERE c.owner = :owner AND c.active = 1 AND c.updated_at <= :idle AND coalesce(d.pending, 0) = 0"
            f" AND (d.conversation_id IS NULL OR {_FREE}) AND EXISTS"
            f" (SELECT 1 FROM summary s WHERE s.conversation_id = c.id AND {_UNSETTLED} AND s.tries < :tries) LIMIT 1",
            owner=self.owner,
            idle=idle_before,
            now=now,
            tries=tries,
        )
        return [row[0] for row in rows]

    def renew(self, debt: DebtRow, lease_until: int) -> bool:
        with self.transaction():
            held = self.run(
                "UPDATE debt SET lease_until = :until WHERE conversation_id = :conversation AND worker = :worker",
                until=lease_until,
                conversation=debt.conversation_id,
                worker=debt.worker,
            )
        return held > 0

    def settle(
        self, debt: DebtRow, *, pending: bool, attempts: int, next_at: int, stop: str, failure: str | None
    ) -> None:
        with self.transaction():
            self.run(
                "UPDATE debt SET worker = NULL, lease_until = NULL, attempts = :attempts, stop = :stop,"
                # What was owed anew meanwhile does not wait for what was paid.
                " next_at = CASE WHEN revision <> :revision AND :pending = 0 THEN 0 ELSE :next_at END, failure = :failure,"
                " stop_seq = (SELECT next_seq FROM conversation WHERE id = debt.conversation_id),"
                " pending = CASE revision WHEN :revision THEN :pending ELSE pending END"
                " WHERE conversation_id = :conversation AND worker = :worker",
                conversation=debt.conversation_id,
                worker=debt.worker,
                revision=debt.revision,
                pending=int(pending),
                attempts=attempts,
                next_at=next_at,
                stop=stop,
                failure=failure,
            )

    def add_manifests(self, conversation_id: int, manifests: Sequence[NewManifest], keep: int) -> None:
        rows = self.all(
            "SELECT coalesce(max(turn), 0) FROM manifest WHERE conversation_id = :conversation",
            conversation=conversation_id,
        )
        last = rows[0][0]
        columns = ("conversation_id", "turn", *NewManifest.__struct_fields__)
        self.insert(
            "manifest",
            columns,
            [(conversation_id, turn, *astuple(each)) for turn, each in enumerate(manifests, last + 1)],
        )
        self.run(
            "DELETE FROM manifest WHERE conversation_id = :conversation AND turn <= :oldest",
            conversation=conversation_id,
            oldest=last + len(manifests) - keep,
        )

    def manifests(self, conversation_id: int, *, until: int | None, turn: int | None, limit: int) -> list[Manifest]:
        rows = self.all(
            "SELECT m.at, m.window_tokens, m.tokens, m.prefix, m.reason, m.shown, m.turn FROM manifest m"  # noqa: S608 - constants
            f" WHERE m.conversation_id = :conversation AND m.at <= :until AND m.turn <= :turn AND {_OWNED}"
            " ORDER BY m.turn DESC LIMIT :limit",
            conversation=conversation_id,
            until=_NO_LIMIT if until is None else until,
            turn=_NO_LIMIT if turn is None else turn,
            limit=limit,
            owner=self.owner,
        )
        return [Manifest(*row) for row in rows]

    def add_pin(self, conversation_id: int, pin: PinRow) -> None:
        self.run(
            "INSERT INTO pin (conversation_id, id, message_id, text, tokens, created_at) VALUES"
            " (:conversation, :id, :message_id, :text, :tokens, :created_at) ON CONFLICT DO NOTHING",
            conversation=conversation_id,
            **asdict(pin),
        )

    def remove_pin(self, conversation_id: int, pin_id: str) -> bool:
        gone = self.run(
            f"DELETE FROM pin WHERE conversation_id = :conversation AND id = :id AND {_OWNED}",  # noqa: S608 - constants
            conversation=conversation_id,
            id=pin_id,
            owner=self.owner,
        )
        return gone > 0

    def pins(self, conversation_id: int) -> list[PinRow]:
        rows = self.all(
            "SELECT p.id, p.message_id, p.text, p.tokens, p.created_at FROM pin p"  # noqa: S608 - constants
            f" WHERE p.conversation_id = :conversation AND {_OWNED} ORDER BY p.created_at, p.id",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [PinRow(*row) for row in rows]

    def cursor(self, conversation_id: int, source: str) -> Any | None:
        rows = self.all(
            f"SELECT state FROM cursor WHERE conversation_id = :conversation AND source = :source AND {_OWNED}",  # noqa: S608 - constants
            conversation=conversation_id,
            source=source,
            owner=self.owner,
        )
        return jsontext.loads(rows[0][0]) if rows else None

    def set_cursor(self, conversation_id: int, source: str, state: Any, now: int) -> None:
        self.run(
            "INSERT INTO cursor (conversation_id, source, state, updated_at) VALUES (:conversation, :source, :state, :now)"
            " ON CONFLICT (conversation_id, source) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at",
            conversation=conversation_id,
            source=source,
            state=jsontext.dumps(state),
            now=now,
        )

    def guard(self, name: str, *, hold: bool = False) -> Any | None:
        lock = self.for_update if hold else ""
        rows = self.all(f"SELECT state FROM guard WHERE name = :name{lock}", name=self._guard_name(name))  # noqa: S608 - constants
        return jsontext.loads(rows[0][0]) if rows else None

    def _guard_name(self, name: str) -> str:
        return f"{len(self.owner)}:{self.owner}:{name}"  # no owner's name can be taken for a part of another's

    def set_guard(self, name: str, state: Any, now: int) -> None:
        self.run(
            "INSERT INTO guard (name, state, updated_at) VALUES (:name, :state, :now) ON CONFLICT (name)"
            " DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at",
            name=self._guard_name(name),
            state=jsontext.dumps(state),
            now=now,
        )

    def add_file(self, conversation_id: int, row: FileRow) -> None:
        self.run(
            "INSERT INTO file (conversation_id, id, sha256, name, mime, bytes, lines, summary, created_at) VALUES"
            " (:conversation, :id, :sha256, :name, :mime, :bytes, :lines, :summary, :created_at) ON CONFLICT DO NOTHING",
            conversation=conversation_id,
            id=row.id,
            sha256=row.sha256,
            name=row.name,
            mime=row.mime,
            bytes=row.bytes,
            lines=row.lines,
            summary=row.summary,
            created_at=row.created_at,
        )

    def file(self, conversation_id: int, file_id: str) -> FileRow | None:
        rows = self.all(
            f"SELECT {_FILE} FROM file"  # noqa: S608 - constants
            f" WHERE conversation_id = :conversation AND id = :id AND {_OWNED}",
            conversation=conversation_id,
            id=file_id,
            owner=self.owner,
        )
        return FileRow(*rows[0]) if rows else None

    def files(self, conversation_id: int) -> list[FileRow]:
        rows = self.all(
            f"SELECT {_FILE} FROM file WHERE conversation_id = :conversation AND {_OWNED} ORDER BY created_at, id",  # noqa: S608 - constants
            conversation=conversation_id,
            owner=self.owner,
        )
        return [FileRow(*row) for row in rows]

    def file_is_used(self, sha256: str) -> bool:
        # The one question that is not asked for one owner: equal bytes are kept once for all of them.
        return bool(self.all("SELECT 1 FROM file WHERE sha256 = :sha256 LIMIT 1", sha256=sha256))


def _conversation(row: Row) -> ConversationRow:
    identity, key, active, *rest = row
    return ConversationRow(identity, key, bool(active), *rest)


def _debt(row: Row) -> DebtRow:
    conversation_id, key, pending, *rest = row
    return DebtRow(conversation_id, key, bool(pending), *rest)


def _message(row: Row, base: int) -> MessageRow:
    return MessageRow(*(*row[:-1], row[-1] - base))
