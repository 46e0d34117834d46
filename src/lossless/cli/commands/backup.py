"""`lcm backup`, `restore`, `export` and `migrate`: copy a database to a file, an archive or another database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless import Lossless
from lossless.cli.options import Command, Plain, apply_option, complete_keys, named_database, open_database
from lossless.cli.output import DRY_RUN, answer, is_json, print_note, print_progress, remember_location
from lossless.cli.tables import Line, Styled, format_minute, format_size, plural
from lossless.config import redact_url
from lossless.engine.backup.copy_database import Progress

if TYPE_CHECKING:
    from lossless.model import Backup, Exported, Migration, Restored

_UNSOUND = 6


@click.command(cls=Command, examples=("lcm backup", "lcm backup --rolling nightly --prove"))
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--rolling", metavar="LABEL", help="Keep one backup with this label, replaced each time.")
@click.option("--prove", is_flag=True, help="Prove for every message of all owners that nothing is lost.")
def backup(path: Path | None, rolling: str | None, prove: bool) -> int:
    """Copy the database and its files into the file PATH, while others continue to write.

    The default PATH is NAME.backup-TIME beside the database; PATH may be a directory. An existing file is never
    overwritten, except by --rolling (NAME.LABEL-latest). The copy is opened, compared and read to its end before it
    gets its name. It contains everything of all owners: keep it as safe as the database.

    `lcm restore` restores it. With --prove, exits with 6 if a message is not accounted for.
    """
    with open_database() as lcm:
        done = lcm.backup(path, rolling=rolling, prove=prove)
    answer(done, _backup_lines(done), ok=not done.flaws)
    return _UNSOUND if done.flaws else 0


def _backup_lines(done: Backup) -> Iterator[Line]:
    yield Styled(done.path, bold=True)
    yield f"{_counts(done)} ({format_size(done.bytes)}, by {done.made_by})"
    yield from _missing_lines(done)
    yield from (Styled(f"does not hold: {flaw}", "red") for flaw in done.flaws)
    if done.flaws:
        yield "The backup is a copy of the database as it is; `lcm doctor` explains the problems."
    elif done.proved:
        yield Styled("Proved: every message is accounted for.", "green")


def _counts(done: Backup | Exported) -> str:
    return ", ".join(
        (
            plural(done.conversations, "conversation"),
            plural(done.messages, "message"),
            plural(done.summaries, "summary", "summaries"),
            plural(done.files, "file"),
        )
    )


def _missing_lines(done: Backup) -> Iterator[Line]:
    yield from (Styled(f"missing: the payload {name[:16]}", "yellow") for name in done.missing_files)


@click.command(cls=Command, examples=("lcm restore lcm.backup --db new.db", "lcm restore lcm.backup --replace --apply"))
@click.argument("backup", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace an existing database; the old one is kept aside.")
@apply_option("Apply --replace (default: dry run).")
@click.option("--no-reimport", is_flag=True, help="Skip what transcripts contain since the backup, for good.")
def restore(backup: Path, replace: bool, apply: bool, no_reimport: bool) -> None:
    """Restore the file BACKUP to the place that --db or the settings name.

    The backup is read to its end first; a damaged one is refused. --replace shows what would happen to an existing
    database, and --replace --apply replaces it, unless it is in use. Afterwards, what transcripts contain since the
    backup is read again, and nothing twice. These transcripts are listed.
    """
    done = Lossless.restore(backup, named_database(), replace=replace, apply=apply, reimport=not no_reimport)
    remember_location(done.database)
    answer(done, _restore_lines(done))


def _restore_lines(done: Restored) -> Iterator[Line]:
    yield f"{_counts(done.backup)}, as of {format_minute(done.backup.created_at)} UTC"
    yield from _missing_lines(done.backup)
    for each in done.transcripts:
        new = f"{format_size(each.bytes)} since the backup will be read into {each.key}"
        yield f"{each.path}: {new} (--no-reimport skips it)"
    if done.left_out:
        yield f"skipped: {plural(done.left_out, 'message')} that transcripts contain since the backup"
    if not done.applied:
        yield Styled(f"would replace {done.database}, which would be kept aside", "yellow")
        yield DRY_RUN
        return
    yield Styled(f"restored: {done.database}", "green")
    yield from (f"kept aside: {each}" for each in done.aside)


@click.command(cls=Command, examples=("lcm export all.zip", "lcm export demo.zip -c demo --replace"))
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    *("-c", "--conversation", "named"),
    metavar="KEY",
    multiple=True,
    shell_complete=complete_keys,
    help="Only this conversation (repeatable; default: all).",
)
@click.option("--replace", is_flag=True, help="Overwrite an existing archive.")
def export(path: Path, named: tuple[str, ...], replace: bool) -> None:
    """Write conversations and their files into the archive PATH; `lcm import` reads it.

    A conversation includes those archived under its key, and those of its sub-agents. A database, a backup or a payload
    is never overwritten.
    """
    with open_database() as lcm:
        done = lcm.export(path, conversations=list(named) or None, replace=replace)
    answer(done, [f"{done.path}: {_counts(done)} ({format_size(done.bytes)})"])
    if not is_json():
        for name in done.missing_files:
            print_note(f"missing before the export: {name}")


@click.command(
    cls=Plain,
    examples=("lcm migrate lcm.db postgresql://db.example/lcm", "lcm migrate postgresql://db.example/lcm copy.db"),
)
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
def migrate(source: str, target: str) -> None:
    """Copy the database SOURCE, of all owners, into the new database TARGET, and verify it.

    Both are files or postgresql:// URLs. SOURCE is only read. TARGET is empty, or an interrupted migration from SOURCE,
    which continues. Stop hosts meanwhile: what they write after the start is not copied. Prints tables, rows and the
    digest.
    """
    with Lossless.open(source, read_only=True) as lcm, _progress() as progress:
        done = lcm.migrate(target, progress=progress)
    answer(done, _migrate_lines(done, redact_url(target)))


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a function that shows progress on stderr: a bar on a terminal, else a line for each table."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_table
        return
    with Progress(BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), console=console) as bar:
        task = bar.add_task("")
        yield lambda table, done, total: bar.update(task, completed=done, total=total, description=table)


def _print_table(table: str, done: int, total: int) -> None:
    if done == total:
        print_progress(f"{table}: {total:,}")


def _migrate_lines(done: Migration, target: str) -> Iterator[str]:
    for table in done.tables:
        if table.rows:
            yield f"{table.name:<20}{table.rows:>12,}  {table.sha256[:16]}"
    for name in done.missing_files:
        yield f"missing before the migration: {name}"
    resumed = ", continued" if done.resumed else ""
    yield f"{done.rows:,} rows and {done.files:,} files are in {target}{resumed} ({done.seconds:,.1f} s)"
    yield f"digest {done.digest}"
