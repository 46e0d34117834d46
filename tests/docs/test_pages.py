"""The how-to pages open with their purpose and an example, and what they show exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lossless import Lossless
from lossless.cli import cli
from lossless.demo import conversation

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
WRITTEN_BY_A_SCRIPT = ("cli.md", "configuration.md", "doctor.md")
WIDEST = 120
COMMAND = re.compile(r"^(?:    |\$ )?lcm (?![A-Z=]).*", re.M)
LONGEST = 45
"""In words: sentences should have 25; a list inside one may make it longer."""


def prose(page: str) -> str:
    """Return the page without code, tables and headings."""
    page = re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)
    return "\n".join(line for line in page.splitlines() if not re.match(r"    |\||#|!\[|<!--|    ", line))


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_page_opens_with_its_purpose_and_an_example(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    assert re.fullmatch(r"# [A-Z].*", lines[0])
    assert re.match(r"[A-Z]", lines[2]), "a sentence that says what the page is for"
    example = next(number for number, line in enumerate(lines) if line.startswith(("```", "    ", "| ")))
    assert example <= 16


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_prose_is_wrapped_and_its_sentences_are_short(page: Path) -> None:
    if page.name in WRITTEN_BY_A_SCRIPT:
        return
    text = prose(page.read_text("utf-8"))
    assert [line for line in text.splitlines() if len(line) > WIDEST] == []
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", text):
        for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split())):
            assert len(sentence.split()) <= LONGEST, sentence


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        if page.name in WRITTEN_BY_A_SCRIPT:
            continue
        for line in COMMAND.findall(page.read_text("utf-8")):
            yield page.stem, re.sub(r"(\s#\s.*|\s[|>].*|\s\\)$", "", line.strip().removeprefix("$ "))


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_a_command_on_a_page_exists_with_its_options(page: str, line: str) -> None:
    arguments = [part for part in shlex.split(line)[1:] if part != "..."]
    context = cli.make_context("lcm", arguments)
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and context.command.invoke_without_command:
            return
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        try:
            context = command.make_context(name, rest, parent=context)
        except click.BadParameter as error:
            # A placeholder is no path and no number; a name that is no choice is an error.
            if error.param and isinstance(error.param.type, click.Choice):
                raise
            return


def examples() -> Iterator[Path]:
    for page in HOW_TO:
        found = re.search(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
        if found and "import Lossless" in found[1] and "OpenAI()" not in found[1] and "Anthropic()" not in found[1]:
            yield page


@pytest.mark.parametrize("page", list(examples()), ids=lambda page: page.stem)
def test_the_first_example_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "agent.db") as lcm:
        chat = lcm.conversation("agent:main:main")
        chat.ingest(conversation()[:60])
        chat.compact(4_000, force=True)
    found = re.search(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    assert found
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    command = [sys.executable, "-c", found[1]]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
