"""`lcm describe`: what a summary, a message or a file is."""

from __future__ import annotations

import json

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe


@click.command()
@click.argument("id")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--start-line", type=click.IntRange(min=1), help="Show a file from this line on.")
@click.option("--end-line", type=click.IntRange(min=1), help="Show a file up to this line.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Mark the branches that cost more.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(
    id: str, db: str | None, start_line: int | None, end_line: int | None, max_tokens: int | None, as_json: bool
) -> None:
    """Show the summary, message (msg#...) or file ID, and what lies below it. Reads only."""
    with Lossless.open(db, read_only=True) as lcm:
        found = lcm.describe(id, start_line=start_line, end_line=end_line, max_tokens=max_tokens)
    if as_json:
        data = {**msgspec.to_builtins(found), "text": found.text}
        click.echo(json.dumps({"ok": True, "command": "describe", "data": data}))
    else:
        click.echo(safe(found.text))
