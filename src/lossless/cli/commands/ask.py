"""`lcm ask`: answer a question from the history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import tzinfo

import click

from lossless import Answer, Lossless
from lossless.cli.options import Command, conversation_option, model_option, named_conversation, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.cli.tables import Line, Styled, format_time, plural
from lossless.errors import StoreReadOnly

_SHOWN, _LINES = 8, 8


@click.command(
    cls=Command,
    examples=('lcm ask "Which port does the staging server use?"', 'lcm ask "Why was plan B dropped?" -c 12'),
)
@click.argument("question")
@conversation_option(positional=False, otherwise="all of them")
@click.option("--id", "ids", multiple=True, help="Summary or message to read; repeatable.")
@click.option("--query", help="Words to search for (default: the question).")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum length of the answer.")
@click.option("--token-cap", type=click.IntRange(min=1), help="Maximum tokens to read (default: `max_expand_tokens`).")
@model_option
def ask(
    question: str,
    ids: tuple[str, ...],
    query: str | None,
    max_tokens: int | None,
    token_cap: int | None,
    model: str | None,
) -> None:
    """Answer QUESTION from the history, with quotes as evidence. Without a model, show the quotes alone.

    Searches all conversations unless one is named. Exits with 1 if the model fails.
    """
    with _open(model) as lcm:
        name = named_conversation()
        scope = lcm if name is None else lcm.find(name)
        found = scope.ask(question, ids=ids, query=query, max_tokens=max_tokens, token_cap=token_cap)
        zone = lcm.settings.zone
    answer(found, _lines(found, zone), ok=not found.error)
    if not is_json():
        if found.error:
            print_note(f"lcm: {found.error}")
        if len(found.evidence) > _SHOWN:
            print_note(f"\n{plural(len(found.evidence) - _SHOWN, 'more quote')}; --json contains all.")
        if found.dropped:
            print_note(f"Not found in what was read: {'; '.join(found.dropped)}")
    if found.error:
        sys.exit(1)


def _open(model: str | None) -> Lossless:
    try:
        return open_database(read_only=False, summarizer=model)
    except StoreReadOnly:  # without a model nothing is recorded
        return open_database(summarizer=model)


def _lines(found: Answer, zone: tzinfo) -> Iterator[Line]:
    if found.answer:
        yield found.answer
    elif not found.evidence and not found.error:
        yield "Nothing found."
    elif found.evidence:
        yield Styled("No model answered. Quotes from the history:", dim=True)
    best = found.evidence[:_SHOWN]
    if not found.answer and found.cited_ids:
        best = tuple(each for each in found.evidence if each.id in found.cited_ids[:_SHOWN])
    for each in best:
        yield ""
        yield Styled("  ".join(filter(None, (each.id, format_time(each.at, zone) if each.at else ""))), "cyan")
        lines = each.quote.splitlines()
        yield from lines[:_LINES]
        if len(lines) > _LINES:
            yield Styled(f"... {plural(len(lines) - _LINES, 'more line')}: lcm expand {each.id}", dim=True)
