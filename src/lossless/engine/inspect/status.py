"""Report the state of a database: contents, transcripts, pending work, model calls. Reads no messages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct, convert

from lossless.config import is_file
from lossless.engine.compaction.resummarize import MOST_TRIES
from lossless.engine.context.load import active_brief
from lossless.engine.inspect.verdict import is_trouble, judge
from lossless.engine.shared import host_activity
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
    HostFigures,
    Status,
    SummaryHealth,
    Uncovered,
    Volume,
)
from lossless.store.rows.codec import moment
from lossless.store.rows.types import SPAN, ConversationRow, DebtRow, DepthRow
from lossless.store.store import Store
from lossless.version import __version__

LEAST_FREE = 64_000_000
"""Bytes that should be free beside the database, unless its write-ahead log is more than half of that."""
_SHOWN, _MOST = 5, 1_000
_FAR = int((LONGEST_PAUSE + 60) * 1_000_000)
"""Microseconds: a time further in the future comes from a wrong clock."""


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
    """Return the state of a database, and of one conversation if the request names it."""
    store, rows, named = runtime.store, runtime.store.conversations.of_owner(), request.conversation
    last_ingest, debts = _last_ingest(store, rows), _debts(runtime, request, None)
    followed, written_at = following_report(store, None, request.now, request.is_closed)
    files, files_bytes = store.figures.files_kept()
    facts = Status(
        version=__version__,
        database=store.location,
        bytes=store.size(),
        owner=store.owner,
        enabled=runtime.settings.enabled,
        conversations=len(rows),
        messages=sum(row.messages for row in rows),
        context_tokens=sum(row.context_tokens for row in rows),
        last_ingest_at=last_ingest,
        first_at=moment(min(row.created_at for row in rows)) if last_ingest else None,
        active=sum(row.active for row in rows),
        files=files,
        files_bytes=files_bytes,
        holdings=holdings(store, rows),
        following=followed,
        debts=tuple(sorted(debts, key=lambda each: (not is_trouble(each), each.since))[:_SHOWN]),
        pending=sum(each.state == "waiting" for each in debts),
        running=sum(each.state == "running" for each in debts),
        failed=sum(map(is_trouble, debts)),
        calls=_calls(runtime, request),
        volumes=tuple(_volumes(runtime)),
        conversation=None if named is None else _conversation(runtime, request, named),
        full=tuple(_full(runtime, rows)),
        has_model=request.has_model,
        hosts=tuple(_hosts(store.location)),
        uncovered=tuple(Uncovered(row.key, row.tokens, row.window_tokens) for row in store.manifests.uncovered(_SHOWN)),
    )
    return judge(facts, debts, _moment(request.now), written_at)


def _last_ingest(store: Store, rows: Sequence[ConversationRow]) -> datetime | None:
    """Return the time of the newest message that was not copied from another conversation.

    Forgetting and copying change a conversation too, but no message is newer than the last change. So the most recently
    changed conversations are enough.
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
    """Return the contents of these conversations: all of the owner's, or one."""
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
    return DepthFigures(
        depth=row.depth, summaries=row.summaries, tokens=row.tokens, source_tokens=row.source_tokens, ratio=ratio
    )


def _health(rows: Sequence[DepthRow]) -> SummaryHealth:
    names = SummaryHealth.__struct_fields__
    return SummaryHealth(**{name: sum(getattr(row, name) for row in rows) for name in names})


def _conversation(runtime: Runtime, request: StatusRequest, row: ConversationRow) -> ConversationFigures:
    brief = active_brief(runtime.store, row)
    return ConversationFigures(
        id=row.id,
        key=row.key,
        active=row.active,
        holdings=holdings(runtime.store, [row], row.id),
        budget=_budgets(runtime, [row])[row.id].tokens,
        updated_at=moment(row.updated_at),
        debt=next(iter(_debts(runtime, request, row.id)), None),
        following=following_report(runtime.store, row.id, request.now, request.is_closed)[0],
        brief=brief.id if brief else "",
        brief_task=brief.task if brief else "",
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
            yield FullContext(
                key=row.key, tokens=row.context_tokens, budget=budget, exhausted=exhausted, assumed=assumed
            )


def _debts(runtime: Runtime, request: StatusRequest, conversation_id: int | None) -> list[Debt]:
    now, most = int(request.now * 1_000_000), runtime.settings.max_assembly_token_budget
    return [debt_of(row, tokens, now, most) for row, tokens in runtime.store.figures.debts(conversation_id)]


def debt_of(row: DebtRow, tokens: int, now: int, most: int | None = None) -> Debt:
    """Return the pending work of a conversation with so many tokens in its context; `most` caps its window."""
    is_running = row.worker is not None and now < (row.lease_until or 0) <= now + _FAR
    return Debt(
        key=row.key,
        state="running" if is_running else "waiting" if row.pending else "settled",
        since=moment(row.requested_at),
        stop=row.stop or "",
        failure=row.failure or "",
        attempts=row.attempts,
        next_at=moment(row.next_at) if row.pending and now < row.next_at <= now + _FAR else None,
        window=min(row.window_tokens, most or row.window_tokens),
        context_tokens=tokens,
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
            holds.append(
                Hold(
                    kind="breaker",
                    name=model,
                    failures=breaker.failures,
                    until=_moment(breaker.until) if is_open else None,
                )
            )
        elif breaker.missing:
            holds.append(Hold("no key", model, why=breaker.missing))
    if not any(hold.kind == "no key" for hold in holds):
        holds += [Hold("no key", "", why=each) for each in request.missing]
    today = daily(runtime.store)
    if full := today.full_until(now, settings.max_calls_per_day):
        holds.append(Hold("daily limit", f"{settings.max_calls_per_day:,}", until=_moment(full)))
    return Calls(
        calls=calls,
        seconds=seconds,
        most=settings.summary_max_calls_per_window,
        holds=tuple(holds),
        today=today.total(now),
        most_a_day=settings.max_calls_per_day,
    )


def _hosts(database: str) -> Iterator[HostFigures]:
    """Yield what was recorded of the hosts that deliver into a database."""
    names = (database, os.path.abspath(database)) if is_file(database) else (database,)
    for each in host_activity.read_all():
        if each.database in names:
            yield HostFigures(
                host=each.host,
                delivered=each.delivered,
                last_delivery_at=_moment(each.last_delivery) if each.last_delivery else None,
                last_event=each.last_event,
                last_event_at=_moment(each.last_event_at) if each.last_event_at else None,
                failures=each.failures,
                last_error=each.last_error,
                last_error_at=_moment(each.last_error_at) if each.last_error_at else None,
            )


def _volumes(runtime: Runtime) -> Iterator[Volume]:
    """Yield the free space of the database and of its files, where they are local."""
    location, files = runtime.store.location, runtime.files.root
    if location == ":memory:" or not is_file(location):
        return
    home = Path(location).absolute().parent
    least = max(LEAST_FREE, 2 * _bytes(f"{location}-wal"))
    yield Volume(path=location, free=shutil.disk_usage(home).free, least=least, writable=_is_writable(location, home))
    if files.exists() and files.stat().st_dev != home.stat().st_dev:
        free, writable = shutil.disk_usage(files).free, os.access(files, os.W_OK)
        yield Volume(path=str(files), free=free, least=LEAST_FREE, writable=writable)


def _bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_writable(location: str, home: Path) -> bool:
    return os.access(location, os.W_OK) and os.access(home, os.W_OK | os.X_OK)


def _moment(seconds: float) -> datetime:
    return moment(int(seconds * 1_000_000))
