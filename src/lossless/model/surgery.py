"""Plans to rewrite, merge, dissolve or transplant summaries, and their results."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field


class Transplant(Struct, frozen=True):
    """The summaries that a transplant copies to another conversation, or has copied."""

    source: str
    """The key of the source conversation."""
    target: str
    source_tokens: int
    """The tokens of the source's context before it."""
    target_tokens: int
    tokens: int = 0
    """The tokens it adds to the target's context."""
    depths: dict[int, int] = field(default_factory=dict)
    """The number of copied summaries, by depth."""
    messages: int = 0
    """The number of messages below them."""
    uncovered: int = 0
    """Messages in the source's context that no summary covers: they are not copied."""
    duplicates: tuple[str, ...] = ()
    """Summaries of the source that the target contains already, with the same text and time."""
    skipped: int = 0
    """The number of summaries skipped because the target contains them."""
    applied: bool = False
    made: tuple[str, ...] = ()
    """The ids of the copies in the target's context, in order."""

    @property
    def summaries(self) -> int:
        return sum(self.depths.values())


class Step(Struct, frozen=True):
    """One summary of a plan, and its result."""

    id: str
    depth: int
    sources: int
    """The number of messages or summaries it is made from."""
    tokens: int
    input_tokens: int
    """The estimated tokens that a model reads."""
    output_tokens: int
    """The estimated tokens that a model writes."""
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    reason: str = ""
    """The reason for which it is in the plan: chosen, provisional, marked, truncated, unfaithful, follows (its sources), returns."""
    state: Literal["planned", "drafted", "written", "kept", "failed"] = "planned"
    """`drafted`: a new text exists but was not stored. `kept`: it is unchanged; `note` has the reason."""
    old: str = ""
    new: str = ""
    new_tokens: int = 0
    note: str = ""

    @property
    def diff(self) -> str:
        """The unified diff of the old and the new text."""
        from difflib import unified_diff

        before, after = self.old.splitlines(), self.new.splitlines()
        return "\n".join(unified_diff(before, after, f"{self.id} (old)", f"{self.id} (new)", lineterm=""))


class Plan(Struct, frozen=True):
    """The steps of an operation on summaries, and their cost."""

    kind: Literal["rewrite", "repair", "dissolve", "merge"]
    conversation: str
    steps: tuple[Step, ...] = ()
    model: str = ""
    cost: float | None = None
    """The estimated cost in US dollars, if the model's price is known."""
    tokens_before: int = 0
    tokens_after: int = 0
    """The tokens of the context after it, if the operation changes its items."""
    review: tuple[str, ...] = ()
    """Reasons against the operation, as sentences; if there are any, nothing is done."""

    @property
    def input_tokens(self) -> int:
        return sum(step.input_tokens for step in self.steps)

    @property
    def output_tokens(self) -> int:
        return sum(step.output_tokens for step in self.steps)


class Outcome(Struct, frozen=True):
    """A plan and its outcome."""

    plan: Plan
    status: Literal["planned", "drafted", "partly", "applied"]
    """`planned`: a dry run. `drafted`: a model wrote texts, nothing was stored. `partly`: only a part was applied."""
    steps: tuple[Step, ...] = ()
    operation: str | None = None
    """The operation for `undo` and `resume`, if anything was stored."""
    problem: str = ""
    """The reason for which it ended early, if it did."""


class Operation(Struct, frozen=True):
    """An operation on summaries that was carried out."""

    id: str
    kind: str
    conversation: str
    at: datetime
    status: Literal["planned", "partly", "applied", "undone"]
    summary: str
    """The operation in one sentence."""
