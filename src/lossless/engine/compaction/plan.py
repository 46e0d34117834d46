"""Decide what to compact, and when: pure functions over the context items.

Pure. The same boundary of the fresh tail serves compaction and assembly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from typing import NamedTuple

from msgspec import Struct, structs

from lossless import session_patterns
from lossless.config import Settings, ThresholdRule
from lossless.engine.compaction.summary_lengths import LEAST_CONDENSED, LEAST_LEAF
from lossless.store.rows.types import ItemRow, Links


class Run(Struct, frozen=True, dict=True):
    """Contiguous items that one summary will replace."""

    items: tuple[ItemRow, ...]

    @property
    def depth(self) -> int:
        """Return the depth of the new summary: 0 from messages, else one more than its deepest source."""
        return max(-1, *[item.depth for item in self.items]) + 1

    @cached_property
    def tokens(self) -> int:
        return sum([item.tokens for item in self.items])


class Limits(NamedTuple):
    """The limits of one conversation: the settings, adapted to its window and rules."""

    budget: int
    threshold: int
    tail_count: int
    tail_tokens: int | None
    run_tokens: int
    prefix_target: int
    share: int
    """The most tokens of the newest messages that are never summarised, whatever their number."""

    @property
    def protected_tokens(self) -> int:
        """Return the limit in tokens of what compaction never touches."""
        return self.share if self.tail_tokens is None else min(self.tail_tokens, self.share)


def limits(
    settings: Settings,
    window: int,
    *,
    key: str = "",
    model: str | None = None,
    factor: float = 1.0,
    most: int | None = None,
) -> Limits:
    """Return the limits for a model's window, with the rule for this conversation or model applied.

    They are in tokens as we estimate them: the model counts `factor` times as many. `most` is what fits into the bytes of a
    request, whatever the window.
    """
    rule = matching_rule(settings, window, key, model)
    share = rule.context_threshold if rule else settings.context_threshold
    tail = (rule and rule.fresh_tail_count) or settings.fresh_tail_count
    chunk = (rule and rule.leaf_chunk_tokens) or settings.leaf_chunk_tokens
    budget = math.floor(min(window, settings.max_assembly_token_budget or window) / factor)
    budget = max(1, budget if most is None else min(budget, most))
    threshold = math.floor(share * budget)
    prefix = max(_condensed_target(settings, threshold), min(chunk, max(1, threshold) // 2))
    return Limits(budget, threshold, tail, settings.fresh_tail_max_tokens, chunk, prefix, tail_share(budget))


def tail_share(budget: int) -> int:
    """Return the most tokens of a budget that the fresh tail may use; the rest is for summaries."""
    return budget // 2


def narrowed(limits: Limits, overhead: int) -> Limits:
    """Return the limits with a tail that fits beside `overhead` tokens of the host."""
    return limits._replace(share=tail_share(max(limits.budget - overhead, limits.budget // _LEAST_SHARE)))


_LEAST_SHARE = 8
"""The least part of the window that is left for the context beside what the host measures."""


def workable(settings: Settings, limits: Limits) -> Settings:
    """Return settings that work within these limits: summaries that fit, fan-outs that are reached."""
    # More summaries do not fit below the threshold, and would never be condensed.
    most = max(2, limits.threshold // (2 * scaled(settings, limits).leaf_target_tokens))
    fanout = min(settings.condensed_min_fanout_hard, settings.leaf_min_fanout, settings.condensed_min_fanout, most)
    target = _condensed_target(settings, limits.threshold)
    if (fanout, target) == (settings.condensed_min_fanout_hard, settings.condensed_target_tokens):
        return settings
    return structs.replace(settings, condensed_min_fanout_hard=fanout, condensed_target_tokens=target)


def _condensed_target(settings: Settings, threshold: int) -> int:
    """Return the length of a condensed summary of which several fit below the threshold."""
    return min(settings.condensed_target_tokens, max(LEAST_CONDENSED, threshold // 4))


def matching_rule(settings: Settings, window: int, key: str, model: str | None) -> ThresholdRule | None:
    """Return the most specific rule that matches, the first of equals.

    A rule without a model or session pattern is for all of them. The window is the model's own, whatever its budget.
    """
    fitting = [rule for rule in settings.context_threshold_overrides if _fits(rule, window, key, model)]
    return max(fitting, key=_specificity) if fitting else None


def _fits(rule: ThresholdRule, window: int, key: str, model: str | None) -> bool:
    return (
        (rule.window_min or 0) <= window <= (rule.window_max or window)
        and (rule.session_pattern is None or session_patterns.matches(rule.session_pattern, key))
        and (rule.model is None or _names(rule.model, model or ""))
    )


def _names(pattern: str, model: str) -> bool:
    """Return True if the pattern names the model, with or without its provider, in any case."""
    full = model.casefold()
    return any(session_patterns.matches(pattern.casefold(), name) for name in (full, full.partition("/")[2]) if name)


def _specificity(rule: ThresholdRule) -> int:
    weights = ((rule.model, 100), (rule.session_pattern, 50), (rule.window_min, 20), (rule.window_max, 20))
    return sum(weight for matcher, weight in weights if matcher is not None)


def tail_start(
    items: Sequence[ItemRow], count: int, max_tokens: int | None, links: Mapping[int, Links] | None = None
) -> int:
    """Return the index where the fresh tail starts (the length of the items if nothing is protected).

    The tail is the newest tool rounds, up to a count of messages and a number of tokens, and always the newest round. It is
    cut between rounds, as `links` tell them; the round that reaches the count is whole. It may start inside a turn, and
    contains no summary unless the newest round lies before one.
    """
    if count <= 0:
        return len(items)
    low = _reach(items, links, max_tokens) if links else None
    start, taken, tokens = len(items), 0, 0
    pending, cost = 0, 0
    for at in range(len(items) - 1, -1, -1):
        if items[at].depth >= 0:
            if taken:
                break  # a message before a summary is not fresh: it would protect every summary
            continue
        pending, cost = pending + 1, cost + items[at].tokens
        if low is not None and low[at] < at:
            continue
        over = max_tokens is not None and tokens + cost > max_tokens
        if taken and (taken >= count or over):
            break
        start, taken, tokens = at, taken + pending, tokens + cost
        pending = cost = 0
    return start


def round_starts(items: Sequence[ItemRow], links: Mapping[int, Links], most: int | None = None) -> list[bool]:
    """Return for each item True if a cut before it separates no call from its results."""
    return [at <= low for at, low in enumerate(_reach(items, links, most))]


def _reach(items: Sequence[ItemRow], links: Mapping[int, Links], most: int | None) -> list[int]:
    """Return for each item the first item that it, or a later one, answers.

    A result that came more than `most` tokens after its call, and not directly behind it, is on its own: no tail could hold
    both.
    """
    called: dict[str, int] = {}
    before = [] if most is None else [0, *accumulate([item.tokens if item.depth < 0 else 0 for item in items])]
    first, asking = list(range(len(items))), -1
    for at, item in enumerate(items):
        found = links.get(item.ordinal) if item.depth < 0 else None
        if found is None:
            asking = -1
            continue
        asked, answered = found
        is_reply = False
        for each in answered:
            call = called.get(each, at)
            is_reply = is_reply or call == asking
            near = call == asking or most is None or before[at + 1] - before[call] <= most
            if near and call < first[at]:
                first[at] = call
        for each in asked:
            called[each] = at
        asking = at if asked else asking if is_reply else -1
    for at in range(len(items) - 2, -1, -1):
        if first[at + 1] < first[at]:
            first[at] = first[at + 1]
    return first


def answers_earlier(items: Sequence[ItemRow], links: Mapping[int, Links]) -> bool:
    """Return True if a result among the items answers an earlier call."""
    asked: set[str] = set()
    for item in items:
        found = links.get(item.ordinal) if item.depth < 0 else None
        if found:
            if not asked.issuperset(found[1]):
                return True
            asked.update(found[0])
    return False


def protected_ordinals(
    items: Sequence[ItemRow], boundary: int, count: int, system: ItemRow | None = None
) -> frozenset[int]:
    """Return the ordinals before the tail that are never summarised: newest user and system message."""
    newest = next((at for at in range(len(items) - 1, -1, -1) if items[at].is_user), boundary)
    words = {items[newest].ordinal} if count > 0 and newest < boundary else set()
    return frozenset(words if system is None else {*words, system.ordinal})


def leaf_run(
    items: Sequence[ItemRow], boundary: int, limit: int, after: int = -1, keep: Collection[int] = ()
) -> Run | None:
    """Return the oldest run of messages before the tail, after the ordinal `after`, without those to `keep`.

    It holds up to `limit` tokens and at least one message.
    """
    chosen: list[ItemRow] = []
    total = 0
    for item in items[:boundary]:
        is_free = item.is_message and item.ordinal not in keep
        if item.ordinal <= after or (not chosen and not is_free):
            continue
        if not is_free or (chosen and total + item.tokens > limit):
            break
        chosen.append(item)
        total += item.tokens
        if total >= limit:
            break
    return Run(tuple(chosen)) if chosen else None


def following(
    items: Sequence[ItemRow], boundary: int, run: Run, limit: int, keep: Collection[int] = ()
) -> list[ItemRow]:
    """Return the messages after a run, just over `limit` tokens, up to one that is never summarised."""
    chosen: list[ItemRow] = []
    total = 0
    for item in items[items.index(run.items[-1]) + 1 : boundary]:
        if item.depth >= 0 or total > limit or item.ordinal in keep:
            break
        chosen.append(item)
        total += item.tokens
    return chosen


def closed_run(run: Run, behind: Sequence[ItemRow], links: Mapping[int, Links], limit: int) -> Run:
    """Return the run with its end moved to where no call is separated from its results.

    `behind` are the messages that follow it, up to where a cut is allowed or as far as was looked. The end moves back as long
    as half of the run is left, else forward as long as it stays below twice the limit. Otherwise it stays.
    """
    items, count = [*run.items, *behind], len(run.items)
    starts = [*round_starts(items, links), True]
    if starts[count]:
        return run
    shorter = next((at for at in range(count - 1, 0, -1) if starts[at]), 0)
    longer = next(at for at in range(count + 1, len(items) + 1) if starts[at])
    back, ahead = Run(tuple(items[:shorter])), Run(tuple(items[:longer]))
    if 2 * back.tokens >= run.tokens:
        return back
    if ahead.tokens <= 2 * limit:
        return ahead
    return back if shorter else run


def stranded_run(items: Sequence[ItemRow], boundary: int, limit: int, keep: Collection[int] = ()) -> Run | None:
    """Return the first messages between two summaries that are too few for their own summary.

    They keep the summaries around them from being condensed together.
    """
    after = -1
    while run := leaf_run(items, boundary, limit, after, keep):
        first = items.index(run.items[0])
        last = first + len(run.items)
        between = first > 0 and not items[first - 1].is_message and last < boundary and not items[last].is_message
        if between and run.tokens < limit:
            return run
        after = run.items[-1].ordinal
    return None


def least_run(items: Sequence[ItemRow], boundary: int, limits: Limits, goal: int, *, eager: bool = False) -> int:
    """Return the fewest tokens of messages that are worth a call for a leaf.

    When the tail alone is over the goal, no summary can bring the context below it. Then more messages are required,
    so that not every turn costs a call, unless `eager` is set.
    """
    few, half = 2 * LEAST_LEAF, limits.run_tokens // 2
    hopeless = sum(item.tokens for item in items[boundary:]) > goal
    return min(half, max(few, limits.budget // 4)) if hopeless and not eager else min(half, few)


def condensed_run(
    items: Sequence[ItemRow],
    boundary: int,
    limits: Limits,
    settings: Settings,
    *,
    hard: bool = False,
    max_depth: int = -1,
) -> Run | None:
    """Return the first run of summaries of one depth worth condensing, at the shallowest such depth.

    `hard` lowers the number of summaries wanted; `max_depth` is the deepest summary that may be made (-1: any).
    """
    least = max(settings.condensed_target_tokens, 0 if hard else limits.run_tokens // 10)
    most = max(limits.run_tokens, settings.least_condensation_tokens)
    for depth in sorted({item.depth for item in items[:boundary] if not item.is_message}):
        if max_depth >= 0 and depth + 1 > max_depth:
            break
        fanout = _fanout(depth, settings, hard)
        for run in _runs(items[:boundary], depth, most):
            if len(run) >= fanout and sum(item.tokens for item in run) >= least:
                return Run(tuple(run))
    return None


def root_run(items: Sequence[ItemRow], limits: Limits, settings: Settings, keep: Collection[int] = ()) -> Run | None:
    """Return the next run that leads to a single summary of everything.

    Where no two of one depth stand side by side, those of different depths are condensed together. None if one is left,
    or a message stands among them that may still be summarised. On each side of one to `keep` there is a root.
    """
    if any(item.is_message and item.ordinal not in keep for item in items):
        return None
    sides = [list(side) for is_message, side in groupby(items, lambda item: item.is_message) if not is_message]
    return next((run for side in sides if (run := _root_run(side, limits, settings))), None)


def _root_run(items: Sequence[ItemRow], limits: Limits, settings: Settings) -> Run | None:
    if len(items) < 2:
        return None
    most = max(limits.run_tokens, settings.least_condensation_tokens)
    for depth in sorted({item.depth for item in items}):
        for run in _runs(items, depth, most):
            if len(run) >= settings.condensed_min_fanout_hard:
                return Run(tuple(run))
    total, chosen = 0, list[ItemRow]()
    for item in items:
        if len(chosen) >= 2 and total + item.tokens > most:
            break
        chosen.append(item)
        total += item.tokens
    return Run(tuple(chosen))


def mixed_run(items: Sequence[ItemRow], boundary: int, limits: Limits) -> Run | None:
    """Return neighbouring summaries of different depths, if no run of one depth is left and they use too much.

    The shallowest that stand side by side, so that what was condensed often is not condensed again each time.
    """
    before = items[:boundary]
    pairs = [at for at in range(len(before) - 1) if not (before[at].is_message or before[at + 1].is_message)]
    if not pairs:
        return None
    first = min(pairs, key=lambda at: max(before[at].depth, before[at + 1].depth))
    deepest = max(before[first].depth, before[first + 1].depth)
    chosen = [before[first], before[first + 1]]
    for item in before[first + 2 :]:
        if (
            item.is_message
            or item.depth > deepest
            or sum(each.tokens for each in chosen) + item.tokens > limits.run_tokens
        ):
            break
        chosen.append(item)
    return Run(tuple(chosen))


def shown_tokens(items: Sequence[ItemRow]) -> int:
    """Estimate the tokens of the items as they are shown, each summary in its tags."""
    frames = sum(_LEAF_FRAME if item.depth == 0 else _FRAME for item in items if item.depth >= 0)
    return frames + sum([item.tokens for item in items])


def scaled(settings: Settings, limits: Limits) -> Settings:
    """Return settings with summaries short enough for a small window."""
    leaf = min(settings.leaf_target_tokens, max(LEAST_LEAF, limits.share // 8))
    condensed = min(settings.condensed_target_tokens, max(LEAST_CONDENSED, limits.share // 4))
    if (leaf, condensed) == (settings.leaf_target_tokens, settings.condensed_target_tokens):
        return settings
    return structs.replace(settings, leaf_target_tokens=leaf, condensed_target_tokens=condensed)


_LEAF_FRAME, _FRAME = 100, 250


def _fanout(depth: int, settings: Settings, hard: bool) -> int:
    if hard:
        return settings.condensed_min_fanout_hard
    return settings.leaf_min_fanout if depth == 0 else settings.condensed_min_fanout


def _runs(items: Sequence[ItemRow], depth: int, limit: int) -> list[list[ItemRow]]:
    """Return the runs of summaries of one depth, each cut at the limit."""
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
    """Return the tokens of the summaries before the tail."""
    return sum(item.tokens for item in items[:boundary] if not item.is_message)


def raw_tokens(items: Sequence[ItemRow], boundary: int) -> int:
    """Return the tokens of the messages before the tail."""
    return sum(item.tokens for item in items[:boundary] if item.is_message)


def is_due(items: Sequence[ItemRow], limits: Limits, settings: Settings, observed: int = 0) -> bool:
    """Return True if compaction is due after a turn, by the trigger in force.

    `threshold`: the context, or the prompt a host observed, is over it. `leaf`: enough raw messages lie outside the tail, a
    chunk of them or, for a small window, a quarter of the threshold; few of them suffice once the threshold is passed.
    """
    by_threshold = max(sum(item.tokens for item in items), observed) > limits.threshold
    if settings.compaction_trigger == "threshold":
        return by_threshold
    boundary = tail_start(items, limits.tail_count, limits.protected_tokens)
    waiting = [item for item in items[:boundary] if item.is_message]
    many = len(waiting) >= settings.leaf_min_fanout or by_threshold
    enough = many and raw_tokens(items, boundary) >= min(limits.run_tokens, max(1, limits.threshold // 4))
    return enough or (settings.compaction_trigger == "both" and by_threshold)
