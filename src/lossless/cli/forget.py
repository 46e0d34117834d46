"""`lcm forget`: take words away for good, and show first what would go."""

from __future__ import annotations

import json

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe
from lossless.errors import InvalidInput
from lossless.model import Forgotten


@click.command()
@click.argument("conversation")
@click.argument("messages", metavar="[MESSAGE[..MESSAGE]]", required=False)
@click.option("--all", "whole", is_flag=True, help="Everything ever said under the key.")
@click.option("--apply", is_flag=True, help="Do it. There is no way back.")
@click.option(
    "--backups", is_flag=True, help="Remove the copies of the database that were kept before it was changed, too."
)
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def forget(
    conversation: str, messages: str | None, whole: bool, apply: bool, backups: bool, db: str | None, as_json: bool
) -> None:
    """Forget a MESSAGE (msg#...) of the conversation CONVERSATION, or all from one to another, or --all of it.

    Their words leave messages, summaries, the search index, vectors, files, and the database's own pages and logs. Without
    --apply nothing is changed. What was forgotten cannot be brought back.
    """
    if whole == (messages is not None):
        raise InvalidInput("Say which messages, or --all.", hint="lcm forget KEY msg#1000000007..msg#1000000009")
    with Lossless.open(db, read_only=not apply) as lcm:
        if messages is None:
            done = lcm.forget(conversation, apply=apply, backups=backups)
        else:
            first, _, last = messages.partition("..")
            done = lcm.conversation(conversation).forget(first, until=last or None, apply=apply, backups=backups)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "forget", "data": msgspec.to_builtins(done)}))
    else:
        click.echo(safe("\n".join(_lines(done))))


def _lines(done: Forgotten) -> list[str]:
    lines = [
        f"{'forgotten' if done.applied else 'would forget'}: {done.messages:,} messages of {done.key}"
        + (f", {done.copied:,} of them copied into other conversations" if done.copied else ""),
        f"summaries      {len(done.summaries):,} made anew from what is left, {len(done.gone):,} gone",
        f"files          {len(done.files):,}",
        f"vectors        {done.vectors:,}",
        f"other texts    {done.other_texts:,}",
        f"pins           {done.pins:,}",
    ]
    if done.applied:
        lines.append(f"searched for   {done.sought:,} of the words; {done.left:,} are left among the bytes")
        lines += [f"the same words stand in {name}" for name in done.elsewhere]
    lines += [f"a copy still holds it: {name} (--backups removes it)" for name in done.backups]
    lines += [f"a transcript still holds it: {name}" for name in done.transcripts]
    lines += done.beyond
    if not done.complete:
        lines.append(
            "Somebody is still reading an older state, which keeps the deleted bytes. Run it again when that is over."
        )
    if not done.applied:
        lines.append("Nothing was changed. --apply does it, and cannot be undone.")
    return lines
