"""`lcm backup` and `lcm restore`, as a person runs them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Message, Settings
from lossless.cli import cli
from tests.command import fine


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "lcm.db"
    with Lossless.open(path, settings=Settings()) as lcm:
        lcm.conversation("k").ingest([Message.user("One."), Message.user("A long one. " * 20_000)])
    return str(path)


def lcm(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def data(*arguments: str | Path) -> Any:
    told = json.loads(fine(*arguments, "--json"))
    assert (told["ok"], told["command"]) == (True, arguments[0])
    assert told["meta"]["database_path"] == str(arguments[arguments.index("--db") + 1])
    return told["data"]


def test_a_backup_is_made_and_restored_elsewhere(database: str, tmp_path: Path) -> None:
    told = fine("backup", "--db", database, "--prove")
    path = told.splitlines()[0]
    assert path.startswith(f"{database}.backup-20")
    assert "1 conversation, 2 messages, 0 summaries, 1 file (" in told
    assert "Proved: every message is accounted for." in told
    put = fine("restore", path, "--db", tmp_path / "new" / "lcm.db")
    assert f"restored: {tmp_path}/new/lcm.db" in put
    assert json.loads(fine("status", "--db", tmp_path / "new" / "lcm.db", "--json"))["data"]["messages"] == 2


def test_a_database_that_is_there_is_shown_before_it_is_replaced(database: str, tmp_path: Path) -> None:
    path = data("backup", tmp_path, "--db", database, "--rolling", "nightly")["path"]
    assert path == f"{database}.nightly-latest"
    refused = lcm("restore", path, "--db", database)
    assert refused.exit_code == 2
    assert f"There is a database at {database}. Name another place, or --replace it" in refused.stderr
    shown = fine("restore", path, "--db", database, "--replace")
    assert f"would replace {database}" in shown
    assert "Dry run: nothing was changed. --apply applies it." in shown
    done = data("restore", path, "--db", database, "--replace", "--apply")
    assert (done["applied"], done["replaces"], done["backup"]["messages"]) == (True, True, 2)
    assert [os.path.exists(each) for each in done["aside"]] == [True, True]


def test_what_cannot_be_is_said_in_a_sentence(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text("words")
    for code, sentence, *line in (
        (3, "There is no database at", "backup", "--db", str(tmp_path / "none.db")),
        (3, "There is no backup at", "restore", str(tmp_path / "none")),
        (2, "is not a whole backup of lossless", "restore", str(tmp_path / "text"), "--db", "x.db"),
        (2, "is there already", "backup", str(tmp_path / "text"), "--db", database),
        (5, "cannot be written: Not a directory", "backup", str(tmp_path / "text" / "b"), "--db", database),
        (5, "cannot be written: No such file", "backup", str(tmp_path / "no" / "b"), "--db", database),
    ):
        told = lcm(*line)
        assert told.exit_code == code, told.output
        assert sentence in told.stderr
    path = data("backup", "--db", database)["path"]
    with Lossless.open(database, settings=Settings()):
        busy = lcm("restore", path, "--db", database, "--replace", "--apply", "--json")
    assert busy.exit_code == 5
    assert json.loads(busy.stderr)["error"]["code"] == "STORE_BUSY"


def test_a_backup_that_proves_flaws_says_so_and_is_kept(database: str, tmp_path: Path) -> None:
    with Lossless.open(database, settings=Settings()) as opened, opened._store.transaction():
        opened._store.run("DELETE FROM item WHERE ordinal = 1")
    told = lcm("backup", tmp_path / "b", "--db", database, "--prove")
    assert told.exit_code == 6
    assert "does not hold: k: " in told.stdout
    assert (tmp_path / "b").exists()


def test_ctrl_c_ends_it_with_130_and_nothing_is_left(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    told = lcm("backup", tmp_path / "b", "--db", database)
    assert told.exit_code == 130
    assert not list(tmp_path.glob("b*"))
