"""The half of a full-text search that both databases share: visible conversations, and a message's row."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from lossless.store import jsontext
from lossless.store.rows.types import SPAN
from lossless.store.store import Store

if TYPE_CHECKING:
    from lossless.search.ranking.messages import Limits
    from lossless.search.ranking.scoring import Line

AT = "coalesce(m.at, m.created_at)"
"""The time of a message."""
LINE = f"m.id, m.role, m.tokens, m.meta, {AT}"
"""What a search must know of a message besides its words."""
SUMMARY_TIMES = (
    "(CAST(:since AS bigint) IS NULL OR coalesce(y.latest_at, y.created_at) >= :since)"
    " AND (CAST(:before AS bigint) IS NULL OR coalesce(y.latest_at, y.created_at) < :before)"
)
"""The condition that a summary `y` lies within the times that are asked for, if any are."""


class Scope(Struct, frozen=True):
    """The conversations that are searched, ascending, and how many messages they contain."""

    ids: tuple[int, ...]
    total: int

    @property
    def first(self) -> int:
        return self.ids[0] * SPAN

    @property
    def last(self) -> int:
        """Return the id after the last one of the last conversation."""
        return (self.ids[-1] + 1) * SPAN

    @property
    def has_gaps(self) -> bool:
        """Tell whether conversations of others lie between these."""
        return self.ids[-1] - self.ids[0] + 1 != len(self.ids)


def scope(store: Store, conversation_ids: Sequence[int] | None) -> Scope:
    """Return what the store's owner may search of these conversations, or of all."""
    among = "" if conversation_ids is None else f"AND id IN ({store.each_of('ids', 'bigint')})"
    rows = store.all(
        f"SELECT id, next_seq - 1 FROM conversation WHERE owner = :owner {among} ORDER BY id",
        owner=store.owner,
        ids=store.listing(conversation_ids or ()),
    )
    return Scope(tuple(row[0] for row in rows), sum(row[1] for row in rows))


def clock(now: int | None) -> int:
    """Return the time of a question, in microseconds."""
    return time.time_ns() // 1_000 if now is None else now


def near(limits: Limits, place: str, one_of: str) -> str:
    """Return the condition that a message within the limits lies at most `:reach` from a place.

    `one_of` is the query that gives each of `:roles`.
    """
    wanted = admitted(limits, one_of)
    if not wanted:
        return "TRUE"
    return f"EXISTS (SELECT 1 FROM message m WHERE m.id BETWEEN {place} - :reach AND {place} + :reach{wanted})"


def admitted(limits: Limits, one_of: str) -> str:
    """Return the conditions that a message `m` is within the limits, each after an AND; empty without limits."""
    conditions = [
        (f"{AT} >= :since", limits.since),
        (f"{AT} < :before", limits.before),
        (f"m.role IN ({one_of})", limits.roles),
    ]
    return "".join(f" AND {condition}" for condition, value in conditions if value is not None)


def lines(rows: Iterable[tuple[Any, ...]]) -> dict[int, Line]:
    """Return the messages of rows that were read as `LINE`."""
    from lossless.search.ranking.scoring import Line

    return {each: Line(role, tokens * 4 // 5, _speaker(meta), at) for each, role, tokens, meta, at in rows}


class _Meta(Struct):
    name: str | None = None


_decode = Decoder(_Meta).decode


def _speaker(meta: str | None) -> str | None:
    if meta is None or '"name"' not in meta:
        return None
    try:
        return _decode(meta).name
    except DecodeError:
        # What only the slower reader takes: a lone surrogate somewhere, a NaN.
        return str(jsontext.loads(meta).get("name"))
