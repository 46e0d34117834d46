"""`lcm repair`: make anew what something is wrong with."""

from __future__ import annotations

from typing import Any

import click

from lossless import Lossless
from lossless.cli.choose import choose
from lossless.cli.rewrite import Telling, remaking_options
from lossless.engine.surgery.marks import KINDS


@click.command()
@click.argument("conversation", required=False, metavar="[CONVERSATION]")
@click.option("--all", "everything", is_flag=True, help="Every conversation, archived ones included.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only what this is wrong with; may be repeated."
)
@remaking_options
def repair(
    conversation: str | None,
    everything: bool,
    kinds: tuple[str, ...],
    db: str | None,
    resume: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Make anew the summaries of CONVERSATION that no model wrote, that were cut, or that their sources do not bear out.

    What was made from them follows. Nothing is written without --apply.
    """
    with Lossless.open(db) as lcm, Telling("repair", as_json, given) as how:
        if resume is not None:
            how.told(lcm.resume(resume, **how.resuming))
        elif everything:
            how.told(*lcm.repair(kinds or KINDS, **how.options))
        else:
            how.told(choose(lcm, conversation).repair(kinds or KINDS, **how.options))
