"""Rows of lists and details of one conversation, message or file."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Self, TypeVar

from msgspec import Struct

from lossless.model.context import Pin
from lossless.model.messages import Message, StoredFile, StoredMessage
from lossless.model.status import Debt, DepthFigures

T = TypeVar("T")


class Listing(tuple[T, ...]):
    """A page of a list: a sequence with the cursor of the next page."""

    next_cursor: str | None
    """The cursor of the next page; None at the end."""

    def __new__(cls, items: Iterable[T] = (), next_cursor: str | None = None) -> Self:
        self = super().__new__(cls, items)
        self.next_cursor = next_cursor
        return self


class ListedConversation(Struct, frozen=True):
    """One conversation of a list."""

    id: int
    key: str
    session: str | None
    """The host's newest session id."""
    title: str | None
    """As set by a user, else the first words of the user, else the name of the project directory."""
    directory: str | None
    """The project directory of the newest transcript that was read into it."""
    active: bool
    archived_at: datetime | None
    archive_cause: str | None
    created_at: datetime
    updated_at: datetime
    """The time of the newest activity."""
    first_message_at: datetime | None
    last_message_at: datetime | None
    messages: int
    message_tokens: int
    """Tokens of messages in the context, below summaries or detached; not of those outside every context."""
    summaries: int
    max_depth: int | None
    """The greatest depth of its summaries, if it has any."""
    context_items: int
    context_tokens: int


class Relative(Struct, frozen=True):
    """A related conversation."""

    id: int
    key: str
    active: bool
    archive_cause: str | None
    messages: int
    updated_at: datetime


class TranscriptPosition(Struct, frozen=True):
    """A transcript and the position up to which it was read."""

    path: str
    format: str
    session: str
    offset: int
    """The number of bytes read."""
    size: int | None
    """The size of the file when it was read to its end; None if it was not yet."""
    read_at: datetime | None


class ContextFigures(Struct, frozen=True):
    """The contents of a context in figures, and its fresh tail, which is never summarised."""

    messages: int
    message_tokens: int
    summaries: int
    summary_tokens: int
    tail_messages: int
    tail_tokens: int


class ShownConversation(Struct, frozen=True):
    """The details of a conversation, without its texts."""

    conversation: ListedConversation
    sessions: tuple[str, ...]
    """Every session id of it, the oldest first."""
    renewed_at: datetime | None
    """The time of the last `/new`."""
    context: ContextFigures
    depths: tuple[DepthFigures, ...]
    detached: dict[str, int]
    """The number of items that left the context, by cause."""
    debt: Debt | None
    transcripts: tuple[TranscriptPosition, ...]
    files: int
    file_bytes: int
    pins: tuple[Pin, ...]
    family: tuple[Relative, ...]
    """The other conversations of its key."""
    continues: int | None
    """The id of the archived conversation that it continues."""
    parent: Relative | None
    """The conversation whose sub-agent this is."""
    sub_agents: tuple[Relative, ...]


class Whereabouts(Struct, frozen=True):
    """The location of a message."""

    state: Literal["context", "summarised", "detached", "outside", "tombstone", "nowhere"]
    """`outside`: never shown to a model. `tombstone`: its text was erased. `nowhere`: an error that `lcm doctor` reports."""
    why: str = ""
    """The cause, if it is in no context."""
    summaries: tuple[str, ...] = ()
    """The leaf that covers it and the summaries above it, up to the one that is or was in the context."""


class ListedMessage(Struct, frozen=True):
    """One message of a list."""

    id: str
    seq: int
    role: str
    tokens: int
    at: datetime
    where: Whereabouts
    files: tuple[str, ...]
    """The files it refers to."""
    preview: str
    """The beginning of its text, on one line."""
    content: str | None = None
    """Its complete text, if requested."""


class ShownMessage(Struct, frozen=True):
    """A message with all its parts and details."""

    id: str
    conversation: int
    key: str
    stored: StoredMessage
    where: Whereabouts
    files: tuple[str, ...]
    aliases: tuple[str, ...]
    """Its other event ids."""
    copies: tuple[Message, ...]
    """Other texts that arrived with its event id."""
    lost_files: tuple[str, ...] = ()
    """If complete content was requested: the files that cannot be read. All files are references then."""


class MessageTail(Struct, frozen=True):
    """The newest messages of a context that are not summarised."""

    conversation: int
    key: str
    count: int
    """The requested number of messages."""
    max_tokens: int | None
    messages: tuple[ListedMessage, ...]
    """In order, with their content."""
    tokens: int
    stored_messages: int
    """The number of messages of the conversation."""
    context_tokens: int


class Neighbours(Struct, frozen=True):
    """A message and its neighbours, in order."""

    id: str
    conversation: int
    key: str
    messages: tuple[ListedMessage, ...]


class ShownFile(Struct, frozen=True):
    """A stored file, and the conversations and messages that refer to it."""

    file: StoredFile
    conversations: tuple[Relative, ...]
    messages: tuple[str, ...]
    """The ids of messages that refer to it, the oldest first."""
    more: bool
    """True if there are more."""
    available: bool
    """True if its bytes can be read."""


class Nearest(Struct, frozen=True):
    """Suggestions for a name that does not exist."""

    names: tuple[str, ...] = ()
    note: str = ""
    """A sentence about the existing names."""
