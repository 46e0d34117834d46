"""`lcm grep`, as a person runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lossless import Lossless, Message, ToolCall
from tests.command import lcm

WORDS = {"all", "the", "words", "before", "it,", "a", "needle,", "and", "after", "after,", "a..."}


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "lcm.db")
    with Lossless.open(path) as opened:
        first = datetime(2026, 3, 1, 12, tzinfo=UTC)
        opened.conversation("old").ingest([Message.user("the key of old", at=first)])
        opened.conversation("new").ingest([Message.user("the \x1b[31mkey\x1b[0m of today\nand more", at=first)])
    return path


def test_hits_are_printed_a_line_each_and_nothing_in_them_is_obeyed(path: str) -> None:
    ran = lcm("grep", "key", "--db", path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        r"msg#2000000001  2026-03-01 12:00 UTC  new  user: the \x1b[31mkey\x1b[0m of today and more",
        "msg#1000000001  2026-03-01 12:00 UTC  old  user: the key of old",
    ]
    assert ran.stderr == ""


def test_all_conversations_are_searched_unless_one_is_named(path: str) -> None:
    assert lcm("grep", "key", "--db", path, "-c", "old").stdout.endswith("UTC  user: the key of old\n")
    assert lcm("grep", "key", "--db", path, "-c", "old", "--all").returncode == 2
    everywhere = lcm("grep", "key", "--db", path)
    assert everywhere.stdout == lcm("grep", "key", "--db", path, "--all").stdout
    assert [line.split("  ")[2] for line in everywhere.stdout.splitlines()] == ["new", "old"]
    assert everywhere.stderr == ""


def test_json_holds_all_that_is_known_of_a_hit(path: str) -> None:
    data = json.loads(lcm("grep", "key", "--db", path, "--all", "--limit", "1", "--json").stdout)["data"]
    (hit,) = data["hits"]
    assert (hit["id"], hit["kind"], hit["conversation"], hit["seq"]) == ("msg#2000000001", "message", 2, 1)
    assert data["complete"] is True
    again = lcm("grep", "key", "--db", path, "--all", "--cursor", data["next_cursor"])
    assert "key of old" in again.stdout


def test_nothing_found_and_nothing_to_look_for(path: str) -> None:
    nothing = lcm("grep", "absent", "--db", path, "-c", "old")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", "Nothing found.\n")
    for wrong, reason in (("(key", "missing )"), ("(?=key)", "look-around"), ("", "empty")):
        refused = lcm("grep", wrong, "--db", path, "-c", "old")
        assert refused.returncode == 2
        assert reason in refused.stderr
    hinted = lcm("grep", "key|lock", "--mode", "full_text", "--db", path, "-c", "old")
    assert "regex" in hinted.stderr
    assert lcm("grep", "key", "--db", path, "--limit", "201").returncode == 2


def test_before_the_first_message_there_is_nothing_to_find(tmp_path: Path) -> None:
    path = str(tmp_path / "lcm.db")
    Lossless.open(path).close()
    ran = lcm("grep", "key", "--db", path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "Nothing found.\n")
    named = lcm("grep", "key", "-c", "k", "--db", path)
    assert named.returncode == 3
    assert "conversation" in named.stderr


def test_case_matters_only_if_the_pattern_has_an_upper_case_letter(path: str) -> None:
    with Lossless.open(path) as opened:
        opened.conversation("new").ingest([Message.user("the Key to the north")])
    assert len(lcm("grep", "key", "--db", path).stdout.splitlines()) == 3
    assert len(lcm("grep", "Key", "--db", path).stdout.splitlines()) == 1
    assert len(lcm("grep", "-i", "KEY", "--db", path).stdout.splitlines()) == 3
    hinted = lcm("grep", "KEY", "--db", path)
    assert hinted.returncode == 1
    assert "Only the case differs: 3 matches" in hinted.stderr
    assert "-i" in hinted.stderr


def test_messages_around_a_match_are_shown_with_it(path: str) -> None:
    with Lossless.open(path) as opened:
        opened.conversation("long").ingest([Message.user(f"turn {number}") for number in range(9)])
    ran = lcm("grep", "turn 4", "-C", "1", "--db", path)
    assert [line.split("  ", 2)[2] for line in ran.stdout.splitlines()] == [
        "user- turn 3",
        "long  user: turn 4",
        "user- turn 5",
    ]
    two = lcm("grep", "turn [36]", "-C", "1", "--db", path).stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in two] == ["5", "6", "7", "--", "2", "3", "4"]
    data = json.loads(lcm("grep", "turn 4", "-C", "1", "--db", path, "--json").stdout)["data"]
    (around,) = data["context"].values()
    assert [each["preview"] for each in around] == ["turn 3", "turn 4", "turn 5"]


def test_words_are_ordered_by_relevance(path: str) -> None:
    with Lossless.open(path) as opened:
        chat = opened.conversation("words")
        chat.ingest([Message.user("the spare boat key hangs in the boat house"), Message.user("a boat, later")])
    ran = lcm("grep", "--mode", "full_text", "spare boat key", "-c", "words", "--db", path)
    assert [line.rpartition(": ")[2][:9] for line in ran.stdout.splitlines()] == ["the spare", "a boat, l"]


def test_the_lookups_of_an_agent_are_found_only_on_request(path: str) -> None:
    call = ToolCall("call_1", "lcm_grep", '{"pattern": "blue safe"}')
    with Lossless.open(path) as opened:
        opened.conversation("new").ingest([Message("assistant", (call,))])
    assert lcm("grep", "blue safe", "--db", path).returncode == 1
    assert "blue safe" in lcm("grep", "blue safe", "--include-recall", "--db", path).stdout


def test_a_terminal_shows_the_match_highlighted_and_breaks_lines_between_words(path: str) -> None:
    with Lossless.open(path) as opened:
        opened.conversation("new").ingest(
            [Message.user("all the words before it, " * 3 + "a needle" + ", and after" * 9)]
        )
    shown = on_a_terminal("grep", "needle", "--db", path)
    assert "\x1b[31m\x1b[1mneedle\x1b[0m" in shown
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
    assert max(map(len, lines)) <= 80
    text = [line.strip() for line in lines if line.startswith("    ")]
    assert {word for line in text for word in line.split()} <= WORDS


def on_a_terminal(*words: str) -> str:
    """Return what the command prints on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LCM_PAGER": "cat", "NO_COLOR": ""}
    command = [sys.executable, "-m", "lossless", *words]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as running:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        running.wait()
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux reports the closed end of a terminal so
        return b""
