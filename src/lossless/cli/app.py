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
from lossless.cli.options import UnknownCommand, common_options, named_database, similar, unknown_command
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
        "status": ("status", "show what is stored, new, pending and failing"),
        "hosts": ("install:hosts", "show which agents are connected and deliver"),
        "conversations": ("conversations", "list conversations, show one"),
        "messages": ("messages", "list messages, show one in full"),
        "summaries": ("summaries", "list summaries, show their tree and texts"),
        "context": ("context", "show the context that a model sees"),
        "explain": ("context:explain", "explain why a message is in the context or not"),
        "files": ("files", "list and read large content"),
        "stats": ("stats", "show tokens stored, saved and spent"),
        "config": ("config", "show and change settings"),
    },
    "Recall": {
        "grep": ("grep", "search all messages and summaries"),
        "describe": ("describe", "show a summary, message or file by its id"),
        "expand": ("expand", "read the sources of a summary, word for word"),
        "ask": ("ask", "answer a question from stored history"),
    },
    "Operate": {
        "install": ("install", "connect Claude Code, Codex, OpenClaw and others"),
        "import": ("imports:import_", "import sessions, databases and archives"),
        "watch": ("watch", "follow live transcripts"),
        "backfill": ("backfill", "import a history and compact all of it"),
        "compact": ("compact", "replace old messages with summaries now"),
        "worker": ("compact:worker", "do pending work in the background"),
        "bridge": ("bridge", "serve the plugin of a host"),
        "mcp": ("mcp", "serve this memory to MCP clients"),
        "hook": ("hook", "serve the hooks of Claude Code and Codex"),
        "new": ("sessions:new", "start a new context, as /new does"),
        "reset": ("sessions:reset", "archive a conversation and start a new one"),
        "pin": ("pin", "show a model a text in every request"),
        "unpin": ("pin:unpin", "remove a pin"),
        "pins": ("pin:pins", "list pins"),
        "focus": ("focus", "show a model what matters for a task"),
        "unfocus": ("focus:unfocus", "take that brief away"),
        "export": ("backup:export", "write conversations to a portable archive"),
        "backup": ("backup", "copy the database to one verified file"),
        "restore": ("backup:restore", "restore a backup"),
        "migrate": ("backup:migrate", "copy everything to another database"),
        "forget": ("erase:forget", "erase messages for good"),
        "prune": ("erase:prune", "remove old conversations, keep an archive"),
        "gc": ("erase:gc", "remove unused files and leftovers"),
    },
    "Surgery": {
        "rewrite": ("rewrite", "write summaries again, compare old and new"),
        "repair": ("rewrite:repair", "rewrite summaries that have problems"),
        "dissolve": ("surgery:dissolve", "replace a summary with its sources"),
        "transplant": ("surgery:transplant", "copy a history into another conversation"),
        "merge": ("surgery:merge", "join conversations that a rollover split"),
        "history": ("surgery:history", "list operations on stored data"),
        "undo": ("surgery:undo", "revert an operation"),
    },
    "Health": {
        "doctor": ("doctor", "check the database and fix problems"),
    },
    "Learn": {
        "demo": ("demo", "see it at work in a few seconds"),
        "prompts": ("prompts", "show and replace the prompts for summaries"),
        "completion": ("completion", "complete commands in bash, zsh and fish"),
    },
}
"""Every command by purpose: its module (and its name there if it differs), and a short description."""

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
            raise _ReaderGone from gone  # click would treat it as any other failure
        except KeyboardInterrupt as signal:
            raise _Interrupted from signal  # click would print an empty line
        except LosslessError as error:
            # The database of the command line is known only here.
            from lossless.cli.nearest import add_nearest

            add_nearest(error, named_database())
            raise

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command line. An error becomes a sentence and an exit code, never a stack trace."""
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
    """Open the null device in place of streams that the caller closed."""
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
        _print_error("INTERRUPTED", "Interrupted.", str(stopped), line)
        return _INTERRUPTED
    except (click.Abort, _Interrupted):
        _print_error("INTERRUPTED", "Interrupted.", "What was written stays, and nothing is half written.", line)
        return _INTERRUPTED
    except LosslessError as error:
        _print_error(_code(error), error.message, error.hint, line)
        return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1)
    except (BrokenPipeError, _ReaderGone):
        # The reader has gone. What is left in the buffer must not cause an error at exit, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except OSError as error:
        _without_output(error)
        where = f"{error.filename}: " if error.filename else ""
        _print_error("OS_ERROR", f"{where}{error.strerror or error}.", "Check the path and the free space.", line)
        return 1
    except Exception as error:  # every error is printed as a sentence; LCM_TRACEBACK shows the rest
        if os.environ.get("LCM_TRACEBACK"):
            raise
        hint = "This is a bug in lossless: LCM_TRACEBACK=1 shows where. Please report it."
        _print_error("INTERNAL_ERROR", f"{type(error).__name__}: {error}", hint, line)
        return 1
    return ended if isinstance(ended, int) else 0


def _without_output(error: OSError) -> None:
    """Discard what could not be printed, so that it is not tried again at exit."""
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: click.ClickException, line: list[str]) -> int:
    if _is_json(line):
        _print_error(_usage_code(error), _explain(error), "", line)
        return error.exit_code
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"{error.ctx.get_usage()}\n", err=True)
    click.echo(f"lcm: {escape(_explain(error))}", err=True)
    return error.exit_code


def _explain(error: click.ClickException) -> str:
    """Return the message of an error in the command line, with the nearest valid choice."""
    message = error.format_message().replace("is not a valid integer range", "is not a whole number")
    if isinstance(error, click.BadParameter) and error.param and isinstance(error.param.type, click.Choice):
        near = similar(error.message.split("'")[1], list(error.param.type.choices)) if "'" in error.message else []
        message += f" Did you mean {near[0]}?" if near else ""
    return message


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
    """Return True if errors are printed as JSON. After a command ended, only its words tell."""
    options = line[: line.index("--")] if "--" in line else line
    chosen = [word == "--json" for word in options if word in ("--json", "--text")]
    if chosen:
        return chosen[-1]
    try:
        return is_json()
    except click.UsageError:
        return False


def _print_error(code: str, message: str, hint: str, line: list[str]) -> None:
    if _is_json(line):
        envelope = {"ok": False, "error": {"code": code, "message": message, "hint": hint}}
        click.echo(json.dumps(envelope), err=True)
    else:
        click.echo(render_line(f"lcm: {' '.join(filter(None, (message, hint)))}"), err=True)


def each_command(root: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group, with its full name."""
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
  lcm install HOST               connect claude-code, codex, openclaw, hermes,
                                 pi or opencode (dry run)
  lcm hosts                      show which are connected and deliver
  lcm import                     find old sessions on this machine (dry run)
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
    epilog="`lcm demo` shows it at work; `lcm COMMAND -h` explains a command with examples.",
)
@click.version_option(__version__, prog_name="lcm")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Memory for AI agents that loses nothing."""
    if ctx.invoked_subcommand is None:
        click.echo(_START)


cli.params += common_options()
