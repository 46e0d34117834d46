"""`lcm prompts`: the prompts in force, what an operator's own ones change, and what is wrong with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TextIO

import click
import msgspec

from lossless import Settings, config
from lossless.engine import prompts as engine
from lossless.engine.prompts import Templates
from lossless.errors import InvalidInput

# What moves a cursor, changes a colour or turns the direction of writing could make a text look like another one.
_UNSAFE = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")

_prompt_dir = click.option(
    "--prompt-dir", metavar="DIR", help="Where your own prompts are; otherwise what the settings say."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_text = click.File(encoding="utf-8", errors="replace")


@click.group()
def prompts() -> None:
    """The prompts that ask for summaries, and your own in their place.

    A NAME is that of a file, as `list` shows it; .txt may follow.
    """


@prompts.command("list")
@_prompt_dir
@_json
def list_(prompt_dir: str | None, as_json: bool) -> None:
    """Every prompt, and where its text comes from."""
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    origins = [(name, templates.origin(name)) for name in templates.names()]
    data = {"version": templates.version, "prompts": [{"name": name, "source": origin} for name, origin in origins]}
    _print("list", data, "\n".join(f"{name:<25}{origin}" for name, origin in origins), as_json, templates)


@prompts.command()
@click.argument("name")
@_prompt_dir
@_json
def show(name: str, prompt_dir: str | None, as_json: bool) -> None:
    """The text in force, before any values are put in."""
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    text = templates.source(name)
    data = {"name": engine.known(name), "source": templates.origin(name), "text": text}
    _print("show", data, text, as_json, templates)


@prompts.command()
@click.argument("name")
@_prompt_dir
@_json
def diff(name: str, prompt_dir: str | None, as_json: bool) -> None:
    """What your own prompt changes.

    Prints nothing when it says the same as the built-in one.
    """
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    changes = templates.diff(name)
    data = {"name": engine.known(name), "source": templates.origin(name), "diff": changes}
    _print("diff", data, changes, as_json)


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
@_json
def render(
    name: str,
    source: TextIO | None,
    previous: TextIO | None,
    target: int | None,
    depth: int | None,
    prompt_dir: str | None,
    as_json: bool,
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
    _print("render", data, f"=== system ===\n{asked.system}\n\n=== user ===\n{asked.prompt}", as_json, templates)


@prompts.command()
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("--force", is_flag=True, help="Replace files that are there already.")
@_prompt_dir
@_json
def export(directory: str | None, force: bool, prompt_dir: str | None, as_json: bool) -> None:
    """Write the built-in prompts to DIR, to start your own from."""
    target = _directory(directory or prompt_dir)
    paths = [str(path) for path in engine.export(target, force=force)]
    told = (
        f"{len(paths)} prompts written to {target}.\n"
        "Delete those you leave as they are: a file is used also when a later version brings a better prompt."
    )
    _print("export", {"directory": str(target), "files": paths}, told, as_json)


@prompts.command()
@click.argument("directory", required=False, metavar="[DIR]")
@_prompt_dir
@_json
def check(directory: str | None, prompt_dir: str | None, as_json: bool) -> None:
    """What is wrong with the prompts in DIR.

    Exits with 1 if anything is.
    """
    checked = engine.check(_directory(directory or prompt_dir))
    fine = f"{', '.join(checked.overrides) or 'No prompts'} in {checked.directory}: nothing to complain about."
    _print("check", checked, "\n".join(map(str, checked.findings)) or fine, as_json)
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


def _print(command: str, data: object, text: str, as_json: bool, templates: Templates | None = None) -> None:
    """Tell the result, and of prompts in force also which files do not serve."""
    problems = templates.problems if templates else ()
    if as_json:
        told = msgspec.to_builtins(data) | ({"problems": problems} if templates else {})
        click.echo(json.dumps({"ok": True, "command": f"prompts {command}", "data": told}))
        return
    if text:
        click.echo(_printable(text.removesuffix("\n")))
    for problem in problems:
        click.echo(_printable(problem), err=True)


def _printable(text: str) -> str:
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
