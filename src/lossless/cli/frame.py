"""What every command has in common: its options, the database it opens, the form in which it answers."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.decorators import FC
from click.shell_completion import CompletionItem

import lossless
from lossless import config
from lossless.cli.tables import Line, Paint, painted
from lossless.errors import LosslessError, StoreMissing
from lossless.events import Event

if TYPE_CHECKING:
    from lossless import Lossless

_HERE = "lossless.cli"
_FORMS = ("text", "json")
_CHOSEN = "the only one, or the newest that is active"


class Stopped(Exception):
    """Somebody pressed Ctrl-C, and the command knows how to go on: `args[0]` says it."""


class Page(msgspec.Struct, frozen=True):
    """Where a list goes on."""

    limit: int
    returned: int
    next_cursor: str | None


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C and SIGTERM set; at the end, both do again what they did before."""
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _note(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Remember an option, wherever on the line it stood."""

    def note(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value is not None:
            ctx.meta[f"{_HERE}.{name}"] = value
        return value

    return note


def shared(*, db: bool = True) -> list[click.Parameter]:
    """The options that every command takes."""
    database = click.Option(
        ["--db"],
        metavar="PATH_OR_URL",
        expose_value=False,
        callback=_note("db"),
        help="The database; otherwise what the settings say.",
    )
    return [
        *([database] if db else []),
        click.Option(
            ["--json/--text"],
            default=None,
            expose_value=False,
            callback=_note("json"),
            help="Answer with JSON, or with text; otherwise text on a terminal and JSON elsewhere.",
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            default=None,
            expose_value=False,
            callback=_note("plain"),
            help="No colours; NO_COLOR says the same.",
        ),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            default=None,
            expose_value=False,
            callback=_note("quiet"),
            help="No remarks on standard error.",
        ),
    ]


class Plain(click.Command):
    """A command that opens no database of its own choice."""

    has_database = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += shared(db=self.has_database)


class Command(Plain):
    """A command on the database that `--db` or the settings name."""

    has_database = True


class Group(click.Group):
    """Commands about one thing."""

    command_class: type[click.Command] = Command


def _said(name: str, otherwise: Any = None) -> Any:
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(f"{_HERE}.{name}", otherwise) if ctx else otherwise


def is_json(otherwise: bool | None = None) -> bool:
    """Whether the answer is JSON: as somebody said, `otherwise` as given, or unless a person looks at it."""
    said = _said("json")
    if said is None:
        form = os.environ.get("LCM_OUTPUT", "").strip().lower()
        if form and form not in _FORMS:
            raise click.UsageError(f"LCM_OUTPUT is {form!r}. It can be {' or '.join(_FORMS)}.")
        said = form == "json" if form else otherwise
    if said is None:
        said = not sys.stdout.isatty()
    return bool(said)


def named_database() -> str | None:
    """What `--db` names."""
    named: str | None = _said("db")
    return named


def opened(*, read_only: bool = True, create: bool = False, **how: Any) -> Lossless:
    """The database of this command. Only what brings something in may `create` one: a mistyped path is no new memory."""
    if not (read_only or create):
        _refuse_if_missing(named_database() or config.load().database)
    return noted(lossless.Lossless.open(named_database(), read_only=read_only, **{"on_event": told, **how}))


def _refuse_if_missing(database: str) -> None:
    if not is_there(database):
        raise StoreMissing(
            f"There is no database at {database}.", hint="Check the path: --db, or the setting database_path."
        )


def told(event: Event) -> None:
    """Remark what is worth a warning."""
    if event.level in ("warning", "error"):
        remark(f"{event.name}: {event.message}")


def noted(lcm: Lossless) -> Lossless:
    """The same database, its place remembered for the answer."""
    noted_place(lcm.location)
    return lcm


def noted_place(location: str) -> None:
    """Remember for the answer where the database of this command is."""
    click.get_current_context().meta[f"{_HERE}.opened"] = config.redact_url(location)


def answer(
    data: object, lines: Iterable[Line], *, ok: bool = True, page: Page | None = None, command: str | None = None
) -> None:
    """Print the answer: DATA as JSON, or the lines for a person."""
    if is_json():
        _echo_json(data, ok, page, command)
        return
    for line in lines:
        say(line)
    if page and page.next_cursor:
        remark(f"More: --cursor {page.next_cursor}")


def say(line: Line) -> None:
    """Print one line of an answer for a person, now."""
    click.echo(painted(line), color=_colour())


def _colour() -> bool | None:
    is_plain = _said("plain") or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if is_plain else None


def _echo_json(data: object, ok: bool, page: Page | None, command: str | None) -> None:
    told: dict[str, Any] = {"ok": ok, "command": command or name(), "data": msgspec.to_builtins(data, str_keys=True)}
    if page:
        more = {"hasMore": page.next_cursor is not None, "nextCursor": page.next_cursor}
        told["pagination"] = {"limit": page.limit, "returned": page.returned, **more}
    told["meta"] = {"databasePath": _said("opened"), "configPath": _config_path()}
    if remarks := _said("remarks"):
        told["meta"]["remarks"] = remarks
    click.echo(as_json(told, indent=2 if sys.stdout.isatty() else None))


def as_json(value: object, indent: int | None = None) -> str:
    """A value as JSON that every reader takes: numbers that JSON has not (NaN) are told as text."""
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


def name() -> str:
    """What this command is called in JSON: `messages.list`."""
    names, ctx = list[str](), click.get_current_context()
    while ctx.parent is not None:
        names.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return ".".join(names)


def remark(line: Line) -> None:
    """Say something beside the answer: on standard error, or in JSON as one of its `meta.remarks`."""
    if is_json():
        _remember(line)
    elif not _said("quiet"):
        click.echo(painted(line), err=True, color=_colour())


def _remember(line: Line) -> None:
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        pieces = (line,) if isinstance(line, str | Paint) else line
        text = "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)
        ctx.meta.setdefault(f"{_HERE}.remarks", []).append(text)


def progress(line: Line) -> None:
    """Tell how far it is, on standard error. A program that reads errors there is not told."""
    if not _said("quiet") and (not is_json() or sys.stderr.isatty()):
        click.echo(painted(line), err=True, color=_colour())


def conversation(*, positional: bool = True, otherwise: str = _CHOSEN) -> Callable[[FC], FC]:
    """The options that choose a conversation; `choose` reads them."""

    def named(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is None:
            return
        before = ctx.meta.setdefault(f"{_HERE}.conversation", value)
        if before != value:
            raise click.UsageError(f"Two conversations are named: {before} and {value}. Name one.", ctx)

    def decorate(command: FC) -> FC:
        help = f"The conversation; otherwise {otherwise}."
        command = click.option(
            *("-c", "--conversation"),
            metavar="KEY",
            expose_value=False,
            callback=named,
            shell_complete=keys,
            help=help,
        )(command)
        if positional:
            command = click.argument(
                "key",
                required=False,
                metavar="[CONVERSATION]",
                expose_value=False,
                callback=named,
                shell_complete=keys,
            )(command)
        return command

    return decorate


def named_conversation() -> str | None:
    """The conversation that the command line names."""
    named: str | None = _said("conversation")
    return named


def keys(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The keys that begin so, for a shell. Whatever is wrong, a shell is told nothing."""
    try:
        with lossless.Lossless.open(ctx.meta.get(f"{_HERE}.db"), read_only=True, on_event=lambda event: None) as lcm:
            found = [each.key for each in lcm.conversations()]
    except LosslessError:
        return []
    return [CompletionItem(key) for key in found if key.startswith(incomplete) and key.isprintable()]


def is_there(database: str | Path) -> bool:
    """Whether there is such a database, as far as the file system can tell."""
    return not config.is_file(str(database)) or Path(database).exists()
