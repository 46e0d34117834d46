"""`lcm stats`: show tokens stored, summarised, shown and spent."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lossless.cli.options import Command, conversation_option, named_conversation, open_database
from lossless.cli.output import answer
from lossless.cli.tables import INDENT, Line, Styled, fact_lines, format_minute, plural, shorten, table, terminal_width
from lossless.model import DayFigures, ModelFigures, Stats, Turns

_BAR = 30


@click.command(cls=Command, examples=("lcm stats", "lcm stats demo --since 30d"))
@conversation_option(otherwise="all of them")
@click.option("--since", metavar="TIME", help="Only from this time on: 2026-08-01, 90d, yesterday.")
def stats(since: str | None) -> None:
    """Show tokens stored, summarised, shown and saved, the cost of summaries, and messages per day.

    Estimates are marked with `about`: the tokens of the whole history in each turn, money (list prices, without prompts
    and failed calls), and in a large database figures that are counted from a sample of messages.
    """
    with open_database() as lcm:
        found = lcm.stats(named_conversation(), since)
    answer(found, _lines(found))


def _lines(found: Stats) -> Iterator[Line]:
    held = found.holdings
    if found.since:
        yield from fact_lines("since", f"{format_minute(found.since)} UTC")
    yield from fact_lines("conversations", f"{found.conversations:,}")
    yield from fact_lines("stored", f"{plural(held.messages, 'message')}, {plural(held.message_tokens, 'token')}")
    share = "n/a" if held.coverage is None else f"{held.coverage:.0%}"
    yield from fact_lines("summarised", f"{plural(held.source_tokens, 'token')} ({share})")
    ratio = "n/a" if held.ratio is None else f"1:{held.ratio}"
    yield from fact_lines("in context", f"{plural(held.context_tokens, 'token')}; compression {ratio}")
    yield from _shown(found.turns, found.step)
    yield from _roles(found)
    yield from _depths(found)
    yield from _models(found)
    yield from _days(found.days, found.days_step)
    yield from _biggest(found)


def _shown(turns: Turns, step: int) -> Iterator[Line]:
    if not turns.turns:
        yield from fact_lines("shown", "no turns recorded")
        return
    turns_text = f"{plural(turns.turns, 'turn')} of {plural(turns.conversations, 'conversation')}"
    yield from fact_lines("shown", f"{turns_text}: {turns.shown_tokens // turns.turns:,} tokens a turn")
    whole, about = turns.whole_tokens // turns.turns, "about " if step > 1 else ""
    yield from fact_lines("instead of", f"{about}{whole:,} tokens a turn with the whole history (estimate)")
    share = turns.saved_tokens / turns.whole_tokens if turns.whole_tokens else 0
    yield from fact_lines("saved", f"about {turns.saved_tokens:,} tokens ({share:.0%})", "green")


def _roles(found: Stats) -> Iterator[Line]:
    if found.roles:
        yield ""
        about = " (about)" if found.step > 1 else ""
        rows = [(each.role, f"{each.messages:,}", f"{each.tokens:,}") for each in found.roles]
        yield from table(("role", f"messages{about}", f"tokens{about}"), rows)


def _depths(found: Stats) -> Iterator[Line]:
    if found.holdings.depths:
        yield ""
        rows = [
            (
                f"{each.depth}",
                f"{each.summaries:,}",
                f"{each.tokens:,}",
                f"{each.source_tokens:,}",
                "n/a" if each.ratio is None else f"1:{each.ratio:.0f}",
            )
            for each in found.holdings.depths
        ]
        yield from table(("depth", "summaries", "tokens", "messages below", "compression"), rows)


def _models(found: Stats) -> Iterator[Line]:
    if not found.models:
        return
    yield ""
    rows = [
        (shorten(each.model, 40), f"{each.texts:,}", f"{each.tokens_read:,}", f"{each.tokens_written:,}", _cost(each))
        for each in found.models
    ]
    yield from table(("model", "texts", "read", "written", "cost"), rows)
    cost = "unknown price" if found.cost is None else f"about ${found.cost:,.2f} by list prices"
    if found.cost != 0:
        yield from fact_lines("cost", f"{cost}; without prompts, failed calls and answers to questions")


def _cost(each: ModelFigures) -> str:
    if each.cost is None:
        return "unknown price"
    return f"${each.cost:,.2f}" if each.cost else "none"


def _days(days: tuple[DayFigures, ...], step: int) -> Iterator[Line]:
    most = max(each.messages for each in days)
    if not most:
        yield Styled(f"no message in the last {len(days)} days", dim=True)
        return
    yield ""
    yield Styled(f"messages a day{' (about)' if step > 1 else ''}, in UTC", dim=True)
    wide = len(f"{most:,}")
    space = max(5, min(_BAR, terminal_width() - INDENT - wide))
    for each in days:
        bar = "█" * (-(-each.messages * space // most) if most else 0)
        yield (f"{each.day:%a %b %d}  {each.messages:>{wide},}  ", Styled(bar, "cyan"))


def _biggest(found: Stats) -> Iterator[Line]:
    if len(found.biggest) > 1:
        yield ""
        rows = [(f"{each.messages:,}", f"{each.context_tokens:,}", each.key) for each in found.biggest]
        yield from table(("messages", "in context", "largest conversations"), rows)
