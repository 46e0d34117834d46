"""Judge the health of a database: a verdict, and one sentence for each reason. Pure functions."""

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
    FullContext,
    Hold,
    HostFigures,
    LaggingTranscript,
    Reason,
    Status,
    TranscriptLag,
    Uncovered,
    Verdict,
    Volume,
)

Severity: TypeAlias = Literal["warning", "degraded"]
State: TypeAlias = Literal["behind", "unreadable", "missing"]

_DAY, _PATIENCE = 86_400.0, 900.0
"""Seconds without a message before a database is quiet; seconds that pending work may wait for a worker."""
_FULL_AT, _CROWDED_AT = 1.0, 0.75
_ENDS: Final[dict[DebtStop | Literal[""], str]] = {
    "auth": "the provider refused the credentials",
    "breaker": "the provider refused the credentials too often",
    "rate limit": "the provider asked for a pause (rate limit)",
    "unavailable": "the model could not be reached",
    "spend": "too many calls were made in a row",
    "daily limit": "the daily limit of requests to models is reached",
    "in vain": "a summary could not be rewritten",
    "failed": "it failed",
}
"""The ends of an attempt that are reported."""
_LIVE = "live agents: a stopped one looks idle"
_CONSISTENCY = "consistency of the database: `lcm doctor` checks it"
_NEVER_READ = "transcripts that were never read: `lcm watch` finds them"
_SERVER = "disk space and permissions on the database server"


def judge(facts: Status, debts: Sequence[Debt], now: datetime, written_at: datetime | None = None) -> Status:
    """Return the facts with a verdict and its reasons, the worst first.

    `written_at` is the last time that a completely read transcript was written.
    """
    reasons = sorted(_reasons(facts, debts, now), key=lambda each: each.severity != "degraded")
    return replace(
        facts,
        verdict=_verdict(facts, reasons, now, written_at),
        reasons=tuple(reasons),
        not_assessed=tuple(_not_assessed(facts)),
    )


def is_trouble(debt: Debt) -> bool:
    """Return whether the last attempt ended in a way that the user should know."""
    return bool(debt.failure) or (debt.state == "waiting" and debt.stop in _ENDS)


def _verdict(facts: Status, reasons: Sequence[Reason], now: datetime, written_at: datetime | None) -> Verdict:
    if reasons:
        return reasons[0].severity
    if facts.last_ingest_at is None:
        return "empty"
    # A host may write entries without messages: while they are read, missing messages are not a problem.
    newest = max(facts.last_ingest_at, written_at or facts.last_ingest_at)
    return "quiet" if (now - newest).total_seconds() >= _DAY else "ok"


def _not_assessed(facts: Status) -> Iterator[str]:
    unchecked = facts.following.transcripts - facts.following.looked_at
    if unchecked > 0:
        yield f"{_many(unchecked, 'transcript')} read longest ago"
    yield from (_LIVE, _NEVER_READ, _CONSISTENCY)
    if not facts.volumes:
        yield _SERVER


def _reasons(facts: Status, debts: Sequence[Debt], now: datetime) -> Iterator[Reason]:
    if not facts.enabled:
        yield Reason(
            severity="warning", what="disabled", text="lossless is disabled: nothing is stored.", command="lcm config"
        )
    for volume in facts.volumes:
        yield from _volume_reasons(volume)
    yield from _transcript_reasons(facts.following, now)
    for host in facts.hosts:
        yield from _host_reasons(host)
    for hold in facts.calls.holds:
        yield from _hold_reasons(hold)
    yield from _pending_reasons(debts, now)
    if tried := facts.holdings.health.in_vain:
        text = f"{_many(tried, 'summary', 'summaries')} could not be rewritten by a model after all attempts."
        yield Reason(severity="warning", what="in vain", text=text, command="lcm repair --all")
    yield from _summary_reasons(facts)
    if suspected := facts.holdings.health.unfaithful:
        text = f"{_many(suspected, 'summary contains', 'summaries contain')} claims not found in {'its' if suspected == 1 else 'their'} sources."
        yield Reason(severity="warning", what="unfaithful", text=text, command="lcm repair --all")
    crowded = {each.key for each in facts.full}
    yield from _uncovered_reasons([each for each in facts.uncovered if each.key not in crowded])
    named = facts.conversation
    if named and named.active:
        yield from _conversation_reasons(named)
    yield from _full_reasons([each for each in facts.full if not named or each.key != named.key])


def _volume_reasons(volume: Volume) -> Iterator[Reason]:
    if not volume.writable:
        yield Reason(
            severity="degraded",
            what="read-only",
            text=f"{volume.path} is not writable: nothing can be stored.",
            command=_ls(volume.path),
        )
    if volume.free < volume.least:
        text = (
            f"The disk is nearly full: {_megabytes(volume.free)} free for {volume.path}, less than {_megabytes(volume.least)}."
            " A message that does not fit is refused as a whole."
        )
        yield Reason(severity="degraded", what="full", text=text, command=f"df -h {shlex.quote(volume.path)}")


_TRANSCRIPT_TEXTS: tuple[tuple[State, Severity, str], ...] = (
    ("behind", "degraded", "{path} has {bytes} not read for {span}; last read {read}."),
    ("unreadable", "degraded", "{path} cannot be read; last read {read}."),
    ("missing", "warning", "{path} is missing; last written {written}. What was read of it is stored."),
)


def _transcript_reasons(found: TranscriptLag, now: datetime) -> Iterator[Reason]:
    counts = {"behind": found.behind, "unreadable": found.unreadable, "missing": found.vanished}
    for state, severity, template in _TRANSCRIPT_TEXTS:
        worst = next((each for each in found.lagging if each.state == state), None)
        if worst is None or not counts[state]:
            continue
        text = template.format(
            path=worst.path,
            bytes=_many(worst.bytes, "byte"),
            span=span(worst.seconds),
            read=_ago(worst.read_at, now),
            written=_ago(worst.written_at, now),
        )
        more = f" Also {_many(counts[state] - 1, 'other')}." if counts[state] > 1 else ""
        yield Reason(severity=severity, what=state, text=text + more, command=_read_command(worst))


def _read_command(each: LaggingTranscript) -> str:
    if each.state == "unreadable":
        return _ls(each.path)
    if each.state == "missing":
        return f"lcm watch {shlex.quote(str(Path(each.path).parent))}"
    return f"lcm import {shlex.quote(each.path)} --key {shlex.quote(each.key)} --apply"


def _ls(path: str) -> str:
    return f"ls -ld {shlex.quote(path)}"


def _host_reasons(host: HostFigures) -> Iterator[Reason]:
    if host.failures:
        many = f"{_many(host.failures, 'event')} in a row" if host.failures > 1 else "its last event"
        text = f"{host.host} failed at {many}, last at {_clock(host.last_error_at)}: {host.last_error.strip()[:300]}"
        yield Reason(severity="warning", what="host", text=text, command="lcm hosts")


def _hold_reasons(hold: Hold) -> Iterator[Reason]:
    until = f" until {_clock(hold.until)}" if hold.until else ""
    if hold.kind == "spend":
        text = f"{hold.name} made too many calls to a model; no more calls{until}."
        yield Reason(severity="warning", what="held", text=text, command="lcm stats")
    elif hold.kind == "daily limit":
        text = f"{hold.name} requests to models in 24 hours reach max_calls_per_day: no more{until}. {_PROVISIONAL}"
        yield Reason(severity="warning", what="held", text=text, command="lcm config explain max_calls_per_day")
    elif hold.kind == "no key":
        yield Reason(
            severity="degraded",
            what="credentials",
            text=f"{hold.why} {_PROVISIONAL}",
            command="lcm config explain providers",
        )
    elif hold.until:
        text = f"{hold.name} refused the credentials too often; no calls{until}. {_KEY}"
        yield Reason(severity="degraded", what="credentials", text=text, command=_RETRY)
    else:
        text = f"{hold.name} refused the credentials {_many(hold.failures, 'time')} in a row. {_KEY}"
        yield Reason(severity="warning", what="credentials", text=text, command=_RETRY)


_KEY, _RETRY = "Check its key.", "lcm compact --force"
_PROVISIONAL = "Summaries are written without a model meanwhile."


def _pending_reasons(debts: Sequence[Debt], now: datetime) -> Iterator[Reason]:
    for stop in _ENDS:
        found = [each for each in debts if is_trouble(each) and (each.stop or "failed") == stop]
        if found:
            severity: Severity = "degraded" if stop in ("auth", "breaker") else "warning"
            text = _pending_text(found[0], len(found) - 1)
            yield Reason(severity=severity, what=_KINDS.get(stop, "pending"), text=text, command="lcm worker --once")
    waiting = [each for each in debts if each.state == "waiting" and not is_trouble(each)]
    unattended = [
        each for each in waiting if (now - max(each.since, each.next_at or each.since)).total_seconds() >= _PATIENCE
    ]
    if unattended:
        first, more = unattended[0], _others(len(unattended) - 1)
        text = f"Pending work for {first.key} has waited for a worker since {_clock(first.since)}{more}."
        yield Reason(severity="warning", what="unattended", text=text, command="lcm worker")


_KINDS = {"auth": "credentials", "breaker": "credentials", "failed": "failed"}


def _pending_text(debt: Debt, more: int) -> str:
    why = _ENDS.get(debt.stop, debt.stop)
    failure = f" ({debt.failure.strip()[:200]})" if debt.failure else ""
    again = f"; next attempt {_clock(debt.next_at)}" if debt.next_at else ""
    work = "Compaction" if debt.window else "Rewriting of summaries"
    return f"{work} of {debt.key} is pending since {_clock(debt.since)}: {why}{failure}{again}{_others(more)}."


def _summary_reasons(facts: Status) -> Iterator[Reason]:
    health = facts.holdings.health
    if health.cut:
        text = f"{_many(health.cut, 'summary was', 'summaries were')} cut short."
        yield Reason(severity="warning", what="cut", text=text, command="lcm repair --all")
    if health.provisional and facts.has_model:
        many = _many(health.provisional, "summary was", "summaries were")
        text = f"{many} written without the configured model."
        yield Reason(severity="warning", what="provisional", text=text, command="lcm repair --all")


def _full_reasons(found: Sequence[FullContext]) -> Iterator[Reason]:
    known = [each for each in found if each.tokens > each.budget and not each.assumed]
    if known:
        worst = max(known, key=lambda each: each.tokens / each.budget)
        yield _crowded(worst.key, worst.tokens, worst.budget, len(known) - 1)
    unknown = [each for each in found if each.tokens > each.budget and each.assumed]
    if unknown:
        worst = max(unknown, key=lambda each: each.tokens)
        text = (
            f"The context of {worst.key} has {worst.tokens:,} tokens and was never compacted;"
            f" a usual window has {worst.budget:,}{_others(len(unknown) - 1)}."
        )
        yield Reason(severity="warning", what="uncompacted", text=text, command=f"lcm compact {shlex.quote(worst.key)}")
    exhausted = [each for each in found if each.exhausted and each.tokens <= each.budget]
    if exhausted:
        worst = max(exhausted, key=lambda each: each.tokens / each.budget)
        text = (
            f"Compaction of {worst.key} ended at {worst.tokens:,} tokens with nothing left to summarise"
            f"{_others(len(exhausted) - 1)}."
        )
        yield Reason(severity="warning", what="exhausted", text=text, command=f"lcm new {shlex.quote(worst.key)}")


def _conversation_reasons(found: ConversationFigures) -> Iterator[Reason]:
    tokens = found.holdings.context_tokens
    if tokens > _FULL_AT * found.budget:
        yield _crowded(found.key, tokens, found.budget, 0)
    elif tokens > _CROWDED_AT * found.budget:
        share = f"{tokens / found.budget:.0%}"
        text = f"The context of {found.key} has {tokens:,} tokens, {share} of {found.budget:,}: compact it."
        yield Reason(severity="warning", what="crowded", text=text, command=f"lcm compact {shlex.quote(found.key)}")


def _uncovered_reasons(found: Sequence[Uncovered]) -> Iterator[Reason]:
    if found:
        worst = found[0]
        text = (
            f"{worst.tokens:,} tokens of {worst.key} are neither shown to the model nor covered by a summary"
            f"{_others(len(found) - 1)}."
        )
        command = f"lcm compact {shlex.quote(worst.key)} --window {worst.window}"
        yield Reason(severity="degraded", what="uncovered", text=text, command=command)


def _crowded(key: str, tokens: int, budget: int, more: int) -> Reason:
    text = f"The context of {key} has {tokens:,} tokens; {budget:,} fit{_others(more)}."
    return Reason(
        severity="degraded", what="crowded", text=text, command=f"lcm compact {shlex.quote(key)} --window {budget}"
    )


def span(seconds: float) -> str:
    """Return a length of time in words, rounded down."""
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
