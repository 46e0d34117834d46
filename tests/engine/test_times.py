"""Every time that is shown can be given back, and means the same moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lossless.cli.tables import moment, stamp
from lossless.engine.compaction.summary_source import clock, time_range
from lossless.engine.context.summary_xml import as_message
from lossless.engine.recall import reader
from lossless.errors import InvalidTimeFilter
from lossless.model import Summary
from lossless.times import read_time

NAMES = (
    *(
        "UTC",
        "Europe/Berlin",
        "Europe/London",
        "Europe/Dublin",
        "Europe/Moscow",
        "America/Los_Angeles",
        "America/Sao_Paulo",
    ),
    *("America/St_Johns", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Australia/Lord_Howe", "Australia/Adelaide"),
    *("Pacific/Apia", "Pacific/Chatham", "Africa/Casablanca", "Antarctica/Troll", "Etc/GMT-14"),
)
ZONES = [ZoneInfo(name) for name in NAMES]
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))
FOLD = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 in Berlin, twice: an hour later again
SAME_NAME = datetime(2014, 10, 25, 21, 30, tzinfo=UTC)  # 01:30 in Moscow, twice, both called MSK


def read(text: str, zone: tzinfo, name: str = "since") -> datetime | None:
    return read_time(name, text, zone)


def shown_times(at: datetime, zone: tzinfo) -> tuple[list[str], list[str]]:
    """A moment in every dress that it is shown in: to the second, and to the minute."""
    summary = Summary("sum_0123456789abcdef", 0, "text", 1, at, at, 1, 1, "model", "normal")
    text = as_message(summary, zone)[0].text
    attribute = text.partition('latest_at="')[2].partition('"')[0]
    return [attribute, reader.stamp(at), at.isoformat(timespec="seconds")], [
        *(clock(at, zone), stamp(at, zone), moment(at, zone), time_range(at, at, zone)),
        f"{at:%Y-%m-%d %H:%M} UTC",
    ]


@given(MOMENTS, st.sampled_from(ZONES))
@example(FOLD, ZoneInfo("Europe/Berlin"))
@example(FOLD + timedelta(hours=1), ZoneInfo("Europe/Berlin"))
@example(SAME_NAME, ZoneInfo("Europe/Moscow"))
@example(SAME_NAME + timedelta(hours=1), ZoneInfo("Europe/Moscow"))
@example(datetime(2026, 4, 4, 14, 45, tzinfo=UTC), ZoneInfo("Australia/Lord_Howe"))
@example(datetime(2026, 4, 4, 15, 15, tzinfo=UTC), ZoneInfo("Australia/Lord_Howe"))
def test_every_time_that_is_shown_is_read_back_as_the_same_moment(at: datetime, zone: tzinfo) -> None:
    seconds, minutes = shown_times(at, zone)
    for text in seconds:
        assert read(text, zone) == at.replace(microsecond=0), text
        assert read(text, zone, "before") == at.replace(microsecond=0), text
    for text in minutes:
        found = read(text, zone)
        assert found is not None
        assert timedelta() <= at - found < timedelta(minutes=1), text
        assert read(text, zone, "before") == found, text


@given(MOMENTS, st.sampled_from(ZONES))
def test_a_time_with_its_offset_means_the_same_in_every_zone(at: datetime, zone: tzinfo) -> None:
    attribute = shown_times(at, zone)[0][0]
    assert {read(attribute, other) for other in ZONES} == {at.replace(microsecond=0)}


@pytest.mark.parametrize(
    ("text", "zone", "meant"),
    [
        ("2026-02-17T15:37", "America/Los_Angeles", "2026-02-17T23:37+00:00"),
        ("2026-02-17 15:37", "Asia/Kolkata", "2026-02-17T10:07+00:00"),
        ("2026-02-17", "Asia/Tokyo", "2026-02-16T15:00+00:00"),
        (" 2026-02-17 15:37 PST ", "America/Los_Angeles", "2026-02-17T23:37+00:00"),
        ("2026-07-17 15:37 pst", "America/Los_Angeles", "2026-07-17T23:37+00:00"),
        ("2026-02-17 15:37 +05:30", "America/Los_Angeles", "2026-02-17T10:07+00:00"),
        ("2026-02-17 15:37 +0545", "UTC", "2026-02-17T09:52+00:00"),
        ("2026-02-17 15:37 -03", "UTC", "2026-02-17T18:37+00:00"),
        ("2026-02-17 15:37 UTC+08:00", "UTC", "2026-02-17T07:37+00:00"),
        ("2026-02-17 15:37 UTC", "Asia/Tokyo", "2026-02-17T15:37+00:00"),
        ("2026-02-17 15:37 GMT", "Asia/Tokyo", "2026-02-17T15:37+00:00"),
        ("2026-02-17 15:37:30.5Z", "Asia/Tokyo", "2026-02-17T15:37:30.500000+00:00"),
        ("2026-02-17 15:37 Europe/Berlin", "Asia/Tokyo", "2026-02-17T14:37+00:00"),
        ("2026-02-17 15:37 (Europe/Berlin)", "Asia/Tokyo", "2026-02-17T14:37+00:00"),
    ],
)
def test_a_time_is_read_in_the_zone_it_names_and_otherwise_in_ours(text: str, zone: str, meant: str) -> None:
    assert read(text, ZoneInfo(zone)) == datetime.fromisoformat(meant)


def test_of_an_hour_that_comes_twice_since_means_the_first_and_before_the_second() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert read("2026-10-25 02:30", berlin) == FOLD
    assert read("2026-10-25 02:30", berlin, "before") == FOLD + timedelta(hours=1)
    assert read_time("since", datetime(2026, 10, 25, 2, 30), berlin) == FOLD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-02-30",
        "2026-02-17 15:37 XYZ",
        "2026-02-17T15:37Z PST",
        "15:37",
        "2026-02-17 15:37 Mars/Base",
    ],
)
def test_what_is_no_time_is_refused_by_the_name_of_its_argument(text: str) -> None:
    with pytest.raises(InvalidTimeFilter, match="since="):
        read(text, UTC)
