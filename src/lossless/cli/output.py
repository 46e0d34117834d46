"""Print answers: text for people, JSON for programs, notes on standard error, long text through a pager."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
import msgspec

from lossless import config
from lossless.cli.tables import Line, plain_text, render_line, terminal_width
from lossless.events import Event

if TYPE_CHECKING:
    from lossless import Lossless

_STATE = "lossless.cli"
_FORMATS = ("text", "json")
_NO_PAGER = ("", "cat")
DRY_RUN = "Dry run: nothing was changed. --apply applies it."


class Stopped(Exception):
    """An interrupted command that can be continued: `args[0]` explains how."""


class Page(msgspec.Struct, frozen=True):
    """The limit of a list, the rows returned, and the cursor of the next page."""

    limit: int
    returned: int
    next_cursor: str | None


def set_option(name: str, value: Any) -> None:
    """Keep the value of an option that every command takes."""
    click.get_current_context().meta[f"{_STATE}.{name}"] = value


def get_option(name: str) -> Any:
    """Return the value of an option that every command takes, None if it was not given."""
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(f"{_STATE}.{name}") if ctx else None


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set; restore both handlers at the end."""
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_json() -> bool:
    """Return True if the answer is JSON: by `--json`, or by LCM_OUTPUT without an option."""
    chosen = get_option("json")
    if chosen is None:
        form = os.environ.get("LCM_OUTPUT", "").strip().lower()
        if form and form not in _FORMATS:
            raise click.UsageError(f"LCM_OUTPUT is {form!r}. It can be {' or '.join(_FORMATS)}.")
        chosen = form == "json"
    return bool(chosen)


def remember_database(lcm: Lossless) -> Lossless:
    """Keep the location of the database for the answer, and return the database."""
    remember_location(lcm.location)
    return lcm


def remember_location(location: str) -> None:
    """Keep the location of the database for the answer."""
    set_option("database", config.redact_url(location))


def answer(
    data: object, lines: Iterable[Line], *, ok: bool = True, page: Page | None = None, command: str | None = None
) -> None:
    """Print the answer: the object `data` as JSON, or the lines as text."""
    if is_json():
        _print_json(data, ok, page, command)
        return
    _print_lines(lines)
    if page and page.next_cursor:
        print_note(f"More: --cursor {page.next_cursor}")


def print_line(line: Line) -> None:
    """Print one line of text at once, with control characters escaped."""
    click.echo(render_line(line), color=_color())


def _color() -> bool | None:
    is_plain = get_option("plain") or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if is_plain else None


def _print_lines(lines: Iterable[Line]) -> None:
    """Print lines, through a pager if they do not fit on the terminal."""
    pager = _pager()
    if pager is None:
        for line in lines:
            print_line(line)
        return
    rest, first, rows = iter(lines), list[Line](), 0
    columns, height = terminal_width(), shutil.get_terminal_size().lines
    for line in rest:
        first.append(line)
        rows += sum(max(1, -(-len(each) // columns)) for each in plain_text(line).split("\n"))
        if rows >= height:
            _page(pager, chain(first, rest))
            return
    for line in first:
        print_line(line)


def _pager() -> str | None:
    """Return the command of the pager, None if the output is no terminal or nobody wants one."""
    if get_option("no_pager") or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None
    named = os.environ.get("LCM_PAGER", os.environ.get("PAGER"))
    command = named.strip() if named is not None else "less" if shutil.which("less") else ""
    return None if command in _NO_PAGER else command


def _page(pager: str, lines: Iterable[Line]) -> None:
    import shlex
    import subprocess

    environment = {"LESS": "FRX", **os.environ}
    is_colored = _color() is None and ("R" in environment["LESS"] or "R" in pager)
    try:
        process = subprocess.Popen(shlex.split(pager), stdin=subprocess.PIPE, env=environment)  # noqa: S603  # the user's own
    except (OSError, ValueError):
        for line in lines:
            print_line(line)
        return
    assert process.stdin is not None
    try:
        for line in lines:
            text = render_line(line) if is_colored else plain_text(line)
            process.stdin.write(f"{text}\n".encode("utf-8", "backslashreplace"))
        process.stdin.close()
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the reader quit before the end
    while process.poll() is None:
        try:
            process.wait()
        except KeyboardInterrupt:
            continue  # the pager has its own meaning for Ctrl-C


def _print_json(data: object, ok: bool, page: Page | None, command: str | None) -> None:
    value = msgspec.to_builtins(data, str_keys=True)
    if not isinstance(value, dict):
        raise TypeError(f"The data of an answer is an object, not {type(value).__name__}.")
    envelope: dict[str, Any] = {"ok": ok, "command": command or command_name(), "data": value}
    if page:
        more = {"has_more": page.next_cursor is not None, "next_cursor": page.next_cursor}
        envelope["pagination"] = {"limit": page.limit, "returned": page.returned, **more}
    envelope["meta"] = {"database_path": get_option("database"), "config_path": _config_path()}
    if notes := get_option("notes"):
        envelope["meta"]["notes"] = notes
    click.echo(as_json(envelope, indent=2 if sys.stdout.isatty() else None))


def as_json(value: object, indent: int | None = None) -> str:
    """Return valid JSON: numbers that JSON does not have (NaN) become text."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value


def _config_path() -> str | None:
    path = config.config_path()
    return str(path) if path.exists() else None


def command_name() -> str:
    """Return the name of the running command as JSON shows it: `messages.list`."""
    names, ctx = list[str](), click.get_current_context()
    while ctx.parent is not None:
        names.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return ".".join(names)


def print_note(line: Line) -> None:
    """Print a note beside the answer: on standard error, in JSON as one of `meta.notes`."""
    if is_json():
        _add_note(line)
    elif not get_option("quiet"):
        click.echo(render_line(line), err=True, color=_color())


def _add_note(line: Line) -> None:
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta.setdefault(f"{_STATE}.notes", []).append(plain_text(line))


def note_event(event: Event) -> None:
    """Print a note for an event that is a warning or an error."""
    if event.level in ("warning", "error"):
        print_note(f"{event.name}: {event.message}")


def print_progress(line: Line) -> None:
    """Print progress on standard error; with JSON, only if a person reads it there."""
    if not get_option("quiet") and (not is_json() or sys.stderr.isatty()):
        click.echo(render_line(line), err=True, color=_color())
