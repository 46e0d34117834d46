"""Link statements about the same topic: a newer value replaces the older one, and two claims belong together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lossless.summarizers.extractive.cues import BY_WORD
from lossless.summarizers.extractive.weights import WeightedPassage
from lossless.summarizers.extractive.words import is_wide

_MOST_TURNS = 4
"""The number of turns with the same words beyond which these are no topic of a single fact."""
_LEAST_WIDE = 3
"""The number of shared pairs by which a topic is recognised where a script has no spaces."""
_LEAST_STATEMENT = 4
_NUMBER = re.compile(r"[\d.,:%/-]+")
_QUOTED = 8
_SUPERSEDED = 0.3


def link_statements(weighted: Sequence[WeightedPassage]) -> None:
    """Lower what a newer statement replaces, and tie together what is only understood together."""
    _mark_superseded(weighted)
    for older, newer in _pairs(weighted):
        one, other = weighted[older], weighted[newer]
        if any(len(value) > _QUOTED and value in other.values for value in one.values):
            one.needs.add(newer)
            other.needs.add(older)
        elif one.figures and other.figures and not one.figures & other.figures:
            one.needs.add(newer)
            if other.cues & {"change", "decision"}:
                one.factor *= _SUPERSEDED
            else:
                other.needs.add(older)


def _mark_superseded(weighted: Sequence[WeightedPassage]) -> None:
    """Mark a passage that differs from a newer one only in its numbers."""
    newest: set[frozenset[str]] = set()
    for each in reversed(weighted):
        statement = frozenset(fact for fact in each.facts if not _NUMBER.fullmatch(fact))
        if len(statement) >= _LEAST_STATEMENT:
            each.superseded = statement in newest
            newest.add(statement)


def _pairs(weighted: Sequence[WeightedPassage]) -> Iterator[tuple[int, int]]:
    """Yield each statement with the next one about the same topic."""
    holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for nth, each in enumerate(weighted):
        if each.passage.kind in ("said", "open", "rule", "asked") and not each.asks:
            for key in _keys(each):
                holders[key].append(nth)
    found: Counter[tuple[int, int]] = Counter()
    for places in holders.values():
        if 2 <= len({weighted[nth].passage.turn for nth in places}) <= _MOST_TURNS:
            found.update(pair for pair in pairwise(places) if _are_apart(weighted, *pair))
    for (older, newer), count in sorted(found.items()):
        if count >= _LEAST_WIDE or not is_wide(weighted[newer].passage.text):
            yield older, newer


def _are_apart(weighted: Sequence[WeightedPassage], older: int, newer: int) -> bool:
    return weighted[older].passage.turn != weighted[newer].passage.turn


def _keys(each: WeightedPassage) -> set[tuple[str, ...]]:
    """Return the adjacent words that may name a topic, and the quotations."""
    plain = set(each.plain)
    content = [word for word in each.words if word in plain and word not in BY_WORD]
    return {*pairwise(content), *((value,) for value in each.values if len(value) > _QUOTED and " " in value)}
