"""Decide when a conversation is compacted, and prepare the compaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lossless.client.model_work import Compacting, Job, Ready
from lossless.errors import InvalidInput, LosslessError, StoreError
from lossless.events import Event
from lossless.model import Compaction, Message
from lossless.tokens import reported

if TYPE_CHECKING:
    from lossless.client.conversation import Conversation
    from lossless.engine.compaction import plan
    from lossless.engine.shared.call_limits import Guards
    from lossless.model import (
        Ingested,
    )
    from lossless.store.rows.types import ConversationRow, DebtRow
    from lossless.summarizers import Summarizer


_BYTES_PER_TOKEN = 8
"""How many bytes of a request a token of text takes, with the frame of its message: seldom more, in any language."""
_FRESH = 5.0
"""For how many seconds a corrected estimate is used before it is read again, as other processes may have written it."""


class Compactor:
    """The compaction of one conversation: when it is due, its limits, the model it asks."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat

    def after_turn(
        self,
        messages: Iterable[Message],
        window: int | None = None,
        *,
        observed: int = 0,
        model: str | None = None,
        usage: object = None,
    ) -> Ingested:
        """Store the messages of a turn, then compact or schedule it; see `Conversation.after_turn`."""
        window = self._chat._lcm._window(window)
        refuse_sizes(window, observed=observed)
        counted = 0 if usage is None else reported(usage)
        if usage is not None and not counted:
            text = "The usage of a turn has no count of prompt tokens; estimates are not corrected by it"
            self._chat._intake.on_event(Event("usage.unknown", text, "warning", {"conversation": self._chat.key}))
        done = self._chat._delivery.take(messages, is_turn=True)
        if self._chat._closed_to:
            return done
        if counted:
            self.learn(counted, model)
        measured, observed = observed or counted, self.estimated(observed or counted, model)
        if self._chat._lcm.settings.proactive_threshold_compaction_mode == "deferred":
            self.schedule(window, observed, model)
            return done
        try:
            self._chat.compact(window, observed=measured, model=model)
        except LosslessError as error:
            # The turn is stored, and that is what the caller has to know.
            event = Event("compaction.failed", str(error), "error", {"conversation": self._chat.key})
            self._chat._intake.on_event(event)
            self.schedule(window, observed, model)
        return done

    def learn(self, counted: int, model: str | None) -> None:
        """Compare what a provider counted with our estimate of the prompt that was assembled last."""
        from lossless.engine.shared import calibration

        shown = self._chat._lcm._measured.pop(self._chat.key, None)
        if shown is None or shown[0] != model or self._chat._store.read_only:
            return
        try:
            name = calibration.name(model, self._chat.key)
            kept = calibration.observe(self._chat._store, name, shown[1], counted, self._chat._intake.now())
        except StoreError as error:
            # The turn is stored, and the next one brings another count.
            self._chat._intake.on_event(Event("usage.lost", str(error), "warning", {"conversation": self._chat.key}))
            return
        self._chat._lcm._factors[name] = kept.factor, time.monotonic()

    def factor(self, model: str | None, *, fresh: bool = False) -> float:
        """Return how many tokens a model counts for one of ours; `fresh`, as others had it a few seconds ago at most."""
        from lossless.engine.shared import calibration

        known, name = self._chat._lcm._factors, calibration.name(model, self._chat.key)
        if name not in known or (fresh and time.monotonic() - known[name][1] > _FRESH):
            known[name] = calibration.read(self._chat._store, name).factor, time.monotonic()
        return known[name][0]

    def estimated(self, counted: int, model: str | None) -> int:
        """Return what a prompt of so many tokens of a model costs by our estimate."""
        return round(counted / self.factor(model)) if counted else 0

    def limits(self, window: int, model: str | None) -> plan.Limits:
        """Return the limits that compaction holds the conversation to."""
        from lossless.engine.compaction import plan

        return plan.limits(
            self._chat._lcm.settings,
            window,
            key=self._chat.key,
            model=model,
            factor=self.factor(model),
            most=self.most(model),
        )

    def most(self, model: str | None) -> int:
        """Return the tokens that fit into the bytes of a request: of ordinary text, or of what the last one had to leave out."""
        ordinary = self._chat._assembler.caps(model).bytes // _BYTES_PER_TOKEN
        return min(ordinary, self._chat._lcm._dense.get(self._chat.key, ordinary))

    def schedule(self, window: int, observed: int, model: str | None, *, after: float = 0) -> None:
        """Record a compaction as pending, if it is due, and wake the background worker."""
        lcm, row = self._chat._lcm, self._chat._row()
        if row is None or not row.active:
            return
        debt, overhead = self._chat._store.debts.get(row.id), max(0, observed - row.context_tokens)
        # What was settled for another window says nothing about this one: it is checked again, once.
        is_moved = debt is not None and not debt.pending and debt.window_tokens not in (0, window)
        if not is_moved and not self.is_due(row, window, observed, model):
            return
        if debt is None or not _covers(debt, window, overhead, model):
            with self._chat._store.transaction():
                self._chat._store.debts.record(row.id, window, overhead, model, int(lcm._clock() * 1_000_000))
        if after:
            lcm._background.start(after=after)
        else:
            lcm._background.wake()

    def may_be_due(self, row: ConversationRow, window: int, observed: int, model: str | None) -> bool:
        """Return whether compaction may be due after a turn, as far as the row shows."""
        settings = self._chat._lcm.settings
        return (
            settings.compaction_trigger != "threshold"
            or max(row.context_tokens, observed) > self.limits(window, model).threshold
        )

    def is_due(self, row: ConversationRow, window: int, observed: int, model: str | None) -> bool:
        """Return whether compaction is due after a turn."""
        from lossless.engine.compaction import plan

        settings = self._chat._lcm.settings
        if settings.compaction_trigger == "threshold":
            return self.may_be_due(row, window, observed, model)
        limits = self.limits(window, model)
        return plan.is_due(self._chat._store.context.items(row.id), limits, settings, observed)

    def compaction(
        self,
        window: int | None = None,
        *,
        force: bool = False,
        target: int | None = None,
        observed: int = 0,
        model: str | None = None,
        whole: bool = False,
        pause: Callable[[], bool] | None = None,
    ) -> Compacting:
        """Prepare a compaction; where there is nothing to do, its result."""
        from lossless.engine.compaction.sweep import compact
        from lossless.engine.shared.model_flow import never

        window = self._chat._lcm._window(window)
        refuse_sizes(window, target=target, observed=observed)
        factor = self.factor(model, fresh=True)
        # What a debt remembers is in tokens of ours already.
        observed = self.estimated(observed, model) if pause is None else observed
        row = self._chat._row()
        if row is None or not row.active or self._chat._closed_to:
            return Ready(Compaction((), 0, 0, self._chat._closed_as() or "nothing to compact"))
        lcm, tokens = self._chat._lcm, row.context_tokens
        if self._chat.key in lcm._uncovered:
            # What the host keeps for itself leaves less space than its window: what did not fit has to be covered.
            observed = max(observed, tokens + lcm._uncovered[self._chat.key])
        if not force and target is None and not self.may_be_due(row, window, observed, model):
            # Most turns end here: what the row says is enough, and nothing else is read for it.
            return Ready(Compaction((), tokens, tokens, "below threshold"))
        summarizer, guards = self.asks(in_background=pause is not None)
        if force:
            guards.reset()
        elif target is None and guards.is_exhausted(row.next_seq, window):
            return Ready(Compaction((), tokens, tokens, "exhausted"))
        flow = compact(
            self._chat._store,
            row,
            lcm.settings,
            window,
            templates=lcm._models.templates(),
            now=lcm._clock,
            force=force,
            target=target,
            observed=observed,
            model=model,
            factor=factor,
            most=self.most(model),
            wanted_elsewhere=pause or never,
            patient=pause is not None,
            whole=whole,
            on_event=self._chat._intake.on_event,
        )
        return Job(flow, summarizer, guards, row, window, self._chat._intake.on_event, lcm._models.note_writer)

    def asks(self, *, in_background: bool = False) -> tuple[Summarizer, Guards]:
        """Return the model of summaries and the limits of its calls."""
        from lossless.engine.shared.call_limits import Guards
        from lossless.summarizers.base import Unusable

        lcm = self._chat._lcm
        try:
            summarizer = lcm._models.summarizer()
        except InvalidInput as error:
            if not in_background:
                raise
            # No user is there to fix the settings, and old messages must not be hidden until one is.
            summarizer = Unusable(str(error))
        return summarizer, Guards(self._chat._store, lcm.settings, self._chat.key, summarizer.name, lcm._clock)

    def pay(self, debt: DebtRow, pause: Callable[[], bool]) -> Compaction:
        """Compact, if that is pending for a window; otherwise rewrite provisional summaries."""
        from lossless.engine.compaction.resummarize import resummarize

        row = self._chat._row()
        if debt.window_tokens:
            observed = row.context_tokens + debt.overhead if row and debt.overhead else 0
            return self.compaction(debt.window_tokens, observed=observed, model=debt.model, pause=pause).run()
        lcm = self._chat._lcm
        if row is None or self._chat._closed_to or not lcm._models.tries():
            return Compaction((), 0, 0, self._chat._closed_as() or "nothing to compact")
        summarizer, guards = self.asks()
        flow = resummarize(
            self._chat._store,
            row,
            lcm.settings,
            templates=lcm._models.templates(),
            now=lcm._clock,
            wanted_elsewhere=pause,
            on_event=self._chat._intake.on_event,
        )
        return Job(flow, summarizer, guards, row, 0, self._chat._intake.on_event, lcm._models.note_writer).run()


def _covers(debt: DebtRow, window: int, overhead: int, model: str | None) -> bool:
    """Return whether pending work covers this turn. Work that has begun may not have seen it."""
    same = (debt.window_tokens, debt.model) == (window, model) and debt.overhead >= overhead
    return debt.pending and debt.worker is None and same


def refuse_sizes(window: int, *, target: int | None = None, observed: int = 0) -> None:
    if window < 1 or (target is not None and target < 1):
        raise InvalidInput(f"window={window}, target={target}: both are numbers of tokens.", hint="Give 1 or more.")
    if observed < 0:
        raise InvalidInput(f"observed={observed} is not a number of tokens.", hint="Give 0 if it is not known.")
