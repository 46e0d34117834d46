"""Texts to be searched one by one, and the vectors of messages."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from lossless.store.recall_calls import without
from lossless.store.rows.types import SPAN, TextKind, TextRow
from lossless.store.sql.columns import (
    NO_LIMIT,
    OWNED,
)
from lossless.store.sql.recall_calls import NO_RECALL
from lossless.store.sql.section import Section

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

_UNBURIED = "coalesce(m.outside, '') NOT IN ('forgotten', 'heartbeat')"


class Texts(Section):
    """Texts to be searched one by one, and the vectors of messages."""

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
        include_recall: bool = False,
        limit: int,
    ) -> list[tuple[int, int]]:
        """Return time and id of texts, the newest first: those after the position `below`, among these ids if given.

        `holding` leaves out texts that hold none of some literals, each time; with True the literals are in lower case
        and found in either. Some others may stay. A summary's time is that of its newest source.
        """
        table, time, within, _ = _TEXTS[kind]
        conditions = [
            (f"t.id IN ({self.each_of('among', 'bigint')})", among is not None),
            (f"{time} >= :since", since is not None),
            (f"{time} < :before", before is not None),
            (f"({time}, t.id) < (:at, :id)", below is not None),
            (NO_RECALL.format("t.id"), self._leaves_out(kind, include_recall)),
        ]
        chosen = [condition for condition, is_asked in conditions if is_asked]
        needles: dict[str, str] = {}
        for any_of, folded in holding:
            held = []
            for literal in any_of:
                name = f"needle{len(needles)}"
                condition, needles[name] = self.store.needle(literal, folded=folded)
                held.append(condition.format(f":{name}"))
            chosen.append(f"({' OR '.join(held)})")
        # With ids given, their conversations are known; else a conversation is a stretch of ids.
        joined = f"{table} t JOIN conversation c ON c.id = t.conversation_id"
        if among is None:
            joined = f"conversation c JOIN {table} t ON {within}"
        rows = self.all(
            f"SELECT {time}, t.id FROM {joined} WHERE c.owner = :owner"
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

    def _leaves_out(self, kind: TextKind, include_recall: bool) -> bool:
        return kind == "message" and not include_recall and self.store.recall_calls.are_marked

    def read(self, kind: TextKind, ids: Sequence[int], *, include_recall: bool = False) -> list[TextRow]:
        """Return the texts of these ids, in no order."""
        table, time, _, more = _TEXTS[kind]
        rows = self.all(
            f"SELECT t.id, c.id, {time}, t.text, {more} FROM {table} t JOIN conversation c ON c.id = t.conversation_id"
            f" WHERE t.id IN ({self.each_of('ids', 'bigint')}) AND c.owner = :owner",
            ids=self.listing(ids),
            owner=self.owner,
        )
        texts = [TextRow(*row) for row in rows]
        if not self._leaves_out(kind, include_recall):
            return texts
        spans: dict[int, str] = dict(
            self.all(
                "SELECT message_id, spans FROM recall_call WHERE spans IS NOT NULL"
                f" AND message_id IN ({self.each_of('ids', 'bigint')})",
                ids=self.listing(ids),
            )
        )
        return [replace(row, text=without(row.text, spans[row.id])) if row.id in spans else row for row in texts]

    def without_vector(self, conversation_id: int, model: str, *, after: int = 0, limit: int) -> list[tuple[int, str]]:
        """Return ids and texts of messages after a seq without a vector of a model, the newest first."""
        base = conversation_id * SPAN
        rows = self.all(
            f"SELECT m.id, m.text FROM message m WHERE m.id > :after AND m.id < :last AND {OWNED}"
            f" AND {_UNBURIED} AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.message_id = m.id AND v.model = :model)"
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
        """Store vectors of messages by their ids, replacing earlier ones (in a transaction)."""
        for identity, data in vectors:
            self.run(
                "INSERT INTO vector (message_id, model, data) SELECT m.id, :model, :data FROM message m"
                " JOIN conversation c ON c.id = m.conversation_id WHERE m.id = :id AND c.owner = :owner"
                # The words may be gone since they were read.
                f" AND {_UNBURIED}"
                " ON CONFLICT (message_id) DO UPDATE SET model = excluded.model, data = excluded.data",
                id=identity,
                model=model,
                data=data,
                owner=self.owner,
            )

    def vectors(self, model: str, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors of a model, of those of these messages that have one."""
        rows = self.all(
            "SELECT v.message_id, v.data FROM vector v JOIN message m ON m.id = v.message_id"
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
        above: int | None = None,
        below: int | None = None,
        include_recall: bool = False,
        limit: int,
    ) -> list[tuple[int, bytes]]:
        """Return ids of messages with their vectors, the highest id first: those between ids, within times."""
        # A stretch of the table, read backwards, so that nothing has to be sorted.
        conditions = [
            ("v.message_id < :below", below is not None),
            ("v.message_id > :above", above is not None),
            (
                "EXISTS (SELECT 1 FROM message m WHERE m.id = v.message_id AND coalesce(m.at, m.created_at) >= :since"
                " AND coalesce(m.at, m.created_at) < :before)",
                since is not None or before is not None,
            ),
            (NO_RECALL.format("v.message_id"), self._leaves_out("message", include_recall)),
        ]
        rows = self.all(
            "SELECT v.message_id, v.data FROM vector v WHERE v.message_id > :first AND v.message_id < :last"
            f" AND v.model = :model AND v.message_id / {SPAN} IN (SELECT c.id FROM conversation c"
            f" WHERE c.owner = :owner AND c.id IN ({self.each_of('conversations', 'bigint')}))"
            + "".join(f" AND {condition}" for condition, is_asked in conditions if is_asked)
            + " ORDER BY v.message_id DESC LIMIT :limit",
            first=min(conversation_ids, default=0) * SPAN,
            last=(max(conversation_ids, default=0) + 1) * SPAN,
            model=model,
            owner=self.owner,
            conversations=self.listing(conversation_ids),
            since=-NO_LIMIT if since is None else since,
            before=NO_LIMIT if before is None else before,
            above=above,
            below=below,
            limit=limit,
        )
        return [(row[0], row[1]) for row in rows]

    def count_vectors(self, model: str, conversation_id: int) -> int:
        """Count the vectors of a model in a conversation of the owner."""
        rows = self.all(
            "SELECT count(*) FROM vector v WHERE v.message_id > :first AND v.message_id < :last AND v.model = :model"
            " AND EXISTS (SELECT 1 FROM conversation c WHERE c.id = :conversation AND c.owner = :owner)",
            first=conversation_id * SPAN,
            last=(conversation_id + 1) * SPAN,
            model=model,
            conversation=conversation_id,
            owner=self.owner,
        )
        return int(rows[0][0])
