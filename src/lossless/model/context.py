"""The context of a conversation: what a model is shown, and what it is not."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from lossless.model.messages import Message, StoredMessage
from lossless.model.summaries import Summary

Item: TypeAlias = StoredMessage | Summary


class LeftOut(Struct, frozen=True):
    """Something of a conversation that a model is not shown."""

    id: str
    """`msg#...` or `sum_...`; `older` for whatever lies before the oldest that was looked at."""
    reason: str
    """`budget`: the oldest leave first. `tool result`, `picture`: a reference stands for it. `tail over budget`: a tool round
    that left. `no call`, `empty`: what no provider would take. `rejected`: what a provider refused (`report_rejection`)."""
    tokens: int


class Context(Struct, frozen=True):
    """The ordered view of a conversation: summaries, then messages."""

    items: tuple[Item, ...]
    tokens: int
    messages: tuple[Message, ...] = ()
    """What goes to a model: each item as a message, a summary marked as such, calls and results in pairs."""
    left_out: tuple[LeftOut, ...] = ()
    """What did not fit, and why; `grep`, `describe` and `expand` still find it."""
    over_budget: bool = False
    """Only when the newest words of the user and the newest tool round alone exceed the budget."""
    reason: str = "stored"
    """Where it comes from: `stored`, or `live: ...` and why the host's own messages had to serve."""
    model: str | None = None
    """The model it was assembled for, if the host named it: thinking of others is not sent to it."""
    uncovered: int = 0
    """Tokens of what is stored and neither shown nor covered by a summary that is: 0 unless compaction is behind."""


class Rejection(Struct, frozen=True):
    """What is left out of a conversation's requests since a provider refused one."""

    kind: Literal["thinking", "picture", "file", "call", "message"] | None
    """What the error is about; None if it names nothing that could be left out."""
    ids: tuple[str, ...]
    """The messages concerned: `msg#...`, or `live message` for one that is not stored yet. Empty: nothing was changed."""
    located: bool
    """False: the error did not say which one, so that all parts of the kind are left out."""
    text: str
    """What was done, in a sentence."""


class Detached(Struct, frozen=True):
    """A message or a summary that left a context: no model is shown it, and it is found and read as before."""

    id: str
    tokens: int
    cause: str
    """`new`, and whatever else takes things out of a context."""
    at: datetime


class Explanation(Struct, frozen=True):
    """What has become of a message."""

    id: str
    state: Literal["shown", "summarised", "left out", "outside", "detached"]
    summaries: tuple[str, ...]
    """The leaf that tells it, and what was made from that, up to the one in the context."""
    text: str


class Pin(Struct, frozen=True):
    """A text that a model is always shown, before everything else."""

    id: str
    text: str
    tokens: int
    message: int | None = None
    """The id of the message it was taken from, if any."""
