from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lossless.search.query.dates import Day, find_dates, time_spans


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
