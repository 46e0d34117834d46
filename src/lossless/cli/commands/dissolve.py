"""`lcm dissolve`: let a condensed summary give way to its sources."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.options import Command, apply_option, open_database
from lossless.cli.output import answer
from lossless.cli.tables import plural, shorten
from lossless.model import Outcome


@click.command(cls=Command)
@click.argument("summary", metavar="ID")
@apply_option()
@click.option(
    "--purge", is_flag=True, help="Remove the summary too, if nothing was made from it; `lcm undo` brings it back."
)
def dissolve(summary: str, apply: bool, purge: bool) -> None:
    """Put the sources of the summary ID in its place in the context. `lcm undo` takes it back."""
    with open_database(read_only=not apply) as lcm:
        done = lcm.find(summary).dissolve(summary, apply=apply, purge=purge)
    answer(done, _lines(summary, done))


def _lines(summary: str, done: Outcome) -> Iterator[str]:
    plan = done.plan
    change = plan.tokens_after - plan.tokens_before
    yield f"{summary} gives way to {plural(len(plan.steps), 'source')}:"
    for step in plan.steps:
        yield f"  {step.id} d{step.depth} {step.tokens:>7,}  {shorten(step.old, 80)}"
    yield f"context: {change:+,} tokens ({plan.tokens_before:,} → {plan.tokens_after:,})"
    yield from (f"in the way of a purge: {each}" for each in plan.review)
    if done.operation:
        yield f"Done as {done.operation}; `lcm undo {done.operation}` takes it back."
    else:
        yield "Nothing was written; --apply does it."
