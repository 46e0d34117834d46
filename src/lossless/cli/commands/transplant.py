"""`lcm transplant`: the history of one conversation, copied before everything in another."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from lossless.cli.options import Command, apply_option, complete_keys, open_database
from lossless.cli.output import answer
from lossless.model import Transplant

_SOME = 5


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE", shell_complete=complete_keys)
@click.argument("target", metavar="TARGET", shell_complete=complete_keys)
@apply_option()
@click.option("--dedupe", is_flag=True, help="Leave out what stands in TARGET already; otherwise that is refused.")
def transplant(source: str, target: str, apply: bool, dedupe: bool) -> None:
    """Copy the summaries in the context of SOURCE, and everything beneath them, before all that TARGET holds.

    Both are keys of conversations, or ids, as `#12`, which also reach archived ones. Nothing of SOURCE changes.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.transplant(source, target, apply=apply, dedupe=dedupe)
    answer({**msgspec.to_builtins(done, str_keys=True), "summaries": done.summaries}, transplant_lines(done))


def transplant_lines(done: Transplant) -> Iterator[str]:
    """A transplant, as a person reads it."""
    depths = ", ".join(f"{count:,} of depth {depth}" for depth, count in done.depths.items())
    yield f"from {done.source} ({done.source_tokens:,} tokens) before {done.target} ({done.target_tokens:,} tokens)"
    yield f"{done.summaries:,} summaries{f' ({depths})' if depths else ''}, {done.messages:,} messages below them"
    yield f"{done.tokens:,} tokens more in the context of {done.target}"
    if done.uncovered:
        yield f"{done.uncovered:,} messages that no summary covers stay behind"
    if done.duplicates:
        more = len(done.duplicates) - _SOME
        named = ", ".join(done.duplicates[:_SOME]) + (f" and {more:,} more" if more > 0 else "")
        what = f"{done.skipped:,} of its context are left out" if done.skipped else "--dedupe leaves out what is there"
        yield f"in {done.target} already: {named}; {what}"
    yield "Done." if done.applied else "Nothing was written; --apply does it."
