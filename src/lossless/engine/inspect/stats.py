"""Count the tokens that are stored, summarised, shown and spent.

Totals come from summaries and context items. Roles, days and the length of the history at a turn need the messages
themselves: all of them while they are few, otherwise an even sample of the history.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from typing import TypeAlias

from lossless.engine.inspect.status import holdings
from lossless.model import (
    ConversationStatus,
    DayFigures,
    ModelFigures,
    RoleFigures,
    Stats,
    Step,
    Turns,
)
from lossless.store.rows.codec import micros, moment
from lossless.store.rows.types import SPAN, ConversationRow, Glance, WrittenRow
from lossless.store.store import Store
from lossless.summarizers.prices import cost

MOST_COUNTED = 10_000
_DAYS, _BIGGEST, _NEWEST = 14, 5, 20
Range: TypeAlias = tuple[int, int, int]
"""A conversation, and the first and last seq of a range of its messages."""


def stats(store: Store, rows: Sequence[ConversationRow], *, whole: bool, since: datetime | None, now: float) -> Stats:
    """Return the figures of these conversations, all of the owner's or one, since a time."""
    start = 0 if since is None else micros(since)
    only = None if whole else rows[0].id
    recent = [row for row in rows if row.updated_at >= start]
    step, ids = spread([(row.id, 1, row.messages) for row in recent])
    seen = store.figures.glances(ids)
    days, days_step = _days(store, recent, seen, step, start, now)
    models = tuple(map(_model, store.figures.written(only, start)))
    prices = [each.cost for each in models if each.cost is not None]
    return Stats(
        since=since,
        conversations=len(rows),
        holdings=holdings(store, rows, only, start),
        roles=_roles([each for each in seen if each.at >= start], step),
        step=step,
        days=days,
        days_step=days_step,
        turns=_turns(store, recent, seen, step, start),
        models=models,
        cost=sum(prices) if prices else None,
        biggest=tuple(_biggest(rows)),
    )


def spread(ranges: Iterable[Range], most: int = MOST_COUNTED) -> tuple[int, list[int]]:
    """Sample message ids evenly from ranges; return the sampling step and the ids.

    The position within each step is random with a fixed seed, because a constant distance could match a period.
    """
    listed = [(number, first, last) for number, first, last in ranges if first <= last]
    starts = [0, *accumulate(last - first + 1 for _, first, last in listed)]
    step, chance = max(1, -(-starts[-1] // most)), Random(0)
    places = [at + chance.randrange(step) for at in range(0, starts[-1], step)]

    def identity(place: int) -> int:
        at = bisect_right(starts, place) - 1
        number, first, _ = listed[at]
        return number * SPAN + first + place - starts[at]

    return step, [identity(place) for place in places if place < starts[-1]]


def _roles(messages: Sequence[Glance], step: int) -> tuple[RoleFigures, ...]:
    counts, tokens = Counter[str](), Counter[str]()
    for each in messages:
        counts[each.role] += step
        tokens[each.role] += step * each.tokens
    return tuple(RoleFigures(role, counts[role], sum_) for role, sum_ in tokens.most_common())


def _days(
    store: Store, rows: Sequence[ConversationRow], seen: Sequence[Glance], step: int, since: int, now: float
) -> tuple[tuple[DayFigures, ...], int]:
    """Count the messages of each of the last days; a sample of all history is replaced by one of these days."""
    first = moment(int(now * 1_000_000)).date() - timedelta(days=_DAYS - 1)
    start = max(since, micros(datetime(first.year, first.month, first.day, tzinfo=UTC)))
    if step > 1:
        step, ids = spread(_recent(rows, seen, step, start))
        seen = store.figures.glances(ids)
    counts = Counter(moment(each.at).date() for each in seen if each.at >= start)
    days = [first + timedelta(days=number) for number in range(_DAYS)]
    return tuple(DayFigures(day, step * counts[day]) for day in days), step


def _recent(rows: Sequence[ConversationRow], seen: Sequence[Glance], step: int, start: int) -> Iterator[Range]:
    """Yield the range of each conversation since a time, starting two samples early to be safe."""
    before: dict[int, int] = {}
    for each in seen:
        if each.at < start:
            before[each.id // SPAN] = each.id % SPAN
    for row in rows:
        if row.updated_at >= start:
            yield row.id, max(1, before.get(row.id, 0) - 2 * step), row.messages


def _turns(store: Store, rows: Sequence[ConversationRow], seen: Sequence[Glance], step: int, start: int) -> Turns:
    """Compare the tokens shown by the newest conversations with the length of their histories."""
    newest = [row.id for row in sorted(rows, key=lambda row: -row.updated_at)[:_NEWEST]]
    shown = store.figures.turns(newest, start)
    lengths = {number: _lengths(number, seen, step) for number in {each[0] for each in shown}}
    whole = sum(max(tokens, lengths[number](at)) for number, at, tokens in shown)
    sent = sum(tokens for _, _, tokens in shown)
    return Turns(
        turns=len(shown), shown_tokens=sent, whole_tokens=whole, saved_tokens=whole - sent, conversations=len(lengths)
    )


class _Lengths:
    """The length of a history in tokens at any time."""

    def __init__(self, seen: Iterable[tuple[int, int]], step: int) -> None:
        ordered = sorted(seen)
        self._times = [at for at, _ in ordered]
        self._sums = [0, *accumulate(step * tokens for _, tokens in ordered)]

    def __call__(self, at: int) -> int:
        return self._sums[bisect_right(self._times, at)]


def _lengths(number: int, seen: Sequence[Glance], step: int) -> _Lengths:
    return _Lengths(((each.created_at, each.tokens) for each in seen if each.id // SPAN == number), step)


def _model(row: WrittenRow) -> ModelFigures:
    if row.model == "extractive":
        price: float | None = 0.0  # no model is called
    else:
        price = cost(row.model, (Step("", 0, 0, 0, row.tokens_read, row.tokens_written),))
    return ModelFigures(
        model=row.model, texts=row.texts, tokens_read=row.tokens_read, tokens_written=row.tokens_written, cost=price
    )


def _biggest(rows: Sequence[ConversationRow]) -> Iterator[ConversationStatus]:
    for row in sorted(rows, key=lambda row: (-row.messages, row.id))[:_BIGGEST]:
        yield ConversationStatus(
            id=row.id,
            key=row.key,
            active=row.active,
            messages=row.messages,
            context_tokens=row.context_tokens,
            created_at=moment(row.created_at),
            updated_at=moment(row.updated_at),
        )
