"""Messages: appended once, read by their number, known by their event ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import astuple

from lossless.errors import StoreFull
from lossless.store.rows.codec import is_from_user
from lossless.store.rows.types import (
    MESSAGE,
    SPAN,
    USER_MESSAGE,
    ConversationRow,
    KnownEvent,
    MessageRow,
    NewMessage,
)
from lossless.store.sql.columns import (
    MESSAGE_COLUMNS,
    NO_LIMIT,
    OWNED,
    message_row,
)
from lossless.store.sql.section import Section


class Messages(Section):
    """Messages: appended once, read by their number, known by their event ids."""

    def append(self, conversation: ConversationRow, rows: Sequence[NewMessage], now: int) -> None:
        """Append rows from `conversation.next_seq` on, index their words, add their items (in a transaction)."""
        first = conversation.next_seq
        start = conversation.id * SPAN + first
        if first + len(rows) > SPAN:
            raise StoreFull(f"The conversation {conversation.key} is full.", hint="Go on under another key.")
        self.insert(
            "message",
            ("id", *NewMessage.__struct_fields__),
            [(at, *astuple(row)) for at, row in enumerate(rows, start)],
        )
        self.store.recall_calls.index([(at, row.text, row.parts) for at, row in enumerate(rows, start)])
        self.store.remember_events(
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
        """Store another text under a known event id; False if it was stored already (in a transaction)."""
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
        """Return the digests of other texts under a message's event id."""
        rows = self.all(
            f"SELECT digest FROM copy WHERE message_id = :message AND {OWNED} ORDER BY created_at, digest",
            message=conversation_id * SPAN + seq,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [bytes(row[0]) for row in rows]

    def read(self, conversation_id: int, *, after: int = 0, limit: int | None = None) -> list[MessageRow]:
        """Return messages by seq, from the first after `after`."""
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT {MESSAGE_COLUMNS} FROM message m WHERE m.id > :first AND m.id < :last AND {OWNED}"
            " ORDER BY m.id LIMIT :limit",
            first=base + max(0, min(after, SPAN - 1)),
            last=base + SPAN,
            limit=NO_LIMIT if limit is None else min(limit, NO_LIMIT),
            conversation=conversation_id,
            owner=self.owner,
        )
        return [message_row(row, base) for row in rows]

    def at(self, conversation_id: int, seqs: Sequence[int]) -> list[MessageRow]:
        """Return these messages, by seq."""
        base = conversation_id * SPAN
        first, last = min(seqs, default=1), max(seqs, default=0)
        # A run without gaps, as most are, is one stretch of the table.
        gapless = len(set(seqs)) == last - first + 1
        chosen = "m.id BETWEEN :first AND :last" if gapless else f"m.id IN ({self.each_of('ids', 'bigint')})"
        rows = self.all(
            f"SELECT {MESSAGE_COLUMNS} FROM message m WHERE {chosen} AND {OWNED} ORDER BY m.id",
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
        """Return what is stored under these event ids; with `aliases`, under further ids of messages too."""
        found = self.store.own_events(conversation_id, event_ids)
        return self._aliased(conversation_id, event_ids) | found if aliases else found

    def _aliased(self, conversation_id: int, names: Sequence[str]) -> dict[str, KnownEvent]:
        rows = self.all(
            "SELECT a.name, a.seq, m.role, m.parts, m.digest, m.outside FROM alias a JOIN message m ON m.id = :base + a.seq"
            f" WHERE a.conversation_id = :conversation AND a.name IN ({self.each_of('names', 'text')}) AND {OWNED}",
            base=conversation_id * SPAN,
            conversation=conversation_id,
            names=self.listing(names),
            owner=self.owner,
        )
        return {row[0]: KnownEvent(row[1], row[2], row[3], bytes(row[4]), row[5]) for row in rows}

    def add_aliases(self, conversation_id: int, names: Mapping[str, int]) -> None:
        """Add further event ids of messages, by seq; a known one stays as it is (in a transaction)."""
        for name, seq in names.items():
            self.run(
                "INSERT INTO alias (conversation_id, name, seq) VALUES (:conversation, :name, :seq) ON CONFLICT DO NOTHING",
                conversation=conversation_id,
                name=name,
                seq=seq,
            )

    def times(self, conversation_id: int, *, after: int = 0) -> list[tuple[str, int, str]]:
        """Return the role, the time and the event id of the messages after a place that have both."""
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT m.role, m.at, m.event_id FROM message m WHERE m.id > :first AND m.id < :last"
            f" AND m.at IS NOT NULL AND m.event_id IS NOT NULL AND {OWNED} ORDER BY m.id",
            first=base + after,
            last=base + SPAN,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [(str(row[0]), int(row[1]), str(row[2])) for row in rows]

    def digests(self, conversation_id: int, *, after: int = 0) -> list[bytes]:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT digest FROM message m WHERE m.id > :first AND m.id < :last AND {OWNED} ORDER BY m.id",
            first=base + after,
            last=base + SPAN,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [bytes(row[0]) for row in rows]
