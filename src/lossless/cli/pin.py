"""`lcm pin`, `lcm unpin` and `lcm pins`: what a model is always shown, before everything else."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.choose import choose
from lossless.cli.frame import Command, answer, conversation, opened
from lossless.cli.tables import Line, many, one_line, table
from lossless.model import Pin


@click.command(cls=Command)
@click.argument("what", metavar="WHAT")
@conversation(positional=False)
def pin(what: str) -> None:
    """Have a model always see WHAT: a message by its id (msg#...), or a text of your own.

    It costs its tokens in every request, so keep it short. `lcm unpin` takes it away again.
    """
    with opened(read_only=False) as lcm:
        chat = choose(lcm, what, writes=True)
        done = chat.pin(what)
    answer(done, [f"{done.id}: {many(done.tokens, 'token')} of every request to {chat.key}"])


@click.command(cls=Command)
@click.argument("pin", metavar="PIN")
@conversation(positional=False)
def unpin(pin: str) -> None:
    """Take the pin PIN (pin_...) away. `lcm pins` lists them; the message it came from stays."""
    with opened(read_only=False) as lcm:
        chat = choose(lcm, writes=True)
        chat.unpin(pin)
    answer({"id": pin, "key": chat.key}, [f"{pin} is no longer shown to {chat.key}."])


@click.command(cls=Command)
@conversation()
def pins() -> None:
    """What is pinned in a conversation, the oldest first. Reads only."""
    with opened() as lcm:
        chat = choose(lcm)
        found = chat.pins()
    answer(found, _lines(found))


def _lines(found: list[Pin]) -> Iterator[Line]:
    if not found:
        yield "Nothing is pinned."
        return
    rows = [(each.id, f"{each.tokens:,}", _source(each), one_line(each.text, 400)) for each in found]
    yield from table(("pin", "tokens", "message", "text"), rows)


def _source(each: Pin) -> str:
    return "-" if each.message is None else f"msg#{each.message}"
