"""`lcm worker`: pay what is owed to conversations, in a process of its own."""

from __future__ import annotations

import json
import threading

import click

from lossless.cli.options import Command, model_option, open_database
from lossless.cli.output import answer, is_json, print_progress, until_stopped
from lossless.cli.tables import escape, plural
from lossless.events import Event, log


@click.command(cls=Command)
@click.option("--owner", metavar="NAME", help="Whose conversations; otherwise those of the owner `default`.")
@model_option
@click.option("--once", is_flag=True, help="Do what is owed now, idle or not, and end.")
def worker(owner: str | None, model: str | None, once: bool) -> None:
    """Compact conversations in the background, and make anew what no model wrote.

    Waits until a conversation has been idle for two seconds. Any number of workers may share a database: each debt is paid by one of
    them, and that of a killed one is taken over after a minute. Ends with Ctrl-C or SIGTERM, after the summary it is
    waiting for.
    """
    stop, as_json = threading.Event(), is_json()

    def tell(event: Event) -> None:
        log(event)
        if event.name == "worker.paid" and not stop.is_set():
            click.echo(json.dumps(event.facts) if as_json else escape(event.message))

    with open_database(read_only=False, owner=owner, summarizer=model, on_event=tell) as lcm:
        if once:
            worked = lcm.drain()
            answer(
                {"conversations": worked},
                [f"{plural(worked, 'conversation was', 'conversations were')} owed something"],
            )
            return
        with until_stopped() as stop:
            print_progress("Waiting for work; Ctrl-C ends.")
            lcm.worker().run(stop)
