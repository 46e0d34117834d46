"""`lcm export`: conversations into a portable archive."""

from __future__ import annotations

import json
from pathlib import Path

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-c", "--conversation", "keys", metavar="KEY", multiple=True, help="Only this one; may be repeated.")
@click.option("--replace", is_flag=True, help="Replace the file if it is there already.")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def export(path: Path, keys: tuple[str, ...], replace: bool, db: str | None, as_json: bool) -> None:
    """Write conversations, their files included, into the archive PATH. `lcm import` brings them back as they are.

    A conversation comes with those that were archived under its key, and with its sub-agents'.
    """
    with Lossless.open(db, read_only=True) as lcm:
        done = lcm.export(path, conversations=keys or None, replace=replace)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "export", "data": msgspec.to_builtins(done)}))
        return
    for name in done.missing_files:
        click.echo(f"lost before: {name}", err=True)
    click.echo(
        safe(
            f"{done.path}: {done.conversations:,} conversations, {done.messages:,} messages, {done.summaries:,} summaries,"
            f" {done.files:,} files ({done.bytes / 1e6:.1f} MB)"
        )
    )
