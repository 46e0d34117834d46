"""Pure: read a time that a person or a model writes. Every time that we show can be given back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from lossless.errors import InvalidTimeFilter
from lossless.model import instant

_ZONED = re.compile(r"(\d.*\d)\s*\(?((?:UTC|GMT)?[+-]\d[\d:]*|[A-Za-z][\w/+-]*)\)?", re.ASCII)
_HALF_A_YEAR = timedelta(days=183)


def read_time(name: str, when: datetime | str | float | None, zone: tzinfo) -> datetime | None:
    """Return the moment in UTC that the argument `name` means, None if it is not given.

    A time without an offset is one in `zone`, the zone in which times are shown. Of an hour that clocks go through
    twice, "before" means the second and everything else the first, so that no match is lost.
    """
    try:
        meant = _parsed(when.strip(), zone) if isinstance(when, str) else when
        if isinstance(meant, datetime) and meant.tzinfo is None:
            meant = meant.replace(tzinfo=zone, fold=1 if name == "before" else meant.fold)
        return instant(meant)
    except (ValueError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise InvalidTimeFilter(
            f"{name}={when!r} is not a time.", hint="Write it as 2026-03-01T09:00Z or 2026-03-01 09:00+01:00."
        ) from error


def _parsed(text: str, zone: tzinfo) -> datetime:
    """A time in ISO 8601, or one with the name of a zone behind it."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        found = _ZONED.fullmatch(text)
        if found is None:
            raise
    clock, name = datetime.fromisoformat(found[1]), found[2]
    if clock.tzinfo is not None:
        raise ValueError(text)
    if offset := re.search(r"[+-]\d.*", name):
        return datetime.fromisoformat(clock.isoformat() + offset[0])
    return clock.replace(tzinfo=UTC) if name.upper() in ("UTC", "GMT", "Z") else _in_named(clock, name, zone)


def _in_named(clock: datetime, name: str, zone: tzinfo) -> datetime:
    """A clock's time in a zone by its name: what our own zone is called then or in its other season, or an IANA name."""
    for near in (clock, clock.replace(fold=1), clock - _HALF_A_YEAR, clock + _HALF_A_YEAR):
        there = near.replace(tzinfo=zone)
        if (there.tzname() or "").upper() == name.upper():
            return (clock - (there.utcoffset() or timedelta())).replace(tzinfo=UTC)
    if "/" not in name:
        raise ValueError(name)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return clock.replace(tzinfo=ZoneInfo(name))
    except ZoneInfoNotFoundError as error:
        raise ValueError(name) from error


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
