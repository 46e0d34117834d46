"""`lcm migrate`: everything into another database, proved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from lossless import Lossless
from lossless.cli.options import Plain
from lossless.cli.output import answer, print_progress
from lossless.config import redact_url
from lossless.engine.backup.copy_database import Progress
from lossless.model import Migration


@click.command(cls=Plain)
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
def migrate(source: str, target: str) -> None:
    """Copy the database SOURCE, of all owners, into the new database TARGET, and prove that all of it is there.

    Both are paths or postgresql:// URLs. SOURCE is only read; TARGET has to be empty, or a migration from SOURCE that was
    broken off and now goes on. Let the hosts rest meanwhile: what they write after it began stays behind. Prints tables,
    rows and the digest.
    """
    with Lossless.open(source, read_only=True) as lcm, _progress() as print_progress:
        done = lcm.migrate(target, progress=print_progress)
    answer(done, _lines(done, redact_url(target)))


@contextmanager
def _progress() -> Iterator[Progress]:
    """On standard error: a bar if somebody looks at it, otherwise a line for each table."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _tell
        return
    with Progress(BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), console=console) as bar:
        task = bar.add_task("")
        yield lambda table, done, total: bar.update(task, completed=done, total=total, description=table)


def _tell(table: str, done: int, total: int) -> None:
    if done == total:
        print_progress(f"{table}: {total:,}")


def _lines(done: Migration, target: str) -> Iterator[str]:
    for table in done.tables:
        if table.rows:
            yield f"{table.name:<20}{table.rows:>12,}  {table.sha256[:16]}"
    for name in done.missing_files:
        yield f"lost before: {name}"
    again = ", taken up again" if done.resumed else ""
    yield f"{done.rows:,} rows and {done.files:,} files are in {target}{again} ({done.seconds:,.1f} s)"
    yield f"digest {done.digest}"
