"""Weigh passages by their cues, their facts and their subject.

A passage counts by its rare facts (figures, dates, identifiers, names, quotations, rare words) and by its subject: a
figure about something that the conversation comes back to counts more than one in passing. Words are looked up rather
than searched for, so that the cost is that of splitting the text once.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from lossless.summarizers.extractive.cues import BY_PAIR, BY_WORD, COMMON, TIME_WORDS, wide_cues
from lossless.summarizers.extractive.passages import ParsedSource, Passage
from lossless.summarizers.extractive.profiles import Profile
from lossless.summarizers.extractive.words import is_function, is_wide, split_words

_SPEECH = 8
"""The passages of a turn from which on it is probably pasted text."""
_MOST_CUES = 1.5
_CAPITALISED = 0.2
"""The share of words with a capital above which capitals do not mark names."""
_LONGEST_FIGURE = 60
_QUOTED = re.compile(r"[\"“„«「『]([^\"”“«»「」『』\n]{3,80})[\"”“»」』]")
_QUESTION = ("?", "？")
_REPEATED = 3
"""The number of turns with the same two words from which on these are boilerplate."""
_MOST_CALLS, _MOST_OF_CALL = 400, 400


@dataclass(slots=True)
class WeightedPassage:
    """A passage with a factor for its kind and cues, and the weights of its facts."""

    passage: Passage
    words: list[str]
    """All its words in order, in lower case."""
    facts: dict[str, float]
    values: frozenset[str]
    """Its figures, dates, identifiers, names and quotations."""
    cues: frozenset[str]
    factor: float
    subject: float = 0.0
    """Its share in what the conversation comes back to, from 0 to 1."""
    open: bool = False
    rule: bool = False
    superseded: bool = False
    """True if a newer passage says the same with other numbers."""
    needs: set[int] = field(default_factory=set)
    """The passages without which it says too little, or something outdated."""

    @property
    def asks(self) -> bool:
        """True if it is a question."""
        return self.passage.text.endswith(_QUESTION)

    @property
    def figures(self) -> set[str]:
        """Its values with digits, and its days and months."""
        return {value for value in self.values if value in TIME_WORDS or any(map(str.isdigit, value))}

    @property
    def plain(self) -> Iterable[str]:
        """Its words that are no figures."""
        return (fact for fact in self.facts if fact.isalpha())


def weigh(parsed: ParsedSource, profile: Profile) -> list[WeightedPassage]:
    """Weigh each passage. The rarer a word in the source, the more it counts."""
    split = [split_words(passage.text) for passage in parsed.passages]
    lowered = [[word.lower().replace("’", "'") for word in words] for words in split]
    spread = Counter(word for words in lowered for word in set(words))
    if _capitalises_nouns(split):
        profile = replace(profile, name=profile.plain)
    weighted = [
        _weigh_passage(passage, words, low, spread, len(split), profile)
        for passage, words, low in zip(parsed.passages, split, lowered, strict=True)
    ]
    _raise_subjects(weighted, parsed, profile)
    _lower_boilerplate(weighted, profile)
    _raise_recaps(weighted, profile)
    _raise_echoes(weighted, profile)
    _lower_pasted(weighted)
    return weighted


def _weigh_passage(
    passage: Passage, words: list[str], lowered: list[str], spread: Counter[str], total: int, profile: Profile
) -> WeightedPassage:
    facts: dict[str, float] = {}
    values: set[str] = set()
    cues = wide_cues(passage.text) if is_wide(passage.text) else set()
    scale = profile.rarity / math.log(2 + total)
    before = ""
    for nth, (word, low) in enumerate(zip(words, lowered, strict=True)):
        if cue := BY_PAIR.get(f"{before} {low}") or BY_WORD.get(low):
            cues.add(cue)
        if low not in facts and (weight := _weight(word, low, nth, profile)):
            facts[low] = weight * (1.0 - profile.rarity + scale * math.log(1 + total / (spread[low] or 1)))
            if _is_value(word, low, nth, words, profile):
                values.add(low)
        before = low
    for quoted in _QUOTED.findall(passage.text):
        values.add(quoted.lower())
        for low in {word.lower() for word in split_words(quoted)} & facts.keys():
            facts[low] = max(facts[low], profile.quoted)
    factor = _factor(passage, cues, len(words), profile)
    if any(value in TIME_WORDS for value in values) and any(value[:1].isdigit() for value in values):
        factor *= profile.dated
    return WeightedPassage(passage, lowered, facts, frozenset(values), frozenset(cues), factor)


def _capitalises_nouns(split: Sequence[Sequence[str]]) -> bool:
    """Return whether the language writes every noun with a capital, as German does."""
    inner = [word for words in split for word in words[1:] if word.isalpha()]
    return sum(word[0].isupper() for word in inner) > _CAPITALISED * len(inner)


def _is_value(word: str, low: str, nth: int, words: Sequence[str], profile: Profile) -> bool:
    if not word.isalpha() or low in TIME_WORDS or word[1:] != low[1:]:
        return True
    if not (nth and word[0].isupper()):
        return False
    # Where every noun has a capital, only two of them in a row are a name.
    beside = [*words[max(0, nth - 1) : nth], *words[nth + 1 : nth + 2]]
    return profile.name > profile.plain or any(other[0].isupper() and other.isalpha() for other in beside)


def _weight(word: str, low: str, nth: int, profile: Profile) -> float:
    if any(map(str.isdigit, word)):
        return profile.figure if len(word) <= _LONGEST_FIGURE else profile.plain
    if low in TIME_WORDS:
        return profile.time_word
    if low in COMMON:
        return 0.0
    if not word.isascii() and len(word) <= 2 and is_wide(word):
        return 0.0 if is_function(word) else profile.plain
    if not word.isalpha() and any(char in "_/.@:#~" for char in word):
        return profile.identifier
    if word[1:] != low[1:]:
        return profile.capitals
    if nth and word[0].isupper():
        return profile.name
    return profile.plain if len(word) > 3 or not word.isascii() else profile.short


def _factor(passage: Passage, cues: set[str], words: int, profile: Profile) -> float:
    roles = {"user": profile.user, "assistant": profile.assistant, "tool": 1.0, "": profile.user}
    kinds = {"call": 0.3, "output": profile.output, "alarm": profile.alarm, "asked": profile.asked, "open": 1.2}
    factor = roles.get(passage.place.role, 0.8) * kinds.get(passage.kind, 1.0)
    factor *= 1.0 + min(_MOST_CUES, sum(profile.cues.get(cue, 0.0) for cue in cues))
    factor *= 1.5 if passage.failed else 1.0
    factor *= 0.4 if "idle" in cues else 1.0
    factor *= 1.1 if passage.ends and passage.kind == "said" else 1.0
    factor *= 0.4 if passage.text.endswith((":", "：")) else 1.0
    return factor if words > 3 else 0.5 * factor


def _raise_subjects(weighted: Sequence[WeightedPassage], parsed: ParsedSource, profile: Profile) -> None:
    """Raise passages about what many turns, tool calls and the topics of older summaries are about."""
    turns: defaultdict[str, set[int]] = defaultdict(set)
    for each in weighted:
        for word in each.plain:
            turns[word].add(each.passage.turn)
    named = Counter(word.lower() for topic in parsed.topics for word in split_words(topic))
    for _, arguments in parsed.calls[:_MOST_CALLS]:
        named.update({word.lower() for word in split_words(arguments[:_MOST_OF_CALL])})
    counts = {word: len(found) + min(named[word], len(found)) for word, found in turns.items()}
    top = math.log(profile.saturation)
    for each in weighted:
        most = sorted((counts[word] for word in each.plain if word not in BY_WORD), reverse=True)[:2]
        first, second = [*(min(1.0, math.log(count) / top) for count in most), 0.0, 0.0][:2]
        each.subject = (first + second) / 2
        each.factor *= math.exp(profile.subject * first + profile.attribute * second)


def _lower_boilerplate(weighted: Sequence[WeightedPassage], profile: Profile) -> None:
    """Lower passages in words that many turns repeat."""
    turns: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for each in weighted:
        for pair in pairwise(each.words):
            turns[pair].add(each.passage.turn)
    least = max(_REPEATED, len({each.passage.turn for each in weighted}) / 60)
    for each in weighted:
        repeated = [len(turns[pair]) >= least for pair in pairwise(each.words)]
        if repeated:
            each.factor *= 1.0 - profile.boilerplate * sum(repeated) / len(repeated)


def _raise_recaps(weighted: Sequence[WeightedPassage], profile: Profile) -> None:
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
                each.factor *= 1.0 + profile.recap * shared / (sum(each.facts.values()) + 1.0)


def _raise_echoes(weighted: Sequence[WeightedPassage], profile: Profile) -> None:
    """Raise figures, names and identifiers that another speaker repeats."""
    first: dict[str, tuple[int, str]] = {}
    echoed: set[str] = set()
    for each in weighted:
        turn, role = each.passage.turn, each.passage.place.role
        for fact in each.values:
            said = first.setdefault(fact, (turn, role))
            if said[0] != turn and said[1] != role:
                echoed.add(fact)
    for each in weighted:
        for fact in echoed & each.values & each.facts.keys():
            each.facts[fact] *= profile.echo


def _lower_pasted(weighted: Sequence[WeightedPassage]) -> None:
    """Lower each sentence of a turn with very many, which is usually pasted text."""
    lengths = Counter(each.passage.turn for each in weighted)
    for each in weighted:
        each.factor *= min(1.0, _SPEECH / lengths[each.passage.turn]) ** 0.25


def lower_vague(weighted: Sequence[WeightedPassage], profile: Profile) -> None:
    """Lower passages without a value that are no rules, open questions or decisions either."""
    for each in weighted:
        if not (each.values or each.rule or each.open or "decision" in each.cues):
            each.factor *= profile.without_value
