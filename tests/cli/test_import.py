"""`lcm import` and `lcm watch`, as a person runs them."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lossless import Lossless
from lossless.cli import cli
from lossless.cli.commands.watch import follow
from tests.command import lcm
from tests.imports.databases import CLAW
from tests.transcribing import Session, assistant, user

LCM = [sys.executable, "-m", "lossless"]
BENCH = Path(__file__).parents[2] / "bench"


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
    assert [line.split()[:4] for line in looked.stdout.splitlines()[:2]] == [
        ["program", "sessions", "new", "messages"],
        ["OpenClaw", "1", "1", "0"],
    ]
    assert "Dry run: nothing was written. Add --apply to import 1 message from 1 session." in looked.stdout
    assert not (home / "data").exists()
    done = lcm("import", home / "s", "--apply")
    assert "Imported 1 message from 1 session." in done.stdout
    assert '"messages": 1' in lcm("status", "--json").stdout
    again = lcm("import", home / "s").stdout.splitlines()
    assert again[1].split() == ["OpenClaw", "1", "0", "1"]
    assert again[2:] == ["", "Nothing new to import."]


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
    programs = [line.partition("  ")[0] for line in found.stdout.splitlines()[1:5]]
    assert programs == ["Claude Code", "Codex", "OpenClaw", "pi"]
    assert "Add --apply to import 4 messages from 4 sessions." in found.stdout
    assert "4 new messages in 4 of 4 files" in lcm("watch", "--once").stdout


def test_what_goes_wrong_with_one_file_is_told_and_the_exit_code_says_so(home: Path) -> None:
    said(home / "s")
    ran = lcm("import", home / "s", home / "typo", "--apply")
    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    assert lines[lines.index("1 problem:") + 1] == "  ~/typo: It is not there."
    assert "Imported 1 message from 1 session." in ran.stdout
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
    for ran in (lcm("import", home / "s", "--verbose"), lcm("watch", home / "s", "--once")):
        assert "\x1b" not in ran.stdout + ran.stderr
        assert "\u202e" not in ran.stdout
        assert "\\x1b[2J" in ran.stdout


def test_a_closed_pipe_ends_it_quietly(home: Path) -> None:
    for number in range(300):
        said(home / "s", f"a-session-with-a-rather-long-name-{number}")
    command = f"{' '.join(LCM)} import --verbose {home / 's'} | head -1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("program")
    assert ran.stderr == ""


def test_a_terminal_is_shown_a_table_and_a_bar(home: Path) -> None:
    said(home / "s")
    shown = _on_a_terminal([*LCM, "import", str(home / "s"), "--apply"])
    assert "program" in shown, "the head of the table"
    assert "100%" in shown or "bytes" in shown, "the bar"
    assert "Imported 1 message from 1 session." in shown


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


def test_a_pipe_is_shown_no_bar(home: Path) -> None:
    said(home / "s")
    command = [*LCM, "import", str(home / "s"), "--apply"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout


def test_each_program_has_one_line_with_the_dates_of_its_messages(home: Path) -> None:
    sessions = home / ".pi" / "agent" / "sessions"
    for name, days in (("a", 0), ("b", 9)):
        session = said(sessions, name)
        session.write([session.entry(user("later"), at=days * 86_400)])
    said(home / "s", "c")
    shown = lcm("import", sessions, home / "s", "--apply").stdout.splitlines()
    assert [line.partition("  ")[0] for line in shown[:4]] == ["program", "OpenClaw", "pi", ""]
    assert shown[2].split()[:4] == ["pi", "2", "4", "0"]
    assert shown[2].endswith("2026-11-14 to 2026-11-23"), shown[2]


def test_details_come_with_verbose(home: Path) -> None:
    session = said(home / "s")
    with session.path.open("a") as file:
        file.write("no json\n")
    short, long = lcm("import", home / "s").stdout, lcm("import", home / "s", "-v").stdout
    assert "1 line in 1 file could not be read." in short
    assert "openclaw:s1" not in short
    assert "~/s/s1.jsonl\n    would-import  1 new, 0 already stored  openclaw:s1\n    1 malformed\n" in long


def test_an_import_names_the_next_step_with_its_price(home: Path) -> None:
    said(home / "s", "short")
    assert lcm("import", home / "s", "--apply").stdout.endswith("Next: lcm conversations\n")
    said(home / "s", "long", *(f"{number} {'some words ' * 400}" for number in range(150)))
    free = lcm("import", home / "s", "--apply", "--db", home / "a b.db").stdout.splitlines()
    command = next(line.removeprefix("Next: ") for line in free if line.startswith("Next: "))
    assert "1 long conversation, about " in free[-2]
    assert free[-1].startswith("  free: no model is set")
    priced = lcm("import", home / "s", "--apply", LCM_SUMMARY_MODEL="anthropic/claude-haiku-4-5").stdout
    assert re.search(r"about \$0\.\d\d with anthropic/claude-haiku-4-5\n$", priced)
    program, *words = shlex.split(command)
    assert (program, words) == ("lcm", ["compact", "--all", "--db", str(home / "a b.db")])
    compacted = lcm(*words)
    assert compacted.returncode == 0, compacted.stderr
    assert compacted.stdout.startswith("1 of 2 conversations compacted: ")
    assert "0 of 2 conversations compacted: none is too long" in lcm(*words).stdout


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
        assert told["meta"]["database_path"] == str(home / "data" / "lossless" / "lcm.db")


def test_a_file_of_another_kind_is_told_as_one(home: Path) -> None:
    (home / "notes.txt").write_text("Nothing of this was said to anybody.\n")
    ran = lcm("import", home / "notes.txt")
    assert ran.returncode == 1
    assert "It is not a known transcript, database or archive." in ran.stdout


def test_a_backfill_of_what_is_here_counts_it(home: Path) -> None:
    said(home / "s", "s1", "one", "two", "three")
    assert lcm("import", home / "s", "--apply").returncode == 0
    assert "openclaw:s1: 0 messages to import, 3 stored before" in lcm("backfill", home / "s" / "s1.jsonl").stdout
