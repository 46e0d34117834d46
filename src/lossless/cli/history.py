"""`lcm history` and `lcm undo`: what was done to old data, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.frame import Command, answer, conversation, named_conversation, opened
from lossless.cli.tables import flat
from lossless.model import Operation


@click.command(cls=Command)
@conversation(otherwise="all of them")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many, the newest first."
)
def history(limit: int) -> None:
    """List what was done to contexts and summaries, the newest first: compactions, /new, /reset, rewrites, repairs. Reads only."""
    with opened() as lcm:
        found = lcm.history(named_conversation(), limit)
    answer(found, _lines(found))


def _lines(found: list[Operation]) -> Iterator[str]:
    for each in found:
        yield f"{each.id}  {each.at:%Y-%m-%d %H:%M} UTC  {each.status:<8} {flat(str(each.conversation))}: {flat(each.summary)}"
    if not found:
        yield "No operations yet."


@click.command(cls=Command)
@click.argument("operation", metavar="OP")
def undo(operation: str) -> None:
    """Undo the operation OP. What came since stays; if something later builds on it, nothing is changed."""
    with opened(read_only=False) as lcm:
        done = lcm.undo(operation)
    answer(done, [f"{done.id} undone: {done.summary}"])
