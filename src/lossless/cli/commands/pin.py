"""`lcm pin`, `lcm unpin` and `lcm pins`: what a model is always shown, before everything else."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.options import Command, choose_conversation, conversation_option, open_database
from lossless.cli.output import answer
from lossless.cli.tables import Line, plural, shorten, table
from lossless.model import Pin


@click.command(cls=Command)
@click.argument("what", metavar="WHAT")
@conversation_option(positional=False)
def pin(what: str) -> None:
    """Have a model always see WHAT: a message by its id (msg#...), or a text of your own.

    It costs its tokens in every request, so keep it short. `lcm unpin` takes it away again.
    """
    with open_database(read_only=False) as lcm:
        chat = choose_conversation(lcm, what, writes=True)
        done = chat.pin(what)
    answer(done, [f"{done.id}: {plural(done.tokens, 'token')} of every request to {chat.key}"])


@click.command(cls=Command)
@click.argument("pin", metavar="PIN")
@conversation_option(positional=False)
def unpin(pin: str) -> None:
    """Take the pin PIN (pin_...) away. `lcm pins` lists them; the message it came from stays."""
    with open_database(read_only=False) as lcm:
        chat = choose_conversation(lcm, writes=True)
        chat.unpin(pin)
    answer({"id": pin, "key": chat.key}, [f"{pin} is no longer shown to {chat.key}."])


@click.command(cls=Command)
@conversation_option()
def pins() -> None:
    """What is pinned in a conversation, the oldest first. Reads only."""
    with open_database() as lcm:
        chat = choose_conversation(lcm)
        found = chat.pins()
    answer({"pins": found}, _lines(found))


def _lines(found: list[Pin]) -> Iterator[Line]:
    if not found:
        yield "Nothing is pinned."
        return
    rows = [(each.id, f"{each.tokens:,}", _source(each), shorten(each.text, 400)) for each in found]
    yield from table(("pin", "tokens", "message", "text"), rows)


def _source(each: Pin) -> str:
    return "-" if each.message is None else f"msg#{each.message}"
