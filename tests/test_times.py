"""One grammar of times and ages; every time that is shown can be given back, and means the same moment."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lossless import Lossless, Message
from lossless.cli.tables import format_minute, format_time
from lossless.engine.context.summary_xml import as_message
from lossless.engine.recall import reader
from lossless.errors import InvalidTimeFilter
from lossless.model import Summary
from lossless.times import clock, find_age, read_age, read_time, time_range

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
        *(clock(at, zone), format_time(at, zone), format_minute(at, zone), time_range(at, at, zone)),
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


NOW = datetime(2026, 8, 15, 22, 30, tzinfo=UTC)  # the 16th in Tokyo
TABLE = [
    # text, in UTC, in Tokyo
    ("2026-08-01", "2026-08-01T00:00Z", "2026-07-31T15:00Z"),
    ("20260801", "2026-08-01T00:00Z", "2026-07-31T15:00Z"),
    ("2026-08-01 09:00", "2026-08-01T09:00Z", "2026-08-01T00:00Z"),
    ("2026-08-01T09:00Z", "2026-08-01T09:00Z", "2026-08-01T09:00Z"),
    ("2026-08-01T09:00:30+02:00", "2026-08-01T07:00:30Z", "2026-08-01T07:00:30Z"),
    ("45s", "2026-08-15T22:29:15Z", "2026-08-15T22:29:15Z"),
    ("45 seconds", "2026-08-15T22:29:15Z", "2026-08-15T22:29:15Z"),
    ("30min", "2026-08-15T22:00Z", "2026-08-15T22:00Z"),
    ("30 minutes ago", "2026-08-15T22:00Z", "2026-08-15T22:00Z"),
    ("12h", "2026-08-15T10:30Z", "2026-08-15T10:30Z"),
    ("2 hours ago", "2026-08-15T20:30Z", "2026-08-15T20:30Z"),
    ("90d", "2026-05-17T22:30Z", "2026-05-17T22:30Z"),
    (" 1 Day ", "2026-08-14T22:30Z", "2026-08-14T22:30Z"),
    ("2w", "2026-08-01T22:30Z", "2026-08-01T22:30Z"),
    ("6mo", "2026-02-16T22:30Z", "2026-02-16T22:30Z"),
    ("6 months", "2026-02-16T22:30Z", "2026-02-16T22:30Z"),
    ("1y", "2025-08-15T22:30Z", "2025-08-15T22:30Z"),
    ("now", "2026-08-15T22:30Z", "2026-08-15T22:30Z"),
    ("today", "2026-08-15T00:00Z", "2026-08-15T15:00Z"),
    ("Yesterday", "2026-08-14T00:00Z", "2026-08-14T15:00Z"),
    ("yesterday 14:00", "2026-08-14T14:00Z", "2026-08-15T05:00Z"),
    ("today 9:05", "2026-08-15T09:05Z", "2026-08-16T00:05Z"),
]


@pytest.mark.parametrize(("text", "utc", "tokyo"), TABLE)
def test_a_text_is_one_time_everywhere(text: str, utc: str, tokyo: str) -> None:
    for zone, meant in ((UTC, utc), (ZoneInfo("Asia/Tokyo"), tokyo)):
        assert read_time("since", text, zone, NOW) == datetime.fromisoformat(meant)
        assert read_time("since", text, zone, NOW.timestamp()) == datetime.fromisoformat(meant)


def test_dates_ages_and_seconds_are_times() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    assert read_time("since", date(2026, 8, 1), tokyo, NOW) == datetime(2026, 7, 31, 15, tzinfo=UTC)
    assert read_time("since", timedelta(days=1), tokyo, NOW) == NOW - timedelta(days=1)
    assert read_time("since", NOW.timestamp(), tokyo) == NOW
    assert read_time("since", None, tokyo) is None


@pytest.mark.parametrize(
    ("text", "proposal"),
    [
        ("6m", "could mean minutes or months. Write 6min or 6mo."),
        ("30 M", "could mean minutes or months. Write 30min or 30mo."),
        ("yesterdy", "is not a time. Did you mean yesterday?"),
        ("todey", "is not a time. Did you mean today?"),
        ("3 dayz", "is not a time. Did you mean 3d?"),
        ("12hurs", "is not a time. Did you mean 12h?"),
        ("5 mnths", "is not a time. Did you mean 5mo?"),
        ("2026-8-1", "is not a time. Did you mean 2026-08-01?"),
        ("2026/08/01", "is not a time. Did you mean 2026-08-01?"),
        ("1.8.2026", "is not a time. Did you mean 2026-08-01?"),
        ("2026-02-30", "is not a time. Did you mean 2026-02-28?"),
        ("2026-06-31", "is not a time. Did you mean 2026-06-30?"),
        ("2026-08", "is not a time. Did you mean 2026-08-01?"),
        ("2026-13-01", "is not a time. Write a date (2026-08-01), a time (2026-08-01T09:00Z), an age (90d, 12h, 30min"),
        ("soon", "is not a time. Write a date (2026-08-01)"),
        ("0d", "is not an age. Write now, or 1d or more."),
        ("999999y", "is longer ago than any time."),
        ("999999999w", "is longer ago than any time."),
        ("-3d", "is not a time. Write a date"),
    ],
)
def test_a_wrong_time_is_named_with_the_nearest_right_one(text: str, proposal: str) -> None:
    with pytest.raises(InvalidTimeFilter) as refused:
        read_time("since", text, UTC, NOW)
    assert str(refused.value).startswith(f"since={text!r} {proposal}")


@pytest.mark.parametrize(("text", "proposal"), [("2 hh", "2h"), ("5 mnths", "5mo"), ("0h", "1h")])
def test_a_wrong_age_is_named_with_the_nearest_right_one(text: str, proposal: str) -> None:
    with pytest.raises(InvalidTimeFilter, match=f"recency='{text}' is not an age.*{proposal}"):
        read_age("recency", text)


@pytest.mark.parametrize("value", ["6m", "yesterday", "now", "", "2026-08-01", timedelta(0), timedelta(days=-1)])
def test_what_is_no_age_is_refused(value: str | timedelta) -> None:
    with pytest.raises(InvalidTimeFilter, match="recency="):
        read_age("recency", value)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    for read in (read_age, find_age, lambda name, text: read_time(name, text, UTC, NOW)):
        with suppress(InvalidTimeFilter):
            read("since", text)


def test_an_age_means_the_same_in_every_verb(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", clock=NOW.timestamp) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"word {n}", at=NOW - timedelta(days=n)) for n in (400, 200, 100, 7, 1)])
        for text, newer in (("8d", 2), ("4mo", 3), ("1y", 4), ("yesterday", 1)):
            assert len(chat.grep("word", since=text)) == newer
            assert len(chat.grep("word", before=text)) == 5 - newer
            assert len(lcm.messages("k", since=text)) == newer
            assert len(lcm.messages("k", until=text)) == 5 - newer
            assert sum(each.messages for each in lcm.stats(since=text).roles) == newer
        for refused in (
            lambda: chat.grep("word", since="6m"),
            lambda: lcm.messages("k", since="6m"),
            lambda: lcm.summaries("k", until="6m"),
            lambda: lcm.stats(since="6m"),
            lambda: lcm.prune("6m"),
            lambda: lcm.import_(tmp_path, since="6m"),
        ):
            with pytest.raises(InvalidTimeFilter, match="Write 6min or 6mo"):
                refused()


def test_pages_of_a_relative_time_go_on_although_the_clock_does(tmp_path: Path) -> None:
    clock = [NOW.timestamp()]
    with Lossless.open(tmp_path / "lcm.db", clock=lambda: clock[0]) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"word {n}", at=NOW - timedelta(days=n)) for n in range(20, 0, -1)])
        first = chat.grep("word", since="10d", before="1h", limit=4)
        listed = lcm.messages("k", since="10d", until="5d", limit=3)
        clock[0] += 60
        rest = chat.grep("word", since="10d", before="1h", limit=4, cursor=first.next_cursor)
        others = lcm.messages("k", since="10d", until="5d", limit=9, cursor=listed.next_cursor)
    assert not {hit.id for hit in first} & {hit.id for hit in rest}
    assert len(rest) == 4
    assert [each.seq for each in (*listed, *others)] == [15, 14, 13, 12, 11]
