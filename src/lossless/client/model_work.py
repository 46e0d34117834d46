"""Work that asks a model, ready to be run here or awaited by `lossless.aio`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial, wraps
from itertools import count
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from lossless.events import Event, Hook, Level

if TYPE_CHECKING:
    from lossless.engine.compaction.sweep import Flow
    from lossless.engine.recall import answer as answering
    from lossless.engine.recall import brief as briefing
    from lossless.engine.shared.call_limits import Guards
    from lossless.errors import SummarizerError
    from lossless.model import Answer, Brief, Compaction, Outcome, SummaryRequest
    from lossless.store.rows.types import ConversationRow
    from lossless.summarizers import Summarizer
    from lossless.summarizers.base import Cancellation, Reply

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_RESULTS = {
    "Inquiry": "Answer",
    "Compacting": "Compaction",
    "Focusing": "Brief",
    "Rewrite": "Outcome",
    "Repairs": "tuple[Outcome, ...]",
}


class Runnable(Protocol[R_co]):
    """Work that is prepared and not begun."""

    def run(self) -> R_co:
        """Do the work and return its result."""


class Ready(Struct, Generic[R]):
    """A result for which no model has to be asked."""

    value: R

    def run(self) -> R:
        """Return the result."""
        return self.value


def runs(prepare: Callable[P, Runnable[R]]) -> Callable[P, R]:
    """Make a verb of a method that prepares its work: called, it runs the work and returns the result.

    `prepare` stays an attribute of the verb, so that `lossless.aio` can await the same work.
    """

    @wraps(prepare)
    def verb(*args: P.args, **kwargs: P.kwargs) -> R:
        return prepare(*args, **kwargs).run()

    signature = inspect.signature(prepare)
    result = _RESULTS[str(signature.return_annotation)]
    vars(verb).update(prepare=prepare, __signature__=signature.replace(return_annotation=result))
    return verb


class Job(Struct):
    """A compaction, and the model it asks."""

    flow: Flow
    summarizer: Summarizer
    guards: Guards
    row: ConversationRow
    window: int
    on_event: Hook
    written: Callable[[str, Compaction], None]
    """Called with the key and the result once summaries are written."""

    def run(self) -> Compaction:
        """Compact, and return what came of it."""
        from lossless.engine.shared.model_flow import drive

        return self.ended(drive(self.flow, partial(self.guards.ask, self.summarizer)))

    def ended(self, done: Compaction) -> Compaction:
        """Record the end of a compaction, and report once that nothing more can be gained."""
        self.written(self.row.key, done)
        if not self.window:
            return done  # rewritten summaries say nothing about what is left to compact
        done, is_news = self.guards.note_end(done, self.row.next_seq, self.window)
        if is_news:
            text = (
                f"{self.row.key}: {done.tokens_after:,} tokens are left and nothing more can be summarised. "
                "Start over with new() or reset(), or name a larger window."
            )
            # Over the threshold is early, over the window is late.
            level: Level = "warning" if done.tokens_after > self.window else "info"
            self.on_event(Event("compaction.exhausted", text, level, {"conversation": self.row.key}))
        return done


class Inquiry(Struct):
    """A question, and the model it asks."""

    flow: answering.Flow
    summarizer: Summarizer
    guards: Guards

    def run(self, *, progress: Callable[[int], None] | None = None, cancellation: Cancellation | None = None) -> Answer:
        """Answer the question.

        `progress` is called with the number of each request to the model, before it is sent. `cancellation` ends it from
        another thread: then it raises `Cancelled`.
        """
        from lossless.engine.shared.model_flow import drive
        from lossless.summarizers.base import Cancellation

        numbers, watched = count(1), cancellation or Cancellation()

        def ask(request: SummaryRequest) -> Reply | SummarizerError:
            if progress:
                progress(next(numbers))
            with watched.watching():
                return self.guards.ask(self.summarizer, request)

        return drive(self.flow, ask)


class Briefing(Struct):
    """A brief that is written, and the model it asks."""

    flow: briefing.Flow
    summarizer: Summarizer
    guards: Guards
    described: Callable[[briefing.WrittenBrief], Brief]

    def run(self) -> Brief:
        """Write the brief and store it."""
        from lossless.engine.shared.model_flow import drive

        return self.described(drive(self.flow, partial(self.guards.ask, self.summarizer)))


Compacting: TypeAlias = "Job | Ready[Compaction]"
Focusing: TypeAlias = "Briefing | Ready[Brief]"


class Repairs(Struct):
    """The repairs of several conversations, each prepared when the one before has ended."""

    jobs: Iterator[Runnable[Outcome]]

    def run(self) -> tuple[Outcome, ...]:
        """Repair one conversation after another, up to the first problem."""
        done: list[Outcome] = []
        for job in self.jobs:
            done.append(job.run())
            if done[-1].problem:
                break
        return tuple(done)
