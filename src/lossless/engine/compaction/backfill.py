"""Compact a whole history to its end: runs of messages, then of summaries, until none is left.

It makes the same passes as compaction, without thresholds and deadlines. Summaries that were written stay, whatever stops
it, and the next run continues from there. If a model fails, the run ends instead of continuing without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import TypeAlias

from msgspec.structs import replace

from lossless.config import Settings
from lossless.engine.compaction import plan, prompts, summary_lengths
from lossless.engine.compaction.plan import Limits, Run
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.sweep import CompactionState, close_run, one_pass
from lossless.engine.shared.model_flow import ModelFlow, drive, without_fallback
from lossless.errors import SummarizerError
from lossless.model import Estimate, SummaryRequest
from lossless.store.rows.types import ConversationRow, ItemRow
from lossless.store.store import Store
from lossless.summarizers.base import Reply
from lossless.tokens import estimate

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the key, the summaries made so far, and their estimated number."""
_LARGEST = 2**31 - 1
_FEW = 2 * summary_lengths.LEAST_LEAF
"""The least tokens of messages for a leaf of their own."""


def without_deadlines(settings: Settings) -> Settings:
    """Return the settings without the limits that keep a host's turn short."""
    return replace(settings, max_sweep_iterations=_LARGEST, summary_max_calls_per_window=_LARGEST)


def begin(
    store: Store,
    conversation: ConversationRow,
    settings: Settings,
    *,
    templates: Templates,
    now: Callable[[], float],
    tail: int,
) -> CompactionState:
    """Return the state for compacting a conversation to its end, except its newest `tail` messages."""
    state = CompactionState(store, conversation, settings, limits(settings, tail), templates, now, float("inf"))
    state.read_items()
    return state


def limits(settings: Settings, tail: int) -> Limits:
    """Return limits without a window: only the sizes count."""
    return Limits(_LARGEST, _LARGEST, tail, None, settings.leaf_chunk_tokens, 0, _LARGEST)


def finish(
    state: CompactionState,
    ask: Callable[[SummaryRequest], Reply | SummarizerError],
    *,
    single_root: bool = False,
    progress: Callable[[int], None] = lambda made: None,
) -> str:
    """Compact to the end; return the reason if it stopped before."""
    try:
        drive(without_fallback(_passes(state, single_root, progress)), ask)
    except SummarizerError as error:
        return str(error)
    return "Another process compacted the conversation meanwhile." if state.stop == "moved" else ""


def _passes(state: CompactionState, single_root: bool, progress: Callable[[int], None]) -> ModelFlow[None]:
    after = -1
    while True:
        run = next_run(
            state.items,
            state.boundary,
            state.limits,
            state.settings,
            after=after,
            single_root=single_root,
            keep=state.keep,
        )
        if run is None:
            return
        if (yield from one_pass(state, run if run.depth else close_run(state, run))):
            progress(len(state.made))
            continue
        if state.stop or run.depth:
            return
        after = run.items[-1].ordinal


def next_run(
    items: Sequence[ItemRow],
    boundary: int,
    limits: Limits,
    settings: Settings,
    *,
    after: int = -1,
    single_root: bool,
    keep: Collection[int] = (),
) -> Run | None:
    """Return the next run: the oldest messages after `after`, else the shallowest summaries, else a root."""
    return (
        _leaf_run(items, boundary, limits, after, 1 if single_root else min(limits.run_tokens // 2, _FEW), keep)
        or plan.condensed_run(items, boundary, limits, settings)
        or (plan.root_run(items, limits, settings, keep) if single_root else None)
    )


def _leaf_run(
    items: Sequence[ItemRow], boundary: int, limits: Limits, after: int, least: int, keep: Collection[int]
) -> Run | None:
    """Return a run of messages, with a small remainder after it included."""
    while run := plan.leaf_run(items, boundary, limits.run_tokens, after, keep):
        behind = items[items.index(run.items[-1]) + 1 : boundary]
        rest = list(takewhile(lambda item: item.is_message and item.ordinal not in keep, behind[:_FEW]))
        if sum(item.tokens for item in rest) < min(_FEW, limits.run_tokens):
            run = Run((*run.items, *rest))
        if run.tokens >= least:
            return run
        after = run.items[-1].ordinal
    return None


def estimate_cost(
    items: Sequence[ItemRow], settings: Settings, *, templates: Templates, tail: int, single_root: bool = False
) -> Estimate:
    """Estimate the calls and tokens, if every summary has the requested length."""
    items, sizes = list(items), limits(settings, tail)
    boundary = plan.tail_start(items, tail, None)
    calls = asked = answered = 0
    while run := next_run(items, boundary, sizes, settings, single_root=single_root):
        wanted = min(summary_lengths.target(run.depth, run.tokens, settings), max(1, run.tokens // 2))
        at = items.index(run.items[0])
        previous = [item.tokens for item in items[:at] if not item.is_message][-2:] if run.depth < 2 else []
        calls += 1
        asked += run.tokens + sum(previous) + _frame(run.depth, settings, templates)
        answered += wanted
        items[at : at + len(run.items)] = [ItemRow(run.items[0].ordinal, -calls, wanted, run.depth)]
        boundary -= len(run.items) - 1
    return Estimate(calls, asked, answered, sum(item.tokens for item in items))


def _frame(depth: int, settings: Settings, templates: Templates) -> int:
    """Return the tokens of a request without its source."""
    request = prompts.request(
        "",
        depth=depth,
        target_tokens=1,
        max_tokens=1,
        previous=None,
        aggressive=False,
        settings=settings,
        templates=templates,
    )
    return estimate(request.system) + estimate(request.prompt)
