"""`lcm expand`: climb down from a summary to its sources, to the exact words."""

from __future__ import annotations

import click
import msgspec

from lossless.cli.options import Command, cursor_option, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.engine.recall.expand import Strategy
from lossless.model import Expansion


@click.command(cls=Command)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
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
@cursor_option
def expand(
    ids: tuple[str, ...], max_tokens: int | None, depth: int, messages: bool, strategy: Strategy, cursor: str | None
) -> None:
    """Show what the summary ID was made from, or all of the message ID. Reads only."""
    with open_database() as lcm:
        found = lcm.expand(ids, max_tokens, depth=depth, include_messages=messages, strategy=strategy, cursor=cursor)
    answer({**msgspec.to_builtins(found), "text": found.text}, [found.text])
    if not is_json():
        _remarks(found)


def _remarks(found: Expansion) -> None:
    for each in found.closed:
        print_note(f"{each} is a leaf: --messages shows what it was made from.")
    for skipped in found.skipped:
        print_note(f"left out: {skipped.id}, {skipped.tokens:,} tokens")
    if found.next:
        print_note(f"More: --cursor {found.next}")
