"""The help of every command: short, in 80 columns, with examples that are true."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lossless.cli import cli
from lossless.cli.options import Group, Plain
from tests.command import lcm


def every(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group below the program, with its full name."""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            below = click.Context(inner, parent=ctx, info_name=name)
            yield below.command_path, inner
            yield from every(inner, below)


COMMANDS = dict(every(cli, click.Context(cli, info_name="lcm", **cli.context_settings)))
READERS = (
    "conversations",
    "messages",
    "summaries",
    "files",
    "history",
    "pins",
    "context",
    "stats",
    "config",
    "prompts",
)


def examples(name: str) -> tuple[str, ...]:
    command = COMMANDS[name]
    assert isinstance(command, Plain | Group)
    return command.examples


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_80_columns_and_shows_two_examples(name: str) -> None:
    words = name.split()[1:]
    short = lcm(*words, "-h", COLUMNS="80")
    assert (short.returncode, short.stderr) == (0, "")
    assert short.stdout == lcm(*words, "--help", COLUMNS="80").stdout
    lines = short.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    at = lines.index("Examples:")
    assert lines[at + 1 : at + 3] == [f"  {example}" for example in examples(name)]


def test_the_help_of_the_program_fits_80_columns() -> None:
    lines = lcm("--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_command_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("session.jsonl", "notes.txt"):
        (tmp_path / path).write_text("")
    for example in examples(name):
        words = shlex.split(example)
        assert (words[: len(name.split())], len(example) <= 78) == (name.split(), True)
        with pytest.raises(Parsed):
            parse(words[1:])


class Parsed(Exception):
    """A command line that was understood up to its end."""


def parse(words: list[str]) -> None:
    """Parse a command line without running it."""
    command: click.Command = cli
    ctx = cli.make_context("lcm", words)
    while isinstance(command, click.Group):
        rest = [*ctx._protected_args, *ctx.args]
        name, inner, rest = command.resolve_command(ctx, rest)
        assert inner is not None
        command, ctx = inner, inner.make_context(name, rest, parent=ctx)
    ctx.close()  # files that the line names
    raise Parsed


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    assert lcm("demo", "--db", path).returncode == 0
    return path


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.split()[1] in READERS])
def test_the_examples_that_read_work_on_the_demo(name: str, demo: Path) -> None:
    for example in examples(name):
        if "0123456789" in example or "prompts" in name or " set " in example:  # no such id, file or wish
            continue
        ran = lcm(*shlex.split(example)[1:], LCM_DATABASE_PATH=str(demo))
        assert (ran.returncode, ran.stderr.startswith("lcm: ")) == (0, False), (example, ran.stderr)
