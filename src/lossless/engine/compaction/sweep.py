"""The flow of compaction: plan, ask, commit; again, until it is enough.

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
from lossless.engine.compaction.summarize import Draft, Told, as_row, drafted, of_messages, of_summaries, without_model
from lossless.engine.compaction.tail import tail_start
from lossless.engine.shared.calibration import budgets
from lossless.engine.shared.model_flow import ModelFlow, never
from lossless.errors import ContextMoved, SummarizerAuth, SummarizerBlocked, SummarizerError, SummarizerUnavailable
from lossless.events import Event, Hook, ignore
from lossless.model import Compaction, CompactionStop, ModelBlock, SummaryRequest
from lossless.store.base import ConversationRow, ItemRow, Links, NewSummary, SummaryRow
from lossless.store.rows import moment
from lossless.store.store import Store
from lossless.summarizers.base import Reply

Flow: TypeAlias = ModelFlow[Compaction]
_MOST_ROUNDS = 10
VERBATIM = "verbatim"
"""The model named by a leaf that says what its messages say, word for word."""
EMPTY = "(no text)"
_LEAST_WINDOW = 4_000
_FINAL: Final[tuple[CompactionStop, ...]] = ("rate limit", "deadline", "moved", "yielded")
_MOST_MISSES = 2
"""So many times in a row a model may not be reached before a compaction goes on without it."""


class Work(Struct):
    """One conversation being compacted: what is known of it, and how far it went."""

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
    """What a host's prompt holds besides the context."""
    on_event: Hook = ignore
    items: list[ItemRow] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    passes: int = 0
    operation: str = ""
    """The entry in the history that the summaries are noted under."""
    stop: CompactionStop | Literal[""] = ""
    retry_at: float = 0.0
    without_model: ModelBlock | Literal[""] = ""
    """Why some of it was written without the model."""
    alone: bool = False
    """The model is not asked any more."""
    misses: int = 0
    """How often in a row the model could not be reached."""

    tokens: int = 0
    boundary: int = 0
    """Where the fresh tail starts."""
    keep: frozenset[int] = frozenset()
    """Ordinals of messages before the tail that no summary may take."""
    known: dict[int, SummaryRow] = field(default_factory=dict)
    """Summaries among the items, as they were read or made."""
    linked: range = range(0)
    """The ordinals whose tool calls and results were read last."""
    links: dict[int, Links] = field(default_factory=dict)

    def look(self) -> None:
        """Read the items anew."""
        self.known = {}
        self.items = self.store.context.items(self.conversation.id)
        self.tokens = sum(item.tokens for item in self.items)
        self.boundary = tail_start(self.store, self.conversation.id, self.items, self.limits)
        system = self.store.context.newest_system(self.conversation.id)
        self.keep = plan.kept(self.items, self.boundary, self.limits.tail_count, system)

    def put(self, run: Run, item: ItemRow, summary: NewSummary) -> None:
        """A summary has taken the place of a run before the tail."""
        if item.summary_id is not None:
            self.known[item.summary_id] = SummaryRow(**asdict(summary), id=item.summary_id, revision=1)
        at = self.items.index(run.items[0])
        self.items[at : at + len(run.items)] = [item]
        self.tokens += item.tokens - run.tokens
        self.boundary -= len(run.items) - 1

    def begin_sweep(self) -> None:
        """Reset what ended the sweep before."""
        self.passes, self.stop = 0, ""

    def may_go_on(self) -> bool:
        """Return whether there is still time and a pass left; names the stop if not."""
        if self.passes >= self.settings.max_sweep_iterations:
            self.stop = "passes"
        elif self.now() >= self.deadline:
            self.stop = "deadline"
        elif self.wanted_elsewhere():
            self.stop = "yielded"
        return not self.stop

    def replace(self, run: Run, summary: NewSummary, told: Told) -> ItemRow:
        """Put a summary in the place of a run, and note it in the history, in one transaction."""
        with self.store.transaction():
            item = self.store.context.replace(self.conversation, run.items, summary, told.revisions, told.seal)
            assert item.summary_id is not None  # it was just made
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
        stop: CompactionStop = self.stop or ("compacted" if self.made else "nothing to compact")
        retry_at = moment(int(self.retry_at * 1_000_000)) if self.retry_at else None
        return Compaction(
            summaries=tuple(self.made),
            tokens_before=before,
            tokens_after=self.tokens,
            stop=stop,
            retry_at=retry_at,
            without_model=self.without_model,
        )

    def go_on_without(self, error: SummarizerError) -> None:
        """The model could not be asked: note why, and whether to ask it again in this compaction."""
        self.without_model = why(error)
        self.misses += 1
        self.alone = self.without_model != "unavailable" or self.misses >= _MOST_MISSES

    def may_wait(self, error: SummarizerError) -> bool:
        """Return whether to wait for a model that asks for a pause: while everything still fits, nothing is hidden by it."""
        pause = isinstance(error, SummarizerUnavailable) and error.retry_after
        return bool(pause and self.patient and self.tokens + self.overhead <= self.limits.budget)


def fitted(store: Store, conversation: ConversationRow, settings: Settings) -> tuple[Limits, Settings]:
    """Return the limits of the window that a host named last, and the settings with summaries that fit it."""
    budget = budgets(store, [conversation], settings.max_assembly_token_budget)[conversation.id].tokens
    limits = plan.limits(settings, budget, key=conversation.key)
    return limits, plan.scaled(plan.workable(settings, limits), limits)


def report_length(
    conversation: ConversationRow, summary_id: str, summary: NewSummary, settings: Settings, on_event: Hook
) -> None:
    """Report a summary that came out much longer than it was asked for."""
    wanted = summary_lengths.configured(summary.depth, settings)
    if summary.tokens > summary_lengths.warn_above(wanted):
        report = f"{conversation.key}: {summary_id} has {summary.tokens:,} tokens, more than 1.5 times the {wanted:,} asked for."
        facts = {"conversation": conversation.key, "summary": summary_id, "tokens": summary.tokens, "target": wanted}
        on_event(Event("summary.too_long", report, "warning", facts))


def why(error: SummarizerError) -> ModelBlock:
    """Name what kept a model from being asked."""
    if isinstance(error, SummarizerBlocked):
        return error.reason
    if isinstance(error, SummarizerAuth):
        return "auth"
    return "rate limit" if isinstance(error, SummarizerUnavailable) and error.retry_after else "unavailable"


def retry_at(error: SummarizerError, now: float) -> float:
    """Return when the model may be asked again; 0 if that is not known."""
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
    """Compact a conversation as far as it is worth it: by its trigger, at once with `force`, or below a `target`.

    `observed` is the prompt a host has measured; with `force` and without it, the prompt is taken to be too large, and at
    least one run is compacted. `factor` is how many tokens the model counts for one of ours, and `most` the tokens that fit into the bytes
    of a request. The flow ends when it is `wanted_elsewhere`, and when it is `patient` it does not do without a model that asks for a pause.
    With `force` or `whole`, sweeps follow one another until nothing more is gained.
    """
    limits = plan.limits(settings, window, key=conversation.key, model=model, factor=factor, most=most)
    limits = plan.narrowed(limits, max(0, observed - conversation.context_tokens))
    settings = plan.scaled(plan.workable(settings, limits), limits)
    deadline = now() + settings.sweep_deadline_ms / 1000
    work = Work(store, conversation, settings, limits, templates, now, deadline, wanted_elsewhere, patient)
    work.look()
    before = work.tokens
    work.overhead, work.on_event = max(0, observed - before), on_event
    if target is not None:
        yield from _until_under(work, target, observed, at_least_once=force and not observed)
    elif force or plan.is_due(work.items, limits, settings, observed):
        over = max(before, observed) > limits.threshold
        leaf_only = not force and not over
        overhead = max(0, observed - before)
        stop_at = max(1, limits.threshold - overhead) if observed > limits.threshold else None
        yield from (
            _incremental(work)
            if leaf_only
            else _to_the_end(work, stop_at, eager=force)
            if force or whole
            else _sweep(work, stop_at)
        )
        if not (work.stop or force or leaf_only) and work.tokens > (stop_at or limits.threshold):
            work.stop = "exhausted"
    else:
        work.stop = "below threshold"
    return work.done(before)


def _until_under(
    work: Work, target: int, observed: int, *, at_least_once: bool = False
) -> Generator[SummaryRequest, Reply, None]:
    """Sweep until the context is below a number of tokens or nothing more is gained."""
    work.deadline = work.now() + work.settings.compact_until_under_deadline_ms / 1000
    if max(work.tokens, observed) < target and not at_least_once:
        return
    # A prompt that is just the target is not under it yet.
    goal = max(1, min(target - max(0, observed - work.tokens), work.tokens - 1))
    for _ in range(_MOST_ROUNDS):
        tokens = work.tokens
        work.begin_sweep()
        yield from _sweep(work, goal)
        if work.tokens <= goal or work.stop in _FINAL:
            return
        if work.tokens >= tokens:
            work.stop = "exhausted"
            return


def _to_the_end(work: Work, stop_at: int | None, *, eager: bool) -> Generator[SummaryRequest, Reply, None]:
    """Sweeps, as somebody asked for it by hand, until nothing more is gained."""
    work.deadline = float("inf")
    while True:
        tokens = work.tokens
        work.begin_sweep()
        yield from _sweep(work, stop_at, eager=eager)
        if work.stop != "passes" or work.tokens >= tokens:
            return


def _incremental(work: Work) -> Generator[SummaryRequest, Reply, None]:
    """Return one leaf after a turn, then condensation as deep as the settings allow."""
    least = plan.least_run(work.items, work.boundary, work.limits, work.limits.threshold, eager=True)
    after, deepest = -1, work.settings.incremental_max_depth
    while work.may_go_on() and (run := _leaf_run(work, least, after)):
        if (yield from one_pass(work, run)):
            break
        if work.stop:
            return
        after = run.items[-1].ordinal
    while work.made and work.may_go_on() and (run := _condensable(work, hard=False, max_depth=deepest)):
        if not (yield from one_pass(work, run)):
            return


def _sweep(work: Work, stop_at: int | None, *, eager: bool = False) -> Generator[SummaryRequest, Reply, None]:
    """First every raw run outside the tail, oldest first; then, under pressure, summaries, the shallowest first."""
    after, goal = -1, stop_at or work.limits.threshold
    least = plan.least_run(work.items, work.boundary, work.limits, goal, eager=eager)
    while work.may_go_on() and (run := _leaf_run(work, least, after)):
        if stop_at is not None and work.tokens <= stop_at and not _is_crowded(work):
            return
        tokens = work.tokens
        if not (yield from one_pass(work, run)):
            if work.stop:
                return
            after = run.items[-1].ordinal
        elif work.tokens >= tokens:
            return
    if (_is_pressed(work, stop_at) or _is_crowded(work)) and not absorb(work, least):
        return
    for hard, deepest in ((False, work.settings.incremental_max_depth), (True, -1)):
        while (
            (_is_pressed(work, stop_at) or _is_crowded(work))
            and work.may_go_on()
            and (run := _condensable(work, hard=hard, max_depth=deepest))
        ):
            tokens = work.tokens
            if not (yield from one_pass(work, run)) or work.tokens >= tokens:
                return
    while _is_crowded(work) and work.may_go_on() and (run := plan.mixed_run(work.items, work.boundary, work.limits)):
        if not (yield from one_pass(work, run)):
            return


def _leaf_run(work: Work, least: int, after: int) -> Run | None:
    """Return the oldest raw run worth a call, closed under pairing. Too little at the tail waits for more."""
    while run := plan.leaf_run(work.items, work.boundary, work.limits.run_tokens, after, work.keep):
        if run.tokens < least and (behind := plan.following(work.items, work.boundary, run, 0, work.keep)):
            # Left alone before a large message, it would hold up the sweep and keep the summaries around it apart.
            run = Run((*run.items, behind[0]))
        if run.tokens >= least:
            return closed(work, run)
        after = run.items[-1].ordinal
    return None


def closed(work: Work, run: Run) -> Run:
    """Return a run of messages with calls and all of their results on one side of its end."""
    behind = plan.following(work.items, work.boundary, run, work.limits.run_tokens, work.keep)
    if run.depth or not behind:
        return run
    identity, first, cut, last = work.conversation.id, run.items[0].ordinal, behind[0].ordinal, behind[-1].ordinal
    known, linked = work.links, work.linked
    work.links, work.linked = work.store.context.links(identity, cut, last), range(cut, last + 1)
    if not plan.answers_earlier(behind, work.links):
        return run
    # What followed one run is mostly the next one: then it was read with it.
    known = known if first in linked and cut - 1 in linked else work.store.context.links(identity, first, cut - 1)
    work.links, work.linked = known | work.links, range(first, last + 1)
    return plan.closed_run(run, behind, work.links, work.limits.run_tokens)


def absorb(work: Work, least: int) -> bool:
    """Give messages left between two summaries a leaf in their own words, so that all of them can be condensed together.

    No model is asked: nothing would be gained. False if the context changed meanwhile.
    """
    while run := plan.stranded_run(work.items, work.boundary, least, work.keep):
        told = _told(work, run)
        words = told.text.strip() or EMPTY
        row = as_row(told, Draft(words, VERBATIM, "normal", 1.0), work.templates, work.now())
        if not _put(work, run, row, told):
            return False
    return True


def _is_pressed(work: Work, stop_at: int | None) -> bool:
    over = stop_at is not None and work.tokens > stop_at
    return over or plan.prefix_tokens(work.items, work.boundary) > work.limits.prefix_target


def _is_crowded(work: Work) -> bool:
    """Return whether what is shown of the context would not fit beside what the host keeps for itself.

    In a window of a few hundred tokens the frames of summaries alone do not fit, and to condense them helps nobody.
    """
    return work.limits.budget >= _LEAST_WINDOW and plan.shown_tokens(work.items) > 2 * work.limits.share


def _condensable(work: Work, *, hard: bool, max_depth: int) -> Run | None:
    return plan.condensed_run(work.items, work.boundary, work.limits, work.settings, hard=hard, max_depth=max_depth)


def one_pass(work: Work, run: Run | None) -> Generator[SummaryRequest, Reply, bool]:
    """Return one summary for one run. False if none was written: nothing to say in it or to gain by it, or not now."""
    if run is None:
        return False
    work.passes += 1
    told = _told(work, run)
    if not told.text.strip():
        return False
    if work.now() >= work.deadline:
        work.stop = "deadline"
        return False
    draft = yield from _asked(work, told)
    if draft is None:
        return False
    row = as_row(told, draft, work.templates, work.now())
    return bool(row.text) and row.tokens < run.tokens and _put(work, run, row, told)


def _put(work: Work, run: Run, row: NewSummary, told: Told) -> bool:
    """Put a summary in the place of its run. False, and the stop named, if the context changed meanwhile."""
    try:
        item = work.replace(run, row, told)
    except ContextMoved:
        work.look()
        work.stop = "moved"
        return False
    work.made.append(row.public_id)
    report_length(work.conversation, row.public_id, row, work.settings, work.on_event)
    work.put(run, item, row)
    return True


def _asked(work: Work, told: Told) -> Generator[SummaryRequest, Reply, Draft | None]:
    """Return a draft, without the model if it cannot be asked; None, and the stop named, when it is worth waiting."""
    if not work.alone:
        try:
            draft = yield from drafted(told, work.settings, work.templates)
        except SummarizerError as error:
            if work.may_wait(error):
                work.stop, work.retry_at = "rate limit", retry_at(error, work.now())
                return None
            work.go_on_without(error)
        else:
            work.misses = 0
            return draft
    return without_model(told, work.settings, work.templates)


def _told(work: Work, run: Run) -> Told:
    if run.depth == 0:
        rows = work.store.messages.at(work.conversation.id, [item.ordinal for item in run.items])
        return of_messages(work.conversation.id, rows, _previous(work, run, None), work.settings)
    previous = _previous(work, run, 0) if run.depth == 1 else ()
    return of_summaries(_summaries(work, run.items), previous, work.settings)


def _summaries(work: Work, items: Sequence[ItemRow]) -> list[SummaryRow]:
    """Return the summaries among the items, in their order."""
    ids = [item.summary_id for item in items if item.summary_id is not None]
    found = {row.id: row for row in work.store.summaries.read(work.conversation.id, ids)} if ids else {}
    return [found[identity] for identity in ids]


def _previous(work: Work, run: Run, depth: int | None) -> list[SummaryRow]:
    """Return the two newest summaries before a run (of one depth, or any), for a summary that goes on where they end."""
    first = run.items[0].ordinal
    before = takewhile(lambda item: item.ordinal < first, work.items)
    last = [item for item in before if not item.is_message and depth in (None, item.depth)][-2:]
    work.known |= {
        row.id: row for row in _summaries(work, [item for item in last if item.summary_id not in work.known])
    }
    return [work.known[item.summary_id] for item in last if item.summary_id is not None]
