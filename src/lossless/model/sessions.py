"""Results of ingesting messages, reading transcripts and starting sessions."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from lossless.model.context import Detached


class Ingested(Struct, frozen=True):
    """The report of one ingest."""

    stored: tuple[int, ...] = ()
    """The seqs of the new messages, in order."""
    known: int = 0
    """Messages that were already stored."""
    skipped: int = 0
    """Messages that the host's predicate excluded."""
    copies: int = 0
    """Messages with a known event id and another text: stored beside the first, not shown."""
    collisions: int = 0
    """Messages with the event id of a different message: stored under a new id."""
    late: int = 0
    """Messages of a transcript that precede messages stored already: stored, not shown."""
    redacted: int = 0
    """Secrets that were replaced by placeholders."""
    invalid: int = 0
    """Messages with values of the wrong type: stored, the wrong parts as opaque content."""


class Bootstrapped(Struct, frozen=True):
    """The report of reading a transcript once."""

    reason: str
    """`bootstrapped`, `reconciled missing session messages`, `conversation already up to date`, `already bootstrapped` (the
    file did not change), `no leaf-path messages in session`, `transcript missing`, `transcript unavailable`, `session excluded
    by pattern`, `stateless session`; or `new epoch: ...` and `stored aside: ...` with the reason for which it became a separate conversation."""
    conversation: int | None = None
    """The id of the conversation it was read into."""
    imported: int = 0
    known: int = 0
    """Messages that were already stored."""
    outside: int = 0
    """Messages stored outside the context: abandoned branches, the history before a fork, and heartbeats."""
    heartbeats: int = 0
    """Messages of heartbeat turns in which nothing was done."""
    copies: int = 0
    collisions: int = 0
    malformed: int = 0
    """Lines that could not be read."""
    too_long: int = 0
    boundaries: int = 0
    """Places where the host compacted its own context."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Lines of unknown types, by type."""
    offset: int = 0
    size: int = 0
    first_at: datetime | None = None
    """The earliest time of the messages that were read now."""
    last_at: datetime | None = None


class Renewed(Struct, frozen=True):
    """The items that `/new` removed from a context."""

    detached: tuple[Detached, ...]
    tokens_before: int
    tokens_after: int
