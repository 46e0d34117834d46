"""`lcm forget`: take words away for good, and show first what would go."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.options import Command, complete_keys, open_database
from lossless.cli.output import answer
from lossless.cli.tables import Line, Styled, escape_name, plural
from lossless.errors import InvalidInput
from lossless.model import Forgotten


@click.command(cls=Command)
@click.argument("conversation", shell_complete=complete_keys)
@click.argument("messages", metavar="[MESSAGE[..MESSAGE]]", required=False)
@click.option(
    "--all", "whole", is_flag=True, help="Everything ever said under the key, or in the conversation with the number."
)
@click.option("--apply", is_flag=True, help="Do it. There is no way back.")
@click.option(
    "--backups", is_flag=True, help="Remove the copies of the database that were kept before it was changed, too."
)
@click.option(
    "--unshared",
    is_flag=True,
    help="No other database keeps payloads in the same directory; needed where that is not named after the database.",
)
def forget(conversation: str, messages: str | None, whole: bool, apply: bool, backups: bool, unshared: bool) -> None:
    """Forget a MESSAGE (msg#...) of the conversation CONVERSATION, or all from one to another, or --all of it.

    Their words leave messages, summaries, the search index, vectors, files, and the database's own pages and logs. Without
    --apply nothing is changed. What was forgotten cannot be brought back.
    """
    if whole == (messages is not None):
        raise InvalidInput("Say which messages, or --all.", hint="lcm forget KEY msg#1000000007..msg#1000000009")
    with open_database(read_only=not apply) as lcm:
        if messages is None:
            done = lcm.forget(conversation, apply=apply, backups=backups, unshared=unshared)
        else:
            first, _, last = messages.partition("..")
            done = lcm.find(conversation).forget(
                first, until=last or None, apply=apply, backups=backups, unshared=unshared
            )
    answer(done, _lines(done))


def _lines(done: Forgotten) -> Iterator[Line]:
    yield (
        f"{'forgotten' if done.applied else 'would forget'}: {plural(done.messages, 'message')} of {escape_name(done.key)}"
        + (f", {done.copied:,} of them copied into other conversations" if done.copied else "")
    )
    yield f"summaries      {len(done.summaries):,} made anew from what is left, {len(done.gone):,} gone"
    yield f"files          {len(done.files):,}"
    yield f"vectors        {done.vectors:,}"
    yield f"other texts    {done.other_texts:,}"
    yield f"pins           {done.pins:,}"
    if done.applied:
        yield f"searched for   {done.sought:,} of the words; {done.left:,} are left among the bytes"
        yield from (f"the same words stand in {name}" for name in done.elsewhere)
    yield from (Styled(f"a copy still holds it: {name} (--backups removes it)", "yellow") for name in done.backups)
    yield from (Styled(f"a transcript still holds it: {name}", "yellow") for name in done.transcripts)
    yield from done.beyond
    if not done.complete:
        yield (
            "Deleted bytes may be left: others are using the database, and were not kept waiting. Run it again when they rest."
        )
    if not done.applied:
        yield "Nothing was changed. --apply does it, and cannot be undone."
