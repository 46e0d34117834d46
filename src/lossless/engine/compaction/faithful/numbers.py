"""Numbers as people write them, and a check that a source contains them.

One written number may mean several values: 1.234 is a little more than one or a little more than a thousand,
27M is twenty-seven of something or millions. It is supported if the source may mean one of the same values.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import combinations

from msgspec import Struct

from lossless.engine.compaction.faithful.claim import words
from lossless.engine.compaction.faithful.dates import Calendar
from lossless.engine.compaction.faithful.number_words import IDLE, TENS, WORDS, in_signs, in_two_words
from lossless.engine.compaction.faithful.stems import COMMON, stem
from lossless.engine.compaction.faithful.wording import Wording

_SCALES = {"k": 3, "thousand": 3, "tsd": 3, "тыс": 3, "m": 6, "mn": 6, "million": 6, "millions": 6, "mio": 6, "млн": 6}
_SCALES |= {"b": 9, "bn": 9, "billion": 9, "g": 9, "t": 12, "trillion": 12}
_SHIFTING = words("s ms sec seconds kb mb gb tb kg mg km mm l ml v mv w kw mw")

_NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f]\d+)*")
_SCALE = re.compile(rf"\s?({'|'.join(sorted(_SCALES, key=len, reverse=True))})\b")
_CLAIM = re.compile(
    r"(?P<number>\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.,]\d)(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*)"
    r"(?P<ordinal>(?:st|nd|rd|th)\b)?\s?(?P<unit>[a-zа-яµ]+|%)?"
)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|roughly|nearly|almost|approximately|approx\.?|over|circa|ca\.?|some|more than|etwa|rund)|около|约|[~≈])"
    r"\s?(?:[$€£¥]|[a-z]{1,3}\s)?$"
)
_SPACED = re.compile(r"\d{1,3}(?<!\d\d{3})(?:[ \u00a0\u202f]\d{3})+(?!\d)")
_WORD = re.compile(r"[^\W\d_]+")
_NOUN = re.compile(r"[\s-]?([^\W\d_]+)")
_HASH = re.compile(r"(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{5,}(?![^\W_])")
_LONG = 24
_MANY = 64
_TINY = 10
"""Nothing is added to a larger number that is not larger than this: one more is another number."""
ANYWHERE = -1
"""The place of a number that the source contains in another form."""


class Figure(Struct, frozen=True):
    """A number of a summary: its text, its place, and the values it may mean."""

    text: str
    at: int
    values: frozenset[str]
    slack: float = 0.0
    """By how much it may be rounded, as a share of itself."""
    ordinal: bool = False
    unit: str = ""
    """The word after it."""

    @property
    def plain(self) -> list[float]:
        return [float(value) for value in self.values if _is_plain(value)]


def read(text: str) -> Iterator[Figure]:
    """Yield the numbers of a lower-case summary, in digits and in words."""
    for match in _CLAIM.finditer(text):
        number = match["number"].replace(" ", "")
        values = set(readings(number, match["unit"]))
        if match["unit"] in _SHIFTING:
            values.update(_shifted(number))
        if match["unit"] in {"%", "percent", "prozent"}:
            values.update(_scaled(value, -2) for value in readings(number))
        about = 0.05 if _ABOUT.search(text, max(0, match.start() - 20), match.start()) else 0.0
        slack = max(about, _rounding(number) if match["unit"] in _SCALES else 0.0)
        noun = match["unit"] or _noun(text, match.end())
        yield Figure(match[0].strip(), match.start(), frozenset(values), slack, bool(match["ordinal"]), noun)
    for word, value, at in _spelled(text):
        yield Figure(word, at, frozenset([str(value)]), unit=_noun(text, at + len(word)))


def _noun(text: str, at: int) -> str:
    found = _NOUN.match(text, at)
    return found[1] if found else ""


def _rounding(number: str) -> float:
    """Return half of the last digit, by which a written number may be rounded."""
    digits = number.replace(".", "").replace(",", "").lstrip("0")
    return 0.5 / int(digits) if digits and 2 <= len(digits) <= _LONG else 0.0


def _spelled(text: str) -> Iterator[tuple[str, int, int]]:
    compound = in_two_words(text)
    yield from compound
    covered = {place for text, _, at in compound for place in range(at, at + len(text))}
    for found in _WORD.finditer(text):
        if found[0] in WORDS and found[0] not in IDLE and found.start() not in covered:
            yield found[0], WORDS[found[0]], found.start()


def readings(number: str, unit: str | None = None) -> set[str]:
    """Return the values that a written number may mean, in plain decimal notation."""
    if len(number) > _LONG:
        return {number}
    plain = number.translate(_NO_SPACES)
    points = [mark for mark in plain if mark in ".,"]
    found = {plain}
    if len(points) == 1:
        whole, part = re.split("[.,]", plain)
        found = {_plain(f"{whole}.{part}")}
        if len(part) == 3 and whole != "0":
            found.add(whole + part)
    elif len(set(points)) == 2:
        whole, _, part = plain.replace(",", ".").rpartition(".")
        found = {_plain(f"{whole.replace('.', '')}.{part}")}
    elif points and all(len(group) == 3 for group in re.split("[.,]", plain)[1:]):
        found |= {plain.replace(points[0], "")}
    if unit in _SCALES:
        found |= {_scaled(value, _SCALES[unit]) for value in found if _is_plain(value)}
    return {value.lstrip("0") or "0" for value in found} | found


_NO_SIGNS = str.maketrans("", "", " .,'’\u00a0\u202f")
_NO_SPACES = str.maketrans("", "", " '’\u00a0\u202f")


def _is_plain(value: str) -> bool:
    return len(value) <= _LONG and value.replace(".", "", 1).isdecimal()


def _plain(value: str) -> str:
    return value.rstrip("0").rstrip(".") if "." in value else value


def _is_hash(text: str, at: int) -> bool:
    """Return True if the digits at a place are part of a hash."""
    start = at
    while start and start > at - _LONG and text[start - 1].isalnum():
        start -= 1
    return _HASH.match(text, start) is not None


def _digits(number: str) -> str:
    return number.translate(_NO_SIGNS).strip("0")


def _scaled(value: str, power: int) -> str:
    if not _is_plain(value):
        return value
    return _plain(f"{Decimal(value).scaleb(power):f}")


def _shifted(number: str) -> Iterator[str]:
    """Yield the same amount in the next larger or smaller unit: 8.4 s is 8,400 ms."""
    for value in readings(number):
        yield _scaled(value, 3)
        yield _scaled(value, -3)


def follows_from(value: float, unit: str, known: Sequence[tuple[float, str]]) -> bool:
    """Return True if a number is half of a known one, or the sum, difference or ratio of two, in the same unit."""
    percent = unit == "%"
    if value <= 0:
        return False
    same = [each for each, noun in known if percent or _may_be_same(unit, noun)]
    derived = {result for one in same for result in (one / 2,)}
    for one, other in combinations([each for each in same if each > min(_TINY, value)], 2):
        derived |= {one + other, abs(one - other)}
        if percent:
            low, high = sorted((one, other))
            derived |= {float(round(100 * ratio)) for ratio in (low / high, (high - low) / high, (high - low) / low)}
    return any(abs(each - value) < 1e-6 * value for each in derived)


def _may_be_same(unit: str, other: str) -> bool:
    """Return True if two words after numbers may be the same unit."""
    return not unit or not other or unit in COMMON or other in COMMON or stem(unit) == stem(other)


class Amounts:
    """Every number in a source with its places, searched by notation, the most frequent first."""

    def __init__(self, source: Wording, calendar: Calendar, figures: Iterable[Figure]) -> None:
        self._source, self._calendar, self._text = source, calendar, calendar.undated
        self._wanted = {value for figure in figures for value in figure.values}

    def places(self, figure: Figure) -> list[int]:
        """Return the ranks of the sentences that contain the number; empty if none does."""
        found = {
            rank for known in self._kinds(figure.values) for value in figure.values for rank in known.get(value, ())
        }
        if figure.ordinal and not self._days.isdisjoint(figure.values):
            found.add(ANYWHERE)
        if figure.slack > 0:
            found.update(rank for value in figure.plain for rank in self._near(value, figure.slack))
        if found or self._years.isdisjoint(figure.values):
            return sorted(found)
        return [ANYWHERE]

    def _kinds(self, values: frozenset[str]) -> Iterator[dict[str, list[int]]]:
        """Yield the numbers of the source by notation, as far as these values may be among them."""
        yield self._in_digits
        yield self._in_words
        if max(map(len, values)) > 3:
            yield self._spaced
        if self._source.wide:
            yield self._in_signs

    def _near(self, value: float, slack: float) -> Iterator[int]:
        at = bisect_left(self._sorted, (value * (1 - slack), -1))
        while at < len(self._sorted) and self._sorted[at][0] <= value * (1 + slack):
            yield self._sorted[at][1]
            at += 1

    def at(self, rank: int) -> Iterator[tuple[float, str]]:
        """Yield the numbers in the sentence at a rank, with the word after each."""
        return self._read(rank, rank)

    def around(self, rank: int) -> Iterator[tuple[float, str]]:
        """Yield the numbers in the sentences at and beside a rank, with the word after each."""
        return self._read(rank - 1, rank + 1)

    def _read(self, first: int, last: int) -> Iterator[tuple[float, str]]:
        text = self._text[slice(*self._source.stretch(first, last))]
        for found in _CLAIM.finditer(text):
            noun = found["unit"] or _noun(text, found.end())
            for value in readings(found["number"].translate(_NO_SPACES)):
                if _is_plain(value):
                    yield float(value), noun
        for found in _WORD.finditer(text):
            if found[0] in WORDS:
                yield WORDS[found[0]], _noun(text, found.end())

    @cached_property
    def _in_digits(self) -> dict[str, list[int]]:
        # Powers of ten and separators apart, a number that means the same has the same digits.
        digits = {_digits(value) for value in self._wanted}
        values: dict[str, list[int]] = defaultdict(list)
        for number, places in self._written.items():
            if _digits(number) in digits:
                for value, rank in self._readings(number, places):
                    values[value].append(rank)
        return values

    def _readings(self, number: str, places: list[int]) -> Iterator[tuple[str, int]]:
        """Yield the values that a written number has at its places, with the rank of each."""
        for at in places[:_MANY]:
            if _is_hash(self._text, at):
                continue
            unit = _SCALE.match(self._text, at + len(number))
            for value in readings(number, unit[1] if unit else None):
                yield value, self._source.rank(at)

    @cached_property
    def _written(self) -> dict[str, list[int]]:
        """Return the places of each number as it is written."""
        written: dict[str, list[int]] = defaultdict(list)
        for found in _NUMBER.finditer(self._text):
            written[found[0]].append(found.start())
        return written

    @cached_property
    def _in_words(self) -> dict[str, list[int]]:
        values: dict[str, list[int]] = defaultdict(list)
        wanted = [word for word in WORDS.keys() & self._source.words if str(WORDS[word]) in self._wanted]
        for word, rank in self._source.located(wanted) if wanted else ():
            values[str(WORDS[word])].append(rank)
        if not self._source.words.isdisjoint(TENS):
            for _, value, at in in_two_words(self._text):
                values[str(value)].append(self._source.rank(at))
        return values

    @cached_property
    def _spaced(self) -> dict[str, list[int]]:
        return self._located((found[0].translate(_NO_SPACES), found.start()) for found in _SPACED.finditer(self._text))

    @cached_property
    def _in_signs(self) -> dict[str, list[int]]:
        return self._located((str(value), at) for _, value, at in in_signs(self._text))

    def _located(self, found: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
        values: dict[str, list[int]] = defaultdict(list)
        for value, at in found:
            values[value].append(self._source.rank(at))
        return values

    @cached_property
    def _days(self) -> set[str]:
        return {str(day) for day in self._calendar.days}

    @cached_property
    def _years(self) -> set[str]:
        return {str(year) for year in self._calendar.years}

    @cached_property
    def _sorted(self) -> list[tuple[float, int]]:
        """Return all numbers in digits with their ranks, the smallest first."""
        spaced = ((float(value), rank) for value, ranks in self._spaced.items() for rank in ranks)
        written = (
            (float(value), rank)
            for number, places in self._written.items()
            for value, rank in self._readings(number, places)
            if _is_plain(value)
        )
        return sorted((*spaced, *written))
