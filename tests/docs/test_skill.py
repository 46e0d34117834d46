"""The skill names what exists: commands with their options, settings, tools and their arguments."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lossless import config
from lossless.cli import cli
from lossless.cli.options import common_options
from lossless.hosts import bundled
from lossless.mcp.tools import Toolbox
from lossless.tools.arguments import TOOLS, parameters

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "lossless"
PAGES = sorted(SKILL.rglob("*.md"))
WIDEST, LONGEST = 120, 45
NO_SETTING = {"full_text"}
"""Words with an underscore beside those of settings and tools."""


def spans(page: Path) -> set[str]:
    """What stands between backticks, and the lines of code; not in the tables that the program wrote."""
    text = re.sub(r"<!-- \w+ -->.*?<!-- end -->", "", page.read_text("utf-8"), flags=re.S)
    blocks = re.findall(r"^```\n(.*?)^```$", text, flags=re.M | re.S)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    return {*inline, *(line for block in blocks for line in block.splitlines() if line)}


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for span in sorted(spans(page)):
            if re.match(r"lcm [a-z]", span):
                yield page.stem, span


def test_it_is_shipped_with_front_matter_and_five_references() -> None:
    assert bundled.path("skill") == SKILL
    head = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", (SKILL / "SKILL.md").read_text("utf-8"))
    assert head is not None
    assert head[1] == SKILL.name
    assert len(head[2]) <= 1024
    names = {page.stem for page in (SKILL / "references").iterdir()}
    assert names == {"architecture", "configuration", "diagnostics", "recall-tools", "session-lifecycle"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_tables_are_those_of_the_program(page: Path) -> None:
    text = page.read_text("utf-8")
    assert runpy.run_path(str(ROOT / "scripts" / "reference.py"))["skill_page"](text) == text, "run `make reference`"


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_every_command_exists_with_its_options(page: str, line: str) -> None:
    context, command = click.Context(cli, info_name="lcm"), cli
    found: click.Command = command
    words = shlex.split(line)[1:]
    while words and isinstance(found, click.Group) and (inner := found.get_command(context, words[0])) is not None:
        context, found = click.Context(inner, parent=context, info_name=words.pop(0)), inner
    assert found is not cli, line
    if isinstance(found, click.Group):  # the command that runs without a name
        found = found.commands[getattr(found, "default", "list")]
    known = {name for each in [*found.params, *common_options()] for name in (*each.opts, *each.secondary_opts)}
    assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_setting_tool_and_argument_exists(page: Path) -> None:
    arguments = {name for kind in TOOLS.values() for name in parameters(kind)["properties"]}
    results = {"nextCursor", "errorCode"}
    for span in spans(page):
        if re.fullmatch(r"lcm_\w+", span):
            assert span in {*TOOLS, *Toolbox.own}, span
        elif re.fullmatch(r"[a-z]+(?:_[a-z]*)+", span):
            assert span in {*config.catalogue(), *NO_SETTING}, span
        elif re.fullmatch(r"[a-z]+(?:[A-Z][a-z]+)+", span):
            assert span in arguments | results, span


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere_and_lines_are_short(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), target
    prose = "\n".join(line for line in re.sub(r"(?s)\A---.*?\n---\n", "", text).splitlines() if line[:1] not in "|#")
    assert [line for line in prose.splitlines() if len(line) > WIDEST] == []
    for sentence in re.split(r"(?<=[.!?:;])\s+|\n\n|\n(?=- |\d+\. )", prose):
        assert len(sentence.split()) <= LONGEST, sentence
