"""`lcm merge`: one history again out of conversations that a rollover split."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from lossless.cli.options import Command, apply_option, complete_keys, open_database
from lossless.cli.output import answer
from lossless.model import Outcome


@click.command(cls=Command)
@click.argument("key", shell_complete=complete_keys)
@apply_option()
def merge(key: str, apply: bool) -> None:
    """Put what earlier conversations under KEY tell before the active one, where a rollover split them.

    Exits with 1 when that needs a person's review. Deliberate resets are left as they are.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.merge(key, apply=apply)
    answer(done, _lines(key, done), ok=not done.plan.review)
    if done.plan.review:
        sys.exit(1)


def _lines(key: str, done: Outcome) -> Iterator[str]:
    plan = done.plan
    if plan.review:
        yield f"{key} needs review:"
        yield from (f"  {each}" for each in plan.review)
        yield "Nothing was changed."
        return
    change = plan.tokens_after - plan.tokens_before
    if not change:
        yield f"{key}: there is nothing to merge."
        return
    yield f"{key}: {change:+,} tokens in context ({plan.tokens_before:,} → {plan.tokens_after:,})"
    if done.operation:
        yield f"Done as {done.operation}; `lcm undo {done.operation}` takes it back."
    else:
        yield "Nothing was written; --apply does it."
