"""Order passages by their gain, until a summary is full.

Each is compared with those taken before it, so that nothing is repeated and every period is represented.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence

from lossless.summarizers.extractive.weights import WeightedPassage
from lossless.tokens import estimate

_FRAME_TOKENS = 4
"""The average tokens of a time and speaker."""
_STRETCHES = 8
"""The minimum number of parts of a source, each of which is represented."""
_MOST = 4_000
"""The maximum number of passages that are compared with each other."""
_DAYS_SHARE = 0.3
"""The share of the length for one passage of every day."""
_EVEN_SHARE = 0.3
"""The share of the length that is divided evenly among the stretches; the rest depends on their facts."""
_SAID_TOKENS, _OUTPUT_TOKENS = 300, 60
"""The tokens of one turn, and of one tool's output, after which others are preferred."""
_COVERED, _KNOWN = 0.85, 0.4
"""The reduction of a fact's weight once this summary, or the one before, contains it."""


def rank_passages(passages: Sequence[WeightedPassage], known: set[str], limit: int) -> Iterator[WeightedPassage]:
    """Yield passages by what each adds for its length; somewhat more than `limit` tokens of them."""
    costs = [estimate(each.passage.text) + _FRAME_TOKENS for each in passages]
    gains = _Gains(passages, costs, known=known, limit=limit)
    heap = [(-gains.of(nth), nth) for nth in _candidates(passages, gains)]
    total = 0
    for nth in _best_of_days(passages, heap):
        if total + costs[nth] <= _DAYS_SHARE * limit:
            gains.take(nth)
            total += costs[nth]
            yield passages[nth]
    heap = [each for each in heap if each[1] not in gains.taken]
    heapq.heapify(heap)
    while heap and total < 1.3 * limit:
        _, nth = heapq.heappop(heap)
        # A gain only decreases as others are taken, so the first that is still ahead of the rest is the best.
        if heap and (now := -gains.of(nth)) > heap[0][0]:
            heapq.heappush(heap, (now, nth))
            continue
        gains.take(nth)
        total += costs[nth]
        yield passages[nth]


def _candidates(passages: Sequence[WeightedPassage], gains: _Gains) -> list[int]:
    """Return each text once, the newest; of a very long source only the best of each stretch."""
    newest = list({each.passage.text: nth for nth, each in enumerate(passages)}.values())
    if len(newest) <= _MOST:
        return newest
    stretches: defaultdict[int, list[int]] = defaultdict(list)
    for nth in newest:
        stretches[gains.stretches[nth]].append(nth)
    most = max(1, _MOST // len(stretches))
    return [nth for stretch in stretches.values() for nth in heapq.nlargest(most, stretch, gains.of)]


def _best_of_days(passages: Sequence[WeightedPassage], heap: Sequence[tuple[float, int]]) -> Iterator[int]:
    """Yield one passage for every day, the best day first."""
    seen: set[str] = set()
    for _, nth in sorted(heap):
        day = passages[nth].passage.place.day
        if day not in seen:
            seen.add(day)
            yield nth


class _Gains:
    """The gain of a passage over those taken already: new facts and periods without passages count more."""

    def __init__(self, passages: Sequence[WeightedPassage], costs: Sequence[int], known: set[str], limit: int) -> None:
        self.taken: set[int] = set()
        self._passages = passages
        self._costs = costs
        self._covered: dict[str, float] = dict.fromkeys(known, _KNOWN)
        self.stretches = _stretches(passages, costs)
        self._spent: defaultdict[object, int] = defaultdict(int)
        self._quota = _quotas(self.stretches, passages, limit)

    def of(self, nth: int) -> float:
        each = self._passages[nth]
        covered = self._covered
        new = sum(weight * (1.0 - covered.get(fact, 0.0)) for fact, weight in each.facts.items())
        crowd = 1.0 + self._spent[self.stretches[nth]] / self._quota[self.stretches[nth]]
        limit = _SAID_TOKENS if each.passage.kind == "said" else _OUTPUT_TOKENS
        crowd *= 1.0 + self._spent[each.passage.place] / limit
        return each.factor * float(new**0.8 + 0.2) / float(self._costs[nth] ** 0.9) / crowd

    def take(self, nth: int) -> None:
        each = self._passages[nth]
        self.taken.add(nth)
        self._spent[self.stretches[nth]] += self._costs[nth]
        self._spent[each.passage.place] += self._costs[nth]
        self._covered.update(dict.fromkeys(each.facts, _COVERED))


def _stretches(passages: Sequence[WeightedPassage], costs: Sequence[int]) -> list[int]:
    """Return the stretch of each passage; a new one starts each day and after an eighth of the words."""
    most = sum(costs) / _STRETCHES
    stretches: list[int] = []
    stretch, filled, day = 0, 0.0, passages[0].passage.place.day if passages else ""
    for each, cost in zip(passages, costs, strict=True):
        if filled and (filled + cost > most or each.passage.place.day != day):
            stretch, filled = stretch + 1, 0.0
        filled, day = filled + cost, each.passage.place.day
        stretches.append(stretch)
    return stretches


def _quotas(stretches: Sequence[int], passages: Sequence[WeightedPassage], limit: int) -> list[float]:
    """Return the quota of each stretch: partly the same for all, partly by its facts."""
    count = max(stretches, default=0) + 1
    sums = [0.0] * count
    for stretch, each in zip(stretches, passages, strict=True):
        sums[stretch] += each.factor * sum(each.facts.values())
    total = sum(sums) or 1.0
    return [limit * (_EVEN_SHARE / count + (1 - _EVEN_SHARE) * part / total) + 1.0 for part in sums]
