"""`lcm watch`: follow live transcripts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import click

from lossless import Lossless
from lossless.cli.choose import safe
from lossless.cli.imports import many, tell
from lossless.cli.places import places
from lossless.engine.watching import Watch
from lossless.errors import InvalidInput
from lossless.model import ImportedSource


@click.command()
@click.argument("directories", nargs=-1, metavar="[DIR]...", type=click.Path(exists=True, path_type=Path))
@click.option("--once", is_flag=True, help="Read what is new now, and end.")
@click.option("--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True, metavar="SECONDS")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
def watch(directories: tuple[Path, ...], once: bool, every: float, db: str | None) -> None:
    """Read what is new in the transcripts below DIR as it is written, a line for each change.

    Without one, those of Claude Code, Codex, OpenClaw and pi in their usual places. What cannot be read is tried again
    later and told once. Ends with Ctrl-C or SIGTERM, after the file it is reading.
    """
    watched = list(directories) or [path for _, path in places()]
    if not watched:
        raise InvalidInput("No program keeps its sessions in the usual places here.", hint="Name a DIR.")
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with Lossless.open(db, on_event=tell) as lcm:
        if not once:
            click.echo(safe(f"Watching {', '.join(map(str, watched))}; Ctrl-C ends."), err=True)
        told = follow(lcm.watch(watched), lambda: once or stop.wait(every), stop.is_set)
    click.echo(told)


def follow(watch: Watch, waited: Callable[[], bool], stopped: Callable[[], bool] = lambda: False) -> str:
    """Step until `waited` says that it is over; what was done, as a sentence."""
    files, messages, is_over = set[str](), 0, False
    while not is_over:
        for row in watch.step():
            click.echo(_line(row), err=row.status == "error")
            if row.status == "imported":
                files.add(row.path)
                messages += row.messages
            if stopped():
                break
        is_over = waited()
    return f"{many(messages, 'new message')} in {len(files):,} of {many(len(watch), 'file')}."


def _line(row: ImportedSource) -> str:
    if row.status == "error":
        return safe(f"{row.path}: {row.reason} It is tried again.".replace("\n", " "))
    return safe("  ".join((row.key, f"{row.messages:,} new", Path(row.path).name, *row.notes)).replace("\n", " "))
