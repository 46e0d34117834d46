"""`lcm ask`: a question about the past, answered from what was said."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from lossless import Answer, Lossless
from lossless.cli.options import Command, conversation_option, model_option, named_conversation, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.cli.tables import Line, Styled, plural
from lossless.errors import StoreReadOnly

_SHOWN = 8


@click.command(cls=Command)
@click.argument("question")
@conversation_option(positional=False, otherwise="all of them")
@click.option("--id", "ids", multiple=True, help="A summary or message to look at; may be repeated.")
@click.option("--query", help="Words that find the place; otherwise the question itself.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="How long the answer may be.")
@click.option("--token-cap", type=click.IntRange(min=1), help="How much may be read; otherwise what the settings say.")
@model_option
def ask(
    question: str,
    ids: tuple[str, ...],
    query: str | None,
    max_tokens: int | None,
    token_cap: int | None,
    model: str | None,
) -> None:
    """Answer QUESTION from what was said, with the words it rests on. Without a model it shows the words alone.

    Asks all conversations, unless one is named. Exits with 1 if the model fails.
    """
    with _opened(model) as lcm:
        name = named_conversation()
        asked = lcm if name is None else lcm.find(name)
        found = asked.ask(question, ids=ids, query=query, max_tokens=max_tokens, token_cap=token_cap)
    answer(found, _lines(found), ok=not found.error)
    if not is_json():
        if found.error:
            print_note(f"lcm: {found.error}")
        if len(found.evidence) > _SHOWN:
            print_note(f"\n{plural(len(found.evidence) - _SHOWN, 'more piece')} of evidence; --json tells all.")
        if found.dropped:
            print_note(f"not found in what was read: {'; '.join(found.dropped)}")
    if found.error:
        sys.exit(1)


def _opened(model: str | None) -> Lossless:
    try:
        return open_database(read_only=False, summarizer=model)
    except StoreReadOnly:  # where no model is asked, nothing is noted
        return open_database(summarizer=model)


def _lines(found: Answer) -> Iterator[Line]:
    if found.answer:
        yield found.answer
    elif not found.evidence and not found.error:
        yield "Nothing was found."
    elif found.evidence:
        yield Styled("No model answered. What was said:", dim=True)
    for each in found.evidence[:_SHOWN]:
        when = f", {each.at:%Y-%m-%d %H:%M} UTC" if each.at else ""
        yield ""
        yield Styled(f"[{each.id}{when}]", "cyan")
        yield each.quote
