"""The context of a conversation: the messages shown to a model, and those left out."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from lossless.model.messages import Message, StoredMessage
from lossless.model.summaries import Summary

Item: TypeAlias = StoredMessage | Summary


class LeftOut(Struct, frozen=True):
    """A message or summary that is left out of a request."""

    id: str
    """`msg#...` or `sum_...`; `older` for everything before the oldest item considered."""
    reason: str
    """`budget`: the oldest are left out first. `tool result`, `picture`: replaced by a reference. `tail over budget`: a tool
    round. `no call`, `empty`: not accepted by providers. `rejected`: refused by a provider (`report_rejection`). `no space`: the
    brief of a task."""
    tokens: int


class Context(Struct, frozen=True):
    """The ordered view of a conversation: summaries, then messages."""

    items: tuple[Item, ...]
    tokens: int
    messages: tuple[Message, ...] = ()
    """The messages to send: one for each item, summaries marked as such, calls paired with results."""
    left_out: tuple[LeftOut, ...] = ()
    """Items left out, with the reason; `grep`, `describe` and `expand` still find them."""
    over_budget: bool = False
    """True only if the newest user message and the newest tool round alone exceed the budget."""
    reason: str = "stored"
    """Its origin: `stored`, or `live: ...` with the reason for which the host's own messages were used."""
    model: str | None = None
    """The model it was assembled for, if the host named it; reasoning of other models is not sent to it."""
    uncovered: int = 0
    """Tokens of stored messages that are neither shown nor covered by a shown summary; 0 unless compaction is behind."""
    brief: str | None = None
    """The id of the brief (`focus`) among the messages, which is no item; None if there is none."""


class Rejection(Struct, frozen=True):
    """The parts that later requests leave out after a provider rejected one."""

    kind: Literal["thinking", "picture", "file", "call", "message"] | None
    """The kind of part that the error concerns; None if it names nothing that could be left out."""
    ids: tuple[str, ...]
    """The messages concerned: `msg#...`, or `live message` for one that is not stored yet. Empty if nothing was changed."""
    located: bool
    """False if the error did not name the part, so that all parts of the kind are left out."""
    text: str
    """The change in one sentence."""


class Detached(Struct, frozen=True):
    """A message or summary that left a context: not shown to a model any more, but still found by recall."""

    id: str
    tokens: int
    cause: str
    """The cause for which it left, e.g. `new`."""
    at: datetime


class Explanation(Struct, frozen=True):
    """An explanation of a message's state."""

    id: str
    state: Literal["shown", "summarised", "left out", "outside", "detached"]
    summaries: tuple[str, ...]
    """The leaf that covers it and the summaries above it, up to the one in the context."""
    text: str


class Pin(Struct, frozen=True):
    """A text that is always shown to the model, before everything else."""

    id: str
    text: str
    tokens: int
    message: int | None = None
    """The id of the message it was taken from, if any."""


class Brief(Struct, frozen=True):
    """A brief of what matters for a task, found by recall and shown to the model before the newest messages."""

    id: str
    """`brief_...`; it stays the same when the brief is rewritten."""
    task: str
    text: str
    """Statements with the ids they were taken from, or quotations, the most important first."""
    tokens: int
    """The tokens of the message that shows it."""
    sources: tuple[str, ...]
    """The ids of the texts it was made from."""
    model: str
    """The model that wrote it; `extractive` for quotations, for which no model is needed."""
    created_at: datetime
    name: str = ""
    active: bool = True
    """False if it is kept and not shown."""
    new_messages: int = 0
    """The number of messages stored since it was made."""
    stale: bool = False
    """True if some of these messages are not in the context any more, or if a text it was made from changed or is gone."""
    dropped: int = 0
    """Statements of the model that were left out now, because their sources do not support them."""
    problem: str = ""
    """The reason for which no model wrote it now; empty if there is none."""
