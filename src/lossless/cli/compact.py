"""`lcm compact`: put summaries in the place of old runs now."""

from __future__ import annotations

import json

import click
import msgspec

from lossless import Lossless

WINDOW = 128_000


@click.command()
@click.argument("key")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option(
    "--window", type=click.IntRange(min=1), default=WINDOW, show_default=True, help="The model's window, in tokens."
)
@click.option("--target", type=click.IntRange(min=1), help="Compact until the context is below so many tokens.")
@click.option("--force", is_flag=True, help="Also below the threshold.")
@click.option(
    "--model", metavar="NAME", help='"provider/model", "command:..." or "extractive"; otherwise what the settings say.'
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compact(
    key: str, db: str | None, window: int, target: int | None, force: bool, model: str | None, as_json: bool
) -> None:
    """Summarise what is old in the conversation KEY, as far as it is worth it."""
    with Lossless.open(db, summarizer=model) as lcm:
        chat = lcm.conversation(key)
        chat.status()
        done = chat.compact(window, force=force, target=target)
    if as_json:
        click.echo(json.dumps({"ok": True, "command": "compact", "data": msgspec.to_builtins(done)}))
    else:
        click.echo(
            f"{done.stop}: {done.tokens_before:,} -> {done.tokens_after:,} tokens, {len(done.summaries)} summaries made"
        )
