"""`lcm backup` and `lcm restore`: everything in one file, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from lossless import Lossless
from lossless.cli.options import Command, named_database, open_database
from lossless.cli.output import answer, remember_location
from lossless.cli.tables import Line, Styled, format_minute, format_size, plural
from lossless.model import Backup, Restored

_FLAWED = 6


@click.command(cls=Command)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--rolling", metavar="LABEL", help="Keep one backup under this label, and replace it each time.")
@click.option("--prove", is_flag=True, help="Prove of every message, of all owners, that nothing is lost.")
def backup(path: Path | None, rolling: str | None, prove: bool) -> int:
    """Copy the database and its files into the one file PATH, while others go on writing.

    Without PATH it goes beside the database, as NAME.backup-TIME; PATH may be a directory. Nothing is overwritten, but
    by --rolling, which keeps NAME.LABEL-latest. The copy is opened and compared, and the file read to its end, before
    it gets its name. It holds everything that was ever said, of all owners: keep it as safe as the database.

    `lcm restore` brings it back. --prove ends with 6 if something is not as it should be.
    """
    with open_database() as lcm:
        done = lcm.backup(path, rolling=rolling, prove=prove)
    answer(done, _made(done), ok=not done.flaws)
    return _FLAWED if done.flaws else 0


def _made(done: Backup) -> Iterator[Line]:
    yield Styled(done.path, bold=True)
    yield f"{_counts(done)} ({format_size(done.bytes)}, by {done.made_by})"
    yield from _lost(done)
    yield from (Styled(f"does not hold: {flaw}", "red") for flaw in done.flaws)
    if done.flaws:
        yield "The backup holds what the database holds; `lcm doctor` says more about it."
    elif done.proved:
        yield Styled("Proved: every message is accounted for.", "green")


def _counts(done: Backup) -> str:
    return ", ".join(
        (
            plural(done.conversations, "conversation"),
            plural(done.messages, "message"),
            plural(done.summaries, "summary", "summaries"),
            plural(done.files, "file"),
        )
    )


def _lost(done: Backup) -> Iterator[Line]:
    yield from (Styled(f"missing: the payload {name[:16]}", "yellow") for name in done.missing_files)


@click.command(cls=Command)
@click.argument("backup", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Take the place of a database that is there; it is kept aside.")
@click.option("--apply", is_flag=True, help="Do it. Without it, --replace only shows what would be replaced.")
@click.option("--no-reimport", is_flag=True, help="Leave out what transcripts hold since the backup, for good.")
def restore(backup: Path, replace: bool, apply: bool, no_reimport: bool) -> None:
    """Put the database that the file BACKUP holds, and its files, where --db or the settings say.

    The backup is read to its end first, and nothing is taken from one that is not whole. Where a database is already,
    --replace shows what would happen and --replace --apply does it, unless somebody has it open; the old one is kept
    aside, under a name that is told. Hosts go on from there: what a transcript holds since the backup is read again,
    and nothing twice. Such transcripts are listed; --no-reimport leaves out what they hold by now.
    """
    done = Lossless.restore(backup, named_database(), replace=replace, apply=apply, reimport=not no_reimport)
    remember_location(done.database)
    answer(done, _placed(done))


def _placed(done: Restored) -> Iterator[Line]:
    yield f"{_counts(done.backup)}, as of {format_minute(done.backup.created_at)} UTC"
    yield from _lost(done.backup)
    for each in done.transcripts:
        yield f"{each.path}: {format_size(each.bytes)} since the backup will be read into {each.key} (--no-reimport leaves it out)"
    if done.left_out:
        yield f"left out: {plural(done.left_out, 'message')} that transcripts hold since the backup"
    if not done.applied:
        yield Styled(f"would replace {done.database}, which would be kept aside", "yellow")
        yield "Nothing was changed. --apply does it."
        return
    yield Styled(f"restored: {done.database}", "green")
    yield from (f"kept aside: {each}" for each in done.aside)
