"""The storage contract on one screen: what a database must do for the engine.

A store belongs to one owner: whatever another owner keeps does not exist for it. Reads run on their
own; writes happen inside `transaction()`, which is all or nothing and never open while a model thinks.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
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
    parent: int | None = None
    """The conversation whose sub-agent this is."""
    continues: int | None = None
    """The one that was archived for it."""
    archived_at: int | None = None
    archive_cause: str | None = None
    title: str | None = None
    renewed_at: int | None = None
    """The last time its context was begun anew."""
    transcribed: bool = False
    """A transcript is read into it."""

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
    origin: str | None = None
    """The summary of another conversation that it is a copy of."""


class PlacedSummary(SummaryRow, frozen=True, gc=False):
    """A summary and its place, for somebody who looks at it; its text may be only the beginning."""

    stale: bool = False
    sources: int = 0
    """How many messages, or summaries, it was made from."""
    consumers: int = 0
    shown: bool = False
    """It stands in the view."""
    cause: str | None = None
    """Why it left the view, if it did."""


class Run(Struct, frozen=True, gc=False):
    """A summary of the view, or messages that stand together in it: from which ordinal to which, how many, what they cost."""

    summary_id: int | None
    first: int
    last: int
    count: int
    tokens: int


class Aside(Run, frozen=True, gc=False):
    """The same of what left the view: one summary, or all messages that left for one cause."""

    cause: str
    at: int


class SourceMessage(Struct, frozen=True, gc=False):
    """A message that a leaf was made from, and the beginning of its words."""

    seq: int
    role: str
    tokens: int
    at: int
    text: str


class RevisionRow(Struct, frozen=True, gc=False):
    """An earlier text of a summary."""

    revision: int
    text: str
    tokens: int
    model: str
    level: str
    prompt_version: str | None
    faithful: float | None
    created_at: int


Links: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""The ids of the calls a message makes, and of those it brings the results of."""
TextAt: TypeAlias = tuple[int, int, int]
"""Which text a summary has: its id, the revision, and when that was made, since after an undo a number is given again."""
Named: TypeAlias = Literal["summary", "file", "operation"]
"""What has an id that somebody may mistype."""


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
    uncovered: int = 0
    """Tokens of what was neither shown nor covered by a summary that was."""


class Manifest(NewManifest, frozen=True, kw_only=True):
    """What one assembly showed."""

    turn: int


class UncoveredRow(Struct, frozen=True):
    """A conversation whose newest assembly left out what no summary covers."""

    key: str
    tokens: int
    window_tokens: int


class PinRow(Struct, frozen=True):
    """A text that an operator wants a model to see always."""

    id: str
    message_id: int | None
    text: str
    tokens: int
    created_at: int


class Heap(Struct, frozen=True):
    """What contexts hold: their items, the tokens of messages in them and set aside by name, and those below their summaries."""

    items: int
    message_tokens: int
    detached_tokens: int
    shown_source_tokens: int


class DepthRow(Struct, frozen=True):
    """The summaries of one depth, and how many of them are flawed in which way."""

    depth: int
    summaries: int
    tokens: int
    source_tokens: int
    provisional: int
    cut: int
    unfaithful: int
    stale: int
    in_vain: int


class Glance(Struct, frozen=True, gc=False):
    """A message in a count: who said how much, and when it was said and stored."""

    id: int
    role: str
    tokens: int
    at: int
    created_at: int


class WrittenRow(Struct, frozen=True):
    """What a model wrote: texts of summaries, earlier ones included, and the tokens it read and wrote for them."""

    model: str
    texts: int
    tokens_read: int
    tokens_written: int


class KnownEvent(Struct, frozen=True):
    """What is stored under an event id: enough to tell a copy from a different message."""

    seq: int
    role: str
    parts: str | None
    digest: bytes
    outside: str | None = None

    @property
    def is_buried(self) -> bool:
        return self.outside in BURIED


BURIED = ("forgotten", "heartbeat")
"""Why of a message only its place is left."""


class Kept(Struct, frozen=True):
    """Where some words stand: the names of this owner's rows, a few of each table, and how many rows with everybody's."""

    names: tuple[str, ...]
    count: int


class KeptCopy(Struct, frozen=True):
    """A copy of the database, or of rows of it: since when it is there, if that is known, and its bytes."""

    name: str
    at: int | None
    bytes: int


class OverRows(Struct, frozen=True):
    """How many rows are over: grants, manifests of archived conversations, leases of workers that are gone."""

    grants: int = 0
    manifests: int = 0
    leases: int = 0


class FileRow(Struct, frozen=True):
    id: str
    sha256: str
    name: str | None
    mime: str | None
    bytes: int
    lines: int | None
    summary: str
    created_at: int


class Figures(Struct, frozen=True):
    """A conversation in numbers that its own row does not hold."""

    items: int
    """Of the view; `summaries_shown` of them are summaries."""
    summaries_shown: int
    raw_tokens: int
    """Of the messages in the view."""
    message_tokens: int
    """Of all messages in the view, below its summaries, or listed beside it."""
    summaries: int
    max_depth: int | None


class OpeningRow(Struct, frozen=True):
    """The beginning and the end of a conversation, for its title and times."""

    first_at: int | None = None
    """The time of its first message; None while it has no messages."""
    last_at: int | None = None
    texts: tuple[str, ...] = ()
    """The beginnings of its first user messages."""
    mark: Any = None
    """The newest cursor whose name starts with the given prefix."""


class PlaceRow(Struct, frozen=True, gc=False):
    """Where a message stands itself, or a summary that tells it: in the view, or out of it for a cause."""

    seq: int
    summary: str | None
    depth: int
    shown: bool
    cause: str | None


class CopyRow(Struct, frozen=True, gc=False):
    """Another text that came under a message's event id."""

    text: str
    parts: str | None
    meta: str | None
    at: int | None
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


Unscrubbed: TypeAlias = Literal["", "read", "held"]
"""Why deleted bytes may be left: another session reads an older state, or to overwrite all would keep others waiting."""
Rows: TypeAlias = Generator[tuple[Any, ...], None, None]
"""Rows one by one; close it if not all are wanted."""


class Shape(Struct, frozen=True):
    """A table as it is read and written whole."""

    table: str
    columns: tuple[str, ...]
    """All that are not derived from others."""
    key: tuple[str, ...]
    """Its primary key; every column, if it has none."""
    texts: frozenset[str]


class Measure(Struct, frozen=True, gc=False):
    """What a message counts for, without its words."""

    seq: int
    tokens: int
    at: int
    is_user: bool
    is_shown: bool


class TransplantRow(Struct, frozen=True, gc=False):
    """Messages that were copied from another conversation: their seqs, and the place of the first in the order, 0 or less."""

    first_seq: int
    last_seq: int
    place: int


class OperationRow(Struct, frozen=True):
    """Something that was done to old data, or is to be."""

    id: str
    conversation_id: int
    kind: str
    at: int
    status: str
    plan: str
    summary: str


class Touched(Struct, frozen=True):
    """Which rows of a conversation an operation may change in one transaction."""

    conversation_id: int
    summaries: tuple[int, ...] = ()
    """Their texts; whatever was made from them becomes stale."""
    links: bool = False
    """What they were made from, too."""
    ordinals: tuple[int, ...] = ()
    """Places of the view, and what is listed beside it there."""
    fresh: bool = False
    """Whatever is added to the conversation."""


class Flaw(Struct, frozen=True):
    """A way in which a conversation breaks the promise: how often, and from where to where (seqs, or ids of summaries)."""

    name: str
    count: int
    first: str | None
    last: str | None


class Step(Struct, frozen=True, gc=False):
    """One change that a doctor makes to derived data: to a row, or to all of an index (`rebuild`, `make`, `recount`)."""

    action: str
    table: str
    key: dict[str, Any] = {}
    values: dict[str, Any] = {}


class FaultRow(Struct, frozen=True, gc=False):
    """Something that does not agree with the rest: where, and what would put it right, if anything does."""

    conversation: int | None
    what: str
    step: Step | None = None


class NodeRow(Struct, frozen=True, gc=False):
    """A summary as a node of the graph, without its text."""

    id: int
    conversation_id: int
    public_id: str
    depth: int
    tokens: int
    earliest_at: int | None
    latest_at: int | None
    descendants: int
    source_tokens: int
    source_hash: str | None
    placed: bool
    """In the context, or listed beside it."""


class LeafRow(Struct, frozen=True, gc=False):
    """What the messages of a leaf come to; `strays` are those of other conversations."""

    summary_id: int
    count: int
    tokens: int
    earliest_at: int
    latest_at: int
    strays: int


class LedgerRow(Struct, frozen=True):
    """How many messages are kept in a way (`context`, `below`, `detached`, `outside`, `tombstone`, `missing`) and for a reason.

    `times` is how often they are reached, which is once each. `item` counts the items of the context.
    """

    conversation_id: int
    way: str
    why: str | None
    messages: int
    times: int


class Dump(Struct, frozen=True):
    """A whole database as one file: in which form, and made by what; without a form if it could not be made, and why."""

    form: str
    by: str


class Site(Protocol):
    """Where a database is, or will be, as a whole: nobody need have opened it."""

    form: str
    """Which dumps `load` takes."""
    beside: Path
    """What the name of a draft may begin with, so that `load` need not copy it."""

    def is_taken(self) -> bool:
        """Whether there is a database."""

    def cleared(self, now: datetime, *, replaces: bool) -> AbstractContextManager[tuple[str, ...]]:
        """Keep what is there aside, and the place for whoever fills it within; where that is.

        `StoreBusy` if somebody has it open, `InvalidInput` unless it `replaces` what is there by now. If anything goes
        wrong within, everything is as it was before.
        """

    def load(self, path: Path, schema: int) -> None:
        """Within: put the database there whose rows a dump of a schema holds, whole or not at all. A file is moved."""

    def filling(self) -> AbstractContextManager[Store]:
        """Within, in its stead: a new database, which takes the place once it was left without an error."""


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

    def conversation_by_id(self, conversation_id: int) -> ConversationRow | None: ...

    def lock_conversation(self, key: str, session: str | None, now: int) -> ConversationRow:
        """In a transaction: the active conversation under a key, made if need be, held against other writers.

        Each session of a scheduled job (`is_scheduled`) is a conversation of its own, and finds its own again, archived
        or not; a new one archives the one before.
        """

    def hold(self, conversation_id: int) -> ConversationRow:
        """In a transaction: a conversation, held against other writers; `NotFound` if it is not this owner's."""

    def member(self, key: str, session: str) -> ConversationRow | None:
        """Of the conversations ever under a key, the one that has had this session."""

    def start(
        self,
        key: str,
        session: str | None,
        now: int,
        *,
        continues: int | None = None,
        parent: int | None = None,
        active: bool = True,
        cause: str | None = None,
    ) -> ConversationRow:
        """In a transaction: a fresh conversation under a key, held. The active one is archived first, for a cause.

        With `active=False` the fresh one is archived from the beginning, for this cause, and no other is touched.
        """

    def archive(self, conversation_id: int, cause: str | None, now: int) -> bool:
        """In a transaction; False if it was not active."""

    def set_parent(self, conversation_id: int, parent_id: int | None) -> None:
        """In a transaction: whose sub-agent a conversation is."""

    def set_title(self, conversation_id: int, title: str | None) -> None:
        """In a transaction."""

    def set_renewed(self, conversation_id: int, now: int | None) -> None:
        """In a transaction: its context began anew."""

    def set_transcribed(self, conversation_id: int) -> None:
        """In a transaction: a transcript is read into it."""

    def members(self, key: str) -> list[ConversationRow]:
        """Every conversation that was ever under a key, the active one first, then the newest."""

    def bring_back(self, conversation_id: int, cause: str, now: int) -> None:
        """In a transaction: an archived conversation is the active one of its key again; who was is archived for the cause."""

    def sessions(self, conversation_id: int) -> list[str]:
        """Every session id a conversation was known by, oldest first."""

    # messages
    def known_events(
        self, conversation_id: int, event_ids: Sequence[str], *, aliases: bool = False
    ) -> dict[str, KnownEvent]:
        """What is stored under these event ids; with `aliases`, under further ids of messages too."""

    def add_aliases(self, conversation_id: int, names: Mapping[str, int]) -> None:
        """In a transaction: further event ids of messages, by seq. One that is known already stays as it is."""

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

    def oldest_items(self, conversation_id: int, limit: int) -> list[ItemRow]:
        """Return the first items of the view, in their order."""

    def links(self, conversation_id: int, first: int, last: int) -> dict[int, Links]:
        """Return the tool calls and results among the messages from `first` to `last`, by seq."""

    def newest_system(self, conversation_id: int) -> ItemRow | None:
        """Return the newest message of role `system` or `developer`, if it is in the context as it is."""

    def context_messages(self, conversation_id: int, *, first: int = 0) -> list[MessageRow]:
        """The messages among the items from an ordinal on, in one query."""

    def replace(
        self,
        conversation: ConversationRow,
        items: Sequence[ItemRow],
        summary: NewSummary,
        revisions: Sequence[TextAt] = (),
        seal: str | None = None,
    ) -> ItemRow:
        """Put a summary in the place of exactly these items, in one transaction.

        `ContextMoved` if they changed, or a summary that was in the prompt has another text than these. `seal` is the witness
        of the messages, where they were read already.
        """

    def has_texts(self, texts: Sequence[TextAt]) -> bool:
        """Whether each of these summaries is there and still has this text."""

    # what left the view
    def detach(self, conversation_id: int, items: Sequence[ItemRow], cause: str, now: int) -> int:
        """In a transaction: out of the view and listed beside it, those of these items that are still there; how many."""

    def attach(self, conversation_id: int, ordinals: Sequence[int]) -> int:
        """In a transaction: what was detached back into the view, where no item stands now; how many."""

    def detached(self, conversation_id: int) -> list[tuple[ItemRow, str, int]]:
        """What was detached, by ordinal, with the cause and the time."""

    def covered_until(self, conversation_id: int) -> int:
        """The last seq that a summary was made from, or 0."""

    def reveal(self, conversation_id: int, seqs: Sequence[int], reason: str) -> int:
        """In a transaction: messages that were kept out of the view for a reason come into it; how many."""

    def bury(self, conversation_id: int, seqs: Sequence[int], reason: str, now: int) -> list[int]:
        """In a transaction: the words of messages gone for good, `forgotten` or a `heartbeat`; only their places stay.

        Their event ids still count as known. A message that a summary was made from is left as it is: the answer is the
        seqs of those that were buried.
        """

    # erasing
    def random_key(self, name: str, now: int) -> str:
        """A random text of this owner's, made when it is first asked for, and the same ever after."""

    def erasing(self) -> AbstractContextManager[None]:
        """A transaction whose deleted words are overwritten, as far as the database does that."""

    def copied_on(self) -> list[tuple[int, bytes]]:
        """The ids and digests of messages that were copied from other conversations of this owner, and are not forgotten."""

    def beside(self, conversation_id: int, seqs: Sequence[int]) -> tuple[int, int]:
        """How many vectors, and how many other texts under their event ids, these messages have."""

    def unlink(self, conversation_id: int, summary_id: int, seqs: Sequence[int]) -> None:
        """In a transaction: a summary was not made from these messages any more."""

    def reword(self, conversation_id: int, old: SummaryRow, new: NewSummary) -> None:
        """In a transaction: another text for a summary, and no trace of those before; the context follows."""

    def drop_summary(self, conversation_id: int, summary_id: int) -> None:
        """In a transaction: a summary of which nothing is left, gone from wherever it stands."""

    def clear(self, conversation_id: int, seqs: Sequence[int], *, title: bool) -> None:
        """In a transaction: what else tells of buried messages: digests that are not needed, failures, operations, searches
        in the ledgers of grants, a title."""

    def remove_files(self, conversation_id: int, ids: Sequence[str]) -> None:
        """In a transaction: remove rows of files, and their ids from summaries; the bytes are the files directory's."""

    def scrub(self) -> Unscrubbed:
        """Outside a transaction: what was deleted leaves the search index, free pages and logs too, as far as they are ours.

        Nobody waits long for it. Unless the answer is empty it is to be done again.
        """

    def remains(self, needles: Sequence[str]) -> list[str] | None:
        """Those of these words, which no row holds, that are still among the bytes of the database; None if these are not ours to read."""

    def holding(self, needles: Sequence[str]) -> dict[str, Kept]:
        """Which of these words rows still hold, as text or as JSON writes it, and where."""

    def kept_copies(self) -> list[str]:
        """The copies of this database, or of rows of it, that were kept before migrations and repairs."""

    def backups(self) -> list[str]:
        """The backups that lie beside it under our names, and what a restore has put aside there."""

    def drop_copies(self) -> None:
        """Remove all of those."""

    beyond: tuple[str, ...]
    """Where words may still be that we cannot reach, as sentences."""

    # what nobody needs any more
    def silent(self, before: int, *, active: bool) -> list[tuple[ConversationRow, int]]:
        """Conversations in which nothing was said since a time, with the time of the last message, or of their beginning.

        The oldest come first. Without `active` only archived ones are meant.
        """

    def hold_all(self, ids: Sequence[int]) -> list[ConversationRow]:
        """In a transaction: those of these conversations that are there, held against other writers."""

    def tallies(self, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """What belongs to each of these conversations and leaves no trace in its row: another answer, and something came."""

    def referring(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Which conversation hangs from one of these: pairs, the one that refers first."""

    def namesakes(self) -> list[str]:
        """Other databases in the same directory that would keep their payloads under the same name."""

    def over(self, now: int) -> OverRows:
        """What `clear_over` would remove."""

    def clear_over(self, now: int) -> OverRows:
        """Remove rows that are over by now: no message, no summary, nothing that is owed."""

    def used_files(self, names: Sequence[str]) -> set[str]:
        """Those of these contents (SHA-256) that a row of any owner refers to."""

    def copies_kept(self) -> list[KeptCopy]:
        """The copies that `kept_copies` names."""

    def drop_copy(self, name: str) -> None:
        """Remove one of the copies that were kept."""

    def spare(self) -> int:
        """Bytes that the database takes on disk and does not need, as far as they are ours to give back."""

    def give_back(self) -> bool:
        """Outside a transaction: let go of them. False if somebody's reading keeps the log of writes from being emptied."""

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

    # moving in
    def redate(self, conversation_id: int, rows: Sequence[tuple[int, int, str | None]]) -> None:
        """In a transaction: when messages in a row were stored elsewhere, and why they are kept out of the context, if so."""

    def measures(self, conversation_id: int) -> list[Measure]:
        """Every message by seq, without its words."""

    def is_named(self, public_id: str) -> bool:
        """Whether any summary, of any owner, has this id."""

    def add_summary(
        self, conversation_id: int, summary: NewSummary, seqs: Sequence[int], sources: Sequence[int]
    ) -> int:
        """In a transaction: a summary that was made elsewhere, with what it was made from, not in the view yet; its id."""

    def lay_out(
        self, conversation_id: int, items: Sequence[ItemRow], aside: Sequence[tuple[ItemRow, str]], now: int
    ) -> None:
        """In a transaction: the whole view anew, and what is listed beside it with its cause."""

    def settle_in(self, row: ConversationRow) -> bool:
        """In a transaction: title, times and archive of a conversation as this row says; active only if its key is free.

        Whether it is active now.
        """

    def transplants(self, conversation_id: int) -> list[TransplantRow]:
        """What was copied here from other conversations, by seq."""

    def graft(self, conversation_id: int, copied: TransplantRow, items: Sequence[ItemRow], now: int) -> None:
        """In a transaction, for messages and summaries that are there: their seqs are taken, these items come into the view."""

    # operations on old data
    def operation(self, operation_id: str) -> OperationRow | None: ...

    def record(self, conversation_id: int, kind: str, at: int, plan: Any, summary: str, status: str = "applied") -> str:
        """In a transaction: add an operation to the history; return its id."""

    def operations(self, conversation_ids: Sequence[int] | None, limit: int) -> list[OperationRow]:
        """List what was done to some conversations or to all, the newest first."""

    def note_summary(self, operation_id: str, summary_id: int) -> bool:
        """In a transaction: note that an operation made a summary; False if the operation is gone or undone."""

    def summaries_made(self, operation_id: str) -> list[int]:
        """List the summaries that were noted as made by an operation, the newest first."""

    def changed_later(self, operation: OperationRow, table: str, key: str) -> str | None:
        """Return the newest operation that changed a row after this one and is not undone."""

    def later_operation(self, conversation_id: int, operation: OperationRow) -> str | None:
        """Return the newest operation on a conversation that came after this one and is not undone."""

    def set_operation(self, operation_id: str, status: str, summary: str) -> None:
        """In a transaction: how far it is, unless it was undone."""

    def recording(self, operation_id: str, touched: Touched) -> AbstractContextManager[None]:
        """One transaction in which what changes of these rows is written down, so that `undo` leads back.

        `ContextMoved` if the operation was undone meanwhile.
        """

    def revised_by(self, operation_id: str) -> set[int]:
        """The ids of the summaries that an operation gave another text."""

    def source_revisions(self, conversation_id: int, summary_id: int) -> list[TextAt]:
        """The ids of the summaries that a summary was made from, in order, and which text each has now."""

    def unfold(self, conversation_id: int, item: ItemRow, sources: Sequence[ItemRow], now: int) -> bool:
        """In a transaction: a summary leaves the view as `dissolved`, its sources take its place; False if it is gone."""

    def purge(self, conversation_id: int, summary_id: int) -> None:
        """In a transaction: a summary that nothing refers to is removed for good, with its earlier texts."""

    def undo(self, operation_id: str) -> int:
        """Every row that an operation touched as it was before, in one transaction; how many.

        `ContextMoved`, and nothing is changed, if one of them is not what the operation left.
        """

    # the promise
    def flaws(self, conversation_id: int) -> list[Flaw]:
        """How a conversation breaks the promise, in one statement: of one moment, whatever others write."""

    # whether the rows agree (`ids` are conversations of this owner)
    def faults(self, name: str, ids: Sequence[int], now: int) -> list[FaultRow]:
        """The answers to one of the questions of `store.checked`, by conversation."""

    def dangling(self) -> list[FaultRow]:
        """Rows of any owner that refer to one that is not there."""

    def absent(self) -> list[FaultRow]:
        """Tables, columns, views and indexes that migrations made and that are gone."""

    def unsearchable(self) -> list[FaultRow]:
        """Messages and summaries that the search index lacks, or still holds; by their ids, not by their words."""

    def forgotten_events(self) -> list[FaultRow]:
        """Messages whose event ids would not be recognised."""

    def slack(self) -> list[str]:
        """Room that the database takes and does not use, as sentences."""

    def nodes(self, ids: Sequence[int]) -> list[NodeRow]: ...

    def edges(self, ids: Sequence[int]) -> list[tuple[int, int, int]]:
        """Summary, source and ordinal of each link between summaries, in their order."""

    def leaves(self, ids: Sequence[int]) -> list[LeafRow]: ...

    def leaves_below(self, conversation_id: int, seqs: Sequence[int]) -> list[tuple[int, int]]:
        """Leaf and seq of those of these messages that a leaf was made from."""

    def everything_said(self, ids: Sequence[int]) -> Rows:
        """Each message: id, role, text, parts, meta, tokens, at, created_at, its leaf; one row for each leaf it has."""

    def everything_told(self, ids: Sequence[int]) -> Rows:
        """Each summary: id, conversation, public id, text, tokens, source tokens, file ids, model, level, stale, faithful."""

    def seal(self, conversation_id: int) -> None:
        """In a transaction: the witness of what each summary was made from, where there is none yet."""

    def suspects(self, ids: Sequence[int]) -> set[int]:
        """Of these conversations, those that may break the promise by what they reach: all that `flaws` would tell is among them."""

    def ledger(self, ids: Sequence[int]) -> list[LedgerRow]:
        """How the messages of these conversations are kept, in one statement."""

    def missing(self, conversation_id: int) -> list[int]:
        """The seqs of messages that are neither in the context nor below it nor listed beside it nor kept outside."""

    def spans(self, conversation_id: int) -> list[tuple[int, int | None, int, int]]:
        """Ordinal and summary of each item of the context, and the places of the first and last message it stands for."""

    def keep(self, name: str, steps: Sequence[Step]) -> str:
        """Before these steps: a copy of all they touch, under that name; where it is, "" if nowhere. More may be added to it."""

    def mend(self, step: Step) -> None:
        """In a transaction: make a change. Words of messages and texts of summaries cannot be changed so."""

    def remove_conversation(self, conversation_id: int) -> None:
        """In a transaction: a conversation with all that belongs to it. Its id is never given again."""

    # looking through
    def conversation_page(
        self, *, active: bool | None, below: tuple[int, int] | None, limit: int
    ) -> list[ConversationRow]:
        """Conversations, the newest activity first: those behind a time and an id, the active or the archived ones or all."""

    def figures(self, ids: Sequence[int]) -> dict[int, Figures]: ...

    def openings(self, ids: Sequence[int], cursor_prefix: str) -> dict[int, OpeningRow]:
        """Return the first and last time, first user texts and newest cursor of each, in one query."""

    def depths(self, conversation_id: int) -> list[tuple[int, int, int, int]]:
        """Of each depth of summaries: how many there are, their tokens, those of the messages below them."""

    def departed(self, conversation_id: int) -> dict[str, int]:
        """How many items left the view, by cause."""

    def sub_agents(self, conversation_id: int) -> list[ConversationRow]:
        """The conversations of its sub-agents, not of theirs; active ones first, then the newest."""

    def message_page(
        self,
        conversation_id: int,
        *,
        beyond: int | None,
        newest_first: bool,
        roles: Sequence[str],
        since: int | None,
        before: int | None,
        limit: int,
    ) -> list[MessageRow]:
        """Messages by seq, or the newest first, those beyond a seq; of these roles, if any are given, and these times."""

    def stand(self, conversation_id: int, seqs: Sequence[int]) -> list[PlaceRow]:
        """Where these messages stand, and every summary that tells them, by seq, the deepest summary last."""

    def aliases(self, conversation_id: int, seq: int) -> list[str]:
        """Further event ids of a message."""

    def other_texts(self, conversation_id: int, seq: int) -> list[CopyRow]:
        """What else came under a message's event id, oldest first."""

    def file_page(self, conversation_id: int, *, below: tuple[int, str] | None, limit: int) -> list[FileRow]:
        """The payloads of a conversation, the newest first: those behind a time and an id."""

    def file_totals(self, conversation_id: int) -> tuple[int, int]:
        """How many payloads a conversation has, and their bytes."""

    def files_named(self, file_id: str) -> list[tuple[int, FileRow]]:
        """The conversations that have a payload, the newest activity first, and their rows of it."""

    # recall
    def family(self, key: str) -> list[ConversationRow]:
        """Every conversation that was ever under a key, the active one first, then the newest; then those of sub-agents
        below any of them."""

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

    # looking at summaries (`length` is how many characters of a text are wanted)
    def summary_page(
        self,
        conversation_id: int,
        *,
        depths: tuple[int, int] | None,
        since: int | None,
        before: int | None,
        below: tuple[int, int] | None,
        limit: int,
        length: int,
    ) -> list[PlacedSummary]:
        """Summaries, of depths from one to another if so, the newest first: by the time of their newest source, then by id; those after `below`."""

    def placed(self, conversation_id: int, ids: Sequence[int], length: int) -> dict[int, PlacedSummary]: ...

    def level_below(
        self, conversation_id: int, ids: Sequence[int], length: int
    ) -> tuple[list[tuple[int, int]], dict[int, PlacedSummary]]:
        """The summaries that these were made from: pairs of ids, sources in their order, and the sources by id."""

    def level_above(self, conversation_id: int, summary_id: int, length: int) -> list[PlacedSummary]:
        """The summaries that were made from this one, by depth and id."""

    def source_messages(self, conversation_id: int, summary_id: int, length: int) -> list[SourceMessage]:
        """The messages that a leaf was made from, in order."""

    def messages_below(self, conversation_id: int, ids: Sequence[int]) -> dict[int, int]:
        """How many messages lie below each of these summaries."""

    def runs(self, conversation_id: int) -> list[Run]:
        """The view in order, messages that stand together as one."""

    def aside(self, conversation_id: int) -> list[Aside]:
        """What left the view, in order: summaries one by one, messages by cause."""

    def message_times(self, conversation_id: int, seqs: Sequence[int]) -> dict[int, int]:
        """When these messages were said."""

    def earlier(self, conversation_id: int, summary_id: int) -> list[RevisionRow]:
        """The earlier texts of a summary, the newest first."""

    def revised_in(self, summary_id: int, revisions: Sequence[int]) -> dict[int, str]:
        """The operations that gave a summary these texts, by revision; not those that were undone."""

    def around(self, what: Named, id: str) -> list[str]:
        """The ids of this owner's that come just before and after one that is not there."""

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

    def claim(
        self, worker: str, *, now: int, idle_before: int, lease_until: int, tries: int, budget: int | None = None
    ) -> DebtRow | None:
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

    def uncovered(self, limit: int) -> list[UncoveredRow]:
        """Return the active conversations whose newest assembly left out what no summary made since covers, the worst first."""

    def manifests(self, conversation_id: int, *, until: int | None, turn: int | None, limit: int) -> list[Manifest]:
        """Assemblies up to a time or a turn, the newest first."""

    def add_pin(self, conversation_id: int, pin: PinRow) -> None:
        """In a transaction. The same id again changes nothing."""

    def remove_key_pin(self, key: str, pin_id: str) -> bool:
        """In a transaction: remove a pin from every conversation of the key."""

    def pins(self, conversation_id: int) -> list[PinRow]:
        """Return the pins made in one conversation, oldest first."""

    def key_pins(self, key: str) -> list[PinRow]:
        """Return the pins of every conversation of the key, archived ones included: each once, oldest first."""

    # cursors
    def cursor(self, conversation_id: int, source: str) -> Any | None:
        """How far a source was read: the JSON value last set, or None."""

    def set_cursor(self, conversation_id: int, source: str, state: Any, now: int) -> None: ...

    def newest_cursor(self, conversation_id: int, prefix: str) -> tuple[str, Any] | None:
        """Source and state of the cursor that was set last, of those whose source starts so."""

    def cursors(self, prefix: str, conversation_id: int | None = None) -> list[tuple[int, str, Any]]:
        """Conversation, source and state of every cursor whose source starts so, of all conversations or of one."""

    # guards
    def guard(self, name: str, *, hold: bool = False, shared: bool = False) -> Any | None:
        """What a guard remembers: the JSON value last set, or None; with `hold`, kept from others in this transaction.

        A `shared` one is the same for all owners.
        """

    def set_guard(self, name: str, state: Any, now: int, *, shared: bool = False) -> None:
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

    def count_matches(
        self,
        kind: TextKind,
        question: str,
        conversation_ids: Sequence[int] | None = None,
        *,
        since: int | None = None,
        before: int | None = None,
    ) -> int:
        """Count the messages, or the summaries, that hold any term of the question."""

    def check_search(self) -> list[str]:
        """What is wrong with the search index, as sentences; empty when it agrees with the messages."""

    def rebuild_search(self) -> int:
        """Make the search index anew from the messages; how many there are."""

    # whole tables, of all owners
    def snapshot(self) -> AbstractContextManager[None]:
        """What this thread reads meanwhile is one state of the database, whatever others write."""

    def tables(self) -> tuple[str, ...]:
        """Every table that is not derived, those that others refer to first."""

    def shape(self, table: str) -> Shape: ...

    def count(self, table: str) -> int: ...

    def rows(self, shape: Shape) -> Rows:
        """All rows of a table by their key, one by one."""

    def part(
        self, table: str, conversation_id: int, columns: Sequence[str], order: Sequence[str] | None = None
    ) -> Rows:
        """The rows of a table that belong to a conversation of this owner, by their key or in another order, one by one."""

    def take(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """In a transaction: rows as they are, with their ids; search index and event ids follow."""

    def change(self, shape: Shape, rows: Sequence[tuple[Any, ...]]) -> None:
        """In a transaction: rows whose keys are there already become these."""

    def take_back(self) -> None:
        """In a transaction: everything that was taken in, but conversations, messages and summaries, which are corrected."""

    def new_ids(self, table: str, count: int) -> list[int]:
        """In a transaction: ids for rows to come, of a table that numbers its rows."""

    def renumber(self) -> None:
        """In a transaction: new rows are numbered behind those that were taken in."""

    def taken(self, public_ids: Sequence[str]) -> set[str]:
        """Those of these ids that a summary has, of whichever owner: an id is given once."""

    def relate(self, conversation_id: int, *, continues: int | None, parent: int | None) -> None:
        """In a transaction: which conversations one belongs to, unless it knows already."""

    def identity(self) -> str:
        """Tells this database from others."""

    def moving_in(self) -> str | None:
        """The identity of the database that is being moved in here, if one is."""

    def set_moving_in(self, identity: str | None, now: int) -> None:
        """In a transaction."""

    # the whole
    def version(self) -> int:
        """The number of its schema."""

    def place(self) -> Path | None:
        """What the names of files that are kept beside it begin with; None in memory."""

    def mark(self, now: int) -> str:
        """A random text of all owners' that no other database has but its copies; none before somebody asks who may write."""

    def dump(self, path: Path) -> Dump:
        """In a snapshot: everything, of all owners, as a new file."""

    def size(self) -> int:
        """Bytes on disk."""

    def integrity(self) -> list[str]:
        """What is wrong with the database itself, as sentences."""

    # figures
    def heap(self, conversation_id: int | None) -> Heap:
        """Of one conversation, or of all."""

    def windows(self, conversation_ids: Sequence[int]) -> dict[int, tuple[int, str | None]]:
        """Return the window that the host of each conversation named last, and its model; those that named none are missing."""

    def depth_rows(self, conversation_id: int | None, *, since: int, tries: int) -> list[DepthRow]:
        """By depth, the summaries made since then; tried so often in vain, one is in vain."""

    def files_kept(self) -> tuple[int, int]:
        """How many payloads this owner has out of line, and their bytes, each once."""

    def debts(self, conversation_id: int | None) -> list[tuple[DebtRow, int]]:
        """Debts of active conversations that are pending, failed or too small for the context, whose tokens are told too."""

    def guards(self, prefix: str) -> dict[str, Any]:
        """The guards whose names begin so, by the rest of their names."""

    def newest_cursors(
        self, prefix: str, conversation_id: int | None, limit: int
    ) -> tuple[int, list[tuple[str, str, Any]]]:
        """How many sources begin so, and of the newest cursors the key of the conversation, the source and the state."""

    def glances(self, ids: Sequence[int]) -> list[Glance]:
        """These messages, by id."""

    def written(self, conversation_id: int | None, since: int) -> list[WrittenRow]:
        """What each model wrote since then. Copies of summaries are nobody's work."""

    def turns(self, conversation_ids: Sequence[int], since: int) -> list[tuple[int, int, int]]:
        """Conversation, time and tokens of each assembly since then, in no order."""
