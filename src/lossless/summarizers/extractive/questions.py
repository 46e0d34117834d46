"""Find open questions, and the questions of short answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from lossless.summarizers.extractive.cues import BY_WORD
from lossless.summarizers.extractive.profiles import Profile
from lossless.summarizers.extractive.weights import WeightedPassage
from lossless.summarizers.extractive.words import is_wide

_KEY_WORDS = 6
_LEAST_SHARED = 0.4
"""The number of the rarest words of a question, and the share of them by which its answer is recognised."""
_REPLIES, _MOST_LATER = 2, 300
"""The number of turns after a question in which a reply is expected, and in which it may be taken up."""
_SUBJECT = 0.5
_ANSWER = re.compile(
    r"(?:yes|no|yep|nope|not really|right|correct|exactly|that's|that is|that was|it's|it is|it was|ja|nein|doch|genau|das ist|das war|es ist"
    r"|sí|no|claro|eso|es|fue|oui|non|si|c'est|c'était|sim|não|isso|é|foi|да|нет|это|конечно)\b|是|不是|对|没有|有的|はい|いいえ|ええ|それは",
    re.I,
)
"""The beginning of a reply that answers a question."""
_RESOLVED = re.compile(
    r"\b(?:clos(?:es|ed)|resolved|settles|answered|erledigt|beantwortet|resuelto|aclarado|résolu|réglé|resolvido|решено|выяснили)\b",
    re.I,
)
_BRIEF = 8
"""The maximum words of an answer that means nothing without its question."""


def mark_questions(weighted: Sequence[WeightedPassage], profile: Profile, most: int) -> None:
    """Mark questions and tasks that no later turn takes up as open, at most so many; tie short answers to theirs."""
    turns: dict[int, list[WeightedPassage]] = {}
    for each in weighted:
        if each.passage.kind != "call":
            turns.setdefault(each.passage.turn, []).append(each)
    order = list(turns)
    place = {turn: nth for nth, turn in enumerate(order)}
    spread = Counter(word for each in weighted for word in each.facts)
    for nth, each in enumerate(weighted):
        waits = ("pending" in each.cues and not _RESOLVED.search(each.passage.text)) or each.passage.kind == "open"
        if each.passage.kind not in ("said", "open") or not (each.asks or waits):
            continue
        start = place[each.passage.turn] + 1
        later = [turns[turn] for turn in order[start : start + _MOST_LATER]]
        words = sorted((word for word in each.plain if word not in BY_WORD), key=lambda word: (spread[word], word))
        if len(words) > 1 and _is_asked(each, waits or not later) and not _is_answered(each, words, later, waits):
            _opened(weighted, nth).open = True
        elif each.asks:
            each.factor *= profile.question
            if nth + 1 < len(weighted) and _is_brief_answer(each, weighted[nth + 1]):
                weighted[nth + 1].needs.add(nth)
                weighted[nth + 1].factor *= profile.answer
    _limit_open(weighted, profile, most)


def _opened(weighted: Sequence[WeightedPassage], nth: int) -> WeightedPassage:
    """Return the question that is open: "I have heard nothing" is about the sentence before."""
    each, before = weighted[nth], weighted[nth - 1] if nth else weighted[nth]
    return before if not each.asks and before.asks and before.passage.turn == each.passage.turn else each


def _limit_open(weighted: Sequence[WeightedPassage], profile: Profile, most: int) -> None:
    """Raise the questions that matter most, and treat the others like any question."""
    opened = sorted((each for each in weighted if each.open), key=lambda each: -each.factor)
    for each in opened[:most]:
        each.factor *= profile.open
    for each in opened[most:]:
        each.open = False
        each.factor *= profile.question if each.asks else 1.0


def _is_asked(each: WeightedPassage, waits: bool) -> bool:
    """Return whether an answer is expected: a question of the user about the subject, or something said to be open."""
    return waits or (each.passage.place.role in ("user", "") and each.subject >= _SUBJECT)


def _is_answered(
    each: WeightedPassage, words: list[str], later: Sequence[Sequence[WeightedPassage]], waits: bool
) -> bool:
    """Return whether the next reply takes up the question's words, or a later turn its rarest ones."""
    role = each.passage.place.role
    replies = [other for turn in later[:_REPLIES] for other in turn if other.passage.place.role != role]
    if each.asks and any(other.passage.place.role == "tool" for other in replies):
        return True  # the agent looked it up
    if replies and not waits and _ANSWER.match(replies[0].passage.text):
        return True
    least = 3 if is_wide(each.passage.text) else 2
    if _shared(words, replies) >= min(least, len(words)):
        return True
    keys = words[:_KEY_WORDS]
    return any(_shared(keys, turn) > max(least, _LEAST_SHARED * len(keys)) for turn in later)


def _shared(keys: Sequence[str], said: Sequence[WeightedPassage]) -> int:
    words = {word for each in said if not each.asks for word in each.facts}
    return sum(key in words for key in keys)


def _is_brief_answer(question: WeightedPassage, answer: WeightedPassage) -> bool:
    role = answer.passage.place.role
    is_reply = role != question.passage.place.role and len(answer.words) <= _BRIEF
    return is_reply and (bool(answer.values) or role == "user")
