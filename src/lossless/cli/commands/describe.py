"""`lcm describe`: what a summary, a message or a file is."""

from __future__ import annotations

import click
import msgspec

from lossless.cli.options import Command, open_database
from lossless.cli.output import answer, is_json, print_note


@click.command(cls=Command)
@click.argument("id")
@click.option("--start-line", type=click.IntRange(min=1), help="Show the text from this line on.")
@click.option("--end-line", type=click.IntRange(min=1), help="Show the text up to this line.")
@click.option("--offset", type=click.IntRange(min=0), help="Show the text from this byte on.")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), help="Show no more of the text, and mark branches that cost more."
)
def describe(id: str, start_line: int | None, end_line: int | None, offset: int | None, max_tokens: int | None) -> None:
    """Show the summary, message (msg#...) or file ID, and what lies below it. Reads only."""
    with open_database() as lcm:
        found = lcm.describe(id, start_line=start_line, end_line=end_line, offset=offset, max_tokens=max_tokens)
    answer({**msgspec.to_builtins(found), "text": found.text}, [found.text])
    page = found.page
    if page is not None and page.next_offset is not None and not is_json():
        following = f"--offset {page.next_offset}" if page.next_line is None else f"--start-line {page.next_line}"
        print_note(f"More: {following}")
