"""`lcm export`: conversations into a portable archive."""

from __future__ import annotations

from pathlib import Path

import click

from lossless.cli.options import Command, complete_keys, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.cli.tables import format_size, plural


@click.command(cls=Command)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    *("-c", "--conversation", "named"),
    metavar="KEY",
    multiple=True,
    shell_complete=complete_keys,
    help="Only this one; may be repeated. Otherwise all.",
)
@click.option("--replace", is_flag=True, help="Replace an existing file; never a database, a backup or a payload.")
def export(path: Path, named: tuple[str, ...], replace: bool) -> None:
    """Write conversations, their files included, into the archive PATH. `lcm import` brings them back as they are.

    A conversation comes with those that were archived under its key, and with its sub-agents'.
    """
    with open_database() as lcm:
        done = lcm.export(path, conversations=list(named) or None, replace=replace)
    told = ", ".join(
        (
            plural(done.conversations, "conversation"),
            plural(done.messages, "message"),
            plural(done.summaries, "summary", "summaries"),
            plural(done.files, "file"),
        )
    )
    answer(done, [f"{done.path}: {told} ({format_size(done.bytes)})"])
    if not is_json():
        for name in done.missing_files:
            print_note(f"lost before: {name}")
