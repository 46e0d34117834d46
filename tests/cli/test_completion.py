"""A shell completes commands, options, settings and keys, whatever characters are in them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lossless import Lossless, Message
from lossless.cli import cli
from tests.command import lcm

KEYS = ("agent:main:cron:1", "agent:main:main", "tom's notes, part 2")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("completion") / "lcm.db"
    with Lossless.open(path) as lcm:
        for key in KEYS:
            lcm.conversation(key).ingest([Message.user("hello", event_id="1")])
    return str(path)


def completed(*words: str) -> list[str]:
    """What a shell is told when the last of the words is to be completed."""
    line = "\n".join(("lcm", *words))
    asked = {"_LCM_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    ended = CliRunner(env=asked).invoke(cli, [], prog_name="lcm")
    return [line.partition(",")[2] for line in ended.stdout.splitlines() if line]


def test_commands_and_their_options_are_completed() -> None:
    assert completed("desc") == ["describe"]
    assert completed("config", "s") == ["set", "show"]
    assert completed("describe", "--start") == ["--start-line"]
    assert completed("describe", "--apply") == []


def test_settings_and_their_choices_are_completed() -> None:
    assert completed("config", "get", "fresh_") == ["fresh_tail_count", "fresh_tail_max_tokens"]
    assert completed("config", "set", "compaction_trigger", "") == ["both", "leaf", "threshold"]
    assert completed("config", "set", "semantic", "t") == ["true"]
    assert completed("completion", "z") == ["zsh"]


def test_keys_are_completed_from_the_database_that_is_named(database: str) -> None:
    assert sorted(completed("--db", database, "history", "")) == sorted(KEYS)
    assert completed("history", "--db", database, "-c", "tom") == [KEYS[2]]


def test_a_shell_hears_nothing_of_what_is_wrong(tmp_path: Path) -> None:
    assert completed("--db", str(tmp_path / "none.db"), "history", "") == []


def test_the_script_is_text_though_a_shell_reads_it_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_OUTPUT", "json")
    for shell in ("bash", "zsh", "fish"):
        ended = CliRunner().invoke(cli, ["completion", shell])
        assert ended.exit_code == 0
        assert f"_LCM_COMPLETE={shell}_complete" in ended.stdout
        assert not ended.stdout.startswith("{")
    assert CliRunner().invoke(cli, ["completion", "bash", "--json"]).stdout.startswith('{"ok": true')


def test_bash_completes_a_key_that_it_takes_for_several_words(database: str) -> None:
    script = CliRunner().invoke(cli, ["completion", "bash"]).stdout
    typed = """
    COMP_WORDS=(lcm history -c agent : main : m) COMP_CWORD=7
    COMP_LINE='lcm history -c agent:main:m' COMP_POINT=27
    _lcm_completion lcm
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LCM_DATABASE_PATH": database,
    }
    ran = subprocess.run(
        ["bash", "--norc", "-c", script + typed], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("main\n", "")


@pytest.mark.parametrize(
    ("typed", "key", "offered"),
    [
        ('"room', "room$(touch pwned)`id`\\\\", ["room\\$(touch pwned)\\`id\\`\\\\\\\\"]),
        ('"room', "room!", []),
        ("'room", "room'; touch pwned '", []),
        ("'room", "room$(touch pwned)", ["room$(touch pwned)"]),
        ("room", "room$(touch pwned)", ["room\\$\\(touch\\ pwned\\)"]),
    ],
)
def test_a_key_is_never_carried_out(tmp_path: Path, typed: str, key: str, offered: list[str]) -> None:
    answering = tmp_path / "lcm"
    answering.write_text(f"#!/bin/sh\ncat <<'END'\nplain,{key}\nEND\n")
    answering.chmod(0o755)
    script = lcm("completion", "bash").stdout
    line = f"lcm pins {typed}"
    asked = f"""COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_WORDS=(lcm pins {shlex.quote(typed)}) COMP_CWORD=2
_lcm_completion {answering}; printf '%s\\n' "${{COMPREPLY[@]}}" """
    ran = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    assert [each for each in ran.stdout.splitlines() if each] == offered
