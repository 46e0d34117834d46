"""Columns on a terminal of any width, and times in the zone of the settings."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from lossless.cli.tables import moment, painted, table, zoned

KEY = "agent:main:subagent:0f9c2d4e-77aa-01d3-b512-c9738b1fe617"
ROWS = [(KEY, "148,979", "2026-03-01 12:00", "What the whole of it is about, in a sentence"), ("main", "7", "-", "")]


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, least: tuple[str, ...] = ()) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return [painted(line).removeprefix("\x1b[2m").removesuffix("\x1b[0m") for line in table(HEADS, ROWS, least=least)]


HEADS = ("key", "tokens", "at (UTC)", "says")


def test_a_table_is_never_wider_than_the_terminal_and_cuts_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(20, 160):
        head, row, _ = shown(monkeypatch, columns)
        assert max(len(head), len(row)) <= columns
        assert ("tokens" in head) == ("148,979" in row)
        assert ("at (UTC)" in head) == ("2026-03-01 12:00" in row)


def test_a_name_loses_its_middle_and_a_sentence_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    row = shown(monkeypatch, 80)[1]
    assert row.startswith("agent:main:")
    assert "e617  148,979" in row
    assert row.endswith("What the whole of it is a…")


def test_what_matters_least_leaves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 40)[0].split() == ["key", "says"]
    assert shown(monkeypatch, 40, least=("says", "at"))[0].split() == ["key", "tokens"]


def test_a_time_is_shown_in_a_zone_that_the_head_names() -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert (moment(noon), zoned("at", UTC)) == ("2026-07-01 12:00", "at (UTC)")
    berlin = ZoneInfo("Europe/Berlin")
    assert (moment(noon, berlin), zoned("at", berlin)) == ("2026-07-01 14:00", "at (Europe/Berlin)")
    assert moment(datetime.max.replace(tzinfo=UTC), berlin) == "9999-12-31 23:59"
