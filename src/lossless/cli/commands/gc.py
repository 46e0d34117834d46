"""`lcm gc`: remove what nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.options import Command, apply_option, open_database
from lossless.cli.output import answer
from lossless.cli.tables import format_size, plural
from lossless.model import Garbage


@click.command(cls=Command)
@apply_option()
@click.option(
    "--keep-copies",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Also remove copies of the database that were kept before it was changed, if they are older.",
)
@click.option(
    "--unshared",
    is_flag=True,
    help="No other database keeps payloads in the same directory; needed where that is not named after the database.",
)
@click.option(
    "--vacuum",
    is_flag=True,
    help="Write the database anew, so that the disk has the room again. It takes as much free room; a server locks its tables.",
)
def gc(apply: bool, keep_copies: int | None, unshared: bool, vacuum: bool) -> None:
    """Remove what nobody needs any more. Messages and summaries are never touched.

    That is: payloads on disk that no row refers to (those of the last hour stay), drafts that writers left when they died,
    grants and leases that are over, and what archived conversations showed to a model more than 90 days ago. The log of
    writes is emptied, and free pages are given back.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.gc(apply=apply, keep_copies=keep_copies, unshared=unshared, vacuum=vacuum)
    answer(done, _lines(done))


def _lines(done: Garbage) -> Iterator[str]:
    for count, what in (
        (done.files, "payloads that no row refers to"),
        (done.drafts, "drafts that were left"),
        (done.grants, "grants that are over"),
        (done.manifests, "notes of what archived conversations showed"),
        (done.leases, "leases of workers that are gone"),
        (len(done.copies), "copies of the database"),
    ):
        yield f"{count:>9,}  {what}"
    yield from (f"           {name}" for name in done.copies)
    if done.doubtful:
        yield f"{plural(done.doubtful, 'payload')} may be another database's; --unshared says that there is none."
    if not done.complete:
        yield "Not all could be written anew: others are using the database, and were not kept waiting."
    yield (
        f"{format_size(done.bytes)} freed."
        if done.applied
        else f"{format_size(done.bytes)} in all. Nothing was changed; --apply removes it."
    )
