"""`lcm focus` and `lcm unfocus`: show a model what matters for a task."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless import Brief
from lossless.cli.options import Command, choose_conversation, conversation_option, model_option, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.cli.tables import Line, escape_name, fact_lines, format_minute, plural, shorten, table
from lossless.errors import InvalidInput


@click.command(
    cls=Command,
    examples=('lcm focus "Move the login page to OAuth" -c demo', "lcm focus --refresh -c demo"),
)
@click.argument("task", required=False)
@conversation_option(positional=False)
@click.option("--name", metavar="NAME", help="Keep the brief under a name; without TASK, show that one again.")
@click.option("--tokens", type=click.IntRange(500, 12_000), help="Size of the brief (default: a tenth of the history).")
@click.option("--refresh", is_flag=True, help="Rewrite the brief if anything was stored or changed since.")
@click.option("--list", "listed", is_flag=True, help="List the briefs that are kept.")
@model_option
def focus(
    task: str | None, name: str | None, tokens: int | None, refresh: bool, listed: bool, model: str | None
) -> None:
    """Show a model a brief of what matters for TASK in every request. Without TASK, print the active brief.

    The brief is made from the entire history and follows the summaries. Without a model it consists of quotations.
    `lcm unfocus` takes it away.
    """
    reads = task is None and name is None and not refresh
    if listed and not reads:
        raise InvalidInput("--list takes neither TASK nor other options.", hint="Give one of them.")
    with open_database(read_only=reads, summarizer=model) as lcm:
        chat = choose_conversation(lcm, writes=not reads)
        if listed:
            briefs = chat.briefs()
            answer({"briefs": briefs}, _table(briefs))
            return
        found = chat.focused() if reads else chat.focus(task, name=name, tokens=tokens, refresh=refresh)
    answer({"brief": found}, _lines(found))
    if found and not is_json():
        if found.problem:
            print_note(f"lcm: {found.problem} The brief consists of quotations.")
        if found.dropped:
            print_note(f"{plural(found.dropped, 'statement')} left out: not found in the texts they cite.")


@click.command(cls=Command, examples=("lcm unfocus demo", "lcm unfocus demo --json"))
@conversation_option()
def unfocus() -> None:
    """Stop showing the brief to models. It is kept: `lcm focus --name NAME` shows a named one again."""
    with open_database(read_only=False) as lcm:
        chat = choose_conversation(lcm, writes=True)
        done = chat.unfocus()
    text = "The brief is not shown any more" if done else "No brief is active"
    answer({"key": chat.key, "unfocused": done}, [f"{text}: {escape_name(chat.key)}."])


def _lines(found: Brief | None) -> Iterator[Line]:
    if found is None:
        yield "No brief is active."
        return
    yield from fact_lines("brief", f"{found.id}{f' ({found.name})' if found.name else ''}")
    yield from fact_lines("task", found.task)
    yield from fact_lines("written", f"{format_minute(found.created_at)} UTC by {found.model}")
    yield from fact_lines("size", f"{plural(found.tokens, 'token')} from {plural(len(found.sources), 'text')}")
    if found.new_messages or found.stale:
        state = "stale: lcm focus --refresh" if found.stale else "all of them in the context"
        color = "yellow" if found.stale else None
        yield from fact_lines("since then", f"{plural(found.new_messages, 'new message')}; {state}", color)
    yield ""
    yield from found.text.splitlines()


def _table(briefs: list[Brief]) -> Iterator[Line]:
    if not briefs:
        yield "No briefs."
        return
    rows = [(each.name or "-", _state(each), f"{each.tokens:,}", shorten(each.task, 400)) for each in briefs]
    yield from table(("name", "state", "tokens", "task"), rows, wrap=True)


def _state(brief: Brief) -> str:
    return f"{'active' if brief.active else 'kept'}{', stale' if brief.stale else ''}"
