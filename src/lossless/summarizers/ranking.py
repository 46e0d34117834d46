"""In which order passages are taken, until a summary is full.

Each is weighed beside those taken before it, so that nothing is told twice and no time is forgotten.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence

from lossless.summarizers.telling import Told
from lossless.tokens import estimate

_FRAME_TOKENS = 4
"""What time and speaker cost, on average."""
_STRETCHES = 8
"""Into how many parts a source is divided at least, so that none is forgotten."""
_MOST = 4_000
"""How many passages are weighed against each other."""
_DAYS_SHARE = 0.3
"""How much of the length may go to one passage for every day."""
_EVEN_SHARE = 0.3
"""How much of the length all stretches share alike; the rest goes by what they tell."""
_SAID_TOKENS, _OUTPUT_TOKENS = 300, 60
"""How much one moment's words, and one tool's output, may say before others come first."""
_COVERED, _KNOWN = 0.85, 0.4
"""What is left of a fact's news once it was told, in this summary or in the one before: less by this much."""


def ranked(told: Sequence[Told], known: set[str], limit: int) -> Iterator[Told]:
    """The passages by what each adds to those before it, for its length; somewhat more than `limit` tokens of them."""
    costs = [estimate(each.passage.text) + _FRAME_TOKENS for each in told]
    worth = _Worth(told, costs, known, limit)
    heap = [(-worth.of(nth), nth) for nth in _candidates(told, worth)]
    total = 0
    for nth in _best_of_days(told, heap):
        if total + costs[nth] <= _DAYS_SHARE * limit:
            worth.take(nth)
            total += costs[nth]
            yield told[nth]
    heap = [each for each in heap if each[1] not in worth.taken]
    heapq.heapify(heap)
    while heap and total < 1.3 * limit:
        _, nth = heapq.heappop(heap)
        # A worth only ever falls as others are taken, so the first that is still ahead of the rest is the best.
        if heap and (now := -worth.of(nth)) > heap[0][0]:
            heapq.heappush(heap, (now, nth))
            continue
        worth.take(nth)
        total += costs[nth]
        yield told[nth]


def _candidates(told: Sequence[Told], worth: _Worth) -> list[int]:
    """Each text once, the newest; of an endless source the best of each stretch, for every choice looks at them all."""
    newest = list({each.passage.text: nth for nth, each in enumerate(told)}.values())
    if len(newest) <= _MOST:
        return newest
    stretches: defaultdict[int, list[int]] = defaultdict(list)
    for nth in newest:
        stretches[worth.stretches[nth]].append(nth)
    most = max(1, _MOST // len(stretches))
    return [nth for stretch in stretches.values() for nth in heapq.nlargest(most, stretch, worth.of)]


def _best_of_days(told: Sequence[Told], heap: Sequence[tuple[float, int]]) -> Iterator[int]:
    """One passage for every day, the most telling day first."""
    seen: set[str] = set()
    for _, nth in sorted(heap):
        day = told[nth].passage.place.day
        if day not in seen:
            seen.add(day)
            yield nth


class _Worth:
    """What a passage is worth beside those taken already: news counts, and so does a time nobody spoke for."""

    def __init__(self, told: Sequence[Told], costs: Sequence[int], known: set[str], limit: int) -> None:
        self.taken: set[int] = set()
        self._told = told
        self._costs = costs
        self._covered: dict[str, float] = dict.fromkeys(known, _KNOWN)
        self.stretches = _stretches(told, costs)
        self._spent: defaultdict[object, int] = defaultdict(int)
        self._quota = _quotas(self.stretches, told, limit)

    def of(self, nth: int) -> float:
        each = self._told[nth]
        covered = self._covered
        new = sum(weight * (1.0 - covered.get(fact, 0.0)) for fact, weight in each.facts.items())
        crowd = 1.0 + self._spent[self.stretches[nth]] / self._quota[self.stretches[nth]]
        room = _SAID_TOKENS if each.passage.kind == "said" else _OUTPUT_TOKENS
        crowd *= 1.0 + self._spent[each.passage.place] / room
        return each.factor * float(new**0.8 + 0.2) / float(self._costs[nth] ** 0.9) / crowd

    def take(self, nth: int) -> None:
        each = self._told[nth]
        self.taken.add(nth)
        self._spent[self.stretches[nth]] += self._costs[nth]
        self._spent[each.passage.place] += self._costs[nth]
        self._covered.update(dict.fromkeys(each.facts, _COVERED))


def _stretches(told: Sequence[Told], costs: Sequence[int]) -> list[int]:
    """The stretch of the source that each passage belongs to: a new one each day, and after an eighth of the words."""
    most = sum(costs) / _STRETCHES
    stretches: list[int] = []
    stretch, filled, day = 0, 0.0, told[0].passage.place.day if told else ""
    for each, cost in zip(told, costs, strict=True):
        if filled and (filled + cost > most or each.passage.place.day != day):
            stretch, filled = stretch + 1, 0.0
        filled, day = filled + cost, each.passage.place.day
        stretches.append(stretch)
    return stretches


def _quotas(stretches: Sequence[int], told: Sequence[Told], limit: int) -> list[float]:
    """What each stretch may take before it is crowded: partly the same for all, partly by how much it tells."""
    count = max(stretches, default=0) + 1
    told_in = [0.0] * count
    for stretch, each in zip(stretches, told, strict=True):
        told_in[stretch] += each.factor * sum(each.facts.values())
    whole = sum(told_in) or 1.0
    return [limit * (_EVEN_SHARE / count + (1 - _EVEN_SHARE) * part / whole) + 1.0 for part in told_in]
