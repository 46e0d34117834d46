"""`lcm repair`: make anew what something is wrong with."""

from __future__ import annotations

from typing import Any

import click

from lossless.cli.commands.rewrite import Reporter, rewrite_options
from lossless.cli.options import Command, choose_conversation, conversation_option, open_database
from lossless.engine.shared.defaults import FLAW_KINDS


@click.command(cls=Command)
@conversation_option()
@click.option("--all", "everything", is_flag=True, help="Every conversation, archived ones included.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(FLAW_KINDS),
    help="Only what this is wrong with; may be repeated.",
)
@rewrite_options
def repair(everything: bool, kinds: tuple[str, ...], resume: str | None, **given: Any) -> None:
    """Make anew the summaries that no model wrote, that were cut, or that their sources do not bear out.

    What was made from them follows. Nothing is written without --apply. Exits with 1 if it ended early, with 130 if it was
    interrupted; what was written by then stays.
    """
    with open_database(read_only=given["plan_only"]) as lcm, Reporter("repair", given) as how:
        if resume is not None:
            how.finish(lcm.resume(resume, **how.resuming))
        elif everything:
            how.finish(*lcm.repair(kinds or FLAW_KINDS, **how.options), all=True)
        else:
            how.finish(choose_conversation(lcm, writes=True).repair(kinds or FLAW_KINDS, **how.options))
