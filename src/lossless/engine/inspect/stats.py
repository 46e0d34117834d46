"""The verb: tokens stored, summarised, shown and spent.

Sums come from summaries and from the view. What only messages tell (roles, days, how long the history was at a turn) is
counted message by message while there are few, and otherwise from one in so many, evenly spread over the history.
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
from lossless.store.base import SPAN, ConversationRow, Glance, WrittenRow
from lossless.store.rows import micros, moment
from lossless.store.store import Store
from lossless.summarizers.prices import cost

MOST_COUNTED = 10_000
_DAYS, _BIGGEST, _NEWEST = 14, 5, 20
Range: TypeAlias = tuple[int, int, int]
"""A conversation, and the first and the last seq of some of its messages."""


def stats(store: Store, rows: Sequence[ConversationRow], *, whole: bool, since: datetime | None, now: float) -> Stats:
    """Figures of these conversations, all of the owner's or one, as far as anything happened since."""
    start = 0 if since is None else micros(since)
    only = None if whole else rows[0].id
    late = [row for row in rows if row.updated_at >= start]
    step, ids = spread([(row.id, 1, row.messages) for row in late])
    seen = store.figures.glances(ids)
    days, days_step = _days(store, late, seen, step, start, now)
    models = tuple(map(_model, store.figures.written(only, start)))
    prices = [each.cost for each in models if each.cost is not None]
    return Stats(
        since,
        len(rows),
        holdings(store, rows, only, start),
        _roles([each for each in seen if each.at >= start], step),
        step,
        days,
        days_step,
        _turns(store, late, seen, step, start),
        models,
        sum(prices) if prices else None,
        tuple(_biggest(rows)),
    )


def spread(ranges: Iterable[Range], most: int = MOST_COUNTED) -> tuple[int, list[int]]:
    """Ids of messages all over some ranges, as if they were one: one of every so many, and how many that are.

    Which of them is left to chance, always the same: an even distance would fall in with whatever recurs.
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


def _roles(said: Sequence[Glance], step: int) -> tuple[RoleFigures, ...]:
    counts, tokens = Counter[str](), Counter[str]()
    for each in said:
        counts[each.role] += step
        tokens[each.role] += step * each.tokens
    return tuple(RoleFigures(role, counts[role], sum_) for role, sum_ in tokens.most_common())


def _days(
    store: Store, rows: Sequence[ConversationRow], seen: Sequence[Glance], step: int, since: int, now: float
) -> tuple[tuple[DayFigures, ...], int]:
    """What came on each of the last days. They are few of many: if not everything was counted, they are counted anew."""
    first = moment(int(now * 1_000_000)).date() - timedelta(days=_DAYS - 1)
    start = max(since, micros(datetime(first.year, first.month, first.day, tzinfo=UTC)))
    if step > 1:
        step, ids = spread(_recent(rows, seen, step, start))
        seen = store.figures.glances(ids)
    counts = Counter(moment(each.at).date() for each in seen if each.at >= start)
    days = [first + timedelta(days=number) for number in range(_DAYS)]
    return tuple(DayFigures(day, step * counts[day]) for day in days), step


def _recent(rows: Sequence[ConversationRow], seen: Sequence[Glance], step: int, start: int) -> Iterator[Range]:
    """Where what was said since then begins in each conversation, two of those that were counted earlier to be sure."""
    before: dict[int, int] = {}
    for each in seen:
        if each.at < start:
            before[each.id // SPAN] = each.id % SPAN
    for row in rows:
        if row.updated_at >= start:
            yield row.id, max(1, before.get(row.id, 0) - 2 * step), row.messages


def _turns(store: Store, rows: Sequence[ConversationRow], seen: Sequence[Glance], step: int, start: int) -> Turns:
    """What the newest conversations showed, and how long their histories were when they did."""
    newest = [row.id for row in sorted(rows, key=lambda row: -row.updated_at)[:_NEWEST]]
    shown = store.figures.turns(newest, start)
    lengths = {number: _lengths(number, seen, step) for number in {each[0] for each in shown}}
    whole = sum(max(tokens, lengths[number](at)) for number, at, tokens in shown)
    told = sum(tokens for _, _, tokens in shown)
    return Turns(len(shown), told, whole, whole - told, len(lengths))


class _Lengths:
    """How many tokens a history had at a time."""

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
        price: float | None = 0.0  # no model is asked
    else:
        price = cost(row.model, (Step("", 0, 0, 0, row.tokens_read, row.tokens_written),))
    return ModelFigures(row.model, row.texts, row.tokens_read, row.tokens_written, price)


def _biggest(rows: Sequence[ConversationRow]) -> Iterator[ConversationStatus]:
    for row in sorted(rows, key=lambda row: (-row.messages, row.id))[:_BIGGEST]:
        yield ConversationStatus(
            row.id,
            row.key,
            row.active,
            row.messages,
            row.context_tokens,
            moment(row.created_at),
            moment(row.updated_at),
        )
