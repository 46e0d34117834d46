"""Grants: what a reader may expand, how much of it, and what was read."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from lossless.store.rows.types import GrantRow, ReadRow
from lossless.store.sql.section import Section

_GRANT_COLUMNS = ", ".join(column for column in GrantRow.__struct_fields__ if column != "conversation_ids")


class Grants(Section):
    """Grants: what a reader may expand, how much of it, and what was read."""

    def add(self, row: GrantRow) -> None:
        """Add a grant; conversations of another owner are not part of it (in a transaction)."""
        *values, conversation_ids = astuple(row)
        columns = (*GrantRow.__struct_fields__[:-1], "owner")
        self.insert("recall_grant", columns, [(*values, self.owner)])
        self.run(
            "INSERT INTO grant_conversation (grant_id, conversation_id) SELECT :id, c.id FROM conversation c"
            f" WHERE c.owner = :owner AND c.id IN ({self.each_of('ids', 'bigint')})",
            id=row.id,
            owner=self.owner,
            ids=self.listing(conversation_ids),
        )

    def get(self, grant_id: str) -> GrantRow | None:
        rows = self.all(
            f"SELECT {_GRANT_COLUMNS} FROM recall_grant WHERE id = :id AND owner = :owner",
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
        """Reserve tokens of a grant, in one statement; False if it is spent, expired or revoked."""
        with self.store.transaction():
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
        """Return the unused part of a reservation, and record what was read."""
        with self.store.transaction():
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
        """End a grant; False if there is no such grant."""
        with self.store.transaction():
            known = self.run(
                "UPDATE recall_grant SET revoked_at = coalesce(revoked_at, :now) WHERE id = :id AND owner = :owner",
                now=now,
                id=grant_id,
                owner=self.owner,
            )
        return known > 0

    def forget_ended(self, ended_before: int) -> int:
        """Remove grants that ended before a time, and their ledgers; return how many."""
        with self.store.transaction():
            return self.run(
                "DELETE FROM recall_grant WHERE owner = :owner AND coalesce(revoked_at, expires_at) < :before",
                owner=self.owner,
                before=ended_before,
            )
