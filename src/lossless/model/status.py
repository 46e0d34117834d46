"""Figures of a database and its conversations: status, health of summaries, statistics."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from lossless.model.summaries import DebtStop


class ConversationStatus(Struct, frozen=True):
    """One conversation in numbers."""

    id: int
    key: str
    active: bool
    messages: int
    context_tokens: int
    created_at: datetime
    updated_at: datetime


class DepthFigures(Struct, frozen=True):
    """The summaries of one depth: their number, their tokens, and the tokens of the messages below them."""

    depth: int
    summaries: int
    tokens: int
    source_tokens: int
    ratio: float | None = None
    """Tokens of messages per token of these summaries."""


class SummaryHealth(Struct, frozen=True):
    """Counts of summaries with problems; one summary may count more than once."""

    provisional: int = 0
    """Written without a model."""
    cut: int = 0
    """Cut from the beginning of their sources."""
    unfaithful: int = 0
    """Contain claims not found in their sources."""
    stale: int = 0
    """A source was rewritten since."""
    in_vain: int = 0
    """Rewriting them failed and is not retried any more."""


class Holdings(Struct, frozen=True):
    """The stored data of one or all conversations, in tokens. Source tokens are those of messages below leaves."""

    messages: int = 0
    message_tokens: int = 0
    """Tokens of messages in the context, below summaries or detached; not of those outside every context."""
    source_tokens: int = 0
    context_items: int = 0
    context_tokens: int = 0
    depths: tuple[DepthFigures, ...] = ()
    health: SummaryHealth = SummaryHealth()
    shown_source_tokens: int = 0
    """Tokens of the messages below the summaries in a context."""
    coverage: float | None = None
    """The summarised share of the messages' tokens."""
    ratio: int | None = None
    """N of 1:N: the tokens that the summaries in the contexts stand for, divided by the tokens of the contexts."""

    @property
    def summaries(self) -> int:
        return sum(each.summaries for each in self.depths)


class LaggingTranscript(Struct, frozen=True):
    """A transcript with unread data, or one that cannot be read."""

    path: str
    key: str
    """The key of its conversation."""
    state: Literal["behind", "missing", "unreadable"]
    bytes: int = 0
    """Unread bytes."""
    seconds: float = 0.0
    """The age of the oldest unread data, as far as it is known."""
    read_at: datetime | None = None
    written_at: datetime | None = None


class TranscriptLag(Struct, frozen=True):
    """The lag behind transcripts: unread data, missing and unreadable files."""

    transcripts: int = 0
    looked_at: int = 0
    behind: int = 0
    """Transcripts with data that is unread for a minute or longer."""
    missing: int = 0
    vanished: int = 0
    """Missing transcripts that were the newest of their conversations and written within a day."""
    unreadable: int = 0
    bytes: int = 0
    """Unread bytes of all transcripts."""
    lagging: tuple[LaggingTranscript, ...] = ()
    """The worst few of each kind, those behind first."""


class Debt(Struct, frozen=True):
    """Pending or failed work on a conversation."""

    key: str
    state: Literal["running", "waiting", "settled"]
    since: datetime
    stop: DebtStop | Literal[""] = ""
    """The end of the last try; empty before the first."""
    failure: str = ""
    attempts: int = 0
    next_at: datetime | None = None
    """The time of the next attempt, if not now."""
    window: int = 0
    context_tokens: int = 0


class Hold(Struct, frozen=True):
    """A reason for which calls to a model are paused."""

    kind: Literal["spend", "breaker", "no key", "daily limit"]
    name: str
    """The name of the conversation, the model or the limit."""
    failures: int = 0
    """Consecutive refusals."""
    until: datetime | None = None
    why: str = ""


class Calls(Struct, frozen=True):
    """Recent calls to models."""

    calls: int = 0
    seconds: float = 0.0
    """The length of the window in which calls are counted."""
    most: int = 0
    """The maximum calls of one conversation in this window."""
    holds: tuple[Hold, ...] = ()
    today: int = 0
    """Requests to models in the last 24 hours, of all conversations."""
    most_a_day: int | None = None


class Volume(Struct, frozen=True):
    """A directory that is written to, and the free space on its volume."""

    path: str
    free: int
    least: int
    """Free bytes below which the next write may fail."""
    writable: bool = True


Verdict: TypeAlias = Literal["ok", "quiet", "empty", "warning", "degraded"]


class Reason(Struct, frozen=True):
    """A problem in one sentence, and the command that solves it."""

    severity: Literal["warning", "degraded"]
    what: str
    """For programs: disabled, full, read-only, behind, unreadable, missing, credentials, held, pending, failed, unattended,
    in vain, crowded, uncovered, host."""
    text: str
    command: str = ""


class ConversationFigures(Struct, frozen=True):
    """The figures of one conversation in a `Status`."""

    id: int
    key: str
    active: bool
    holdings: Holdings
    budget: int
    """The budget of its context: as configured, else as its host last named, else 128,000."""
    updated_at: datetime
    debt: Debt | None = None
    following: TranscriptLag = TranscriptLag()
    brief: str = ""
    """The id of the active brief (`focus`); empty if there is none."""
    brief_task: str = ""


class FullContext(Struct, frozen=True):
    """A conversation whose context exceeds its budget, or the target of its compaction."""

    key: str
    tokens: int
    budget: int
    exhausted: bool = False
    """True if compaction found nothing more to summarise, and no message arrived since."""
    assumed: bool = False
    """True if no host named a window, so that 128,000 is assumed."""


class Uncovered(Struct, frozen=True):
    """A conversation whose newest request omitted messages that no summary covers."""

    key: str
    tokens: int
    window: int


class HostFigures(Struct, frozen=True):
    """The deliveries of one host into this database, on this machine."""

    host: str
    delivered: int
    """Messages stored from it, in all."""
    last_delivery_at: datetime | None
    last_event: str
    last_event_at: datetime | None
    failures: int = 0
    """Failures since the last event without one."""
    last_error: str = ""
    last_error_at: datetime | None = None


class Status(Struct, frozen=True):
    """The figures of a database and a verdict on its state."""

    version: str
    database: str
    bytes: int
    owner: str
    conversations: int
    messages: int
    context_tokens: int
    last_ingest_at: datetime | None
    verdict: Verdict = "empty"
    """`empty`: nothing was ever ingested. `quiet`: nothing was ingested for a day, and no transcript explains it."""
    enabled: bool = True
    """False if ingestion is disabled in the settings."""
    reasons: tuple[Reason, ...] = ()
    not_assessed: tuple[str, ...] = ()
    first_at: datetime | None = None
    """The start of the oldest conversation."""
    active: int = 0
    files: int = 0
    files_bytes: int = 0
    holdings: Holdings = Holdings()
    following: TranscriptLag = TranscriptLag()
    debts: tuple[Debt, ...] = ()
    """The worst few."""
    pending: int = 0
    running: int = 0
    failed: int = 0
    calls: Calls = Calls()
    volumes: tuple[Volume, ...] = ()
    conversation: ConversationFigures | None = None
    """The requested conversation, if any."""
    full: tuple[FullContext, ...] = ()
    """Conversations that exceed their window, or that compaction could not bring below its target."""
    has_model: bool = False
    """True if a model is configured to write summaries."""
    uncovered: tuple[Uncovered, ...] = ()
    """Conversations whose newest request omitted messages that no summary covers, the worst few."""
    hosts: tuple[HostFigures, ...] = ()
    """Hosts that delivered into this database from this machine, by name."""


class RoleFigures(Struct, frozen=True):
    """The messages of one role."""

    role: str
    messages: int
    tokens: int


class DayFigures(Struct, frozen=True):
    """The messages of one day, in UTC."""

    day: date
    messages: int


class ModelFigures(Struct, frozen=True):
    """The texts that one model wrote, and the tokens it read and wrote for them."""

    model: str
    texts: int
    tokens_read: int
    tokens_written: int
    cost: float | None
    """The cost in US dollars by list prices, without prompts and failed calls; None if the price is not known."""


class Turns(Struct, frozen=True):
    """The tokens shown to models in all turns, compared with the complete history in each turn."""

    turns: int = 0
    shown_tokens: int = 0
    whole_tokens: int = 0
    saved_tokens: int = 0
    conversations: int = 0
    """The number of conversations considered, the newest ones."""


class Stats(Struct, frozen=True):
    """Statistics of one or all conversations: stored, summarised, shown and spent."""

    since: datetime | None
    conversations: int
    holdings: Holdings
    roles: tuple[RoleFigures, ...]
    step: int
    """1 if every message was counted for roles and turns; N if one in N was."""
    days: tuple[DayFigures, ...]
    """The last fourteen days."""
    days_step: int
    """The same for `days`."""
    turns: Turns
    models: tuple[ModelFigures, ...]
    cost: float | None
    """The cost of the models whose price is known, in US dollars; None if there is none."""
    biggest: tuple[ConversationStatus, ...]
