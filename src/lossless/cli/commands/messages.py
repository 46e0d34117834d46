"""`lcm messages`: list messages, show one in full, those around it, and the newest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
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
from lossless.cli.output import Page, answer, print_note
from lossless.cli.since_until import chosen_times, time_options
from lossless.cli.tables import Line, Styled, escape_name, format_minute, format_time, plural, table, zone_heading
from lossless.model import File, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless import Lossless
    from lossless.model import ListedMessage, MessageTail, ShownMessage, Whereabouts

_ROLES = ("system", "user", "assistant", "tool")
_LEAST = ("files", "seq", "tokens", "where", "at", "role")
"""The columns that leave first on a narrow terminal."""
_COLORS = {"user": "green", "assistant": "cyan", "tool": "yellow", "system": "magenta"}


@click.group(cls=Group, examples=("lcm messages demo -L 20", "lcm messages show 12 -c demo"))
def messages() -> None:
    """List messages, show one in full, those around it, and the newest."""


@messages.command("list", examples=("lcm messages list demo --role user", "lcm messages list demo --since 2d"))
@conversation_option()
@click.option("--role", "roles", multiple=True, type=click.Choice(_ROLES), help="Only of this role (repeatable).")
@time_options
@click.option("--oldest-first", is_flag=True, help="List from the first message on.")
@click.option("--include-content", is_flag=True, help="Print all text of each message.")
@limit_option()
@cursor_option
def list_(roles: tuple[str, ...], oldest_first: bool, include_content: bool, limit: int, cursor: str | None) -> None:
    """List messages in the order in which they were stored, the newest first.

    The column `where` is empty for a message in the context. Otherwise it names the summary that covers it, or the
    reason why no model sees it: detached (it left the context), outside (it never was in the context) or tombstone
    (its content was removed).
    """
    times = chosen_times()
    with open_database() as lcm:
        found = lcm.messages(
            named_conversation() or choose_conversation(lcm).key,
            roles=roles,
            since=times.since,
            until=times.until,
            oldest_first=oldest_first,
            include_content=include_content,
            limit=limit,
            cursor=cursor,
        )
        zone = lcm.settings.zone
    lines = _full_texts(found, zone) if include_content else _rows(found, zone)
    answer({"messages": found}, lines, page=Page(limit, len(found), found.next_cursor))


def _rows(found: tuple[ListedMessage, ...], zone: tzinfo) -> Iterator[Line]:
    if not found:
        yield "No messages."
        return
    # Empty columns leave their space to the text.
    where, files = any(_place(each.where) for each in found), any(each.files for each in found)
    at = zone_heading("at", zone)
    heads = ("id", "seq", "role", "tokens", at, *(["where"] * where), *(["files"] * files), "text")
    yield from table(heads, (_row(each, zone, where, files) for each in found), least=_LEAST)


def _row(each: ListedMessage, zone: tzinfo, where: bool, files: bool) -> list[str]:
    cells = [each.id, str(each.seq), each.role, f"{each.tokens:,}", format_minute(each.at, zone)]
    return [*cells, *([_place(each.where)] * where), *([str(len(each.files) or "")] * files), each.preview]


def _place(where: Whereabouts) -> str:
    if where.state in ("context", "summarised"):
        return f"in {where.summaries[0]}" if where.summaries else ""
    return f"{where.state}: {where.why}" if where.why else where.state


def _full_texts(found: Iterable[ListedMessage], zone: tzinfo, marked: str = "") -> Iterator[Line]:
    for each in found:
        yield from _heading(each, zone, "> " if each.id == marked else "")
        yield each.content or ""
        yield ""


def _heading(each: ListedMessage, zone: tzinfo, mark: str) -> Iterator[Line]:
    where, at = _place(each.where), format_time(each.at, zone)
    facts = f"  {each.id}  seq {each.seq}  {at}  {plural(each.tokens, 'token')}" + (where and f"  {where}")
    yield (
        Styled(f"{mark}{each.role}", _COLORS.get(each.role), bold=True),
        Styled(facts, bold=bool(mark), dim=not mark),
    )


@messages.command(examples=("lcm messages show 12 -c demo", "lcm messages show msg#1000000012 --whole"))
@click.argument("id")
@conversation_option(positional=False, otherwise="that of the message")
@click.option("--whole", is_flag=True, help="Print large content in place of references to files.")
def show(id: str, whole: bool) -> None:
    """Show all parts of the message ID, and its place in the context.

    ID is msg#..., or the seq of a message in the conversation that -c names.
    """
    with open_database() as lcm:
        found = lcm.messages.show(id, _home(lcm, id), whole=whole)
        zone = lcm.settings.zone
    answer(found, _shown(found, zone))
    if found.lost_files:
        lost = f"{', '.join(found.lost_files)} cannot be read: a reference is shown in its place."
        print_note(Styled(f"{lost} `lcm doctor` explains more.", "yellow"))


def _home(lcm: Lossless, id: str) -> str | None:
    """Return the conversation of an id that is a seq, None if the id names its own."""
    is_seq = re.fullmatch("[0-9]{1,9}", id.strip()) is not None
    return named_conversation() or (choose_conversation(lcm).key if is_seq else None)


def _shown(found: ShownMessage, zone: tzinfo) -> Iterator[Line]:
    stored = found.stored
    facts_line = (
        f"  seq {stored.seq} of {escape_name(found.key)} (#{found.conversation})  {format_time(stored.at, zone)}"
    )
    yield (Styled(found.id, bold=True), f"{facts_line}  {plural(stored.tokens, 'token')}")
    message = stored.message
    facts = [
        ("role", message.role),
        ("name", message.name),
        ("ended", message.stop),
        ("where", _sentence(found.where)),
        ("event id", message.event_id),
        ("also known as", ", ".join(found.aliases)),
        ("files", ", ".join(found.files)),
    ]
    yield from ((Styled(f"{name:<14}", dim=True), value) for name, value in facts if value)
    for part in message.parts:
        yield from _part(part)
    for at, copy in enumerate(found.copies, 1):
        yield Styled(f"another text under its event id, {at} of {len(found.copies)}", "red")
        for part in copy.parts:
            yield from _part(part)


def _sentence(where: Whereabouts) -> str:
    path = " -> ".join(where.summaries)
    match where.state:
        case "context":
            return "in the context"
        case "summarised":
            return f"covered by {path}, which is in the context"
        case "detached":
            return (
                f"covered by {path}, which left the context ({where.why})"
                if path
                else f"left the context ({where.why})"
            )
        case "outside":
            return f"outside the context ({where.why}); `lcm explain` explains why"
        case "tombstone":
            return f"removed ({where.why}): only its place is left"
        case "nowhere":
            return "missing from the context: run `lcm doctor`"


def _part(part: Part) -> Iterator[Line]:
    yield ""
    match part:
        case Text(text):
            yield from (Styled("text", dim=True), text)
        case Reasoning(text):
            yield from (Styled("reasoning", dim=True), Styled(text, dim=True))
        case ToolCall(call_id, name, arguments):
            yield from (Styled(f"call of {name} ({call_id})", "yellow"), arguments)
        case ToolResult(call_id, inner, name, is_error):
            yield Styled(f"{'error' if is_error else 'result'} of {name or 'a call'} ({call_id})", "yellow")
            for each in inner:
                yield from _inner(each)
        case File() | Opaque():
            yield from _inner(part)


def _inner(part: Text | File | Opaque) -> Iterator[Line]:
    match part:
        case Text(text):
            yield text
        case File(mime, name, data, url):
            held = f", {len(data) * 3 // 4:,} bytes" if data else ""
            place = f", {url}" if url and not url.startswith("data:") else ""
            yield Styled(f"file {name or 'without a name'} ({mime or 'of unknown type'}){held}{place}", "blue")
        case Opaque(kind, data):
            yield from (Styled(kind, dim=True), json.dumps(data, ensure_ascii=False))


@messages.command(examples=("lcm messages tail demo", "lcm messages tail demo -L 3"))
@conversation_option()
@click.option(
    *("-L", "--limit", "--count", "count"),
    type=click.IntRange(1, 500),
    metavar="N",
    help="Number of messages (default: the fresh tail).",
)
def tail(count: int | None) -> None:
    """Show the newest messages of the context, in order and in full.

    The default is the fresh tail, which is never summarised: `fresh_tail_count` messages within
    `fresh_tail_max_tokens` and half of the window, cut between tool rounds. With -L it is that many messages within
    `fresh_tail_max_tokens`, and always the newest one.
    """
    with open_database() as lcm:
        found = lcm.messages.tail(named_conversation() or choose_conversation(lcm).key, count)
        zone = lcm.settings.zone
    answer(found, _tail(found, zone))


def _tail(found: MessageTail, zone: tzinfo) -> Iterator[Line]:
    yield from _full_texts(found.messages, zone)
    shown = f"{plural(len(found.messages), 'message')}, {plural(found.tokens, 'token')}"
    yield Styled(f"{shown}; {found.stored_messages:,} stored, {found.context_tokens:,} tokens in the context", dim=True)


@messages.command(examples=("lcm messages around 12 -c demo", "lcm messages around 12 -c demo --before 2 --after 2"))
@click.argument("id")
@conversation_option(positional=False, otherwise="that of the message")
@click.option("--before", type=click.IntRange(0, 500), default=5, show_default=True, help="Messages before it.")
@click.option("--after", type=click.IntRange(0, 500), default=5, show_default=True, help="Messages after it.")
def around(id: str, before: int, after: int) -> None:
    """Show the message ID, marked, with the messages before and after it.

    ID is msg#..., or the seq of a message in the conversation that -c names.
    """
    with open_database() as lcm:
        found = lcm.messages.around(id, _home(lcm, id), before=before, after=after)
        zone = lcm.settings.zone
    answer(found, _full_texts(found.messages, zone, found.id))
