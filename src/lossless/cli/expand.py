"""`lcm expand`: climb down from a summary to its sources, to the exact words."""

from __future__ import annotations

import json

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe
from lossless.engine.expand import Strategy


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="How much to show; otherwise what the settings say.")
@click.option("--depth", type=click.IntRange(min=1), default=1, show_default=True, help="How many steps down.")
@click.option("--messages/--no-messages", default=True, help="With the messages below leaves, or without.")
@click.option(
    "--strategy",
    type=click.Choice(["order", "fit"]),
    default="order",
    show_default=True,
    help="At what does not fit: stop, or go on without it.",
)
@click.option("--cursor", help="Go on where the page before ended.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def expand(
    ids: tuple[str, ...],
    db: str | None,
    max_tokens: int | None,
    depth: int,
    messages: bool,
    strategy: Strategy,
    cursor: str | None,
    as_json: bool,
) -> None:
    """Show what the summary ID was made from, or all of the message ID. Reads only."""
    with Lossless.open(db, read_only=True) as lcm:
        found = lcm.expand(ids, max_tokens, depth=depth, include_messages=messages, strategy=strategy, cursor=cursor)
    if as_json:
        data = {**msgspec.to_builtins(found), "text": found.text}
        click.echo(json.dumps({"ok": True, "command": "expand", "data": data}))
        return
    click.echo(safe(found.text))
    for each in found.closed:
        click.echo(f"{each} is a leaf: --messages shows what it was made from.", err=True)
    for skipped in found.skipped:
        click.echo(f"left out: {skipped.id}, {skipped.tokens:,} tokens", err=True)
    if found.next:
        click.echo(f"more: --cursor {found.next}", err=True)
