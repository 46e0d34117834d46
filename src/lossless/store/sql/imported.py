"""Conversations that come from elsewhere, with their summaries and places."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from lossless.store.rows.types import SPAN, ConversationRow, ItemRow, Measure, NewSummary, TransplantRow
from lossless.store.sql.columns import (
    OWNED,
)
from lossless.store.sql.section import Section

_ITEM = ("conversation_id", *ItemRow.__struct_fields__)


class Imported(Section):
    """Conversations that come from elsewhere, with their summaries and places."""

    def redate(self, conversation_id: int, rows: Sequence[tuple[int, int, str | None]]) -> None:
        """Set when consecutive messages were stored elsewhere, and why they are kept out of the context, if so (in a transaction)."""
        base = conversation_id * SPAN
        # One statement for all: a server is asked once, not once for each.
        times = " ".join(f"WHEN {base + seq:d} THEN {created_at:d}" for seq, created_at, _ in rows)
        self.run(
            f"UPDATE message SET created_at = CASE id {times} END WHERE id >= :first AND id <= :last",
            first=base + rows[0][0],
            last=base + rows[-1][0],
        )
        for seq, _, outside in rows:
            if outside is not None:
                self.run("UPDATE message SET outside = :outside WHERE id = :id", id=base + seq, outside=outside)

    def measures(self, conversation_id: int) -> list[Measure]:
        """Return every message by seq, without its text."""
        rows = self.all(
            "SELECT m.id, m.tokens, coalesce(m.at, m.created_at), m.role, m.outside FROM message m"
            " WHERE m.id > :base AND m.id < :end ORDER BY m.id",
            base=conversation_id * SPAN,
            end=(conversation_id + 1) * SPAN,
        )
        return [Measure(row[0] % SPAN, row[1], row[2], row[3] == "user", row[4] is None) for row in rows]

    def is_named(self, public_id: str) -> bool:
        """Tell whether any summary, of any owner, has this id."""
        # Not asked for one owner: the ids of summaries are one space.
        return bool(self.all("SELECT 1 FROM summary WHERE public_id = :id", id=public_id))

    def add_summary(
        self, conversation_id: int, summary: NewSummary, seqs: Sequence[int], sources: Sequence[int]
    ) -> int:
        """Add a summary made elsewhere with its sources, not yet in the context; return its id (in a transaction)."""
        summary_id = self.store.context.insert_summary(conversation_id, summary)
        base = conversation_id * SPAN
        self.insert("summary_message", ("message_id", "summary_id"), [(base + seq, summary_id) for seq in seqs])
        links = [(summary_id, source, at) for at, source in enumerate(sources)]
        self.insert("summary_source", ("summary_id", "source_id", "ordinal"), links)
        self.store.index_summary(summary_id, summary.text)
        return summary_id

    def lay_out(
        self, conversation_id: int, items: Sequence[ItemRow], aside: Sequence[tuple[ItemRow, str]], now: int
    ) -> None:
        """Replace the whole context, and what is listed beside it with its cause (in a transaction)."""
        for table in ("item", "detached"):
            self.run(f"DELETE FROM {table} WHERE conversation_id = :id", id=conversation_id)
        self.insert("item", _ITEM, [(conversation_id, *_values(item)) for item in items])
        self.insert(
            "detached",
            (*_ITEM, "cause", "at"),
            [(conversation_id, *_values(item), cause, now) for item, cause in aside],
        )
        self.run(
            "UPDATE conversation SET context_tokens = :tokens WHERE id = :id",
            tokens=sum(item.tokens for item in items),
            id=conversation_id,
        )

    def transplants(self, conversation_id: int) -> list[TransplantRow]:
        """Return what was copied here from other conversations, by seq."""
        rows = self.all(
            "SELECT t.first_seq, t.last_seq, t.place FROM transplant t WHERE t.conversation_id = :conversation"
            f" AND {OWNED} ORDER BY t.first_seq",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [TransplantRow(*row) for row in rows]

    def graft(self, conversation_id: int, copied: TransplantRow, items: Sequence[ItemRow], now: int) -> None:
        """Record copied messages and put these items into the context (in a transaction)."""
        columns = ("conversation_id", *TransplantRow.__struct_fields__, "at")
        self.insert("transplant", columns, [(conversation_id, *astuple(copied), now)])
        self.insert("item", _ITEM, [(conversation_id, *_values(item)) for item in items])
        self.run(
            "UPDATE conversation SET next_seq = :next, context_tokens = context_tokens + :tokens, updated_at = :now"
            " WHERE id = :id AND owner = :owner",
            next=copied.last_seq + 1,
            tokens=sum(item.tokens for item in items),
            now=now,
            id=conversation_id,
            owner=self.owner,
        )

    def settle_in(self, row: ConversationRow) -> bool:
        """Set title, times and archive of a conversation as this row says; active only if its key is free (in a transaction).

        Whether it is active now.
        """
        active = row.active and self.store.conversations.active(row.key) is None
        self.run(
            "UPDATE conversation SET active = :active, archived_at = :archived_at, archive_cause = :cause, title = :title,"
            " session = :session, created_at = :created_at, updated_at = :updated_at WHERE id = :id AND owner = :owner",
            active=int(active),
            archived_at=None if active else row.archived_at,
            cause=None if active else row.archive_cause,
            title=row.title,
            session=row.session,
            created_at=row.created_at,
            updated_at=row.updated_at,
            id=row.id,
            owner=self.owner,
        )
        if row.session is not None:
            self.run(
                "INSERT INTO session (conversation_id, session, first_at, last_at)"
                " VALUES (:id, :session, :first_at, :last_at) ON CONFLICT DO NOTHING",
                id=row.id,
                session=row.session,
                first_at=row.created_at,
                last_at=row.updated_at,
            )
        return active


def _values(item: ItemRow) -> tuple[int, int | None, int, int]:
    return item.ordinal, item.summary_id, item.tokens, item.depth
