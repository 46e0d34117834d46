"""`lcm import`: import the history of other programs."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from lossless import Lossless, config
from lossless.cli.options import Command, database_exists, named_database
from lossless.cli.output import Stopped, answer, get_option, print_note, remember_location
from lossless.cli.session_directories import session_directories, short_path
from lossless.cli.tables import Line, Styled, escape, plural, table
from lossless.engine.import_history.run import Progress
from lossless.errors import LosslessError
from lossless.events import Event, log
from lossless.model import ImportedSource, ImportReport, Step
from lossless.summarizers.prices import cost

_REPORTED_HERE = ("transcript.", "ingest.")
_READ = ("would-import", "imported", "up-to-date")
_PROGRAMS: Final = {
    "claude_code": "Claude Code",
    "codex": "Codex",
    "openclaw": "OpenClaw",
    "messages": "message files",
    "lossless": "lossless archive",
}
_SHOWN = 5
_WINDOW = 128_000


@click.command("import", cls=Command, examples=("lcm import", "lcm import session.jsonl --apply"))
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option("--apply", is_flag=True, help="Import (default: dry run).")
@click.option("-v", "--verbose", is_flag=True, help="List every file.")
@click.option("--key", metavar="KEY", help="Conversation for a single transcript (default: the transcript's own).")
@click.option("--since", metavar="TIME", help="Only files written since this time: 2026-08-01, 90d, yesterday.")
@click.option("-L", "--limit", type=click.IntRange(min=1), metavar="N", help="Read at most N files.")
@click.option("--files-dir", metavar="DIR", help="Directory of a database's large files (default: beside it).")
@click.option("--trust-pins", is_flag=True, help="Import pins too: they speak to models with your authority.")
def import_(paths: tuple[Path, ...], apply: bool, verbose: bool, **options: Any) -> None:
    """Import sessions, databases and archives: files, or directories of them.

    A PATH is a session of Claude Code, Codex, OpenClaw or pi, a file of plain messages, a database of lossless-claw or
    hermes-lcm, an archive of lossless, or a directory of such files. Without a PATH, the usual directories of these
    programs are searched. Files that were imported before and did not change are not read again. Exits with 1 if a file
    could not be read.
    """
    try:
        with open_for_import(named_database() or config.load().database, apply) as lcm:
            with _progress() as progress:
                report = lcm.import_(paths or _usual_paths(), apply=apply, progress=progress, **options)
            parts = (_lines(report, verbose, lcm.settings.zone), _problems(report, verbose), _next_step(lcm, report))
            lines = _paragraphs(parts)
    except KeyboardInterrupt:
        raise Stopped("What was imported stays; run the same command to continue.") from None
    answer({**msgspec.to_builtins(report), "messages": report.messages}, lines, ok=not report.errors)
    sys.exit(1 if report.errors else 0)


def _usual_paths() -> list[Path]:
    """Return the usual directories that exist here."""
    paths = [path for _, path in session_directories()]
    if not paths:
        print_note("No sessions of Claude Code, Codex, OpenClaw or pi in their usual directories. Name a PATH.")
    return paths


def log_event(event: Event) -> None:
    """Log an event that the report does not contain."""
    if not event.name.startswith(_REPORTED_HERE):
        log(event)


@contextmanager
def open_for_import(database: str, apply: bool, **how: Any) -> Iterator[Lossless]:
    """Open the database, read-only for a dry run; where there is none, a dry run gets an empty one in memory."""
    exists = database_exists(database)
    place = database if apply or exists else ":memory:"
    with Lossless.open(place, read_only=exists and not apply, on_event=log_event, **how) as lcm:
        remember_location(lcm.location if apply or exists else database)
        yield lcm


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show a progress bar on stderr if that is a terminal."""
    if not sys.stderr.isatty() or get_option("quiet"):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield None
        return
    columns = (BarColumn(30), DownloadColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("")

        def progress(path: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=escape(Path(path).name))

        yield progress


class _Program(Struct):
    """The sources of one program, added up."""

    sessions: int = 0
    new: int = 0
    stored: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None

    def add(self, source: ImportedSource) -> None:
        self.sessions += len(source.histories) or 1
        self.new += source.messages
        self.stored += source.known
        times = [at for at in (self.first_at, self.last_at, source.first_at, source.last_at) if at is not None]
        self.first_at, self.last_at = min(times, default=None), max(times, default=None)

    def cells(self, name: str, zone: tzinfo) -> tuple[str, ...]:
        period = ""
        if self.first_at and self.last_at:
            days = [at.astimezone(zone).date().isoformat() for at in (self.first_at, self.last_at)]
            period = " to ".join(dict.fromkeys(days))
        return name, f"{self.sessions:,}", f"{self.new:,}", f"{self.stored:,}", period


def _lines(report: ImportReport, verbose: bool, zone: tzinfo) -> Iterator[Line]:
    programs: dict[str, _Program] = {}
    for source in report.sources:
        if source.status in _READ:
            programs.setdefault(_program(source), _Program()).add(source)
    if programs:
        heads = ("program", "sessions", "new messages", "already stored", "dates of new messages")
        yield from table(heads, [each.cells(name, zone) for name, each in sorted(programs.items())])
    if verbose and report.sources:
        yield ""
        for source in report.sources:
            yield from _details(source)


def _paragraphs(parts: Iterable[Iterable[Line]]) -> list[Line]:
    """Return the lines of the parts that have any, an empty line between two parts."""
    full = [lines for part in parts if (lines := list(part))]
    return [line for number, lines in enumerate(full) for line in (*([""] if number else []), *lines)]


def _program(source: ImportedSource) -> str:
    """Return the program that wrote a source: by its directory, else by its format."""
    for name, directory in session_directories():
        if Path(source.path).is_relative_to(directory.resolve()):
            return name
    return _PROGRAMS.get(source.kind, source.kind)


def _details(source: ImportedSource) -> Iterator[Line]:
    counts = f"{source.messages:,} new, {source.known:,} already stored" if source.status in _READ else ""
    key = source.key or (plural(source.conversations, "conversation") if source.conversations else "")
    yield escape(short_path(source.path))
    yield Styled(f"    {'  '.join(filter(None, (source.status, counts, _flat(key))))}", dim=True)
    skipped = [f"{count:,} {reason}" for reason, count in source.skipped.items()]
    outside = [f"{source.outside:,} stored outside the context"] if source.outside else []
    for note in (*filter(None, (source.reason, "; ".join((*skipped, *outside)))), *source.notes):
        yield f"    {_flat(note)}"


def _problems(report: ImportReport, verbose: bool) -> Iterator[Line]:
    """List what could not be read, and what the import changed."""
    problems = [f"{escape(short_path(each.path))}: {_flat(each.reason)}" for each in report.errors]
    if problems:
        yield Styled(plural(len(problems), "problem") + ":", "red", bold=True)
        yield from _first(problems, verbose)
    lines = sum((Counter(each.skipped) for each in report.sources), Counter[str]())
    if unreadable := lines["malformed"] + lines["too long"]:
        files = sum(1 for each in report.sources if {"malformed", "too long"} & each.skipped.keys())
        yield f"{plural(unreadable, 'line')} in {plural(files, 'file')} could not be read."
    reasons = Counter(_flat(each.reason) for each in report.sources if each.status == "skipped")
    for reason, count in reasons.most_common():
        yield f"{plural(count, 'file')} skipped: {reason}"
    if not verbose:
        notes = [f"{Path(each.path).name}: {_flat(note)}" for each in report.sources for note in each.notes]
        yield from _first(notes, verbose)
    if report.left:
        yield f"{plural(report.left, 'file')} not read because of --since or --limit."


def _first(lines: list[str], verbose: bool) -> Iterator[Line]:
    shown = lines if verbose else lines[:_SHOWN]
    yield from (f"  {line}" for line in shown)
    if len(lines) > len(shown):
        yield f"  and {len(lines) - len(shown):,} more (--verbose lists them)"


def _flat(text: str) -> str:
    return escape(" ".join(text.split("\n")))


def _next_step(lcm: Lossless, report: ImportReport) -> Iterator[Line]:
    """Say what an import did and which command comes next."""
    new = [each for each in report.sources if each.status in ("would-import", "imported")]
    if not new:
        if not report.errors:
            yield "Nothing new to import."
        return
    sessions = sum(len(each.histories) or 1 for each in new)
    total = f"{plural(report.messages, 'message')} from {plural(sessions, 'session')}"
    if not report.applied:
        yield f"Dry run: nothing was written. Add --apply to import {total}."
        return
    yield Styled(f"Imported {total}.", "green")
    yield from _compaction(lcm)


def _compaction(lcm: Lossless) -> Iterator[Line]:
    """Estimate what it takes to compact the conversations that are too long for a model."""
    limit = lcm.settings.context_threshold * _WINDOW
    long = [each.key for each in lcm.conversations() if each.active and each.context_tokens > limit]
    database = f" --db {shlex.quote(name)}" if (name := named_database()) else ""
    if not long:
        yield f"Next: lcm conversations{database}"
        return
    try:
        plans = [plan for key in long for plan in lcm.backfill(key=key, recompact=True)]
    except LosslessError as error:  # a model that the settings name wrongly: the import is done nevertheless
        plans = []
        yield f"No estimate: {error}"
    yield f"Next: lcm compact --all{database}"
    if plans:
        read, written = (
            sum(getattr(each.expected, name) for each in plans) for name in ("tokens_read", "tokens_written")
        )
        yield f"  {plural(len(plans), 'long conversation')}, about {read:,} tokens to read"
        yield f"  {_price(plans[0].model, read, written)}"


def _price(model: str, read: int, written: int) -> str:
    if model == "extractive":
        return "free: no model is set (summary_model), sentences are extracted"
    step = Step(id="", depth=0, sources=0, tokens=0, input_tokens=read, output_tokens=written)
    price = cost(model, (step,))
    return f"{model}, price unknown" if price is None else f"about ${price:,.2f} with {model}"
