"""`lcm import`: bring the history of other programs in."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from lossless import Lossless, config
from lossless.cli.frame import Command, Stopped, answer, is_json, is_there, named_database, noted_place, remark
from lossless.cli.places import places
from lossless.cli.tables import many, safe
from lossless.engine.import_history.run import Progress
from lossless.events import Event, log
from lossless.model import ImportedSource, ImportReport

_HEADS = ("status", "new", "known", "kind", "conversation", "path", "")
_TOLD_HERE = ("transcript.", "ingest.")


@click.command("import", cls=Command)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option("--apply", is_flag=True, help="Do it; otherwise nothing is written, and you see what would be done.")
@click.option("--key", metavar="KEY", help="The conversation, for a single transcript; otherwise it names its own.")
@click.option("--since", metavar="TIME", help="Only files written from this time on (ISO 8601).")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Read at most so many files.")
@click.option("--files-dir", metavar="DIR", help="Where a database keeps its large files, if not beside it.")
@click.option("--trust-pins", is_flag=True, help="Also take pins in: they speak to models with your authority.")
def import_(paths: tuple[Path, ...], apply: bool, **options: Any) -> None:
    """Bring history in: files, or directories of them.

    A PATH is a session of Claude Code, Codex, OpenClaw or pi, a file of plain messages, a database of lossless-claw or
    hermes-lcm, an archive of lossless, or a directory of such files. Without one, the places are searched where these
    programs keep their sessions. What is here already is not read again. Exits with 1 if anything could not be read.
    """
    try:
        with rehearsed(named_database() or config.load().database, apply) as lcm, _progress(apply) as progress:
            report = lcm.import_(paths or _found(), apply=apply, progress=progress, **options)
    except KeyboardInterrupt:
        raise Stopped("What was imported stays; the same command goes on from there.") from None
    if is_json():
        answer({**msgspec.to_builtins(report), "messages": report.messages}, [], ok=not report.errors)
    else:
        _print(report)
    sys.exit(1 if report.errors else 0)


def _found() -> list[Path]:
    """The known places that are there, told on standard error."""
    found = places()
    for program, path in found:
        remark(f"{program}: {path}")
    if not found:
        remark("No sessions of Claude Code, Codex, OpenClaw or pi are in their usual places. Name a PATH.")
    return [path for _, path in found]


def tell(event: Event) -> None:
    """Log what the report does not tell."""
    if not event.name.startswith(_TOLD_HERE):
        log(event)


@contextmanager
def rehearsed(database: str, apply: bool, **how: Any) -> Iterator[Lossless]:
    """The database, for reading only unless something is to be written; if there is none, an empty one that is gone again."""
    exists = is_there(database)
    place = database if apply or exists else ":memory:"
    with Lossless.open(place, read_only=exists and not apply, on_event=tell, **how) as lcm:
        noted_place(lcm.location if apply or exists else database)
        yield lcm


@contextmanager
def _progress(apply: bool) -> Iterator[Progress | None]:
    """A bar on standard error, if somebody looks at it."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (apply and console.is_terminal):
        yield None
        return
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("")

        def progress(path: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=safe(Path(path).name))

        yield progress


def _print(report: ImportReport) -> None:
    from rich.console import Console

    told = [each for each in report.sources if each.status != "up-to-date"]
    console = Console(highlight=False)
    if told and console.is_terminal:
        console.print(_table(told))
    elif told:
        rows = [_HEADS, *map(_cells, told)]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for cells in rows:
            click.echo("  ".join(map(str.ljust, cells, wide)).rstrip())
    for each in told:
        for note in each.notes:
            click.echo(safe(f"{Path(each.path).name}: {note}"))
    click.echo(_summary(report))


def _table(told: list[ImportedSource]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in _HEADS:
        table.add_column(title, justify="right" if title in ("new", "known") else "left", overflow="fold")
    for each in told:
        table.add_row(*map(Text, _cells(each)))
    return table


def _cells(each: ImportedSource) -> tuple[str, ...]:
    key = each.key or (f"{each.conversations:,} conversations" if each.conversations else "")
    why = [each.reason] if each.reason else []
    why += [f"{count:,} {reason}" for reason, count in each.skipped.items()]
    why += [f"{each.outside:,} out of the context"] if each.outside else []
    cells = [each.status, f"{each.messages:,}", f"{each.known:,}", each.kind, key, each.path, "; ".join(why)]
    return tuple(safe(cell.replace("\n", " ")) for cell in cells)


def _summary(report: ImportReport) -> str:
    counts = Counter(each.status for each in report.sources)
    states = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
    skipped = sum((Counter(each.skipped) for each in report.sources), Counter[str]())
    total = many(len(report.sources), "source") + (f" ({states})" if states else "")
    told = [f"{total}, {many(report.messages, 'new message')}."]
    if skipped:
        told.append("Skipped: " + ", ".join(f"{count:,} {reason}" for reason, count in skipped.most_common(8)) + ".")
    if report.left:
        told.append(f"{many(report.left, 'file')} left for another time.")
    if counts["would-import"]:
        told.append("Nothing was written; --apply does it.")
    return safe(" ".join(told))
