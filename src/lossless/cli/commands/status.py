"""`lcm status`: the state of the memory on one screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import click

from lossless import __version__, config
from lossless.cli.options import (
    Command,
    conversation_option,
    database_exists,
    named_conversation,
    named_database,
    open_database,
)
from lossless.cli.output import answer
from lossless.cli.session_directories import short_path
from lossless.cli.tables import INDENT, Line, Styled, fact_lines, format_minute, format_size, plural, shorten
from lossless.engine.inspect.verdict import span
from lossless.model import Calls, ConversationFigures, Debt, Holdings, Reason, Status, TranscriptLag

_UNHEALTHY, _SHOWN = 6, 3
_COLORS: Final = {"ok": "green", "quiet": "yellow", "empty": None, "warning": "yellow", "degraded": "red"}
_FAILS: Final = {
    "degraded": ("degraded",),
    "warning": ("degraded", "warning"),
    "quiet": ("degraded", "warning", "quiet", "empty"),
}
_FLAWS: Final = {
    "provisional": ("{} summary written without a model", "{} summaries written without a model"),
    "cut": ("{} summary cut short", "{} summaries cut short"),
    "unfaithful": ("{} contains claims not found in its sources", "{} contain claims not found in their sources"),
    "stale": ("{} summary is older than its sources", "{} summaries are older than their sources"),
}


@click.command(cls=Command, examples=("lcm status", "lcm status --fail-on degraded --quiet"))
@conversation_option(otherwise="the figures of all")
@click.option(
    "--fail-on",
    type=click.Choice(tuple(_FAILS)),
    help="Exit with 6 at this verdict or a worse one: degraded, warning, quiet (or empty).",
)
def status(fail_on: str | None) -> None:
    """Show what is stored, whether it is up to date, what is pending and what failed.

    The verdict comes last, with each reason and the command that helps.

    \b
    ok        everything works
    quiet     no message for a day, and no transcript was written to
    empty     no message yet
    warning   something to look at
    degraded  messages are not read or cannot be written, or work waits for you

    A CONVERSATION adds its own figures. Reads only; of transcripts it reads sizes, times and at most a few lines.
    """
    found = _status()
    fails = found.verdict in _FAILS.get(fail_on or "", ())
    answer(found, _lines(found), ok=not fails)
    sys.exit(_UNHEALTHY if fails else 0)


def _status() -> Status:
    named, loaded = named_database(), config.resolve()
    is_default = named is None and loaded.sources["database_path"].kind == "default"
    if is_default and not database_exists(loaded.settings.database):
        # Before the first message there is no database, and a status must not create one.
        return Status(__version__, loaded.settings.database, 0, "default", 0, 0, 0, None)
    with open_database() as lcm:
        return lcm.status(named_conversation())


def _lines(found: Status) -> Iterator[Line]:
    yield from fact_lines("database", short_path(found.database))
    yield from fact_lines("size", _size(found))
    if found.owner != "default":
        yield from fact_lines("owner", found.owner)
    yield from fact_lines("conversations", f"{found.conversations:,}{_active(found)}")
    yield from _holdings(found.holdings)
    last = found.last_ingest_at
    yield from fact_lines("last message", f"{format_minute(last)} UTC ({_ago(last)})" if last else "never")
    yield from _transcripts(found.following)
    yield from _hosts(found)
    yield from _pending(found)
    yield from _calls(found.calls)
    if found.conversation:
        yield ""
        yield from _conversation(found.conversation)
    yield ""
    yield from _verdict(found)


def _size(found: Status) -> str:
    if not found.bytes:
        return "not created yet"
    free = min((volume.free for volume in found.volumes), default=None)
    files = f", {plural(found.files, 'file')} ({format_size(found.files_bytes)})" if found.files else ""
    return format_size(found.bytes) + files + (f"; {format_size(free)} free" if free is not None else "")


def _active(found: Status) -> str:
    since = f"; since {format_minute(found.first_at)} UTC" if found.first_at else ""
    return f" ({found.active:,} active{since})" if found.conversations else ""


def _holdings(held: Holdings) -> Iterator[Line]:
    share = "" if held.coverage is None else f", {held.coverage:.0%} summarised"
    yield from fact_lines("messages", f"{held.messages:,} ({plural(held.message_tokens, 'token')}{share})")
    total = sum(each.summaries for each in held.depths)
    tokens = sum(each.tokens for each in held.depths)
    if total:
        depths = ", ".join(f"{each.summaries:,}" for each in held.depths)
        by_depth = f"; by depth: {depths}" if len(held.depths) > 1 else ""
        yield from fact_lines("summaries", f"{total:,} ({plural(tokens, 'token')}{by_depth})")
        yield from _flaws(held)
    else:
        yield from fact_lines("summaries", "none")
    ratio = "" if held.ratio is None else f"; compression 1:{held.ratio}"
    items = f"{plural(held.context_items, 'item')}, {plural(held.context_tokens, 'token')}{ratio}"
    yield from fact_lines("in context", items)


def _flaws(held: Holdings) -> Iterator[Line]:
    counts = [(getattr(held.health, name), *texts) for name, texts in _FLAWS.items()]
    flaws = [(one if count == 1 else more).format(f"{count:,}") for count, one, more in counts if count]
    if flaws:
        yield from fact_lines("problems", "; ".join(flaws), "yellow")


def _transcripts(found: TranscriptLag) -> Iterator[Line]:
    if not found.transcripts:
        yield from fact_lines("transcripts", "none followed")
        return
    parts = [f"{found.transcripts:,} followed"]
    parts += [f"{found.behind:,} behind"] if found.behind else ["none behind"]
    parts += [f"{format_size(found.bytes)} not read"] if found.bytes else []
    counts = ((found.unreadable, "unreadable"), (found.missing, "missing"))
    parts += [f"{count:,} {what}" for count, what in counts if count]
    yield from fact_lines("transcripts", ", ".join(parts))
    for each in found.lagging:
        if each.state == "behind":
            size = f"{format_size(each.bytes)} not read for {span(each.seconds)}"
            yield from fact_lines("", f"{short_path(each.path)}: {size}", "red")
        elif each.state == "unreadable":
            yield from fact_lines("", f"{short_path(each.path)}: cannot be read", "red")
    hidden = found.behind - sum(each.state == "behind" for each in found.lagging)
    if hidden:
        yield from fact_lines("", f"and {hidden:,} more")


def _hosts(found: Status) -> Iterator[Line]:
    for number, each in enumerate(found.hosts):
        last = each.last_delivery_at
        parts = [f"{each.host}: {plural(each.delivered, 'message')}"]
        parts += [f"last delivery {format_minute(last)} UTC ({_ago(last)})" if last else "none delivered yet"]
        parts += [f"{plural(each.failures, 'failure')} since"] if each.failures else []
        yield from fact_lines("" if number else "hosts", ", ".join(parts), "yellow" if each.failures else None)


def _pending(found: Status) -> Iterator[Line]:
    counts = f"{found.pending:,} waiting, {found.running:,} running, {found.failed:,} failed"
    yield from fact_lines("pending work", counts if found.pending or found.running or found.failed else "none")
    for each in [debt for debt in found.debts if debt.state != "settled"][:_SHOWN]:
        yield from fact_lines("", f"{each.key}: {_debt(each)}")


def _debt(debt: Debt | None) -> str:
    if debt is None:
        return "none"
    parts = [f"{debt.state} since {format_minute(debt.since)} UTC", debt.stop, debt.failure]
    parts += [f"next attempt {debt.next_at:%Y-%m-%d %H:%M:%S} UTC"] if debt.next_at else []
    return "; ".join(filter(None, parts))


def _calls(found: Calls) -> Iterator[Line]:
    if found.seconds:
        recent = f"{found.calls:,} in {span(found.seconds)} (limit {found.most:,} per conversation)"
        limit = f" (limit {found.most_a_day:,})" if found.most_a_day else ""
        yield from fact_lines("model calls", f"{recent}, {found.today:,} in 24 h{limit}")


def _conversation(found: ConversationFigures) -> Iterator[Line]:
    yield from fact_lines("conversation", f"{found.key} ({'active' if found.active else 'archived'})")
    yield from _holdings(found.holdings)
    share = found.holdings.context_tokens / found.budget
    yield from fact_lines("budget", f"{found.budget:,} tokens, {share:.0%} used")
    yield from fact_lines("last activity", f"{format_minute(found.updated_at)} UTC ({_ago(found.updated_at)})")
    yield from _transcripts(found.following)
    yield from fact_lines("pending work", _debt(found.debt))
    if found.brief:
        yield from fact_lines("focus", f"{found.brief}: {shorten(found.brief_task, 80)}")


def _verdict(found: Status) -> Iterator[Line]:
    for number, text in enumerate(found.not_assessed):
        yield from fact_lines("" if number else "not checked", text, dim=True)
    since = f" since {format_minute(found.last_ingest_at)} UTC" if found.verdict == "quiet" else ""
    color = _COLORS[found.verdict]
    yield (Styled(f"{'verdict':<{INDENT}}", dim=True), Styled(found.verdict + since, color, bold=True))
    for each in found.reasons:
        yield from _reason(each)
    if found.verdict == "empty":
        yield from fact_lines("", "No messages yet: `lcm import` imports sessions, `lcm demo` shows an example.")


def _reason(reason: Reason) -> Iterator[Line]:
    yield from fact_lines("", reason.text, _COLORS[reason.severity])
    if reason.command:
        yield from fact_lines("", f"-> {reason.command}", "cyan")


def _ago(at: datetime) -> str:
    return f"{span(max(0.0, (datetime.now(UTC) - at).total_seconds()))} ago"
