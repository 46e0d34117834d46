"""The program `lcm`: its commands by purpose, loaded when they are called, and its error messages."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from lossless import __version__
from lossless.cli.options import UnknownCommand, common_options, named_database, unknown_command
from lossless.cli.output import Stopped, is_json
from lossless.cli.tables import escape, render_line
from lossless.errors import (
    ConfigError,
    InvalidInput,
    LosslessError,
    NotFound,
    StoreError,
    StoreMissing,
)

SECTIONS: Final = {
    "Look": {
        "status": ("status", "is memory kept: what is stored, coming in, owed, failing"),
        "conversations": ("conversations", "which there are, and one in full"),
        "messages": ("messages", "page by page, one in full, those around it, the newest"),
        "summaries": ("summaries", "list, tree, texts, earlier texts, differences"),
        "context": ("context", "what a model is shown, or was shown"),
        "explain": ("context:explain", "why a message is in the context, or is not"),
        "files": ("files", "large content kept out of line"),
        "stats": ("stats", "tokens stored, saved and spent, day by day"),
        "config": ("config", "the settings in force; change one"),
    },
    "Recall": {
        "grep": ("grep", "find exact words in all history"),
        "describe": ("describe", "what an id is, and what lies below it"),
        "expand": ("expand", "from a summary down to the exact words"),
        "ask": ("ask", "a question about the past, answered from it"),
    },
    "Operate": {
        "import": ("imports:import_", "bring in sessions, databases, archives"),
        "watch": ("watch", "follow live transcripts"),
        "backfill": ("backfill", "import and compact to the end"),
        "compact": ("compact", "summarise what is old now"),
        "worker": ("worker", "do in the background what is owed"),
        "new": ("sessions:new", "begin the context anew, as /new does"),
        "reset": ("sessions:reset", "archive a conversation, start a fresh one"),
        "pin": ("pin", "have a model always see something"),
        "unpin": ("pin:unpin", "take a pin away"),
        "pins": ("pin:pins", "what is pinned"),
        "export": ("export", "conversations into a portable archive"),
        "backup": ("backup", "the whole database into one verified file"),
        "restore": ("backup:restore", "and back"),
        "migrate": ("migrate", "into another database, proved"),
        "forget": ("forget", "take words away for good, with a receipt"),
        "prune": ("prune", "remove conversations nobody touched for long"),
        "gc": ("gc", "remove files and leftovers nobody needs"),
    },
    "Surgery": {
        "rewrite": ("rewrite", "make summaries anew, see the difference first"),
        "repair": ("repair", "make anew what is cut, provisional or unfaithful"),
        "dissolve": ("dissolve", "a condensed summary gives way to its sources"),
        "transplant": ("transplant", "copy a history before another conversation"),
        "merge": ("merge", "join what a rollover split"),
        "history": ("history", "what was done to old data"),
        "undo": ("history:undo", "take one of these back"),
    },
    "Health": {
        "doctor": ("doctor", "does everything agree; prove it; put it right"),
    },
    "Learn": {
        "demo": ("demo", "all of it at work in a few seconds"),
        "prompts": ("prompts", "the prompts for summaries, and your own"),
        "completion": ("completion", "for bash, zsh and fish"),
    },
}
"""Every command, by what it is for: the module that has it (and its name there if that is another), and what it does."""

_EXIT_CODES: tuple[tuple[type[LosslessError], int], ...] = (
    (InvalidInput, 2),
    (NotFound, 3),
    (StoreMissing, 3),
    (ConfigError, 4),
    (StoreError, 5),
)
_INTERRUPTED = 130
_PIPE_CLOSED = 141


class Program(click.Group):
    """`lcm`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = next((names[cmd_name][0] for names in SECTIONS.values() if cmd_name in names), None)
        if where is None:
            return None
        module, _, called = where.partition(":")
        command: click.Command = getattr(import_module(f"lossless.cli.commands.{module}"), called or module)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise unknown_command(ctx, name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, names in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, about) for name, (_, about) in names.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            raise _ReaderGone from gone  # which click would call a failure like any other
        except KeyboardInterrupt as signal:
            raise _Interrupted from signal  # which click would tell with an empty line
        except LosslessError as error:
            # Only here it is still known which database the line named.
            from lossless.cli.nearest import add_nearest

            add_nearest(error, named_database())
            raise

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command line. What goes wrong becomes a sentence and an exit code, never a stack trace."""
        line = list(args[0] if args else kwargs.get("args") or sys.argv[1:])
        _open_streams()
        sys.exit(
            _outcome(
                lambda: super(Program, self).main(*args, **{**kwargs, "prog_name": "lcm", "standalone_mode": False}),
                line,
            )
        )


class _ReaderGone(Exception):
    pass


class _Interrupted(Exception):
    pass


def _open_streams() -> None:
    """Streams that whoever called us had closed: nothing comes from there, and nobody reads."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115  # for as long as the process lives
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _outcome(run: Callable[[], Any], line: list[str]) -> int:
    try:
        ended = run()
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as help:
        click.echo(help.message)
        return 0
    except click.ClickException as error:
        return _refused(error, line)
    except Stopped as stopped:
        _tell("INTERRUPTED", "Interrupted.", str(stopped), line)
        return _INTERRUPTED
    except (click.Abort, _Interrupted):
        _tell("INTERRUPTED", "Interrupted.", "What was written stays, and nothing is half written.", line)
        return _INTERRUPTED
    except LosslessError as error:
        _tell(_code(error), error.message, error.hint, line)
        return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1)
    except (BrokenPipeError, _ReaderGone):
        # Whoever read has gone. What is left in the buffer must not complain at the end, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except OSError as error:
        _without_output(error)
        where = f"{error.filename}: " if error.filename else ""
        _tell("OS_ERROR", f"{where}{error.strerror or error}.", "Check the place, and that there is room.", line)
        return 1
    except Exception as error:  # a person gets a sentence, whatever it was; LCM_TRACEBACK has the rest
        if os.environ.get("LCM_TRACEBACK"):
            raise
        hint = "This is a mistake in lossless: LCM_TRACEBACK=1 shows where. Please report it."
        _tell("INTERNAL_ERROR", f"{type(error).__name__}: {error}", hint, line)
        return 1
    return ended if isinstance(ended, int) else 0


def _without_output(error: OSError) -> None:
    """What could not be printed is not tried again when the process ends."""
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: click.ClickException, line: list[str]) -> int:
    if _is_json(line):
        _tell(_usage_code(error), error.format_message(), "", line)
        return error.exit_code
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"{error.ctx.get_usage()}\n", err=True)
    click.echo(f"lcm: {escape(error.format_message())}", err=True)
    return error.exit_code


def _usage_code(error: click.ClickException) -> str:
    if isinstance(error, UnknownCommand):
        return "INVALID_COMMAND"
    code: str = getattr(error, "code", "INVALID_ARGUMENT")
    return code


def _code(error: LosslessError) -> str:
    if isinstance(error, NotFound) and error.what in ("conversation", "message", "summary", "file"):
        return f"{error.what.upper()}_NOT_FOUND"
    return error.code


def _is_json(line: list[str]) -> bool:
    """What the line said is known only while its command runs; afterwards the line itself is asked."""
    options = line[: line.index("--")] if "--" in line else line
    said = [word == "--json" for word in options if word in ("--json", "--text")]
    if said:
        return said[-1]
    try:
        return is_json()
    except click.UsageError:
        return False


def _tell(code: str, message: str, hint: str, line: list[str]) -> None:
    if _is_json(line):
        told = {"ok": False, "error": {"code": code, "message": message, "hint": hint}}
        click.echo(json.dumps(told), err=True)
    else:
        click.echo(render_line(f"lcm: {' '.join(filter(None, (message, hint)))}"), err=True)


def each_command(root: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command below, with its whole name."""
    for each in root.list_commands(ctx):
        command = root.get_command(ctx, each)
        assert command is not None
        inner = click.Context(command, parent=ctx, info_name=each)
        if isinstance(command, click.Group):
            yield from each_command(command, inner)
        else:
            yield inner.command_path, command


_START: Final = """\
Memory for AI agents that loses nothing.

Start:
  lcm import                     find the sessions of Claude Code, Codex,
                                 OpenClaw and pi on this machine (dry run)
  lcm import --apply             import them
  lcm watch                      import what is new as it is written

Look and search:
  lcm status                     show what is stored and if it is up to date
  lcm conversations              list conversations
  lcm grep WORDS                 search all messages and summaries
  lcm ask "QUESTION"             answer a question from the history

Maintain:
  lcm compact --all              summarise long conversations now
  lcm doctor                     check the database and fix problems
  lcm backup                     copy the database to one verified file

`lcm demo` shows an example, `lcm -h` lists all commands, and
`lcm COMMAND -h` shows the options of one."""


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="`lcm demo` shows it at work; `lcm COMMAND --help` tells every option of a command.",
)
@click.version_option(__version__, prog_name="lcm")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Memory for AI agents that loses nothing."""
    if ctx.invoked_subcommand is None:
        click.echo(_START)


cli.params += common_options()
