"""`lcm conversations`: which there are, and one of them in full."""

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

    from lossless.model import ContextFigures, Debt, Followed, ListedConversation, Relative, ShownConversation

_ACTIVE = {"active": True, "archived": False, "all": None}
_HEADS = ("id", "key", "state", "messages", "tokens", "summaries", "depth", "items", "context", "last at", "title")
_LEAST = ("depth", "items", "summaries", "title", "context", "tokens", "state", "last at", "id", "messages")
"""Which of them leave first where there is little room; a key and how much is below it stay."""


@click.group(cls=Group)
def conversations() -> None:
    """Which conversations there are, and one of them in full."""


@conversations.command("list")
@click.option("--active", "which", flag_value="active", default="active", help="Those in use: what you get unasked.")
@click.option("--archived", "which", flag_value="archived", help="Only those that were reset, replaced or ended.")
@click.option("--all", "which", flag_value="all", help="Both.")
@limit_option()
@cursor_option
def list_(which: str, limit: int, cursor: str | None) -> None:
    """List conversations, the newest activity first: the active ones, unless you ask for others. Reads only.

    Tokens are those of the messages in the context, below its summaries, or set aside by name. Items and context are what
    a model is shown at most: how many messages and summaries, and what they cost.
    """
    with open_database() as lcm:
        found = lcm.list_conversations(active=_ACTIVE[which], limit=limit, cursor=cursor)
        zone = lcm.settings.zone
    answer({"conversations": found}, _rows(found, zone), page=Page(limit, len(found), found.next_cursor))


def _rows(found: tuple[ListedConversation, ...], zone: tzinfo) -> Iterator[Line]:
    if not found:
        yield "There is none."
        return
    heads = [zone_heading(head, zone) if head == "last at" else head for head in _HEADS]
    yield from table(heads, (_row(each, zone) for each in found), least=_LEAST)


def _row(each: ListedConversation, zone: tzinfo) -> list[str]:
    numbers = (each.messages, each.message_tokens, each.summaries)
    depth = "" if each.max_depth is None else str(each.max_depth)
    context = (f"{each.context_items:,}", f"{each.context_tokens:,}")
    told = (f"{number:,}" for number in numbers)
    return [
        *(f"#{each.id}", each.key, _state(each), *told, depth, *context),
        *(format_minute(each.updated_at, zone), each.title or ""),
    ]


def _state(each: ListedConversation | Relative) -> str:
    return "active" if each.active else f"archived ({each.archive_cause})" if each.archive_cause else "archived"


@conversations.command()
@conversation_option()
def show() -> None:
    """Show all there is to know about a conversation, but its words: by its key, or as #ID if it is archived. Reads only.

    What it holds and what a model is shown of it, what is owed to it, which transcripts are read into it and how far,
    its files and pins, and the conversations it is related to.
    """
    with open_database() as lcm:
        found = lcm.show_conversation(named_conversation() or choose_conversation(lcm).key)
        zone = lcm.settings.zone
    answer(found, _lines(found, zone))


def _lines(found: ShownConversation, zone: tzinfo) -> Iterator[Line]:
    it = found.conversation
    yield (
        Styled(escape_name(it.key), bold=True),
        f"  #{it.id}  {_state(it)}" + (f"  {escape_name(it.title)}" if it.title else ""),
    )
    facts = [
        ("began", format_time(it.created_at, zone)),
        ("last activity", format_time(it.updated_at, zone)),
        ("archived", format_time(it.archived_at, zone) if it.archived_at else ""),
        ("begun anew", format_time(found.renewed_at, zone) if found.renewed_at else ""),
        ("sessions", ", ".join(found.sessions)),
        ("messages", f"{it.messages:,}, {plural(it.message_tokens, 'token')}"),
        *(
            (f"summaries d{d.depth}", f"{d.summaries:,}, {plural(d.tokens, 'token')} for {d.source_tokens:,}")
            for d in found.depths
        ),
        ("context", _context(found.context)),
        (
            "fresh tail",
            f"{plural(found.context.tail_messages, 'message')}, {plural(found.context.tail_tokens, 'token')}",
        ),
        ("left it", ", ".join(f"{count:,} ({cause})" for cause, count in found.detached.items())),
        ("owed", _owed(found.debt, zone)),
        *(("transcript", _transcript(each, zone)) for each in found.transcripts),
        ("files", f"{found.files:,}, {format_size(found.file_bytes)}" if found.files else ""),
        *(("pin", f"{pin.id} {shorten(pin.text, 80)}") for pin in found.pins),
        ("continues", f"#{found.continues}" if found.continues else ""),
        *(("same key", _relative(each, zone)) for each in found.family),
        ("sub-agent of", _relative(found.parent, zone) if found.parent else ""),
        *(("sub-agent", _relative(each, zone)) for each in found.sub_agents),
    ]
    for name, value in facts:
        if value:
            yield from fact_lines(name, shorten(value, 600))


def _context(context: ContextFigures) -> str:
    messages = f"{plural(context.messages, 'message')} ({context.message_tokens:,} tokens)"
    return f"{messages}, {plural(context.summaries, 'summary', 'summaries')} ({context.summary_tokens:,} tokens)"


def _owed(debt: Debt | None, zone: tzinfo) -> str:
    if debt is None or (debt.state == "settled" and not debt.failure):
        return ""
    told = f"compaction for a window of {debt.window:,}" if debt.window else "summaries to be made anew"
    retry = f"again at {format_time(debt.next_at, zone)}" if debt.next_at else ""
    return ", ".join(filter(None, (told, f"{debt.state} since {format_time(debt.since, zone)}", debt.failure, retry)))


def _transcript(each: Followed, zone: tzinfo) -> str:
    far = "to its end" if each.size == each.offset else f"up to byte {each.offset:,}"
    return f"{each.path} ({each.format}), read {far}" + (
        f" at {format_time(each.read_at, zone)}" if each.read_at else ""
    )


def _relative(each: Relative, zone: tzinfo) -> str:
    return f"#{each.id} {escape_name(each.key)}, {_state(each)}, {plural(each.messages, 'message')}, {format_time(each.updated_at, zone)}"
