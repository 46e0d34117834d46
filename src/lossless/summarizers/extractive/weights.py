"""Weigh passages by their cues and facts.

Words are looked up rather than searched for, so that the cost is that of splitting the text once. Facts (figures,
identifiers, names, rare words) need no language; the cues are in `lossless.summarizers.extractive.cues`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lossless.summarizers.extractive.cues import BY_PAIR, BY_WORD, COMMON, TIME_WORDS
from lossless.summarizers.extractive.passages import Passage

MOST_OPEN = 5
"""The maximum number of questions and tasks that are listed as open."""
_GAINS = {
    "rule": 0.7,
    "decision": 0.6,
    "reason": 0.35,
    "change": 0.35,
    "result": 0.4,
    "pending": 0.6,
    "open": 0.2,
    "fact": 0.25,
}
_ROLES = {"user": 1.2, "assistant": 1.0, "system": 0.8, "tool": 1.0, "": 1.2}
_KINDS = {"said": 1.0, "open": 1.2, "call": 0.3, "output": 0.3, "alarm": 0.7}
_FIGURE, _TIME_WORD, _IDENTIFIER, _CAPITALS, _NAME, _PLAIN, _SHORT = 2.2, 1.6, 1.5, 1.4, 1.3, 0.4, 0.2
_RECAP = 6.0
"""The gain of a reply that repeats what the other speaker just said."""
_ECHO, _ONCE = 2.0, 0.4
"""The factor of a fact that another speaker repeats, and of one that nobody does."""
_SPEECH = 8
"""The passages of a turn from which on it is probably pasted text."""
_WORD = re.compile(r"[^\W_](?:[\w'’./:@#%&+~-]{0,80}[\w%])?|[€$£¥]")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_QUESTION = ("?", "？")


@dataclass(slots=True)
class WeightedPassage:
    """A passage with a factor for its kind and cues, and the weights of its facts."""

    passage: Passage
    facts: dict[str, float]
    cues: frozenset[str]
    words: frozenset[str]
    """Its plain words: passages with the same ones are about the same thing."""
    factor: float
    spoken: list[str]
    """All its words in order, as written."""
    open: bool = False

    @property
    def asks(self) -> bool:
        """True if it is a question."""
        return self.passage.text.endswith(_QUESTION)


def weigh(passages: Sequence[Passage]) -> list[WeightedPassage]:
    """Weigh each passage. The rarer a word in the source, the more it counts."""
    split = [split_words(passage.text) for passage in passages]
    spread = Counter(word for words in split for word in {each.lower() for each in words})
    weighted = [
        _weigh_passage(passage, words, spread, len(passages)) for passage, words in zip(passages, split, strict=True)
    ]
    for mark in (_mark_recaps, _mark_echoes, _mark_pasted, _mark_questions, _mark_superseded, _mark_open):
        mark(weighted)
    return weighted


def split_words(text: str) -> list[str]:
    """Split a text into words, or into pairs of characters where a script has no spaces."""
    words: list[str] = []
    for word in _WORD.findall(text):
        if word.isascii() or not _WIDE.search(word):
            words.append(word)
        else:
            words.extend(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return words


def _weigh_passage(passage: Passage, words: list[str], spread: Counter[str], total: int) -> WeightedPassage:
    facts: dict[str, float] = {}
    cues: set[str] = set()
    scale = 0.6 / math.log(2 + total)
    before = ""
    for nth, word in enumerate(words):
        low = word.lower().replace("’", "'")
        cue = BY_PAIR.get(f"{before} {low}") or BY_WORD.get(low)
        if cue:
            cues.add(cue)
        if low not in facts and (weight := _weight(word, low, nth)):
            facts[low] = weight * (0.4 + scale * math.log(1 + total / (spread[low] or 1)))
        before = low
    plain = frozenset(low for low in facts if low.isalpha())
    return WeightedPassage(
        passage=passage,
        facts=facts,
        cues=frozenset(cues),
        words=plain,
        factor=_factor(passage, cues, len(words)),
        spoken=words,
    )


def _weight(word: str, low: str, nth: int) -> float:
    if any(map(str.isdigit, word)):
        return _FIGURE if len(word) <= 24 else _PLAIN
    if low in TIME_WORDS:
        return _TIME_WORD
    if low in COMMON:
        return 0.0
    if not word.isalpha() and any(char in "_/.@:#~" for char in word):
        return _IDENTIFIER
    if word[1:] != low[1:]:
        return _CAPITALS
    if nth and word[0].isupper():
        return _NAME
    return _PLAIN if len(word) > 3 or not word.isascii() else _SHORT


def _factor(passage: Passage, cues: set[str], words: int) -> float:
    factor = _ROLES.get(passage.place.role, 0.8) * _KINDS[passage.kind]
    factor *= 1.0 + min(1.5, sum(_GAINS.get(cue, 0.0) for cue in cues))
    factor *= 1.5 if passage.failed else 1.0
    factor *= 0.4 if "idle" in cues else 1.0
    factor *= 1.1 if passage.ends and passage.kind == "said" else 1.0
    factor *= 0.4 if passage.text.endswith((":", "：")) else 1.0
    return factor if words > 3 else 0.5 * factor


def _mark_recaps(weighted: list[WeightedPassage]) -> None:
    """Raise sentences that repeat what the other speaker just said: the two agreed on it, in fewer words."""
    turns: dict[int, list[WeightedPassage]] = {}
    for each in weighted:
        if each.passage.kind == "said":
            turns.setdefault(each.passage.turn, []).append(each)
    for before, reply in pairwise(turns.values()):
        if before[0].passage.place.role != reply[0].passage.place.role:
            before_facts = {fact for each in before for fact in each.facts}
            for each in reply:
                shared = sum(weight for fact, weight in each.facts.items() if fact in before_facts)
                each.factor *= 1.0 + _RECAP * shared / (sum(each.facts.values()) + 1.0)


def _mark_echoes(weighted: list[WeightedPassage]) -> None:
    """Raise facts that another speaker repeats over those mentioned once."""
    first: dict[str, tuple[int, str]] = {}
    echoed: dict[str, float] = {}
    for each in weighted:
        here = each.passage.turn, each.passage.place.role
        for fact in each.facts:
            turn, role = first.setdefault(fact, here)
            if turn != here[0]:
                echoed[fact] = _ECHO if role != here[1] else max(1.0, echoed.get(fact, 0.0))
    for each in weighted:
        each.facts = {fact: weight * echoed.get(fact, _ONCE) for fact, weight in each.facts.items()}


def _mark_pasted(weighted: list[WeightedPassage]) -> None:
    """Lower each sentence of a turn with very many, which is usually pasted text."""
    lengths = Counter(each.passage.turn for each in weighted)
    for each in weighted:
        each.factor *= min(1.0, _SPEECH / lengths[each.passage.turn]) ** 0.25


def _mark_questions(weighted: list[WeightedPassage]) -> None:
    """Lower questions, unless the user answers at once: the answer is meaningless without it."""
    for question, answer in pairwise(weighted):
        if question.asks:
            answered = question.passage.place.role != answer.passage.place.role == "user"
            question.factor *= 1.6 if answered and len(answer.passage.text) < 80 else 0.4


def _mark_superseded(weighted: list[WeightedPassage]) -> None:
    """Lower a passage that differs from a newer one only in its figures."""
    newest: set[frozenset[str]] = set()
    for each in reversed(weighted):
        if len(each.words) >= 3:
            each.factor *= 0.3 if each.words in newest else 1.0
            newest.add(each.words)


def _mark_open(weighted: list[WeightedPassage]) -> None:
    """Mark the last unanswered questions, and tasks that nothing later refers to."""
    later: set[str] = set()
    speakers: set[str] = set()
    found = 0
    for each in reversed(weighted):
        if found < MOST_OPEN and each.passage.kind in ("said", "open") and _is_open(each, later, speakers):
            each.open, found = True, found + 1
            each.factor *= 1.3
        later |= each.words
        speakers |= {each.passage.place.role} if each.passage.kind == "said" else set()


def _is_open(each: WeightedPassage, later: set[str], speakers: set[str]) -> bool:
    if each.asks and not speakers - {each.passage.place.role}:
        return True
    rare = sorted(each.words, key=lambda word: (-each.facts[word], word))[:4]
    waits = "pending" in each.cues or each.passage.kind == "open"
    return waits and len(rare) > 1 and sum(word in later for word in rare) < 2
