"""`lcm hook`: what Claude Code and Codex call at their events."""

from __future__ import annotations

import os
import sys

import click

from lossless.cli.options import Command, named_database
from lossless.hosts.hook.client import HOSTS, main


@click.command(cls=Command, examples=("lcm hook claude-code", "lcm hook codex"))
@click.argument("host", type=click.Choice(HOSTS), metavar="HOST")
def hook(host: str) -> None:
    """Handle one event of HOST (claude-code or codex): its JSON comes on stdin, the answer goes to stdout.

    Hosts call it themselves, once their settings name it. It stores what is new in the session's transcript, adds
    history to the context on resume and after a compaction, and a reminder to a prompt that asks about the past.

    A background process does the work and ends 90 seconds after the last event. The exit code is always 0, and nothing
    is printed after an error: `lcm status` shows it.
    """
    if database := named_database():
        os.environ["LCM_DATABASE_PATH"] = str(database)
    sys.exit(main(host))
