"""What all commands have in common: the form of an answer, what goes wrong, and that a look changes nothing."""

from __future__ import annotations

import json
import math
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lossless import Lossless, Message, Opaque
from lossless.cli import cli
from lossless.cli.app import each_command
from lossless.errors import GrantRefused, LosslessError, StoreReadOnly
from lossless.store.store import Store
from tests.command import lcm

LCM = [sys.executable, "-m", "lossless"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Lossless.open(tmp_path / "lcm.db") as opened:
        opened.conversation("first").ingest([Message.user("hello")])
        opened.conversation("second").ingest([Message.user("hello again")])
    return tmp_path / "lcm.db"


def test_text_is_the_default_in_a_pipe_too_and_json_is_asked_for(path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LCM_OUTPUT"}
    line = [*LCM, "pins", "first", "--db", str(path)]

    def piped(*words: str, **more: str) -> str:
        run = subprocess.run([*line, *words], capture_output=True, text=True, check=True, env=environment | more)
        return run.stdout

    assert piped() == "No pins.\n"
    assert _on_a_terminal(line, environment) == "No pins.\r\n"
    told = json.loads(piped("--json"))
    assert (told["ok"], told["command"], told["data"]) == (True, "pins", {"pins": []})
    assert told["meta"] == {"database_path": str(path), "config_path": None}
    assert json.loads(piped(LCM_OUTPUT="json")) == told
    assert json.loads(_on_a_terminal([*line, "--json"], environment)) == told


def test_a_pager_shows_what_is_longer_than_the_terminal(path: Path, tmp_path: Path) -> None:
    with Lossless.open(path) as opened:
        opened.conversation("first").ingest([Message.user(f"message {n}") for n in range(60)])
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nsed 's/^/paged: /'\n")
    pager.chmod(0o755)
    environment = {**os.environ, "LCM_PAGER": str(pager), "TERM": "xterm", "LINES": "24", "COLUMNS": "80"}
    line = [*LCM, "messages", "first", "--db", str(path)]
    assert _on_a_terminal(line, environment).count("paged: ") == 51
    for plain in ([*line, "--no-pager"], [*line, "-L", "5"], [*line, "--json"]):
        assert "paged: " not in _on_a_terminal(plain, environment)
    for off in ({"LCM_PAGER": "cat"}, {"LCM_PAGER": ""}, {"TERM": "dumb"}):
        assert "paged: " not in _on_a_terminal(line, environment | off)
    assert "message 59" in _on_a_terminal(line, environment | {"LCM_PAGER": str(tmp_path / "absent")})
    piped = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    assert "paged: " not in piped.stdout


def _on_a_terminal(line: list[str], environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(line, stdout=theirs, stdin=theirs, env=environment):
        os.close(theirs)
        shown = b"".join(_read(ours))
    os.close(ours)
    return shown.decode()


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(terminal, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            return


def test_options_of_all_commands_may_stand_before_or_behind_the_command(path: Path) -> None:
    before = lcm("--db", path, "--json", "pins", "first")
    assert before.stdout == lcm("pins", "first", "--json", "--db", path).stdout
    assert json.loads(before.stdout)["ok"] is True
    assert lcm("--json", "pins", "first", "--text", "--db", path).stdout == "No pins.\n"


def test_the_environment_says_which_form_is_wanted(path: Path) -> None:
    assert json.loads(lcm("pins", "first", "--db", path, LCM_OUTPUT="json").stdout)["data"] == {"pins": []}
    wrong = lcm("pins", "first", "--db", path, LCM_OUTPUT="xml")
    assert (wrong.returncode, "text or json" in wrong.stderr) == (2, True)


def test_the_conversation_is_an_argument_or_an_option_and_else_the_newest(path: Path) -> None:
    for line in (("context", "first"), ("context", "-c", "first"), ("context", "first", "-c", "first")):
        assert "hello" in lcm(*line, "--db", path).stdout
    twice = lcm("context", "first", "-c", "second", "--db", path)
    assert (twice.returncode, "Two conversations are named" in twice.stderr) == (2, True)
    newest = lcm("context", "--db", path)
    assert "hello again" in newest.stdout
    assert newest.stderr == "second: the newest of 2; -c KEY chooses another.\n"
    assert lcm("context", "--db", path, "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            ("messages", "first", "--role", "usr"),
            "'usr' is not one of 'system', 'user', 'assistant', 'tool'. Did you mean user?",
        ),
        (("context", "first", "--as-prompt", "antropic"), "Did you mean anthropic?"),
        (("messages", "first", "-L", "ten"), "'ten' is not a whole number."),
        (("messages", "first", "-L", "0"), "0 is not in the range 1<=x<=500."),
        (("messages", "first", "--limt", "3"), "Did you mean"),
        (("messages", "first", "--since", "yestreday"), "Did you mean yesterday?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_value_is_answered_with_the_nearest_right_one(path: Path, line: tuple[str, ...], sentence: str) -> None:
    ran = lcm(*line, "--db", path)
    assert (ran.returncode, sentence in ran.stderr, ran.stdout) == (2, True, ""), ran.stderr
    error = json.loads(lcm(*line, "--db", path, "--json").stderr)["error"]
    assert sentence in f"{error['message']} {error['hint']}"


@pytest.mark.parametrize(
    ("line", "exits_with", "code"),
    [
        (("pins", "first"), 0, ""),
        (("explode",), 2, "INVALID_COMMAND"),
        (("pins", "--explode"), 2, "INVALID_ARGUMENT"),
        (("messages", "list", "first", "--after", "yesterdy"), 2, "INVALID_TIME_FILTER"),
        (("messages", "list", "first", "--cursor", "x"), 2, "INVALID_CURSOR"),
        (("expand", "lamp"), 2, "INVALID_INPUT"),
        (("pins", "frist"), 3, "CONVERSATION_NOT_FOUND"),
        (("describe", "sum_0123456789abcdef"), 3, "SUMMARY_NOT_FOUND"),
        (("messages", "show", "msg#1000000099"), 3, "MESSAGE_NOT_FOUND"),
        (("files", "show", "file_0123456789abcdef01234567"), 3, "FILE_NOT_FOUND"),
        (("config", "get", "nonsense"), 3, "CONFIG_KEY_NOT_FOUND"),
        (("config", "set", "fresh_tail_count", "many"), 4, "CONFIG_VALIDATION_FAILED"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_every_outcome_has_its_exit_code_and_its_word(
    path: Path, tmp_path: Path, line: tuple[str, ...], exits_with: int, code: str
) -> None:
    environment = {"LCM_DATABASE_PATH": str(path), "XDG_CONFIG_HOME": str(tmp_path)}
    ran = lcm(*line, "--json", **environment)
    assert ran.returncode == exits_with
    if code:
        error = json.loads(ran.stderr)
        assert (error["ok"], error["error"]["code"], ran.stdout) == (False, code, "")
        said = lcm(*line, **environment)
        assert (said.returncode, "lcm: " in said.stderr, "Traceback" in said.stderr) == (exits_with, True, False)


def test_the_database_has_codes_of_its_own(path: Path, tmp_path: Path) -> None:
    def code(database: Path) -> tuple[int, str]:
        ran = lcm("conversations", "list", "--json", "--db", database)
        return ran.returncode, json.loads(ran.stderr)["error"]["code"]

    assert code(tmp_path / "absent.db") == (3, "DATABASE_NOT_FOUND")
    (tmp_path / "text.db").write_text("no database " * 100)
    assert code(tmp_path / "text.db") == (5, "STORE_CORRUPT")
    assert code(tmp_path) == (5, "STORE_UNAVAILABLE")
    assert lcm("status", "--db", path, LCM_FRESH_TIAL_COUNT="3").returncode == 4


def test_what_nobody_foresaw_is_a_sentence_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the moon fell down")

    monkeypatch.setattr(Lossless, "history", broken)
    ran = lcm("history", "--db", path)
    assert (ran.returncode, "RuntimeError: the moon fell down" in ran.stderr) == (1, True)
    assert "Traceback" not in ran.stderr
    assert json.loads(lcm("history", "--db", path, "--json").stderr)["error"]["code"] == "INTERNAL_ERROR"
    with pytest.raises(RuntimeError):
        lcm("history", "--db", path, LCM_TRACEBACK="1")


def test_other_refusals_exit_with_one_and_an_interrupt_with_130(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome: list[BaseException] = [GrantRefused("It is spent."), LosslessError("Not now."), KeyboardInterrupt()]

    def refuse(*_: object, **__: object) -> None:
        raise outcome.pop(0)

    monkeypatch.setattr(Lossless, "history", refuse)
    ends = [lcm("history", "--db", path) for _ in range(3)]
    assert [each.returncode for each in ends] == [1, 1, 130]
    assert "nothing is half written" in ends[2].stderr


def test_a_reader_that_has_gone_ends_it_quietly(path: Path) -> None:
    with Lossless.open(path) as opened:
        opened.conversation("first").ingest([Message.user(f"message {n} " * 50) for n in range(400)])
    line = f"{' '.join(LCM)} messages list first --limit 400 --include-content --db {path} | head -1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1] == "141"
    assert ran.stderr == ""


def test_a_closed_output_or_a_full_one_is_no_stack_trace(path: Path) -> None:
    line = f"{' '.join(LCM)} pins first --db {path}"
    script = f"{line} >&-; echo closed $?; {line} >/dev/full; echo full $?"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout == "closed 0\nfull 1\n"
    assert ran.stderr == "lcm: No space left on device. Check the path and the free space.\n"


def test_in_json_standard_error_is_one_object_and_remarks_stand_in_the_answer(path: Path) -> None:
    newest = "second: the newest of 2; -c KEY chooses another."
    told = lcm("pins", "--json", "--db", path)
    assert (told.stderr, json.loads(told.stdout)["meta"]["notes"]) == ("", [newest])
    wrong = lcm("grep", "(", "--json", "--db", path)
    assert json.loads(wrong.stderr)["error"]["code"] == "INVALID_INPUT"


@pytest.mark.parametrize(
    "line",
    [
        ("pin", "x"),
        ("unpin", "pin_00000000"),
        ("undo", "op_000000000000"),
        ("compact",),
        ("worker", "--once"),
        ("ask", "what"),
        ("gc", "--apply"),
        ("rewrite", "--all"),
        ("repair",),
        ("new", "--apply"),
        ("forget", "k", "--all", "--apply"),
        ("doctor", "fix", "C08", "--apply"),
        ("prune", "--before", "1d", "--apply"),
        ("backup",),
    ],
    ids=" ".join,
)
def test_a_mistyped_path_makes_no_database(tmp_path: Path, line: tuple[str, ...]) -> None:
    ran = lcm(*line, "--json", "--db", tmp_path / "typo" / "lcm.db")
    assert (ran.returncode, json.loads(ran.stderr)["error"]["code"]) == (3, "DATABASE_NOT_FOUND")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        ("ask", "hello", "-c"),
        ("history",),
        ("context",),
        ("pins",),
        ("stats",),
        ("status",),
        ("grep", "hello", "-c"),
        ("doctor",),
        ("new",),
        ("merge",),
        ("conversations", "show"),
        ("messages", "list"),
        ("summaries", "tree"),
        ("files", "list"),
    ],
    ids=" ".join,
)
def test_a_conversation_is_named_by_its_key_or_its_id_and_never_made_up(path: Path, line: tuple[str, ...]) -> None:
    assert lcm(*line, "first", "--db", path).returncode == 0
    assert lcm(*line, "#1", "--db", path).returncode == 0
    for unknown in ("frist", "#99"):
        ran = lcm(*line, unknown, "--db", path, "--json")
        assert (ran.returncode, json.loads(ran.stderr)["error"]["code"]) == (3, "CONVERSATION_NOT_FOUND"), unknown
    assert "Did you mean first?" in lcm(*line, "frist", "--db", path).stderr


def test_colours_are_for_those_who_want_them(path: Path) -> None:
    def printed(*words: str, **environment: str) -> str:
        return (
            CliRunner().invoke(cli, ["context", "first", "--db", str(path), *words], color=True, env=environment).stdout
        )

    with Lossless.open(path) as opened:
        opened.conversation("first").ingest([Message.user("hello " * 200) for _ in range(40)])
        opened.conversation("first").compact(2_000, force=True)
    assert "\x1b[" in printed()
    assert "\x1b[" not in printed("--no-color")
    assert "\x1b[" not in printed(NO_COLOR="1")
    assert "\x1b[" not in printed(TERM="dumb")


def test_json_is_json_whatever_was_said(path: Path) -> None:
    with Lossless.open(path) as opened:
        strange = Opaque("x", {"a": [math.nan, math.inf], "b": "\ud800"})
        (stored,) = opened.conversation("first").ingest([Message("user", (strange,))]).stored
    ran = lcm("messages", "show", str(stored), "-c", "first", "--db", path, "--json")
    told = json.loads(ran.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert "nan" in json.dumps(told)


def test_a_key_cannot_make_a_line_of_its_own(path: Path) -> None:
    with Lossless.open(path) as opened:
        opened.conversation("x\nverdict        ok\u061c").ingest([Message.user("hello")])
    for line in (("conversations", "list"), ("conversations", "show", "#3"), ("status",), ("new",), ("context",)):
        ran = lcm(*line, "--db", path)
        assert not any(each.startswith("verdict        ok") for each in ran.stdout.splitlines()[:-1]), line
        assert "\u061c" not in ran.stdout + ran.stderr


def test_a_look_changes_nothing_not_even_the_file(path: Path) -> None:
    def seen() -> dict[str, str]:
        files = [each for each in path.parent.iterdir() if each.name not in ("lcm.db-wal", "lcm.db-shm")]
        return {each.name: sha256(each.read_bytes()).hexdigest() for each in files}

    before = seen()
    for line in (
        ("status",),
        ("stats",),
        ("conversations", "list"),
        ("conversations", "show", "first"),
        ("messages", "list", "first"),
        ("messages", "tail", "first"),
        ("summaries", "tree", "first"),
        ("context", "first", "--window", "1000"),
        ("grep", "hello", "--all"),
        ("doctor", "--prove"),
        ("history",),
        ("pins", "first"),
        ("files", "list", "first"),
        ("new", "first"),
        ("reset", "first"),
        ("gc",),
        ("prune", "--before", "1d"),
        ("forget", "first", "--all"),
        ("merge", "first"),
    ):
        ran = lcm(*line, "--db", path)
        assert ran.returncode == 0, (line, ran.stderr)
        assert seen() == before, line


def test_whoever_reads_cannot_write(path: Path) -> None:
    with Lossless.open(path, read_only=True) as opened:
        assert isinstance(opened._store, Store)
        with pytest.raises(StoreReadOnly, match="opened for reading"), opened._store.transaction():
            pass
        with pytest.raises(StoreReadOnly):
            opened._store.all("DELETE FROM message")
        assert opened.status().messages == 2


def test_every_command_says_what_it_does() -> None:
    with click.Context(cli, info_name="lcm") as ctx:
        for name, _ in each_command(cli, ctx):
            told = lcm(*name.split()[1:], "--help")
            assert told.returncode == 0
            assert told.stdout.startswith(f"Usage: {name} ")
    assert lcm("-h").stdout.startswith("Usage: lcm ")
