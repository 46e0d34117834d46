"""Summaries, reports of compactions, and rows of summary lists and trees."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

LEFT_OUT = re.compile(r"(\d{1,6}) statements? left out because \w+ (?:was|were) not found in the sources", re.I)
"""The entry in the last line of a summary for the statements that were removed from a model's text."""


class Summary(Struct, frozen=True):
    """A summary of a run of messages (a leaf, depth 0) or of summaries (condensed, depth 1 and up)."""

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
    """The share of its claims found in its sources; None if not checked."""

    @property
    def suspected(self) -> str:
        """The share of its claims that are not in its sources, in words; empty if there are none."""
        return suspicion(self.faithful)

    @property
    def removed(self) -> int:
        """The number of statements that were removed from a model's text because its sources do not support them."""
        return statements_removed(self.text)

    @property
    def kind(self) -> Literal["leaf", "condensed"]:
        return "leaf" if self.depth == 0 else "condensed"


def statements_removed(text: str) -> int:
    """Return the number of statements that were removed from the text of a summary."""
    found = LEFT_OUT.search(text.rpartition("\nExpand for details about:")[2])
    return int(found[1]) if found else 0


def suspicion(faithful: float | None) -> str:
    """Describe the share of a summary's claims not found in its sources; empty if none is known."""
    return "" if faithful is None or faithful >= 1 else f"{max(1, round(100 * (1 - faithful)))}% of its claims"


class SummaryRequest(Struct, frozen=True):
    """A request to a summarizer to shorten one text.

    `system` and `prompt` are complete; `source` is the text inside the prompt, for summarizers that need no prompt.
    `target_tokens` is the requested length, `max_tokens` the limit of the output.
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
    """The temperature to send; None for the model's default."""
    timeout: float | None = None
    """The seconds left for a reply, if fewer than the timeout of the summarizer."""

    def within(self, seconds: float) -> float:
        """Return the seconds to wait for a reply, at most `seconds`."""
        return seconds if self.timeout is None else min(seconds, self.timeout)


ModelBlock: TypeAlias = Literal["auth", "spend", "breaker", "daily limit", "rate limit", "unavailable"]
"""The reason for which a model is not called: refused credentials (`auth`, `breaker`), a limit of calls (`spend`,
`daily limit`), a pause that the provider asked for (`rate limit`), no answer (`unavailable`)."""
CompactionStop: TypeAlias = Literal[
    "compacted",
    "below threshold",
    "nothing to compact",
    "too small",
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

- done: `compacted`, `below threshold`, `nothing to compact`, `too small` (no summary would be shorter; no model was asked);
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
    """The report of one compaction."""

    summaries: tuple[str, ...]
    """The ids of the new summaries, in order."""
    tokens_before: int
    tokens_after: int
    stop: CompactionStop
    """The reason for which it ended."""
    retry_at: datetime | None = None
    """The time from which on it can continue, if it is known."""
    without_model: ModelBlock | Literal[""] = ""
    """The reason for which summaries were written without the model, if they were. They are provisional, and rewritten
    once the model answers."""


class ListedSummary(Struct, frozen=True):
    """One summary of a list: its sources, its place and its problems."""

    id: str
    conversation: int
    kind: Literal["leaf", "condensed"]
    depth: int
    tokens: int
    source_tokens: int
    """The tokens of the messages below it."""
    descendants: int
    """The number of summaries below it."""
    sources: int
    """The number of messages or summaries it was made from."""
    consumers: int
    """The number of summaries made from it."""
    earliest_at: datetime | None
    latest_at: datetime | None
    created_at: datetime
    model: str
    level: str
    revision: int
    place: str
    """`context`; `below` others; the cause for which it left the context (`new`, `dissolved`, ...); `nowhere` is an error."""
    flags: tuple[str, ...]
    """`provisional` (written without a model), `cut`, `stale` (a source was rewritten since), `unfaithful`."""
    faithful: float | None
    """The share of its claims found in its sources, if checked."""
    preview: str
    messages: int | None = None
    """The number of messages below it; None if not counted, as below more than 1,000 summaries in a list."""
    content: str | None = None
    """Its complete text, if requested."""


class SummarySource(Struct, frozen=True):
    """A message that a leaf was made from."""

    id: str
    seq: int
    role: str
    tokens: int
    at: datetime
    preview: str


class ShownSummary(Struct, frozen=True):
    """The details of one summary."""

    key: str
    summary: ListedSummary
    consumers: tuple[ListedSummary, ...]
    """The summaries made from it, by depth and id."""
    sources: tuple[ListedSummary, ...]
    """The summaries it was made from, in order."""
    messages: tuple[SummarySource, ...]
    """The messages it was made from, in order."""
    file_ids: tuple[str, ...]
    prompt_version: str | None
    origin: str | None
    """The summary of another conversation that it is a copy of."""
    revisions: int
    """The number of its revisions, including the current one."""


class MessageRun(Struct, frozen=True):
    """Adjacent messages of a context, or that left it for one cause."""

    first: str
    last: str
    messages: int
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None


class TreeEntry(Struct, frozen=True):
    """One line of a tree: a summary or adjacent messages."""

    steps: int
    """The levels below the context."""
    above: str | None
    """The summary it is a source of."""
    summary: ListedSummary | None = None
    messages: MessageRun | None = None
    cause: str = ""
    """The cause for which it left the context, if it did."""
    repeated: bool = False
    """True if it is listed above with everything below it."""
    hidden: int = 0
    """The number of summaries below it that are not listed."""


class Tree(Struct, frozen=True):
    """A context and the summaries below it, the oldest first."""

    key: str
    tokens: int
    source_tokens: int
    """The tokens of the messages below it and in it."""
    summaries: int
    """The number of summaries directly in it."""
    messages: int
    entries: tuple[TreeEntry, ...]
    aside: tuple[TreeEntry, ...] = ()
    """Entries that left the context."""
    older: int = 0
    """The number of omitted entries before the first."""

    @property
    def hidden(self) -> int:
        """The number of summaries that are not listed."""
        return sum(each.hidden for each in (*self.entries, *self.aside))


class Revision(Struct, frozen=True):
    """One revision of a summary's text."""

    number: int
    at: datetime
    model: str
    level: str
    tokens: int
    prompt_version: str | None
    faithful: float | None
    operation: str | None
    """The operation that wrote it, for `undo`."""
    text: str


class Comparison(Struct, frozen=True):
    """Two revisions of a summary; `diff` is empty if they are the same, or if there is only one."""

    id: str
    old: int | None
    new: int
    diff: str
