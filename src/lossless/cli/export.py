"""`lcm export`: conversations into a portable archive."""

from __future__ import annotations

from pathlib import Path

import click

from lossless.cli.frame import Command, answer, is_json, keys, opened, remark
from lossless.cli.tables import many, size


@click.command(cls=Command)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    *("-c", "--conversation", "named"),
    metavar="KEY",
    multiple=True,
    shell_complete=keys,
    help="Only this one; may be repeated. Otherwise all.",
)
@click.option("--replace", is_flag=True, help="Replace an existing file; never a database, a backup or a payload.")
def export(path: Path, named: tuple[str, ...], replace: bool) -> None:
    """Write conversations, their files included, into the archive PATH. `lcm import` brings them back as they are.

    A conversation comes with those that were archived under its key, and with its sub-agents'.
    """
    with opened() as lcm:
        done = lcm.export(path, conversations=list(named) or None, replace=replace)
    told = ", ".join(
        (
            many(done.conversations, "conversation"),
            many(done.messages, "message"),
            many(done.summaries, "summary", "summaries"),
            many(done.files, "file"),
        )
    )
    answer(done, [f"{done.path}: {told} ({size(done.bytes)})"])
    if not is_json():
        for name in done.missing_files:
            remark(f"lost before: {name}")
