"""The flow of compaction: plan, call the model, commit; repeat until done.

A generator: it yields a `SummaryRequest` and is sent the `Reply`, or has the summariser's error thrown in. It never
knows whether its driver waits or awaits, and nothing is open while a model thinks: the summary is put in place only if
exactly its run is still there. Raw messages are never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import takewhile
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict

from lossless.config import Settings
from lossless.engine.compaction import plan, summary_lengths
from lossless.engine.compaction.plan import Limits, Run
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.summarize import (
    Draft,
    SourceText,
    as_row,
    draft_summary,
    of_messages,
    of_summaries,
    without_model,
)
from lossless.engine.compaction.tail import tail_start
from lossless.engine.shared.calibration import budgets
from lossless.engine.shared.model_flow import ModelFlow, never
from lossless.errors import ContextMoved, SummarizerAuth, SummarizerBlocked, SummarizerError, SummarizerUnavailable
from lossless.events import Event, Hook, ignore
from lossless.model import Compaction, CompactionStop, ModelBlock, SummaryRequest
from lossless.store.rows.codec import moment
from lossless.store.rows.types import ConversationRow, ItemRow, Links, NewSummary, SummaryRow
from lossless.store.store import Store
from lossless.summarizers.base import Reply

Flow: TypeAlias = ModelFlow[Compaction]
_MOST_ROUNDS = 10
VERBATIM = "verbatim"
"""The model name of a verbatim leaf."""
EMPTY = "(no text)"
_LEAST_WINDOW = 4_000
_FINAL: Final[tuple[CompactionStop, ...]] = ("rate limit", "deadline", "moved", "yielded")
_MOST_MISSES = 2
"""The failures in a row after which a compaction continues without the model."""


class CompactionState(Struct):
    """The state of one compaction of a conversation."""

    store: Store
    conversation: ConversationRow
    settings: Settings
    limits: Limits
    templates: Templates
    now: Callable[[], float]
    deadline: float
    wanted_elsewhere: Callable[[], bool] = never
    patient: bool = False
    overhead: int = 0
    """The tokens of a host's prompt besides the context."""
    on_event: Hook = ignore
    items: list[ItemRow] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    passes: int = 0
    operation: str = ""
    """The entry in the history that the summaries are noted under."""
    stop: CompactionStop | Literal[""] = ""
    retry_at: float = 0.0
    without_model: ModelBlock | Literal[""] = ""
    """The reason for which summaries were written without the model."""
    too_small: bool = False
    """True if a run was too small for a shorter summary."""
    without_calls: bool = False
    """True if the model is not called any more."""
    misses: int = 0
    """The number of failures in a row."""

    tokens: int = 0
    boundary: int = 0
    """The index where the fresh tail starts."""
    keep: frozenset[int] = frozenset()
    """Ordinals of messages before the tail that no summary may take."""
    known: dict[int, SummaryRow] = field(default_factory=dict)
    """Summaries among the items, as they were read or made."""
    linked: range = range(0)
    """The ordinals whose tool calls and results were read last."""
    links: dict[int, Links] = field(default_factory=dict)

    def read_items(self) -> None:
        """Read the items again."""
        self.known = {}
        self.items = self.store.context.items(self.conversation.id)
        self.tokens = sum(item.tokens for item in self.items)
        self.boundary = tail_start(self.store, self.conversation.id, self.items, self.limits)
        system = self.store.context.newest_system(self.conversation.id)
        self.keep = plan.protected_ordinals(self.items, self.boundary, self.limits.tail_count, system)

    def replace_run(self, run: Run, item: ItemRow, summary: NewSummary) -> None:
        """Update the items after a summary replaced a run before the tail."""
        if item.summary_id is not None:
            self.known[item.summary_id] = SummaryRow(**asdict(summary), id=item.summary_id, revision=1)
        at = self.items.index(run.items[0])
        self.items[at : at + len(run.items)] = [item]
        self.tokens += item.tokens - run.tokens
        self.boundary -= len(run.items) - 1

    def begin_sweep(self) -> None:
        """Reset the passes and the stop of the last sweep."""
        self.passes, self.stop = 0, ""

    def may_continue(self) -> bool:
        """Return True if there is time and a pass left; otherwise set the stop."""
        if self.passes >= self.settings.max_sweep_iterations:
            self.stop = "passes"
        elif self.now() >= self.deadline:
            self.stop = "deadline"
        elif self.wanted_elsewhere():
            self.stop = "yielded"
        return not self.stop

    def replace(self, run: Run, summary: NewSummary, source: SourceText) -> ItemRow:
        """Put a summary in place of a run, and record it in the history, in one transaction."""
        with self.store.transaction():
            item = self.store.context.replace(self.conversation, run.items, summary, source.revisions, source.seal)
            assert item.summary_id is not None  # it was just created
            if not (self.operation and self.store.operations.note_summary(self.operation, item.summary_id)):
                at, window = int(self.now() * 1_000_000), {"window": self.limits.budget}
                self.operation = self.store.operations.record(self.conversation.id, "compact", at, window, "compaction")
                self.store.operations.note_summary(self.operation, item.summary_id)
        return item

    def done(self, before: int) -> Compaction:
        if self.operation:
            made = "1 summary" if len(self.made) == 1 else f"{len(self.made):,} summaries"
            summary = f"{made} made: {before:,} -> {self.tokens:,} tokens"
            with self.store.transaction():
                self.store.operations.set_operation(self.operation, "applied", summary)
        idle: CompactionStop = "too small" if self.too_small else "nothing to compact"
        stop: CompactionStop = self.stop or ("compacted" if self.made else idle)
        retry_at = moment(int(self.retry_at * 1_000_000)) if self.retry_at else None
        return Compaction(
            summaries=tuple(self.made),
            tokens_before=before,
            tokens_after=self.tokens,
            stop=stop,
            retry_at=retry_at,
            without_model=self.without_model,
        )

    def continue_without_model(self, error: SummarizerError) -> None:
        """Record why the model could not be called, and whether to call it again in this compaction."""
        self.without_model = block_reason(error)
        self.misses += 1
        self.without_calls = self.without_model != "unavailable" or self.misses >= _MOST_MISSES

    def may_wait(self, error: SummarizerError) -> bool:
        """Return True to wait for a model that asks for a pause, while everything still fits."""
        pause = isinstance(error, SummarizerUnavailable) and error.retry_after
        return bool(pause and self.patient and self.tokens + self.overhead <= self.limits.budget)


def fit_to_window(store: Store, conversation: ConversationRow, settings: Settings) -> tuple[Limits, Settings]:
    """Return the limits of the window that a host used last, and settings that fit it."""
    budget = budgets(store, [conversation], settings.max_assembly_token_budget)[conversation.id].tokens
    limits = plan.limits(settings, budget, key=conversation.key)
    return limits, plan.scaled(plan.workable(settings, limits), limits)


def report_length(
    conversation: ConversationRow, summary_id: str, summary: NewSummary, settings: Settings, on_event: Hook
) -> None:
    """Report a summary that is much longer than requested."""
    wanted = summary_lengths.configured(summary.depth, settings)
    if summary.tokens > summary_lengths.warn_above(wanted):
        report = f"{conversation.key}: {summary_id} has {summary.tokens:,} tokens, more than 1.5 times the {wanted:,} asked for."
        facts = {"conversation": conversation.key, "summary": summary_id, "tokens": summary.tokens, "target": wanted}
        on_event(Event("summary.too_long", report, "warning", facts))


def block_reason(error: SummarizerError) -> ModelBlock:
    """Return the reason for which a model was not called."""
    if isinstance(error, SummarizerBlocked):
        return error.reason
    if isinstance(error, SummarizerAuth):
        return "auth"
    return "rate limit" if isinstance(error, SummarizerUnavailable) and error.retry_after else "unavailable"


def retry_at(error: SummarizerError, now: float) -> float:
    """Return the time at which the model may be called again; 0 if unknown."""
    if isinstance(error, SummarizerBlocked):
        return error.until
    pause = error.retry_after if isinstance(error, SummarizerUnavailable) else None
    return now + pause if pause else 0.0


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
    model: str | None = None,
    factor: float = 1.0,
    most: int | None = None,
    wanted_elsewhere: Callable[[], bool] = never,
    patient: bool = False,
    whole: bool = False,
    on_event: Hook = ignore,
) -> Flow:
    """Compact a conversation: by its trigger, at once with `force`, or below a `target`.

    `observed` is the prompt a host has measured; with `force` and without it, the prompt is taken to be too large, and at
    least one run is compacted. `factor` is how many tokens the model counts for one of ours, and `most` the tokens that fit into the bytes
    of a request. The flow ends when it is `wanted_elsewhere`, and when it is `patient` it does not do without a model that asks for a pause.
    With `force` or `whole`, sweeps follow one another until nothing more is gained.
    """
    limits = plan.limits(settings, window, key=conversation.key, model=model, factor=factor, most=most)
    limits = plan.narrowed(limits, max(0, observed - conversation.context_tokens))
    settings = plan.scaled(plan.workable(settings, limits), limits)
    deadline = now() + settings.sweep_deadline_ms / 1000
    state = CompactionState(store, conversation, settings, limits, templates, now, deadline, wanted_elsewhere, patient)
    state.read_items()
    before = state.tokens
    state.overhead, state.on_event = max(0, observed - before), on_event
    if target is not None:
        yield from _until_under(state, target, observed, at_least_once=force and not observed)
    elif force or plan.is_due(state.items, limits, settings, observed):
        over = max(before, observed) > limits.threshold
        leaf_only = not force and not over
        overhead = max(0, observed - before)
        stop_at = max(1, limits.threshold - overhead) if observed > limits.threshold else None
        yield from (
            _incremental(state)
            if leaf_only
            else _to_the_end(state, stop_at, eager=force)
            if force or whole
            else _sweep(state, stop_at)
        )
        if not (state.stop or force or leaf_only) and state.tokens > (stop_at or limits.threshold):
            state.stop = "exhausted"
    else:
        state.stop = "below threshold"
    return state.done(before)


def _until_under(
    state: CompactionState, target: int, observed: int, *, at_least_once: bool = False
) -> Generator[SummaryRequest, Reply, None]:
    """Sweep until the context is below a number of tokens or nothing more is gained."""
    state.deadline = state.now() + state.settings.compact_until_under_deadline_ms / 1000
    if max(state.tokens, observed) < target and not at_least_once:
        return
    # A prompt of exactly the target is not below it.
    goal = max(1, min(target - max(0, observed - state.tokens), state.tokens - 1))
    for _ in range(_MOST_ROUNDS):
        tokens = state.tokens
        state.begin_sweep()
        yield from _sweep(state, goal)
        if state.tokens <= goal or state.stop in _FINAL:
            return
        if state.tokens >= tokens:
            state.stop = "exhausted"
            return


def _to_the_end(state: CompactionState, stop_at: int | None, *, eager: bool) -> Generator[SummaryRequest, Reply, None]:
    """Sweep until nothing more is gained, for a compaction by hand."""
    state.deadline = float("inf")
    while True:
        tokens = state.tokens
        state.begin_sweep()
        yield from _sweep(state, stop_at, eager=eager)
        if state.stop != "passes" or state.tokens >= tokens:
            return


def _incremental(state: CompactionState) -> Generator[SummaryRequest, Reply, None]:
    """Write one leaf after a turn, then condense as deep as the settings allow."""
    least = plan.least_run(state.items, state.boundary, state.limits, state.limits.threshold, eager=True)
    after, deepest = -1, state.settings.incremental_max_depth
    while state.may_continue() and (run := _leaf_run(state, least, after)):
        if (yield from one_pass(state, run)):
            break
        if state.stop:
            return
        after = run.items[-1].ordinal
    while state.made and state.may_continue() and (run := _condensable(state, hard=False, max_depth=deepest)):
        if not (yield from one_pass(state, run)):
            return


def _sweep(
    state: CompactionState, stop_at: int | None, *, eager: bool = False
) -> Generator[SummaryRequest, Reply, None]:
    """Summarise every raw run outside the tail, oldest first; then, under pressure, condense summaries."""
    after, goal = -1, stop_at or state.limits.threshold
    least = plan.least_run(state.items, state.boundary, state.limits, goal, eager=eager)
    while state.may_continue() and (run := _leaf_run(state, least, after)):
        if stop_at is not None and state.tokens <= stop_at and not _is_crowded(state):
            return
        tokens = state.tokens
        if not (yield from one_pass(state, run)):
            if state.stop:
                return
            after = run.items[-1].ordinal
        elif state.tokens >= tokens:
            return
    if (_is_pressed(state, stop_at) or _is_crowded(state)) and not absorb(state, least):
        return
    for hard, deepest in ((False, state.settings.incremental_max_depth), (True, -1)):
        while (
            (_is_pressed(state, stop_at) or _is_crowded(state))
            and state.may_continue()
            and (run := _condensable(state, hard=hard, max_depth=deepest))
        ):
            tokens = state.tokens
            if not (yield from one_pass(state, run)) or state.tokens >= tokens:
                return
    while (
        _is_crowded(state)
        and state.may_continue()
        and (run := plan.mixed_run(state.items, state.boundary, state.limits))
    ):
        if not (yield from one_pass(state, run)):
            return


def _leaf_run(state: CompactionState, least: int, after: int) -> Run | None:
    """Return the oldest raw run worth a call, with calls and results together."""
    while run := plan.leaf_run(state.items, state.boundary, state.limits.run_tokens, after, state.keep):
        if run.tokens < least and (behind := plan.following(state.items, state.boundary, run, 0, state.keep)):
            # Left alone before a large message, it would hold up the sweep and keep the summaries around it apart.
            run = Run((*run.items, behind[0]))
        if run.tokens >= least:
            return close_run(state, run)
        after = run.items[-1].ordinal
    return None


def close_run(state: CompactionState, run: Run) -> Run:
    """Return a run of messages whose end separates no call from its results."""
    behind = plan.following(state.items, state.boundary, run, state.limits.run_tokens, state.keep)
    if run.depth or not behind:
        return run
    identity, first, cut, last = state.conversation.id, run.items[0].ordinal, behind[0].ordinal, behind[-1].ordinal
    known, linked = state.links, state.linked
    state.links, state.linked = state.store.context.links(identity, cut, last), range(cut, last + 1)
    if not plan.answers_earlier(behind, state.links):
        return run
    # The messages after a run are mostly the next run, and were read with it.
    known = known if first in linked and cut - 1 in linked else state.store.context.links(identity, first, cut - 1)
    state.links, state.linked = known | state.links, range(first, last + 1)
    return plan.closed_run(run, behind, state.links, state.limits.run_tokens)


def absorb(state: CompactionState, least: int) -> bool:
    """Write a verbatim leaf for messages left between two summaries, so that all can be condensed.

    No model is asked: nothing would be gained. False if the context changed meanwhile.
    """
    while run := plan.stranded_run(state.items, state.boundary, least, state.keep):
        source = _source_text(state, run)
        words = source.text.strip() or EMPTY
        row = as_row(source, Draft(words, VERBATIM, "normal", 1.0), state.templates, state.now())
        if not _put(state, run, row, source):
            return False
    return True


def _is_pressed(state: CompactionState, stop_at: int | None) -> bool:
    over = stop_at is not None and state.tokens > stop_at
    return over or plan.prefix_tokens(state.items, state.boundary) > state.limits.prefix_target


def _is_crowded(state: CompactionState) -> bool:
    """Return True if the shown context would not fit beside what the host adds.

    In a window of a few hundred tokens the frames of summaries alone do not fit, and to condense them helps nobody.
    """
    return state.limits.budget >= _LEAST_WINDOW and plan.shown_tokens(state.items) > 2 * state.limits.share


def _condensable(state: CompactionState, *, hard: bool, max_depth: int) -> Run | None:
    return plan.condensed_run(state.items, state.boundary, state.limits, state.settings, hard=hard, max_depth=max_depth)


def one_pass(state: CompactionState, run: Run | None) -> Generator[SummaryRequest, Reply, bool]:
    """Write one summary for one run; return False if none was written.

    A run that is too small for a shorter summary is not sent to a model. Its messages are copied if their text is shorter than they are,
    as that of pictures is.
    """
    if run is None:
        return False
    state.passes += 1
    source = _source_text(state, run)
    if not source.text.strip():
        return False
    if state.now() >= state.deadline:
        state.stop = "deadline"
        return False
    if source.can_shrink:
        draft = yield from _ask_model(state, source)
    else:
        draft = None if run.depth or source.size >= run.tokens else Draft(source.text, VERBATIM, "normal", 1.0)
        state.too_small = state.too_small or draft is None
    if draft is None:
        return False
    row = as_row(source, draft, state.templates, state.now())
    return bool(row.text) and row.tokens < run.tokens and _put(state, run, row, source)


def _put(state: CompactionState, run: Run, row: NewSummary, source: SourceText) -> bool:
    """Put a summary in place of its run; return False, and set the stop, if the context changed meanwhile."""
    try:
        item = state.replace(run, row, source)
    except ContextMoved:
        state.read_items()
        state.stop = "moved"
        return False
    state.made.append(row.public_id)
    report_length(state.conversation, row.public_id, row, state.settings, state.on_event)
    state.replace_run(run, item, row)
    return True


def _ask_model(state: CompactionState, source: SourceText) -> Generator[SummaryRequest, Reply, Draft | None]:
    """Return a draft, without the model if it cannot be called; None, and set the stop, to wait for it."""
    if not state.without_calls:
        try:
            draft = yield from draft_summary(source, state.settings, state.templates)
        except SummarizerError as error:
            if state.may_wait(error):
                state.stop, state.retry_at = "rate limit", retry_at(error, state.now())
                return None
            state.continue_without_model(error)
        else:
            state.misses = 0
            return draft
    return without_model(source, state.settings, state.templates)


def _source_text(state: CompactionState, run: Run) -> SourceText:
    if run.depth == 0:
        rows = state.store.messages.at(state.conversation.id, [item.ordinal for item in run.items])
        return of_messages(state.conversation.id, rows, _previous(state, run, None), state.settings)
    previous = _previous(state, run, 0) if run.depth == 1 else ()
    return of_summaries(_summaries(state, run.items), previous, state.settings)


def _summaries(state: CompactionState, items: Sequence[ItemRow]) -> list[SummaryRow]:
    """Return the summaries among the items, in order."""
    ids = [item.summary_id for item in items if item.summary_id is not None]
    found = {row.id: row for row in state.store.summaries.read(state.conversation.id, ids)} if ids else {}
    return [found[identity] for identity in ids]


def _previous(state: CompactionState, run: Run, depth: int | None) -> list[SummaryRow]:
    """Return the two newest summaries before a run, of one depth or any, as previous context."""
    first = run.items[0].ordinal
    before = takewhile(lambda item: item.ordinal < first, state.items)
    last = [item for item in before if not item.is_message and depth in (None, item.depth)][-2:]
    state.known |= {
        row.id: row for row in _summaries(state, [item for item in last if item.summary_id not in state.known])
    }
    return [state.known[item.summary_id] for item in last if item.summary_id is not None]
