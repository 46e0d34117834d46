"""`lcm dissolve`: let a condensed summary give way to its sources."""

from __future__ import annotations

import json

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe
from lossless.model import Applied


@click.command()
@click.argument("summary", metavar="ID")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--apply", is_flag=True, help="Do it; otherwise it is only told.")
@click.option("--purge", is_flag=True, help="Remove the summary for good, if nothing was made from it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def dissolve(summary: str, db: str | None, apply: bool, purge: bool, as_json: bool) -> None:
    """Put the sources of the summary ID in its place in the context."""
    with Lossless.open(db) as lcm:
        done = lcm.holding(summary).dissolve(summary, apply=apply, purge=purge)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "dissolve", "data": msgspec.to_builtins(done)}))
    else:
        click.echo(safe("\n".join(_lines(summary, done))))


def _lines(summary: str, done: Applied) -> list[str]:
    plan = done.plan
    change = plan.tokens_after - plan.tokens_before
    lines = [f"{summary} gives way to {len(plan.steps):,} sources:"]
    lines += [f"  {step.id} d{step.depth} {step.tokens:>7,}  {' '.join(step.old.split())[:80]}" for step in plan.steps]
    lines.append(f"context: {change:+,} tokens ({plan.tokens_before:,} → {plan.tokens_after:,})")
    lines += [f"in the way of a purge: {each}" for each in plan.review]
    if done.operation:
        return [*lines, f"Done as {done.operation}; `lcm undo {done.operation}` takes it back."]
    return [*lines, "Nothing was written; --apply does it."]
