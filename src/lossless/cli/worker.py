"""`lcm worker`: pay what is owed to conversations, in a process of its own."""

from __future__ import annotations

import json
import signal
import threading
from types import FrameType

import click

from lossless import Lossless
from lossless.events import Event, log


@click.command()
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--owner", metavar="NAME", help="Whose conversations; otherwise those of the owner `default`.")
@click.option(
    "--model", metavar="NAME", help='"provider/model", "command:..." or "extractive"; otherwise what the settings say.'
)
@click.option("--once", is_flag=True, help="Do what is owed now, idle or not, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def worker(db: str | None, owner: str | None, model: str | None, once: bool, as_json: bool) -> None:
    """Compact conversations in the background, and make anew what no model wrote.

    Waits until a conversation has been idle for two seconds. Any number of workers may share a database: each debt is paid by one of
    them, and that of a killed one is taken over after a minute. Ends with Ctrl-C or SIGTERM, after the summary it is
    waiting for.
    """
    stop = threading.Event()

    def tell(event: Event) -> None:
        log(event)
        if event.name == "worker.paid" and not stop.is_set():
            click.echo(json.dumps(event.facts) if as_json else event.message)

    with Lossless.open(db, owner=owner, summarizer=model, on_event=tell) as lcm:
        if once:
            worked = lcm.drain()
            told = json.dumps({"ok": True, "command": "worker", "data": {"conversations": worked}})
            click.echo(told if as_json else f"{worked} conversations were owed something")
            return

        def end(number: int, frame: FrameType | None) -> None:
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        click.echo("Waiting for work; Ctrl-C ends.", err=True)
        lcm.worker().run(stop)
