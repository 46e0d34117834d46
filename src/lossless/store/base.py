"""The storage contract on one screen: what a database must do for the engine.

A store belongs to one owner: whatever another owner keeps does not exist for it. Reads run on their
own; writes happen inside `transaction()`, which is all or nothing and never open while a model thinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

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


class DebtRow(Struct, frozen=True):
    """What is owed to a conversation, and who is at it."""

    conversation_id: int
    key: str
    pending: bool
    window_tokens: int
    overhead: int
    model: str | None
    requested_at: int
    attempts: int
    next_at: int
    worker: str | None
    lease_until: int | None
    stop: str | None
    stop_seq: int | None
    failure: str | None
    revision: int


class NewManifest(Struct, frozen=True):
    """What one assembly showed, before it has a place."""

    at: int
    window_tokens: int
    tokens: int
    prefix: str
    reason: str
    shown: bytes


class Manifest(NewManifest, frozen=True):
    """What one assembly showed."""

    turn: int


class PinRow(Struct, frozen=True):
    """A text that an operator wants a model to see always."""

    id: str
    message_id: int | None
    text: str
    tokens: int
    created_at: int


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


TextKind: TypeAlias = Literal["message", "summary"]


class TextRow(Struct, frozen=True, gc=False):
    """The words of a message (with its role) or of a summary (with its public id and depth), and their time."""

    id: int
    conversation_id: int
    at: int
    text: str
    role: str | None
    public_id: str | None
    depth: int | None


class Match(Struct, frozen=True):
    """A message that a search found; a higher score is a better match."""

    conversation_id: int
    seq: int
    score: float


class SummaryMatch(Struct, frozen=True):
    """A summary that a search found; a higher score is a better match."""

    conversation_id: int
    summary_id: int
    score: float


class BranchRow(Struct, frozen=True, gc=False):
    """A summary's place among others and what it costs, without its text."""

    id: int
    public_id: str
    depth: int
    tokens: int
    descendants: int
    source_tokens: int
    earliest_at: int | None
    latest_at: int | None


class GrantRow(Struct, frozen=True):
    """Leave to read some conversations, up to a number of tokens and for a while."""

    id: str
    origin: str
    request_id: str
    max_tokens: int
    used_tokens: int
    max_depth: int
    created_at: int
    expires_at: int
    revoked_at: int | None
    conversation_ids: tuple[int, ...] = ()


class ReadRow(Struct, frozen=True):
    """One line of a grant's ledger."""

    verb: str
    what: str
    tokens: int
    at: int


class Store(Protocol):
    """Everything the engine asks of a database. `tests/store/test_contract.py` says what each must do."""

    owner: str
    location: str
    """Where it is, fit to be shown: no password in it."""
    read_only: bool

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

    def newest_items(self, conversation_id: int, limit: int) -> list[ItemRow]:
        """The last items of the view, in their order."""

    def context_messages(self, conversation_id: int, *, first: int = 0) -> list[MessageRow]:
        """The messages among the items from an ordinal on, in one query."""

    def replace(self, conversation: ConversationRow, items: Sequence[ItemRow], summary: NewSummary) -> ItemRow:
        """Put a summary in the place of exactly these items, in one transaction; `ContextMoved` if they changed."""

    # summaries
    def summaries(self, conversation_id: int, ids: Sequence[int] | None = None) -> list[SummaryRow]:
        """These summaries, or all of a conversation, in the order they were made."""

    def sources(self, conversation_id: int, summary_id: int) -> tuple[list[int], list[int]]:
        """What a summary was made from: the seqs of messages, or the ids of summaries, in order."""

    def source_ids(self, conversation_id: int, ids: Sequence[int]) -> dict[int, list[str]]:
        """The public ids of the summaries that each of these was made from, in order."""

    def revisions(self, conversation_id: int, ids: Sequence[int]) -> dict[tuple[int, int], str]:
        """The earlier texts of these summaries, by id and revision."""

    def unsettled(self, conversation_id: int, *, tries: int, limit: int) -> list[SummaryRow]:
        """Summaries to be made anew (no model wrote them, or a source changed since), the shallowest and oldest first."""

    def before(self, conversation_id: int, summary_id: int, depth: int) -> list[SummaryRow]:
        """The two summaries of a depth that were made last before this one, the older first."""

    def revise(self, conversation_id: int, old: SummaryRow, new: NewSummary) -> bool:
        """Another text for a summary, in one transaction: the old one is kept, its consumers are stale, the context follows.

        False if the summary is no longer what `old` says.
        """

    def note_try(self, conversation_id: int, summary_id: int) -> None:
        """A summary could not be made anew."""

    # recall
    def family(self, key: str) -> list[ConversationRow]:
        """Every conversation that was ever under a key: the active one first, then the newest."""

    def summary_named(self, public_id: str) -> tuple[int, SummaryRow] | None:
        """A summary of this owner by the id people see, and the conversation it belongs to."""

    def consumers(self, conversation_id: int, summary_id: int) -> list[str]:
        """The public ids of the summaries that were made from this one, in the order they were made."""

    def links_below(self, conversation_id: int, summary_id: int) -> list[tuple[int, int]]:
        """Which summary was made from which, from this one down: pairs of ids, sources in their order."""

    def branches(self, conversation_id: int, ids: Sequence[int]) -> dict[int, BranchRow]: ...

    def leaves_over(self, conversation_id: int, seqs: Sequence[int]) -> dict[int, str]:
        """The public id of the leaf that was made from a message, for those of these that have one."""

    def places(
        self,
        kind: TextKind,
        conversation_ids: Sequence[int],
        *,
        among: Sequence[int] | None = None,
        holding: Sequence[tuple[Sequence[str], bool]] = (),
        since: int | None = None,
        before: int | None = None,
        below: tuple[int, int] | None = None,
        limit: int,
    ) -> list[tuple[int, int]]:
        """Time and id of texts, the newest first: those after the place `below`, among these ids if any are given.

        `holding` leaves out texts that hold none of some literals, each time; with True the literals are in lower case
        and found in either. Some others may stay. A summary's time is that of its newest source.
        """

    def texts(self, kind: TextKind, ids: Sequence[int]) -> list[TextRow]:
        """The texts of these ids, in no order."""

    # vectors
    def without_vector(self, conversation_id: int, model: str, *, after: int = 0, limit: int) -> list[tuple[int, str]]:
        """Ids and texts of messages behind a seq that have no vector of a model, the newest first."""

    def add_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """In a transaction: vectors of messages by their ids, in the place of any they had."""

    def vectors(self, model: str, ids: Sequence[int]) -> dict[int, bytes]:
        """The vectors of a model, of those of these messages that have one."""

    def vectors_in(
        self,
        model: str,
        conversation_ids: Sequence[int],
        *,
        since: int | None = None,
        before: int | None = None,
        below: int | None = None,
        limit: int,
    ) -> list[tuple[int, bytes]]:
        """Ids of messages with their vectors, the highest id first: those below an id, within times."""

    # grants
    def add_grant(self, row: GrantRow) -> None:
        """In a transaction. Conversations of another owner are no part of it."""

    def grant(self, grant_id: str) -> GrantRow | None: ...

    def reserve(self, grant_id: str, tokens: int, now: int) -> bool:
        """Hold so many tokens of a grant, in one statement; False if it is spent, over or revoked."""

    def spend(self, grant_id: str, unused: int, reads: Sequence[ReadRow]) -> None:
        """Give back what a reservation did not need, and write down what was read."""

    def reads(self, grant_id: str) -> list[ReadRow]: ...

    def revoke(self, grant_id: str, now: int) -> bool:
        """End a grant; False if there is no such grant."""

    def forget_grants(self, ended_before: int) -> int:
        """Remove grants that were over by then, and their ledgers; how many."""

    # debts
    def owe(self, conversation_id: int, window: int, overhead: int, model: str | None, now: int) -> None:
        """In a transaction: compaction is owed for a window. There is one debt per conversation, the newest wins."""

    def debt(self, conversation_id: int) -> DebtRow | None: ...

    def claim(self, worker: str, *, now: int, idle_before: int, lease_until: int, tries: int) -> DebtRow | None:
        """The oldest debt that may be worked on, held by this worker until its lease ends: of a conversation without an
        ingest since `idle_before`. With `tries`, summaries to be made anew that failed less often count as debts too."""

    def renew(self, debt: DebtRow, lease_until: int) -> bool:
        """Hold a debt for longer; False if it is no longer this worker's."""

    def settle(
        self, debt: DebtRow, *, pending: bool, attempts: int, next_at: int, stop: str, failure: str | None
    ) -> None:
        """Give a debt back. If it was owed anew meanwhile it stays pending."""

    def is_owed(self) -> bool:
        """Whether any debt of this owner is pending."""

    # what was shown, and what always is
    def add_manifests(self, conversation_id: int, manifests: Sequence[NewManifest], keep: int) -> None:
        """In a transaction: the next assemblies of a conversation; only the last `keep` stay."""

    def manifests(self, conversation_id: int, *, until: int | None, turn: int | None, limit: int) -> list[Manifest]:
        """Assemblies up to a time or a turn, the newest first."""

    def add_pin(self, conversation_id: int, pin: PinRow) -> None:
        """In a transaction. The same id again changes nothing."""

    def remove_pin(self, conversation_id: int, pin_id: str) -> bool:
        """In a transaction."""

    def pins(self, conversation_id: int) -> list[PinRow]:
        """Oldest first."""

    # cursors
    def cursor(self, conversation_id: int, source: str) -> Any | None:
        """How far a source was read: the JSON value last set, or None."""

    def set_cursor(self, conversation_id: int, source: str, state: Any, now: int) -> None: ...

    # guards
    def guard(self, name: str, *, hold: bool = False) -> Any | None:
        """What a guard remembers: the JSON value last set, or None; with `hold`, kept from others in this transaction."""

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
    def search(
        self,
        question: str,
        *,
        conversation_ids: Sequence[int] | None = None,
        limit: int = 20,
        since: int | None = None,
        before: int | None = None,
        roles: Sequence[str] | None = None,
    ) -> list[Match]:
        """Messages that answer the question, the best match first, the newest of equals.

        Words without a sentence around them find messages that hold some of them; a sentence also finds the
        turns beside those. Times are microseconds, of the message's own time if it has one.
        """

    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]:
        """Summaries that hold any term of the question, the best match first."""

    def check_search(self) -> list[str]:
        """What is wrong with the search index, as sentences; empty when it agrees with the messages."""

    def rebuild_search(self) -> int:
        """Make the search index anew from the messages; how many there are."""

    # the whole
    def size(self) -> int:
        """Bytes on disk."""

    def integrity(self) -> list[str]:
        """What is wrong with the database itself, as sentences."""
