"""Pure: whether a database does what it is there for: a verdict, and every reason for it in a sentence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from lossless.model import (
    ConversationFigures,
    Debt,
    DebtStop,
    Following,
    FullContext,
    Hold,
    Lagging,
    Reason,
    Room,
    Status,
    Uncovered,
    Verdict,
)

Severity: TypeAlias = Literal["warning", "degraded"]
State: TypeAlias = Literal["behind", "unreadable", "missing"]

_DAY, _PATIENCE = 86_400.0, 900.0
"""Seconds: without a message before it is quiet; that a debt may wait for somebody to work on it."""
_FULL_AT, _CROWDED_AT = 1.0, 0.75
_ENDS: Final[dict[DebtStop | Literal[""], str]] = {
    "auth": "the provider refused the credentials",
    "breaker": "the provider refused the credentials too often",
    "rate limit": "the provider asked for a pause (rate limit)",
    "unavailable": "the model could not be reached",
    "spend": "too many calls were made in a row",
    "daily limit": "the daily limit of requests to models is reached",
    "in vain": "a summary could not be made anew",
    "failed": "it failed",
}
"""How a try may end so that it is told."""
_LIVE = "a host that delivers live: only its silence can be seen"
_AGREE = "whether the rows agree with one another: `lcm doctor` looks"
_NEVER_READ = "transcripts that were never read: `lcm watch` finds them"
_SERVER = "room and rights on the server of the database"


def judged(facts: Status, debts: Sequence[Debt], now: datetime, told_at: datetime | None = None) -> Status:
    """The facts with a verdict, and all that speaks for it, the worst first.

    `told_at` is when a transcript that is read to its end was written to last.
    """
    reasons = sorted(_reasons(facts, debts, now), key=lambda each: each.severity != "degraded")
    return replace(
        facts,
        verdict=_verdict(facts, reasons, now, told_at),
        reasons=tuple(reasons),
        not_assessed=tuple(_not_assessed(facts)),
    )


def is_trouble(debt: Debt) -> bool:
    """Whether the last try ended in a way that somebody should know of."""
    return bool(debt.failure) or (debt.state == "waiting" and debt.stop in _ENDS)


def _verdict(facts: Status, reasons: Sequence[Reason], now: datetime, told_at: datetime | None) -> Verdict:
    if reasons:
        return reasons[0].severity
    if facts.last_ingest_at is None:
        return "empty"
    # A host may write much in which nothing is said: as long as it is read, silence is not a fault.
    lately = max(facts.last_ingest_at, told_at or facts.last_ingest_at)
    return "quiet" if (now - lately).total_seconds() >= _DAY else "ok"


def _not_assessed(facts: Status) -> Iterator[str]:
    left = facts.following.transcripts - facts.following.looked_at
    if left > 0:
        yield f"the {left:,} transcripts that were read longest ago"
    yield from (_LIVE, _NEVER_READ, _AGREE)
    if not facts.rooms:
        yield _SERVER


def _reasons(facts: Status, debts: Sequence[Debt], now: datetime) -> Iterator[Reason]:
    if not facts.enabled:
        yield Reason("warning", "disabled", "It is switched off: nothing is taken in.", "lcm config")
    for room in facts.rooms:
        yield from _of_room(room)
    yield from _of_transcripts(facts.following, now)
    for hold in facts.calls.holds:
        yield from _of_hold(hold)
    yield from _of_debts(debts, now)
    if tried := facts.holdings.health.in_vain:
        text = f"{_many(tried, 'summary', 'summaries')} could not be made anew by a model, as often as it was tried."
        yield Reason("warning", "in vain", text, "lcm repair --all")
    yield from _of_summaries(facts)
    if suspected := facts.holdings.health.unfaithful:
        text = f"{_many(suspected, 'summary contains', 'summaries contain')} claims not found in their sources."
        yield Reason("warning", "unfaithful", text, "lcm repair --all")
    crowded = {each.key for each in facts.full}
    yield from _of_uncovered([each for each in facts.uncovered if each.key not in crowded])
    named = facts.conversation
    if named and named.active:
        yield from _of_conversation(named)
    yield from _of_full([each for each in facts.full if not named or each.key != named.key])


def _of_room(room: Room) -> Iterator[Reason]:
    if not room.writable:
        yield Reason("degraded", "read-only", f"{room.path} cannot be written to: nothing can come in.", _ls(room.path))
    if room.free < room.least:
        text = (
            f"The disk is nearly full: {_megabytes(room.free)} are free for {room.path}, less than {_megabytes(room.least)}."
            " What does not fit is refused, and nothing of it is stored."
        )
        yield Reason("degraded", "full", text, f"df -h {shlex.quote(room.path)}")


_TOLD: tuple[tuple[State, Severity, str], ...] = (
    ("behind", "degraded", "{path} holds {bytes} that were not read, for {span}; it was read {read}."),
    ("unreadable", "degraded", "{path} cannot be read; it was read {read}."),
    ("missing", "warning", "{path} is gone, and was written to {written}. What was read of it is here."),
)


def _of_transcripts(found: Following, now: datetime) -> Iterator[Reason]:
    counts = {"behind": found.behind, "unreadable": found.unreadable, "missing": found.vanished}
    for state, severity, told in _TOLD:
        worst = next((each for each in found.lagging if each.state == state), None)
        if worst is None or not counts[state]:
            continue
        text = told.format(
            path=worst.path,
            bytes=_many(worst.bytes, "byte"),
            span=span(worst.seconds),
            read=_ago(worst.read_at, now),
            written=_ago(worst.written_at, now),
        )
        more = f" And {_many(counts[state] - 1, 'other')}." if counts[state] > 1 else ""
        yield Reason(severity, state, text + more, _reads(worst))


def _reads(each: Lagging) -> str:
    if each.state == "unreadable":
        return _ls(each.path)
    if each.state == "missing":
        return f"lcm watch {shlex.quote(str(Path(each.path).parent))}"
    return f"lcm import {shlex.quote(each.path)} --key {shlex.quote(each.key)} --apply"


def _ls(path: str) -> str:
    return f"ls -ld {shlex.quote(path)}"


def _of_hold(hold: Hold) -> Iterator[Reason]:
    until = f" until {_clock(hold.until)}" if hold.until else ""
    if hold.kind == "spend":
        text = f"{hold.name} made too many calls to a model, and makes none{until}."
        yield Reason("warning", "held", text, "lcm stats")
    elif hold.kind == "daily limit":
        text = f"{hold.name} requests were sent to models in 24 hours, the most that max_calls_per_day allows: none{until}. {_PROVISIONAL}"
        yield Reason("warning", "held", text, "lcm config explain max_calls_per_day")
    elif hold.kind == "no key":
        yield Reason("degraded", "credentials", f"{hold.why} {_PROVISIONAL}", "lcm config explain providers")
    elif hold.until:
        text = f"{hold.name} refused the credentials too often, and is not asked{until}. {_KEY}"
        yield Reason("degraded", "credentials", text, _ASK)
    else:
        text = f"{hold.name} refused the credentials {_many(hold.failures, 'time')} in a row. {_KEY}"
        yield Reason("warning", "credentials", text, _ASK)


_KEY, _ASK = "Check its key.", "lcm compact --force"
_PROVISIONAL = "Summaries are written without a model meanwhile."


def _of_debts(debts: Sequence[Debt], now: datetime) -> Iterator[Reason]:
    for stop in _ENDS:
        found = [each for each in debts if is_trouble(each) and (each.stop or "failed") == stop]
        if found:
            severity: Severity = "degraded" if stop in ("auth", "breaker") else "warning"
            text = _owed(found[0], len(found) - 1)
            yield Reason(severity, _KINDS.get(stop, "owed"), text, "lcm worker --once")
    waiting = [each for each in debts if each.state == "waiting" and not is_trouble(each)]
    alone = [
        each for each in waiting if (now - max(each.since, each.next_at or each.since)).total_seconds() >= _PATIENCE
    ]
    if alone:
        text = (
            f"Nobody works on what is owed to {alone[0].key} since {_clock(alone[0].since)}{_others(len(alone) - 1)}."
        )
        yield Reason("warning", "unattended", text, "lcm worker")


_KINDS = {"auth": "credentials", "breaker": "credentials", "failed": "failed"}


def _owed(debt: Debt, more: int) -> str:
    why = _ENDS.get(debt.stop, debt.stop)
    failure = f" ({debt.failure.strip()[:200]})" if debt.failure else ""
    again = f"; next try {_clock(debt.next_at)}" if debt.next_at else ""
    what = "Compaction of" if debt.window else "To make summaries anew for"
    return f"{what} {debt.key} is owed since {_clock(debt.since)}: {why}{failure}{again}{_others(more)}."


def _of_summaries(facts: Status) -> Iterator[Reason]:
    health = facts.holdings.health
    if health.cut:
        text = (
            f"{_many(health.cut, 'summary was', 'summaries were')} cut short: they end in the middle of their sources."
        )
        yield Reason("warning", "cut", text, "lcm repair --all")
    if health.provisional and facts.has_model:
        many = _many(health.provisional, "summary was", "summaries were")
        text = f"{many} written without the model that is configured."
        yield Reason("warning", "provisional", text, "lcm repair --all")


def _of_full(found: Sequence[FullContext]) -> Iterator[Reason]:
    known = [each for each in found if each.tokens > each.budget and not each.assumed]
    if known:
        worst = max(known, key=lambda each: each.tokens / each.budget)
        yield _crowded(worst.key, worst.tokens, worst.budget, len(known) - 1)
    unknown = [each for each in found if each.tokens > each.budget and each.assumed]
    if unknown:
        worst = max(unknown, key=lambda each: each.tokens)
        text = (
            f"The context of {worst.key} holds {worst.tokens:,} tokens that were never compacted,"
            f" more than the {worst.budget:,} of a usual window{_others(len(unknown) - 1)}."
        )
        yield Reason("warning", "uncompacted", text, f"lcm compact {shlex.quote(worst.key)}")
    exhausted = [each for each in found if each.exhausted and each.tokens <= each.budget]
    if exhausted:
        worst = max(exhausted, key=lambda each: each.tokens / each.budget)
        text = (
            f"Compaction of {worst.key} ended at {worst.tokens:,} tokens with nothing left to summarise"
            f"{_others(len(exhausted) - 1)}."
        )
        yield Reason("warning", "exhausted", text, f"lcm new {shlex.quote(worst.key)}")


def _of_conversation(found: ConversationFigures) -> Iterator[Reason]:
    tokens = found.holdings.context_tokens
    if tokens > _FULL_AT * found.budget:
        yield _crowded(found.key, tokens, found.budget, 0)
    elif tokens > _CROWDED_AT * found.budget:
        share = f"{tokens / found.budget:.0%}"
        text = (
            f"The context of {found.key} holds {tokens:,} tokens, {share} of {found.budget:,}: it is to be compacted."
        )
        yield Reason("warning", "crowded", text, f"lcm compact {shlex.quote(found.key)}")


def _of_uncovered(found: Sequence[Uncovered]) -> Iterator[Reason]:
    if found:
        worst = found[0]
        text = (
            f"{worst.tokens:,} tokens of {worst.key} are neither shown to the model nor covered by a summary"
            f"{_others(len(found) - 1)}."
        )
        command = f"lcm compact {shlex.quote(worst.key)} --window {worst.window}"
        yield Reason("degraded", "uncovered", text, command)


def _crowded(key: str, tokens: int, budget: int, more: int) -> Reason:
    text = f"The context of {key} holds {tokens:,} tokens, and {budget:,} fit{_others(more)}."
    return Reason("degraded", "crowded", text, f"lcm compact {shlex.quote(key)} --window {budget}")


def span(seconds: float) -> str:
    """A length of time, roughly."""
    for unit, size, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < most * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds // _DAY:,.0f} days"


def _ago(at: datetime | None, now: datetime) -> str:
    return f"{span(max(0.0, (now - at).total_seconds()))} ago" if at else "never"


def _clock(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "-"


def _others(more: int) -> str:
    return f", and {_many(more, 'other')}" if more else ""


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
