"""Order passages by their gain, until a summary is full.

Each is compared with those taken before it, so that nothing is repeated and every period is represented.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence

from lossless.summarizers.extractive.goals import GUIDES
from lossless.summarizers.extractive.profiles import Profile
from lossless.summarizers.extractive.weights import WeightedPassage
from lossless.tokens import estimate

_FRAME_TOKENS = 4
"""The average tokens of a time and speaker."""
_STRETCHES = 8
"""The minimum number of parts of a source, each of which is represented."""
_MOST = 4_000
"""The maximum number of passages that are compared with each other."""
_COVERED, _KNOWN = 0.85, 0.4
"""The reduction of a fact's weight once this summary, or the one before, contains it."""
_LEAST_GAIN = 0.2
_GUIDE_SHARE = 0.2
"""The share of the length for the goal and the next step."""


def rank_passages(
    passages: Sequence[WeightedPassage], known: set[str], limit: int, profile: Profile
) -> Iterator[WeightedPassage]:
    """Yield passages by what each adds for its length; somewhat more than `limit` tokens of them."""
    costs = [estimate(each.passage.text) + _FRAME_TOKENS for each in passages]
    gains = _Gains(passages, costs, known=known, limit=limit, profile=profile)
    heap = [(-gains.of(nth), nth) for nth in _candidates(passages, gains)]
    ranked = [nth for _, nth in sorted(heap)]
    total = 0
    for chosen, share in (
        ((nth for nth in ranked if passages[nth].passage.kind in GUIDES), _GUIDE_SHARE),
        ((nth for nth in ranked if passages[nth].rule), profile.rules),
        ((nth for nth in ranked if passages[nth].open), profile.opened),
        (_best_of_days(passages, ranked), profile.days),
    ):
        left = share * limit
        for nth in chosen:
            if nth not in gains.taken and (cost := gains.cost(nth)) <= left:
                left -= cost
                total += cost
                for other in gains.take(nth):
                    yield passages[other]
    heap = [each for each in heap if each[1] not in gains.taken]
    heapq.heapify(heap)
    while heap and total < 1.3 * limit:
        _, nth = heapq.heappop(heap)
        if nth in gains.taken:
            continue
        # A gain mostly decreases as others are taken, so the first that is still ahead of the rest is the best.
        if heap and (now := -gains.of(nth)) > heap[0][0]:
            heapq.heappush(heap, (now, nth))
            continue
        total += gains.cost(nth)
        for other in gains.take(nth):
            yield passages[other]


def _candidates(passages: Sequence[WeightedPassage], gains: _Gains) -> list[int]:
    """Return each statement once, the newest; of a very long source only the best of each stretch."""
    newest = list({each.passage.text: nth for nth, each in enumerate(passages) if not each.superseded}.values())
    if len(newest) <= _MOST:
        return newest
    stretches: defaultdict[int, list[int]] = defaultdict(list)
    for nth in newest:
        stretches[gains.stretches[nth]].append(nth)
    most = max(1, _MOST // len(stretches))
    return [nth for stretch in stretches.values() for nth in heapq.nlargest(most, stretch, gains.of)]


def _best_of_days(passages: Sequence[WeightedPassage], ranked: Sequence[int]) -> Iterator[int]:
    """Yield one passage for every day, the best day first."""
    seen: set[str] = set()
    for nth in ranked:
        day = passages[nth].passage.place.day
        if day not in seen:
            seen.add(day)
            yield nth


class _Gains:
    """The gain of a passage over those taken already: new facts and periods without passages count more."""

    def __init__(
        self, passages: Sequence[WeightedPassage], costs: Sequence[int], known: set[str], limit: int, profile: Profile
    ) -> None:
        self.taken: set[int] = set()
        self._profile = profile
        self._passages = passages
        self._costs = costs
        self._covered: dict[str, float] = dict.fromkeys(known, _KNOWN)
        self.stretches = _stretches(passages, costs)
        self._spent: defaultdict[object, int] = defaultdict(int)
        self._quota = _quotas(self.stretches, passages, limit, profile.even)

    def _bundle(self, nth: int) -> list[int]:
        """Return the passage and those it needs, without the ones taken."""
        return [other for other in sorted(self._passages[nth].needs) if other not in self.taken] + [nth]

    def cost(self, nth: int) -> int:
        """Return the tokens of a passage with those it needs."""
        return sum(self._costs[each] for each in self._bundle(nth))

    def of(self, nth: int) -> float:
        each = self._passages[nth]
        covered = self._covered
        bundle = self._bundle(nth) if each.needs else [nth]
        new = 0.0
        for other in bundle:
            new += sum(weight * (1.0 - covered.get(fact, 0.0)) for fact, weight in self._passages[other].facts.items())
        crowd = 1.0 + self._spent[self.stretches[nth]] / self._quota[self.stretches[nth]]
        limit = self._profile.said_tokens if each.passage.kind == "said" else self._profile.output_tokens
        crowd *= 1.0 + self._spent[each.passage.place] / limit
        cost = sum(self._costs[other] for other in bundle)
        return each.factor * float(new**self._profile.gain + _LEAST_GAIN) / float(cost**self._profile.cost) / crowd

    def take(self, nth: int) -> list[int]:
        """Count a passage and those it needs as taken, and return them."""
        bundle = self._bundle(nth)
        for other in bundle:
            each = self._passages[other]
            self.taken.add(other)
            self._spent[self.stretches[other]] += self._costs[other]
            self._spent[each.passage.place] += self._costs[other]
            self._covered.update(dict.fromkeys(each.facts, _COVERED))
        return bundle


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


def _quotas(stretches: Sequence[int], passages: Sequence[WeightedPassage], limit: int, even: float) -> list[float]:
    """Return the quota of each stretch: partly the same for all, partly by its facts."""
    count = max(stretches, default=0) + 1
    sums = [0.0] * count
    for stretch, each in zip(stretches, passages, strict=True):
        sums[stretch] += each.factor * sum(each.facts.values())
    total = sum(sums) or 1.0
    return [limit * (even / count + (1 - even) * part / total) + 1.0 for part in sums]
