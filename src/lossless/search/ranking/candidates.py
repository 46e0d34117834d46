"""Choose the messages to score: those that contain most terms of a question, with the turns around them.

The terms of a message are a mask with a bit for each term, so that many messages fall into few groups. The choice does
not depend on the number of hits that are asked for, so that the pages of a search are parts of one list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lossless.search.ranking.scoring import BOOST, DATE_SHARE

_WIDER, _SHARE = 5, 10
"""Candidates compared with their neighbours: so many times the result, or one in so many matches if that is more."""
_NEXT, _SECOND = 0.65, 0.38
"""The share of a term's weight that counts if only the next message contains it, or the one after that."""


class _MaskWeights(dict[int, float]):
    """The sum of the weights of the terms in a mask, computed once."""

    def __init__(self, weights: Sequence[float], name: int = 0) -> None:
        self._weights, self._name = weights, name

    def __missing__(self, mask: int) -> float:
        total = sum(weight for term, weight in enumerate(self._weights) if mask >> term & 1)
        self[mask] = total * (BOOST if mask & self._name else 1.0)
        return self[mask]


class Candidates:
    """The messages that contain terms of a question, with their `masks`.

    `holders` are the ids of the messages that contain each term, `weights` the weight of each term.
    """

    def __init__(self, weights: Sequence[float], holders: Sequence[Sequence[int]]) -> None:
        self.masks = _masks(holders) if holders else {}
        self._matches = sum(map(len, holders))
        self._weight = _MaskWeights(weights)
        self._sum = sum(weights)

    def __len__(self) -> int:
        return len(self.masks)

    def __contains__(self, each: int) -> bool:
        return each in self.masks

    def prefer(self, name: int, weights: Sequence[float]) -> None:
        """Weigh the terms otherwise, and prefer messages with a term of the mask `name`."""
        self._weight = _MaskWeights(weights, name)

    def all(self) -> list[int]:
        return list(self.masks)

    def heaviest(self, most: int) -> list[int]:
        """Return the messages with the heaviest terms, of equals the newest."""
        weight, masks = self._weight, self.masks
        found = _heaviest(masks, weight, most)
        return sorted(found, key=lambda each: (weight[masks[each]], each), reverse=True)

    def widest(self, most: int) -> list[int]:
        """Return the messages among which `most` are chosen."""
        return _heaviest(self.masks, self._weight, max(_WIDER * most, self._matches // _SHARE))

    def choose(
        self, most: int, among: Collection[int], side: Collection[int] = (), dated: Mapping[int, float] | None = None
    ) -> list[int]:
        """Return the ids of at most `most` messages, of equals the newest.

        Those of `side`, the side of the dialogue that is asked for, count more; and those that are `dated`, in time
        spans of the question, by the weight of the span.
        """
        dated = dated or {}
        weight, get, bonus = self._weight, self.masks.get, DATE_SHARE * self._sum
        scored: list[tuple[float, int]] = []
        for each in among:
            mask = get(each, 0)
            next_to = (get(each - 1, 0) | get(each + 1, 0)) & ~mask
            second = (get(each - 2, 0) | get(each + 2, 0)) & ~mask & ~next_to
            score = weight[mask] + _NEXT * weight[next_to] + _SECOND * weight[second]
            if each in side:
                score *= BOOST
            if each in dated:
                score = BOOST * (score + bonus * dated[each])
            scored.append((score, each))
        scored.sort(reverse=True)
        return [each for _, each in scored[:most]]

    def rest(self, chosen: Collection[int]) -> list[int]:
        """Return the others, those with the heaviest terms first, of equals the newest."""
        others = [(self._weight[mask], each) for each, mask in self.masks.items() if each not in chosen]
        others.sort(reverse=True)
        return [each for _, each in others]


class Shares:
    """The share of the question's weight that messages contain; `absent` is the weight of terms that none contains."""

    def __init__(self, weights: Sequence[float], masks: Mapping[int, int], absent: float = 0.0) -> None:
        self._weights, self._masks = weights, masks
        self._total = sum(weights) + absent or 1.0
        self._known: dict[int, float] = {}

    def of(self, each: int) -> float:
        return self._share(self._masks.get(each, 0))

    def around(self, each: int) -> float:
        """Return the share of a message with two neighbours on each side."""
        get = self._masks.get
        return self._share(get(each, 0) | get(each - 1, 0) | get(each + 1, 0) | get(each - 2, 0) | get(each + 2, 0))

    def _share(self, mask: int) -> float:
        share = self._known.get(mask)
        if share is None:
            held = sum(weight for term, weight in enumerate(self._weights) if mask >> term & 1)
            share = self._known[mask] = held / self._total
        return share


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
    groups: dict[int, list[int]] = {}
    for each, mask in masks.items():
        group = groups.get(mask)
        if group is None:
            groups[mask] = [each]
        else:
            group.append(each)
    found: list[int] = []
    for mask in sorted(groups, key=lambda mask: (-weight[mask], mask)):
        group = groups[mask]
        left = most - len(found)
        if len(group) > left:
            found += sorted(group)[len(group) - left :]
            break
        found += group
    return found
