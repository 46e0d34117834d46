"""The flow of compaction: plan, ask, commit; again, until it is enough.

A generator: it yields a `SummaryRequest` and is sent the `Reply`, or has the summariser's error thrown in. It never
knows whether its driver waits or awaits, and nothing is open while a model thinks: the summary is put in place only if
exactly its run is still there. Raw messages are never touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from lossless.config import Settings
from lossless.engine import plan, prompts, source, targets
from lossless.engine.faithful import check
from lossless.engine.plan import Limits, Run
from lossless.engine.prompts import Templates
from lossless.errors import ContextMoved, SummarizerAuth, SummarizerBlocked, SummarizerError
from lossless.model import Compaction, StoredMessage, Summary, SummaryRequest
from lossless.store import jsontext
from lossless.store.base import SPAN, ConversationRow, ItemRow, NewSummary, Store, SummaryRow
from lossless.store.rows import message_of, micros, moment
from lossless.summarizers.base import Reply
from lossless.tokens import estimate, truncate

Flow: TypeAlias = Generator[SummaryRequest, Reply, Compaction]
CUT = "[Truncated for context management]"
_MOST_ROUNDS = 10
_FINAL = ("auth", "spend", "breaker", "deadline", "moved")


class Work(Struct):
    """One conversation being compacted: what is known of it, and how far it went."""

    store: Store
    conversation: ConversationRow
    settings: Settings
    limits: Limits
    templates: Templates
    now: Callable[[], float]
    deadline: float
    items: list[ItemRow] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    passes: int = 0
    stop: str = ""

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    @property
    def boundary(self) -> int:
        return plan.tail_start(self.items, self.limits.tail_count, self.limits.tail_tokens)

    def may_go_on(self) -> bool:
        """Whether there is still time and a pass left; names the stop if not."""
        if self.passes >= self.settings.max_sweep_iterations:
            self.stop = "passes"
        elif self.now() >= self.deadline:
            self.stop = "deadline"
        return not self.stop


def compact(
    store: Store,
    conversation: ConversationRow,
    settings: Settings,
    window: int,
    *,
    templates: Templates,
    now: Callable[[], float],
    force: bool = False,
    target: int | None = None,
    observed: int = 0,
) -> Flow:
    """Compact a conversation as far as it is worth it: by its trigger, at once with `force`, or below a `target`."""
    limits = plan.limits(settings, window)
    work = Work(store, conversation, settings, limits, templates, now, now() + settings.sweep_deadline_ms / 1000)
    work.items = store.items(conversation.id)
    before = work.tokens
    if target is not None:
        yield from _until_under(work, target)
    elif force or plan.is_due(work.items, limits, settings, observed):
        leaf_only = settings.compaction_trigger == "leaf" and not force
        overhead = max(0, observed - before)
        stop_at = max(1, limits.threshold - overhead) if observed > limits.threshold else None
        yield from _incremental(work) if leaf_only else _sweep(work, stop_at)
    else:
        work.stop = "below threshold"
    return Compaction(
        tuple(work.made), before, work.tokens, work.stop or ("compacted" if work.made else "nothing to compact")
    )


def _until_under(work: Work, target: int) -> Generator[SummaryRequest, Reply, None]:
    """Sweeps, until the context is below a number of tokens or nothing more is gained."""
    work.deadline = work.now() + work.settings.compact_until_under_deadline_ms / 1000
    for _ in range(_MOST_ROUNDS):
        tokens = work.tokens
        if tokens <= target or work.stop in _FINAL:
            return
        work.passes, work.stop = 0, ""
        yield from _sweep(work, target)
        if work.tokens >= tokens:
            work.stop = work.stop or "exhausted"
            return


def _incremental(work: Work) -> Generator[SummaryRequest, Reply, None]:
    """One leaf after a turn, then condensation as deep as the settings allow."""
    if (yield from _pass(work, plan.leaf_run(work.items, work.boundary, work.limits.run_tokens))):
        deepest = work.settings.incremental_max_depth
        while work.may_go_on() and (run := _condensable(work, hard=False, max_depth=deepest)):
            if not (yield from _pass(work, run)):
                return


def _sweep(work: Work, stop_at: int | None) -> Generator[SummaryRequest, Reply, None]:
    """First every raw run outside the tail, oldest first; then, under pressure, summaries, the shallowest first."""
    after, least = -1, min(2 * targets.LEAST_LEAF, work.limits.run_tokens // 2)
    while work.may_go_on() and (run := plan.leaf_run(work.items, work.boundary, work.limits.run_tokens, after)):
        if stop_at is not None and work.tokens <= stop_at:
            return
        if run.tokens < least:
            break  # too little to gain; it grows together with what leaves the tail next
        tokens = work.tokens
        if not (yield from _pass(work, run)):
            if work.stop:
                return
            after = run.items[-1].ordinal
        elif work.tokens >= tokens:
            return
    for hard, deepest in ((False, work.settings.incremental_max_depth), (True, -1)):
        while (
            _is_pressed(work, stop_at)
            and work.may_go_on()
            and (run := _condensable(work, hard=hard, max_depth=deepest))
        ):
            tokens = work.tokens
            if not (yield from _pass(work, run)) or work.tokens >= tokens:
                return


def _is_pressed(work: Work, stop_at: int | None) -> bool:
    over = stop_at is not None and work.tokens > stop_at
    return over or plan.prefix_tokens(work.items, work.boundary) > work.limits.prefix_target


def _condensable(work: Work, *, hard: bool, max_depth: int) -> Run | None:
    return plan.condensed_run(work.items, work.boundary, work.settings, hard=hard, max_depth=max_depth)


def _pass(work: Work, run: Run | None) -> Generator[SummaryRequest, Reply, bool]:
    """One summary for one run. False if none was written: nothing to say in it, refused credentials, or moved away."""
    if run is None:
        return False
    work.passes += 1
    told = _source(work, run)
    if not told.text.strip():
        return False
    if not work.may_go_on() and work.stop == "deadline":
        return False
    try:
        draft = yield from _summarise(work, run, told)
    except SummarizerAuth:
        work.stop = "auth"
        return False
    except SummarizerBlocked as blocked:
        work.stop = blocked.reason
        return False
    row = _row(work, run, told, draft)
    try:
        item = work.store.replace(work.conversation, run.items, row)
    except ContextMoved:
        work.items = work.store.items(work.conversation.id)
        work.stop = "moved"
        return False
    work.made.append(row.public_id)
    at = work.items.index(run.items[0])
    work.items[at : at + len(run.items)] = [item]
    return True


class _Source(Struct, frozen=True):
    """What a run says, and what a summary of it has to carry."""

    text: str
    previous: str | None
    first_at: int | None
    last_at: int | None
    source_tokens: int
    descendants: int
    file_ids: tuple[str, ...]


def _source(work: Work, run: Run) -> _Source:
    return _leaf_source(work, run) if run.depth == 0 else _condensed_source(work, run)


def _leaf_source(work: Work, run: Run) -> _Source:
    rows = work.store.messages_at(work.conversation.id, [item.ordinal for item in run.items])
    base = work.conversation.id * SPAN
    messages = [
        StoredMessage(base + row.seq, row.seq, row.tokens, row.digest, moment(row.created_at), message_of(row))
        for row in rows
    ]
    text = source.leaf_source(messages, work.settings.zone, work.settings.strip_injected_context_tags)
    times = [micros(message.at) for message in messages]
    files = source.file_ids([row.text for row in rows])
    return _Source(text, _previous(work, run, None), min(times), max(times), run.tokens, 0, files)


def _condensed_source(work: Work, run: Run) -> _Source:
    found = {row.id: row for row in work.store.summaries(work.conversation.id, _ids(run.items))}
    rows = [found[identity] for identity in _ids(run.items)]
    text = source.condensed_source([as_summary(row) for row in rows], work.settings.zone)
    starts = [row.earliest_at for row in rows if row.earliest_at is not None]
    ends = [row.latest_at for row in rows if row.latest_at is not None]
    known = [each for row in rows for each in jsontext.loads(row.file_ids)]
    return _Source(
        text,
        _previous(work, run, 0) if run.depth == 1 else None,
        min(starts, default=None),
        max(ends, default=None),
        sum(row.source_tokens for row in rows),
        sum(row.descendants + 1 for row in rows),
        tuple(dict.fromkeys([*known, *source.file_ids([row.text for row in rows])])),
    )


def _ids(items: Sequence[ItemRow]) -> list[int]:
    return [item.summary_id for item in items if item.summary_id is not None]


def _previous(work: Work, run: Run, depth: int | None) -> str | None:
    """The two newest summaries before a run (of one depth, or any), for a summary that goes on where they end."""
    before = [item for item in work.items if item.ordinal < run.items[0].ordinal and not item.is_message]
    chosen = [item for item in before if depth is None or item.depth == depth][-2:]
    rows = {row.id: row.text for row in work.store.summaries(work.conversation.id, _ids(chosen))} if chosen else {}
    return "\n\n".join(rows[identity] for identity in _ids(chosen)) or None


class _Draft(Struct, frozen=True):
    text: str
    model: str
    level: str
    faithful: float | None


def _summarise(work: Work, run: Run, told: _Source) -> Generator[SummaryRequest, Reply, _Draft]:
    """A text shorter than its source: from the model, from a stricter prompt, from the extractive summariser, or cut."""
    best: _Draft | None = None
    for aggressive in (False, True):
        draft = yield from _ask(work, run, told, aggressive=aggressive)
        if draft is None:
            break
        if estimate(draft.text) < _most(run, told):
            if draft.faithful is None or draft.faithful >= 1:
                return _capped(work, run, draft)
            best = max(draft, best or draft, key=lambda each: each.faithful or 0)
    return _capped(work, run, best) if best else _without_model(work, run, told)


def _most(run: Run, told: _Source) -> int:
    """A summary has to be shorter than what it stands for, as it is written and as it counts in the context."""
    return min(estimate(told.text), run.tokens)


def _ask(work: Work, run: Run, told: _Source, *, aggressive: bool) -> Generator[SummaryRequest, Reply, _Draft | None]:
    """What a summariser makes of a run; None when it gave nothing, now or in an error of its own."""
    try:
        reply = yield _request(work, run, told, aggressive=aggressive)
    except (SummarizerAuth, SummarizerBlocked):
        raise
    except SummarizerError:
        return None
    if not reply.text.strip():
        return None
    provisional = reply.model == "extractive"
    score = None if provisional else check(reply.text, told.text, context=told.previous or "").score
    level = "extractive" if provisional else "aggressive" if aggressive else "normal"
    return _Draft(reply.text.strip(), reply.model, level, score)


def _request(work: Work, run: Run, told: _Source, *, aggressive: bool) -> SummaryRequest:
    wanted = targets.target(run.depth, estimate(told.text), work.settings, aggressive=aggressive)
    return prompts.request(
        told.text,
        depth=run.depth,
        target_tokens=wanted,
        max_tokens=targets.completion_limit(wanted),
        previous=told.previous,
        aggressive=aggressive,
        settings=work.settings,
        templates=work.templates,
    )


def _without_model(work: Work, run: Run, told: _Source) -> _Draft:
    from lossless.summarizers.extractive import summarize

    text = summarize(_request(work, run, told, aggressive=True)).strip()
    if text and estimate(text) < _most(run, told):
        return _capped(work, run, _Draft(text, "extractive", "extractive", None))
    room = min(work.settings.fallback_max_tokens, _most(run, told)) - estimate(CUT) - 2
    return _Draft(f"{truncate(told.text, room)}\n{CUT}".strip(), "extractive", "cut", None)


def _capped(work: Work, run: Run, draft: _Draft) -> _Draft:
    """The draft, cut where it exceeds what a summary of its depth may cost."""
    most = targets.hard_cap(targets.configured(run.depth, work.settings), work.settings.summary_max_overage_factor)
    if estimate(draft.text) <= most:
        return draft
    text = f"{truncate(draft.text, most - estimate(CUT) - 1)}\n{CUT}"
    return _Draft(text, draft.model, draft.level, draft.faithful)


def _row(work: Work, run: Run, told: _Source, draft: _Draft) -> NewSummary:
    text = jsontext.cleaned(draft.text)
    return NewSummary(
        f"sum_{os.urandom(8).hex()}",
        run.depth,
        text,
        estimate(text),
        told.first_at,
        told.last_at,
        told.descendants,
        told.source_tokens,
        jsontext.dumps(list(told.file_ids)),
        draft.model,
        draft.level,
        work.templates.version,
        draft.faithful,
        int(work.now() * 1_000_000),
    )


def as_summary(row: SummaryRow) -> Summary:
    """A summary's row as the value callers see."""
    return Summary(
        row.public_id,
        row.depth,
        row.text,
        row.tokens,
        None if row.earliest_at is None else moment(row.earliest_at),
        None if row.latest_at is None else moment(row.latest_at),
        row.descendants,
        row.source_tokens,
        row.model,
        row.level,
        row.revision,
    )
