"""The verb: what is stored, whether it is still coming in, what is owed and what holds it back. Cheap: no message is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct, convert

from lossless.config import is_file
from lossless.engine.compaction.resummarize import MOST_TRIES
from lossless.engine.inspect.verdict import is_trouble, judged
from lossless.engine.shared.calibration import Budget, budgets
from lossless.engine.shared.call_limits import Breaker, Spend, Stop, daily
from lossless.engine.shared.runtime import Runtime
from lossless.engine.shared.transplanted_ranges import own_after
from lossless.engine.sync.lag import following_report
from lossless.errors import LONGEST_PAUSE
from lossless.model import (
    Calls,
    ConversationFigures,
    Debt,
    DepthFigures,
    FullContext,
    Hold,
    Holdings,
    Room,
    Status,
    SummaryHealth,
    Uncovered,
)
from lossless.store.base import SPAN, ConversationRow, DebtRow, DepthRow
from lossless.store.rows import moment
from lossless.store.store import Store
from lossless.version import __version__

LEAST_ROOM = 64_000_000
"""Bytes that should be free where the database is, if its log of writes is not longer than half of that."""
_SHOWN, _MOST = 5, 1_000
_FAR = int((LONGEST_PAUSE + 60) * 1_000_000)
"""Microseconds: a time further ahead is from a clock that was wrong."""


class StatusRequest(Struct, frozen=True):
    """The conversation to report besides the database, and what the client knows of keys and models."""

    now: float
    is_closed: Callable[[str], bool]
    """Returns whether nothing is stored under a key."""
    has_model: bool = False
    """Whether a model is configured."""
    missing: tuple[str, ...] = ()
    """The reasons why this process cannot reach models: keys that are not set."""
    conversation: ConversationRow | None = None


def status(runtime: Runtime, request: StatusRequest) -> Status:
    """How a database stands, and if one is named, a conversation in it."""
    store, rows, named = runtime.store, runtime.store.conversations.of_owner(), request.conversation
    came, debts = _last_ingest(store, rows), _debts(runtime, request, None)
    followed, told_at = following_report(store, None, request.now, request.is_closed)
    facts = Status(
        version=__version__,
        database=store.location,
        bytes=store.size(),
        owner=store.owner,
        enabled=runtime.settings.enabled,
        conversations=len(rows),
        messages=sum(row.messages for row in rows),
        context_tokens=sum(row.context_tokens for row in rows),
        last_ingest_at=came,
        first_at=moment(min(row.created_at for row in rows)) if came else None,
        active=sum(row.active for row in rows),
        files=(kept := store.figures.files_kept())[0],
        files_bytes=kept[1],
        holdings=holdings(store, rows),
        following=followed,
        debts=tuple(sorted(debts, key=lambda each: (not is_trouble(each), each.since))[:_SHOWN]),
        pending=sum(each.state == "waiting" for each in debts),
        running=sum(each.state == "running" for each in debts),
        failed=sum(map(is_trouble, debts)),
        calls=_calls(runtime, request),
        rooms=tuple(_rooms(runtime)),
        conversation=None if named is None else _conversation(runtime, request, named),
        full=tuple(_full(runtime, rows)),
        has_model=request.has_model,
        uncovered=tuple(Uncovered(row.key, row.tokens, row.window_tokens) for row in store.manifests.uncovered(_SHOWN)),
    )
    return judged(facts, debts, _moment(request.now), told_at)


def _last_ingest(store: Store, rows: Sequence[ConversationRow]) -> datetime | None:
    """When the newest message came in that was not copied from another conversation.

    A conversation also changes when something of it is forgotten or copied to it, but no message is newer than its last
    change: by their order the first few tell.
    """
    newest = 0
    for row in [row for row in rows if row.messages][:_MOST]:
        if row.updated_at <= newest:
            break
        own = own_after(store.imported.transplants(row.id), row, 1) + 1
        newest = max([newest, *(each.created_at for each in store.figures.glances([row.id * SPAN + own]))])
    return moment(newest) if newest else None


def holdings(
    store: Store, rows: Sequence[ConversationRow], conversation_id: int | None = None, since: int = 0
) -> Holdings:
    """What these conversations hold: all of the owner's, or one."""
    heap = store.figures.heap(conversation_id)
    depths = store.figures.depth_rows(conversation_id, since=since, tries=MOST_TRIES)
    every = store.figures.depth_rows(conversation_id, since=0, tries=MOST_TRIES) if since else depths
    sources = sum(each.source_tokens for each in every if each.depth == 0)
    tokens, shown = heap.message_tokens + heap.detached_tokens + sources, sum(row.context_tokens for row in rows)
    return Holdings(
        messages=sum(row.messages for row in rows),
        message_tokens=tokens,
        source_tokens=sources,
        context_items=heap.items,
        context_tokens=shown,
        depths=tuple(map(_depth, depths)),
        health=_health(depths),
        shown_source_tokens=heap.shown_source_tokens,
        coverage=sources / tokens if tokens else None,
        ratio=max(1, round(heap.shown_source_tokens / shown)) if heap.shown_source_tokens and shown else None,
    )


def _depth(row: DepthRow) -> DepthFigures:
    ratio = row.source_tokens / row.tokens if row.tokens and row.source_tokens else None
    return DepthFigures(row.depth, row.summaries, row.tokens, row.source_tokens, ratio)


def _health(rows: Sequence[DepthRow]) -> SummaryHealth:
    names = SummaryHealth.__struct_fields__
    return SummaryHealth(**{name: sum(getattr(row, name) for row in rows) for name in names})


def _conversation(runtime: Runtime, request: StatusRequest, row: ConversationRow) -> ConversationFigures:
    return ConversationFigures(
        row.id,
        row.key,
        row.active,
        holdings(runtime.store, [row], row.id),
        _budgets(runtime, [row])[row.id].tokens,
        moment(row.updated_at),
        next(iter(_debts(runtime, request, row.id)), None),
        following_report(runtime.store, row.id, request.now, request.is_closed)[0],
    )


def _budgets(runtime: Runtime, rows: Sequence[ConversationRow]) -> dict[int, Budget]:
    return budgets(runtime.store, rows, runtime.settings.max_assembly_token_budget)


def _full(runtime: Runtime, rows: Sequence[ConversationRow]) -> Iterator[FullContext]:
    """Find the active conversations whose contexts are too large for the window their host named last."""
    active = [row for row in rows if row.active and row.context_tokens]
    found = _budgets(runtime, active)
    stops = {key: convert(state, Stop) for key, state in runtime.store.figures.guards("stop:").items()}
    for row in active:
        budget, assumed = found[row.id]
        exhausted = stops.get(row.key, Stop()).seq == row.next_seq
        if row.context_tokens > budget or exhausted:
            yield FullContext(row.key, row.context_tokens, budget, exhausted, assumed)


def _debts(runtime: Runtime, request: StatusRequest, conversation_id: int | None) -> list[Debt]:
    now, most = int(request.now * 1_000_000), runtime.settings.max_assembly_token_budget
    return [debt_of(row, tokens, now, most) for row, tokens in runtime.store.figures.debts(conversation_id)]


def debt_of(row: DebtRow, tokens: int, now: int, most: int | None = None) -> Debt:
    """What is owed to a conversation whose context holds so many tokens; `most` caps what its window allows."""
    is_running = row.worker is not None and now < (row.lease_until or 0) <= now + _FAR
    return Debt(
        row.key,
        "running" if is_running else "waiting" if row.pending else "settled",
        moment(row.requested_at),
        row.stop or "",
        row.failure or "",
        row.attempts,
        moment(row.next_at) if row.pending and now < row.next_at <= now + _FAR else None,
        min(row.window_tokens, most or row.window_tokens),
        tokens,
    )


def _calls(runtime: Runtime, request: StatusRequest) -> Calls:
    settings, now = runtime.settings, request.now
    seconds = settings.summary_call_window_ms / 1000
    spent = {key: convert(state, Spend) for key, state in runtime.store.figures.guards("spend:").items()}
    calls = sum(len(each.recent(now, settings)) for each in spent.values())
    held = {key: each.until for key, each in spent.items() if each.is_held(now, settings)}
    holds = [Hold("spend", key, until=_moment(until)) for key, until in held.items()]
    for model, state in runtime.store.figures.guards("breaker:").items():
        breaker = convert(state, Breaker)
        is_open = breaker.is_open(now, settings)
        if breaker.failures or is_open:
            holds.append(Hold("breaker", model, breaker.failures, _moment(breaker.until) if is_open else None))
        elif breaker.missing:
            holds.append(Hold("no key", model, why=breaker.missing))
    if not any(hold.kind == "no key" for hold in holds):
        holds += [Hold("no key", "", why=each) for each in request.missing]
    today = daily(runtime.store)
    if full := today.full_until(now, settings.max_calls_per_day):
        holds.append(Hold("daily limit", f"{settings.max_calls_per_day:,}", until=_moment(full)))
    most = settings.summary_max_calls_per_window
    return Calls(calls, seconds, most, tuple(holds), today.total(now), settings.max_calls_per_day)


def _rooms(runtime: Runtime) -> Iterator[Room]:
    """Where the database and the files are, if that is for us to see."""
    location, files = runtime.store.location, runtime.files.root
    if location == ":memory:" or not is_file(location):
        return
    home = Path(location).absolute().parent
    least = max(LEAST_ROOM, 2 * _bytes(f"{location}-wal"))
    yield Room(location, shutil.disk_usage(home).free, least, _is_writable(location, home))
    if files.exists() and files.stat().st_dev != home.stat().st_dev:
        writable = os.access(files, os.W_OK)
        yield Room(str(files), shutil.disk_usage(files).free, LEAST_ROOM, writable)


def _bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_writable(location: str, home: Path) -> bool:
    return os.access(location, os.W_OK) and os.access(home, os.W_OK | os.X_OK)


def _moment(seconds: float) -> datetime:
    return moment(int(seconds * 1_000_000))
