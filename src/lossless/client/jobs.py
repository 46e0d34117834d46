"""Flows on their way: what asks, whom it asks, and what holds it back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from lossless.events import Event, Hook, Level

if TYPE_CHECKING:
    from lossless.engine.compaction.sweep import Flow
    from lossless.engine.recall import answer as answering
    from lossless.engine.shared.call_limits import Guards
    from lossless.model import Answer, Compaction
    from lossless.store.base import ConversationRow
    from lossless.summarizers import Summarizer


class Job(Struct):
    """A flow and whom it asks: driven here, or by whoever awaits."""

    flow: Flow
    summarizer: Summarizer
    guards: Guards
    row: ConversationRow
    window: int
    on_event: Hook
    written: Callable[[str, Compaction], None]
    """Told who wrote the summaries of a conversation."""

    def run(self) -> Compaction:
        from lossless.engine.shared.model_flow import drive

        return self.ended(drive(self.flow, partial(self.guards.ask, self.summarizer)))

    def ended(self, done: Compaction) -> Compaction:
        self.written(self.row.key, done)
        if not self.window:
            return done  # summaries made anew say nothing about what is left to compact
        done, is_news = self.guards.ended(done, self.row.next_seq, self.window)
        if is_news:
            told = (
                f"{self.row.key}: {done.tokens_after:,} tokens are left and nothing more can be summarised. "
                "Begin anew with new() or reset(), or name a larger window."
            )
            # Over the threshold is early, over the window is late.
            level: Level = "warning" if done.tokens_after > self.window else "info"
            self.on_event(Event("compaction.exhausted", told, level, {"conversation": self.row.key}))
        return done


class Inquiry(Struct):
    """A question and whom it asks: driven here, or by whoever awaits."""

    flow: answering.Flow
    summarizer: Summarizer
    guards: Guards

    def run(self) -> Answer:
        from lossless.engine.shared.model_flow import drive

        return drive(self.flow, partial(self.guards.ask, self.summarizer))
