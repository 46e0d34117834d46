"""Rewrite summaries: one model flow each, stage by stage; every text is stored as soon as it is written.

The plan limits the calls: two for a step, more only if its sources changed meanwhile. A model failure ends the run: texts
that were written stay, and the same operation continues there later. Only texts written by a model are stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from lossless.config import Settings
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.summarize import (
    PROVISIONAL,
    Draft,
    SourceText,
    as_row,
    draft_summary,
    of_messages,
    of_summaries,
)
from lossless.engine.compaction.sweep import report_length
from lossless.engine.shared.model_flow import ModelFlow, without_fallback
from lossless.engine.shared.promise import promise_violations
from lossless.engine.surgery import select
from lossless.engine.surgery.flaws import flaw
from lossless.errors import LosslessError, StoreCorrupt
from lossless.events import Hook, ignore
from lossless.model import Outcome, Plan, Step
from lossless.store.rows.types import ConversationRow, NewSummary, SummaryRow, TextAt, Touched
from lossless.store.store import Store
from lossless.summarizers.base import EMBEDDED
from lossless.tokens import estimate

AT_ONCE = 4
"""Summaries of one depth that are written at the same time."""
_MOST_TRIES = 3
_TIMES = re.compile(r"^\[(?:\d{4}-\d\d-\d\d \d\d:\d\d [^|\]\n]*|time unknown)(?:\| |\]\n)", re.M)


class RewriteRun(Struct):
    """The execution of a plan: its settings, its results and its progress."""

    store: Store
    conversation: ConversationRow
    plan: Plan
    settings: Settings
    templates: Templates
    now: Callable[[], float]
    timestamps: bool = True
    operation: str | None = None
    """None for a draft: nothing is stored."""
    on_event: Hook = ignore
    done: dict[str, Step] = field(default_factory=dict)
    drafts: dict[int, NewSummary] = field(default_factory=dict)
    """Texts of a draft run, from which the next stages are written."""
    problem: str = ""
    flaws: list[str] = field(default_factory=list)
    """Violations of the promise before the run."""

    def stages(self) -> Iterator[list[Step]]:
        """Yield the remaining steps depth by depth; none after a problem."""
        made = self.store.operations.revised_by(self.operation) if self.operation else set()
        names = (
            {row.public_id for row in self.store.summaries.read(self.conversation.id, sorted(made))} if made else set()
        )
        for stage in select.stages(step for step in self.plan.steps if step.id not in names):
            if not self.problem:
                yield stage

    def fail(self, step: Step, error: LosslessError) -> Step:
        """Record a failed step, after which no other begins."""
        self.problem = self.problem or str(error)
        self.done[step.id] = replace(step, state="failed", note=str(error))
        return self.done[step.id]

    def flow(self, step: Step) -> ModelFlow[Step]:
        """Rewrite one summary."""
        if self.problem:
            return step
        for _ in range(_MOST_TRIES):
            found = self.store.summaries.named(step.id)
            if found is None or found[0] != self.conversation.id:
                return self._finish(step, "kept", note="It no longer exists.")
            row, sources = found[1], self.store.operations.source_revisions(self.conversation.id, found[1].id)
            source = self._source(row)
            draft = yield from without_fallback(draft_summary(source, self.settings, self.templates))
            new = as_row(source, draft, self.templates, self.now())
            step = replace(step, old=row.text, tokens=row.tokens, new=new.text, new_tokens=new.tokens)
            if note := self._reason_to_keep(step, row, draft, new):
                return self._finish(step, "kept", note=note)
            if self.operation is None:
                self.drafts[row.id] = new
                return self._finish(step, "drafted")
            if self._store_text(row, new, sources, source):
                report_length(self.conversation, step.id, new, self.settings, self.on_event)
                return self._finish(step, "written")
        return self._finish(step, "kept", note="It kept changing meanwhile.")

    def _finish(self, step: Step, state: str, note: str = "") -> Step:
        self.done[step.id] = replace(step, state=state, note=note)
        return self.done[step.id]

    def _reason_to_keep(self, step: Step, row: SummaryRow, draft: Draft, new: NewSummary) -> str:
        """Return the reason to keep the old text; empty to replace it."""
        if self.plan.model == EMBEDDED and draft.level == EMBEDDED:
            if row.level not in PROVISIONAL and row.text.strip():
                return "A model wrote it."
            return "The text is the same." if new.text == row.text else ""
        if draft.level in PROVISIONAL:
            if draft.model != "extractive":
                return "The model's text was cut off."
            return "The model returned no text that is short enough and supported by its sources."
        if new.text == row.text:
            return "The text is the same."
        if self.plan.kind == "repair" and step.reason != "follows":
            worse = (draft.faithful or 0) <= (row.faithful or 0) if step.reason == "unfaithful" else True
            if worse and flaw(new.text, new.level, new.model, new.faithful):
                return "The new text is no better."
        return ""

    def _store_text(self, row: SummaryRow, new: NewSummary, sources: list[TextAt], source: SourceText) -> bool:
        """Replace the text; return False if it or anything in its prompt changed meanwhile."""
        conversation_id, operation = self.conversation.id, self.operation or ""
        with self.store.transaction():
            with self.store.operations.recording(operation, Touched(conversation_id, (row.id,))):
                same = self.store.operations.source_revisions(conversation_id, row.id) == sources
                if not (same and self.store.context.has_texts(source.revisions)):
                    return False
                if not self.store.summaries.revise(conversation_id, row, new):
                    return False
            # After each text, because any of them can be the last.
            self.store.operations.set_operation(
                operation, "partly", self._sentence(len(self.store.operations.revised_by(operation)))
            )
        return True

    def _source(self, row: SummaryRow) -> SourceText:
        store, conversation_id = self.store, self.conversation.id
        seqs, ids = store.summaries.sources(conversation_id, row.id)
        if row.depth == 0:
            before = self._with_drafts(store.summaries.before(conversation_id, row.id, 0))
            source = of_messages(conversation_id, store.messages.at(conversation_id, seqs), before, self.settings)
        else:
            found = {each.id: each for each in self._with_drafts(store.summaries.read(conversation_id, ids))}
            before = self._with_drafts(store.summaries.before(conversation_id, ids[0], 0)) if row.depth == 1 else []
            source = of_summaries([found[each] for each in ids], before, self.settings)
        if self.timestamps:
            return source
        text = _TIMES.sub(lambda found: "[" if found[0].endswith("| ") else "", source.text)
        return replace(source, text=text, size=estimate(text))

    def _with_drafts(self, rows: list[SummaryRow]) -> list[SummaryRow]:
        """Return the rows with the texts of the drafts."""
        texts = {each: {"text": new.text, "tokens": new.tokens} for each, new in self.drafts.items()}
        return [replace(row, **texts.get(row.id, {})) for row in rows]

    def begin(self, options: dict[str, str | bool | None]) -> None:
        """Record the plan, so that it can be resumed."""
        self.flaws = promise_violations(self.store, self.conversation.id)
        names = [[step.id, step.reason] for step in self.plan.steps]
        plan = {"options": options, "steps": names}
        at = int(self.now() * 1_000_000)
        with self.store.transaction():
            self.operation = self.store.operations.record(
                self.conversation.id, self.plan.kind, at, plan, self._sentence(0), "planned"
            )

    def end(self) -> Outcome:
        """Check and record the outcome."""
        steps = tuple(self.done.get(step.id, step) for step in self.plan.steps)
        if self.operation is None:
            return Outcome(plan=self.plan, status="drafted", steps=steps, operation=None, problem=self.problem)
        written = len(self.store.operations.revised_by(self.operation))
        status = "partly" if self.problem else "applied"
        with self.store.transaction():
            self.store.operations.set_operation(self.operation, status, self._sentence(written))
        if violations := [
            flaw for flaw in promise_violations(self.store, self.conversation.id) if flaw not in self.flaws
        ]:
            raise StoreCorrupt(
                f"{self.operation} violated the promise: {violations[0]}", hint=f"`lcm undo {self.operation}`."
            )
        return Outcome(
            plan=self.plan,
            status="partly" if self.problem else "applied",
            steps=steps,
            operation=self.operation,
            problem=self.problem,
        )

    def _sentence(self, written: int) -> str:
        verb = "rewritten" if self.plan.kind == "rewrite" else "repaired"
        by = f" by {self.plan.model}" if self.plan.model else ""
        return f"{written:,} of {len(self.plan.steps):,} summaries {verb}{by}"
