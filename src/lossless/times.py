"""Read times and ages that people and models write, and write times for them. One grammar for library, tools and command line.

| text | meaning |
|---|---|
| `2026-08-01`, `2026-08-01 09:00`, `2026-08-01T09:00:30` | a date or time in the configured zone |
| `2026-08-01T09:00Z`, `2026-08-01 09:00+02:00`, `2026-08-01 09:00 CET` | a time in its own zone, as times are shown |
| `45s`, `30min`, `12h`, `90d`, `4w`, `6mo`, `1y`, `3 days ago` | so long ago; a month is 30 days, a year 365 |
| `now`, `today`, `yesterday`, `yesterday 14:00` | a day starts at midnight in the configured zone |

`6m` is refused, since it could mean minutes or months.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TypeAlias

from lossless.errors import InvalidTimeFilter
from lossless.model import instant

Time: TypeAlias = datetime | date | timedelta | str | float | None
"""A point in time: a time, a date, an age (`timedelta`), a text, or seconds since 1970."""

HELP = "a date (2026-08-01), a time (2026-08-01T09:00Z), an age (90d, 12h, 30min, 6mo) or yesterday"
"""The forms of a time, for help texts."""

_ZONED = re.compile(r"(\d.*\d)\s*\(?((?:UTC|GMT)?[+-]\d[\d:]*|[A-Za-z][\w/+-]*)\)?", re.ASCII)
_AGE = re.compile(r"([0-9]{1,9}) ?([a-z]+)(?: ago)?", re.ASCII)
_DAY = re.compile(r"(today|yesterday)(?:[ t]+(\d\d?:\d\d(?::\d\d)?))?", re.ASCII)
_DATE = re.compile(r"(\d{4})(?:[-/.](\d\d?))?(?:[-/.](\d\d?))?()|(\d\d?)\.(\d\d?)\.(\d{4})", re.ASCII)
_UNITS = {
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "mo": timedelta(days=30),
    "y": timedelta(days=365),
}
_SPELLINGS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), "w"),
    **dict.fromkeys(("mo", "mos", "month", "months"), "mo"),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), "y"),
}
_NO_TIME = timedelta(0)
_WORDS = ("now", "today", "yesterday")
_HALF_A_YEAR = timedelta(days=183)


def read_time(name: str, when: Time, zone: tzinfo, now: datetime | float | None = None) -> datetime | None:
    """Return the time in UTC that the argument `name` stands for; None if it is not given.

    A time without an offset is in `zone`, the zone in which times are shown. Of an hour that occurs twice when clocks
    go back, "before" and "until" mean the second and everything else the first, so that no match is lost.
    """
    if when is None:
        return None
    now = instant(now) or datetime.now(UTC)
    age = find_age(name, when)
    try:
        if age is not None:
            return instant(now - age)
        value = _as_datetime(when, zone, now)
        if isinstance(value, datetime) and value.tzinfo is None:
            value = value.replace(tzinfo=zone, fold=1 if name in ("before", "until") else value.fold)
        return instant(value)
    except (ValueError, TypeError, AttributeError, OverflowError, OSError) as error:
        if age is not None:
            raise _too_long_ago(name, when) from error
        proposal = _propose(when.strip()) if isinstance(when, str) else ""
        hint = f"Did you mean {proposal}?" if proposal else f"Write {HELP}."
        raise InvalidTimeFilter(f"{name}={_quote(when)} is not a time.", hint=hint) from error


def _as_datetime(when: Time, zone: tzinfo, now: datetime) -> datetime | float:
    match when:
        case str():
            return _parse(when.strip(), zone, now)
        case datetime() | float() | int():
            return when
        case date():
            return datetime.combine(when, time())
        case _:
            raise TypeError(when)


def find_age(name: str, when: Time) -> timedelta | None:
    """Return the age that the argument `name` stands for; None if it is not an age but something else."""
    if isinstance(when, timedelta):
        if when <= timedelta():
            raise InvalidTimeFilter(f"{name}={when} is not an age.", hint="An age is more than zero.")
        return when
    if not isinstance(when, str):
        return None
    text = when.strip().lower()
    if text == "now":
        return timedelta()
    match = _AGE.fullmatch(text)
    if match is None:
        return None
    count, unit = int(match[1]), match[2]
    if unit == "m":
        raise InvalidTimeFilter(
            f"{name}={_quote(when)} could mean minutes or months.", hint=f"Write {count}min or {count}mo."
        )
    if unit not in _SPELLINGS:
        return None
    if not count:
        raise InvalidTimeFilter(f"{name}={_quote(when)} is not an age.", hint=f"Write now, or 1{unit} or more.")
    try:
        return count * _UNITS[_SPELLINGS[unit]]
    except OverflowError as error:
        raise _too_long_ago(name, when) from error


def read_age(name: str, value: timedelta | str | None) -> timedelta | None:
    """Return the age that the argument `name` stands for, e.g. `90d`; None if it is not given."""
    if value is None:
        return None
    age = find_age(name, value)
    if not age:
        proposal = _propose_age(value.strip().lower()) if isinstance(value, str) else ""
        hint = f"Did you mean {proposal}?" if proposal else "Write a number and s, min, h, d, w, mo or y, e.g. 2h."
        raise InvalidTimeFilter(f"{name}={_quote(value)} is not an age.", hint=hint)
    return age


def _parse(text: str, zone: tzinfo, now: datetime) -> datetime:
    """Parse a day by its name, an ISO 8601 time, or one followed by the name of a zone."""
    if match := _DAY.fullmatch(text.lower()):
        clock = time.fromisoformat((match[2] or "00:00").rjust(5, "0"))
        day = now.astimezone(zone).date() - timedelta(days=match[1] == "yesterday")
        return datetime.combine(day, clock)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        found = _ZONED.fullmatch(text)
        if found is None:
            raise
    local, name = datetime.fromisoformat(found[1]), found[2]
    if local.tzinfo is not None:
        raise ValueError(text)
    if offset := re.search(r"[+-]\d.*", name):
        return datetime.fromisoformat(local.isoformat() + offset[0])
    return local.replace(tzinfo=UTC) if name.upper() in ("UTC", "GMT", "Z") else _in_named_zone(local, name, zone)


def _in_named_zone(local: datetime, name: str, zone: tzinfo) -> datetime:
    """Return a local time in a named zone: an abbreviation of our own zone in either season, or an IANA name."""
    for near in (local, local.replace(fold=1), local - _HALF_A_YEAR, local + _HALF_A_YEAR):
        there = near.replace(tzinfo=zone)
        if (there.tzname() or "").upper() == name.upper():
            return (local - (there.utcoffset() or timedelta())).replace(tzinfo=UTC)
    if "/" not in name:
        raise ValueError(name)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return local.replace(tzinfo=ZoneInfo(name))
    except ZoneInfoNotFoundError as error:
        raise ValueError(name) from error


def _propose(text: str) -> str:
    """Return the valid time nearest to a wrong one; empty if none is close."""
    import difflib

    lower = text.lower()
    return (
        _propose_age(lower)
        or _propose_date(text)
        or next(iter(difflib.get_close_matches(lower[:80], _WORDS, 1, 0.7)), "")
    )


def _propose_age(text: str) -> str:
    import difflib

    match = re.match(r"([0-9]{1,9})\s*([a-z]+)", text, re.ASCII)
    if match is None or match[2][0] == "t":
        return ""
    if match[2] in _SPELLINGS:
        return f"{int(match[1]) or 1}{_SPELLINGS[match[2]]}"
    near = difflib.get_close_matches(match[2][:20], [each for each in _SPELLINGS if len(each) > 1], 1, 0.6)
    return f"{int(match[1]) or 1}{_SPELLINGS[near[0]]}" if near else ""


def _propose_date(text: str) -> str:
    """Return a date written with other separators, with single digits or with a day that its month lacks as ISO 8601."""
    match = _DATE.match(text)
    if match is None:
        return ""
    year, month, day = (int(match[7]), int(match[6]), int(match[5])) if match[7] else _parts(match)
    for clipped in range(min(day, 31), 27, -1) if day > 28 else (day,):
        try:
            return date(year, month, clipped).isoformat()
        except ValueError:
            continue
    return ""


def _parts(match: re.Match[str]) -> tuple[int, int, int]:
    return int(match[1]), int(match[2] or 1), int(match[3] or 1)


def _too_long_ago(name: str, when: object) -> InvalidTimeFilter:
    return InvalidTimeFilter(f"{name}={_quote(when)} is longer ago than any time.", hint="Leave it out.")


def _quote(when: object) -> str:
    text = repr(when)
    return text if len(text) <= 80 else f"{text[:80]}..."


class _SystemZone(tzinfo):
    """The zone of the machine with its daylight saving, for which the standard library has no object."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None if when is None else when.replace(tzinfo=None).astimezone().utcoffset()

    def tzname(self, when: datetime | None) -> str | None:
        return None if when is None else when.replace(tzinfo=None).astimezone().tzname()

    def dst(self, when: datetime | None) -> timedelta | None:
        return None

    def fromutc(self, when: datetime) -> datetime:
        local = when.replace(tzinfo=UTC).astimezone()
        here = local.replace(tzinfo=self)
        # Of the hour that occurs twice when clocks go back, fold marks the second.
        return here if here.utcoffset() == local.utcoffset() else here.replace(fold=1)


SYSTEM_ZONE = _SystemZone()


def clock(at: datetime, zone: tzinfo) -> str:
    """Return a time as people read it: `2026-02-17 15:37 PST`."""
    day, time, name = _local(at, zone)
    return f"{day} {time} {name}"


def is_repeated(at: datetime, zone: tzinfo) -> bool:
    """Return True if the clocks of a zone show this minute twice."""
    if zone.utcoffset(None) is not None:
        return False  # they are never set back
    try:
        local = at.astimezone(zone)
        return local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
    except (OverflowError, ValueError, OSError):
        return False


def time_range(start: datetime | None, end: datetime | None, zone: tzinfo) -> str:
    """Return a period as people read it: `2026-02-17 15:37 - 17:21 PST` within a day, both in full beyond it."""
    known = [each for each in (start, end) if each is not None]
    if not known:
        return ""
    first, last = _local(known[0], zone), _local(known[-1], zone)
    if first == last:
        return " ".join(first)
    if (first[0], first[2]) == (last[0], last[2]):
        return f"{first[0]} {first[1]} - {last[1]} {first[2]}"
    return f"{' '.join(first)} - {' '.join(last)}"


def _local(at: datetime, zone: tzinfo) -> tuple[str, str, str]:
    """Return day, time and zone. Not strftime, which writes neither the year 987 nor some zones the same everywhere."""
    at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    offset, name = offset_at(at.replace(second=0, microsecond=0), zone)
    day, time = (at + offset).isoformat(" ", "minutes")[:16].split()
    return day, time, name


def offset_at(minute: datetime, zone: tzinfo) -> tuple[timedelta, str]:
    """Return the offset of a zone from UTC at a minute, and its name then."""
    try:
        local = minute.astimezone(zone)
    except (OverflowError, ValueError, OSError):  # at the edge of the calendar not every zone has a day left
        return _NO_TIME, "UTC"
    offset, name = local.utcoffset() or _NO_TIME, local.tzname() or "UTC"
    if is_repeated(minute, zone) and local.replace(fold=1 - local.fold).tzname() == name:
        return offset, local.isoformat()[19:]  # Moscow's MSK of 2014: only the offset tells which
    return offset, name
