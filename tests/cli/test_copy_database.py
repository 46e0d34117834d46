"""The commands that move history: migrate, export, backfill, transplant, as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lossless import Lossless, Message
from lossless.cli import cli
from lossless.engine.shared.promise import promise_violations
from tests.command import fine
from tests.engine.compaction.test_backfill import spoken
from tests.transcribing import Session

SMALL = ("--leaf-chunk-tokens", "1000", "--leaf-target-tokens", "200", "--condensed-target-tokens", "300")


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LCM_LARGE_FILES_DIR", str(tmp_path / "files"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return spoken(Session(tmp_path / "s1.jsonl"), 40)


def lcm(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def data(*arguments: str | Path) -> Any:
    told = json.loads(fine(*arguments, "--json"))
    assert (told["ok"], told["command"]) == (True, arguments[0])
    return told["data"]


def test_backfill_tells_what_it_would_take_and_does_it_when_told(database: str, session: Session) -> None:
    told = fine("backfill", session.path, "--db", database, *SMALL)
    assert "80 messages to import" in told
    assert "(without a model)" in told
    assert "Dry run: nothing was changed. --apply applies it." in told
    done = lcm("backfill", session.path, "--db", database, *SMALL, "--apply", "--key", "k", "--title", "Old times")
    assert "80 messages imported" in done.stdout
    assert "k: 1 of about" in done.stderr
    assert "remaining: " in done.stdout
    assert " 32 messages" in done.stdout
    (again,) = data("backfill", session.path, "--db", database, *SMALL, "--apply")["conversations"]
    assert (again["key"], again["imported"], again["made"]) == ("k", 0, [])
    (root,) = data("backfill", "--recompact", "--key", "k", "--single-root", "--apply", "--db", database, *SMALL)[
        "conversations"
    ]
    assert (root["summaries_left"], root["messages_left"]) == (1, 0)


def test_backfill_without_apply_makes_no_database(tmp_path: Path, session: Session) -> None:
    fine("backfill", session.path, "--db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--leaf-chunk-tokens", "0"),
        ("--leaf-target-tokens", "0"),
        ("--condensed-target-tokens", "-1"),
        ("--leaf-fanout", "1"),
        ("--condensed-fanout", "1"),
        ("--hard-fanout", "1"),
        ("--fresh-tail", "-1"),
    ],
)
def test_a_size_that_is_none_is_refused_by_its_name(session: Session, option: str, value: str) -> None:
    done = lcm("backfill", session.path, option, value)
    assert done.exit_code == 2
    assert option in done.stderr


def test_a_single_root_leaves_no_tail(session: Session) -> None:
    done = lcm("backfill", session.path, "--single-root", "--fresh-tail", "3")
    assert done.exit_code == 2
    assert "--fresh-tail" in done.stderr


def test_a_model_that_fails_is_told_and_the_next_run_goes_on(database: str, session: Session, tmp_path: Path) -> None:
    script = tmp_path / "model.sh"
    script.write_text(
        '#!/bin/sh\ncat >/dev/null\n[ -e "$0.broken" ] && exit 1\ntouch "$0.broken"\necho "In short: some words."\n'
    )
    script.chmod(0o700)
    done = lcm("backfill", session.path, "--db", database, *SMALL, "--apply", "--model", f"command:{script}")
    assert done.exit_code == 1
    assert "1 summary made" in done.stdout
    assert "the same command continues" in done.stdout
    assert "0 messages imported" in fine("backfill", session.path, "--db", database, *SMALL, "--apply")
    with Lossless.open(database) as opened:
        (chat,) = opened.conversations()
        assert promise_violations(opened._store, chat.id) == []


def test_a_file_that_is_none_is_told_by_its_name(database: str, tmp_path: Path) -> None:
    done = lcm("backfill", tmp_path / "typo\x1b[31m.jsonl", "--db", database, "--apply")
    assert done.exit_code == 1
    assert "not there" in done.stdout
    assert "\x1b" not in done.stdout


def test_transplant_tells_and_then_does_it(database: str, session: Session) -> None:
    fine("backfill", session.path, "--db", database, *SMALL, "--apply", "--key", "old")
    with Lossless.open(database) as opened:
        opened.conversation("new\x1b[31m").ingest([Message.user("hello")])
        number = opened.conversation("old").status().id
    target = "new\x1b[31m"
    told = fine("transplant", "old", target, "--db", database)
    assert "not copied: 32 messages that no summary covers" in told
    assert "--apply applies it" in told
    assert "\x1b" not in told
    done = data("transplant", f"#{number}", target, "--db", database, "--apply")
    assert done["applied"]
    assert done["messages"] == 48
    assert sum(done["depths"].values()) == done["summaries"]
    again = lcm("transplant", "old", target, "--db", database, "--apply")
    assert again.exit_code == 2
    assert "3 skipped" in fine("transplant", "old", target, "--db", database, "--apply", "--dedupe")
    assert lcm("transplant", "old", "nobody", "--db", database).exit_code == 3


def test_backfill_carries_over_what_came_out(database: str, session: Session) -> None:
    with Lossless.open(database) as opened:
        opened.conversation("live").ingest([Message.user("What was it?")])
    told = fine(
        "backfill", session.path, "--db", database, *SMALL, "--apply", "--single-root", "--transplant-to", "live"
    )
    assert "before live" in told
    with Lossless.open(database) as opened:
        assert len(opened.conversation("live").context().items) == 2


def test_export_and_import_bring_everything_back(database: str, session: Session, tmp_path: Path) -> None:
    fine("backfill", session.path, "--db", database, *SMALL, "--apply", "--key", "k")
    path = tmp_path / "all.zip"
    assert "1 conversation, 80 messages" in fine("export", path, "--db", database)
    assert lcm("export", path, "--db", database).exit_code == 2
    done = data("export", path, "--db", database, "--replace", "-c", "k")
    assert (done["conversations"], done["messages"]) == (1, 80)
    assert lcm("export", path, "--db", database, "--replace", "-c", "x").exit_code == 3
    fine("import", path, "--db", tmp_path / "back.db", "--apply")
    with Lossless.open(tmp_path / "back.db") as back, Lossless.open(database) as opened:
        assert back.conversation("k").summaries() == opened.conversation("k").summaries()
        assert [each.message for each in back.conversation("k").messages()] == [
            each.message for each in opened.conversation("k").messages()
        ]


def test_migrate_proves_it_and_refuses_what_is_not_empty(database: str, session: Session, tmp_path: Path) -> None:
    fine("backfill", session.path, "--db", database, *SMALL, "--apply")
    moved = lcm("migrate", database, tmp_path / "moved.db")
    assert moved.exit_code == 0, moved.output
    assert "message: 80" in moved.stderr
    assert "digest " in moved.stdout
    again = lcm("migrate", database, tmp_path / "moved.db")
    assert again.exit_code == 2
    assert "is not empty" in again.stderr
    there = data("migrate", tmp_path / "moved.db", tmp_path / "again.db")
    assert there["digest"] in moved.stdout


def test_a_password_is_never_printed(tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db") as opened:
        opened.conversation("k").ingest([Message.user("hello")])
    for address in ("postgresql://u:secret@127.0.0.1:1/x", "host=127.0.0.1 port=1 user=u password=secret"):
        commands = (
            ("migrate", tmp_path / "lcm.db", address),
            *(
                (*line, "--db", address)
                for line in (("status",), ("doctor",), ("import", tmp_path), ("grep", "x", "--json"))
            ),
            ("backup", tmp_path / "b.zip", "--db", address),
            ("restore", tmp_path / "b.zip", "--db", address, "--replace"),
            ("config", "show", "--db", address),
            ("config", "show", "--json", "--db", address),
        )
        for line in commands:
            done = lcm(*line)
            assert "secret" not in done.output + done.stderr, line
            assert done.exit_code != 0 or line[0] == "config", line
    assert [each.name for each in tmp_path.iterdir() if "=" in each.name] == []
