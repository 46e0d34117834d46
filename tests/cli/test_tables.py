"""Columns on a terminal of any width, and times in the zone of the settings."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from lossless.cli.tables import format_minute, plain_text, render_line, shorten, table, zone_heading

KEY = "agent:main:subagent:0f9c2d4e-77aa-01d3-b512-c9738b1fe617"
ROWS = [(KEY, "148,979", "2026-03-01 12:00", "What the whole of it is about, in a sentence"), ("main", "7", "-", "")]


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, least: tuple[str, ...] = ()) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return [
        render_line(line).removeprefix("\x1b[2m").removesuffix("\x1b[0m") for line in table(HEADS, ROWS, least=least)
    ]


HEADS = ("key", "tokens", "at (UTC)", "says")


def test_a_table_is_never_wider_than_the_terminal_and_cuts_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(20, 160):
        head, row, *rest = shown(monkeypatch, columns)
        assert max(map(len, (head, row, *rest))) <= columns
        assert ("tokens" in head) == ("148,979" in row)
        assert ("at (UTC)" in head) == ("2026-03-01 12:00" in row)


def test_a_name_goes_on_in_the_next_line_and_a_sentence_ends_at_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(90, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        _, *lines, last = [plain_text(line) for line in table(HEADS, ROWS)]
        assert last.startswith("main  ")
        assert "".join(line.split("  ")[0].strip() for line in lines) == KEY
        said = lines[0].partition("12:00")[2].strip()
        assert said.endswith(("…", "sentence"))
        words = ROWS[0][3].split()[: len(said.split())]
        assert said.removesuffix("…") == " ".join(words).rstrip(",")


def test_a_text_without_spaces_is_cut_where_the_room_ends() -> None:
    assert shorten("one two three", 10) == "one two…"
    assert shorten("会議の議事録を書く", 9) == "会議の議…"
    assert shorten("x" * 50, 20) == "x" * 19 + "…"
    assert shorten("see https://example.com/a/long/path", 20) == "see https://example…"


def test_a_long_value_is_wrapped_and_nothing_of_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    value = " ".join(f"word{n}" for n in range(30))
    lines = [plain_text(line) for line in table(("name", "value"), [("a", value)], wrap=True)]
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines[1:]).split()) == f"a {value}"


def test_what_matters_least_leaves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 40)[0].split() == ["key", "says"]
    assert shown(monkeypatch, 40, least=("says", "at"))[0].split() == ["key", "tokens"]


def test_a_time_is_shown_in_a_zone_that_the_head_names() -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert (format_minute(noon), zone_heading("at", UTC)) == ("2026-07-01 12:00", "at (UTC)")
    berlin = ZoneInfo("Europe/Berlin")
    assert (format_minute(noon, berlin), zone_heading("at", berlin)) == ("2026-07-01 14:00", "at (Europe/Berlin)")
    assert format_minute(datetime.max.replace(tzinfo=UTC), berlin) == "9999-12-31 23:59"
