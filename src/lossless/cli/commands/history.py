"""`lcm history` and `lcm undo`: what was done to old data, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.options import Command, conversation_option, limit_option, named_conversation, open_database
from lossless.cli.output import answer
from lossless.cli.tables import escape_name
from lossless.model import Operation


@click.command(cls=Command)
@conversation_option(otherwise="all of them")
@limit_option(10_000, default=50)
def history(limit: int) -> None:
    """List what was done to contexts and summaries, the newest first: compactions, /new, /reset, rewrites, repairs. Reads only."""
    with open_database() as lcm:
        found = lcm.history(named_conversation(), limit)
    answer({"operations": found}, _lines(found))


def _lines(found: list[Operation]) -> Iterator[str]:
    for each in found:
        yield f"{each.id}  {each.at:%Y-%m-%d %H:%M} UTC  {each.status:<8} {escape_name(str(each.conversation))}: {escape_name(each.summary)}"
    if not found:
        yield "No operations yet."


@click.command(cls=Command)
@click.argument("operation", metavar="OP")
def undo(operation: str) -> None:
    """Undo the operation OP. What came since stays; if something later builds on it, nothing is changed."""
    with open_database(read_only=False) as lcm:
        done = lcm.undo(operation)
    answer(done, [f"{done.id} undone: {done.summary}"])
