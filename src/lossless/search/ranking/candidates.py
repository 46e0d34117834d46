"""Which messages are worth a close look: those that hold, with the turns beside them, most of what a question says.

Who holds what is kept as a mask with a bit for each term, so that the many messages fall into few kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_WIDER, _SHARE = 10, 10
"""Compared by what stands beside them are so many times what is wanted, or one in so many holders if that is more."""
_NEXT, _SECOND = 0.65, 0.38
"""What a term is worth that only the turn next to a message holds, or the one behind that."""


class _Worth(dict[int, float]):
    """What the terms of a mask weigh together."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._weights = weights

    def __missing__(self, mask: int) -> float:
        worth = sum(weight for term, weight in enumerate(self._weights) if mask >> term & 1)
        self[mask] = worth
        return worth


def likely(weights: Sequence[float], holders: Sequence[Sequence[int]], most: int) -> list[int]:
    """The ids of at most `most` messages, the newest of equals, from who holds each term and what it weighs."""
    held = _masks(holders)
    if len(held) <= most:
        return list(held)
    worth, get = _Worth(weights), held.get
    found: list[tuple[float, int]] = []
    for each in _weightiest(held, worth, max(_WIDER * most, sum(map(len, holders)) // _SHARE)):
        mask = held[each]
        beside = (get(each - 1, 0) | get(each + 1, 0)) & ~mask
        behind = (get(each - 2, 0) | get(each + 2, 0)) & ~mask & ~beside
        found.append((worth[mask] + _NEXT * worth[beside] + _SECOND * worth[behind], each))
    found.sort(reverse=True)
    return [each for _, each in found[:most]]


def _masks(holders: Sequence[Sequence[int]]) -> dict[int, int]:
    largest = max(range(len(holders)), key=lambda term: len(holders[term]))
    held = dict.fromkeys(holders[largest], 1 << largest)
    for term, ids in enumerate(holders):
        if term != largest:
            bit = 1 << term
            for each in ids:
                held[each] = held.get(each, 0) | bit
    return held


def _weightiest(held: dict[int, int], worth: _Worth, most: int) -> list[int]:
    """The messages with the weightiest masks; of the last mask that fits in, the newest."""
    whole: set[int] = set()
    room = most
    for mask, count in sorted(Counter(held.values()).items(), key=lambda kind: (-worth[kind[0]], kind[0])):
        if count > room:
            last = sorted(each for each, its in held.items() if its == mask)
            return [each for each, its in held.items() if its in whole] + last[len(last) - room :]
        whole.add(mask)
        room -= count
    return list(held)
