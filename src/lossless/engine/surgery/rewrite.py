"""Summaries made anew: a flow for each, stage by stage, every text put in place at once.

The plan bounds the calls: two for a step, and again only where somebody else changed what it is made from. A model that fails
ends it: what was written stays, and the same operation goes on where it stopped. Nothing is ever written that no model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from lossless.config import Settings
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.summarize import PROVISIONAL, Draft, Told, as_row, drafted, of_messages, of_summaries
from lossless.engine.compaction.sweep import report_length
from lossless.engine.shared.model_flow import ModelFlow, without_fallback
from lossless.engine.shared.promise import promise_violations
from lossless.engine.surgery import select
from lossless.engine.surgery.flaws import flaw
from lossless.errors import LosslessError, StoreCorrupt
from lossless.events import Hook, ignore
from lossless.model import Applied, Plan, Step
from lossless.store.base import ConversationRow, NewSummary, SummaryRow, TextAt, Touched
from lossless.store.store import Store
from lossless.tokens import estimate

AT_ONCE = 4
"""How many summaries of one depth are made at a time."""
_MOST_TRIES = 3
_TIMES = re.compile(r"^\[(?:\d{4}-\d\d-\d\d \d\d:\d\d [^|\]\n]*|time unknown)(?:\| |\]\n)", re.M)


class Making(Struct):
    """A plan on its way: what is made, how, and how far it is."""

    store: Store
    conversation: ConversationRow
    plan: Plan
    settings: Settings
    templates: Templates
    now: Callable[[], float]
    timestamps: bool = True
    operation: str | None = None
    """None: nothing is written."""
    on_event: Hook = ignore
    done: dict[str, Step] = field(default_factory=dict)
    drafts: dict[int, NewSummary] = field(default_factory=dict)
    """What would be written, where nothing is: what follows is made from it."""
    problem: str = ""
    flaws: list[str] = field(default_factory=list)
    """What of the promise did not hold when it began."""

    def stages(self) -> Iterator[list[Step]]:
        """The steps that are left, depth by depth; none any more once there is a problem."""
        made = self.store.operations.revised_by(self.operation) if self.operation else set()
        names = (
            {row.public_id for row in self.store.summaries.read(self.conversation.id, sorted(made))} if made else set()
        )
        for stage in select.stages(step for step in self.plan.steps if step.id not in names):
            if not self.problem:
                yield stage

    def failed(self, step: Step, error: LosslessError) -> Step:
        """A step could not be made: no further one begins."""
        self.problem = self.problem or str(error)
        self.done[step.id] = replace(step, state="failed", note=str(error))
        return self.done[step.id]

    def flow(self, step: Step) -> ModelFlow[Step]:
        """Make one summary anew."""
        if self.problem:
            return step
        for _ in range(_MOST_TRIES):
            found = self.store.summaries.named(step.id)
            if found is None or found[0] != self.conversation.id:
                return self._ended(step, "kept", note="It is gone.")
            row, sources = found[1], self.store.operations.source_revisions(self.conversation.id, found[1].id)
            told = self._told(row)
            draft = yield from without_fallback(drafted(told, self.settings, self.templates))
            new = as_row(told, draft, self.templates, self.now())
            step = replace(step, old=row.text, tokens=row.tokens, new=new.text, new_tokens=new.tokens)
            if note := self._refused(step, row, draft, new):
                return self._ended(step, "kept", note=note)
            if self.operation is None:
                self.drafts[row.id] = new
                return self._ended(step, "drafted")
            if self._put(row, new, sources, told):
                report_length(self.conversation, step.id, new, self.settings, self.on_event)
                return self._ended(step, "written")
        return self._ended(step, "kept", note="It was changed again and again meanwhile.")

    def _ended(self, step: Step, state: str, note: str = "") -> Step:
        self.done[step.id] = replace(step, state=state, note=note)
        return self.done[step.id]

    def _refused(self, step: Step, row: SummaryRow, draft: Draft, new: NewSummary) -> str:
        """Why the new text does not take the place of the old one; empty if it does."""
        if draft.level in PROVISIONAL:
            if draft.model != "extractive":
                return "The model's text was cut off."
            return "The model gave no text that is short enough and supported by its sources."
        if new.text == row.text:
            return "The text is the same."
        if self.plan.kind == "repair" and step.reason != "follows":
            worse = (draft.faithful or 0) <= (row.faithful or 0) if step.reason == "unfaithful" else True
            if worse and flaw(new.text, new.level, new.model, new.faithful):
                return "The new text is no better."
        return ""

    def _put(self, row: SummaryRow, new: NewSummary, sources: list[TextAt], told: Told) -> bool:
        """The new text in the place of the old; False if it or anything in its prompt changed meanwhile."""
        conversation_id, operation = self.conversation.id, self.operation or ""
        with self.store.transaction():
            with self.store.operations.recording(operation, Touched(conversation_id, (row.id,))):
                same = self.store.operations.source_revisions(conversation_id, row.id) == sources
                if not (same and self.store.context.has_texts(told.revisions)):
                    return False
                if not self.store.summaries.revise(conversation_id, row, new):
                    return False
            # With each text, since nobody knows which is the last.
            self.store.operations.set_operation(
                operation, "partly", self._sentence(len(self.store.operations.revised_by(operation)))
            )
        return True

    def _told(self, row: SummaryRow) -> Told:
        store, conversation_id = self.store, self.conversation.id
        seqs, ids = store.summaries.sources(conversation_id, row.id)
        if row.depth == 0:
            before = self._fresh(store.summaries.before(conversation_id, row.id, 0))
            told = of_messages(conversation_id, store.messages.at(conversation_id, seqs), before, self.settings)
        else:
            found = {each.id: each for each in self._fresh(store.summaries.read(conversation_id, ids))}
            before = self._fresh(store.summaries.before(conversation_id, ids[0], 0)) if row.depth == 1 else []
            told = of_summaries([found[each] for each in ids], before, self.settings)
        if self.timestamps:
            return told
        text = _TIMES.sub(lambda found: "[" if found[0].endswith("| ") else "", told.text)
        return replace(told, text=text, size=estimate(text))

    def _fresh(self, rows: list[SummaryRow]) -> list[SummaryRow]:
        """The rows, with what would have been written by now."""
        texts = {each: {"text": new.text, "tokens": new.tokens} for each, new in self.drafts.items()}
        return [replace(row, **texts.get(row.id, {})) for row in rows]

    def begin(self, options: dict[str, str | bool | None]) -> None:
        """Write the plan down, so that it can be taken up again."""
        self.flaws = promise_violations(self.store, self.conversation.id)
        names = [[step.id, step.reason] for step in self.plan.steps]
        plan = {"options": options, "steps": names}
        at = int(self.now() * 1_000_000)
        with self.store.transaction():
            self.operation = self.store.operations.record(
                self.conversation.id, self.plan.kind, at, plan, self._sentence(0), "planned"
            )

    def end(self) -> Applied:
        """What came of it, checked and written down."""
        steps = tuple(self.done.get(step.id, step) for step in self.plan.steps)
        if self.operation is None:
            return Applied(self.plan, "drafted", steps, None, self.problem)
        written = len(self.store.operations.revised_by(self.operation))
        status = "partly" if self.problem else "applied"
        with self.store.transaction():
            self.store.operations.set_operation(self.operation, status, self._sentence(written))
        if news := [flaw for flaw in promise_violations(self.store, self.conversation.id) if flaw not in self.flaws]:
            raise StoreCorrupt(f"{self.operation} broke the promise: {news[0]}", hint=f"`lcm undo {self.operation}`.")
        return Applied(self.plan, "partly" if self.problem else "applied", steps, self.operation, self.problem)

    def _sentence(self, written: int) -> str:
        verb = "rewritten" if self.plan.kind == "rewrite" else "repaired"
        by = f" by {self.plan.model}" if self.plan.model else ""
        return f"{written:,} of {len(self.plan.steps):,} summaries {verb}{by}"
