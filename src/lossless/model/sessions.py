"""Results of ingesting messages, reading transcripts and starting sessions."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from lossless.model.context import Detached


class Ingested(Struct, frozen=True):
    """What one ingest did."""

    stored: tuple[int, ...] = ()
    """The seqs of the messages that were new, in order."""
    known: int = 0
    """How many were already there."""
    skipped: int = 0
    """How many the host's own predicate asked not to store."""
    copies: int = 0
    """How many carried a known event id with another text: kept beside the first, not shown."""
    collisions: int = 0
    """How many carried the event id of a different message: stored under an id of their own."""
    late: int = 0
    """How many a transcript tells from before something that was stored already: kept, and not shown."""
    redacted: int = 0
    """How many secrets in what was stored were replaced by placeholders."""
    invalid: int = 0
    """How many were not what their types say: stored, what is wrong in them as opaque content."""


class Bootstrapped(Struct, frozen=True):
    """What one reading of a transcript did."""

    reason: str
    """`bootstrapped`, `reconciled missing session messages`, `conversation already up to date`, `already bootstrapped` (the
    file did not change), `no leaf-path messages in session`, `transcript missing`, `transcript unavailable`, `session excluded
    by pattern`, `stateless session`; or `new epoch: ...` and `stored aside: ...` with why it got a conversation of its own."""
    conversation: int | None = None
    """The id of the conversation it was read into."""
    imported: int = 0
    known: int = 0
    """How many the host had told before, or an earlier reading."""
    outside: int = 0
    """How many were stored out of the context: abandoned branches, what a fork has from before, and heartbeats."""
    heartbeats: int = 0
    """How many messages belong to heartbeat turns in which nothing was done."""
    copies: int = 0
    collisions: int = 0
    malformed: int = 0
    """Lines that could not be read."""
    too_long: int = 0
    boundaries: int = 0
    """Where the host had compacted its own context."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Lines of unknown types, by type."""
    offset: int = 0
    size: int = 0
    first_at: datetime | None = None
    """The earliest time of the messages that were read now."""
    last_at: datetime | None = None


class Renewed(Struct, frozen=True):
    """What a /new took out of a context."""

    detached: tuple[Detached, ...]
    tokens_before: int
    tokens_after: int
