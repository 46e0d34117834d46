"""`lcm history` and `lcm undo`: what was done to old data, and the way back."""

from __future__ import annotations

import json

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe


@click.command()
@click.argument("conversation", required=False, metavar="[CONVERSATION]")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def history(conversation: str | None, db: str | None, limit: int, as_json: bool) -> None:
    """What was rewritten, repaired, dissolved or merged, in all conversations or in one. Reads only."""
    with Lossless.open(db, read_only=True) as lcm:
        found = lcm.history(conversation, limit)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "history", "data": msgspec.to_builtins(found)}))
        return
    for each in found:
        click.echo(
            safe(f"{each.id}  {each.at:%Y-%m-%d %H:%M} UTC  {each.status:<8} {each.conversation}: {each.summary}")
        )
    if not found:
        click.echo("Nothing was done to old data yet.")


@click.command()
@click.argument("operation", metavar="OP")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def undo(operation: str, db: str | None, as_json: bool) -> None:
    """Take the operation OP back: every row it touched is as it was before, or nothing is changed."""
    with Lossless.open(db) as lcm:
        done = lcm.undo(operation)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "undo", "data": msgspec.to_builtins(done)}))
    else:
        click.echo(safe(f"{done.id} undone: {done.summary}"))
