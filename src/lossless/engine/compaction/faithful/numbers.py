"""Numbers as people write them, and a check that a source contains them.

One written number may mean several values: 1.234 is a little more than one or a little more than a thousand,
27M is twenty-seven of something or millions. It is supported if the source may mean one of the same values.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property

from msgspec import Struct

from lossless.engine.compaction.faithful.dates import Calendar

_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS_IN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * n for n, word in enumerate(_TENS_IN_WORDS.split(), 2)}
_ORDINALS = "third fourth fifth sixth seventh eighth ninth tenth"
_GERMAN = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
_RUSSIAN = "ноль один два три четыре пять шесть семь восемь девять десять"
_FRENCH = "zéro un deux trois quatre cinq six sept huit neuf dix"
_SPANISH = "cero uno dos tres cuatro cinco seis siete ocho nueve diez"
_OTHERS = {
    "both": 2,
    "twice": 2,
    "second": 2,
    "pair": 2,
    "couple": 2,
    "две": 2,
    "dozen": 12,
    "hundred": 100,
    "none": 0,
    "no": 0,
    "not": 0,
}
WORDS: dict[str, int] = {
    **{word: n for names in (_FRENCH, _SPANISH, _RUSSIAN, _GERMAN, _SMALL) for n, word in enumerate(names.split())},
    **{word: n for n, word in enumerate(_ORDINALS.split(), 3)},
    **_TENS,
    **_OTHERS,
}
# These count in a source, but say too little in a summary to be held against it.
_IDLE = {"one", "eins", "один", "un", "uno", "elf", *_OTHERS} - {"dozen", "hundred"}
_SCALES = {"k": 3, "thousand": 3, "tsd": 3, "тыс": 3, "m": 6, "mn": 6, "million": 6, "millions": 6, "mio": 6, "млн": 6}
_SCALES |= {"b": 9, "bn": 9, "billion": 9, "g": 9, "t": 12, "trillion": 12}
_SHIFTING = {
    "s",
    "ms",
    "sec",
    "seconds",
    "kb",
    "mb",
    "gb",
    "tb",
    "kg",
    "mg",
    "km",
    "mm",
    "l",
    "ml",
    "v",
    "mv",
    "w",
    "kw",
    "mw",
}
_SIGNS = "零一二三四五六七八九十"

_NUMBER = re.compile(rf"(\d+(?:[.,'’\u00a0\u202f]\d+)*)(?:\s?({'|'.join(sorted(_SCALES, key=len, reverse=True))})\b)?")
_CLAIM = re.compile(
    r"(?P<number>\d+(?:[.,'’\u00a0\u202f]\d+)*)(?P<ordinal>(?:st|nd|rd|th)\b)?\s?(?P<unit>[a-zа-яµ]+|%)?"
)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|roughly|nearly|almost|approximately|approx\.?|over|circa|ca\.?|some|more than|etwa|rund)|около|约|[~≈])"
    r"\s?(?:[$€£¥]|[a-z]{1,3}\s)?$"
)
_SPACED = re.compile(r"\d{1,3}(?<!\d\d{3})(?: \d{3})+(?!\d)")
_WORD = re.compile(r"[^\W\d_]+")
_TENS_AND_ONES = re.compile(rf"\b({'|'.join(_TENS)})[- ]({'|'.join(_SMALL.split()[1:10])})\b")
_COMPOUND = {str(tens + ones) for tens in _TENS.values() for ones in range(1, 10)}
_LONG = 24


class Figure(Struct, frozen=True):
    """A number of a summary: its text, and the values it may mean."""

    text: str
    values: frozenset[str]
    slack: float = 0.0
    """By how much it may be rounded, as a share of itself."""
    ordinal: bool = False


def read(text: str) -> Iterator[Figure]:
    """Yield the numbers of a lower-case summary, in digits and in words."""
    for match in _CLAIM.finditer(text):
        values = set(readings(match["number"], match["unit"]))
        if match["unit"] in _SHIFTING:
            values.update(_shifted(match["number"]))
        if match["unit"] in {"%", "percent", "prozent"}:
            values.update(_scaled(value, -2) for value in readings(match["number"]))
        about = 0.05 if _ABOUT.search(text, max(0, match.start() - 20), match.start()) else 0.0
        slack = max(about, _rounding(match["number"]) if match["unit"] in _SCALES else 0.0)
        yield Figure(match[0].strip(), frozenset(values), slack, bool(match["ordinal"]))
    for word, value in _spelled(text):
        if word not in _IDLE:
            yield Figure(word, frozenset([str(value)]))


def _rounding(number: str) -> float:
    """Return half of the last digit, by which a written number may be rounded."""
    digits = number.replace(".", "").replace(",", "").lstrip("0")
    return 0.5 / int(digits) if digits and 2 <= len(digits) <= _LONG else 0.0


def _spelled(text: str) -> Iterator[tuple[str, int]]:
    if any(tens in text for tens in _TENS):
        for tens, ones in _TENS_AND_ONES.findall(text):
            yield f"{tens}-{ones}", _TENS[tens] + WORDS[ones]
        text = _TENS_AND_ONES.sub(" ", text)
    for word in _WORD.findall(text):
        if word in WORDS:
            yield word, WORDS[word]


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


_NO_SPACES = str.maketrans("", "", "'’\u00a0\u202f")


def _is_plain(value: str) -> bool:
    return len(value) <= _LONG and value.replace(".", "", 1).isdecimal()


def _plain(value: str) -> str:
    return value.rstrip("0").rstrip(".") if "." in value else value


def _scaled(value: str, power: int) -> str:
    if not _is_plain(value):
        return value
    return _plain(f"{Decimal(value).scaleb(power):f}")


def _shifted(number: str) -> Iterator[str]:
    """Yield the same amount in the next larger or smaller unit: 8.4 s is 8,400 ms."""
    for value in readings(number):
        yield _scaled(value, 3)
        yield _scaled(value, -3)


class Amounts:
    """Every number in a source, searched by notation, the most frequent first."""

    def __init__(self, words: set[str], calendar: Calendar) -> None:
        self._words, self._calendar, self._source = words, calendar, calendar.undated

    def know(self, figure: Figure) -> bool:
        values = figure.values
        if any(not known.isdisjoint(values) for known in self._kinds(values)):
            return True
        if figure.ordinal and not self._days.isdisjoint(values):
            return True
        return figure.slack > 0 and any(self._near(float(v), figure.slack) for v in values if _is_plain(v))

    def _kinds(self, values: frozenset[str]) -> Iterator[set[str]]:
        """Yield the numbers of the source by notation, as far as these values may be among them."""
        yield self._in_words
        yield self._in_digits
        if not _COMPOUND.isdisjoint(values):
            yield self._in_two_words
        if max(map(len, values)) > 3:
            yield self._spaced
        if not self._source.isascii():
            yield self._in_signs

    def _near(self, value: float, slack: float) -> bool:
        at = bisect_left(self._sorted, value * (1 - slack))
        return at < len(self._sorted) and self._sorted[at] <= value * (1 + slack)

    @cached_property
    def _in_words(self) -> set[str]:
        return {str(WORDS[word]) for word in self._words & WORDS.keys()}

    @cached_property
    def _in_digits(self) -> set[str]:
        written = {value for found in set(_NUMBER.findall(self._source)) for value in readings(*found)}
        return written | {str(year) for year in self._calendar.years}

    @cached_property
    def _in_two_words(self) -> set[str]:
        if self._words.isdisjoint(_TENS):
            return set()
        return {str(_TENS[tens] + WORDS[ones]) for tens, ones in _TENS_AND_ONES.findall(self._source)}

    @cached_property
    def _spaced(self) -> set[str]:
        return {group.replace(" ", "") for group in _SPACED.findall(self._source)}

    @cached_property
    def _in_signs(self) -> set[str]:
        known = {str(n) for n, sign in enumerate(_SIGNS) if sign in self._source}
        return known | {"2"} if "两" in self._source else known

    @cached_property
    def _days(self) -> set[str]:
        return {str(day) for day in self._calendar.days}

    @cached_property
    def _sorted(self) -> list[float]:
        values = self._in_words | self._in_digits | self._in_two_words | self._spaced | self._in_signs
        return sorted(float(value) for value in values if _is_plain(value))
