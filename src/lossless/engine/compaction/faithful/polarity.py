"""Check that a summary denies what its source denies, and nothing else.

A text is read clause by clause: which words carry its meaning, and which of them are denied. Clauses of the
summary and of the source that share most of those words are laid beside each other. A difference counts only
if no clause of the source that fits as well speaks for the summary.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from lossless.engine.compaction.faithful.claim import words
from lossless.engine.compaction.faithful.stems import COMMON, IRREGULAR, stem
from lossless.engine.compaction.faithful.wording import Wording, sentences

_WORD = re.compile(r"[^\W_]+(?:['’]t\b)?|[,:()?–—]")
_CODE = re.compile(r"[{}=<>$\\|`/]")
_NONE_OF = re.compile(r"(?<![\d.,:])0 [a-z]")
_CUES = words(
    """not no never none nothing nobody neither nor without cannot can't don't doesn't didn't isn't aren't wasn't weren't
    won't wouldn't shouldn't mustn't haven't hasn't hadn't couldn't needn't zero refuse
    refused refuses nicht kein keine keinen keiner keinem keines ohne nie niemals weder не нет без нельзя никогда ни"""
)
# Where one of these stands, a clause is neither clearly affirmed nor clearly denied.
_SOFT = words(
    """only unless except instead rather hardly barely whether if would could might than most least require requires required
    lack lacks lacking lacked unable avoid against ruled postponed deferred untouched unchanged clean clear empty blank absent
    gone missing nur außer sondern statt только"""
)
# "Not before Friday" and "after Friday" say the same.
_TIMED = words("before after once until bevor nach bis до после")
_BREAKS = words(", : ( ) ? – — but because since so which although though if unless until aber weil но")
# A root for both sides of a decision, and whether the word denies it.
_OPPOSITES = {
    **dict.fromkeys(
        words(
            "accept accepts accepted approve approves approved agree agrees agreed allow allows allowed permit permitted"
        ),
        ("=allow", False),
    ),
    **dict.fromkeys(
        words(
            "reject rejects rejected decline declines declined deny denies denied forbid forbids forbidden prohibited"
        ),
        ("=allow", True),
    ),
}
# A lone "t" is what is left of "don't".
_SIGNALS = _CUES | frozenset(_OPPOSITES) | {"0", "t"}
_REACH = 4
_MANY = 48


class Clause(Struct, frozen=True):
    """The meaningful words of a clause, and those among them that it denies."""

    stems: frozenset[str]
    core: frozenset[str] = frozenset()
    """What its "not" is about."""
    head: str = ""
    """The first word of the core: what is denied, where the rest says of what."""
    denied: frozenset[str] = frozenset()
    """The core and its subject."""
    soft: bool = False
    timed: bool = False
    context: frozenset[str] = frozenset()
    """Its words and those of the clauses beside it."""
    cued: bool = False
    """Whether its sentence denies anything."""
    text: str = ""


def contradictions(summary: str, source: Wording) -> tuple[int, list[str]]:
    """Return the number of denials in a lower-case summary, and the sentences that contradict the source."""
    mine = [clause for sentence in sentences(summary) for clause in _clauses(sentence)]
    if not mine:
        return 0, []
    theirs = _Sentences(source, mine)
    wrong = {
        clause.text.strip(): None
        for clause in mine
        if clause.core and not clause.soft and not clause.timed and theirs.affirm(clause)
    }
    wrong |= {clause.text.strip(): None for clause in theirs.lost(mine)}
    # What is repeated word for word, and whole, contradicts nobody.
    return sum(1 for clause in mine if clause.core), [text for text in wrong if not source.quotes(text)]


def _clauses(sentence: str) -> list[Clause]:
    parts: list[list[str]] = [[]]
    for word in _WORD.findall(sentence.replace("’", "'")):
        if word in _BREAKS:
            if word in _SOFT or word in _TIMED:
                parts[-1].append(word)
            parts.append([])
        parts[-1].append(word)
    read = [(part, *said) for part in parts if (said := _meaning(part))[0]]
    cued = any(core for _, _, core, _ in read)
    stems = [frozenset(each) for _, each, _, _ in read]
    return [
        Clause(
            stems[at],
            frozenset(core),
            next(iter(core), ""),
            frozenset([*core, *subject]),
            # "Not without" is no denial.
            soft=not _SOFT.isdisjoint(part) or sum(word in _CUES for word in part) > 1,
            timed=not _TIMED.isdisjoint(part),
            context=stems[at].union(*stems[max(0, at - 1) : at + 2]),
            cued=cued,
            text=sentence,
        )
        for at, (part, _, core, subject) in enumerate(read)
    ]


def _meaning(spoken: list[str]) -> tuple[list[str], dict[str, None], list[str]]:
    """Return the stems of a clause, those after its "not" in order, and the last ones before it."""
    stems: list[str] = []
    core: dict[str, None] = {}
    subject: list[str] = []
    reach, denies = 0, False
    for word in spoken:
        if word in _CUES:
            reach, denies, subject = _REACH, True, subject or stems[-3:]
        elif word in _OPPOSITES:
            root, bad = _OPPOSITES[word]
            if bad != bool(reach):
                core[root] = None
                denies, subject = True, subject or stems[-3:]
            stems.append(root)
        elif word in _TIMED:
            reach = 0
        elif word not in COMMON and word not in _BREAKS and len(word) > 1:
            stems.append(stem(word))
            if reach:
                core[stems[-1]] = None
                reach -= 1
    if denies and not core:
        core = dict.fromkeys(stems[-2:])
    return stems, core, subject


class _Sentences:
    """The sentences of the source about the subjects of the summary."""

    def __init__(self, source: Wording, mine: list[Clause]) -> None:
        self._denying: list[Clause] = []
        self._affirming: list[frozenset[str]] = []
        stems = {each for clause in mine for each in clause.stems}
        heads = {each[:3] for each in stems} | {"=al"}
        known = (word for word in source.words if word[:3] in heads or word in IRREGULAR or word in _OPPOSITES)
        self._forms = {word: root for word in known if (root := _root(word)) in stems}
        if len(self._forms) < 2:
            return
        plain: list[set[str]] = []
        for sentence, found in source.saying(self._forms.keys() | _SIGNALS):
            if found.isdisjoint(_SIGNALS):
                if not sentence.endswith("?"):
                    plain.append(found)
            elif len(found & self._forms.keys()) > 1 and not sentence.endswith("?"):
                counts = "0" in found and _NONE_OF.search(sentence)
                self._read(sentence if not counts and len(_CODE.findall(sentence)) < 3 else "")
        # Only what is denied somewhere, here or there, can be affirmed in contradiction to it.
        denied = {each for clause in (*mine, *self._denying) for each in clause.core}
        needed = {word for word, root in self._forms.items() if root in denied}
        for found in plain:
            if not needed.isdisjoint(found):
                self._affirming.append(frozenset([self._forms[word] for word in found]))

    def _read(self, sentence: str) -> None:
        for clause in _clauses(sentence):
            if clause.core:
                self._denying.append(clause)
            if affirmed := clause.stems - clause.denied:
                self._affirming.append(affirmed)

    @cached_property
    def _where(self) -> dict[str, list[int]]:
        """Return the affirmations that contain a stem."""
        where: dict[str, list[int]] = defaultdict(list)
        for at, stems in enumerate(self._affirming):
            for each in stems:
                where[each].append(at)
        return where

    def _affirmations(self, core: frozenset[str]) -> Iterator[frozenset[str]]:
        """Return the affirmations of the source about these words."""
        rarest = min((self._where.get(each, []) for each in core), key=len, default=[])
        return (self._affirming[at] for at in rarest[-_MANY:] if core <= self._affirming[at])

    def affirm(self, clause: Clause) -> bool:
        """Return True if the source plainly affirms what this clause denies."""
        fits = max((len(clause.stems & stems) for stems in self._affirmations(clause.core)), default=0)
        if fits < 2 or fits < 0.6 * len(clause.stems):
            return False
        return not any(
            2 * len(denying.denied & clause.core) >= len(clause.core) and len(denying.stems & clause.context) > 1
            for denying in self._denying[-_MANY * 8 :]
        )

    def lost(self, summary: list[Clause]) -> Iterator[Clause]:
        """Yield the clauses of the summary that the source plainly denies."""
        where: dict[str, list[int]] = defaultdict(list)
        for at, clause in enumerate(summary):
            for each in clause.stems:
                where[each].append(at)
        for denying in self._denying:
            for at in {at for each in denying.core for at in where.get(each, ())[:_MANY]}:
                if self._denies(denying, summary[at]):
                    yield summary[at]

    def _denies(self, denying: Clause, clause: Clause) -> bool:
        common = denying.core & clause.stems
        if clause.soft or clause.timed or denying.soft or common & clause.denied:
            return False
        if denying.head not in common or len(common) < 0.75 * len(denying.core):
            return False
        if len(common) < 2 and clause.cued:
            return False
        fits = len(denying.context & clause.context)
        affirmed = max((len(stems & clause.context) for stems in self._affirmations(common)), default=0)
        return fits > 1 and (affirmed == 0 or (affirmed < fits and len(common) == 1))


def _root(word: str) -> str | None:
    if word in _OPPOSITES:
        return _OPPOSITES[word][0]
    return None if word in COMMON or word in _CUES else stem(word)
