"""`lcm context` and `lcm explain`: what a model is shown, was shown, and why."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from lossless import Lossless, StoredMessage
from lossless.cli.choose import choose, safe
from lossless.model import Context

_FORMATS = ("anthropic", "openai_chat", "openai_responses", "openclaw")


@click.command()
@click.argument("key", required=False)
@click.option("-c", "--conversation", "named", metavar="KEY", help="The conversation; the same as KEY.")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option(
    "--window", type=click.IntRange(min=1), help="Assemble for a model of so many tokens; otherwise the whole view."
)
@click.option("--at", metavar="TIME", help="What was shown at a past time (ISO 8601) or turn (a number).")
@click.option("--as-prompt", type=click.Choice(_FORMATS), help="The request as a provider gets it, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def context(
    key: str | None,
    named: str | None,
    db: str | None,
    window: int | None,
    at: str | None,
    as_prompt: str | None,
    as_json: bool,
) -> None:
    """What a model is shown of a conversation: every item, in order, with its cost."""
    with Lossless.open(db, read_only=True) as lcm:
        chat = choose(lcm, named or key)
        if at is not None:
            shown = chat.context(at=int(at) if at.isdigit() else at)
        else:
            shown = chat.context() if window is None else chat.assemble(window)
    if as_prompt:
        click.echo(json.dumps(_wire(as_prompt, shown), indent=2, ensure_ascii=True))
    elif as_json:
        click.echo(json.dumps({"ok": True, "command": "context", "data": _data(shown)}))
    else:
        click.echo("\n".join(_lines(shown)))


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
    }


def _item(item: Any) -> dict[str, Any]:
    if isinstance(item, StoredMessage):
        told = {"id": f"msg#{item.id}", "seq": item.seq, "role": item.role, "at": item.at.isoformat()}
        return told | {"tokens": item.tokens, "text": item.text}
    return {"id": item.id, "depth": item.depth, "tokens": item.tokens, "text": item.text}


def _lines(shown: Context) -> list[str]:
    lines = [f"{len(shown.items)} items, {shown.tokens:,} tokens ({shown.reason})"]
    for item in shown.items:
        what = f"{item.seq:>6} {item.role:<9}" if isinstance(item, StoredMessage) else f"{item.id} d{item.depth}"
        lines.append(f"{what} {item.tokens:>7,}  {safe(' '.join(item.text[:300].split()))[:100]}")
    lines += [f"left out: {left.id} ({left.reason}, {left.tokens:,} tokens)" for left in shown.left_out]
    return lines


@click.command()
@click.argument("what")
@click.option("-c", "--conversation", "key", metavar="KEY", help="The conversation; otherwise the newest.")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--window", type=click.IntRange(min=1), help="The model's window, in tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(what: str, key: str | None, db: str | None, window: int | None, as_json: bool) -> None:
    """Why WHAT (a message's id, or words that stand in it) is, or is not, in the context."""
    with Lossless.open(db, read_only=True) as lcm:
        found = choose(lcm, key).explain(what, window=window)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "explain", "data": msgspec.to_builtins(found)}))
    else:
        click.echo(safe(found.text))
