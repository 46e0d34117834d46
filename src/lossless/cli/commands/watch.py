"""`lcm watch`: follow live transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from lossless.cli.commands.imports import log_event
from lossless.cli.options import Command, open_database
from lossless.cli.output import answer, is_json, print_line, print_note, print_progress, until_stopped
from lossless.cli.session_directories import session_directories
from lossless.cli.tables import plural
from lossless.engine.import_history.watch import Watch
from lossless.errors import InvalidInput
from lossless.model import ImportedSource


@click.command(cls=Command, examples=("lcm watch", "lcm watch . --once"))
@click.argument("directories", nargs=-1, metavar="[DIR]...", type=click.Path(exists=True, path_type=Path))
@click.option("--once", is_flag=True, help="Import what is new now, then exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 86_400),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two checks.",
)
def watch(directories: tuple[Path, ...], once: bool, every: float) -> None:
    """Import new messages from the transcripts below DIR as they are written, with a line for each change.

    Without a DIR, the usual directories of Claude Code, Codex, OpenClaw and pi are watched. A file that cannot be read
    is reported once and tried again later. Ctrl-C or SIGTERM ends it after the current file.
    """
    watched = list(directories) or [path for _, path in session_directories()]
    if not watched:
        raise InvalidInput("No sessions of a known program in the usual directories.", hint="Name a DIR.")
    with until_stopped() as stop, open_database(read_only=False, create=True, on_event=log_event) as lcm:
        if not once:
            print_progress(f"Watching {', '.join(map(str, watched))}; Ctrl-C ends.")
        done = follow(lcm.watch(watched), lambda: once or stop.wait(every), stop.is_set)
    counts = f"{plural(done['messages'], 'new message')} in {done['files']:,} of {plural(done['watched'], 'file')}."
    answer(done, [counts])


def follow(watch: Watch, waited: Callable[[], bool], stopped: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Step until `waited` returns True, print each change, and return the counts."""
    files, messages, is_over = set[str](), 0, False
    while not is_over:
        for row in watch.step():
            _print(row)
            if row.status == "imported":
                files.add(row.path)
                messages += row.messages
            if stopped():
                break
        is_over = waited()
    return {"messages": messages, "files": len(files), "watched": len(watch)}


def _print(row: ImportedSource) -> None:
    if is_json():
        click.echo(json.dumps(msgspec.to_builtins(row)))
    else:
        (print_note if row.status == "error" else print_line)(_line(row))


def _line(row: ImportedSource) -> str:
    if row.status == "error":
        return f"{row.path}: {row.reason} It is tried again.".replace("\n", " ")
    return "  ".join((row.key, f"{row.messages:,} new", Path(row.path).name, *row.notes)).replace("\n", " ")
