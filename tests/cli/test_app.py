"""The command, as a person runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lossless import Lossless, Message
from tests.command import lcm
from tests.fixtures import PI_SESSION


def test_status_tells_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with Lossless.open(path) as opened:
        opened.conversation("k").ingest([Message.user("hello")])
    ran = lcm("status", LCM_DATABASE_PATH=str(path))
    assert ran.returncode == 0, ran.stderr
    assert str(path) in ran.stdout
    assert "messages       1 (" in ran.stdout
    data = json.loads(lcm("status", "--db", str(path), "--json").stdout)
    assert data["ok"] is True
    assert data["data"]["messages"] == 1


def test_a_new_machine_has_an_empty_status(tmp_path: Path) -> None:
    ran = lcm("status", HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path / "data"), XDG_CONFIG_HOME=str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert "size           not created yet" in ran.stdout
    assert "last message   never" in ran.stdout
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("environment", "code", "sentence"),
    [
        ({"LCM_FRESH_TIAL_COUNT": "3"}, 4, "Did you mean LCM_FRESH_TAIL_COUNT?"),
        ({"LCM_DATABASE_PATH": "postgresql://u:secret@127.0.0.1:1/x"}, 5, "cannot be reached"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_an_exit_code(environment: dict[str, str], code: int, sentence: str) -> None:
    ran = lcm("status", **environment)
    assert ran.returncode == code
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "secret" not in ran.stderr


def test_a_named_database_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    ran = lcm("status", "--db", str(tmp_path / "typo.db"))
    assert ran.returncode == 3
    assert "There is no database at" in ran.stderr
    assert list(tmp_path.iterdir()) == []
    told = json.loads(lcm("status", "--json", "--db", str(tmp_path / "typo.db")).stderr)
    assert told["ok"] is False
    assert told["error"]["code"] == "DATABASE_NOT_FOUND"


def test_the_demo_shows_what_is_left_and_finds_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    ran = lcm("demo", "--db", str(path))
    assert ran.returncode == 0, ran.stderr
    assert "527 messages, 62,985 tokens" in ran.stdout
    assert "crc32=5be1c09d" in ran.stdout
    assert "A detail that is in none of the summaries" in ran.stdout
    assert "d2 sum_" in ran.stdout
    assert '"messages": 527' in lcm("status", "--db", str(path), "--json").stdout
    again = lcm("demo", "--db", str(path))
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_the_demo_fits_a_screen_and_its_commands_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "my data"))
    monkeypatch.setenv("COLUMNS", "80")
    ran = lcm("demo")
    lines = ran.stdout.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    excerpt = lines[lines.index("The oldest summary starts with:") + 1 :]
    assert excerpt[excerpt.index("") - 1].endswith(".")
    commands = [line.strip() for line in lines if line.startswith("  lcm ")]
    assert len(commands) == 3
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        pasted = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False)
        assert pasted.returncode == 0, pasted.stderr
        assert pasted.stdout


def test_a_demo_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(steps: range, *_: object, **__: object) -> Iterator[int]:
        yield steps[0]
        raise KeyboardInterrupt

    monkeypatch.setattr("rich.progress.track", interrupted)
    assert lcm("demo", "--db", str(tmp_path / "demo.db")).returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_the_demo_takes_a_transcript_of_ones_own(tmp_path: Path) -> None:
    ran = lcm("demo", str(PI_SESSION), "--db", str(tmp_path / "demo.db"))
    assert ran.returncode == 0, ran.stderr
    assert "914 messages" in ran.stdout
    (tmp_path / "empty.jsonl").write_text("{}\n")
    assert lcm("demo", str(tmp_path / "empty.jsonl"), "--db", str(tmp_path / "x.db")).returncode == 2


def test_compact_from_the_command_line(tmp_path: Path) -> None:
    path = str(tmp_path / "lcm.db")
    with Lossless.open(path) as opened:
        opened.conversation("k").ingest([Message.user(f"turn {n} " + "some words " * 40) for n in range(100)])
    ran = lcm("compact", "k", "--db", path, "--window", "12000", "--model", "extractive")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("compacted: ")
    assert json.loads(lcm("compact", "k", "--db", path, "--json").stdout)["data"]["stop"] == "below threshold"
    assert lcm("compact", "nobody", "--db", path).returncode == 3


def test_without_arguments_it_shows_first_commands_on_one_screen() -> None:
    ran = lcm()
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    for line in lines:
        if command := re.match(r"  lcm ([a-z]+)", line):
            assert lcm(command[1], "-h").returncode == 0, line


def test_help_and_version() -> None:
    assert "status" in lcm("--help").stdout
    assert lcm("--version").stdout.startswith("lcm, version ")
    assert lcm("nonsense").returncode == 2


def test_the_worker_does_what_is_owed_and_ends_when_told(tmp_path: Path) -> None:
    path = str(tmp_path / "lcm.db")
    with Lossless.open(path) as opened:
        opened._background.wake = lambda: None  # type: ignore[method-assign]  # the command pays
        chat = opened.conversation("k")
        chat.after_turn([Message.user(f"turn {n} " + "some words " * 40) for n in range(200)], window=20_000)
    ran = lcm("worker", "--once", "--json", "--db", path)
    assert json.loads(ran.stdout.splitlines()[0])["stop"] == "compacted", ran.stderr
    assert json.loads(ran.stdout.splitlines()[1])["data"] == {"conversations": 1}
    assert lcm("worker", "--once", "--db", path).stdout == "0 conversations had pending work\n"
    command = [sys.executable, "-m", "lossless", "worker", "--db", path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "Waiting for work" in running.stderr.readline()
        running.terminate()
        assert running.wait(20) == 0
