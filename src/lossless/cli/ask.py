"""`lcm ask`: a question about the past, answered from what was said."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from lossless import Answer, Lossless
from lossless.cli.frame import Command, answer, conversation, is_json, named_conversation, opened, remark
from lossless.cli.tables import Line, Paint, many
from lossless.errors import StoreReadOnly

_SHOWN = 8


@click.command(cls=Command)
@click.argument("question")
@conversation(positional=False, otherwise="all of them")
@click.option("--id", "ids", multiple=True, help="A summary or message to look at; may be repeated.")
@click.option("--query", help="Words that find the place; otherwise the question itself.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="How long the answer may be.")
@click.option("--token-cap", type=click.IntRange(min=1), help="How much may be read; otherwise what the settings say.")
@click.option(
    "--model", metavar="NAME", help='"provider/model", "command:..." or "extractive"; otherwise what the settings say.'
)
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
            remark(f"lcm: {found.error}")
        if len(found.evidence) > _SHOWN:
            remark(f"\n{many(len(found.evidence) - _SHOWN, 'more piece')} of evidence; --json tells all.")
        if found.dropped:
            remark(f"not found in what was read: {'; '.join(found.dropped)}")
    if found.error:
        sys.exit(1)


def _opened(model: str | None) -> Lossless:
    try:
        return opened(read_only=False, summarizer=model)
    except StoreReadOnly:  # where no model is asked, nothing is noted
        return opened(summarizer=model)


def _lines(found: Answer) -> Iterator[Line]:
    if found.answer:
        yield found.answer
    elif not found.evidence and not found.error:
        yield "Nothing was found."
    elif found.evidence:
        yield Paint("No model answered. What was said:", dim=True)
    for each in found.evidence[:_SHOWN]:
        when = f", {each.at:%Y-%m-%d %H:%M} UTC" if each.at else ""
        yield ""
        yield Paint(f"[{each.id}{when}]", "cyan")
        yield each.quote
