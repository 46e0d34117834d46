"""Find the dates in a question, and the time spans in which messages about them are likely.

Relative ones, such as `yesterday` or `last week`, are counted back from the day of the question.
"""

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
DAY = 86_400_000_000
"""A day in microseconds."""
_AFTER = timedelta(days=7)
"""People mention an event on the same day or within a week."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = "a an one two three four five six seven eight nine ten eleven twelve"
_COUNTS = {word: max(1, n - 1) for n, word in enumerate(_NUMBERS.split())} | {"few": 3, "couple of": 2, "couple": 2}
_COUNT = rf"(?P<count>\d{{1,3}}|couple of|{'|'.join(_COUNTS)})"
_UNIT = r"(?P<unit>day|week|month|year)s?"
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_WEIGHTS = {"day": 1.0, "week": 0.6, "month": 0.6, "year": 0.3}
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_RELATIVE = re.compile(
    rf"\b(?:(?P<before_yesterday>day before yesterday)|(?P<yesterday>yesterday|last night)"
    rf"|(?P<today>today|tonight|this (?:morning|afternoon|evening))"
    rf"|(?:a )?{_COUNT} {_UNIT} ago"
    rf"|(?:last|past|previous) (?:{_COUNT.replace('count', 'back')} )?(?P<last>day|week|month|year|weekend)s?"
    rf"|this (?P<this>week|month|year|weekend)"
    rf"|(?:last|on|this past) (?P<weekday>{'|'.join(_WEEKDAYS)}))\b",
    re.IGNORECASE,
)
_EVENT = re.compile(
    rf"\b(?:(?:a )?{_COUNT} {_UNIT}|the (?P<next>day|week|month)) (?P<side>before|after) (?P<event>[^?.!,;]+)",
    re.IGNORECASE,
)


class Day(Struct, frozen=True):
    """A date, month or year in a question."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


class Ago(Struct, frozen=True):
    """A time counted back from a day: from `first` to `last` days before it, or its last `weekday` (0 is Monday)."""

    first: int
    last: int
    weight: float
    weekday: int | None = None


class EventTime(Struct, frozen=True):
    """A time some days before (negative) or after an event, as in `two days before the trip`."""

    event: str
    days: int
    weight: float


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


def find_relative(text: str) -> tuple[Ago, ...]:
    """Return the times of a text that are counted back from the day on which it was written."""
    return tuple(dict.fromkeys(map(_ago, _RELATIVE.finditer(text))))


def _ago(match: re.Match[str]) -> Ago:
    found = {name: value.lower() for name, value in match.groupdict().items() if value}
    if "weekday" in found:
        return Ago(7, 1, 1.0, _WEEKDAYS.index(found["weekday"]))
    if "unit" in found:
        unit, count = found["unit"], _number(found["count"])
        days, slack = count * _UNIT_DAYS[unit], _UNIT_DAYS[unit] // 2
        return Ago(days + slack, days - slack, _WEIGHTS[unit])
    if "last" in found or "this" in found:
        unit = found.get("last") or found["this"]
        unit = "week" if unit == "weekend" else unit
        count = _number(found["back"]) if "back" in found else 1
        # The week before this one began up to two weeks ago.
        reach = count if "this" in found or "back" in found else 2
        return Ago(reach * _UNIT_DAYS[unit], 0, _WEIGHTS[unit])
    days = 2 if "before_yesterday" in found else 1 if "yesterday" in found else 0
    return Ago(days, days, 1.0)


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _COUNTS[word]


def find_event(question: str) -> EventTime | None:
    """Return the time in a question that is counted from an event, if any."""
    match = _EVENT.search(question)
    if match is None or not match["event"].strip() or match["event"].strip().lower() == "yesterday":
        return None
    unit = (match["unit"] or match["next"]).lower()
    days = _number((match["count"] or "one").lower()) * _UNIT_DAYS[unit]
    return EventTime(match["event"].strip(), -days if match["side"].lower() == "before" else days, _WEIGHTS[unit])


def event_span(event: EventTime, at: int) -> Span:
    """Return the span of a time that is counted from an event at `at`."""
    day = _midnight(at) + timedelta(days=event.days)
    slack = timedelta(days=max(1, abs(event.days) // 4))
    return Span(_micros(day - slack), _micros(day + slack + timedelta(days=1)), event.weight)


def relative_spans(agos: tuple[Ago, ...], now: int, last: int) -> tuple[Span, ...]:
    """Return the spans of relative times asked at `now` of a history that ends at `last`.

    Of a history that ended before such a span, the days are counted back from its last one.
    """
    found = (ago_span(ago, now) for ago in agos)
    return tuple(ago_span(ago, last) if span.start > last else span for ago, span in zip(agos, found, strict=True))


def ago_span(ago: Ago, now: int) -> Span:
    """Return the span of a time that is counted back from `now`."""
    today = _midnight(now)
    first, last = ago.first, ago.last
    if ago.weekday is not None:
        first = last = (today.weekday() - ago.weekday - 1) % 7 + 1
    start, end = today - timedelta(days=first), today - timedelta(days=last - 1)
    return Span(_micros(start), _micros(end), ago.weight)


def _midnight(micros: int) -> datetime:
    return (_EPOCH + timedelta(microseconds=micros)).replace(hour=0, minute=0, second=0, microsecond=0)


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
