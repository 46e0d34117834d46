"""The command `lcm`: a command parses, calls one verb, prints."""

from __future__ import annotations

import json
import sys

import click

from lossless import __version__
from lossless.cli.ask import ask
from lossless.cli.backfill import backfill
from lossless.cli.compact import compact
from lossless.cli.context import context, explain
from lossless.cli.demo import demo
from lossless.cli.describe import describe
from lossless.cli.dissolve import dissolve
from lossless.cli.doctor import doctor
from lossless.cli.expand import expand
from lossless.cli.export import export
from lossless.cli.forget import forget
from lossless.cli.grep import grep
from lossless.cli.history import history, undo
from lossless.cli.imports import import_
from lossless.cli.merge import merge
from lossless.cli.migrate import migrate
from lossless.cli.prompts import prompts
from lossless.cli.repair import repair
from lossless.cli.rewrite import rewrite
from lossless.cli.status import status
from lossless.cli.transplant import transplant
from lossless.cli.watch import watch
from lossless.cli.worker import worker
from lossless.errors import ConfigError, InvalidInput, LosslessError, NotFound, StoreError

_EXIT_CODES: tuple[tuple[type[LosslessError], int], ...] = (
    (InvalidInput, 2),
    (NotFound, 3),
    (ConfigError, 4),
    (StoreError, 5),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lcm")
def cli() -> None:
    """Memory for AI agents that loses nothing."""


for command in (
    *(demo, status, import_, watch, compact, worker, context, explain, prompts, grep, describe, expand, ask),
    *(backfill, transplant, migrate, export),
    *(doctor, rewrite, repair, dissolve, merge, history, undo, forget),
):
    cli.add_command(command)


def main() -> None:
    """Run the command; what goes wrong becomes a sentence and an exit code, never a stack trace."""
    try:
        cli()
    except LosslessError as error:
        if "--json" in sys.argv:
            told = {"ok": False, "error": {"code": error.code, "message": error.message, "hint": error.hint}}
            click.echo(json.dumps(told), err=True)
        else:
            click.echo(f"lcm: {error}", err=True)
        sys.exit(next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1))
