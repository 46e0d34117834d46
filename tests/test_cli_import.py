"""`lcm import` and `lcm watch`, as a person runs them."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lossless import Lossless
from lossless.cli import cli
from lossless.cli.watch import follow
from tests.command import lcm
from tests.imports.databases import CLAW
from tests.transcribing import Session, assistant, user

LCM = [sys.executable, "-m", "lossless"]
BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing was said yet."""
    monkeypatch.delenv("CODEX_HOME", raising=False)
    for name, value in (("HOME", tmp_path), ("XDG_DATA_HOME", tmp_path / "data"), ("XDG_CONFIG_HOME", tmp_path / "c")):
        monkeypatch.setenv(name, str(value))
    return tmp_path


def said(directory: Path, name: str = "s1", *texts: str) -> Session:
    directory.mkdir(parents=True, exist_ok=True)
    session = Session(directory / f"{name}.jsonl", name)
    session.says(*map(user, texts or ("hello",)))
    return session


def test_a_look_writes_nothing_and_apply_does_it(home: Path) -> None:
    said(home / "s")
    looked = lcm("import", home / "s")
    assert looked.returncode == 0, looked.stderr
    assert [line.split()[:5] for line in looked.stdout.splitlines()[:2]] == [
        ["status", "new", "known", "kind", "conversation"],
        ["would-import", "1", "0", "openclaw", "openclaw:s1"],
    ]
    assert "Nothing was written; --apply does it." in looked.stdout
    assert not (home / "data").exists()
    done = lcm("import", home / "s", "--apply")
    assert "1 source (1 imported), 1 new message." in done.stdout
    assert '"messages": 1' in lcm("status", "--json").stdout
    assert lcm("import", home / "s").stdout == "1 source (1 up-to-date), 0 new messages.\n"


def test_json_tells_every_source(home: Path) -> None:
    said(home / "s", "a", "one", "two")
    told = json.loads(lcm("import", home / "s", CLAW, "--json").stdout)
    assert (told["ok"], told["command"]) == (True, "import")
    assert told["data"]["messages"] == 602
    assert sorted(each["kind"] for each in told["data"]["sources"]) == ["lossless-claw", "openclaw"]
    assert not (home / "data").exists()


def test_without_a_path_the_usual_places_are_searched(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = lcm("import")
    assert empty.returncode == 0
    assert "Name a PATH" in empty.stderr
    assert lcm("watch", "--once").returncode == 2
    monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
    for number, place in enumerate(
        (".claude/projects/p", "codex/sessions/2026", ".openclaw/agents/main/sessions", ".pi/agent/sessions/p")
    ):
        said(home / place, f"s{number}")
    found = lcm("import")
    assert [line.split(":")[0] for line in found.stderr.splitlines()] == ["Claude Code", "Codex", "OpenClaw", "pi"]
    assert "4 sources (4 would-import)" in found.stdout
    assert "4 new messages in 4 of 4 files" in lcm("watch", "--once").stdout


def test_what_goes_wrong_with_one_file_is_told_and_the_exit_code_says_so(home: Path) -> None:
    said(home / "s")
    ran = lcm("import", home / "s", home / "typo", "--apply")
    assert ran.returncode == 1
    assert "It is not there." in ran.stdout
    assert "1 error, 1 imported" in ran.stdout
    assert json.loads(lcm("import", home / "typo", "--json").stdout)["ok"] is False


@pytest.mark.parametrize("wrong", [("--limit", "0"), ("--since", "soon"), ("--key", "k"), ("--nonsense",)])
def test_wrong_usage_is_told_and_nothing_is_done(home: Path, wrong: tuple[str, ...]) -> None:
    said(home / "s", "a")
    said(home / "s", "b")
    ran = lcm("import", home / "s", "--apply", *wrong)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert "imported" not in ran.stdout


def test_a_path_cannot_steer_the_terminal(home: Path) -> None:
    said(home / "s", "\x1b[2J\x1b]0;owned\x07\u202egnp")
    (home / "s" / "\x1b[31mred.jsonl").write_text("nothing")
    for ran in (lcm("import", home / "s"), lcm("watch", home / "s", "--once")):
        assert "\x1b" not in ran.stdout + ran.stderr
        assert "\u202e" not in ran.stdout
        assert "\\x1b[2J" in ran.stdout


def test_a_closed_pipe_ends_it_quietly(home: Path) -> None:
    for number in range(300):
        said(home / "s", f"a-session-with-a-rather-long-name-{number}")
    command = f"{' '.join(LCM)} import {home / 's'} | head -1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("status")
    assert ran.stderr == ""


def test_a_terminal_is_shown_a_table_and_a_bar(home: Path) -> None:
    said(home / "s")
    shown = _on_a_terminal([*LCM, "import", str(home / "s"), "--apply"])
    assert "conversation" in shown, "the head of the table"
    assert "1 source (1 imported), 1 new message." in shown


def _on_a_terminal(command: list[str]) -> str:
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment):
        os.close(theirs)
        shown = b"".join(_read(ours))
    os.close(ours)
    return shown.decode()


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            return
        if not piece:
            return
        yield piece


def test_watching_tells_a_line_for_each_change(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = said(home / "s", "a", "one")
    turns = iter([lambda: session.says(user("two"), assistant("three")), lambda: None, None])

    def waited() -> bool:
        turn = next(turns)
        if turn:
            turn()
        return turn is None

    with Lossless.open(home / "lcm.db") as opened:
        told = follow(opened.watch(home / "s"), waited)
    assert capsys.readouterr().out == "openclaw:a  1 new  a.jsonl\nopenclaw:a  2 new  a.jsonl\n"
    assert told == {"messages": 3, "files": 1, "watched": 1}


def test_ctrl_c_ends_the_watch_with_what_was_done(home: Path) -> None:
    said(home / "s")
    with subprocess.Popen(
        [*LCM, "watch", str(home / "s")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout
        assert watching.stdout.readline() == "openclaw:s1  1 new  s1.jsonl\n"
        watching.send_signal(signal.SIGINT)
        rest, errors = watching.communicate(timeout=30)
    assert (watching.returncode, rest) == (0, "1 new message in 1 of 1 file.\n")
    assert "Traceback" not in errors


@pytest.mark.parametrize("command", [("watch", "{home}/s", "--once"), ("worker", "--once")])
def test_a_command_leaves_the_signals_of_its_process_alone(home: Path, command: tuple[str, ...]) -> None:
    said(home / "s")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    lcm("watch", home / "s", "--once")  # for a database that is there
    ran = CliRunner().invoke(cli, [part.format(home=home) for part in command])
    assert ran.exit_code == 0, ran.output
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_import_keeps_up_with_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    bench = runpy.run_path(str(BENCH / "imports.py"))
    bench["write"](tmp_path, 10_000, 1)
    bare = bench["bare"](tmp_path, tmp_path.parent / "bare.db")
    mine = bench["imported"](tmp_path, tmp_path.parent / "mine.db")
    assert mine.cpu < 4 * bare.cpu, "twice is the goal; the machine may be busy"
    assert mine.again < 1


def test_a_look_names_the_database_that_would_be_written(home: Path) -> None:
    said(home / "s")
    for command in ("import", "backfill"):
        told = json.loads(lcm(command, home / "s", "--json").stdout)
        assert told["meta"]["databasePath"] == str(home / "data" / "lossless" / "lcm.db")


def test_a_file_of_another_kind_is_told_as_one(home: Path) -> None:
    (home / "notes.txt").write_text("Nothing of this was said to anybody.\n")
    ran = lcm("import", home / "notes.txt")
    assert ran.returncode == 1
    assert "It is no transcript, database or archive that is known here." in ran.stdout


def test_a_backfill_of_what_is_here_counts_it(home: Path) -> None:
    said(home / "s", "s1", "one", "two", "three")
    assert lcm("import", home / "s", "--apply").returncode == 0
    assert "openclaw:s1: 0 messages to import, 3 were here" in lcm("backfill", home / "s" / "s1.jsonl").stdout
