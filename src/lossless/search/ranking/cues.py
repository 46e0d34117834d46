"""Adjust the scores of the best messages by cues that single words do not give.

A message is more likely an answer if it and the turns around it contain most of the question, if its session has a good
match, if it follows a question with the same words, or if it has the form of the answer: a time for `when`, a name for
`who` and `where`. Such cues help among short turns. The longer the messages are, the less they count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from typing import Protocol

from lossless.search.query import dates
from lossless.search.query.directives import is_directive
from lossless.search.query.question import Question
from lossless.search.query.stopwords import STOP_WORDS
from lossless.search.ranking.candidates import Shares
from lossless.search.ranking.scoring import Line, term_weight
from lossless.search.ranking.sessions import group_sessions

_COVERAGE, _SESSION, _ANSWER, _COMMON = 0.3, 0.2, 0.2, 0.1
_WHEN, _WHO, _WHERE, _ASKS, _MENTIONS = 0.65, 0.45, 0.9, 0.2, 0.3
_DIRECTIVE = 0.15
"""For what a user wants from now on: it answers many questions, and shares few words with each."""
_MOST, _MOST_READ = 250, 100
"""The number of messages that are compared, and of those whose texts are read."""
_LONGEST = 120
"""Words of a text that is read. In longer ones some name or time stands anyway."""
_SHORT = 60
"""The mean number of words up to which cues count fully."""
_BEST = 8
"""The number of best messages whose common words are looked for in the others."""

_WHEN_ASKED = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:date|day|week|month|year|time)\b|\bhow long ago\b", re.IGNORECASE
)
_WHO_ASKED = re.compile(r"^\W*who(?:m|se)?\b", re.IGNORECASE)
_WHERE_ASKED = re.compile(r"\bwhere\b|\b(?:what|which) (?:city|country|place|town|state)\b", re.IGNORECASE)
_UNIT = "(?:days?|weeks?|months?|years?|mornings?|evenings?|nights?|afternoons?|weekends?|summer|winter|spring|fall)"
_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|recently|just"
    rf"|(?:last|next|this|past|few|couple(?: of)?|two|three) (?:{_UNIT}|{_DAY})|{_DAY}"
    r"|january|february|april|june|july|august|september|october|november|december"
    r"|\d{1,2}(?:st|nd|rd|th)|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[^.!?\"'“\s] )[A-Z][a-z]+")
_WORD = re.compile(r"[^\W_]{3,}")


class Texts(Protocol):
    """The texts of `total` messages."""

    total: int

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the texts of messages."""


def add_cues(
    asked: str,
    question: Question,
    weights: Sequence[float],
    lines: Mapping[int, Line],
    masks: Mapping[int, int],
    scores: Mapping[int, float],
    spans: Sequence[dates.Span],
    source: Texts,
) -> dict[int, float]:
    """Return the scores, divided by the best of them, with the cues of the best messages added.

    `masks` have a bit for each term of the question that a message contains.
    """
    best = max(scores.values())
    result = {each: score / best for each, score in scores.items()}
    scale = min(1.0, _SHORT * len(lines) / max(1, sum(line.words for line in lines.values())))
    top = nlargest(_MOST, result, key=lambda each: (result[each], each))
    shares = Shares(weights, masks)
    for session in group_sessions(top, lines):
        session_best = max(map(result.__getitem__, session))
        for each in session:
            result[each] += scale * (_COVERAGE * shares.around(each) + _SESSION * session_best)
    read_ids = nlargest(_MOST_READ, top, key=lambda each: (result[each], each))
    wanted = {other for each in read_ids for other in (each - 1, each) if other in lines}
    texts = source.texts([each for each in wanted if lines[each].words <= _LONGEST])
    form = _answer_form(asked, question, lines)
    common = _common_words(read_ids, texts, question, source.total)
    for each in read_ids:
        text = texts.get(each)
        if text is None:
            continue
        factor = 1.0 + scale * form(text)
        if _is_question(text, lines[each]):
            factor *= 1.0 - scale * _ASKS
        added = _COMMON * sum(common[word] for word in common.keys() & set(_WORD.findall(text.lower())))
        if "?" in texts.get(each - 1, ""):
            added += _ANSWER * shares.of(each - 1)
        if spans and _mentions(text, lines[each].at, spans):
            added += _MENTIONS
        result[each] += scores[each] / best * (factor - 1.0) + scale * added
        if lines[each].role == "user" and is_directive(text):
            result[each] += _DIRECTIVE * shares.of(each)
    return result


def _answer_form(asked: str, question: Question, lines: Mapping[int, Line]) -> Callable[[str], float]:
    """Return a function that tells how much a text has the form of an answer."""
    if _WHEN_ASKED.search(asked):
        return lambda text: _WHEN if _TIME.search(text) else 0.0
    weight = _WHO if _WHO_ASKED.search(asked) else _WHERE if _WHERE_ASKED.search(asked) else 0.0
    if not weight:
        return lambda text: 0.0
    speakers = {word for line in lines.values() if line.speaker for word in line.speaker.lower().split()}
    known = question.words | speakers
    return lambda text: weight if any(name.lower() not in known for name in _NAME.findall(text)) else 0.0


def _is_question(text: str, line: Line) -> bool:
    """Return whether a text ends with a question; the name of its speaker stands after it."""
    return text.removesuffix(line.speaker or "").rstrip().endswith("?")


def _common_words(ids: Sequence[int], texts: Mapping[int, str], question: Question, total: int) -> dict[str, float]:
    """Return the words that several of the best messages share, and the share of their weight."""
    best = [set(_WORD.findall(texts[each].lower())) for each in ids[:_BEST] if each in texts]
    counts = Counter(word for words in best for word in words - STOP_WORDS - question.words)
    weights = {word: count * term_weight(count, total) for word, count in counts.items() if count > 1}
    everything = sum(weights.values())
    return {word: weight / everything for word, weight in weights.items()}


def _mentions(text: str, at: int, spans: Sequence[dates.Span]) -> bool:
    """Return whether a text names a time in the spans, counted back from its own time."""
    return any(
        span.start < end.end and end.start < span.end
        for end in (dates.ago_span(ago, at) for ago in dates.find_relative(text))
        for span in spans
    )
