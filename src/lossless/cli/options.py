"""Options that commands share: the database, the output, the conversation, limits and cursors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.decorators import FC
from click.shell_completion import CompletionItem

import lossless
from lossless import config
from lossless.cli.output import get_option, note_event, print_note, remember_database
from lossless.cli.tables import escape_name
from lossless.errors import InvalidInput, LosslessError, NotFound, StoreMissing

if TYPE_CHECKING:
    from lossless import Conversation, Lossless

_LISTED = 5
_HELP_NAMES = ("-h", "--help")
_NEWEST = "the only one, or the newest active one"


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that keeps an option, wherever on the line it stands."""

    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value is not None:
            ctx.meta[f"lossless.cli.{name}"] = value
        return value

    return keep


def common_options(*, db: bool = True) -> list[click.Parameter]:
    """Return the options that every command takes."""

    def option(*names: str, keep: str, help: str, **more: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep(keep), help=help, default=None, **more)

    database = option("--db", keep="db", metavar="PATH_OR_URL", help="Database file or URL (default: `database_path`).")
    return [
        *([database] if db else []),
        option("--json/--text", keep="json", help="Print JSON or text (default: text, or LCM_OUTPUT)."),
        option("--no-color", keep="plain", is_flag=True, help="Print without colors (also: NO_COLOR)."),
        option("--no-pager", keep="no_pager", is_flag=True, help="Print long text at once (also: LCM_PAGER=cat)."),
        option("-q", "--quiet", keep="quiet", is_flag=True, help="Suppress notes on stderr."),
    ]


class Plain(click.Command):
    """A command without a database of its own."""

    has_database = False

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params += common_options(db=self.has_database)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(_HELP_NAMES)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class Command(Plain):
    """A command on the database that `--db` or the settings name."""

    has_database = True


class Group(click.Group):
    """Commands about one thing. Without the name of one, its `default` command runs."""

    command_class: type[click.Command] = Command

    def __init__(self, *args: Any, default: str = "list", examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **{"no_args_is_help": False, **kwargs})
        self.default = default
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell completes the names of the commands
            return super().parse_args(ctx, args)
        first = args[0] if args else ""
        if self._is_for_default(ctx, first):
            args = [self.default, *args]
        elif not first.startswith("-") and first not in self.commands:
            raise unknown_command(ctx, first, list(self.commands))
        return super().parse_args(ctx, args)

    def _is_for_default(self, ctx: click.Context, word: str) -> bool:
        if self.default not in self.commands or word in (*self.commands, *ctx.help_option_names):
            return False
        takes_arguments = any(isinstance(each, click.Argument) for each in self.commands[self.default].params)
        return not word or word.startswith("-") or (takes_arguments and not similar(word, list(self.commands), 0.8))

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(_HELP_NAMES)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class UnknownCommand(click.UsageError):
    """A word that names no command."""


def unknown_command(ctx: click.Context, word: str, names: list[str]) -> UnknownCommand:
    """Return the error for a word that names no command, with the nearest one."""
    near = similar(word, names)
    way = f"Did you mean {' or '.join(near)}?" if near else f"`{ctx.command_path} -h` lists them."
    return UnknownCommand(f"There is no command {word!r}. {way}", ctx)


def similar(word: str, names: list[str], cutoff: float = 0.6) -> list[str]:
    """Return the names nearest to a word, at most two."""
    same = [each for each in names if sorted(each) == sorted(word)]
    return same or difflib.get_close_matches(word, names, n=2, cutoff=cutoff)


def write_examples(formatter: click.HelpFormatter, examples: tuple[str, ...]) -> None:
    """Write the examples of a command into its help."""
    if examples:
        with formatter.section("Examples"):
            formatter.write_text("\b\n" + "\n".join(examples))


def limit_option(most: int = 500, default: int = 50) -> Callable[[FC], FC]:
    """Return the option for the number of rows of a list."""
    rows = click.IntRange(1, most)
    help = "Number of rows to show."
    return click.option("-L", "--limit", type=rows, default=default, show_default=True, metavar="N", help=help)


def cursor_option(command: FC) -> FC:
    """Add the option that continues a list."""
    return click.option("--cursor", metavar="CURSOR", help="Continue from the cursor of the last page.")(command)


def apply_option(help: str = "Apply the change (default: dry run).") -> Callable[[FC], FC]:
    """Return the option without which nothing is written."""
    return click.option("--apply", is_flag=True, help=help)


def model_option(command: FC) -> FC:
    """Add the option that names the model for summaries."""
    help = '"provider/model", "command:..." or "extractive" (default: `summary_model`).'
    return click.option("--model", metavar="NAME", help=help)(command)


def named_database() -> str | None:
    """Return the value of `--db`."""
    named: str | None = get_option("db")
    return named


def open_database(*, read_only: bool = True, create: bool = False, **options: Any) -> Lossless:
    """Open the database of this command. Only an import may `create` one: a mistyped path is no new memory."""
    if not (read_only or create):
        _refuse_if_missing(named_database() or config.load().database)
    options = {"on_event": note_event, **options}
    return remember_database(lossless.Lossless.open(named_database(), read_only=read_only, **options))


def _refuse_if_missing(database: str) -> None:
    if not database_exists(database):
        raise StoreMissing(
            f"There is no database at {database}.", hint="Check the path: --db, or the setting database_path."
        )


def database_exists(database: str | Path) -> bool:
    """Return True if there is such a database, as far as the file system can tell."""
    return not config.is_file(str(database)) or Path(database).exists()


def conversation_option(*, positional: bool = True, otherwise: str = _NEWEST) -> Callable[[FC], FC]:
    """Return the options that name a conversation; `choose_conversation` reads them."""

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is None:
            return
        before = ctx.meta.setdefault("lossless.cli.conversation", value)
        if before != value:
            raise click.UsageError(f"Two conversations are named: {before} and {value}. Name one.", ctx)

    def decorate(command: FC) -> FC:
        shared: dict[str, Any] = {"expose_value": False, "callback": keep, "shell_complete": complete_keys}
        help = f"Conversation (default: {otherwise})."
        command = click.option("-c", "--conversation", metavar="KEY", help=help, **shared)(command)
        if positional:
            command = click.argument("key", required=False, metavar="[CONVERSATION]", **shared)(command)
        return command

    return decorate


def named_conversation() -> str | None:
    """Return the conversation that the command line names."""
    named: str | None = get_option("conversation")
    return named


def complete_keys(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the keys with this prefix for a shell, nothing if the database cannot be read."""
    try:
        with lossless.Lossless.open(
            ctx.meta.get("lossless.cli.db"), read_only=True, on_event=lambda event: None
        ) as lcm:
            keys = [each.key for each in lcm.conversations()]
    except LosslessError:
        return []
    return [CompletionItem(key) for key in keys if key.startswith(incomplete) and key.isprintable()]


def choose_conversation(lcm: Lossless, message: str = "", *, writes: bool = False) -> Conversation:
    """Return the named conversation, else that of the message, else the only or the newest active one.

    A note says which one was taken. A command that writes takes none of several: the user has to name it.
    """
    name = named_conversation()
    if name is not None:
        return lcm.find(name)
    if re.fullmatch(r"msg#[0-9]+", message):
        return lcm.find(message)
    active = [each for each in lcm.conversations() if each.active]
    if not active:
        raise NotFound("conversation", "here", hint="A conversation is created by its first message.")
    if len(active) > 1 and writes:
        keys = ", ".join(escape_name(each.key) for each in active[:_LISTED])
        more = f" and {len(active) - _LISTED:,} more" if len(active) > _LISTED else ""
        raise InvalidInput(f"There are {len(active):,} conversations.", hint=f"Name one with -c: {keys}{more}.")
    if len(active) > 1:
        print_note(f"{escape_name(active[0].key)}: the newest of {len(active):,}; -c KEY chooses another.")
    return lcm.conversation(active[0].key)
