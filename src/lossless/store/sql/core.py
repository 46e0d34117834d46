"""The queries both databases share that everything else stands on: conversations, messages, the ordered view, files.

Written in the subset both speak, with `:name` parameters. A dialect adds connecting, transactions,
bulk writing, search and its own care; nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec.structs import asdict, astuple

from lossless.errors import ContextMoved, NotFound, StoreFull
from lossless.store import jsontext, seals
from lossless.store.base import (
    MESSAGE,
    SPAN,
    USER_MESSAGE,
    ConversationRow,
    FileRow,
    ItemRow,
    KnownEvent,
    Links,
    Match,
    MessageRow,
    NewMessage,
    NewSummary,
    SummaryMatch,
    SummaryRow,
    TextAt,
    TextKind,
)
from lossless.store.rows import is_from_user, links_in

CONVERSATION_COLUMNS = (
    "id, key, active, session, next_seq, context_tokens, created_at, updated_at,"
    " parent_id, continues, archived_at, archive_cause, title, renewed_at, transcribed"
)
MESSAGE_COLUMNS = ", ".join(f"m.{column}" for column in (*NewMessage.__struct_fields__, "id"))
SUMMARY_COLUMNS = ", ".join(f"s.{column}" for column in SummaryRow.__struct_fields__)
ACTIVE = f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner AND key = :key AND active = 1"  # noqa: S608 - constants
FILE_COLUMNS = "id, sha256, name, mime, bytes, lines, summary, created_at"
UNSETTLED = "(s.stale = 1 OR s.level = 'extractive' OR s.level = 'cut')"
# Ownership is asked of the database in every statement, not remembered by its callers.
# Not EXISTS: SQLite would make a join of it, and go through all conversations of the owner for every query.
OWNED = "(SELECT c.owner FROM conversation c WHERE c.id = :conversation) = :owner"
NO_LIMIT = 9_223_372_036_854_775_807

LAST = "last {}"
"""The guard of a table of which rows were removed: the highest id that any has had."""

Row = tuple[Any, ...]


class Core(ABC):
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
    def unindex(self, ids: Sequence[int]) -> None:
        """Messages that have no words any more, in the search index."""

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
    def count_matches(
        self,
        kind: TextKind,
        question: str,
        conversation_ids: Sequence[int] | None = None,
        *,
        since: int | None = None,
        before: int | None = None,
    ) -> int: ...

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
    finds: str
    """The condition that one text holds another."""

    def conversation(self, key: str) -> ConversationRow | None:
        rows = self.all(ACTIVE, owner=self.owner, key=key)
        return conversation_row(rows[0]) if rows else None

    def conversations(self) -> list[ConversationRow]:
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE owner = :owner ORDER BY updated_at DESC, id DESC",  # noqa: S608 - constants
            owner=self.owner,
        )
        return [conversation_row(row) for row in rows]

    def hold(self, conversation_id: int) -> ConversationRow:
        rows = self.all(
            f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE id = :id AND owner = :owner{self.for_update}",  # noqa: S608 - constants
            id=conversation_id,
            owner=self.owner,
        )
        if not rows:
            raise NotFound("conversation", conversation_id)
        return conversation_row(rows[0])

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
            (conversation.id, seq, None, row.tokens, USER_MESSAGE if is_from_user(row) else MESSAGE)
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
            f"SELECT digest FROM copy WHERE message_id = :message AND {OWNED} ORDER BY created_at, digest",  # noqa: S608 - constants
            message=conversation_id * SPAN + seq,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [bytes(row[0]) for row in rows]

    def messages(self, conversation_id: int, *, after: int = 0, limit: int | None = None) -> list[MessageRow]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT {MESSAGE_COLUMNS} FROM message m WHERE m.id > :first AND m.id < :last AND {OWNED}"  # noqa: S608 - constants
            " ORDER BY m.id LIMIT :limit",
            first=base + max(0, min(after, SPAN - 1)),
            last=base + SPAN,
            limit=NO_LIMIT if limit is None else min(limit, NO_LIMIT),
            conversation=conversation_id,
            owner=self.owner,
        )
        return [message_row(row, base) for row in rows]

    def messages_at(self, conversation_id: int, seqs: Sequence[int]) -> list[MessageRow]:
        base = conversation_id * SPAN
        first, last = min(seqs, default=1), max(seqs, default=0)
        # A run without gaps, as most are, is one stretch of the table.
        gapless = len(set(seqs)) == last - first + 1
        chosen = "m.id BETWEEN :first AND :last" if gapless else f"m.id IN ({self.each_of('ids', 'bigint')})"
        rows = self.all(
            f"SELECT {MESSAGE_COLUMNS} FROM message m WHERE {chosen} AND {OWNED} ORDER BY m.id",  # noqa: S608 - constants
            first=base + first,
            last=base + last,
            ids=self.listing([] if gapless else [base + seq for seq in seqs]),
            conversation=conversation_id,
            owner=self.owner,
        )
        return [message_row(row, base) for row in rows]

    def known_events(
        self, conversation_id: int, event_ids: Sequence[str], *, aliases: bool = False
    ) -> dict[str, KnownEvent]:
        found = self.own_events(conversation_id, event_ids)
        return self._aliased(conversation_id, event_ids) | found if aliases else found

    def _aliased(self, conversation_id: int, names: Sequence[str]) -> dict[str, KnownEvent]:
        rows = self.all(
            "SELECT a.name, a.seq, m.role, m.parts, m.digest, m.outside FROM alias a JOIN message m ON m.id = :base + a.seq"  # noqa: S608 - constants
            f" WHERE a.conversation_id = :conversation AND a.name IN ({self.each_of('names', 'text')}) AND {OWNED}",
            base=conversation_id * SPAN,
            conversation=conversation_id,
            names=self.listing(names),
            owner=self.owner,
        )
        return {row[0]: KnownEvent(row[1], row[2], row[3], bytes(row[4]), row[5]) for row in rows}

    def add_aliases(self, conversation_id: int, names: Mapping[str, int]) -> None:
        for name, seq in names.items():
            self.run(
                "INSERT INTO alias (conversation_id, name, seq) VALUES (:conversation, :name, :seq) ON CONFLICT DO NOTHING",
                conversation=conversation_id,
                name=name,
                seq=seq,
            )

    @abstractmethod
    def own_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        """What is stored under the event ids that messages came with."""

    @abstractmethod
    def hold_files(self, *, alone: bool) -> None: ...

    @abstractmethod
    def hold_key(self, key: str) -> None:
        """In a transaction: no other one that holds the key goes on until the end of this one."""

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
            f"SELECT digest FROM message m WHERE m.id > :first AND m.id < :last AND {OWNED} ORDER BY m.id",  # noqa: S608 - constants
            first=base + after,
            last=base + SPAN,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [bytes(row[0]) for row in rows]

    def items(self, conversation_id: int) -> list[ItemRow]:
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"  # noqa: S608 - constants
            f" WHERE i.conversation_id = :conversation AND {OWNED} ORDER BY i.ordinal",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in rows]

    def newest_items(self, conversation_id: int, limit: int) -> list[ItemRow]:
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"  # noqa: S608 - constants
            f" WHERE i.conversation_id = :conversation AND {OWNED} ORDER BY i.ordinal DESC LIMIT :limit",
            conversation=conversation_id,
            limit=limit,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in reversed(rows)]

    def oldest_items(self, conversation_id: int, limit: int) -> list[ItemRow]:
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"  # noqa: S608 - constants
            f" WHERE i.conversation_id = :conversation AND {OWNED} ORDER BY i.ordinal LIMIT :limit",
            conversation=conversation_id,
            limit=limit,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in rows]

    def links(self, conversation_id: int, first: int, last: int) -> dict[int, Links]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT m.id, m.parts FROM message m WHERE m.id BETWEEN :first AND :last AND {OWNED}"  # noqa: S608 - constants
            f" AND {self.finds.format('m.parts', ':field')}",
            field='"call_id":',
            first=base + first,
            last=base + last,
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0] - base: links_in(row[1]) for row in rows}

    def newest_system(self, conversation_id: int) -> ItemRow | None:
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i WHERE i.conversation_id = :conversation"  # noqa: S608 - constants
            " AND i.summary_id IS NULL AND i.ordinal = (SELECT max(m.id) FROM message m WHERE m.id > :base AND m.id < :end"
            f" AND m.role IN ('system', 'developer')) - :base AND {OWNED}",
            conversation=conversation_id,
            base=base,
            end=base + SPAN,
            owner=self.owner,
        )
        return ItemRow(*rows[0]) if rows else None

    def context_messages(self, conversation_id: int, *, first: int = 0) -> list[MessageRow]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT {MESSAGE_COLUMNS} FROM item i JOIN message m ON m.id = :base + i.ordinal"  # noqa: S608 - constants
            " WHERE i.conversation_id = :conversation AND i.ordinal >= :first AND i.summary_id IS NULL"
            f" AND {OWNED} ORDER BY i.ordinal",
            base=base,
            conversation=conversation_id,
            first=first,
            owner=self.owner,
        )
        return [message_row(row, base) for row in rows]

    def replace(
        self,
        conversation: ConversationRow,
        items: Sequence[ItemRow],
        summary: NewSummary,
        revisions: Sequence[TextAt] = (),
        seal: str | None = None,
    ) -> ItemRow:
        first, last = items[0].ordinal, items[-1].ordinal
        with self.transaction():
            is_active = self.hold(conversation.id).active
            there = self._between(conversation.id, first, last) if is_active else []
            is_same = there == [(item.ordinal, item.summary_id, item.tokens) for item in items]
            if not (is_same and self.has_texts(revisions)):
                raise ContextMoved(f"The context of {conversation.key} changed while it was being summarised.")
            summary_id = self._insert_summary(conversation.id, summary, seal or self._seal(conversation.id, items))
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

    def has_texts(self, texts: Sequence[TextAt]) -> bool:
        rows = self.all(
            f"SELECT id, revision, created_at FROM summary WHERE id IN ({self.each_of('ids', 'bigint')}) ORDER BY id",  # noqa: S608 - constants
            ids=self.listing([each[0] for each in texts]),
        )
        return rows == sorted(set(texts))

    def _between(self, conversation_id: int, first: int, last: int) -> list[Row]:
        return self.all(
            "SELECT ordinal, summary_id, tokens FROM item WHERE conversation_id = :conversation"
            " AND ordinal >= :first AND ordinal <= :last ORDER BY ordinal",
            conversation=conversation_id,
            first=first,
            last=last,
        )

    def _seal(self, conversation_id: int, items: Sequence[ItemRow]) -> str | None:
        """The witness of what a summary of these items is made from."""
        if items[0].is_message:
            chosen, base = [item.ordinal for item in items], conversation_id * SPAN
            gapless = len(chosen) == chosen[-1] - chosen[0] + 1
            among = "m.id BETWEEN :first AND :last" if gapless else f"m.id IN ({self.each_of('ids', 'bigint')})"
            return seals.of_messages(
                self.all(
                    f"SELECT {', '.join(f'm.{name}' for name in seals.WORDS)} FROM message m WHERE {among} ORDER BY m.id",  # noqa: S608 - constants
                    first=base + chosen[0],
                    last=base + chosen[-1],
                    ids=self.listing([] if gapless else [base + ordinal for ordinal in chosen]),
                )
            )
        rows = self.all(
            f"SELECT s.id, s.source_hash FROM summary s WHERE s.id IN ({self.each_of('ids', 'bigint')})",  # noqa: S608 - constants
            ids=self.listing([item.summary_id for item in items]),
        )
        found: dict[int | None, str | None] = {row[0]: row[1] for row in rows}
        return seals.of_sources(found.get(item.summary_id) for item in items)

    def _insert_summary(self, conversation_id: int, summary: NewSummary, seal: str | None = None) -> int:
        row = {
            "id": self.new_ids("summary", 1)[0],
            "conversation_id": conversation_id,
            "source_hash": seal,
            **asdict(summary),
        }
        self.insert("summary", tuple(row), [tuple(row.values())])
        return int(row["id"])

    @abstractmethod
    def new_ids(self, table: str, count: int) -> list[int]: ...

    def keep_ids(self, table: str) -> None:
        """In a transaction, before rows of a numbered table go: their ids are never given again.

        They are in what people, models and operations have noted, and somebody may be summarising meanwhile.
        """
        self.run(
            f"INSERT INTO guard (name, state, updated_at) SELECT :mark, CAST(max(t.id) AS TEXT), 0 FROM {table} t"  # noqa: S608 - our names
            " HAVING max(t.id) IS NOT NULL ON CONFLICT (name) DO UPDATE SET state = excluded.state"
            " WHERE CAST(excluded.state AS BIGINT) > CAST(guard.state AS BIGINT)",
            mark=LAST.format(table),
        )

    def _link(self, conversation_id: int, summary_id: int, items: Sequence[ItemRow]) -> None:
        if items[0].is_message:
            # Their items are still there, and nothing else between them.
            self.run(
                "INSERT INTO summary_message (message_id, summary_id) SELECT :base + i.ordinal, :summary FROM item i"
                " WHERE i.conversation_id = :conversation AND i.ordinal >= :first AND i.ordinal <= :last",
                base=conversation_id * SPAN,
                summary=summary_id,
                conversation=conversation_id,
                first=items[0].ordinal,
                last=items[-1].ordinal,
            )
        else:
            links = [(summary_id, item.summary_id, at) for at, item in enumerate(items)]
            self.insert("summary_source", ("summary_id", "source_id", "ordinal"), links)

    @abstractmethod
    def index_summary(self, summary_id: int, text: str) -> None:
        """The words of a summary into its search index, in the place of what it said before."""

    def cursor(self, conversation_id: int, source: str) -> Any | None:
        rows = self.all(
            f"SELECT state FROM cursor WHERE conversation_id = :conversation AND source = :source AND {OWNED}",  # noqa: S608 - constants
            conversation=conversation_id,
            source=source,
            owner=self.owner,
        )
        return jsontext.stored(rows[0][0]) if rows else None

    def set_cursor(self, conversation_id: int, source: str, state: Any, now: int) -> None:
        self.run(
            "INSERT INTO cursor (conversation_id, source, state, updated_at) VALUES (:conversation, :source, :state, :now)"
            " ON CONFLICT (conversation_id, source) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at",
            conversation=conversation_id,
            source=source,
            state=jsontext.dumps(state),
            now=now,
        )

    def guard(self, name: str, *, hold: bool = False, shared: bool = False) -> Any | None:
        lock = self.for_update if hold else ""
        named = self._guard_name(name, shared=shared)
        rows = self.all(f"SELECT state FROM guard WHERE name = :name{lock}", name=named)  # noqa: S608 - constants
        return jsontext.stored(rows[0][0]) if rows else None

    def _guard_name(self, name: str, *, shared: bool = False) -> str:
        owner = "" if shared else self.owner
        return f"{len(owner)}:{owner}:{name}"  # no owner's name can be taken for a part of another's

    def set_guard(self, name: str, state: Any, now: int, *, shared: bool = False) -> None:
        self.run(
            "INSERT INTO guard (name, state, updated_at) VALUES (:name, :state, :now) ON CONFLICT (name)"
            " DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at",
            name=self._guard_name(name, shared=shared),
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
            f"SELECT {FILE_COLUMNS} FROM file"  # noqa: S608 - constants
            f" WHERE conversation_id = :conversation AND id = :id AND {OWNED}",
            conversation=conversation_id,
            id=file_id,
            owner=self.owner,
        )
        return FileRow(*rows[0]) if rows else None

    def files(self, conversation_id: int) -> list[FileRow]:
        rows = self.all(
            f"SELECT {FILE_COLUMNS} FROM file WHERE conversation_id = :conversation AND {OWNED} ORDER BY created_at, id",  # noqa: S608 - constants
            conversation=conversation_id,
            owner=self.owner,
        )
        return [FileRow(*row) for row in rows]

    def file_is_used(self, sha256: str) -> bool:
        # The one question that is not asked for one owner: equal bytes are kept once for all of them.
        return bool(self.all("SELECT 1 FROM file WHERE sha256 = :sha256 LIMIT 1", sha256=sha256))


def conversation_row(row: Row) -> ConversationRow:
    return ConversationRow(*(*row[:2], bool(row[2]), *row[3:-1], bool(row[-1])))


def message_row(row: Row, base: int) -> MessageRow:
    return MessageRow(*(*row[:-1], row[-1] - base))
