"""`lcm pin`, `lcm unpin` and `lcm pins`: text that a model always sees first."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.options import Command, choose_conversation, conversation_option, open_database
from lossless.cli.output import answer
from lossless.cli.tables import Line, escape_name, plural, shorten, table
from lossless.model import Pin


@click.command(cls=Command, examples=("lcm pin 'Never deploy on Fridays.' -c demo", "lcm pin msg#1000000012"))
@click.argument("what", metavar="WHAT")
@conversation_option(positional=False)
def pin(what: str) -> None:
    """Show a model WHAT in every request: a message (msg#...) or a text.

    It costs its tokens in every request: keep it short. `lcm unpin` removes it.
    """
    with open_database(read_only=False) as lcm:
        chat = choose_conversation(lcm, what, writes=True)
        done = chat.pin(what)
    answer(done, [f"{done.id}: {plural(done.tokens, 'token')} in every request of {escape_name(chat.key)}"])


@click.command(cls=Command, examples=("lcm unpin pin_01234567 -c demo", "lcm unpin pin_01234567 -c demo --json"))
@click.argument("pin", metavar="PIN")
@conversation_option(positional=False)
def unpin(pin: str) -> None:
    """Remove the pin PIN (pin_...). A pinned message stays stored."""
    with open_database(read_only=False) as lcm:
        chat = choose_conversation(lcm, writes=True)
        chat.unpin(pin)
    answer({"id": pin, "key": chat.key}, [f"{pin} removed from {escape_name(chat.key)}."])


@click.command(cls=Command, examples=("lcm pins demo", "lcm pins demo --json"))
@conversation_option()
def pins() -> None:
    """List the pins of a conversation, the oldest first."""
    with open_database() as lcm:
        chat = choose_conversation(lcm)
        found = chat.pins()
    answer({"pins": found}, _lines(found))


def _lines(found: list[Pin]) -> Iterator[Line]:
    if not found:
        yield "No pins."
        return
    rows = [(each.id, f"{each.tokens:,}", _source(each), shorten(each.text, 400)) for each in found]
    yield from table(("pin", "tokens", "message", "text"), rows, wrap=True)


def _source(each: Pin) -> str:
    return "-" if each.message is None else f"msg#{each.message}"
