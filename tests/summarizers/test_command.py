"""Any program as a summariser."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from lossless.errors import SummarizerUnavailable
from lossless.summarizers.command import Command
from tests.summarizers.conftest import asking


def python(code: str, *arguments: str, timeout: float = 10.0) -> Command:
    return Command((sys.executable, "-c", code, *arguments), timeout)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import sys; sys.stdout.write(sys.stdin.read())", "You write summaries.\n\nWas wäre 発 \ufffd?"),
        ("print('done')", "done"),
        ("print('<think>hm</think>done')", "done"),
        ("print('<think>hm')", ""),
        ("pass", ""),
        ("import sys; sys.stdout.buffer.write(b'caf\\xe9 \\0')", "caf\ufffd \ufffd"),
        ("import sys; sys.stderr.write('a warning'); print('done')", "done"),
        ("print('word ' * 12000)", ("word " * 12_000).strip()),
    ],
)
def test_a_program_and_its_text(code: str, text: str) -> None:
    assert python(code).ask(asking("Was wäre 発 \ud83d?")).text == text


def test_a_large_prompt_that_is_not_read_does_no_harm() -> None:
    assert python("print('done')").ask(asking("x" * 3_000_000)).text == "done"


def test_the_name_is_the_program_without_its_arguments() -> None:
    reply = python("print('done')", "--api-key=secret").ask(asking())
    assert reply.model == f"command:{Path(sys.executable).name}"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.stderr.write('starting\\nno such model\\n'); sys.exit(3)", "status 3: no such model"),
        ("import sys; print('half'); sys.exit(1)", "status 1: no message"),
        ("import sys; sys.stderr.buffer.write(b'\\x1b[31m\\xff'); sys.exit(1)", r"status 1: \[31m\ufffd"),
        ("import os; os.kill(os.getpid(), 9)", "status -9"),
    ],
)
def test_a_program_that_fails_is_unavailable(code: str, told: str) -> None:
    with pytest.raises(SummarizerUnavailable, match=told):
        python(code).ask(asking())


@pytest.mark.parametrize("program", ["/nowhere/at-all", "/"])
def test_a_program_that_cannot_be_run_is_unavailable(program: str) -> None:
    with pytest.raises(SummarizerUnavailable, match="cannot be run"):
        Command((program,)).ask(asking())


def test_no_shell_reads_the_line() -> None:
    command = Command.parse("echo '$HOME; ls' | cat", 10.0)
    assert command.ask(asking()).text == "$HOME; ls | cat"


@pytest.mark.parametrize("then", ["wait", "exit"])
def test_its_time_ends_for_the_program_and_its_children(tmp_path: Path, then: str) -> None:
    """The child holds a pipe open, and the program's output, whether the program waits for it or not."""
    held = tmp_path / "held"
    os.mkfifo(held)
    reading = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    script = f'(echo here >&3; exec sleep 60) 3>"$0" & {then}'
    with pytest.raises(SummarizerUnavailable, match=r"did not answer within 0\.5 s"):
        Command(("sh", "-c", script, str(held)), 0.5).ask(asking())
    said: list[bytes] = []
    while select.select([reading], [], [], 10)[0] and (not said or said[-1]):
        said.append(os.read(reading, 100))
    os.close(reading)
    assert said == [b"here\n", b""], "the child is still there, or never was"
