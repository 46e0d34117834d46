"""`lcm describe`: what a summary, a message or a file is."""

from __future__ import annotations

import click
import msgspec

from lossless.cli.frame import Command, answer, opened


@click.command(cls=Command)
@click.argument("id")
@click.option("--start-line", type=click.IntRange(min=1), help="Show a file from this line on.")
@click.option("--end-line", type=click.IntRange(min=1), help="Show a file up to this line.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Mark the branches that cost more.")
def describe(id: str, start_line: int | None, end_line: int | None, max_tokens: int | None) -> None:
    """Show the summary, message (msg#...) or file ID, and what lies below it. Reads only."""
    with opened() as lcm:
        found = lcm.describe(id, start_line=start_line, end_line=end_line, max_tokens=max_tokens)
    answer({**msgspec.to_builtins(found), "text": found.text}, [found.text])
