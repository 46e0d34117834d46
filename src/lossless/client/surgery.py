"""Prepare the rewriting of summaries: the model, the requests, and callbacks on the way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from msgspec import Struct, structs

from lossless import summarizers
from lossless.client.arguments import choose
from lossless.client.model_work import Ready
from lossless.config import Settings
from lossless.engine.compaction.backfill import without_deadlines
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.sweep import fit_to_window
from lossless.engine.shared.call_limits import Guards
from lossless.engine.shared.model_flow import drive
from lossless.engine.surgery import select, undo
from lossless.engine.surgery.rewrite import AT_ONCE, RewriteRun
from lossless.engine.surgery.select import Selection
from lossless.errors import InvalidInput, LosslessError, NotFound, SummarizerError
from lossless.model import Outcome, Plan, Step, SummaryRequest
from lossless.store import jsontext
from lossless.store.rows.types import ConversationRow
from lossless.summarizers import AsyncSummarizer, Chain, Function, Reply, Summarizer
from lossless.summarizers.base import EMBEDDED, counting
from lossless.summarizers.prices import cost

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless


class RewriteOptions(Struct, frozen=True):
    """Options for rewriting summaries: the model, its prompts, and whether to write the result."""

    apply: bool = False
    dry_run: bool = False
    """Ask a model and write nothing. With neither of the two there is only a plan."""
    model: str | Function | Summarizer | None = None
    """The model that writes, by default that of the summaries."""
    prompt_dir: str | Path | None = None
    timestamps: bool = True
    """Include the times of messages in the request."""
    timezone: str | None = None
    started: Callable[[Outcome], None] | None = None
    """Called with the plan and the operation's id before a model is asked."""
    progress: Callable[[Step], None] | None = None
    """Called with each step that has ended, in order."""

    def options(self) -> dict[str, str | bool | None]:
        """Return the options that a continuation needs; a function of the caller has to be given again."""
        return {
            "model": self.model if isinstance(self.model, str) else None,
            "prompt_dir": None if self.prompt_dir is None else str(Path(self.prompt_dir).resolve()),
            "timestamps": self.timestamps,
            "timezone": self.timezone,
        }


class Rewriting(TypedDict, total=False):
    """The options of `rewrite`, `repair` and `resume`, by name; see `RewriteOptions`."""

    apply: bool
    dry_run: bool
    model: str | Function | Summarizer | None
    prompt_dir: str | Path | None
    timestamps: bool
    timezone: str | None
    started: Callable[[Outcome], None] | None
    progress: Callable[[Step], None] | None


def rewrite_options(given: Rewriting) -> RewriteOptions:
    """Return the options that a caller gave by name; `InvalidInput` for one that does not exist."""
    for name in given:
        choose("option", name, RewriteOptions.__struct_fields__)
    return RewriteOptions(**given)


class Remaking(Struct):
    """The rewriting of summaries, and the model it asks, some requests at a time."""

    making: RewriteRun
    summarizer: Summarizer
    guards: Guards
    progress: Callable[[Step], None]

    def run(self) -> Outcome:
        """Rewrite the summaries, some at a time."""
        for stage in self.making.stages():
            pool = ThreadPoolExecutor(AT_ONCE)
            try:
                for step in pool.map(self._made, stage):
                    self.progress(step)
            except BaseException:
                # Interrupted: what is under way ends, nothing else begins.
                self.making.problem = self.making.problem or "It was interrupted."
                raise
            finally:
                pool.shutdown(cancel_futures=True)
        return self.making.end()

    def _made(self, step: Step) -> Step:
        try:
            return drive(self.making.flow(step), self.answer)
        except LosslessError as error:
            return self.making.fail(step, error)

    def answer(self, request: SummaryRequest) -> Reply | SummarizerError:
        try:
            with counting(self.guards.count):
                return self.summarizer.ask(request)
        except SummarizerError as error:
            return error


Rewrite = Remaking | Ready[Outcome]


def prepare_rewrite(
    lcm: Lossless,
    row: ConversationRow,
    kind: Literal["rewrite", "repair"],
    selection: Selection | dict[str, str],
    how: RewriteOptions,
    operation: str | None = None,
) -> Rewrite:
    """Prepare the rewriting of summaries; where no model is to be asked, its result."""
    settings, templates = fit_to_window(lcm._store, row, _settings(lcm, how))[1], _templates(lcm, how)
    summarizer = _summarizer(lcm, settings, how)
    if summarizer.name == EMBEDDED and isinstance(selection, Selection) and selection.flawed:
        selection = structs.replace(selection, outdated=True)
    steps = select.steps(lcm._store, row, selection, settings, templates)
    plan = Plan(kind, row.key, steps, summarizer.name, cost(summarizer.name, steps))
    if not (how.apply or how.dry_run):
        return Ready(Outcome(plan, "planned"))
    if not steps:
        return Ready(Outcome(plan, "applied" if how.apply else "drafted"))
    if summarizer.name == EMBEDDED and kind == "rewrite":
        raise InvalidInput(
            "There is no model to write summaries.",
            hint="Name one (--model), or set it: `lcm config set summary_model NAME`.",
        )
    making = RewriteRun(
        lcm._store, row, plan, settings, templates, lcm._clock, how.timestamps, operation, lcm._on_event
    )
    if how.apply and operation is None:
        making.begin(how.options())
    if how.started is not None:
        how.started(Outcome(plan, "planned", (), making.operation))
    # The caller asked for it and knows the cost: only the limit of all spending applies.
    guards = Guards(lcm._store, without_deadlines(settings), f"rewrite:{row.key}", summarizer.name, lcm._clock)
    return Remaking(making, summarizer, guards, how.progress or (lambda step: None))


def resume(lcm: Lossless, operation_id: str, how: RewriteOptions) -> Rewrite:
    """Prepare the rest of an operation that ended early."""
    found = undo.find_operation(lcm._store, operation_id)
    row = lcm._store.conversations.get(found.conversation_id)
    if row is None:
        raise NotFound("operation", operation_id)
    kind: Literal["rewrite", "repair"] = "rewrite" if found.kind == "rewrite" else "repair"
    if found.status not in ("planned", "partly") or found.kind != kind:
        raise InvalidInput(f"Nothing of {operation_id} is left to do: it is {found.status}.")
    stored = jsontext.stored(found.plan)
    options = stored["options"] | ({} if how.model is None else {"model": how.model})
    again = structs.replace(how, apply=True, **options)
    return prepare_rewrite(lcm, row, kind, dict(stored["steps"]), again, operation_id)


def _settings(lcm: Lossless, how: RewriteOptions) -> Settings:
    return lcm.settings if how.timezone is None else structs.replace(lcm.settings, timezone=how.timezone)


def _templates(lcm: Lossless, how: RewriteOptions) -> Templates:
    if how.prompt_dir is None:
        return lcm._models.templates()
    templates = Templates.load(how.prompt_dir)
    if templates.problems:
        raise InvalidInput(templates.problems[0], hint="`lcm prompts check` tells more. Nothing was asked.")
    return templates


def _summarizer(lcm: Lossless, settings: Settings, how: RewriteOptions) -> Summarizer:
    if how.model is None:
        return lcm._models.summarizer()
    named = summarizers.resolve(how.model, settings, on_event=lcm._on_event)
    return named if isinstance(named, AsyncSummarizer) else Chain([named], clock=lcm._clock)
