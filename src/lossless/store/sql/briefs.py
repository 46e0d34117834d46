"""Briefs: what matters for a task, found by recall. At most one of a key is shown to models."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import astuple

from lossless.store import jsontext
from lossless.store.rows.types import SPAN, BriefRow
from lossless.store.sql.columns import Row
from lossless.store.sql.section import Section

_COLUMNS = ", ".join(f"b.{column}" for column in BriefRow.__struct_fields__)
_UNDER_KEY = "conversation_id IN (SELECT id FROM conversation WHERE owner = :owner AND key = :key)"


class Briefs(Section):
    """Briefs: what matters for a task, found by recall. At most one of a key is shown to models."""

    def active(self, key: str) -> BriefRow | None:
        """Return the brief that is shown to models."""
        return next(iter(self._read(" AND c.key = :key AND b.active = 1", key=key)), None)

    def under_key(self, key: str) -> list[BriefRow]:
        """Return the briefs of every conversation of the key, the newest first."""
        return self._read(" AND c.key = :key", key=key)

    def of_owner(self) -> list[BriefRow]:
        """Return the briefs of all keys, the newest first."""
        return self._read("")

    def _read(self, where: str, **given: str) -> list[BriefRow]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM brief b JOIN conversation c ON c.id = b.conversation_id"
            f" WHERE c.owner = :owner{where} ORDER BY b.created_at DESC, b.id",
            owner=self.owner,
            **given,
        )
        return [_brief(row) for row in rows]

    def put(self, key: str, brief: BriefRow, keep: int) -> None:
        """Store a brief as the active one, in place of one with its id; the last `keep` stay (in a transaction)."""
        self.remove(key, brief.id)
        self.activate(key, None)
        self.insert("brief", BriefRow.__struct_fields__, [(*astuple(brief)[:-2], int(brief.active), brief.created_at)])
        for old in self.under_key(key)[keep:]:
            self.remove(key, old.id)

    def activate(self, key: str, brief_id: str | None) -> int:
        """Show this brief to models, or none; return how many rows changed (in a transaction)."""
        return self.run(
            "UPDATE brief SET active = CASE WHEN id = :id THEN 1 ELSE 0 END"
            f" WHERE active <> CASE WHEN id = :id THEN 1 ELSE 0 END AND {_UNDER_KEY}",
            id=brief_id or "",
            owner=self.owner,
            key=key,
        )

    def remove(self, key: str, brief_id: str) -> bool:
        """Remove a brief of the key (in a transaction)."""
        gone = self.run(f"DELETE FROM brief WHERE id = :id AND {_UNDER_KEY}", id=brief_id, owner=self.owner, key=key)
        return gone > 0

    def remove_made_from(self, ids: Collection[str]) -> None:
        """Remove the briefs, of any key, that were made from one of these texts (in a transaction)."""
        for brief in self.of_owner():
            if not {source[0] for source in jsontext.stored(brief.sources)}.isdisjoint(ids):
                self.run(
                    "DELETE FROM brief WHERE conversation_id = :conversation AND id = :id",
                    conversation=brief.conversation_id,
                    id=brief.id,
                )

    def message_tokens(self, conversation_ids: Sequence[int]) -> int:
        """Return the tokens of all messages of these conversations."""
        rows = self.all(
            "SELECT coalesce(sum(m.tokens), 0) FROM conversation c JOIN message m"
            f" ON m.id > c.id * {SPAN} AND m.id < (c.id + 1) * {SPAN}"
            f" WHERE c.owner = :owner AND c.id IN ({self.each_of('ids', 'bigint')})",
            owner=self.owner,
            ids=self.listing(conversation_ids),
        )
        return int(rows[0][0])


def _brief(row: Row) -> BriefRow:
    return BriefRow(*(*row[:-2], bool(row[-2]), row[-1]))
