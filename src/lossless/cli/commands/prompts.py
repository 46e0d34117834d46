"""`lcm prompts`: list, show, check and export the prompts for summaries."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click
import msgspec

from lossless import Settings, config
from lossless.cli.options import Command, Group, Plain, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.engine.compaction import prompts as engine
from lossless.engine.compaction.prompts import Templates
from lossless.errors import InvalidInput

_prompt_dir = click.option("--prompt-dir", metavar="DIR", help="Directory of your prompts (default: `prompt_dir`).")
_text = click.File(encoding="utf-8", errors="replace")


class _Prompts(Group):
    command_class = Plain


@click.group(cls=_Prompts, examples=("lcm prompts", "lcm prompts show leaf"))
def prompts() -> None:
    """List, show, check and export the prompts for summaries.

    They are system, leaf, condensed-d1, condensed-d2 and condensed-d3; all but system also have a stricter form such as
    leaf-aggressive. Case and the suffix .txt do not matter in a NAME. Your own prompts are files in --prompt-dir, else
    in `prompt_dir` of the settings; a note names files that cannot be used (with --json, `problems`).
    """


@prompts.command("list", examples=("lcm prompts list", "lcm prompts list --prompt-dir prompts"))
@_prompt_dir
def list_(prompt_dir: str | None) -> None:
    """List the prompts and the source of each."""
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    origins = [(name, templates.origin(name)) for name in templates.names()]
    data = {"version": templates.version, "prompts": [{"name": name, "source": origin} for name, origin in origins]}
    _print(data, "\n".join(f"{name:<25}{origin}" for name, origin in origins), templates)


@prompts.command(examples=("lcm prompts show leaf", "lcm prompts show condensed-d1 --json"))
@click.argument("name")
@_prompt_dir
def show(name: str, prompt_dir: str | None) -> None:
    """Print the template of the prompt NAME."""
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    text = templates.source(name)
    data = {"name": engine.known(name), "source": templates.origin(name), "text": text}
    _print(data, text, templates)


@prompts.command(examples=("lcm prompts diff leaf --prompt-dir prompts", "lcm prompts diff leaf --json"))
@click.argument("name")
@_prompt_dir
def diff(name: str, prompt_dir: str | None) -> None:
    """Compare your prompt NAME with the built-in one.

    Prints nothing if they are equal. Exits with 3 if you have none.
    """
    templates = Templates.load(_settings(prompt_dir).prompt_dir)
    changes = templates.diff(name)
    data = {"name": engine.known(name), "source": templates.origin(name), "diff": changes}
    _print(data, changes)


@prompts.command(
    cls=Command,
    examples=(
        "lcm prompts render leaf --source notes.txt --target 300",
        "lcm prompts render --summary sum_0123456789abcdef",
    ),
)
@click.argument("name", required=False)
@click.option("--summary", metavar="ID", help="The request of this summary, with its sources as they are now.")
@click.option("--source", type=_text, metavar="FILE", help="Text to summarise (-: standard input).")
@click.option("--previous", type=_text, metavar="FILE", help="Previous summaries; used up to depth 1.")
@click.option("--target", type=click.IntRange(min=1), metavar="N", help="Target tokens (default: as in compaction).")
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    metavar="N",
    help="Depth of the summary, for a prompt of several depths.",
)
@_prompt_dir
def render(
    name: str | None,
    summary: str | None,
    source: TextIO | None,
    previous: TextIO | None,
    target: int | None,
    depth: int | None,
    prompt_dir: str | None,
) -> None:
    """Print the request of the prompt NAME or of a summary, as a model gets it.

    The text to summarise is a short example, that of --source, or the sources of --summary. Only --prompt-dir
    can be combined with --summary.
    """
    settings = _settings(prompt_dir)
    templates = Templates.load(settings.prompt_dir)
    if summary is not None:
        if (name, source, previous, target, depth) != (None,) * 5:
            raise click.UsageError("--summary takes no NAME, --source, --previous, --target or --depth.")
        with open_database() as lcm:
            request = lcm.summaries.request(summary, prompt_dir=prompt_dir)
        name = engine.template_name(request.depth, aggressive=request.aggressive)
    elif name is None:
        raise click.UsageError("Give the NAME of a prompt, or --summary ID.")
    else:
        request = engine.preview(
            name,
            settings,
            source=_read(source),
            previous=_read(previous),
            target_tokens=target,
            depth=depth,
            templates=templates,
        )
    data = {"name": engine.known(name), "depth": request.depth, "target_tokens": request.target_tokens}
    data |= {"system": request.system, "prompt": request.prompt}
    _print(data, f"=== system ===\n{request.system}\n\n=== user ===\n{request.prompt}", templates)


@prompts.command(examples=("lcm prompts export prompts", "lcm prompts export prompts --force"))
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@_prompt_dir
def export(directory: str | None, force: bool, prompt_dir: str | None) -> None:
    """Write the built-in prompts to DIR, as a start for your own.

    If one of the files exists, none is written without --force.
    """
    target = _directory(directory or prompt_dir)
    paths = [str(path) for path in engine.export(target, force=force)]
    text = (
        f"{len(paths)} prompts written to {target}.\n"
        "Delete the ones you do not change: a file also replaces a better prompt of a later version."
    )
    _print({"directory": str(target), "files": paths}, text)


@prompts.command(examples=("lcm prompts check prompts", "lcm prompts check prompts --json"))
@click.argument("directory", required=False, metavar="[DIR]")
@_prompt_dir
def check(directory: str | None, prompt_dir: str | None) -> None:
    """Check the prompts in DIR.

    Reports syntax errors with their line; unknown variables, filters and constructs; a prompt that does not show its
    conversation_segment or does not ask for the last line `Expand for details about: ...`; unreadable files; and names
    that match no prompt. Hidden files and directories are skipped. In JSON, `serves` is true if the file is used all
    the same. Exits with 1 if there is a problem.
    """
    checked = engine.check_directory(_directory(directory or prompt_dir))
    fine = f"{', '.join(checked.overrides) or 'No prompts'} in {checked.directory}: no problems."
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
        raise InvalidInput("No directory of prompts is given.", hint="Name one, or set prompt_dir.")
    return Path(found)


def _print(data: object, text: str, templates: Templates | None = None) -> None:
    """Print the result, and notes about files of prompts that cannot be used."""
    problems = templates.problems if templates else ()
    value = msgspec.to_builtins(data) | ({"problems": problems} if templates else {})
    answer(value, [text.removesuffix("\n")] if text else [])
    if not is_json():
        for problem in problems:
            print_note(problem)
