"""`lcm grep`, as a person runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lossless import Lossless, Message
from tests.command import lcm


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
    assert ran.stdout == r"msg#2000000001  2026-03-01 12:00 UTC  user: the \x1b[31mkey\x1b[0m of today and more" + "\n"
    assert ran.stderr == "new: the newest of 2; -c KEY chooses another.\n"


def test_a_conversation_is_chosen_or_all_are_searched(path: str) -> None:
    assert lcm("grep", "key", "--db", path, "-c", "old").stdout.endswith("user: the key of old\n")
    everywhere = lcm("grep", "key", "--db", path, "--all")
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
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", "Nothing was found.\n")
    for wrong, reason in (("(key", "missing )"), ("(?=key)", "look-around"), ("", "empty")):
        refused = lcm("grep", wrong, "--db", path, "-c", "old")
        assert refused.returncode == 2
        assert reason in refused.stderr
    hinted = lcm("grep", "key|lock", "--mode", "full_text", "--db", path, "-c", "old")
    assert "regex" in hinted.stderr
    assert lcm("grep", "key", "--db", path, "--limit", "201").returncode == 2


def test_before_the_first_message_there_is_nothing_to_choose(tmp_path: Path) -> None:
    path = str(tmp_path / "lcm.db")
    Lossless.open(path).close()
    ran = lcm("grep", "key", "--db", path)
    assert ran.returncode == 3
    assert "conversation" in ran.stderr
