"""The context of a conversation: its ordered items, and what was taken out of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from lossless.errors import ContextMoved
from lossless.store import seals
from lossless.store.rows.codec import links_in
from lossless.store.rows.types import (
    MESSAGE,
    SPAN,
    USER_MESSAGE,
    ConversationRow,
    ItemRow,
    Links,
    MessageRow,
    NewSummary,
    TextAt,
)
from lossless.store.sql.columns import MESSAGE_COLUMNS, OWNED, Row, message_row
from lossless.store.sql.section import Section


class ContextItems(Section):
    """The context of a conversation: its ordered items, and what was taken out of it."""

    def detach(self, conversation_id: int, items: Sequence[ItemRow], cause: str, now: int) -> int:
        """Take those of these items that are still there out of the context and list them beside it; return how many (in a transaction)."""
        self.store.conversations.hold(conversation_id)
        asked = {(item.ordinal, item.summary_id) for item in items}
        rows = self.all(
            "SELECT ordinal, summary_id FROM item WHERE conversation_id = :conversation"
            f" AND ordinal IN ({self.each_of('ordinals', 'bigint')})",
            conversation=conversation_id,
            ordinals=self.listing([item.ordinal for item in items]),
        )
        ordinals = [row[0] for row in rows if row in asked]
        self.run(
            "INSERT INTO detached (conversation_id, ordinal, summary_id, tokens, depth, cause, at)"
            " SELECT conversation_id, ordinal, summary_id, tokens, depth, :cause, :now FROM item"
            f" WHERE conversation_id = :conversation AND ordinal IN ({self.each_of('ordinals', 'bigint')})",
            conversation=conversation_id,
            ordinals=self.listing(ordinals),
            cause=cause,
            now=now,
        )
        self._take_out(conversation_id, ordinals)
        return len(ordinals)

    def _take_out(self, conversation_id: int, ordinals: Sequence[int]) -> None:
        chosen = f"conversation_id = :conversation AND ordinal IN ({self.each_of('ordinals', 'bigint')})"
        listed = self.listing(ordinals)
        self.run(
            "UPDATE conversation SET context_tokens = context_tokens"
            f" - (SELECT coalesce(sum(tokens), 0) FROM item WHERE {chosen}) WHERE id = :conversation",
            conversation=conversation_id,
            ordinals=listed,
        )
        self.run(f"DELETE FROM item WHERE {chosen}", conversation=conversation_id, ordinals=listed)

    def attach(self, conversation_id: int, ordinals: Sequence[int]) -> int:
        """Put detached items back where no item is now; return how many (in a transaction)."""
        self.store.conversations.hold(conversation_id)
        rows = self.all(
            "SELECT d.ordinal, d.summary_id, d.tokens, d.depth FROM detached d WHERE d.conversation_id = :conversation"
            f" AND d.ordinal IN ({self.each_of('ordinals', 'bigint')}) AND d.cause <> 'dissolved' AND NOT EXISTS (SELECT 1 FROM item i"
            " WHERE i.conversation_id = d.conversation_id AND i.ordinal = d.ordinal) ORDER BY d.at",
            conversation=conversation_id,
            ordinals=self.listing(ordinals),
        )
        # Of several that had an ordinal in turn, the one that left last comes back.
        back = {row[0]: ItemRow(*row) for row in rows}.values()
        columns = ("conversation_id", *ItemRow.__struct_fields__)
        self.insert("item", columns, [(conversation_id, i.ordinal, i.summary_id, i.tokens, i.depth) for i in back])
        for item in back:
            self.run(
                "DELETE FROM detached WHERE conversation_id = :conversation AND ordinal = :ordinal"
                " AND coalesce(summary_id, 0) = :summary",
                conversation=conversation_id,
                ordinal=item.ordinal,
                summary=item.summary_id or 0,
            )
        self.run(
            "UPDATE conversation SET context_tokens = context_tokens + :tokens WHERE id = :id",
            tokens=sum(item.tokens for item in back),
            id=conversation_id,
        )
        return len(back)

    def detached(self, conversation_id: int) -> list[tuple[ItemRow, str, int]]:
        """Return the detached items by ordinal, with cause and time."""
        rows = self.all(
            "SELECT d.ordinal, d.summary_id, d.tokens, d.depth, d.cause, d.at FROM detached d"
            f" WHERE d.conversation_id = :conversation AND {OWNED} ORDER BY d.ordinal, d.at",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [(ItemRow(*row[:4]), row[4], row[5]) for row in rows]

    def covered_until(self, conversation_id: int) -> int:
        """Return the last seq that a summary was made from, or 0."""
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT max(l.message_id) FROM summary_message l WHERE l.message_id > :first AND l.message_id < :last AND {OWNED}",
            first=base,
            last=base + SPAN,
            conversation=conversation_id,
            owner=self.owner,
        )
        return (rows[0][0] or base) - base

    def reveal(self, conversation_id: int, seqs: Sequence[int], reason: str) -> int:
        """Put messages that were kept out for a reason into the context; return how many (in a transaction)."""
        self.store.conversations.hold(conversation_id)
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT m.id, m.tokens, m.role FROM message m WHERE m.outside = :reason"
            f" AND m.id IN ({self.each_of('ids', 'bigint')}) ORDER BY m.id",
            ids=self.listing([base + seq for seq in seqs]),
            reason=reason,
        )
        items = [
            (conversation_id, identity - base, None, tokens, USER_MESSAGE if role == "user" else MESSAGE)
            for identity, tokens, role in rows
        ]
        self.run(
            f"UPDATE message SET outside = NULL WHERE id IN ({self.each_of('ids', 'bigint')})",
            ids=self.listing([row[0] for row in rows]),
        )
        self.insert("item", ("conversation_id", *ItemRow.__struct_fields__), items)
        self.run(
            "UPDATE conversation SET context_tokens = context_tokens + :tokens WHERE id = :id",
            tokens=sum(row[1] for row in rows),
            id=conversation_id,
        )
        return len(items)

    def bury(self, conversation_id: int, seqs: Sequence[int], reason: str, now: int) -> list[int]:
        """Erase the words of messages, `forgotten` or a `heartbeat`; only their seqs stay (in a transaction).

        Their event ids still count as known. A message that a summary was made from is left as it is: the answer is the
        seqs of those that were buried.
        """
        self.store.conversations.hold(conversation_id)
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT m.id FROM message m WHERE m.id IN ({self.each_of('ids', 'bigint')})"
            " AND coalesce(m.outside, '') NOT IN ('forgotten', 'heartbeat')"
            " AND NOT EXISTS (SELECT 1 FROM summary_message l WHERE l.message_id = m.id) ORDER BY m.id",
            ids=self.listing([base + seq for seq in seqs]),
        )
        ids = [row[0] for row in rows]
        buried = [identity - base for identity in ids]
        chosen = f"IN ({self.each_of('ids', 'bigint')})"
        for table in ("copy", "vector", "pin"):
            self.run(f"DELETE FROM {table} WHERE message_id {chosen}", ids=self.listing(ids))
        self.store.briefs.remove_made_from({f"msg#{identity}" for identity in ids})
        self.run(
            f"DELETE FROM detached WHERE conversation_id = :conversation AND summary_id IS NULL AND ordinal {chosen}",
            conversation=conversation_id,
            ids=self.listing(buried),
        )
        shown = self.all(
            "SELECT ordinal FROM item WHERE conversation_id = :conversation AND summary_id IS NULL"
            f" AND ordinal {chosen}",
            conversation=conversation_id,
            ids=self.listing(buried),
        )
        self._take_out(
            conversation_id, [row[0] for row in shown]
        )  # a summary may have the ordinal of its first message
        self.run(
            f"UPDATE message SET text = '', parts = NULL, meta = NULL, tokens = 0, outside = :reason WHERE id {chosen}",
            ids=self.listing(ids),
            reason=reason,
        )
        self.store.unindex(ids)
        self.run("UPDATE conversation SET updated_at = :now WHERE id = :id", now=now, id=conversation_id)
        return buried

    def items(self, conversation_id: int) -> list[ItemRow]:
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"
            f" WHERE i.conversation_id = :conversation AND {OWNED} ORDER BY i.ordinal",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in rows]

    def newest(self, conversation_id: int, limit: int) -> list[ItemRow]:
        """Return the last items of the context, in order."""
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"
            f" WHERE i.conversation_id = :conversation AND {OWNED} ORDER BY i.ordinal DESC LIMIT :limit",
            conversation=conversation_id,
            limit=limit,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in reversed(rows)]

    def oldest(self, conversation_id: int, limit: int) -> list[ItemRow]:
        """Return the first items of the context, in order."""
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i"
            f" WHERE i.conversation_id = :conversation AND {OWNED} ORDER BY i.ordinal LIMIT :limit",
            conversation=conversation_id,
            limit=limit,
            owner=self.owner,
        )
        return [ItemRow(*row) for row in rows]

    def links(self, conversation_id: int, first: int, last: int) -> dict[int, Links]:
        """Return the tool calls and results among the messages from `first` to `last`, by seq."""
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT m.id, m.parts FROM message m WHERE m.id BETWEEN :first AND :last AND {OWNED}"
            f" AND {self.store.finds.format('m.parts', ':field')}",
            field='"call_id":',
            first=base + first,
            last=base + last,
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0] - base: links_in(row[1]) for row in rows}

    def newest_system(self, conversation_id: int) -> ItemRow | None:
        """Return the newest message of role `system` or `developer`, if it is in the context as it is."""
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT i.ordinal, i.summary_id, i.tokens, i.depth FROM item i WHERE i.conversation_id = :conversation"
            " AND i.summary_id IS NULL AND i.ordinal = (SELECT max(m.id) FROM message m WHERE m.id > :base AND m.id < :end"
            f" AND m.role IN ('system', 'developer')) - :base AND {OWNED}",
            conversation=conversation_id,
            base=base,
            end=base + SPAN,
            owner=self.owner,
        )
        return ItemRow(*rows[0]) if rows else None

    def messages(self, conversation_id: int, *, first: int = 0) -> list[MessageRow]:
        """Return the messages among the items from an ordinal on, in one query."""
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT {MESSAGE_COLUMNS} FROM item i JOIN message m ON m.id = :base + i.ordinal"
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
        """Replace exactly these items by a summary, in one transaction.

        `ContextMoved` if they changed, or a summary that was in the prompt has another text than these. `seal` is the witness
        of the messages, where they were read already.
        """
        first, last = items[0].ordinal, items[-1].ordinal
        with self.store.transaction():
            is_active = self.store.conversations.hold(conversation.id).active
            there = self._between(conversation.id, first, last) if is_active else []
            is_same = there == [(item.ordinal, item.summary_id, item.tokens) for item in items]
            if not (is_same and self.has_texts(revisions)):
                raise ContextMoved(f"The context of {conversation.key} changed while it was being summarised.")
            summary_id = self.insert_summary(conversation.id, summary, seal or self.seal_of(conversation.id, items))
            self.link(conversation.id, summary_id, items)
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
            self.store.index_summary(summary_id, summary.text)
        return ItemRow(first, summary_id, summary.tokens, summary.depth)

    def has_texts(self, texts: Sequence[TextAt]) -> bool:
        """Tell whether each of these summaries exists and still has this text."""
        rows = self.all(
            f"SELECT id, revision, created_at FROM summary WHERE id IN ({self.each_of('ids', 'bigint')}) ORDER BY id",
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

    def seal_of(self, conversation_id: int, items: Sequence[ItemRow]) -> str | None:
        """Return the seal of what a summary of these items is made from."""
        if items[0].is_message:
            chosen, base = [item.ordinal for item in items], conversation_id * SPAN
            gapless = len(chosen) == chosen[-1] - chosen[0] + 1
            among = "m.id BETWEEN :first AND :last" if gapless else f"m.id IN ({self.each_of('ids', 'bigint')})"
            return seals.of_messages(
                self.all(
                    f"SELECT {', '.join(f'm.{name}' for name in seals.WORDS)} FROM message m WHERE {among} ORDER BY m.id",
                    first=base + chosen[0],
                    last=base + chosen[-1],
                    ids=self.listing([] if gapless else [base + ordinal for ordinal in chosen]),
                )
            )
        rows = self.all(
            f"SELECT s.id, s.source_hash FROM summary s WHERE s.id IN ({self.each_of('ids', 'bigint')})",
            ids=self.listing([item.summary_id for item in items]),
        )
        found: dict[int | None, str | None] = {row[0]: row[1] for row in rows}
        return seals.of_sources(found.get(item.summary_id) for item in items)

    def insert_summary(self, conversation_id: int, summary: NewSummary, seal: str | None = None) -> int:
        row = {
            "id": self.store.new_ids("summary", 1)[0],
            "conversation_id": conversation_id,
            "source_hash": seal,
            **asdict(summary),
        }
        self.insert("summary", tuple(row), [tuple(row.values())])
        return int(row["id"])

    def link(self, conversation_id: int, summary_id: int, items: Sequence[ItemRow]) -> None:
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
