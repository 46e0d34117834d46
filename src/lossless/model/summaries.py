"""Summaries, what a compaction reports, and how summaries are listed and compared."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct


class Summary(Struct, frozen=True):
    """A text standing for a run of messages (a leaf, depth 0) or of summaries (condensed, depth 1 and up)."""

    id: str
    depth: int
    text: str
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    descendants: int
    source_tokens: int
    model: str
    level: str
    revision: int = 1
    origin: str | None = None
    """The summary of another conversation that it is a copy of."""
    faithful: float | None = None
    """The share of its claims that were found in its sources; None if nobody looked."""

    @property
    def suspected(self) -> str:
        """What a reader has to know about claims not found in its sources; empty if there are none."""
        return suspicion(self.faithful)

    @property
    def kind(self) -> Literal["leaf", "condensed"]:
        return "leaf" if self.depth == 0 else "condensed"


def suspicion(faithful: float | None) -> str:
    """Say which share of a summary's claims was not found in its sources; empty if none is known."""
    return "" if faithful is None or faithful >= 1 else f"{max(1, round(100 * (1 - faithful)))}% of its claims"


class SummaryRequest(Struct, frozen=True):
    """What a summariser is asked: one text to be shortened, and how.

    `system` and `prompt` are complete and ready to be sent; `source` is the segment inside the prompt, for
    summarisers that need no prompt. `target_tokens` is the length wanted, `max_tokens` the most to be paid for.
    """

    system: str
    prompt: str
    source: str
    depth: int
    target_tokens: int
    max_tokens: int
    previous: str | None = None
    aggressive: bool = False
    temperature: float | None = None
    """The temperature to ask with; None for the model's own."""
    timeout: float | None = None
    """How many seconds there are for a reply, if fewer than the summariser would wait."""

    def within(self, seconds: float) -> float:
        """Return how long to wait for a reply, at most `seconds`."""
        return seconds if self.timeout is None else min(seconds, self.timeout)


ModelBlock: TypeAlias = Literal["auth", "spend", "breaker", "daily limit", "rate limit", "unavailable"]
"""The reason for which a model is not called: refused credentials (`auth`, `breaker`), a limit of calls (`spend`,
`daily limit`), a pause that the provider asked for (`rate limit`), no answer (`unavailable`)."""
CompactionStop: TypeAlias = Literal[
    "compacted",
    "below threshold",
    "nothing to compact",
    "exhausted",
    "passes",
    "deadline",
    "moved",
    "yielded",
    "in vain",
    "disabled",
    "ignored session",
    "stateless session",
    "auth",
    "spend",
    "breaker",
    "daily limit",
    "rate limit",
    "unavailable",
]
"""The reason for which a compaction ended.

- done: `compacted`, `below threshold`, `nothing to compact`;
- over the threshold with nothing left to summarise: `exhausted`;
- a limit of the sweep: `passes`, `deadline`;
- another writer: `moved` (it changed the context), `yielded` (the conversation is in use);
- settings: `disabled`, `ignored session`, `stateless session`;
- only when summaries are rewritten: `in vain` (the replies were not usable) and every `ModelBlock`. A compaction ends with
  `rate limit` alone; otherwise it continues without the model.
"""
DebtStop: TypeAlias = CompactionStop | Literal["failed", "stopped"]
"""The end of the last try of pending work: that of its compaction, an error (`failed`), or an interrupt (`stopped`)."""


class Compaction(Struct, frozen=True):
    """What one compaction did."""

    summaries: tuple[str, ...]
    """The ids of the summaries that were made, in order."""
    tokens_before: int
    tokens_after: int
    stop: CompactionStop
    """The reason for which it ended."""
    retry_at: datetime | None = None
    """When what holds it back is over, if it is known."""
    without_model: ModelBlock | Literal[""] = ""
    """The reason for which summaries were written without the model, if they were. They are provisional, and rewritten
    once the model answers."""


class ListedSummary(Struct, frozen=True):
    """One summary of a list: what it stands for, where it stands, and what is to be said against it."""

    id: str
    conversation: int
    kind: Literal["leaf", "condensed"]
    depth: int
    tokens: int
    source_tokens: int
    """What the messages below it cost."""
    descendants: int
    """How many summaries lie below it."""
    sources: int
    """How many messages, or summaries, it was made from."""
    consumers: int
    """How many summaries were made from it."""
    earliest_at: datetime | None
    latest_at: datetime | None
    created_at: datetime
    model: str
    level: str
    revision: int
    place: str
    """`context`; `below` others; or why it left the context (`new`, `dissolved`, ...); `nowhere` is for a doctor."""
    flags: tuple[str, ...]
    """`provisional` (no model wrote it), `cut`, `stale` (a source was made anew since), `unfaithful`."""
    faithful: float | None
    """Which share of its claims its sources bear out, if that was looked at."""
    preview: str
    messages: int | None = None
    """How many messages lie below it; None where nobody counted, as below more than 1,000 summaries in a list."""
    content: str | None = None
    """All of its text, where that was asked for."""


class SummarySource(Struct, frozen=True):
    """A message that a leaf was made from."""

    id: str
    seq: int
    role: str
    tokens: int
    at: datetime
    preview: str


class ShownSummary(Struct, frozen=True):
    """Everything about one summary."""

    key: str
    summary: ListedSummary
    consumers: tuple[ListedSummary, ...]
    """What was made from it, by depth and id."""
    sources: tuple[ListedSummary, ...]
    """The summaries it was made from, in order."""
    messages: tuple[SummarySource, ...]
    """The messages it was made from, in order."""
    file_ids: tuple[str, ...]
    prompt_version: str | None
    origin: str | None
    """The summary of another conversation that it is a copy of."""
    revisions: int
    """How many texts of it there are, the present one included."""


class MessageRun(Struct, frozen=True):
    """Messages that stand together in a context, or that left it for one cause."""

    first: str
    last: str
    messages: int
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None


class TreeEntry(Struct, frozen=True):
    """One line of a tree: a summary, or messages that stand together."""

    steps: int
    """How far below the context."""
    above: str | None
    """The summary it is a source of."""
    summary: ListedSummary | None = None
    messages: MessageRun | None = None
    cause: str = ""
    """Why it left the context, if it did."""
    repeated: bool = False
    """It stands further up with all that is below it."""
    hidden: int = 0
    """How many summaries below it are not told."""


class Tree(Struct, frozen=True):
    """A context with what lies below it, in order, the oldest first."""

    key: str
    tokens: int
    source_tokens: int
    """What the messages below it, and in it, cost."""
    summaries: int
    """How many stand in it themselves."""
    messages: int
    entries: tuple[TreeEntry, ...]
    aside: tuple[TreeEntry, ...] = ()
    """What left the context, in the same way."""
    older: int = 0
    """How many entries before the first are left out."""

    @property
    def hidden(self) -> int:
        """How many summaries are not told."""
        return sum(each.hidden for each in (*self.entries, *self.aside))


class Revision(Struct, frozen=True):
    """One of the texts that a summary has had."""

    number: int
    at: datetime
    model: str
    level: str
    tokens: int
    prompt_version: str | None
    faithful: float | None
    operation: str | None
    """What `undo` takes, if an operation wrote it."""
    text: str


class Comparison(Struct, frozen=True):
    """Two texts of a summary; `diff` is empty where they are the same, or where there is only one."""

    id: str
    old: int | None
    new: int
    diff: str
