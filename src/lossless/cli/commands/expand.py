"""`lcm expand`: show the sources of a summary, down to the exact words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

import click
import msgspec

from lossless.cli.options import Command, cursor_option, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.cli.tables import Line, Styled, format_time
from lossless.engine.recall.expand import Strategy
from lossless.model import Excerpt, Expansion


@click.command(
    cls=Command, examples=("lcm expand sum_0123456789abcdef", "lcm expand sum_0123456789abcdef --depth 3 --no-messages")
)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), help="Show at most so many tokens (default: `max_expand_tokens`)."
)
@click.option("--depth", type=click.IntRange(min=1), default=1, show_default=True, help="Levels of sources to show.")
@click.option(
    "--messages/--no-messages", default=True, help="Include the messages below leaf summaries (default), or not."
)
@click.option(
    "--strategy",
    type=click.Choice(["order", "fit"]),
    default="order",
    show_default=True,
    help="At a source that is too long: stop (order), or skip it (fit).",
)
@cursor_option
def expand(
    ids: tuple[str, ...], max_tokens: int | None, depth: int, messages: bool, strategy: Strategy, cursor: str | None
) -> None:
    """Show the sources of the summary ID, or the whole message ID. Reads only."""
    with open_database() as lcm:
        found = lcm.expand(ids, max_tokens, depth=depth, include_messages=messages, strategy=strategy, cursor=cursor)
        zone = lcm.settings.zone
    answer({**msgspec.to_builtins(found), "text": found.text}, _lines(found, zone))
    if not is_json():
        _print_notes(found)


def _lines(found: Expansion, zone: tzinfo) -> Iterator[Line]:
    for number, item in enumerate(found.items):
        if number:
            yield ""
        yield Styled(_heading(item, zone), "cyan")
        yield item.text


def _heading(item: Excerpt, zone: tzinfo) -> str:
    who = item.role if item.kind == "message" else f"summary, depth {item.depth}"
    return "  ".join(filter(None, (item.id, who, format_time(item.at, zone) if item.at else "")))


def _print_notes(found: Expansion) -> None:
    for each in found.closed:
        print_note(f"{each} is a leaf: --messages shows its messages.")
    for skipped in found.skipped:
        print_note(f"Skipped: {skipped.id}, {skipped.tokens:,} tokens")
    if found.next:
        print_note(f"More: --cursor {found.next}")
