"""`lcm context` and `lcm explain`: show the context of a conversation, and explain a place in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from lossless import StoredMessage
from lossless.cli.options import Command, choose_conversation, conversation_option, open_database
from lossless.cli.output import answer, as_json
from lossless.cli.tables import Line, Styled, fact_lines, plural, shorten, terminal_width
from lossless.engine.recall.reader import words
from lossless.model import Context, Summary

_FORMATS = ("anthropic", "openai_chat", "openai_responses", "openclaw")
_LEAST = 5
_OVER = "pins, the newest user message and the newest tool round are always included, and exceed it"
_BESIDE = "frames of summaries, pins, and references in place of large content"


@click.command(cls=Command, examples=("lcm context demo --window 4000", "lcm context demo --as-prompt anthropic"))
@conversation_option()
@click.option(
    "--window", type=click.IntRange(min=1), metavar="N", help="Assemble for a window of N tokens (default: no limit)."
)
@click.option("--at", metavar="TIME", help="Context at a past time (12h, yesterday, ISO) or turn (a number).")
@click.option("--as-prompt", type=click.Choice(_FORMATS), help="Print only the request to a provider, as JSON.")
def context(window: int | None, at: str | None, as_prompt: str | None) -> None:
    """Show the items that a model sees of a conversation, in order, with their tokens."""
    with open_database() as lcm:
        chat = choose_conversation(lcm)
        if at is not None:
            shown = chat.context(at=int(at) if at.isdigit() else at)
        else:
            shown = chat.context() if window is None else chat.assemble(window)
    if as_prompt:
        click.echo(as_json(_wire(as_prompt, shown), indent=2))
    else:
        answer(_data(shown), _lines(shown, None if at else window))


def _wire(name: str, shown: Context) -> dict[str, Any]:
    from importlib import import_module

    request: dict[str, Any] = import_module(f"lossless.formats.{name}").dump(shown)
    return request


def _data(shown: Context) -> dict[str, Any]:
    return {
        "tokens": shown.tokens,
        "over_budget": shown.over_budget,
        "reason": shown.reason,
        "items": [_item(item) for item in shown.items],
        "left_out": msgspec.to_builtins(shown.left_out),
        "brief": shown.brief,
    }


def _item(item: Any) -> dict[str, Any]:
    if isinstance(item, StoredMessage):
        fields = {"id": f"msg#{item.id}", "seq": item.seq, "role": item.role, "at": item.at.isoformat()}
        return fields | {"tokens": item.tokens, "text": item.text}
    return {"id": item.id, "depth": item.depth, "tokens": item.tokens, "text": item.text}


def _lines(shown: Context, window: int | None) -> Iterator[Line]:
    of = f" of {window:,}" if window else ""
    left = f"; {len({each.id for each in shown.left_out}):,} left out" if shown.left_out else ""
    yield f"{plural(len(shown.items), 'item')}, {shown.tokens:,}{of} tokens ({shown.reason}){left}"
    if shown.over_budget:
        yield from fact_lines("over budget", _OVER, "yellow")
    for item in shown.items:
        is_message = isinstance(item, StoredMessage)
        what = f"{item.seq:>6} {item.role:<9}" if isinstance(item, StoredMessage) else f"{item.id} d{item.depth}"
        head = f"{what} {item.tokens:>7,}  "
        space = terminal_width() - len(head)
        yield Styled(head, None if is_message else "cyan"), shorten(_text(item), space) if space >= _LEAST else ""
    if shown.brief:
        yield from fact_lines("focus", f"{shown.brief} is shown after the summaries; `lcm focus` prints it.")
    if beside := shown.tokens - sum(item.tokens for item in shown.items):
        yield from fact_lines("as sent", f"{beside:+,} tokens: {_BESIDE}", dim=True)
    for left_out in shown.left_out:
        yield from fact_lines(
            "left out", f"{left_out.id} ({left_out.reason}, {plural(left_out.tokens, 'token')})", "yellow"
        )


def _text(item: StoredMessage | Summary) -> str:
    return item.text or (words(item.message) if isinstance(item, StoredMessage) else "")


@click.command(cls=Command, examples=("lcm explain msg#1000000012 -c demo", "lcm explain 'the login page' -c demo"))
@click.argument("what")
@conversation_option(positional=False)
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Window of the model, in tokens.")
def explain(what: str, window: int | None) -> None:
    """Explain why the message WHAT (an id, or words in it) is in the context or not."""
    with open_database() as lcm:
        found = choose_conversation(lcm, what).explain(what, window=window)
    answer(found, [found.text])
