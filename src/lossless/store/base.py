"""The storage contract on one screen: what a database must do for the engine.

A store belongs to one owner: whatever another owner keeps does not exist for it. Reads run on their
own; writes happen inside `transaction()`, which is all or nothing and never open while a model thinks.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal, TypeAlias

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
