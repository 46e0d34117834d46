"""Define the values that an importer returns: another system's conversations, messages, summaries and files.

An importer opens its source for reading only, in one snapshot, and streams. References (`ref`) are the source's own ids; they
stay the same from run to run, so that an import can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from lossless.model import Message


class PastSession(Struct, frozen=True, omit_defaults=True):
    """A host's id of a conversation."""

    id: str
    first_at: datetime
    last_at: datetime


class PastCursor(Struct, frozen=True, omit_defaults=True):
    """A position up to which something was read into a conversation, such as a transcript."""

    source: str
    state: Any
    updated_at: datetime


class PastPin(Struct, frozen=True, omit_defaults=True):
    """A pinned text."""

    id: str
    text: str
    tokens: int
    created_at: datetime
    ref: str | None = None
    """The message it was made from."""


class PastTransplant(Struct, frozen=True, omit_defaults=True):
    """Messages copied from another conversation, by seq, and the position of the first of them."""

    first: int
    last: int
    place: int
    at: datetime


class History(Struct, frozen=True, omit_defaults=True):
    """One conversation of a source."""

    ref: str
    key: str
    session: str | None
    active: bool
    created_at: datetime
    updated_at: datetime
    title: str | None = None
    archived_at: datetime | None = None
    archive_cause: str | None = None
    parent_ref: str | None = None
    """The conversation whose sub-agent this was."""
    continues_ref: str | None = None
    messages: int = 0
    summaries: int = 0
    files: int = 0
    exact: bool = False
    """It is an exported conversation of ours: all fields are set, and it is stored unchanged."""
    renewed_at: datetime | None = None
    transcribed: bool = False
    sessions: tuple[PastSession, ...] = ()
    cursors: tuple[PastCursor, ...] = ()
    pins: tuple[PastPin, ...] = ()
    transplants: tuple[PastTransplant, ...] = ()


class PastCopy(Struct, frozen=True, omit_defaults=True):
    """Another text that came under the event id of a message."""

    message: Message
    digest: bytes
    created_at: datetime


class PastMessage(Struct, frozen=True, omit_defaults=True):
    """A message of a source."""

    ref: str
    message: Message
    """With its event id, if the source has one."""
    created_at: datetime
    outside: str | None = None
    aliases: tuple[str, ...] = ()
    """Further event ids of the message."""
    pinned: bool = False
    event_key: str | None = None
    """The stored event id, where it cannot be derived from the message."""
    tokens: int | None = None
    digest: bytes | None = None
    copies: tuple[PastCopy, ...] = ()


class PastRevision(Struct, frozen=True, omit_defaults=True):
    """An earlier text of a summary."""

    revision: int
    text: str
    tokens: int
    model: str
    level: str
    created_at: datetime
    prompt_version: str | None = None
    faithful: float | None = None


class PastSummary(Struct, frozen=True, omit_defaults=True):
    """A summary; its sources come before it, as `refs` of messages (depth 0) or of summaries."""

    ref: str
    """The public id, `sum_...`, where the source has such ids."""
    depth: int
    text: str
    sources: tuple[str, ...]
    created_at: datetime
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    model: str = "unknown"
    level: str = "normal"
    file_ids: tuple[str, ...] = ()
    revision: int = 1
    tokens: int | None = None
    source_tokens: int | None = None
    descendants: int | None = None
    prompt_version: str | None = None
    faithful: float | None = None
    stale: bool = False
    tries: int = 0
    origin: str | None = None
    """The summary that it is a copy of."""
    earlier: tuple[PastRevision, ...] = ()


class PastItem(Struct, frozen=True, omit_defaults=True):
    """An item of a context, or one that left it."""

    kind: Literal["message", "summary"]
    ref: str
    cause: str | None = None
    """The reason why it left the context, if it did."""
    left_at: datetime | None = None
    ordinal: int | None = None
    tokens: int | None = None
    depth: int | None = None


class PastFile(Struct, frozen=True, omit_defaults=True):
    """A file; `data` is None if its bytes are missing."""

    ref: str
    name: str | None
    mime: str | None
    data: bytes | None
    summary: str
    created_at: datetime
    sha256: str | None = None
    size: int | None = None
    lines: int | None = None


class Source(Protocol):
    """A database of another system, or an archive."""

    system: str
    """`lossless-claw`, `hermes-lcm`, `lossless`."""
    version: str
    identity: str
    """Distinguishes this source from every other, each time it is opened."""
    unmapped: list[str]
    """Notes on what is not imported."""

    def histories(self) -> list[History]: ...

    def messages(self, history: History, *, after: str | None = None) -> Iterator[PastMessage]:
        """Yield the messages in order; with `after` only those after that ref."""

    def summaries(self, history: History) -> Iterator[PastSummary]:
        """Yield the summaries, the shallowest first, then in the order they were made."""

    def items(self, history: History) -> Iterator[PastItem]:
        """Yield the items of the context in order."""

    def files(self, history: History) -> Iterator[PastFile]: ...

    def close(self) -> None: ...
