"""`lcm status`: one honest screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

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
from lossless.cli.tables import INDENT, Line, Styled, fact_lines, format_minute, format_size, plural
from lossless.engine.inspect.verdict import span
from lossless.model import Calls, ConversationFigures, Debt, Following, Holdings, Reason, Status

_UNWELL, _SHOWN = 6, 3
_COLOURS = {"ok": "green", "quiet": "yellow", "empty": None, "warning": "yellow", "degraded": "red"}
_FAILS = {
    "degraded": ("degraded",),
    "warning": ("degraded", "warning"),
    "quiet": ("degraded", "warning", "quiet", "empty"),
}
_PROBLEMS = {
    "provisional": "written without a model",
    "cut": "cut short",
    "unfaithful": "with claims not found in their sources",
    "stale": "to be rewritten",
}


@click.command(cls=Command)
@conversation_option(otherwise="the figures of all")
@click.option(
    "--fail-on",
    type=click.Choice(tuple(_FAILS)),
    help="Exit with 6 if the verdict is that, or worse: degraded, then warning, then quiet (and empty).",
)
def status(fail_on: str | None) -> None:
    """Whether memory is kept as it should be: what is stored, is it still coming in, what is owed, what went wrong.

    The verdict comes last, with every reason and the command that helps. `degraded`: something does not come in, cannot
    be written, or waits for somebody, such as a transcript that holds what was not read for a minute. `warning`: look at
    it. `quiet`: nothing came for a day, and no transcript that is read was written to. `empty`: nothing ever came. What
    cannot be seen from here is listed, too. A CONVERSATION adds its own figures. Reads only: of messages no word, and of
    a transcript its size, its time and, if these do not tell, a few of its lines.
    """
    found = _status()
    fails = found.verdict in _FAILS.get(fail_on or "", ())
    answer(found, _lines(found), ok=not fails)
    sys.exit(_UNWELL if fails else 0)


def _status() -> Status:
    named, loaded = named_database(), config.resolve()
    is_default = named is None and loaded.sources["database_path"].kind == "default"
    if is_default and not database_exists(loaded.settings.database):
        # Before the first message there is nothing to open, and looking must not make it.
        return Status(__version__, loaded.settings.database, 0, "default", 0, 0, 0, None)
    with open_database() as lcm:
        return lcm.status(named_conversation())


def _lines(found: Status) -> Iterator[Line]:
    yield from fact_lines("lossless", found.version)
    yield from fact_lines("database", found.database)
    yield from fact_lines("size", _size(found))
    if found.files:
        yield from fact_lines("files", f"{found.files:,} ({format_size(found.files_bytes)})")
    yield from fact_lines("owner", found.owner)
    yield from fact_lines("conversations", f"{found.conversations:,}{_active(found)}")
    yield from _held(found.holdings)
    yield from _coming(found)
    yield from _pending(found)
    yield from _asked(found.calls)
    if found.conversation:
        yield ""
        yield from _conversation(found.conversation)
    yield ""
    yield from _verdict(found)


def _size(found: Status) -> str:
    if not found.bytes:
        return "not there yet"
    free = min((volume.free for volume in found.volumes), default=None)
    return format_size(found.bytes) + (f"; {format_size(free)} free" if free is not None else "")


def _active(found: Status) -> str:
    since = f"; since {format_minute(found.first_at)} UTC" if found.first_at else ""
    return f" ({found.active:,} active{since})" if found.conversations else ""


def _held(held: Holdings) -> Iterator[Line]:
    yield from fact_lines("messages", f"{held.messages:,} ({plural(held.message_tokens, 'token')})")
    share = "n/a" if held.coverage is None else f"{held.coverage:.0%}"
    yield from fact_lines("summarised", f"{share} ({plural(held.source_tokens, 'token')})")
    if held.depths:
        rows = [(f"depth {each.depth}", f"{each.summaries:,}", f"{each.tokens:,} tokens") for each in held.depths]
        wide = [max(len(row[place]) for row in rows) for place in range(3)]
        for number, row in enumerate(rows):
            told = f"{row[0]:<{wide[0]}}  {row[1]:>{wide[1]}}  {row[2]:>{wide[2]}}"
            yield (Styled(f"{'' if number else 'summaries':<{INDENT}}", dim=True), told)
        problems = [
            f"{plural(count, 'summary', 'summaries')} {text}"
            for name, text in _PROBLEMS.items()
            if (count := getattr(held.health, name))
        ]
        yield from fact_lines("problems", ", ".join(problems) or "none recorded")
    else:
        yield from fact_lines("summaries", "none")
    ratio = "n/a" if held.ratio is None else f"1:{held.ratio}"
    told = f"{plural(held.context_items, 'item')}, {plural(held.context_tokens, 'token')}; compression {ratio}"
    yield from fact_lines("in context", told)


def _coming(found: Status) -> Iterator[Line]:
    last = found.last_ingest_at
    yield from fact_lines("last ingest", f"{format_minute(last)} UTC ({_ago(last)})" if last else "never")
    yield from _followed(found.following)


def _followed(found: Following) -> Iterator[Line]:
    if not found.transcripts:
        yield from fact_lines("transcripts", "none followed")
        return
    told = [f"{found.transcripts:,} followed"]
    told += [f"{found.behind:,} behind"] if found.behind else ["none behind"]
    told += [f"{format_size(found.bytes)} not read"] if found.bytes else []
    told += [
        f"{count:,} {what}" for count, what in ((found.unreadable, "unreadable"), (found.missing, "gone")) if count
    ]
    yield from fact_lines("transcripts", ", ".join(told))
    for each in found.lagging:
        if each.state == "behind":
            yield from fact_lines("", f"{each.path}: {format_size(each.bytes)}, for {span(each.seconds)}", "red")
        elif each.state == "unreadable":
            yield from fact_lines("", f"{each.path}: cannot be read", "red")
    hidden = found.behind - sum(each.state == "behind" for each in found.lagging)
    if hidden:
        yield from fact_lines("", f"and {hidden:,} more")


def _pending(found: Status) -> Iterator[Line]:
    counts = f"{found.pending:,} waiting, {found.running:,} running, {found.failed:,} failed"
    yield from fact_lines("pending work", counts if found.pending or found.running or found.failed else "none")
    for each in [debt for debt in found.debts if debt.state != "settled"][:_SHOWN]:
        yield from fact_lines("", f"{each.key}: {_debt(each)}")


def _debt(debt: Debt | None) -> str:
    if debt is None:
        return "none"
    told = [f"{debt.state} since {format_minute(debt.since)} UTC", debt.stop, debt.failure]
    told += [f"next attempt {debt.next_at:%Y-%m-%d %H:%M:%S} UTC"] if debt.next_at else []
    return "; ".join(filter(None, told))


def _asked(found: Calls) -> Iterator[Line]:
    if found.seconds:
        told = f"{found.calls:,} in the last {span(found.seconds)} (a conversation may make {found.most:,})"
        day = f"; {found.today:,} in 24 hours" + (f" of {found.most_a_day:,}" if found.most_a_day else "")
        yield from fact_lines("model calls", told + day)


def _conversation(found: ConversationFigures) -> Iterator[Line]:
    yield from fact_lines("conversation", f"{found.key} ({'active' if found.active else 'archived'})")
    yield from _held(found.holdings)
    share = found.holdings.context_tokens / found.budget
    yield from fact_lines("budget", f"{found.budget:,} tokens, {share:.0%} of it in use")
    yield from fact_lines("last activity", f"{format_minute(found.updated_at)} UTC ({_ago(found.updated_at)})")
    yield from _followed(found.following)
    yield from fact_lines("pending work", _debt(found.debt))


def _verdict(found: Status) -> Iterator[Line]:
    for text in found.not_assessed:
        yield from fact_lines("not assessed" if text == found.not_assessed[0] else "", text, dim=True)
    since = f" since {format_minute(found.last_ingest_at)} UTC" if found.verdict == "quiet" else ""
    colour = _COLOURS[found.verdict]
    yield (Styled(f"{'verdict':<{INDENT}}", dim=True), Styled(found.verdict + since, colour, bold=True))
    for each in found.reasons:
        yield from _reason(each)
    if found.verdict == "empty":
        yield from fact_lines(
            "", "Nothing came in yet: `lcm import` brings histories in, `lcm demo` shows how it works."
        )


def _reason(reason: Reason) -> Iterator[Line]:
    yield from fact_lines("", reason.text, _COLOURS[reason.severity])
    if reason.command:
        yield from fact_lines("", f"-> {reason.command}", "cyan")


def _ago(at: datetime) -> str:
    return f"{span(max(0.0, (datetime.now(UTC) - at).total_seconds()))} ago"
