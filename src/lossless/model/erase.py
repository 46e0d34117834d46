"""Results of erasing: forgotten messages, pruned conversations, removed garbage."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Silent(Struct, frozen=True):
    """A conversation in which nothing was said for long."""

    id: int
    key: str
    active: bool
    messages: int
    newest_at: datetime
    """When its last message was said; of an empty one, when it began."""


class Pruning(Struct, frozen=True):
    """Conversations in which nothing was said since a time, and with `applied` what was removed of them."""

    before: datetime
    conversations: int
    messages: int
    oldest: tuple[Silent, ...] = ()
    """The first of them."""
    applied: bool = False
    archive: str = ""
    """Where they were exported to before; importing it brings them back."""
    changed: int = 0
    """How many stayed, because they were written to meanwhile."""
    files: int = 0
    """Files that went with them."""
    bytes: int = 0
    """That were freed: of the files, and of the database if it was written anew."""
    related: int = 0
    """How many are silent and stay, because one that they belong with is not: which they continue, or whose sub-agent's it is."""
    doubtful: int = 0
    """Payloads of theirs that perhaps another database refers to: they stay."""


class Garbage(Struct, frozen=True):
    """What nobody needs any more, and with `applied` what of it was removed."""

    files: int = 0
    """Payloads on disk that no row refers to."""
    drafts: int = 0
    """What writers left half written that are gone."""
    copies: tuple[str, ...] = ()
    """Copies of the database that were kept before it was changed, older than was asked for."""
    grants: int = 0
    manifests: int = 0
    """What was shown to models, of archived conversations, more than 90 days ago."""
    leases: int = 0
    """Held by workers that are gone."""
    bytes: int = 0
    """On disk, of all of it and of what the database itself does not use; once removed, those that were freed."""
    doubtful: int = 0
    """Payloads that this database does not refer to, and perhaps another one does: they stay."""
    applied: bool = False
    complete: bool = True
    """False if somebody's reading kept the database's log from being emptied."""


class Forgotten(Struct, frozen=True):
    """What forgetting takes away for good, or has taken: it cannot be undone."""

    key: str
    messages: int
    """How many lose their words; only their places stay."""
    copied: int = 0
    """How many of these are copies that a transplant made in other conversations."""
    summaries: tuple[str, ...] = ()
    """Those that are made anew from what is left, without a model at first."""
    gone: tuple[str, ...] = ()
    """Summaries of which nothing is left."""
    files: tuple[str, ...] = ()
    vectors: int = 0
    other_texts: int = 0
    """That came under the event ids of these messages."""
    pins: int = 0
    backups: tuple[str, ...] = ()
    """Copies, backups and archives beside the database, which may still hold the words."""
    transcripts: tuple[str, ...] = ()
    """Files of hosts that were read here: they hold the words, and are not ours to change."""
    beyond: tuple[str, ...] = ()
    """Where else words may be that we cannot reach, as sentences."""
    applied: bool = False
    sought: int = 0
    """How many of the words were looked for afterwards."""
    left: int = 0
    """How many of them are still among the bytes, in no row."""
    elsewhere: tuple[str, ...] = ()
    """Where the same words stand besides, because somebody else said them too: messages, summaries, files."""
    complete: bool = True
    """False if another session reads an older state, which keeps the deleted bytes: forget again when it is over."""
