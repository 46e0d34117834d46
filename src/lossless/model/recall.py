"""Results of recall: search hits, descriptions, expansions and answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Self

from msgspec import Struct

from lossless.model.messages import StoredFile, StoredMessage
from lossless.model.summaries import Summary


class Hit(Struct, frozen=True):
    """Words that a search found, and where."""

    id: str
    """To be described or expanded: `msg#...`, `sum_...` or `file_...`."""
    kind: Literal["message", "summary", "file"]
    conversation: int
    """The id of its conversation."""
    key: str
    at: datetime
    """When it was said; of a summary, its newest source; of a file, when it came."""
    snippet: str
    """The match and a little around it, on one line, safe to be shown in a terminal."""
    score: float = 0.0
    """How well it answers a full-text question; a higher one is better, within one kind."""
    seq: int | None = None
    role: str | None = None
    leaf: str | None = None
    """The summary that covers a message, or None while the message stands in the context itself."""
    depth: int | None = None
    name: str | None = None
    """A file's."""
    line: int | None = None
    offset: int | None = None
    """Where in a file the match begins, in bytes."""


class Hits(tuple[Hit, ...]):
    """What a search found. It is a sequence of `Hit`s that knows whether there are more."""

    next_cursor: str | None
    """Goes on behind the last hit, or where time ran out; None at the end."""
    complete: bool
    """False if the deadline came before everything was looked at; `next_cursor` goes on there."""
    scanned: int
    """How many texts, or lines of files, were read to find these."""
    unavailable: tuple[str, ...]
    """The ids of files whose bytes are not where they were put."""
    hint: str
    """What to try instead, if the question looks like one for another mode."""
    total: int
    """How many matches there are on all pages."""
    total_is_exact: bool
    """False if there may be more than `total`: counting them would have taken too long."""

    def __new__(
        cls,
        hits: Iterable[Hit] = (),
        next_cursor: str | None = None,
        complete: bool = True,
        scanned: int = 0,
        unavailable: tuple[str, ...] = (),
        hint: str = "",
        total: int = 0,
        total_is_exact: bool = True,
    ) -> Self:
        self = super().__new__(cls, hits)
        self.total, self.total_is_exact = total, total_is_exact
        self.next_cursor, self.complete, self.scanned = next_cursor, complete, scanned
        self.unavailable, self.hint = unavailable, hint
        return self


class Branch(Struct, frozen=True):
    """A summary as a branch to climb down: where it hangs, and what it costs to read."""

    id: str
    above: str | None
    """The summary it is a source of; None for the one that was asked about."""
    steps: int
    """How far below the one that was asked about."""
    path: str
    """Its place among the sources on every step, e.g. `0000.0002`."""
    depth: int
    tokens: int
    below_tokens: int
    """What all summaries below it cost together."""
    source_tokens: int
    """What the messages at the bottom cost."""
    descendants: int
    sources: int
    earliest_at: datetime | None
    latest_at: datetime | None

    @property
    def kind(self) -> Literal["leaf", "condensed"]:
        return "leaf" if self.depth == 0 else "condensed"

    @property
    def cost(self) -> int:
        """Reading it and every summary below it."""
        return self.tokens + self.below_tokens

    @property
    def cost_with_messages(self) -> int:
        return self.cost + self.source_tokens


class TextPage(Struct, frozen=True):
    """Some of a text: the bytes of its UTF-8 form from `start` up to `end`. The pages of a text, put together, are the text."""

    text: str
    start: int
    end: int
    size: int
    """How many bytes the whole text has."""
    first_line: int
    last_line: int
    """The lines it shows, counted from 1; before the first if it shows none."""
    lines: int
    """How many lines the whole text has."""
    ends_line: bool = True
    """Whether it ends where a line does."""

    @property
    def next_line(self) -> int | None:
        """The `start_line` of the next page; None at the end, or in the middle of a line."""
        return self.last_line + 1 if self.end < self.size and self.ends_line else None

    @property
    def next_offset(self) -> int | None:
        """The `offset` of the next page; None at the end."""
        return self.end if self.end < self.size else None


class Description(Struct, frozen=True):
    """What a summary, a message or a file is. `content` is its text, word for word; `head` all that we say about it."""

    id: str
    kind: Literal["summary", "message", "file"]
    conversation: int
    head: str
    content: str
    created_at: datetime
    summary: Summary | None = None
    message: StoredMessage | None = None
    file: StoredFile | None = None
    sources: tuple[str, ...] = ()
    """The summaries it was made from."""
    consumers: tuple[str, ...] = ()
    """The summaries that were made from it."""
    message_ids: tuple[int, ...] = ()
    file_ids: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    """The summary and everything below it, nearest first, each once."""
    more: int = 0
    """How many branches beyond those listed."""
    cap: int = 0
    """The tokens that a reading may cost, by which branches fit or do not."""
    truncated: bool = False
    """Whether there is more of what was asked for than `content` shows."""
    page: TextPage | None = None
    """Which part of its text `content` shows, and where the next one starts; None where there is no text to show."""

    @property
    def text(self) -> str:
        return f"{self.head}\n{self.content}" if self.content else self.head


class Excerpt(Struct, frozen=True):
    """Old words: those of a message, of a summary or of a file, exactly as they are stored."""

    id: str
    kind: Literal["summary", "message", "file"]
    conversation: int
    text: str
    tokens: int
    """What it costs a model to read."""
    at: datetime | None
    seq: int | None = None
    role: str | None = None
    depth: int | None = None
    above: str | None = None
    """The summary it is a source of, as far as it was reached through one."""
    start: int = 0
    """How many characters of it came before these, when it takes several pages."""
    level: str | None = None
    """Of a summary: `normal`, `aggressive`, `extractive` (written without a model) or `cut`."""
    suspected: str = ""
    """Of a summary: how many of its claims were not found in its sources."""


class Skipped(Struct, frozen=True):
    """What did not fit into an expansion, and what it would cost."""

    id: str
    tokens: int


class Expansion(Struct, frozen=True):
    """What an expansion gave, and where it goes on."""

    items: tuple[Excerpt, ...]
    tokens: int
    truncated: bool = False
    next: str | None = None
    """The cursor with which the same call goes on where this one stopped."""
    skipped: tuple[Skipped, ...] = ()
    closed: tuple[str, ...] = ()
    """Leaves whose messages were not asked for."""

    @property
    def text(self) -> str:
        """The exact words, each under a line that says whose they are. To show them to a model, use `lossless.tools`."""
        return "\n\n".join(f"[{_headline(item)}]\n{item.text}" for item in self.items)


def _headline(item: Excerpt) -> str:
    who = item.role if item.kind == "message" else f"summary, depth {item.depth}"
    said = f"{item.at:%Y-%m-%d %H:%M} UTC" if item.at else ""
    return " | ".join(filter(None, (item.id, who, said)))


class Evidence(Struct, frozen=True):
    """Words that bear on a question: they stand in the history exactly so."""

    id: str
    quote: str
    at: datetime | None
    seq: int | None = None
    conversation: int = 0


class Share(Struct, frozen=True):
    """What one conversation, or one family of them, had to say to a question."""

    conversation: int
    status: Literal["success", "failed", "skipped"]
    expanded: int = 0
    cited_ids: tuple[str, ...] = ()
    source_tokens: int = 0
    truncated: bool = False
    summary_ids: tuple[str, ...] = ()
    phase: str = ""
    elapsed_ms: int = 0
    error_code: str = ""
    error: str = ""


class Answer(Struct, frozen=True):
    """The answer to a question about the past. Without a model it is empty, and the evidence is there."""

    answer: str
    evidence: tuple[Evidence, ...] = ()
    cited_ids: tuple[str, ...] = ()
    """Only ids of what was really read for it."""
    dropped: tuple[str, ...] = ()
    """What a model cited or quoted that was never read, or does not stand there."""
    conversations: tuple[int, ...] = ()
    expanded: int = 0
    """How many summaries were opened."""
    source_tokens: int = 0
    """How many tokens of history were read."""
    truncated: bool = False
    breakdown: tuple[Share, ...] = ()
    model: str = ""
    error: str = ""
    """What went wrong, if there is no answer because of it."""
    error_code: str = ""
