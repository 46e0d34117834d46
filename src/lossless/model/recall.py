"""Results of recall: search hits, descriptions, expansions and answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Self

from msgspec import Struct

from lossless.model.messages import StoredFile, StoredMessage
from lossless.model.summaries import Summary


class NearMessage(Struct, frozen=True):
    """A message before or after a hit."""

    id: str
    seq: int
    role: str
    at: datetime
    snippet: str
    """Its beginning, on one line, safe for a terminal."""


class Hit(Struct, frozen=True):
    """A match of a search."""

    id: str
    """The id for `describe` and `expand`: `msg#...`, `sum_...` or `file_...`."""
    kind: Literal["message", "summary", "file"]
    conversation: int
    """The id of its conversation."""
    key: str
    at: datetime
    """The time of the message; of a summary, of its newest source; of a file, of its arrival."""
    snippet: str
    """The match with some text around it, on one line, safe for a terminal."""
    score: float = 0.0
    """The relevance for a full-text question; higher is better, within one kind."""
    seq: int | None = None
    role: str | None = None
    leaf: str | None = None
    """The summary that covers a message; None if the message is in the context itself."""
    depth: int | None = None
    name: str | None = None
    """The name of a file."""
    line: int | None = None
    offset: int | None = None
    """The start of the match in a file, in bytes."""
    around: tuple[NearMessage, ...] = ()
    """The messages before and after a message, if they were asked for; each is shown with one hit only."""


class Hits(tuple[Hit, ...]):
    """The result of a search: a sequence of `Hit`s with the cursor of the next page."""

    next_cursor: str | None
    """The cursor of the next page; None at the end."""
    complete: bool
    """False if the time limit ended the search; `next_cursor` continues it."""
    scanned: int
    """The number of texts, or lines of files, that were read."""
    unavailable: tuple[str, ...]
    """The ids of files whose bytes are missing."""
    hint: str
    """A hint, e.g. if the question looks like one for another mode."""
    total: int
    """The number of matches on all pages."""
    total_is_exact: bool
    """False if there may be more than `total`: counting them would have taken too long."""
    mode: Literal["regex", "full_text", "semantic"]
    """How the text was searched for."""

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
        mode: Literal["regex", "full_text", "semantic"] = "regex",
    ) -> Self:
        self = super().__new__(cls, hits)
        self.mode = mode
        self.total, self.total_is_exact = total, total_is_exact
        self.next_cursor, self.complete, self.scanned = next_cursor, complete, scanned
        self.unavailable, self.hint = unavailable, hint
        return self


class Branch(Struct, frozen=True):
    """A summary in the tree below another one, with the cost of reading it."""

    id: str
    above: str | None
    """The summary it is a source of; None for the requested one."""
    steps: int
    """The levels below the requested one."""
    path: str
    """Its position among the sources on every level, e.g. `0000.0002`."""
    depth: int
    tokens: int
    below_tokens: int
    """The tokens of all summaries below it."""
    source_tokens: int
    """The tokens of the messages below it."""
    descendants: int
    sources: int
    earliest_at: datetime | None
    latest_at: datetime | None

    @property
    def kind(self) -> Literal["leaf", "condensed"]:
        return "leaf" if self.depth == 0 else "condensed"

    @property
    def cost(self) -> int:
        """The tokens of it and every summary below it."""
        return self.tokens + self.below_tokens

    @property
    def cost_with_messages(self) -> int:
        return self.cost + self.source_tokens


class TextPage(Struct, frozen=True):
    """A page of a text: its UTF-8 bytes from `start` up to `end`. All pages together are the text."""

    text: str
    start: int
    end: int
    size: int
    """The size of the complete text in bytes."""
    first_line: int
    last_line: int
    """The first and last line of the page, counted from 1; before the first if it is empty."""
    lines: int
    """The number of lines of the complete text."""
    ends_line: bool = True
    """True if it ends at the end of a line."""

    @property
    def next_line(self) -> int | None:
        """The `start_line` of the next page; None at the end, or in the middle of a line."""
        return self.last_line + 1 if self.end < self.size and self.ends_line else None

    @property
    def next_offset(self) -> int | None:
        """The `offset` of the next page; None at the end."""
        return self.end if self.end < self.size else None


class Description(Struct, frozen=True):
    """A description of a summary, message or file: `head` describes it, `content` is its exact text."""

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
    """The number of branches that are not listed."""
    cap: int = 0
    """The token limit that decides which branches fit."""
    truncated: bool = False
    """True if `content` does not show everything that was requested."""
    page: TextPage | None = None
    """The page of its text in `content`; None if there is no text."""

    @property
    def text(self) -> str:
        return f"{self.head}\n{self.content}" if self.content else self.head


class Excerpt(Struct, frozen=True):
    """The stored text of a message, summary or file, or a part of it."""

    id: str
    kind: Literal["summary", "message", "file"]
    conversation: int
    text: str
    tokens: int
    """The tokens that a model reads."""
    at: datetime | None
    seq: int | None = None
    role: str | None = None
    depth: int | None = None
    above: str | None = None
    """The summary through which it was reached, if any."""
    start: int = 0
    """The number of its characters on earlier pages."""
    level: str | None = None
    """Of a summary: `normal`, `aggressive`, `extractive` (written without a model) or `cut`."""
    suspected: str = ""
    """Of a summary: the share of its claims not found in its sources, in words."""


class Cue(Struct, frozen=True):
    """Excerpts of the history that a prompt may be about; empty if nothing is near enough."""

    text: str
    """The excerpts as a model reads them, marked as untrusted."""
    tokens: int
    excerpts: tuple[Excerpt, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.excerpts)


class Skipped(Struct, frozen=True):
    """An item that did not fit into an expansion, with its tokens."""

    id: str
    tokens: int


class Expansion(Struct, frozen=True):
    """The result of an expansion."""

    items: tuple[Excerpt, ...]
    tokens: int
    truncated: bool = False
    next: str | None = None
    """The cursor that continues this expansion."""
    skipped: tuple[Skipped, ...] = ()
    closed: tuple[str, ...] = ()
    """Leaves whose messages were not requested."""

    @property
    def text(self) -> str:
        """The exact texts, each under a line with its origin. To show them to a model, use `lossless.tools`."""
        return "\n\n".join(f"[{_headline(item)}]\n{item.text}" for item in self.items)


def _headline(item: Excerpt) -> str:
    origin = item.role if item.kind == "message" else f"summary, depth {item.depth}"
    time = f"{item.at:%Y-%m-%d %H:%M} UTC" if item.at else ""
    return " | ".join(filter(None, (item.id, origin, time)))


class Evidence(Struct, frozen=True):
    """An exact quotation from the history that is relevant to a question."""

    id: str
    quote: str
    at: datetime | None
    seq: int | None = None
    conversation: int = 0
    reason: str = ""
    """Why it was chosen, if no model chose it."""


class Share(Struct, frozen=True):
    """The contribution of one conversation, or of its family, to an answer."""

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
    """The answer to a question about the history. Without a model, only the evidence is filled."""

    answer: str
    evidence: tuple[Evidence, ...] = ()
    cited_ids: tuple[str, ...] = ()
    """The cited ids, all of which were read."""
    dropped: tuple[str, ...] = ()
    """Citations and quotations of the model that were not read or do not match."""
    conversations: tuple[int, ...] = ()
    expanded: int = 0
    """The number of summaries that were expanded."""
    source_tokens: int = 0
    """The tokens of history that were read."""
    truncated: bool = False
    breakdown: tuple[Share, ...] = ()
    model: str = ""
    error: str = ""
    """The error, if there is no answer because of it."""
    error_code: str = ""
