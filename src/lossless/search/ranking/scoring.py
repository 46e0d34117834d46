"""Score messages by the positions of a question's terms.

A rare term has more weight. Its occurrences are divided by the length of the message (messages shorter than `_PIVOT`
words gain nothing) and spread to the neighbours, because a turn of a dialogue omits what the turn before it said.
They spread before saturation, so that different words may come from different turns, while a repeated word does not
count twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from lossless.search.query import dates
from lossless.search.query.question import Question

_PIVOT = 45
_SATURATION = 1.2
_RECEIVES_FULLY = 60
"""A message with more words than this receives less from its neighbours."""
_HALF_LIFE = 30
"""Words between two messages that halve what spreads from one to the other."""
_NEAR = 0.4
_NEAR_WORDS = 3
BOOST = 1.75
_OWN_NAME = 0.25
"""The weight of a speaker's name as a term: others address them by it more often than they talk about them."""
DATE_SHARE = 0.2
WHOLE_YEAR = 0.3
"""The weight of a whole year: that a message was written in it says nothing by itself."""

Places = Sequence[Sequence[int]]
"""For each term, its word positions in a message, ascending."""


class Line(Struct, frozen=True, gc=False):
    """The properties of a message besides its text."""

    role: str
    words: int
    speaker: str | None
    at: int


class _LengthFactors(NamedTuple):
    """Factors that depend on the length of a message."""

    share: float
    """The value of one occurrence in it."""
    receives: float
    """The share of its neighbours' occurrences that it receives."""
    passes: float
    """The share that it passes on, from the message before it to the one after it."""


@lru_cache(4096)
def _factors(words: int) -> _LengthFactors:
    share = 1 / (0.25 + 0.75 * max(words, _PIVOT) / _PIVOT)
    return _LengthFactors(share, min(1.0, _RECEIVES_FULLY / max(words, 1)), 0.5 ** (words / _HALF_LIFE))


def term_weight(matches: int, total: int) -> float:
    """Return the weight of a term that `matches` of `total` messages contain."""
    return math.log(1 + (max(total, matches) - matches + 0.5) / (matches + 0.5))


def score_messages(
    question: Question,
    weights: Sequence[float],
    lines: Mapping[int, Line],
    places: Mapping[int, Places],
    spans: Sequence[dates.Span] = (),
) -> dict[int, float]:
    """Score the messages that contain a term, their neighbours, and those in the time spans of the question.

    Every id in `places` has a line.
    """
    speaker = find_speaker(question, lines.values())
    if speaker is not None:
        weights = without_name(question, weights, speaker)
    scores = _spread(weights, lines, places)
    _add_pairs(scores, question, weights, places)
    if speaker is not None or question.side is not None:
        for each in scores:
            scores[each] *= _person_boost(question, speaker, lines[each])
    if spans:
        _add_dates(scores, spans, speaker, lines)
    return scores


def _spread(weights: Sequence[float], lines: Mapping[int, Line], places: Mapping[int, Places]) -> dict[int, float]:
    scores: dict[int, float] = {}
    factors = {each: _factors(line.words) for each, line in lines.items()}
    shares = [(each, found, factors[each][0], _reach(each, factors)) for each, found in places.items()]
    for term, worth in enumerate(weights):
        counts: dict[int, float] = {}
        for each, found, value, reach in shares:
            if found[term]:
                share = len(found[term]) * value
                counts[each] = counts.get(each, 0.0) + share
                for other, part in reach:
                    counts[other] = counts.get(other, 0.0) + part * share
        for each, count in counts.items():
            scores[each] = scores.get(each, 0.0) + worth * count / (_SATURATION + count)
    return scores


def _reach(each: int, factors: Mapping[int, _LengthFactors]) -> list[tuple[int, float]]:
    """Return the neighbours of a message, two on either side, with the shares that spread to them.

    The ids of one conversation are consecutive.
    """
    reach = []
    get = factors.get
    if factor := get(each - 1):
        reach.append((each - 1, 0.5 * factor[1]))
        if beyond := get(each - 2):
            reach.append((each - 2, 0.5 * factor[2] * beyond[1]))
    if factor := get(each + 1):
        reach.append((each + 1, 0.5 * factor[1]))
        if beyond := get(each + 2):
            reach.append((each + 2, 0.5 * factor[2] * beyond[1]))
    return reach


def _add_pairs(
    scores: dict[int, float], question: Question, weights: Sequence[float], places: Mapping[int, Places]
) -> None:
    for one, other in question.pairs:
        bonus = _NEAR * min(weights[one], weights[other])
        for each, found in places.items():
            if found[one] and found[other] and are_near(found[one], found[other]):
                scores[each] += bonus


def are_near(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether a position of one is within a few words of a position of the other."""
    i = j = 0
    while i < len(one) and j < len(other):
        if abs(one[i] - other[j]) <= _NEAR_WORDS:
            return True
        if one[i] < other[j]:
            i += 1
        else:
            j += 1
    return False


def find_speaker(question: Question, lines: Iterable[Line]) -> str | None:
    """Return the only speaker whom the question names; None if it names several."""
    known = {line.speaker for line in lines if line.speaker}
    named = [name for name in known if not question.words.isdisjoint(name.lower().split())]
    return named[0] if len(named) == 1 else None


def without_name(question: Question, weights: Sequence[float], speaker: str) -> list[float]:
    """Return the weights with little left of the name of a speaker."""
    name = speaker.lower().split()
    return [
        worth * _OWN_NAME if term.forms[0] in name else worth
        for term, worth in zip(question.terms, weights, strict=True)
    ]


def _person_boost(question: Question, speaker: str | None, line: Line) -> float:
    boost = BOOST if speaker is not None and line.speaker == speaker else 1.0
    return boost * BOOST if line.role == question.side else boost


def span_fit(spans: Sequence[dates.Span], at: int) -> float:
    """Return the weight of the narrowest span that contains a time; 0 if none does."""
    return max((span.weight for span in spans if span.start <= at < span.end), default=0.0)


def _add_dates(
    scores: dict[int, float], spans: Sequence[dates.Span], speaker: str | None, lines: Mapping[int, Line]
) -> None:
    share = DATE_SHARE * max(scores.values(), default=1.0)
    for each, line in lines.items():
        fits = span_fit(spans, line.at)
        if fits and (each in scores or fits > WHOLE_YEAR):
            other = speaker is not None and line.speaker != speaker
            scores[each] = BOOST * (scores.get(each, 0.0) + share * fits * (0.5 if other else 1.0))
