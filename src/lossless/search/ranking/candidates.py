"""Choose the messages to score: those that contain most terms of a question, with the turns around them.

The terms of a message are a mask with a bit for each term, so that many messages fall into few groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_WIDER, _SHARE = 10, 10
"""Candidates compared with their neighbours: so many times the result, or one in so many matches if that is more."""
_NEXT, _SECOND = 0.65, 0.38
"""The share of a term's weight that counts if only the next message contains it, or the one after that."""


class _MaskWeights(dict[int, float]):
    """The sum of the weights of the terms in a mask, computed once."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._weights = weights

    def __missing__(self, mask: int) -> float:
        total = sum(weight for term, weight in enumerate(self._weights) if mask >> term & 1)
        self[mask] = total
        return total


def choose_candidates(weights: Sequence[float], holders: Sequence[Sequence[int]], most: int) -> list[int]:
    """Return the ids of at most `most` messages, the newest of equals.

    `holders` are the ids of the messages that contain each term, `weights` the weight of each term.
    """
    masks = _masks(holders)
    if len(masks) <= most:
        return list(masks)
    weight, get = _MaskWeights(weights), masks.get
    scored: list[tuple[float, int]] = []
    for each in _heaviest(masks, weight, max(_WIDER * most, sum(map(len, holders)) // _SHARE)):
        mask = masks[each]
        next_to = (get(each - 1, 0) | get(each + 1, 0)) & ~mask
        second = (get(each - 2, 0) | get(each + 2, 0)) & ~mask & ~next_to
        scored.append((weight[mask] + _NEXT * weight[next_to] + _SECOND * weight[second], each))
    scored.sort(reverse=True)
    return [each for _, each in scored[:most]]


def _masks(holders: Sequence[Sequence[int]]) -> dict[int, int]:
    largest = max(range(len(holders)), key=lambda term: len(holders[term]))
    masks = dict.fromkeys(holders[largest], 1 << largest)
    for term, ids in enumerate(holders):
        if term != largest:
            bit = 1 << term
            for each in ids:
                masks[each] = masks.get(each, 0) | bit
    return masks


def _heaviest(masks: dict[int, int], weight: _MaskWeights, most: int) -> list[int]:
    """Return the messages with the heaviest masks; of the last mask that fits only in part, the newest."""
    chosen: set[int] = set()
    left = most
    for mask, count in sorted(Counter(masks.values()).items(), key=lambda group: (-weight[group[0]], group[0])):
        if count > left:
            last = sorted(each for each, its in masks.items() if its == mask)
            return [each for each, its in masks.items() if its in chosen] + last[len(last) - left :]
        chosen.add(mask)
        left -= count
    return list(masks)
