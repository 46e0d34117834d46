"""Counts and sums for status, statistics and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lossless.store import jsontext
from lossless.store.rows.types import DebtRow, DepthRow, Glance, Heap, WrittenRow
from lossless.store.sql.columns import (
    Row,
)
from lossless.store.sql.section import Section

_DEBT_COLUMNS = ", ".join(f"d.{column}" for column in DebtRow.__struct_fields__).replace("d.key", "c.key")

# What was read to write a summary: messages, or the summaries it was made from.
_READ = (
    "CASE s.depth WHEN 0 THEN s.source_tokens ELSE (SELECT coalesce(sum(q.tokens), 0) FROM summary_source l"
    " JOIN summary q ON q.id = l.source_id WHERE l.summary_id = s.id) END"
)


class Figures(Section):
    """Figures of a conversation that its own row does not contain."""

    def heap(self, conversation_id: int | None) -> Heap:
        """Return the totals of one conversation, or of all."""
        items, messages = self._sums("count(*), sum(CASE WHEN i.depth < 0 THEN i.tokens ELSE 0 END)", conversation_id)
        (sources,) = self._sums("sum(s.source_tokens)", conversation_id, " JOIN summary s ON s.id = i.summary_id")
        rows = self.all(
            "SELECT coalesce(sum(d.tokens), 0) FROM conversation c JOIN detached d ON d.conversation_id = c.id"
            f"{_own(conversation_id)} AND d.depth < 0",
            **self._of(conversation_id),
        )
        return Heap(items, messages, int(rows[0][0]), sources)

    def _sums(self, what: str, conversation_id: int | None, joined: str = "") -> list[int]:
        rows = self.all(
            f"SELECT {what} FROM conversation c JOIN item i ON i.conversation_id = c.id{joined}{_own(conversation_id)}",
            **self._of(conversation_id),
        )
        return [int(each or 0) for each in rows[0]]

    def _of(self, conversation_id: int | None) -> dict[str, Any]:
        return (
            {"owner": self.owner} if conversation_id is None else {"owner": self.owner, "conversation": conversation_id}
        )

    def windows(self, conversation_ids: Sequence[int]) -> dict[int, tuple[int, str | None]]:
        """Return the window that the host of each conversation named last, and its model; those that named none are missing."""
        among = f"c.id IN ({self.each_of('ids', 'bigint')}) AND c.owner = :owner"
        given = {"ids": self.listing(conversation_ids), "owner": self.owner}
        shown = self.all(
            "SELECT c.id, m.at, m.window_tokens, d.model FROM conversation c JOIN manifest m ON m.conversation_id = c.id"
            " AND m.turn = (SELECT max(n.turn) FROM manifest n WHERE n.conversation_id = c.id)"
            f" LEFT JOIN debt d ON d.conversation_id = c.id WHERE {among}",
            **given,
        )
        due = self.all(
            "SELECT c.id, d.requested_at, d.window_tokens, d.model FROM conversation c JOIN debt d ON d.conversation_id = c.id"
            f" WHERE {among} AND d.window_tokens > 0",
            **given,
        )
        found = sorted([*shown, *due], key=lambda row: (row[0], row[1]))
        return {identity: (window, model) for identity, _, window, model in found}

    def depth_rows(self, conversation_id: int | None, *, since: int, tries: int) -> list[DepthRow]:
        """Count by depth the summaries made since then; `tries` failures make one a failed one."""
        flaws = (
            "s.level = 'extractive'",
            "s.level = 'cut'",
            "s.faithful < 1",
            "s.stale = 1",
            "s.tries >= :tries AND (s.stale = 1 OR s.level = 'extractive' OR s.level = 'cut')",
        )
        counted = ", ".join(f"sum(CASE WHEN {flaw} THEN 1 ELSE 0 END)" for flaw in flaws)
        rows = self.all(
            f"SELECT s.depth, count(*), sum(s.tokens), sum(s.source_tokens), {counted} FROM conversation c"
            f" JOIN summary s ON s.conversation_id = c.id{_own(conversation_id)} AND s.created_at >= :since GROUP BY s.depth ORDER BY 1",
            since=since,
            tries=tries,
            **self._of(conversation_id),
        )
        return [DepthRow(*map(int, row)) for row in rows]

    def files_kept(self) -> tuple[int, int]:
        """Return how many payloads this owner has out of line, and their bytes, each once."""
        rows = self.all(
            "SELECT count(*), sum(t.bytes) FROM (SELECT max(f.bytes) AS bytes FROM conversation c"
            " JOIN file f ON f.conversation_id = c.id WHERE c.owner = :owner GROUP BY f.sha256) t",
            owner=self.owner,
        )
        return rows[0][0], int(rows[0][1] or 0)

    def debts(self, conversation_id: int | None) -> list[tuple[DebtRow, int]]:
        """Return pending, failed or too small work of active conversations, with the tokens of their contexts."""
        rows = self.all(
            f"SELECT c.context_tokens, {_DEBT_COLUMNS} FROM debt d JOIN conversation c ON c.id = d.conversation_id{_own(conversation_id)}"
            " AND c.active = 1 AND (d.pending = 1 OR d.failure IS NOT NULL"
            " OR (d.window_tokens > 0 AND c.context_tokens > d.window_tokens)) ORDER BY d.requested_at",
            **self._of(conversation_id),
        )
        return [(_debt(row[1:]), row[0]) for row in rows]

    def guards(self, prefix: str) -> dict[str, Any]:
        """Return the guards whose names begin with a prefix, by the rest of their names."""
        begins = self.store.state._guard_name(prefix)
        rows = self.all(
            "SELECT name, state FROM guard WHERE substr(name, 1, :size) = :begins ORDER BY name",
            size=len(begins),
            begins=begins,
        )
        return {name[len(begins) :]: jsontext.loads(state) for name, state in rows}

    def newest_cursors(
        self, prefix: str, conversation_id: int | None, limit: int
    ) -> tuple[int, list[tuple[str, str, Any]]]:
        """Return how many sources begin with a prefix, and key, source and state of the newest cursors."""
        among = f"FROM cursor k JOIN conversation c ON c.id = k.conversation_id{_own(conversation_id)} AND substr(k.source, 1, :size) = :prefix"
        given = {**self._of(conversation_id), "size": len(prefix), "prefix": prefix}
        total = self.all(f"SELECT count(DISTINCT k.source) {among}", **given)
        rows = self.all(
            f"SELECT c.key, k.source, k.state {among} ORDER BY k.updated_at DESC, k.source LIMIT :limit",
            limit=limit,
            **given,
        )
        return total[0][0], [(key, source, jsontext.loads(state)) for key, source, state in rows]

    def glances(self, ids: Sequence[int]) -> list[Glance]:
        """Return these messages, by id."""
        rows = self.all(
            "SELECT m.id, m.role, m.tokens, coalesce(m.at, m.created_at), m.created_at FROM message m"
            f" JOIN conversation c ON c.id = m.conversation_id WHERE c.owner = :owner"
            f" AND m.id IN ({self.each_of('ids', 'bigint')}) ORDER BY m.id",
            owner=self.owner,
            ids=self.listing(ids),
        )
        return [Glance(*row) for row in rows]

    def written(self, conversation_id: int | None, since: int) -> list[WrittenRow]:
        """Count what each model wrote since then; copies of summaries do not count."""
        summaries = "FROM conversation c JOIN summary s ON s.conversation_id = c.id"
        own = f"{_own(conversation_id)} AND s.origin IS NULL"
        rows = self.all(
            "SELECT t.model, count(*), sum(t.seen), sum(t.tokens) FROM"
            f" (SELECT s.model, {_READ} AS seen, s.tokens {summaries}{own} AND s.created_at >= :since UNION ALL"
            f" SELECT r.model, {_READ}, r.tokens {summaries} JOIN revision r ON r.summary_id = s.id{own} AND r.created_at >= :since) t"
            " GROUP BY t.model ORDER BY 3 DESC, 1",
            since=since,
            **self._of(conversation_id),
        )
        return [WrittenRow(model, texts, int(read), int(tokens)) for model, texts, read, tokens in rows]

    def turns(self, conversation_ids: Sequence[int], since: int) -> list[tuple[int, int, int]]:
        """Return conversation, time and tokens of each assembly since then, in no order."""
        rows = self.all(
            "SELECT m.conversation_id, m.at, m.tokens FROM manifest m JOIN conversation c ON c.id = m.conversation_id"
            f" WHERE c.owner = :owner AND m.at >= :since AND m.conversation_id IN ({self.each_of('ids', 'bigint')})",
            owner=self.owner,
            since=since,
            ids=self.listing(conversation_ids),
        )
        return [(row[0], row[1], row[2]) for row in rows]


def _own(conversation_id: int | None) -> str:
    return " WHERE c.owner = :owner" + ("" if conversation_id is None else " AND c.id = :conversation")


def _debt(row: Row) -> DebtRow:
    conversation_id, key, pending, *rest = row
    return DebtRow(conversation_id, key, bool(pending), *rest)
