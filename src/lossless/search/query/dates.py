"""Find the dates in a question, and the time spans in which messages about them are likely."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct

_MONTHS = "january february march april may june july august september october november december"
_NUMBER = {name: n for n, month in enumerate(_MONTHS.split(), 1) for name in (month, month[:3])} | {"sept": 9}
_MONTH = r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_FORMATS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>0[1-9]|[12]\d|3[01]))?\b",
        rf"\b{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?",
        rf"\b{_MONTH} {_DAY}(?:,? {_YEAR})?",
        rf"\b{_MONTH},? {_YEAR}",
    )
]
# A month alone counts only by its full name; `may` and `march` are also verbs and need an `in`.
_ALONE = re.compile(
    r"\b(?:(?:in|during|since|by|until|till|last|this|next|early|mid|late|of) (?P<verb>may|march)"
    r"|(?P<month>january|february|april|june|july|august|september|october|november|december))\b",
    re.IGNORECASE,
)
_YEAR_ALONE = re.compile(rf"(?<![\w.,$-]){_YEAR}(?![-.,]?\d)")
_AFTER = timedelta(days=7)
"""People mention an event on the same day or within a week."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Day(Struct, frozen=True):
    """A date, month or year in a question."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


class Span(Struct, frozen=True):
    """A time span in microseconds since 1970, without `end`; a narrower one has more weight."""

    start: int
    end: int
    weight: float


def find_dates(question: str) -> tuple[Day, ...]:
    """Return the dates, months and years in a question."""
    found: list[Day] = []
    for pattern in _FORMATS:
        found += map(_day, pattern.finditer(question))
        question = pattern.sub(" ", question)
    found += [Day(month=_NUMBER[(m["verb"] or m["month"]).lower()]) for m in _ALONE.finditer(question)]
    found += [Day(year=int(m["year"])) for m in _YEAR_ALONE.finditer(question)]
    return tuple(dict.fromkeys(found))


def _day(match: re.Match[str]) -> Day:
    groups = match.groupdict()
    year, month, day = groups.get("year"), groups["month"], groups.get("day")
    number = int(month) if month.isdigit() else _NUMBER[month.lower()]
    return Day(int(year) if year else None, number, int(day) if day else None)


def time_spans(days: tuple[Day, ...], first: int, last: int) -> tuple[Span, ...]:
    """Return the spans of the days in a history that reaches from `first` to `last`.

    A day or month without a year matches every year of the history. A year alone is ignored if the history
    has only one.
    """
    years = range(_year(first), _year(last) + 1)
    return tuple(span for day in days for year in _years(day, years) if (span := _span(day, year)))


def _years(day: Day, years: range) -> Iterator[int]:
    if day.year is None:
        yield from years
    elif day.month is not None or len(years) > 1:
        yield day.year


def _span(day: Day, year: int) -> Span | None:
    try:
        start = datetime(year, day.month or 1, day.day or 1, tzinfo=UTC)
        if day.day is not None:
            return Span(_micros(start - timedelta(days=1)), _micros(start + timedelta(days=1) + _AFTER), 1.0)
        if day.month is not None:
            end = datetime(year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
            return Span(_micros(start), _micros(end + _AFTER), 0.6)
        return Span(_micros(start), _micros(datetime(year + 1, 1, 1, tzinfo=UTC)), 0.3)
    except (ValueError, OverflowError):
        return None  # 31 April, or a year that datetime does not support


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _year(micros: int) -> int:
    return (_EPOCH + timedelta(microseconds=micros)).year
