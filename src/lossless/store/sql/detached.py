"""What left a context by name, listed beside it; and messages of which only their place is left."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.store.base import MESSAGE, SPAN, USER_MESSAGE, ItemRow
from lossless.store.sql.core import OWNED, Core


class Detached(Core):
    """See `lossless.store.base.Store` for what each method promises."""

    def detach(self, conversation_id: int, items: Sequence[ItemRow], cause: str, now: int) -> int:
        self.hold(conversation_id)
        asked = {(item.ordinal, item.summary_id) for item in items}
        rows = self.all(
            "SELECT ordinal, summary_id FROM item WHERE conversation_id = :conversation"  # noqa: S608 - our names
            f" AND ordinal IN ({self.each_of('ordinals', 'bigint')})",
            conversation=conversation_id,
            ordinals=self.listing([item.ordinal for item in items]),
        )
        ordinals = [row[0] for row in rows if row in asked]
        self.run(
            "INSERT INTO detached (conversation_id, ordinal, summary_id, tokens, depth, cause, at)"  # noqa: S608 - our names
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
            "UPDATE conversation SET context_tokens = context_tokens"  # noqa: S608 - our names
            f" - (SELECT coalesce(sum(tokens), 0) FROM item WHERE {chosen}) WHERE id = :conversation",
            conversation=conversation_id,
            ordinals=listed,
        )
        self.run(f"DELETE FROM item WHERE {chosen}", conversation=conversation_id, ordinals=listed)  # noqa: S608 - our names

    def attach(self, conversation_id: int, ordinals: Sequence[int]) -> int:
        self.hold(conversation_id)
        rows = self.all(
            "SELECT d.ordinal, d.summary_id, d.tokens, d.depth FROM detached d WHERE d.conversation_id = :conversation"  # noqa: S608 - our names
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
        rows = self.all(
            "SELECT d.ordinal, d.summary_id, d.tokens, d.depth, d.cause, d.at FROM detached d"  # noqa: S608 - constants
            f" WHERE d.conversation_id = :conversation AND {OWNED} ORDER BY d.ordinal, d.at",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [(ItemRow(*row[:4]), row[4], row[5]) for row in rows]

    def covered_until(self, conversation_id: int) -> int:
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT max(l.message_id) FROM summary_message l WHERE l.message_id > :first AND l.message_id < :last AND {OWNED}",  # noqa: S608 - constants
            first=base,
            last=base + SPAN,
            conversation=conversation_id,
            owner=self.owner,
        )
        return (rows[0][0] or base) - base

    def reveal(self, conversation_id: int, seqs: Sequence[int], reason: str) -> int:
        self.hold(conversation_id)
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT m.id, m.tokens, m.role FROM message m WHERE m.outside = :reason"  # noqa: S608 - our names
            f" AND m.id IN ({self.each_of('ids', 'bigint')}) ORDER BY m.id",
            ids=self.listing([base + seq for seq in seqs]),
            reason=reason,
        )
        items = [
            (conversation_id, identity - base, None, tokens, USER_MESSAGE if role == "user" else MESSAGE)
            for identity, tokens, role in rows
        ]
        self.run(
            f"UPDATE message SET outside = NULL WHERE id IN ({self.each_of('ids', 'bigint')})",  # noqa: S608 - our names
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
        self.hold(conversation_id)
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT m.id FROM message m WHERE m.id IN ({self.each_of('ids', 'bigint')})"  # noqa: S608 - our names
            " AND coalesce(m.outside, '') NOT IN ('forgotten', 'heartbeat')"
            " AND NOT EXISTS (SELECT 1 FROM summary_message l WHERE l.message_id = m.id) ORDER BY m.id",
            ids=self.listing([base + seq for seq in seqs]),
        )
        ids = [row[0] for row in rows]
        buried = [identity - base for identity in ids]
        chosen = f"IN ({self.each_of('ids', 'bigint')})"
        for table in ("copy", "vector", "pin"):
            self.run(f"DELETE FROM {table} WHERE message_id {chosen}", ids=self.listing(ids))  # noqa: S608 - our names
        self.run(
            f"DELETE FROM detached WHERE conversation_id = :conversation AND summary_id IS NULL AND ordinal {chosen}",  # noqa: S608 - our names
            conversation=conversation_id,
            ids=self.listing(buried),
        )
        shown = self.all(
            "SELECT ordinal FROM item WHERE conversation_id = :conversation AND summary_id IS NULL"  # noqa: S608 - our names
            f" AND ordinal {chosen}",
            conversation=conversation_id,
            ids=self.listing(buried),
        )
        self._take_out(
            conversation_id, [row[0] for row in shown]
        )  # a summary may have the ordinal of its first message
        self.run(
            "UPDATE message SET text = '', parts = NULL, meta = NULL, tokens = 0, outside = :reason"  # noqa: S608 - our names
            f" WHERE id {chosen}",
            ids=self.listing(ids),
            reason=reason,
        )
        self.unindex(ids)
        self.run("UPDATE conversation SET updated_at = :now WHERE id = :id", now=now, id=conversation_id)
        return buried
