"""`lcm ask`: a question about the past, answered from what was said."""

from __future__ import annotations

import json
import sys

import click
import msgspec

from lossless import Answer, Lossless
from lossless.cli.choose import safe


@click.command()
@click.argument("question")
@click.option("-c", "--conversation", "key", metavar="KEY", help="One conversation; otherwise all of them.")
@click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
@click.option("--id", "ids", multiple=True, help="A summary or message to look at; may be repeated.")
@click.option("--query", help="Words that find the place; otherwise the question itself.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="How long the answer may be.")
@click.option("--token-cap", type=click.IntRange(min=1), help="How much may be read; otherwise what the settings say.")
@click.option(
    "--model", metavar="NAME", help='"provider/model", "command:..." or "extractive"; otherwise what the settings say.'
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ask(
    question: str,
    key: str | None,
    db: str | None,
    ids: tuple[str, ...],
    query: str | None,
    max_tokens: int | None,
    token_cap: int | None,
    model: str | None,
    as_json: bool,
) -> None:
    """Answer QUESTION from what was said, with the words it rests on. Without a model it shows the words alone."""
    with Lossless.open(db, summarizer=model) as lcm:
        asked = lcm if key is None else lcm.conversation(key)
        found = asked.ask(question, ids=ids, query=query, max_tokens=max_tokens, token_cap=token_cap)
    if as_json:
        click.echo(json.dumps({"ok": not found.error, "command": "ask", "data": msgspec.to_builtins(found)}))
    else:
        _print(found)
    if found.error:
        sys.exit(1)


def _print(found: Answer) -> None:
    if found.error:
        click.echo(f"lcm: {safe(found.error)}", err=True)
    if found.answer:
        click.echo(safe(found.answer))
    elif not found.evidence:
        click.echo("Nothing was found.")
    for each in found.evidence:
        when = f", {each.at:%Y-%m-%d %H:%M} UTC" if each.at else ""
        click.echo(f"\n[{each.id}{when}]\n{safe(each.quote)}")
    if found.dropped:
        click.echo(f"\nnot found in what was read: {safe('; '.join(found.dropped))}", err=True)
