"""The reference is written from the program, and the program takes no option that is not on it."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lossless import config
from lossless.cli import app, cli

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"
WAY_OUT = "run `make reference`"


def commands() -> Iterator[tuple[list[str], click.Command]]:
    for path, command in app.each_command(cli, click.Context(cli, info_name="lcm")):
        yield path.split()[1:], command


def options(command: click.Command) -> set[str]:
    found = [each for each in command.params if isinstance(each, click.Option)]
    return {name for each in found for name in (*each.opts, *each.secondary_opts)}


def test_the_page_of_the_commands_says_what_they_say() -> None:
    written = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["cli_page"]()
    assert (PAGES / "cli.md").read_text("utf-8") == written, WAY_OUT


def test_the_tables_of_the_settings_say_what_the_settings_are() -> None:
    page = (PAGES / "configuration.md").read_text("utf-8")
    written = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["configuration_page"](page)
    assert page == written, WAY_OUT


def test_the_table_of_checks_is_that_of_the_registry() -> None:
    page = (PAGES / "doctor.md").read_text("utf-8")
    written = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["doctor_page"](page)
    assert page == written, WAY_OUT


def test_every_example_of_the_guide_is_a_configuration(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "how-to" / "configure.md").read_text("utf-8")
    examples = re.findall(r"```toml\n(.*?)```", guide, re.S)
    assert len(examples) == 9
    for example in examples:
        (tmp_path / "lcm.toml").write_text(example)
        assert config.resolve(environment={}, file=tmp_path / "lcm.toml").warnings == ()


def test_every_command_and_every_option_is_explained() -> None:
    for words, command in commands():
        assert command.help, words
        for each in command.params:
            assert not isinstance(each, click.Option) or each.help or each.hidden, (words, each.opts)


def test_an_option_of_another_command_is_refused() -> None:
    """Never ignored: not one option of any command is taken by a command that does not have it."""
    known = set().union(*(options(command) for _, command in commands()))
    for words, command in commands():
        for option in sorted(known - options(command)):
            with pytest.raises(click.NoSuchOption) as refused:
                command.make_context(words[-1], [option])
            assert refused.value.option_name == option


def test_a_wrong_option_is_told_as_one_by_every_command() -> None:
    for words, _ in commands():
        ended = CliRunner().invoke(cli, [*words, "--no-such-option", "--json"])
        told = json.loads(ended.stderr)
        assert (ended.exit_code, told["ok"], told["error"]["code"]) == (2, False, "INVALID_ARGUMENT"), words
