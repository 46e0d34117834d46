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
    """One page of a list. It is a sequence that knows whether there are more."""

    next_cursor: str | None
    """Goes on behind the last of them; None at the end."""

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
    """Of the newest activity."""
    first_message_at: datetime | None
    last_message_at: datetime | None
    messages: int
    message_tokens: int
    """Of the messages in the context, below its summaries or set aside by name; not of those kept out of every context."""
    summaries: int
    max_depth: int | None
    """Of its summaries, if it has any."""
    context_items: int
    context_tokens: int


class Relative(Struct, frozen=True):
    """A conversation that another one is related to."""

    id: int
    key: str
    active: bool
    archive_cause: str | None
    messages: int
    updated_at: datetime


class Followed(Struct, frozen=True):
    """A transcript, and how far it was read."""

    path: str
    format: str
    session: str
    offset: int
    """The bytes that were read."""
    size: int | None
    """Of the file when it was read to its end; None if it was not yet."""
    read_at: datetime | None


class ContextFigures(Struct, frozen=True):
    """A context by what stands in it, and the newest messages of it, which are never summarised."""

    messages: int
    message_tokens: int
    summaries: int
    summary_tokens: int
    tail_messages: int
    tail_tokens: int


class ShownConversation(Struct, frozen=True):
    """All there is to know about a conversation, but its words."""

    conversation: ListedConversation
    sessions: tuple[str, ...]
    """Every session id it was known by, oldest first."""
    renewed_at: datetime | None
    """When its context was last begun anew."""
    context: ContextFigures
    depths: tuple[DepthFigures, ...]
    detached: dict[str, int]
    """How many items left the context, by cause."""
    debt: Debt | None
    transcripts: tuple[Followed, ...]
    files: int
    file_bytes: int
    pins: tuple[Pin, ...]
    family: tuple[Relative, ...]
    """The other conversations that were ever under its key."""
    continues: int | None
    """The id of the one that was archived for it."""
    parent: Relative | None
    """The conversation whose sub-agent this is."""
    sub_agents: tuple[Relative, ...]


class Whereabouts(Struct, frozen=True):
    """Where a message is."""

    state: Literal["context", "summarised", "detached", "outside", "tombstone", "nowhere"]
    """`outside`: no model is to see it. `tombstone`: only its place is left. `nowhere`: a fault, which `lcm doctor` tells."""
    why: str = ""
    """The cause or the reason, where it is in no context."""
    summaries: tuple[str, ...] = ()
    """The leaf that tells it, and what was made from that, up to the one that stands in the context or left it."""


class ListedMessage(Struct, frozen=True):
    """One message of a list."""

    id: str
    seq: int
    role: str
    tokens: int
    at: datetime
    where: Whereabouts
    files: tuple[str, ...]
    """The files that it refers to."""
    preview: str
    """The beginning of what it says, on one line."""
    content: str | None = None
    """All that it says, where that was asked for."""


class ShownMessage(Struct, frozen=True):
    """A message with all its parts, and what is known about it."""

    id: str
    conversation: int
    key: str
    stored: StoredMessage
    where: Whereabouts
    files: tuple[str, ...]
    aliases: tuple[str, ...]
    """Further event ids of it."""
    copies: tuple[Message, ...]
    """Other texts that came under its event id."""
    lost_files: tuple[str, ...] = ()
    """Where all of it was asked for: the files whose bytes cannot be read any more. References stand for everything then."""


class MessageTail(Struct, frozen=True):
    """The newest messages that stand in a context themselves."""

    conversation: int
    key: str
    count: int
    """How many were asked for, and how many tokens they may come to."""
    max_tokens: int | None
    messages: tuple[ListedMessage, ...]
    """In order, with their content."""
    tokens: int
    stored_messages: int
    """What the whole conversation holds."""
    context_tokens: int


class Neighbours(Struct, frozen=True):
    """A message and those around it, in order."""

    id: str
    conversation: int
    key: str
    messages: tuple[ListedMessage, ...]


class ShownFile(Struct, frozen=True):
    """A large content, who has it and who speaks of it."""

    file: StoredFile
    conversations: tuple[Relative, ...]
    messages: tuple[str, ...]
    """The ids of messages that refer to it, the oldest first."""
    more: bool
    """Whether there are further ones."""
    available: bool
    """Whether its bytes are where they were put."""


class Nearest(Struct, frozen=True):
    """What somebody may have meant who named something that is not there."""

    names: tuple[str, ...] = ()
    note: str = ""
    """A sentence about what there is."""
