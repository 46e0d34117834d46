"""Plans to rewrite, merge, dissolve or transplant summaries, and their results."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field


class Transplant(Struct, frozen=True):
    """What a transplant copies from one conversation into another, or has copied."""

    source: str
    """The keys of both."""
    target: str
    source_tokens: int
    """What their contexts cost before it."""
    target_tokens: int
    tokens: int = 0
    """What it adds to the target's context."""
    depths: dict[int, int] = field(default_factory=dict)
    """How many summaries are copied, by depth."""
    messages: int = 0
    """How many messages lie below them."""
    uncovered: int = 0
    """Messages in the source's context that no summary covers: they are not copied."""
    duplicates: tuple[str, ...] = ()
    """Summaries of the source that stand in the target already, in the same words about the same time."""
    skipped: int = 0
    """How many of the source's context are left out because they are there."""
    applied: bool = False
    made: tuple[str, ...] = ()
    """The ids of the copies that stand in the target's context, in order."""

    @property
    def summaries(self) -> int:
        return sum(self.depths.values())


class Step(Struct, frozen=True):
    """One summary of a plan, and what became of it."""

    id: str
    depth: int
    sources: int
    """How many messages, or summaries, it is made from."""
    tokens: int
    input_tokens: int
    """About what is read for it."""
    output_tokens: int
    """About what is written."""
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    reason: str = ""
    """Why it is in the plan: chosen, provisional, marked, truncated, unfaithful, follows (its sources), returns."""
    state: Literal["planned", "drafted", "written", "kept", "failed"] = "planned"
    """`drafted`: there is a new text that was not written. `kept`: it stays as it is, and `note` tells why."""
    old: str = ""
    new: str = ""
    new_tokens: int = 0
    note: str = ""

    @property
    def diff(self) -> str:
        """The old text against the new one, as a unified diff."""
        from difflib import unified_diff

        before, after = self.old.splitlines(), self.new.splitlines()
        return "\n".join(unified_diff(before, after, f"{self.id} (old)", f"{self.id} (new)", lineterm=""))


class Plan(Struct, frozen=True):
    """What an operation on old data would do, and what it costs."""

    kind: Literal["rewrite", "repair", "dissolve", "merge"]
    conversation: str
    steps: tuple[Step, ...] = ()
    model: str = ""
    cost: float | None = None
    """About how many US dollars, where the model's price is known."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Of the context, where the operation changes which items it has."""
    review: tuple[str, ...] = ()
    """What stands against it, as sentences: then nothing is done."""

    @property
    def input_tokens(self) -> int:
        return sum(step.input_tokens for step in self.steps)

    @property
    def output_tokens(self) -> int:
        return sum(step.output_tokens for step in self.steps)


class Applied(Struct, frozen=True):
    """A plan, and what came of it."""

    plan: Plan
    status: Literal["planned", "drafted", "partly", "applied"]
    """`planned`: nothing was asked or written. `drafted`: a model was asked, nothing was written. `partly`: not all of it."""
    steps: tuple[Step, ...] = ()
    operation: str | None = None
    """What `undo` and `resume` take, if anything was written."""
    problem: str = ""
    """Why it ended early, if it did."""


class Operation(Struct, frozen=True):
    """Something that was done to old data."""

    id: str
    kind: str
    conversation: str
    at: datetime
    status: Literal["planned", "partly", "applied", "undone"]
    summary: str
    """What it was, in a sentence."""
