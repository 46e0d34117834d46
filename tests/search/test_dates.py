from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lossless.search.query.dates import (
    Day,
    event_span,
    find_dates,
    find_event,
    find_relative,
    relative_spans,
    time_spans,
)


def micros(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc,arg-type]  # year, month, day


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What happened on May 3, 2023?", [Day(2023, 5, 3)]),
        ("on 16 June, 2023", [Day(2023, 6, 16)]),
        ("the 1st of december", [Day(None, 12, 1)]),
        ("since 2024-02-29", [Day(2024, 2, 29)]),
        ("in 2024-02", [Day(2024, 2)]),
        ("in March 2022", [Day(2022, 3)]),
        ("last September", [Day(None, 9)]),
        ("in May", [Day(None, 5)]),
        ("who may march?", []),
        ("back in 2019", [Day(2019)]),
        ("version 2019.1 costs $2020", []),
        ("what was it about", []),
    ],
)
def test_the_dates_a_question_names(question: str, days: list[Day]) -> None:
    assert list(find_dates(question)) == days


def test_a_day_is_told_from_the_evening_before_to_a_week_after() -> None:
    (span,) = time_spans((Day(2023, 5, 3),), micros(2023, 1, 1), micros(2023, 12, 1))
    assert (span.start, span.end) == (micros(2023, 5, 2), micros(2023, 5, 11))


def test_a_month_without_a_year_is_any_years_month() -> None:
    found = time_spans((Day(None, 12),), micros(2022, 1, 1), micros(2023, 12, 1))
    assert [(span.start, span.end) for span in found] == [
        (micros(2022, 12, 1), micros(2023, 1, 8)),
        (micros(2023, 12, 1), micros(2024, 1, 8)),
    ]


def test_the_year_says_nothing_in_a_history_of_one() -> None:
    assert time_spans((Day(2023),), micros(2023, 1, 1), micros(2023, 12, 1)) == ()
    assert len(time_spans((Day(2023),), micros(2022, 1, 1), micros(2023, 12, 1))) == 1


def test_a_day_that_no_calendar_has_is_nowhere() -> None:
    assert time_spans((Day(2023, 4, 31), Day(2023, 2, 30)), micros(2023, 1, 1), micros(2023, 12, 1)) == ()


NOW = micros(2026, 3, 12)  # a Thursday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did I do yesterday?", (2026, 3, 11), (2026, 3, 12)),
        ("and the day before yesterday?", (2026, 3, 10), (2026, 3, 11)),
        ("what broke today", (2026, 3, 12), (2026, 3, 13)),
        ("three days ago", (2026, 3, 9), (2026, 3, 10)),
        ("a week ago", (2026, 3, 2), (2026, 3, 9)),
        ("what happened last week?", (2026, 2, 26), (2026, 3, 13)),
        ("in the past two weeks", (2026, 2, 26), (2026, 3, 13)),
        ("last Monday", (2026, 3, 9), (2026, 3, 10)),
        ("on Thursday", (2026, 3, 5), (2026, 3, 6)),
    ],
)
def test_relative_times_are_counted_back_from_the_question(
    text: str, first: tuple[int, ...], last: tuple[int, ...]
) -> None:
    (span,) = relative_spans(find_relative(text), NOW, NOW)
    assert (span.start, span.end) == (micros(*first), micros(*last))


def test_words_that_only_look_like_times_are_none() -> None:
    assert find_relative("the last person to go, a week of work, days of rain") == ()


def test_of_a_history_that_ended_days_are_counted_back_from_its_end() -> None:
    (span,) = relative_spans(find_relative("yesterday"), NOW, micros(2025, 6, 2))
    assert (span.start, span.end) == (micros(2025, 6, 1), micros(2025, 6, 2))


def test_a_time_may_be_counted_from_an_event() -> None:
    event = find_event("What did we buy two days before the trip to Rome?")
    assert event is not None
    assert (event.event, event.days) == ("the trip to Rome", -2)
    span = event_span(event, micros(2026, 3, 12))
    assert span.start <= micros(2026, 3, 10) < span.end
    assert find_event("What did we buy before the trip?") is None
