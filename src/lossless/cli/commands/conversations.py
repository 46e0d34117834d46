"""`lcm conversations`: list conversations, and show one with all its figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lossless.cli.options import (
    Group,
    choose_conversation,
    conversation_option,
    cursor_option,
    limit_option,
    named_conversation,
    open_database,
)
from lossless.cli.output import Page, answer
from lossless.cli.since_until import chosen_times, time_options
from lossless.cli.tables import (
    Line,
    Styled,
    escape_name,
    fact_lines,
    format_minute,
    format_size,
    format_time,
    plural,
    shorten,
    table,
    zone_heading,
)

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless.model import ContextFigures, Debt, ListedConversation, Relative, ShownConversation, TranscriptPosition

_ACTIVE = {"active": True, "archived": False, "all": None}
_HEADS = ("id", "title", "state", "messages", "first", "last at", "tokens", "summaries", "context", "key")
_LEAST = ("context", "summaries", "key", "tokens", "first", "last at", "messages", "state")
"""The columns that leave first on a narrow terminal."""


@click.group(cls=Group, examples=("lcm conversations", "lcm conversations show demo"))
def conversations() -> None:
    """List conversations, and show one with all its figures."""


@conversations.command("list", examples=("lcm conversations list --since 7d", "lcm conversations list --all -L 10"))
@click.option("--active", "which", flag_value="active", default="active", help="Only active conversations (default).")
@click.option("--archived", "which", flag_value="archived", help="Only archived conversations.")
@click.option("--all", "which", flag_value="all", help="Active and archived conversations.")
@time_options
@limit_option()
@cursor_option
def list_(which: str, limit: int, cursor: str | None) -> None:
    """List conversations, the newest activity first.

    A title is the first words of the user, or the title that was given. A wide terminal also shows tokens, summaries,
    the tokens of the context, and keys. `--since` and `--until` apply to the last activity.
    """
    times = chosen_times()
    with open_database() as lcm:
        listed = lcm.conversations(
            active=_ACTIVE[which],
            since=times.since,
            until=times.until,
            limit=limit,
            cursor=cursor,
        )
        zone = lcm.settings.zone
    page = Page(limit=limit, returned=len(listed), next_cursor=listed.next_cursor)
    answer({"conversations": listed}, _rows(listed, zone, with_state=which != "active"), page=page)


def _rows(listed: tuple[ListedConversation, ...], zone: tzinfo, *, with_state: bool) -> Iterator[Line]:
    if not listed:
        yield "No conversations."
        return
    shown = [head for head in _HEADS if with_state or head != "state"]
    heads = [zone_heading(head, zone) if head == "last at" else head for head in shown]
    rows = [_row(each, zone) for each in listed]
    yield from table(heads, ([row[head] for head in shown] for row in rows), least=_LEAST)


def _row(each: ListedConversation, zone: tzinfo) -> dict[str, str]:
    return {
        "id": f"#{each.id}",
        "title": each.title or each.key,
        "state": _state(each),
        "messages": f"{each.messages:,}",
        "first": format_minute(each.first_message_at, zone)[:10],
        "last at": format_minute(each.last_message_at or each.updated_at, zone),
        "tokens": f"{each.message_tokens:,}",
        "summaries": f"{each.summaries:,}",
        "context": f"{each.context_tokens:,}",
        "key": each.key,
    }


def _state(each: ListedConversation | Relative) -> str:
    return "active" if each.active else f"archived ({each.archive_cause})" if each.archive_cause else "archived"


@conversations.command(examples=("lcm conversations show demo", "lcm conversations show '#1' --json"))
@conversation_option()
def show() -> None:
    """Show the figures of a conversation.

    Its messages, summaries and context, pending work, the transcripts that are read into it, its files and pins, and
    the conversations that are related to it.
    """
    with open_database() as lcm:
        shown = lcm.conversations.show(named_conversation() or choose_conversation(lcm).key)
        zone = lcm.settings.zone
    answer(shown, _lines(shown, zone))


def _lines(shown: ShownConversation, zone: tzinfo) -> Iterator[Line]:
    own = shown.conversation
    yield (Styled(escape_name(own.key), bold=True), f"  #{own.id}  {_state(own)}")
    context = shown.context
    facts = [
        ("title", own.title or ""),
        ("directory", own.directory or ""),
        ("created", format_time(own.created_at, zone)),
        ("first message", format_time(own.first_message_at, zone) if own.first_message_at else ""),
        ("last message", format_time(own.last_message_at, zone) if own.last_message_at else ""),
        ("last activity", format_time(own.updated_at, zone)),
        ("archived", format_time(own.archived_at, zone) if own.archived_at else ""),
        ("last /new", format_time(shown.renewed_at, zone) if shown.renewed_at else ""),
        ("sessions", ", ".join(shown.sessions)),
        ("messages", f"{own.messages:,}, {plural(own.message_tokens, 'token')}"),
        *(
            (f"summaries d{d.depth}", f"{d.summaries:,}, {plural(d.tokens, 'token')} for {d.source_tokens:,}")
            for d in shown.depths
        ),
        ("context", _context(context)),
        ("fresh tail", f"{plural(context.tail_messages, 'message')}, {plural(context.tail_tokens, 'token')}"),
        ("detached", ", ".join(f"{count:,} ({cause})" for cause, count in shown.detached.items())),
        ("pending", _pending(shown.debt, zone)),
        *(("transcript", _transcript(each, zone)) for each in shown.transcripts),
        ("files", f"{shown.files:,}, {format_size(shown.file_bytes)}" if shown.files else ""),
        *(("pin", f"{pin.id} {shorten(pin.text, 80)}") for pin in shown.pins),
        ("continues", f"#{shown.continues}" if shown.continues else ""),
        *(("same key", _relative(each, zone)) for each in shown.family),
        ("sub-agent of", _relative(shown.parent, zone) if shown.parent else ""),
        *(("sub-agent", _relative(each, zone)) for each in shown.sub_agents),
    ]
    for name, value in facts:
        if value:
            yield from fact_lines(name, shorten(value, 600))


def _context(context: ContextFigures) -> str:
    messages = f"{plural(context.messages, 'message')} ({context.message_tokens:,} tokens)"
    return f"{messages}, {plural(context.summaries, 'summary', 'summaries')} ({context.summary_tokens:,} tokens)"


def _pending(debt: Debt | None, zone: tzinfo) -> str:
    if debt is None or (debt.state == "settled" and not debt.failure):
        return ""
    work = f"compaction for a window of {debt.window:,}" if debt.window else "summaries to rewrite with a model"
    retry = f"next try {format_time(debt.next_at, zone)}" if debt.next_at else ""
    return ", ".join(filter(None, (work, f"{debt.state} since {format_time(debt.since, zone)}", debt.failure, retry)))


def _transcript(each: TranscriptPosition, zone: tzinfo) -> str:
    offset = "to its end" if each.size == each.offset else f"up to byte {each.offset:,}"
    at = f" at {format_time(each.read_at, zone)}" if each.read_at else ""
    return f"{each.path} ({each.format}), read {offset}{at}"


def _relative(each: Relative, zone: tzinfo) -> str:
    figures = f"{plural(each.messages, 'message')}, {format_time(each.updated_at, zone)}"
    return f"#{each.id} {escape_name(each.key)}, {_state(each)}, {figures}"
