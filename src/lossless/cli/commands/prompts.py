"""`lcm prompts`: the prompts in force, what an operator's own ones change, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click
import msgspec

from lossless import Settings, config
from lossless.cli.options import Group, Plain
from lossless.cli.output import answer, is_json, print_note
from lossless.engine.compaction import prompts as engine
from lossless.engine.compaction.prompts import Templates
from lossless.errors import InvalidInput

_prompt_dir = click.option(
    "--prompt-dir", metavar="DIR", help="Where your own prompts are; otherwise what the settings say."
)
_text = click.File(encoding="utf-8", errors="replace")


class _Prompts(Group):
    command_class = Plain


@click.group(cls=_Prompts)
def prompts() -> None:
    """The prompts that ask for summaries, and your own in their place.

    They are system, leaf, condensed-d1, condensed-d2 and condensed-d3, and of each but the first a stricter form such as
    leaf-aggressive. A NAME may be written in capitals, and .txt may follow. Your own are looked for in --prompt-dir,
    otherwise in the prompt_dir of the settings; a file there that cannot serve is told on standard error (with --json, as
    `problems`).
    """


@prompts.command("list")
@_prompt_dir
def list_(prompt_dir: str | None) -> None:
    """Every prompt, and where its text comes from."""
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    origins = [(name, templates.origin(name)) for name in templates.names()]
    data = {"version": templates.version, "prompts": [{"name": name, "source": origin} for name, origin in origins]}
    _print(data, "\n".join(f"{name:<25}{origin}" for name, origin in origins), templates)


@prompts.command()
@click.argument("name")
@_prompt_dir
def show(name: str, prompt_dir: str | None) -> None:
    """The text in force, before any values are put in."""
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    text = templates.source(name)
    data = {"name": engine.known(name), "source": templates.origin(name), "text": text}
    _print(data, text, templates)


@prompts.command()
@click.argument("name")
@_prompt_dir
def diff(name: str, prompt_dir: str | None) -> None:
    """What your own prompt changes.

    Prints nothing when it says the same as the built-in one. Exits with 3 when there is none of yours.
    """
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    changes = templates.diff(name)
    data = {"name": engine.known(name), "source": templates.origin(name), "diff": changes}
    _print(data, changes)


@prompts.command()
@click.argument("name")
@click.option("--source", type=_text, metavar="FILE", help="The text to be summarised (- is standard input).")
@click.option("--previous", type=_text, metavar="FILE", help="What was summarised before; counts up to depth 1.")
@click.option(
    "--target", type=click.IntRange(min=1), metavar="N", help="The tokens asked for; otherwise as compaction would."
)
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    metavar="N",
    help="The depth of the summary, where the prompt serves several.",
)
@_prompt_dir
def render(
    name: str,
    source: TextIO | None,
    previous: TextIO | None,
    target: int | None,
    depth: int | None,
    prompt_dir: str | None,
) -> None:
    """The whole request, as a model would get it.

    It is about a small made-up history, or about the text of --source.
    """
    settings = _settings(prompt_dir)
    templates = Templates.load(settings.prompt_dir)
    asked = engine.preview(
        name,
        settings,
        source=_read(source),
        previous=_read(previous),
        target_tokens=target,
        depth=depth,
        templates=templates,
    )
    data = {"name": engine.known(name), "depth": asked.depth, "target_tokens": asked.target_tokens}
    data |= {"system": asked.system, "prompt": asked.prompt}
    _print(data, f"=== system ===\n{asked.system}\n\n=== user ===\n{asked.prompt}", templates)


@prompts.command()
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("--force", is_flag=True, help="Replace files that are there already.")
@_prompt_dir
def export(directory: str | None, force: bool, prompt_dir: str | None) -> None:
    """Write the built-in prompts to DIR, to start your own from.

    If one of the files is there already it writes none, unless --force.
    """
    target = _directory(directory or prompt_dir)
    paths = [str(path) for path in engine.export(target, force=force)]
    told = (
        f"{len(paths)} prompts written to {target}.\n"
        "Delete those you leave as they are: a file is used also when a later version brings a better prompt."
    )
    _print({"directory": str(target), "files": paths}, told)


@prompts.command()
@click.argument("directory", required=False, metavar="[DIR]")
@_prompt_dir
def check(directory: str | None, prompt_dir: str | None) -> None:
    """What is wrong with the prompts in DIR.

    It finds what is no template, with its line; variables, filters and constructs that a prompt cannot use; a prompt that
    does not show its conversation_segment, or does not ask for the last line `Expand for details about: ...`; files that
    cannot be read; and files whose name means no prompt. Hidden files and directories do not count. In JSON, `serves`
    says whether the file is used all the same. Exits with 1 if anything is wrong.
    """
    checked = engine.check(_directory(directory or prompt_dir))
    fine = f"{', '.join(checked.overrides) or 'No prompts'} in {checked.directory}: nothing to complain about."
    _print(checked, "\n".join(map(str, checked.findings)) or fine)
    if checked.findings:
        raise SystemExit(1)


def _read(file: TextIO | None) -> str | None:
    return file.read().removesuffix("\n") if file else None


def _settings(prompt_dir: str | None) -> Settings:
    return config.load({"prompt_dir": prompt_dir})


def _directory(named: str | None) -> Path:
    found = _settings(named).prompt_dir
    if found is None:
        raise InvalidInput("There is no directory of prompts.", hint="Name one, or set prompt_dir.")
    return Path(found)


def _print(data: object, text: str, templates: Templates | None = None) -> None:
    """Tell the result, and of prompts in force also which files do not serve."""
    problems = templates.problems if templates else ()
    told = msgspec.to_builtins(data) | ({"problems": problems} if templates else {})
    answer(told, [text.removesuffix("\n")] if text else [])
    if not is_json():
        for problem in problems:
            print_note(problem)
