"""`lcm new`, `reset`, `pin`, `unpin`, `pins`, `gc` and `prune`: told first, done when asked, and the way back said."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Message, Settings
from lossless.cli import cli
from tests.engine.erase.test_gc import orphan
from tests.histories import opened

KEY = "agent:main:main"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lcm.toml").touch()  # whatever whoever runs this has set
    monkeypatch.setenv("LCM_CONFIG", str(tmp_path / "lcm.toml"))
    with opened(tmp_path / "lcm.db", tmp_path / "lcm-files") as lcm:
        chat = lcm.conversation(KEY)
        chat.ingest(
            [Message.user(f"Question {n}? " + "some words " * 25, event_id=f"{n}", at=LONG_AGO) for n in range(24)]
        )
        chat.compact(window=500, force=True)
    return tmp_path / "lcm.db"


def lcm(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--db", str(path)])


def data(path: Path, *arguments: str) -> Any:
    ran = lcm(path, *arguments, "--json")
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)["data"]


def test_new_tells_what_would_leave_and_then_takes_it_out(path: Path) -> None:
    told = data(path, "new", "--retain-depth", "1")
    assert (told["key"], told["applied"]) == (KEY, False)
    assert told["tokens_after"] < told["tokens_before"]
    ran = lcm(path, "new", KEY, "--retain-depth", "1")
    assert "would leave the context" in ran.stdout
    assert ran.stdout.endswith("Dry run: nothing was changed. --apply applies it.\n")
    with Lossless.open(path, settings=Settings()) as db:
        assert db.conversation(KEY).detached() == ()

    ran = lcm(path, "new", "--retain-depth", "1", "--apply")
    assert ran.exit_code == 0
    with Lossless.open(path, settings=Settings()) as db:
        left = db.conversation(KEY).detached()
    assert [each.id for each in left] == [each["id"] for each in told["detached"]]
    assert f"`lcm expand {left[-1].id}` reads the last of it" in ran.stdout
    assert lcm(path, "expand", left[-1].id).exit_code == 0


def test_new_keeps_everything_if_so_asked_and_refuses_what_is_no_depth(path: Path) -> None:
    assert data(path, "new", "--retain-depth", "-1", "--apply")["detached"] == []
    ran = lcm(path, "new", "--retain-depth", "-2")
    assert ran.exit_code == 2
    ran = lcm(path, "new", "nobody", "--apply")
    assert ran.exit_code == 3


def test_reset_archives_and_says_how_to_get_at_what_was_there(path: Path) -> None:
    told = data(path, "reset", KEY)
    assert (told["applied"], told["archived"], told["messages"]) == (False, 1, 24)
    assert "would be archived" in lcm(path, "reset").stdout
    ran = lcm(path, "reset", "--apply")
    assert "is archived, and a new one started" in ran.stdout
    assert f"lcm transplant '#1' {KEY} --apply" in ran.stdout
    assert lcm(path, "transplant", "#1", KEY).exit_code == 0
    assert "Question 3" in lcm(path, "grep", "Question 3").stdout
    assert lcm(path, "reset", "--apply").stdout == f"{KEY} is empty already.\n"
    assert lcm(path, "reset", "nobody", "--apply").exit_code == 3  # a slip of the pen starts nothing


def test_pins_are_set_listed_and_taken_away(path: Path) -> None:
    assert lcm(path, "pins").stdout == "No pins.\n"
    mine = data(path, "pin", "Always answer in French.\x1b[2J", "-c", KEY)
    theirs = data(path, "pin", "msg#1000000001")
    assert (mine["message"], theirs["message"]) == (None, 1_000_000_001)
    assert [each["id"] for each in data(path, "pins", KEY)["pins"]] == [mine["id"], theirs["id"]]
    ran = lcm(path, "pins")
    assert "\\x1b[2J" in ran.stdout
    assert "msg#1000000001" in ran.stdout
    assert lcm(path, "unpin", mine["id"]).stdout == f"{mine['id']} removed from {KEY}.\n"
    ran = lcm(path, "unpin", mine["id"])
    assert ran.exit_code == 3
    assert "lcm pins" in ran.stderr
    assert lcm(path, "pin", "msg#1000000099").exit_code == 3
    assert lcm(path, "pin", "x", "-c", "nobody").exit_code == 3


def test_gc_tells_and_then_removes(path: Path) -> None:
    with Lossless.open(path, settings=Settings()) as db:
        stray = orphan(db, age=10**8)
    ran = lcm(path, "gc")
    assert "        1  payloads without a row" in ran.stdout
    assert ran.stdout.endswith("Dry run: nothing was changed. --apply applies it.\n")
    assert stray.exists()
    done = data(path, "gc", "--apply", "--keep-copies", "0", "--vacuum")
    assert (done["files"], done["applied"], done["complete"]) == (1, True, True)
    assert not stray.exists()
    assert lcm(path, "gc", "--keep-copies", "-1").exit_code == 2


def test_prune_lists_then_removes_and_says_how_to_bring_it_back(path: Path) -> None:
    ran = lcm(path, "prune", "--before", "1y")
    assert "0 archived conversations" in ran.stdout
    assert "--include-active includes them" in ran.stdout
    ran = lcm(path, "prune", "--before", "1y", "--include-active")
    assert f"2020-01-01 00:00  {KEY}" in ran.stdout
    assert "--apply applies it." in ran.stdout
    done = data(path, "prune", "--before", "2021-01-01", "--include-active", "--apply", "--batch", "1")
    assert (done["conversations"], done["messages"]) == (1, 24)
    assert Path(done["archive"]).name.startswith("lcm.db.pruned-")
    ran = lcm(path, "import", done["archive"], "--apply")
    assert ran.exit_code == 0, ran.output
    with Lossless.open(path, settings=Settings()) as db:
        assert len(db.conversation(KEY).messages()) == 24


def test_prune_refuses_what_is_no_time(path: Path) -> None:
    ran = lcm(path, "prune", "--before", "6m", "--apply")
    assert ran.exit_code == 2
    assert "Write 6min or 6mo." in ran.stderr
    assert lcm(path, "prune").exit_code == 2


def test_archives_beside_the_database_are_copies_that_forgetting_knows(path: Path) -> None:
    with Lossless.open(path, settings=Settings()) as db:
        other = db.conversation("old")
        other.ingest([Message.user("Said long ago.", event_id="x", at=LONG_AGO)])
        other.end("deleted")
        pruned = db.prune("1y", apply=True).archive
        cleaned = f"{path}.cleaned-20260101-000000.zip"
        Path(cleaned).write_bytes(b"PK")
        chat = db.conversation(KEY)
        assert chat.forget("msg#1000000001").backups == (cleaned, pruned)
        assert chat.forget("msg#1000000001", apply=True).backups == (cleaned, pruned)
        assert chat.forget("msg#1000000002", apply=True, backups=True).backups == ()
    assert list(path.parent.glob("*.zip")) == []
