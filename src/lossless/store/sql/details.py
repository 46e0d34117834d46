"""Summaries and messages in detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lossless.store import jsontext
from lossless.store.rows.types import SPAN, Aside, Named, PlacedSummary, RevisionRow, Run, SourceMessage, SummaryRow
from lossless.store.sql.columns import (
    OWNED,
    Row,
)
from lossless.store.sql.section import Section

_TIME = "coalesce(s.latest_at, s.created_at)"

_COLUMNS = ", ".join(
    [
        *("substr(s.text, 1, :length)" if name == "text" else f"s.{name}" for name in SummaryRow.__struct_fields__),
        "s.stale",
        "(SELECT count(*) FROM summary_source l WHERE l.summary_id = s.id)"
        " + (SELECT count(*) FROM summary_message l WHERE l.summary_id = s.id)",
        "(SELECT count(*) FROM summary_source l WHERE l.source_id = s.id)",
        "(SELECT count(*) FROM item i WHERE i.summary_id = s.id)",
        "(SELECT d.cause FROM detached d WHERE d.summary_id = s.id)",
    ]
)

_REVISION = ", ".join(f"r.{name}" for name in RevisionRow.__struct_fields__)

_NEAR = 50
"""How many rows, of whichever owner, are looked at on either side of an id."""


class Details(Section):
    """Summaries and messages in detail."""

    def summary_page(
        self,
        conversation_id: int,
        *,
        depths: tuple[int, int] | None,
        since: int | None,
        before: int | None,
        below: tuple[int, int] | None,
        limit: int,
        length: int,
    ) -> list[PlacedSummary]:
        """Return summaries, optionally of some depths, the newest first: by the time of their newest source, then by id; those after `below`."""
        conditions = [
            # The plus keeps SQLite from sorting a whole depth.
            ("+s.depth BETWEEN :least AND :most", depths is not None),
            (f"{_TIME} >= :since", since is not None),
            (f"{_TIME} < :before", before is not None),
            # SQLite finds the place by the first half, PostgreSQL by either.
            (f"{_TIME} <= :at AND ({_TIME}, s.id) < (:at, :id)", below is not None),
        ]
        chosen = "".join(f" AND {condition}" for condition, is_asked in conditions if is_asked)
        return self._placed(
            f"summary s WHERE s.conversation_id = :conversation{chosen} AND {OWNED}"
            f" ORDER BY {_TIME} DESC, s.id DESC LIMIT :limit",
            conversation_id,
            length,
            least=depths[0] if depths else None,
            most=depths[1] if depths else None,
            since=since,
            before=before,
            at=below[0] if below else None,
            id=below[1] if below else None,
            limit=limit,
        )

    def placed(self, conversation_id: int, ids: Sequence[int], length: int) -> dict[int, PlacedSummary]:
        found = self._placed(
            f"summary s WHERE s.id IN ({self.each_of('ids', 'bigint')}) AND +s.conversation_id = :conversation AND {OWNED}",
            conversation_id,
            length,
            ids=self.listing(ids),
        )
        return {each.id: each for each in found}

    def level_below(
        self, conversation_id: int, ids: Sequence[int], length: int
    ) -> tuple[list[tuple[int, int]], dict[int, PlacedSummary]]:
        """Return the summaries that these were made from: pairs of ids, sources in order, and the sources by id."""
        rows = self.all(
            "SELECT l.summary_id, l.source_id FROM summary_source l"
            f" WHERE l.summary_id IN ({self.each_of('ids', 'bigint')}) AND {OWNED} ORDER BY l.summary_id, l.ordinal",
            ids=self.listing(ids),
            conversation=conversation_id,
            owner=self.owner,
        )
        links = [(row[0], row[1]) for row in rows]
        return links, self.placed(conversation_id, [source for _, source in links], length)

    def level_above(self, conversation_id: int, summary_id: int, length: int) -> list[PlacedSummary]:
        """Return the summaries that were made from this one, by depth and id."""
        return self._placed(
            "summary_source up JOIN summary s ON s.id = up.summary_id WHERE up.source_id = :id"
            f" AND s.conversation_id = :conversation AND {OWNED} ORDER BY s.depth, s.public_id",
            conversation_id,
            length,
            id=summary_id,
        )

    def _placed(self, chosen: str, conversation_id: int, length: int, **given: Any) -> list[PlacedSummary]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM {chosen}",
            conversation=conversation_id,
            owner=self.owner,
            length=length,
            **given,
        )
        return [_placed(row) for row in rows]

    def source_messages(self, conversation_id: int, summary_id: int, length: int) -> list[SourceMessage]:
        """Return the messages that a leaf was made from, in order."""
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT m.id - :base, m.role, m.tokens, coalesce(m.at, m.created_at), substr(m.text, 1, :length)"
            " FROM summary_message l JOIN message m ON m.id = l.message_id"
            f" WHERE l.summary_id = :id AND m.id > :base AND m.id < :last AND {OWNED} ORDER BY m.id",
            base=base,
            last=base + SPAN,
            length=length,
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [SourceMessage(*row) for row in rows]

    def messages_below(self, conversation_id: int, ids: Sequence[int]) -> dict[int, int]:
        """Return how many messages lie below each of these summaries."""
        rows = self.all(
            "WITH RECURSIVE below (root, id) AS (SELECT s.id, s.id FROM summary s"
            f" WHERE s.id IN ({self.each_of('ids', 'bigint')}) AND +s.conversation_id = :conversation AND {OWNED}"
            " UNION SELECT b.root, l.source_id FROM below b JOIN summary_source l ON l.summary_id = b.id)"
            " SELECT b.root, count(*) FROM below b JOIN summary_message l ON l.summary_id = b.id GROUP BY b.root",
            ids=self.listing(ids),
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0]: row[1] for row in rows}

    def runs(self, conversation_id: int) -> list[Run]:
        """Return the context in order, neighbouring messages as one."""
        # Messages that stand together have as many summaries before them.
        rows = self.all(
            "SELECT i.summary_id, min(i.ordinal), max(i.ordinal), count(*), CAST(sum(i.tokens) AS BIGINT) FROM ("
            "SELECT summary_id, ordinal, tokens, count(summary_id) OVER (ORDER BY ordinal) AS run"
            f" FROM item WHERE conversation_id = :conversation AND {OWNED}) i"
            " GROUP BY i.run, i.summary_id ORDER BY 2",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [Run(*row) for row in rows]

    def aside(self, conversation_id: int) -> list[Aside]:
        """Return what left the context, in order: summaries one by one, messages by cause."""
        rows = self.all(
            "SELECT d.summary_id, min(d.ordinal), max(d.ordinal), count(*), CAST(sum(d.tokens) AS BIGINT), d.cause, max(d.at)"
            f" FROM detached d WHERE d.conversation_id = :conversation AND {OWNED} GROUP BY d.cause, d.summary_id"
            " ORDER BY 2, 7",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [Aside(*row) for row in rows]

    def message_times(self, conversation_id: int, seqs: Sequence[int]) -> dict[int, int]:
        """Return the times of these messages."""
        base = conversation_id * SPAN
        rows = self.all(
            "SELECT m.id, coalesce(m.at, m.created_at) FROM message m"
            f" WHERE m.id IN ({self.each_of('ids', 'bigint')}) AND {OWNED}",
            ids=self.listing([base + seq for seq in seqs]),
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0] - base: row[1] for row in rows}

    def earlier(self, conversation_id: int, summary_id: int) -> list[RevisionRow]:
        """Return the earlier texts of a summary, the newest first."""
        rows = self.all(
            f"SELECT {_REVISION} FROM revision r JOIN summary s ON s.id = r.summary_id WHERE r.summary_id = :id"
            f" AND s.conversation_id = :conversation AND {OWNED} ORDER BY r.revision DESC",
            id=summary_id,
            conversation=conversation_id,
            owner=self.owner,
        )
        return [RevisionRow(*row) for row in rows]

    def revised_in(self, summary_id: int, revisions: Sequence[int]) -> dict[int, str]:
        """Return the operations that gave a summary these texts, by revision; not those that were undone."""
        # An operation that gives a summary another text has put the one before it away.
        keys = {jsontext.dumps([summary_id, revision - 1]): revision for revision in revisions}
        rows = self.all(
            "SELECT c.key, o.id FROM operation o JOIN change c ON c.operation_id = o.id"
            " WHERE o.owner = :owner AND o.status <> 'undone' AND c.table_name = 'revision'"
            f" AND c.key IN ({self.each_of('keys', 'text')})",
            owner=self.owner,
            keys=self.listing(list(keys)),
        )
        return {keys[key]: operation for key, operation in rows}

    def around(self, what: Named, id: str) -> list[str]:
        """Return this owner's ids just before and after one that does not exist."""
        if what == "file":
            return [found for side in ("max", "min") if (found := self._file_beside(side, id)) is not None]
        return [
            name for compare, order in (("<", "DESC"), (">=", "ASC")) for name in self._beside(what, id, compare, order)
        ]

    def _beside(self, what: str, id: str, compare: str, order: str) -> list[str]:
        """Return the next two of this owner's, on one side of an id."""
        column, owner = ("public_id", "conversation_id") if what == "summary" else ("id", "owner")
        near = (
            f"(SELECT t.{column} AS name, t.{owner} AS whose FROM {what} t WHERE t.{column} {compare} :id"
            f" ORDER BY t.{column} {order} LIMIT {_NEAR}) near"
        )
        ours = "SELECT c.id FROM conversation c WHERE c.owner = :owner" if what == "summary" else ":owner"
        rows = self.all(
            f"SELECT near.name FROM {near} WHERE near.whose IN ({ours}) ORDER BY near.name {order} LIMIT 2",
            id=id,
            owner=self.owner,
        )
        return [row[0] for row in rows]

    def _file_beside(self, side: str, id: str) -> str | None:
        compare = "<" if side == "max" else ">="
        found: str | None = self.all(
            f"SELECT {side}(near.id) FROM (SELECT (SELECT {side}(f.id) FROM file f WHERE f.conversation_id = c.id"
            f" AND f.id {compare} :id) AS id FROM conversation c WHERE c.owner = :owner) near",
            id=id,
            owner=self.owner,
        )[0][0]
        return found


def _placed(row: Row) -> PlacedSummary:
    *columns, stale, sources, consumers, shown, cause = row
    return PlacedSummary(*(*columns, bool(stale), sources, consumers, bool(shown), cause))
