"""Find the passages of a source that a sentence is about.

A passage is a sentence or a line. The words that a sentence shares with the passages around a place, rare words before
frequent ones, say how much that place is about the same thing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import cached_property
from itertools import pairwise
from math import log

from lossless.engine.compaction.faithful.stems import COMMON, IRREGULAR, stem
from lossless.engine.compaction.faithful.wording import CJK, PIECE, Wording

_WIDE = re.compile(f"[{CJK}]")
_FADING = (1.0, 0.85, 0.7, 0.55, 0.45, 0.35, 0.3, 0.25, 0.2, *(0.15,) * 12)
"""The weight of a word by its distance in passages."""
_RARE = 16
"""The most passages of a word that can lead to a place."""
_USUAL = 8
"""The number of passages with the subject of a sentence: a word in fewer of them says no more about it."""
_OUTSIDE = 0.4
"""The weight of a word that is in the sentence of a claim, but not in its clause."""
_LEADS = 4
"""The number of a sentence's rarest words from which places are looked for."""


def keys(text: str) -> Iterator[str]:
    """Yield the words of a lower-case text in a form to compare; pairs of signs in CJK."""
    for piece in PIECE.findall(text):
        if _WIDE.match(piece):
            yield from map("".join, pairwise(piece))
        elif key := _key(piece):
            yield key


def _key(word: str) -> str:
    return "" if len(word) < 2 or word in COMMON or word.isdigit() else stem(word)


class Nearby:
    """The places of a summary's words in a source."""

    def __init__(self, source: Wording, wanted: set[str]) -> None:
        self._source = source
        self._places = _places(source, wanted)
        self.passages = source.ranks[-1] + 1 if source.ranks else 1

    def places(self, key: str) -> Sequence[int]:
        return self._places.get(key, ())

    def unknown(self, said: Collection[str]) -> float:
        """Return the share of a sentence's words that no passage has."""
        return sum(1 for key in said if key not in self._places) / max(1, len(said))

    def coverage(self, said: Collection[str]) -> float:
        """Return the share of a sentence, by weight, that the best place has."""
        theme = self.theme(said)
        unknown = self.unknown(said) * len(said) * log(max(2.0, (self.passages + 1) / _USUAL))
        return theme.best / (theme.total + unknown) if theme.total + unknown else 1.0

    def theme(self, said: Iterable[str]) -> Theme:
        """Return the known words of a sentence, by weight."""
        known = {key: places for key in dict.fromkeys(said) if (places := self._places.get(key))}
        most = self.passages + 1
        return Theme(
            {
                key: (log(most / max(_USUAL, len(places))), places)
                for key, places in known.items()
                if 3 * len(places) < most
            }
        )


def _places(source: Wording, wanted: set[str]) -> dict[str, list[int]]:
    """Return the passages of each of these words, in order."""
    heads = {key[:3] for key in wanted}
    known = (word for word in source.words if word[:3] in heads or word in IRREGULAR)
    forms = {word: key for word in known if (key := _key(word)) in wanted}
    places: dict[str, list[int]] = defaultdict(list)
    for word, rank in source.located(forms.keys()):
        places[forms[word]].append(rank)
    if source.wide:
        pairs = {key for key in wanted if len(key) == 2 and _WIDE.match(key)}
        for pair, rank in source.located_pairs(pairs):
            places[pair].append(rank)
    return places


class Theme:
    """The words of a sentence that its source contains."""

    def __init__(self, words: dict[str, tuple[float, Sequence[int]]]) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def shared(self, clause: Set[str]) -> int:
        """Return the number of its words that are in one clause."""
        return len(self._words.keys() & clause)

    def focused(self, inside: Set[str]) -> Theme:
        """Return the theme with less weight for the words outside one clause."""
        return Theme(
            {
                key: (weight if key in inside else weight * _OUTSIDE, places)
                for key, (weight, places) in self._words.items()
            }
        )

    @cached_property
    def total(self) -> float:
        """The weight of all its words."""
        return sum(weight for weight, _ in self._words.values())

    def at(self, rank: int) -> float:
        """Return the weight of the words at and around a passage."""
        score = 0.0
        for weight, places in self._words.values():
            after = bisect_left(places, rank)
            distance = places[after] - rank if after < len(places) else _FAR
            if after and rank - places[after - 1] < distance:
                distance = rank - places[after - 1]
            if distance < _FAR:
                score += weight * _FADING[distance]
        return score

    @cached_property
    def _scored(self) -> dict[int, float]:
        rarest = sorted(self._words.values(), key=lambda each: len(each[1]))[:_LEADS]
        leads = {rank for _, places in rarest for rank in places[:_RARE]}
        return {rank: self.at(rank) for rank in sorted(leads)}

    @cached_property
    def best(self) -> float:
        """The weight of the place that is most about the same."""
        return max(self._scored.values(), default=0.0)

    def closest(self, share: float) -> list[int]:
        """Return the passages with this share of the best weight, the best first."""
        least = share * self.best
        found = [(-score, rank) for rank, score in self._scored.items() if score >= least]
        return [rank for _, rank in sorted(found)]


_FAR = len(_FADING)
