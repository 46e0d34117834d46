"""The rows of the store: every value that a query takes or returns.

A store belongs to one owner: whatever another owner keeps does not exist for it. Reads run on their
own; writes happen inside `transaction()`, which is all or nothing and never open while a model thinks.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from lossless.model.summaries import DebtStop

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
    """When its context was last started again."""
    transcribed: bool = False
    """A transcript is read into it."""

    @property
    def messages(self) -> int:
        """Return how many messages it has: seqs have no gaps."""
        return self.next_seq - 1


class NewMessage(Struct, frozen=True, gc=False):
    """A message as its columns, before it is stored."""

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
    """A message as its columns, with its seq."""

    seq: int


MESSAGE, USER_MESSAGE = -1, -2
"""The depths of items that are messages; those of a user have their own, since a turn starts with them."""


class ItemRow(Struct, frozen=True, gc=False):
    """One item of a context; a message's seq is its ordinal."""

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
    """A summary as its columns, before it is stored."""

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
    """A summary as its columns, with its id."""

    id: int
    revision: int
    origin: str | None = None
    """The summary of another conversation that it is a copy of."""


class PlacedSummary(SummaryRow, frozen=True, gc=False):
    """A summary and its position, for a list; its text may be only the beginning."""

    stale: bool = False
    sources: int = 0
    """How many messages, or summaries, it was made from."""
    consumers: int = 0
    shown: bool = False
    """It stands in the view."""
    cause: str | None = None
    """Why it left the view, if it did."""


class Run(Struct, frozen=True, gc=False):
    """A summary of the context, or neighbouring messages in it: first and last ordinal, count, tokens."""

    summary_id: int | None
    first: int
    last: int
    count: int
    tokens: int


class Aside(Run, frozen=True, gc=False):
    """The same for what left the context: one summary, or all messages that left for one cause."""

    cause: str
    at: int


class SourceMessage(Struct, frozen=True, gc=False):
    """A message that a leaf was made from, and the beginning of its text."""

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
"""Things with an id that a user may mistype."""


class DebtRow(Struct, frozen=True):
    """Pending work on a conversation, and the worker that does it."""

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
    stop: DebtStop | None
    stop_seq: int | None
    failure: str | None
    revision: int


class NewManifest(Struct, frozen=True):
    """A record of one assembly, before it is stored."""

    at: int
    window_tokens: int
    tokens: int
    prefix: str
    reason: str
    shown: bytes
    uncovered: int = 0
    """Tokens of what was neither shown nor covered by a summary that was."""


class Manifest(NewManifest, frozen=True, kw_only=True):
    """A record of one assembly: what the model was shown."""

    turn: int


class UncoveredRow(Struct, frozen=True):
    """A conversation whose newest assembly left out messages that no summary covers."""

    key: str
    tokens: int
    window_tokens: int


class PinRow(Struct, frozen=True):
    """A text that the model is always shown."""

    id: str
    message_id: int | None
    text: str
    tokens: int
    created_at: int


class BriefRow(Struct, frozen=True):
    """A brief of what matters for a task, found by recall."""

    conversation_id: int
    """The conversation it was made in."""
    id: str
    name: str
    task: str
    text: str
    size: int | None
    """The tokens that were asked for."""
    model: str
    sources: str
    """JSON: the id and the version of each text it was made from."""
    covered: str
    """JSON: the conversations it was made from, and their next seqs then."""
    active: bool
    created_at: int


class Heap(Struct, frozen=True):
    """Totals of contexts: items, tokens of messages in them and set aside, tokens below their summaries."""

    items: int
    message_tokens: int
    detached_tokens: int
    shown_source_tokens: int


class DepthRow(Struct, frozen=True):
    """Counts of the summaries of one depth, by problem."""

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
    """A message for counting: role, size, its own time and the time it was stored."""

    id: int
    role: str
    tokens: int
    at: int
    created_at: int


class WrittenRow(Struct, frozen=True):
    """Counts of a model's work: texts of summaries, earlier ones included, tokens read and written."""

    model: str
    texts: int
    tokens_read: int
    tokens_written: int


class KnownEvent(Struct, frozen=True):
    """A stored message under an event id: enough to tell a copy from a different message."""

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
    """The rows that still contain some words: names of this owner's rows, a few of each table, and counts over all owners."""

    names: tuple[str, ...]
    count: int


class KeptCopy(Struct, frozen=True):
    """A copy of the database, or of rows of it: its time if known, and its bytes."""

    name: str
    at: int | None
    bytes: int


class OverRows(Struct, frozen=True):
    """Counts of expired rows: grants, manifests of archived conversations, leases of stopped workers."""

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
    """Figures of a conversation that its own row does not contain."""

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
    """The position of a message, or of a summary that covers it: in the context, or out of it for a cause."""

    seq: int
    summary: str | None
    depth: int
    shown: bool
    cause: str | None


class CopyRow(Struct, frozen=True, gc=False):
    """Another text delivered under a message's event id."""

    text: str
    parts: str | None
    meta: str | None
    at: int | None
    created_at: int


TextKind: TypeAlias = Literal["message", "summary"]


class TextRow(Struct, frozen=True, gc=False):
    """The text of a message (with its role) or of a summary (with its public id and depth), and its time."""

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
    share: float = 0.0
    """The share of the question's words, by their weight, in and around the message."""


class Matches(Struct, frozen=True):
    """The best messages of a search, and the number of messages that match."""

    matches: list[Match]
    total: int


class SummaryMatch(Struct, frozen=True):
    """A summary that a search found; a higher score is a better match."""

    conversation_id: int
    summary_id: int
    score: float


class BranchRow(Struct, frozen=True, gc=False):
    """A summary's position among others and its cost, without its text."""

    id: int
    public_id: str
    depth: int
    tokens: int
    descendants: int
    source_tokens: int
    earliest_at: int | None
    latest_at: int | None


class GrantRow(Struct, frozen=True):
    """Permission to read some conversations, up to a number of tokens and a time."""

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
    """The size of a message, without its text."""

    seq: int
    tokens: int
    at: int
    is_user: bool
    is_shown: bool


class TransplantRow(Struct, frozen=True, gc=False):
    """Messages copied from another conversation: their seqs, and the position of the first in the order, 0 or less."""

    first_seq: int
    last_seq: int
    place: int


class OperationRow(Struct, frozen=True):
    """An operation on old data, applied or planned."""

    id: str
    conversation_id: int
    kind: str
    at: int
    status: str
    plan: str
    summary: str


class Touched(Struct, frozen=True):
    """The rows of a conversation that an operation may change in one transaction."""

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
    """A way in which a conversation breaks the promise: count, first and last (seqs, or ids of summaries)."""

    name: str
    count: int
    first: str | None
    last: str | None


class Step(Struct, frozen=True, gc=False):
    """One change of derived data by the doctor: to a row, or to a whole index (`rebuild`, `make`, `recount`)."""

    action: str
    table: str
    key: dict[str, Any] = {}
    values: dict[str, Any] = {}


class FaultRow(Struct, frozen=True, gc=False):
    """An inconsistent row: its place, and the change that fixes it, if there is one."""

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
    """Sums over the messages of a leaf; `strays` are those of other conversations."""

    summary_id: int
    count: int
    tokens: int
    earliest_at: int
    latest_at: int
    strays: int


class LedgerRow(Struct, frozen=True):
    """Count of messages kept in one way (`context`, `below`, `detached`, `outside`, `tombstone`, `missing`) for one reason.

    `times` is how often they are reached, which is once each. `item` counts the items of the context.
    """

    conversation_id: int
    way: str
    why: str | None
    messages: int
    times: int


class Dump(Struct, frozen=True):
    """A whole database as one file: its format and the program that made it; without a format if that failed, with the reason."""

    form: str
    by: str
