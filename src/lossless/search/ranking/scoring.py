"""How well a message answers a question: arithmetic over where its terms stand.

A term counts by how rare it is. Its occurrences are divided by the length of the message (nothing is gained by
being shorter than `_PIVOT` words) and flow to the neighbours, because a turn of a dialogue leaves out what the
turn before it said. They flow before saturation, so that different words may come from different turns
while one word said twice is not counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from lossless.search.query import dates
from lossless.search.query.question import Question

_PIVOT = 45
_SATURATION = 1.2
_LISTENS = 60
"""A message of more words than this takes less from its neighbours."""
_HALF_LIFE = 30
"""Words between two messages that halve what flows from one to the other."""
_NEAR = 0.4
_NEAR_WORDS = 3
_BOOST = 1.75
_OWN_NAME = 0.25
"""What a speaker's name weighs as a word: others say it to them more often than of them."""
_DATE_SHARE = 0.2

Places = Sequence[Sequence[int]]
"""For each term, where it stands in a message, ascending."""


class Line(Struct, frozen=True, gc=False):
    """What a message is, besides its words."""

    role: str
    words: int
    speaker: str | None
    at: int


class _Gauge(NamedTuple):
    """What the length of a message makes of the words in it and around it."""

    share: float
    """Of one occurrence in it."""
    listens: float
    """What it takes of what flows to it."""
    passes: float
    """What it lets through, from the one before it to the one behind."""


@lru_cache(4096)
def _gauge(words: int) -> _Gauge:
    share = 1 / (0.25 + 0.75 * max(words, _PIVOT) / _PIVOT)
    return _Gauge(share, min(1.0, _LISTENS / max(words, 1)), 0.5 ** (words / _HALF_LIFE))


def weight(holding: int, total: int) -> float:
    """How much a term says that `holding` of `total` messages hold."""
    return math.log(1 + (max(total, holding) - holding + 0.5) / (holding + 0.5))


def rank(
    question: Question, weights: Sequence[float], lines: Mapping[int, Line], places: Mapping[int, Places]
) -> dict[int, float]:
    """The scores of messages that hold a term or stand beside one that does. Every id in `places` has a line."""
    speaker = _speaker(question, lines)
    if speaker is not None:
        weights = _without_name(question, weights, speaker)
    scores = _flowing(weights, lines, places)
    _add_pairs(scores, question, weights, places)
    if speaker is not None or question.is_first_person:
        for each in scores:
            scores[each] *= _asked_for(question, speaker, lines[each])
    if question.days and scores:
        _add_dates(scores, question, speaker, lines)
    return scores


def _flowing(weights: Sequence[float], lines: Mapping[int, Line], places: Mapping[int, Places]) -> dict[int, float]:
    scores: dict[int, float] = {}
    shares = {each: _gauge(lines[each].words).share for each in places}
    reaches = {each: _reach(each, lines) for each in places}
    for term, worth in enumerate(weights):
        counts: dict[int, float] = {}
        for each, found in places.items():
            if found[term]:
                share = len(found[term]) * shares[each]
                for other, part in reaches[each]:
                    counts[other] = counts.get(other, 0.0) + part * share
        for each, count in counts.items():
            scores[each] = scores.get(each, 0.0) + worth * count / (_SATURATION + count)
    return scores


def _reach(each: int, lines: Mapping[int, Line]) -> list[tuple[int, float]]:
    """The message itself and those it flows to, two to either side. Ids of one conversation follow each other."""
    reach = [(each, 1.0)]
    for next_, second in ((each - 1, each - 2), (each + 1, each + 2)):
        if next_ in lines:
            _, listens, passes = _gauge(lines[next_].words)
            reach.append((next_, 0.5 * listens))
            if second in lines:
                reach.append((second, 0.5 * passes * _gauge(lines[second].words).listens))
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
    """Whether a place of each lies within a few words of the other."""
    i = j = 0
    while i < len(one) and j < len(other):
        if abs(one[i] - other[j]) <= _NEAR_WORDS:
            return True
        if one[i] < other[j]:
            i += 1
        else:
            j += 1
    return False


def _speaker(question: Question, lines: Mapping[int, Line]) -> str | None:
    """The one speaker whom the question names; none if it names several."""
    known = {line.speaker for line in lines.values() if line.speaker}
    named = [name for name in known if not question.words.isdisjoint(name.lower().split())]
    return named[0] if len(named) == 1 else None


def _without_name(question: Question, weights: Sequence[float], speaker: str) -> list[float]:
    name = speaker.lower().split()
    return [
        worth * _OWN_NAME if term.forms[0] in name else worth
        for term, worth in zip(question.terms, weights, strict=True)
    ]


def _asked_for(question: Question, speaker: str | None, line: Line) -> float:
    boost = _BOOST if speaker is not None and line.speaker == speaker else 1.0
    return boost * _BOOST if question.is_first_person and line.role == "user" else boost


def _add_dates(scores: dict[int, float], question: Question, speaker: str | None, lines: Mapping[int, Line]) -> None:
    times = [line.at for line in lines.values()]
    spans = dates.spans(question.days, min(times), max(times))
    share = _DATE_SHARE * max(scores.values())
    for each, score in scores.items():
        line = lines[each]
        fits = max((span.weight for span in spans if span.start <= line.at < span.end), default=0.0)
        if fits:
            other = speaker is not None and line.speaker != speaker
            scores[each] = _BOOST * (score + share * fits * (0.5 if other else 1.0))
