"""`lcm prune`: remove conversations that fell silent long ago, and keep an archive of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path

import click

from lossless.cli.options import Command, open_database
from lossless.cli.output import answer, print_progress
from lossless.cli.tables import Line, format_minute, format_size, format_time, plural, table, zone_heading
from lossless.model import Pruning


@click.command(cls=Command)
@click.option(
    "--before",
    required=True,
    metavar="TIME",
    help="Conversations without a message since: 90d, 12w, 6mo (of 30 days), 1y, or a date such as 2026-01-31.",
)
@click.option("--include-active", is_flag=True, help="Also conversations that are not archived.")
@click.option("--apply", is_flag=True, help="Export them and remove them; otherwise they are only listed.")
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Where they are exported to; otherwise beside the database.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Remove so many in one transaction, so that writers never wait long.",
)
@click.option("--vacuum", is_flag=True, help="Write the database anew afterwards, so that the disk has the room again.")
@click.option(
    "--without-files", is_flag=True, help="Also if payloads of theirs cannot be read and so are not exported."
)
def prune(
    before: str,
    include_active: bool,
    apply: bool,
    archive: Path | None,
    batch: int,
    vacuum: bool,
    without_files: bool,
) -> None:
    """Remove archived conversations in which nothing was said since a time, with everything that belongs to them.

    They are exported into an archive first, and `lcm import` brings them back from it. What is written to meanwhile stays;
    so does what belongs with a conversation that stays: its sub-agents'.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.prune(
            before,
            include_active=include_active,
            apply=apply,
            archive=archive,
            batch=batch,
            vacuum=vacuum,
            without_files=without_files,
            progress=lambda done, total: print_progress(f"{done:,} of {total:,}"),
        )
        zone = lcm.settings.zone
    answer(done, _lines(done, include_active, zone))


def _lines(done: Pruning, include_active: bool, zone: tzinfo) -> Iterator[Line]:
    if done.applied:
        yield from _removed(done)
        return
    if done.oldest:
        rows = [
            (f"#{each.id}", f"{each.messages:,}", format_minute(each.newest_at, zone), each.key) for each in done.oldest
        ]
        yield from table(("id", "messages", zone_heading("newest", zone), "conversation"), rows)
    if done.conversations > len(done.oldest):
        yield f"and {done.conversations - len(done.oldest):,} more"
    kind = "conversation" if include_active else "archived conversation"
    told = f"{plural(done.conversations, kind)} with {plural(done.messages, 'message')}: nothing since {format_time(done.before, zone)}."
    yield f"{told} --apply removes them." if done.conversations else told
    if done.related:
        yield f"Silent too, and kept because they belong with one that stays: {done.related:,}."
    if not include_active:
        yield "Active ones stay; --include-active takes them too."


def _removed(done: Pruning) -> Iterator[str]:
    yield (
        f"Removed {plural(done.conversations, 'conversation')} with {plural(done.messages, 'message')} and"
        f" {plural(done.files, 'file')}; {format_size(done.bytes)} freed."
    )
    if done.changed:
        yield f"{plural(done.changed, 'conversation')} changed meanwhile and stayed."
    if done.doubtful:
        yield f"{plural(done.doubtful, 'payload')} may be another database's; `lcm gc --unshared --apply` removes them."
    yield f"`lcm import {shlex.quote(str(done.archive))} --apply` brings them back."
