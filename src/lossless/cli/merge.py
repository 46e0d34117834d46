"""`lcm merge`: one history again out of conversations that a rollover split."""

from __future__ import annotations

import json
import sys

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe
from lossless.model import Applied


@click.command()
@click.argument("key")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--apply", is_flag=True, help="Do it; otherwise it is only told.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def merge(key: str, db: str | None, apply: bool, as_json: bool) -> None:
    """Put what earlier conversations under KEY tell before the active one, where a rollover split them.

    Exits with 1 when that needs a person's review. Deliberate resets are left as they are.
    """
    with Lossless.open(db) as lcm:
        done = lcm.merge(key, apply=apply)
    if as_json:
        told = {"ok": not done.plan.review, "command": "merge", "data": msgspec.to_builtins(done)}
        click.echo(json.dumps(told))
    else:
        click.echo(safe("\n".join(_lines(key, done))))
    if done.plan.review:
        sys.exit(1)


def _lines(key: str, done: Applied) -> list[str]:
    plan = done.plan
    if plan.review:
        return [f"{key} needs review:", *(f"  {each}" for each in plan.review), "Nothing was changed."]
    change = plan.tokens_after - plan.tokens_before
    lines = [f"{key}: {change:+,} tokens in context ({plan.tokens_before:,} → {plan.tokens_after:,})"]
    if done.operation:
        return [*lines, f"Done as {done.operation}; `lcm undo {done.operation}` takes it back."]
    return [*lines, "Nothing was written; --apply does it." if change else "There is nothing to merge."]
