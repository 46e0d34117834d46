"""`lcm summaries`: list summaries, show one, its sources and its earlier texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

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
    diff_lines,
    fact_lines,
    format_minute,
    format_time,
    plural,
    shorten,
    table,
    terminal_width,
    zone_heading,
    zone_name,
)
from lossless.cli.tree_view import legend_lines, tree_lines
from lossless.times import time_range

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless.model import Comparison, ListedSummary, Revision, ShownSummary, Tree

_HEADS = ("summary", "depth", "tokens", "messages", "from", "to", "state", "text")
_LEAST = ("from", "messages", "to", "depth", "state", "text")
"""The columns that leave first on a narrow terminal."""


@click.group(cls=Group, examples=("lcm summaries demo", "lcm summaries tree demo"))
def summaries() -> None:
    """List summaries, show one, its sources and its earlier texts."""


@summaries.command("list", examples=("lcm summaries list demo --depth 1", "lcm summaries list demo -L 5"))
@conversation_option()
@click.option("--depth", type=click.IntRange(min=0), help="Only of this depth; leaves have 0.")
@click.option("--kind", type=click.Choice(["leaf", "condensed"]), help="Only leaves, or only condensed summaries.")
@time_options
@limit_option()
@cursor_option
@click.option("--include-content", is_flag=True, help="Print all text of each summary.")
def list_(depth: int | None, kind: Any, limit: int, cursor: str | None, include_content: bool) -> None:
    """List summaries by the time of their newest message, the newest first.

    `12,345 → 1,200` are the tokens of the messages below a summary, and its own.
    """
    times = chosen_times()
    with open_database() as lcm:
        found = lcm.summaries(
            named_conversation() or choose_conversation(lcm).key,
            depth=depth,
            kind=kind,
            since=times.since,
            until=times.until,
            include_content=include_content,
            limit=limit,
            cursor=cursor,
        )
        zone = lcm.settings.zone
    lines = _texts(found, zone) if include_content else _rows(found, zone)
    answer({"summaries": found}, lines, page=Page(limit, len(found), found.next_cursor))


def _rows(found: Sequence[ListedSummary], zone: tzinfo) -> Iterator[Line]:
    if not found:
        yield "No summaries."
        return
    heads = [zone_heading(head, zone) if head == "to" else head for head in _HEADS]
    yield from table(heads, (_cells(each, zone) for each in found), least=_LEAST)


def _cells(each: ListedSummary, zone: tzinfo) -> tuple[str, ...]:
    return (
        each.id,
        f"d{each.depth}",
        _exchange(each),
        "-" if each.messages is None else f"{each.messages:,}",
        format_minute(each.earliest_at, zone),
        format_minute(each.latest_at or each.created_at, zone),
        _state(each),
        each.preview,
    )


def _exchange(each: ListedSummary) -> str:
    return f"{each.source_tokens:,} → {each.tokens:,}"


def _state(each: ListedSummary) -> str:
    return ", ".join((each.place, *each.flags))


def _texts(found: Iterable[ListedSummary], zone: tzinfo) -> Iterator[Line]:
    for each in found:
        at = format_time(each.latest_at or each.created_at, zone)
        about = f"  d{each.depth}  {_exchange(each)} tokens  {at}  {_state(each)}"
        yield Styled(each.id, bold=True), Styled(about, dim=True)
        yield each.content or ""
        yield ""


@summaries.command(
    examples=("lcm summaries show sum_0123456789abcdef", "lcm summaries show sum_0123456789abcdef --json")
)
@click.argument("id")
def show(id: str) -> None:
    """Show the text of the summary ID, its sources, and the summaries made from it."""
    with open_database() as lcm:
        found = lcm.summaries.show(id)
        zone = lcm.settings.zone
    answer(found, _shown(found, zone))


def _shown(found: ShownSummary, zone: tzinfo) -> Iterator[Line]:
    from lossless.model import statements_removed

    own = found.summary
    yield Styled(own.id, bold=True), f"  {own.kind}, depth {own.depth}, in {found.key}: {_state(own)}"
    below = f", {plural(own.descendants, 'summary', 'summaries')}" if own.descendants else ""
    yield from _fact("covers", f"{plural(own.messages or 0, 'message')}{below}; {_exchange(own)} tokens")
    yield from _fact("time", time_range(own.earliest_at, own.latest_at, zone))
    prompt = f", prompt {found.prompt_version}" if found.prompt_version else ""
    yield from _fact("written", f"{format_time(own.created_at, zone)} by {own.model}, level {own.level}{prompt}")
    yield from _fact("revision", f"{own.revision}, {plural(found.revisions, 'text')} kept")
    yield from _fact("faithful", "" if own.faithful is None else f"{own.faithful:.0%} of its claims are in its sources")
    removed = statements_removed(own.content or "")
    yield from _fact("removed", f"{plural(removed, 'statement')} not found in its sources" if removed else "")
    yield from _fact("copy of", found.origin or "")
    yield from _fact("files", " ".join(found.file_ids))
    yield from ("", own.content or "", "")
    yield from _neighbours("Consumers", found.consumers, zone)
    yield from _neighbours("Sources", found.sources, zone)
    if found.messages:
        yield Styled("Sources", bold=True)
        heads = ("message", "seq", "role", zone_heading("said", zone), "text")
        rows = (
            (each.id, f"{each.seq}", each.role, format_minute(each.at, zone), each.preview) for each in found.messages
        )
        yield from table(heads, rows)


def _fact(name: str, value: str) -> Iterator[Line]:
    if value:
        yield from fact_lines(name, value)


def _neighbours(head: str, found: Sequence[ListedSummary], zone: tzinfo) -> Iterator[Line]:
    if found:
        yield Styled(head, bold=True)
        yield from _rows(found, zone)


@summaries.command(examples=("lcm summaries tree demo", "lcm summaries tree demo --depth 1"))
@conversation_option()
@click.option("--root", metavar="ID", help="Only this summary and those below it.")
@click.option("--depth", type=click.IntRange(min=0), help="Levels to show below the context (default: all).")
@click.option("--all", "everything", is_flag=True, help="Also summaries that left the context (dissolved, /new).")
@limit_option(10_000, default=100)
def tree(root: str | None, depth: int | None, everything: bool, limit: int) -> None:
    """Show the context as a tree, the oldest first: each summary with its sources below it.

    `12,345 → 1,200` are the tokens of the messages below a summary, and its own. `+8` counts summaries that are not
    shown.
    """
    with open_database() as lcm:
        chosen = named_conversation() or (None if root else choose_conversation(lcm).key)
        found = lcm.summaries.tree(chosen, root=root, depth=depth, everything=everything, limit=limit)
        zone = lcm.settings.zone
    answer(found, _tree(found, zone, whole=root is None))


def _tree(found: Tree, zone: tzinfo, *, whole: bool) -> Iterator[Line]:
    if whole:
        yield from _headline(found, zone)
    if found.older:
        yield Styled(f"{plural(found.older, 'older entry', 'older entries')} not shown; --limit shows more.", dim=True)
    yield from tree_lines(found.entries, zone)
    if found.aside:
        yield from ("", Styled("Outside the context", bold=True))
        yield from tree_lines(found.aside, zone)
    if found.hidden:
        more = f"+N: {plural(found.hidden, 'more summary', 'more summaries')} below; --limit or --root ID shows them."
        yield from ("", Styled(shorten(more, terminal_width()), dim=True))
    yield from legend_lines((*found.entries, *found.aside))


def _headline(found: Tree, zone: tzinfo) -> Iterator[Line]:
    items = f"{plural(found.summaries, 'summary', 'summaries')} and {plural(found.messages, 'message')}"
    totals = f"{found.source_tokens:,} → {found.tokens:,} tokens: {items} in the context ({zone_name(zone)})"
    yield Styled(shorten(found.key, terminal_width()), bold=True)
    yield Styled(shorten(totals, terminal_width()), dim=True)


@summaries.command(
    examples=("lcm summaries history sum_0123456789abcdef", "lcm summaries history sum_0123456789abcdef --json")
)
@click.argument("id")
def history(id: str) -> None:
    """List the texts of the summary ID, the newest first, with the model and operation that wrote them.

    `lcm undo OP` reverts an operation; `lcm summaries diff ID` compares texts.
    """
    with open_database() as lcm:
        found = lcm.summaries.revisions(id)
        zone = lcm.settings.zone
    answer({"revisions": found}, _revisions(found, zone))


def _revisions(found: Sequence[Revision], zone: tzinfo) -> Iterator[Line]:
    heads = ("revision", zone_heading("written", zone), "tokens", "operation", "level", "model")
    yield from table(
        heads,
        (
            (
                f"{each.number}",
                format_minute(each.at, zone),
                f"{each.tokens:,}",
                each.operation or "-",
                each.level,
                each.model,
            )
            for each in found
        ),
    )


@summaries.command(
    examples=("lcm summaries diff sum_0123456789abcdef", "lcm summaries diff sum_0123456789abcdef --from 1 --to 3")
)
@click.argument("id")
@click.option("--from", "old", type=click.IntRange(min=1), metavar="N", help="Old revision (default: the previous).")
@click.option("--to", "new", type=click.IntRange(min=1), metavar="N", help="New revision (default: the current).")
def diff(id: str, old: int | None, new: int | None) -> None:
    """Compare two texts of the summary ID, line by line."""
    with open_database() as lcm:
        found = lcm.summaries.compare(id, old, new)
    answer(found, _diff(found))


def _diff(found: Comparison) -> Iterator[Line]:
    if found.old is None:
        yield f"{found.id} has no text before revision {found.new}."
    elif not found.diff:
        yield f"Revisions {found.old} and {found.new} of {found.id} are equal."
    yield from diff_lines(found.diff)
