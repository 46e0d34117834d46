"""`lcm backfill`: import a history and compact all of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.decorators import FC

from lossless import Settings, config
from lossless.cli.commands.imports import open_for_import
from lossless.cli.commands.surgery import transplant_lines
from lossless.cli.options import Command, apply_option, model_option, named_database
from lossless.cli.output import DRY_RUN, Stopped, answer, print_note
from lossless.cli.tables import plural
from lossless.model import Backfill

_TAIL = 32
_CONTINUE = "What was written stays; the same command continues."
_SIZES = ("leaf_chunk_tokens", "leaf_target_tokens", "condensed_target_tokens")


def _size(name: str, default: int, about: str, least: int = 1) -> Callable[[FC], FC]:
    return click.option(
        name, type=click.IntRange(min=least), default=default, show_default=True, metavar="N", help=about
    )


@click.command(cls=Command, examples=("lcm backfill session.jsonl", "lcm backfill ~/sessions --single-root --apply"))
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@apply_option()
@click.option("--recompact", is_flag=True, help="Import nothing; compact stored conversations.")
@click.option("--single-root", is_flag=True, help="Compact until one summary covers everything.")
@click.option("--transplant-to", metavar="KEY", help="Then copy the result to the beginning of this conversation.")
@click.option("--title", metavar="TEXT", help="Title of the conversation.")
@click.option("--key", metavar="KEY", help="Conversation (default: named by the transcript).")
@_size("--leaf-chunk-tokens", 20_000, "Most message tokens per leaf.")
@_size("--leaf-target-tokens", 1_200, "Target length of a leaf.")
@_size("--condensed-target-tokens", 2_000, "Target length of a condensed summary.")
@_size("--leaf-fanout", 8, "Leaves per condensed summary.", 2)
@_size("--condensed-fanout", 4, "Condensed summaries per deeper one.", 2)
@_size("--hard-fanout", 2, "Summaries per step towards a single root.", 2)
@click.option(
    "--fresh-tail",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Newest messages to leave as they are.  [default: {_TAIL}]",
)
@click.option("--prompt-dir", metavar="DIR", help="Directory of prompts (default: `prompt_dir`).")
@model_option
def backfill(
    paths: tuple[Path, ...],
    apply: bool,
    single_root: bool,
    fresh_tail: int | None,
    model: str | None,
    **given: Any,
) -> None:
    """Import the transcripts PATH (files or directories) and compact each conversation to its end.

    Stored messages are not imported again, and an interrupted run continues: run the same command as often as needed.
    Exits with 1 if a file could not be read or a model failed; what was written stays.
    """
    if single_root and fresh_tail:
        raise click.BadOptionUsage("fresh_tail", "--fresh-tail: a single root has no tail. Give 0, or omit it.")
    tail = (0 if single_root else _TAIL) if fresh_tail is None else fresh_tail
    settings = _settings(given)
    verb = {name: given[name] for name in ("recompact", "transplant_to", "title", "key")}
    try:
        with open_for_import(settings.database, apply, settings=settings, summarizer=model) as lcm:
            done = lcm.backfill(paths, apply=apply, single_root=single_root, tail=tail, progress=_progress, **verb)
    except KeyboardInterrupt:
        raise Stopped(_CONTINUE) from None
    failed = any(each.failure for each in done)
    answer({"conversations": done}, (line for each in done for line in _lines(each, apply)), ok=not failed)
    sys.exit(1 if failed else 0)


def _settings(given: dict[str, Any]) -> Settings:
    named = {name: given[name] for name in _SIZES}
    fanouts = {
        "leaf_min_fanout": given["leaf_fanout"],
        "condensed_min_fanout": given["condensed_fanout"],
        "condensed_min_fanout_hard": given["hard_fanout"],
    }
    return config.load({"database_path": named_database(), "prompt_dir": given["prompt_dir"], **named, **fanouts})


def _progress(key: str, made: int, about: int) -> None:
    print_note(f"{key}: {made:,} of about {plural(about, 'summary', 'summaries')}")


def _lines(done: Backfill, apply: bool) -> Iterator[str]:
    what = done.key or ", ".join(done.paths)
    if done.failure and not done.applied:
        yield f"{what}: {done.failure}"
        return
    yield f"{what}: {plural(done.imported, 'message')} {'imported' if apply else 'to import'}, {done.known:,} stored before"
    if done.applied:
        made = plural(len(done.made), "summary", "summaries")
        yield f"{made} made: {done.tokens_before:,} -> {done.tokens_after:,} tokens in the context"
        yield f"remaining: {plural(done.summaries_left, 'summary', 'summaries')}, {plural(done.messages_left, 'message')}"
    else:
        yield from _expected(done)
    if done.transplant:
        yield from transplant_lines(done.transplant)
    if done.failure:
        yield f"{done.failure} {_CONTINUE}"
    if not apply and not done.transplant:
        yield DRY_RUN


def _expected(done: Backfill) -> Iterator[str]:
    plan = done.expected
    cost = "without a model" if done.model == "extractive" else f"by {done.model}"
    calls = plural(plan.calls, "summary", "summaries")
    yield f"about {calls}: {plan.tokens_read:,} tokens to read, {plan.tokens_written:,} to write ({cost})"
    yield f"{done.tokens_before:,} -> about {plan.tokens_left:,} tokens in the context"
