"""What to compact, and when: decisions over the ordered view, as values.

Pure. The same boundary of the fresh tail serves compaction and assembly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from lossless.config import Settings
from lossless.store.base import ItemRow


class Run(Struct, frozen=True):
    """Contiguous items that one summary will stand for."""

    items: tuple[ItemRow, ...]

    @property
    def depth(self) -> int:
        """The depth of the summary to be made: 0 from messages, one more than its sources' otherwise."""
        return max(self.items[0].depth, -1) + 1

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)


class Limits(NamedTuple):
    """What one conversation is held to: the settings, as its window and its rules make them."""

    budget: int
    threshold: int
    tail_count: int
    tail_tokens: int | None
    run_tokens: int
    prefix_target: int


def limits(settings: Settings, window: int) -> Limits:
    """The limits for a model's window."""
    budget = min(window, settings.max_assembly_token_budget or window)
    threshold = math.floor(settings.context_threshold * budget)
    return Limits(
        budget,
        threshold,
        settings.fresh_tail_count,
        settings.fresh_tail_max_tokens,
        settings.leaf_chunk_tokens,
        max(settings.condensed_target_tokens, min(settings.leaf_chunk_tokens, max(1, threshold) // 2)),
    )


def tail_start(items: Sequence[ItemRow], count: int, max_tokens: int | None) -> int:
    """Where the fresh tail starts (an index; the length of the items if nothing is protected).

    The tail is the newest messages, up to a count and a number of tokens, but always the whole of the newest user
    turn: whatever came after the newest user message belongs to it.
    """
    raw = [at for at, item in enumerate(items) if item.is_message]
    if count <= 0 or not raw:
        return len(items)
    newest_user = next((at for at in reversed(raw) if items[at].is_user), len(items))
    start, taken, tokens = len(items), 0, 0
    for at in reversed(raw):
        whole = start <= newest_user
        over = max_tokens is not None and taken > 0 and tokens + items[at].tokens > max_tokens
        if whole and (taken >= count or over):
            break
        start, taken, tokens = at, taken + 1, tokens + items[at].tokens
    return start


def leaf_run(items: Sequence[ItemRow], boundary: int, limit: int, after: int = -1) -> Run | None:
    """The oldest run of messages before the tail: up to `limit` tokens, at least one message, behind ordinal `after`."""
    chosen: list[ItemRow] = []
    total = 0
    for item in items[:boundary]:
        if item.ordinal <= after or (not chosen and not item.is_message):
            continue
        if not item.is_message or (chosen and total + item.tokens > limit):
            break
        chosen.append(item)
        total += item.tokens
        if total >= limit:
            break
    return Run(tuple(chosen)) if chosen else None


def condensed_run(
    items: Sequence[ItemRow], boundary: int, settings: Settings, *, hard: bool = False, max_depth: int = -1
) -> Run | None:
    """The first run of summaries of one depth worth condensing, at the shallowest such depth.

    `hard` lowers the number of summaries wanted; `max_depth` is the deepest summary that may be made (-1: any).
    """
    least = max(settings.condensed_target_tokens, settings.leaf_chunk_tokens // 10)
    for depth in sorted({item.depth for item in items[:boundary] if not item.is_message}):
        if max_depth >= 0 and depth + 1 > max_depth:
            break
        fanout = _fanout(depth, settings, hard)
        for run in _runs(items[:boundary], depth, settings.leaf_chunk_tokens):
            if len(run) >= fanout and sum(item.tokens for item in run) >= least:
                return Run(tuple(run))
    return None


def _fanout(depth: int, settings: Settings, hard: bool) -> int:
    if hard:
        return settings.condensed_min_fanout_hard
    return settings.leaf_min_fanout if depth == 0 else settings.condensed_min_fanout


def _runs(items: Sequence[ItemRow], depth: int, limit: int) -> list[list[ItemRow]]:
    """The runs of summaries of one depth, each cut where it would exceed the limit."""
    runs: list[list[ItemRow]] = []
    run: list[ItemRow] = []
    total = 0
    for item in items:
        fits = item.depth == depth and (not run or total + item.tokens <= limit) and total < limit
        if not fits and run:
            runs.append(run)
            run, total = [], 0
        if item.depth == depth:
            run = [*run, item] if fits else [item]
            total = total + item.tokens if fits else item.tokens
    return [*runs, run] if run else runs


def prefix_tokens(items: Sequence[ItemRow], boundary: int) -> int:
    """The tokens of the summaries before the tail."""
    return sum(item.tokens for item in items[:boundary] if not item.is_message)


def raw_tokens(items: Sequence[ItemRow], boundary: int) -> int:
    """The tokens of the messages before the tail, waiting to be summarised."""
    return sum(item.tokens for item in items[:boundary] if item.is_message)


def is_due(items: Sequence[ItemRow], limits: Limits, settings: Settings, observed: int = 0) -> bool:
    """Whether a turn has made compaction worth while, by the trigger in force.

    `threshold`: the context, or the prompt a host observed, is over it. `leaf`: enough raw messages lie outside the tail.
    """
    by_threshold = max(sum(item.tokens for item in items), observed) > limits.threshold
    if settings.compaction_trigger == "threshold":
        return by_threshold
    boundary = tail_start(items, limits.tail_count, limits.tail_tokens)
    waiting = [item for item in items[:boundary] if item.is_message]
    enough = len(waiting) >= settings.leaf_min_fanout and raw_tokens(items, boundary) >= limits.run_tokens
    return enough or (settings.compaction_trigger == "both" and by_threshold)
