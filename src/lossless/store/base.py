"""The storage contract on one screen: what a database must do for the engine.

A store belongs to one owner: whatever another owner keeps does not exist for it. Reads run on their
own; writes happen inside `transaction()`, which is all or nothing and never open while a model thinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

SPAN = 1_000_000_000
"""How many ids a conversation has. A message's id is conversation * SPAN + seq."""


class ConversationRow(Struct, frozen=True):
    id: int
    key: str
    active: bool
    session: str | None
    next_seq: int
    context_tokens: int
    created_at: int
    updated_at: int

    @property
    def messages(self) -> int:
        """How many messages it holds: seqs have no gaps."""
        return self.next_seq - 1


class NewMessage(Struct, frozen=True, gc=False):
    """A message as its columns, before it has a place."""

    role: str
    text: str
    parts: str | None
    meta: str | None
    tokens: int
    digest: bytes
    at: int | None
    created_at: int
    event_id: str | None
    outside: str | None


class MessageRow(NewMessage, frozen=True, gc=False):
    """A message as its columns, with its place."""

    seq: int


MESSAGE, USER_MESSAGE = -1, -2
"""The depths of items that are messages; a user's are told apart, since a turn starts with them."""


class ItemRow(Struct, frozen=True, gc=False):
    """One entry of the ordered view; a message's seq is its ordinal."""

    ordinal: int
    summary_id: int | None
    tokens: int
    depth: int

    @property
    def is_message(self) -> bool:
        return self.depth < 0

    @property
    def is_user(self) -> bool:
        return self.depth == USER_MESSAGE


class NewSummary(Struct, frozen=True, gc=False):
    """A summary as its columns, before it has a place."""

    public_id: str
    depth: int
    text: str
    tokens: int
    earliest_at: int | None
    latest_at: int | None
    descendants: int
    source_tokens: int
    file_ids: str
    model: str
    level: str
    prompt_version: str | None
    faithful: float | None
    created_at: int


class SummaryRow(NewSummary, frozen=True, gc=False):
    """A summary as its columns, with its place."""

    id: int
    revision: int


class KnownEvent(Struct, frozen=True):
    """What is stored under an event id: enough to tell a copy from a different message."""

    seq: int
    role: str
    parts: str | None
    digest: bytes


class FileRow(Struct, frozen=True):
    id: str
    sha256: str
    name: str | None
    mime: str | None
    bytes: int
    lines: int | None
    summary: str
    created_at: int


class Match(Struct, frozen=True):
    """A message that a search found; a higher score is a better match."""

    conversation_id: int
    seq: int
    score: float


class Store(Protocol):
    """Everything the engine asks of a database. `tests/store/test_contract.py` says what each must do."""

    owner: str
    location: str
    """Where it is, fit to be shown: no password in it."""

    def transaction(self) -> AbstractContextManager[None]:
        """One write transaction for this thread: committed whole on leaving, rolled back on any error."""

    def close(self) -> None: ...

    # conversations
    def conversation(self, key: str) -> ConversationRow | None:
        """The active conversation under a key."""

    def conversations(self) -> list[ConversationRow]:
        """All of this owner's conversations, the newest activity first."""

    def lock_conversation(self, key: str, session: str | None, now: int) -> ConversationRow:
        """In a transaction: the active conversation under a key, made if need be, held against other writers."""

    # messages
    def known_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]: ...

    def append(self, conversation: ConversationRow, rows: Sequence[NewMessage], now: int) -> None:
        """In a transaction: the rows from `conversation.next_seq` on, their words in the index, their items."""

    def keep_copy(self, conversation_id: int, seq: int, row: NewMessage) -> bool:
        """In a transaction: another text under a known event id. False if this very text was kept already."""

    def messages(self, conversation_id: int, *, after: int = 0, limit: int | None = None) -> list[MessageRow]:
        """Messages by seq, those after `after` first."""

    def messages_at(self, conversation_id: int, seqs: Sequence[int]) -> list[MessageRow]:
        """These messages, by seq."""

    def digests(self, conversation_id: int, *, after: int = 0) -> list[bytes]: ...

    # the ordered view
    def items(self, conversation_id: int) -> list[ItemRow]: ...

    def context_messages(self, conversation_id: int) -> list[MessageRow]:
        """The messages among the items, in one query."""

    def replace(self, conversation: ConversationRow, items: Sequence[ItemRow], summary: NewSummary) -> ItemRow:
        """Put a summary in the place of exactly these items, in one transaction; `ContextMoved` if they changed."""

    # summaries
    def summaries(self, conversation_id: int, ids: Sequence[int] | None = None) -> list[SummaryRow]:
        """These summaries, or all of a conversation, in the order they were made."""

    def sources(self, conversation_id: int, summary_id: int) -> tuple[list[int], list[int]]:
        """What a summary was made from: the seqs of messages, or the ids of summaries, in order."""

    # cursors
    def cursor(self, conversation_id: int, source: str) -> Any | None:
        """How far a source was read: the JSON value last set, or None."""

    def set_cursor(self, conversation_id: int, source: str, state: Any, now: int) -> None: ...

    # guards
    def guard(self, name: str) -> Any | None:
        """What a guard remembers: the JSON value last set, or None."""

    def set_guard(self, name: str, state: Any, now: int) -> None:
        """In a transaction."""

    # files
    def add_file(self, conversation_id: int, row: FileRow) -> None:
        """In a transaction: a payload's row. The same id again changes nothing."""

    def file(self, conversation_id: int, file_id: str) -> FileRow | None: ...

    def files(self, conversation_id: int) -> list[FileRow]:
        """The payloads of a conversation, oldest first."""

    def hold_files(self, *, alone: bool) -> None:
        """In a transaction: keep the files directory as it is; with `alone`, nobody else may hold it until the end."""

    def file_is_used(self, sha256: str) -> bool:
        """Whether any row, of any owner, refers to these bytes."""

    # search
    def search(self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20) -> list[Match]:
        """Messages that hold any term of the question, the best match first."""

    def check_search(self) -> list[str]:
        """What is wrong with the search index, as sentences; empty when it agrees with the messages."""

    def rebuild_search(self) -> int:
        """Make the search index anew from the messages; how many there are."""

    # the whole
    def size(self) -> int:
        """Bytes on disk."""

    def integrity(self) -> list[str]:
        """What is wrong with the database itself, as sentences."""
