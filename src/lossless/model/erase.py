"""Results of erasing: forgotten messages, pruned conversations, removed garbage."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class OldConversation(Struct, frozen=True):
    """A conversation without recent messages."""

    id: int
    key: str
    active: bool
    messages: int
    newest_at: datetime
    """The time of its last message; of an empty one, of its creation."""


class Pruning(Struct, frozen=True):
    """Conversations without messages since a time; with `applied`, those that were removed."""

    before: datetime
    conversations: int
    messages: int
    oldest: tuple[OldConversation, ...] = ()
    """The oldest ones."""
    applied: bool = False
    archive: str = ""
    """The archive they were exported to; importing it restores them."""
    changed: int = 0
    """Conversations that stayed because they were changed in the meantime."""
    files: int = 0
    """Files that were removed with them."""
    bytes: int = 0
    """Bytes freed: of the files, and of the database if it was vacuumed."""
    related: int = 0
    """Old conversations that stay because a related one is not old: its successor, or a parent or sub-agent."""
    doubtful: int = 0
    """Files of theirs that another database may refer to; they stay."""


class Garbage(Struct, frozen=True):
    """Unused data; with `applied`, what was removed."""

    files: int = 0
    """Files on disk that no row refers to."""
    drafts: int = 0
    """Unfinished files of ended processes."""
    copies: tuple[str, ...] = ()
    """Copies of the database made before a change, older than requested."""
    grants: int = 0
    manifests: int = 0
    """Records of what models were shown more than 90 days ago, of archived conversations."""
    leases: int = 0
    """Leases of ended workers."""
    bytes: int = 0
    """Bytes on disk of all of it and of unused pages of the database; once removed, the bytes that were freed."""
    doubtful: int = 0
    """Files that this database does not refer to, but another one may; they stay."""
    applied: bool = False
    complete: bool = True
    """False if another reader kept the log of the database from being emptied."""


class Forgotten(Struct, frozen=True):
    """The data that `forget` erases, or has erased. It cannot be undone."""

    key: str
    messages: int
    """The messages whose text is erased; only tombstones stay."""
    copied: int = 0
    """The messages among them that a transplant copied to other conversations."""
    summaries: tuple[str, ...] = ()
    """Summaries that are rewritten from the remaining messages, without a model at first."""
    gone: tuple[str, ...] = ()
    """Summaries that are erased."""
    files: tuple[str, ...] = ()
    vectors: int = 0
    other_texts: int = 0
    """Other texts with the event ids of these messages."""
    pins: int = 0
    briefs: int = 0
    """Briefs of tasks (`focus`) that were made from these messages or contain their words; they are erased."""
    backups: tuple[str, ...] = ()
    """Copies, backups and archives beside the database, which may still contain the text."""
    transcripts: tuple[str, ...] = ()
    """Transcripts of hosts that were read: they contain the text and are not changed."""
    beyond: tuple[str, ...] = ()
    """Other places that may contain the text and are out of reach, as sentences."""
    applied: bool = False
    sought: int = 0
    """The number of words that were searched for afterwards."""
    left: int = 0
    """The number of these words still found in the bytes of the database, outside of rows."""
    elsewhere: tuple[str, ...] = ()
    """Other messages, summaries and files that contain the same words."""
    complete: bool = True
    """False if another session reads an older state, which keeps the deleted bytes: repeat `forget` after it ends."""
