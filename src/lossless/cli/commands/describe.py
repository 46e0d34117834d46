"""`lcm describe`: show a summary, a message or a file, and facts about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

import click
import msgspec

from lossless.cli.options import Command, open_database
from lossless.cli.output import answer, is_json, print_note
from lossless.cli.tables import Line, fact_lines, format_size, format_time, plural
from lossless.ids import message_id
from lossless.model import Description, Summary

_SHOWN = 6


@click.command(
    cls=Command, examples=("lcm describe sum_0123456789abcdef", "lcm describe msg#1000000068 --start-line 20")
)
@click.argument("id")
@click.option("--start-line", type=click.IntRange(min=1), help="Show the text from this line on.")
@click.option("--end-line", type=click.IntRange(min=1), help="Show the text up to this line.")
@click.option("--offset", type=click.IntRange(min=0), help="Show the text from this byte on.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Show at most so many tokens of the text.")
def describe(id: str, start_line: int | None, end_line: int | None, offset: int | None, max_tokens: int | None) -> None:
    """Show the text of a summary, message (msg#...) or file ID, then facts about it. Reads only.

    The tree below a summary, with the cost of each branch, is in --json; `lcm summaries tree` draws it.
    """
    with open_database() as lcm:
        found = lcm.describe(id, start_line=start_line, end_line=end_line, offset=offset, max_tokens=max_tokens)
        zone = lcm.settings.zone
    answer({**msgspec.to_builtins(found), "text": found.text}, _lines(found, zone))
    page = found.page
    if page is not None and page.next_offset is not None and not is_json():
        following = f"--offset {page.next_offset}" if page.next_line is None else f"--start-line {page.next_line}"
        print_note(f"More: {following}")


def _lines(found: Description, zone: tzinfo) -> Iterator[Line]:
    yield found.content
    yield ""
    if found.summary is not None:
        yield from _summary_facts(found, found.summary, zone)
    elif found.message is not None:
        stored = found.message
        yield from fact_lines(
            "message", f"{found.id}, {stored.message.role}, number {stored.seq:,} of conversation {found.conversation}"
        )
        yield from fact_lines("time", format_time(stored.at, zone))
        yield from fact_lines("length", plural(stored.tokens, "token"))
    elif found.file is not None:
        file = found.file
        lines = "" if file.lines is None else f", {plural(file.lines, 'line')}"
        yield from fact_lines("file", " ".join(filter(None, (found.id, file.name))))
        yield from fact_lines("type", f"{file.mime or 'unknown'}, {format_size(file.bytes)}{lines}")
        yield from fact_lines("stored", format_time(file.created_at, zone))
    if found.consumers:
        yield from fact_lines("summarised in", _names(found.consumers))
    if found.file_ids and found.kind != "file":
        yield from fact_lines("files", _names(found.file_ids))


def _summary_facts(found: Description, summary: Summary, zone: tzinfo) -> Iterator[Line]:
    yield from fact_lines("summary", f"{found.id}, depth {summary.depth}, conversation {found.conversation}")
    yield from fact_lines(
        "covers",
        f"{_period(summary.earliest_at, summary.latest_at, zone)}{plural(summary.source_tokens, 'token')} of messages",
    )
    yield from fact_lines("length", plural(summary.tokens, "token"))
    written = "without a model" if summary.level in ("extractive", "cut") else f"by {summary.model}"
    doubts = f"; {summary.suspected} not found in its sources" if summary.suspected else ""
    yield from fact_lines("written", f"{written}{doubts}")
    if found.sources:
        below = f" ({plural(summary.descendants, 'summary', 'summaries')} below)" if summary.descendants else ""
        yield from fact_lines("made from", f"{_names(found.sources)}{below}")
    elif found.message_ids:
        first, last = message_id(found.message_ids[0]), message_id(found.message_ids[-1])
        messages = first if first == last else f"{first} to {last} ({plural(len(found.message_ids), 'message')})"
        yield from fact_lines("made from", messages)
    yield from fact_lines("next", f"lcm expand {found.id}", "cyan")


def _period(first: datetime | None, last: datetime | None, zone: tzinfo) -> str:
    times = dict.fromkeys(format_time(at, zone) for at in (first, last) if at)
    return f"{' to '.join(times)}, " if times else ""


def _names(ids: tuple[str, ...]) -> str:
    more = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
