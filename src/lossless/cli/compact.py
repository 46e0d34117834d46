"""`lcm compact`: put summaries in the place of old runs now."""

from __future__ import annotations

import sys

import click

from lossless.cli.choose import choose
from lossless.cli.frame import Command, answer, conversation, opened
from lossless.cli.tables import many

WINDOW = 128_000
_REACHED = ("compacted", "below threshold", "nothing to compact", "disabled", "stateless session")


@click.command(cls=Command)
@conversation()
@click.option(
    "--window", type=click.IntRange(min=1), default=WINDOW, show_default=True, help="The model's window, in tokens."
)
@click.option("--target", type=click.IntRange(min=1), help="Compact until the context is below so many tokens.")
@click.option("--force", is_flag=True, help="Also below the threshold.")
@click.option(
    "--model", metavar="NAME", help='"provider/model", "command:..." or "extractive"; otherwise what the settings say.'
)
def compact(window: int, target: int | None, force: bool, model: str | None) -> None:
    """Summarise what is old in a conversation, as far as it is worth it. Nothing is lost by it.

    Exits with 1 if it ended before its goal: nothing left to summarise, no model, a limit on calls or time.
    """
    with opened(read_only=False, summarizer=model) as lcm:
        done = choose(lcm).compact(window, force=force, target=target, whole=True)
    made = many(len(done.summaries), "summary", "summaries")
    lines = [f"{done.stop}: {done.tokens_before:,} -> {done.tokens_after:,} tokens, {made} made"]
    if done.without_model and done.summaries:
        lines.append(f"Without the model ({done.without_model}): they are re-made once it answers.")
    answer(done, lines)
    sys.exit(0 if done.stop in _REACHED and not done.without_model else 1)
