"""Check without a model that a summary claims only what its sources say.

A summary goes back into an agent's context as memory, so one wrong number in it is worse than a missing one.
Every number, name, path, date and "not" of the summary is looked for in what the summariser was given: numbers and dates
near the passages that their sentence is about. What is found there is not thereby true of the same thing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate, islice

from msgspec import Struct
from msgspec.structs import replace

from lossless.engine.compaction.faithful import dates, han_names, names, numbers, polarity
from lossless.engine.compaction.faithful.claim import Claim, Judged
from lossless.engine.compaction.faithful.nearby import Nearby, Theme, keys
from lossless.engine.compaction.faithful.statements import BULLET, Span, at_place, statements
from lossless.engine.compaction.faithful.wording import PIECE, is_wide, lowered

_FEW = 8
_LABEL = re.compile(r"^[ \t*_]*(?:expand for details about|files):", re.I | re.M)
_FRAME = re.compile(r"^[ \t*_]*(?:expand for details about|files):.*", re.I | re.M)
_OWN_NOTE = re.compile(r"^\[(?:Truncated from|Capped|LCM fallback)[^\]\n]*\]$", re.M)
_CLAUSE = re.compile(r"[,;:()|，、；：（）](?!\d)|->|→|\s[-–—]\s")
_NEAR, _NEARER = 0.3, 0.7
"""The share of the words at the best place that another place must have to support a claim; more against a rival there."""
_SAME = 0.9
"""The share from which a place is as good as the best."""
_COUNTED = 10
"""The largest number that a summary may well have counted itself."""
_SHORT = 40
_TELLING, _SAMPLE = 4, 12
_STRANGE, _COVERED, _ALIKE = 0.28, 0.32, 0.15
"""A text is invented if more of its words are unknown, and no place has more of a sentence, though the language is the same."""
_BESIDE = 12
_LONGEST = 4_000
"""The characters of the longest sentence that is about anything."""
_TOP, _OPERANDS = 3, 8
_ALONE = 2


class Faithfulness(Struct, frozen=True):
    """The result of checking the claims of a summary."""

    score: float
    """The share of supported claims; 1.0 if there was nothing to check."""
    unsupported: tuple[Claim, ...]
    checked: int
    suspected: tuple[Span, ...] = ()
    """The statements with a number, name, path or date that was not found."""
    doubted: tuple[Span, ...] = ()
    """The other statements, which seem to contradict the source."""

    invented: bool = False
    """True if the text as a whole is about something else."""

    @property
    def passed(self) -> bool:
        return not self.unsupported


def own_words(summary: str, source: str) -> str:
    """Return the lines of a summary that its source does not contain verbatim."""
    return "\n".join(line for _, line in _own_lines(enumerate(summary.split("\n")), source))


def _own_lines(lines: Iterable[tuple[int, str]], source: str) -> list[tuple[int, str]]:
    """Return the numbered lines that a source does not contain verbatim."""
    rest = iter(lines)
    own = list(islice(_not_in(source, rest), _FEW))
    # For many lines it is faster to split the source.
    quoted = set(source.split("\n")) if len(own) == _FEW else ()
    return [*own, *(each for each in rest if each[1] not in quoted)]


def _not_in(source: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    text, at = f"\n{source}\n", 1
    for each in lines:
        line = each[1]
        if text.startswith(f"{line}\n", at):  # a quotation continues
            at += len(line) + 1
        elif (found := text.find(f"\n{line}\n")) >= 0:
            at = found + len(line) + 2
        else:
            yield each


def check_claims(summary: str, source: str, *, context: str = "") -> Faithfulness:
    """Look up every claim of a summary in its source and in whatever else the summariser was shown.

    A number, name, path or date must occur, in any notation; a number or a day near what its sentence is about. A "not" is
    compared where a statement of the source is plainly about the same thing, so a freely worded contradiction passes.
    """
    lines = summary.split("\n")
    own = _own_lines(enumerate(lines), source)
    if context:
        own = _own_lines(own, context)
    text = "\n".join(line for _, line in own)
    if not text.strip():
        return Faithfulness(1.0, (), 0)
    found = _Check(text, f"{source}\n\n{context}" if context else source, len(lines)).result()
    if len(own) == len(lines) or not (found.suspected or found.doubted):
        return found
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    moved = _Moved([0, *accumulate(len(line) + 1 for _, line in own)], [starts[number] for number, _ in own])
    return replace(found, suspected=tuple(map(moved, found.suspected)), doubted=tuple(map(moved, found.doubted)))


class _Moved:
    """The places of statements in the whole summary, from those in some lines of it."""

    def __init__(self, starts: list[int], whole: list[int]) -> None:
        self._starts, self._whole = starts, whole

    def __call__(self, span: Span) -> Span:
        line = min(bisect_right(self._starts, span[0]), len(self._whole)) - 1
        by = self._whole[line] - self._starts[line]
        return span[0] + by, span[1] + by


def _bare(text: str) -> str:
    """Return the text with blanks for bullets and our own notes."""
    return BULLET.sub(_blank, _OWN_NOTE.sub(_blank, text))


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


class _Check:
    """The claims of a summary beside its source."""

    def __init__(self, text: str, source: str, lines: int) -> None:
        self._statements = statements(text)
        self._text = _bare(text)
        self._lines = lines
        self._source = names.Vocabulary(source)
        self._by_statement: dict[Span, Theme] = {}
        self._figures: list[numbers.Figure] = []
        self._plain = ""

    def result(self) -> Faithfulness:
        judged = list(self._facts(_LABEL.sub(_blank, self._text)))
        low = lowered(_FRAME.sub(_blank, self._text))
        denials, wrong = polarity.contradictions(low, self._source)
        unsupported = dict.fromkeys(claim for claim, supported, _ in judged if not supported)
        unsupported |= dict.fromkeys(Claim("negation", sentence) for sentence in wrong)
        suspected = dict.fromkeys(self._statement(at) for _, supported, at in judged if not supported)
        doubted = dict.fromkeys(self._statement(low.find(sentence)) for sentence in wrong)
        invented = self._is_invented()
        checked = len({(claim, at) for claim, _, at in judged}) + max(denials, len(wrong))
        return Faithfulness(
            max(0.0, 1 - len(unsupported) / checked) if checked else 1.0,
            tuple(unsupported),
            checked,
            tuple(suspected),
            tuple(span for span in doubted if span not in suspected),
            invented,
        )

    def _is_invented(self) -> bool:
        """Return True if the text, in the language of the source, is about nothing that the source says."""
        if len(self._keys) < _TELLING or 2 * len(self._statements) < self._lines:
            return False
        if 2 * self._nearby.unknown(self._keys) < _STRANGE:
            return False
        said = [set(keys(self._plain[start:end])) for start, end in self._statements]
        said = [each for each in said if len(each) >= _TELLING]
        if 2 * len(said) < self._lines or self._is_short or not self._speaks_alike():
            return False
        if sum(self._nearby.unknown(each) for each in said) < _STRANGE * len(said):
            return False
        sample = said[:: max(1, len(said) // _SAMPLE)]
        return sum(map(self._nearby.coverage, sample)) < _COVERED * len(sample)

    def _speaks_alike(self) -> bool:
        """Return True if the little words of the summary are those of the source."""
        spoken = PIECE.findall(self._plain) if not is_wide(self._plain) else list(keys(self._plain))
        known = self._source.words if not is_wide(self._plain) else {key for key in spoken if self._nearby.places(key)}
        return sum(word in known for word in spoken) > _ALIKE * len(spoken)

    def _statement(self, at: int) -> Span:
        return at_place(self._statements, at) or (at, at)

    def _facts(self, text: str) -> Iterator[Judged]:
        # Each reader removes its matches, so that the next one finds no numbers in a path or date.
        paths, text = names.take_paths(text, self._source)
        times, text = _take_moments(text)
        dotted, text = names.take_dotted(text, self._source)
        named, text = names.take_names(text, self._source)
        low = lowered(text)
        times += dates.named_alone(low)
        self._figures = figures = list(numbers.read(low))
        # Each value with its unit would lead to the place of that value alone.
        self._plain = _masked(low, figures)
        yield from (*paths, *dotted, *named)
        if not text.isascii() and self._source.wide:
            yield from han_names.read_names(text, self._source.source)
        yield from ((Claim("date", mention.text), self._knows_date(mention), mention.at) for mention in times)
        yield from ((Claim("number", figure.text), self._knows_number(figure), figure.at) for figure in figures)

    @cached_property
    def _calendar(self) -> dates.Calendar:
        return dates.Calendar(self._source)

    @cached_property
    def _amounts(self) -> numbers.Amounts:
        return numbers.Amounts(self._source, self._calendar, self._figures)

    @cached_property
    def _nearby(self) -> Nearby:
        return Nearby(self._source, self._keys)

    @cached_property
    def _keys(self) -> set[str]:
        return set(keys(self._plain))

    @cached_property
    def _is_short(self) -> bool:
        """True if every passage is near every other."""
        return self._nearby.passages <= _SHORT

    def _themes(self, at: int, claim: str) -> Iterator[Theme]:
        """Yield what the sentence at a place is about; then with the weight on the clause of a claim in it."""
        start, end = self._statement(at)
        if end - start > _LONGEST:
            return
        if (start, end) not in self._by_statement:
            self._by_statement[start, end] = self._nearby.theme(keys(self._plain[start:end]))
        theme = self._by_statement[start, end]
        yield theme
        first = max((mark.end() for mark in _CLAUSE.finditer(self._plain, start, at)), default=start)
        after = _CLAUSE.search(self._plain, min(at + len(claim), end), end)
        if after or first > start:
            clause = set(keys(self._plain[first : after.start() if after else end]))
            if theme.shared(clause) >= _ALONE:
                yield theme.focused(clause)

    def _knows_date(self, mention: dates.Mention) -> bool:
        if not self._calendar.knows(mention):
            return False
        if self._is_short:
            return True
        themes = list(self._themes(mention.at, mention.text))
        if not themes:
            return True
        direct = self._calendar.places(mention)
        least = _NEAR if mention.minutes else _NEARER
        if direct and any(_is_said(theme, direct, least) for theme in themes):
            return True
        if mention.minutes:
            return not direct or self._calendar.lasts(mention)
        implied = self._calendar.places(mention, implied=True)
        return any(_is_said(theme, implied, least) for theme in themes) if direct or implied else True

    def _knows_number(self, figure: numbers.Figure) -> bool:
        places = self._amounts.places(figure)
        if places and (self._is_short or numbers.ANYWHERE in places or max(figure.plain, default=0) <= _COUNTED):
            return True
        themes = list(self._themes(figure.at, figure.text))
        if places and not themes:
            return True
        if places and (
            any(_supports(theme, places, self._share) for theme in themes) or self._is_beside(figure, places, themes)
        ):
            return True
        return any(self._is_derived(figure, theme) for theme in themes)

    def _is_beside(self, figure: numbers.Figure, places: list[int], themes: list[Theme]) -> bool:
        """Return True if another number of the same sentence, in its right place, is said close to this one."""
        others = (each for each in self._figures_in[self._statement(figure.at)] if each != figure)
        known = (self._amounts.places(each) for each in others if max(each.plain, default=0) > _COUNTED)
        close = {rank for ranks in known for rank in ranks if any(abs(rank - place) < _BESIDE for place in places)}
        return any(_supports(theme, close) for theme in themes if len(theme) >= _ALONE) if close else False

    @cached_property
    def _figures_in(self) -> dict[Span, list[numbers.Figure]]:
        found: dict[Span, list[numbers.Figure]] = defaultdict(list)
        for figure in self._figures:
            found[self._statement(figure.at)].append(figure)
        return found

    def _share(self, theme: Theme) -> float:
        """Return the share of the best weight that a number needs: more if the best place has another number."""
        best = theme.closest(_SAME)[:_TOP]
        others = {value for rank in best for value, _ in self._amounts.at(rank) if value > _COUNTED}
        return _NEAR if others <= self._mentioned else _NEARER

    @cached_property
    def _mentioned(self) -> set[float]:
        return {value for figure in self._figures for value in figure.plain}

    def _is_derived(self, figure: numbers.Figure, theme: Theme) -> bool:
        """Return True for half of a number nearby, for a sum or difference of two, or their ratio in percent."""
        near = (each for rank in theme.closest(_SAME)[:_TOP] for each in self._amounts.around(rank))
        known = list(dict.fromkeys(near))[:_OPERANDS]
        return any(numbers.follows_from(value, figure.unit, known) for value in figure.plain)


def _is_said(theme: Theme, places: list[range], least: float) -> bool:
    """Return True if one of these sentences, or of the entries of a day, is about the same as a sentence."""
    if len(theme) < _ALONE or (places and _supports(theme, [place.start for place in places if len(place) == 1])):
        return True
    spans = [place for place in places if len(place) > 1]
    return any(rank in place for place in spans for rank in theme.closest(least))


def _supports(theme: Theme, places: Iterable[int], share: Callable[[Theme], float] = lambda theme: _NEAR) -> bool:
    """Return True if one of these places is about the same as a sentence, or no place plainly is."""
    if len(theme) < _ALONE:
        return True
    score = max(map(theme.at, places), default=0.0)
    return score >= _NEARER * theme.total or score >= share(theme) * theme.best


def _masked(text: str, figures: Iterable[numbers.Figure]) -> str:
    """Return the text with blanks for these numbers."""
    pieces, at = [], 0
    for figure in sorted(figures, key=lambda each: each.at):
        if figure.at >= at and figure.text[:1].isdigit():
            pieces += [text[at : figure.at], " " * len(figure.text)]
            at = figure.at + len(figure.text)
    return "".join([*pieces, text[at:]])


def _take_moments(text: str) -> tuple[list[dates.Mention], str]:
    low = lowered(text)
    times, rest = dates.read(low, set(PIECE.findall(low)))
    kept = (" " if now == " " else then for then, now in zip(text, rest, strict=True))
    return times, "".join(kept) if times else text
