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
    """The summaries of one depth: how many, what they cost, and what the messages below them do."""

    depth: int
    summaries: int
    tokens: int
    source_tokens: int
    ratio: float | None = None
    """How many tokens of messages one token of these summaries stands for."""


class SummaryHealth(Struct, frozen=True):
    """How many summaries are not what they should be; one may count more than once."""

    provisional: int = 0
    """No model wrote them."""
    cut: int = 0
    """The beginning of their sources, and no more."""
    unfaithful: int = 0
    """Their sources do not bear them out in everything."""
    stale: int = 0
    """A source was made anew since."""
    in_vain: int = 0
    """They were to be made anew, and that failed as often as it is tried."""


class Holdings(Struct, frozen=True):
    """What is stored of a conversation, or of all, in tokens. Source tokens are those of messages below leaves."""

    messages: int = 0
    message_tokens: int = 0
    """Of the messages in the context, below summaries or set aside by name; not of those kept out of every context."""
    source_tokens: int = 0
    context_items: int = 0
    context_tokens: int = 0
    depths: tuple[DepthFigures, ...] = ()
    health: SummaryHealth = SummaryHealth()
    shown_source_tokens: int = 0
    """Of the messages below the summaries that stand in a context."""
    coverage: float | None = None
    """Which share of the messages' tokens is summarised."""
    ratio: int | None = None
    """N of 1:N: what the summaries in the contexts stand for, as a multiple of all that the contexts show."""

    @property
    def summaries(self) -> int:
        return sum(each.summaries for each in self.depths)


class Lagging(Struct, frozen=True):
    """A transcript that holds what was not read, or cannot be looked at."""

    path: str
    key: str
    """Of the conversation it is read into."""
    state: Literal["behind", "missing", "unreadable"]
    bytes: int = 0
    """How many were not read."""
    seconds: float = 0.0
    """For how long the oldest of them is there, as far as it is known."""
    read_at: datetime | None = None
    written_at: datetime | None = None


class Following(Struct, frozen=True):
    """How far transcripts are ahead of what was read of them."""

    transcripts: int = 0
    looked_at: int = 0
    behind: int = 0
    """For a minute or longer."""
    missing: int = 0
    vanished: int = 0
    """Those of them that were the newest of their conversations, and written to within a day."""
    unreadable: int = 0
    bytes: int = 0
    """Not read, of all of them."""
    lagging: tuple[Lagging, ...] = ()
    """The worst, a few of each kind, those that are behind first."""


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
    """Something that holds calls to a model back."""

    kind: Literal["spend", "breaker", "no key", "daily limit"]
    name: str
    """The conversation, the model, or the limit."""
    failures: int = 0
    """Refusals in a row."""
    until: datetime | None = None
    why: str = ""


class Calls(Struct, frozen=True):
    """Calls to models of late."""

    calls: int = 0
    seconds: float = 0.0
    """Of late: the window in which calls are counted."""
    most: int = 0
    """That one conversation may make in it."""
    holds: tuple[Hold, ...] = ()
    today: int = 0
    """Requests to models in the last 24 hours, over the whole database."""
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
    """One thing that is not as it should be, in a sentence, and what to do about it."""

    severity: Literal["warning", "degraded"]
    what: str
    """For programs: disabled, full, read-only, behind, unreadable, missing, credentials, held, pending, failed, unattended,
    in vain, crowded, uncovered."""
    text: str
    command: str = ""


class ConversationFigures(Struct, frozen=True):
    """One conversation in numbers, as `Status` has them."""

    id: int
    key: str
    active: bool
    holdings: Holdings
    budget: int
    """What its context may hold: as set, else as its host said last, else 128,000."""
    updated_at: datetime
    debt: Debt | None = None
    following: Following = Following()


class FullContext(Struct, frozen=True):
    """A conversation whose context holds more than fits, or more than its compaction was to leave."""

    key: str
    tokens: int
    budget: int
    exhausted: bool = False
    """Whether compaction found nothing more to summarise, and nothing came since."""
    assumed: bool = False
    """Whether no host named a window: then 128,000 is assumed."""


class Uncovered(Struct, frozen=True):
    """A conversation whose newest request left out what no summary covers."""

    key: str
    tokens: int
    window: int


class Status(Struct, frozen=True):
    """A database in numbers, and whether it does what it is there for."""

    version: str
    database: str
    bytes: int
    owner: str
    conversations: int
    messages: int
    context_tokens: int
    last_ingest_at: datetime | None
    verdict: Verdict = "empty"
    """`empty`: nothing ever came in. `quiet`: nothing came for a day, and there is no transcript that would tell why."""
    enabled: bool = True
    """False if the settings say that nothing is to be taken in."""
    reasons: tuple[Reason, ...] = ()
    not_assessed: tuple[str, ...] = ()
    first_at: datetime | None = None
    """When the oldest conversation began."""
    active: int = 0
    files: int = 0
    files_bytes: int = 0
    holdings: Holdings = Holdings()
    following: Following = Following()
    debts: tuple[Debt, ...] = ()
    """The worst, a few."""
    pending: int = 0
    running: int = 0
    failed: int = 0
    calls: Calls = Calls()
    volumes: tuple[Volume, ...] = ()
    conversation: ConversationFigures | None = None
    """The one that was asked for."""
    full: tuple[FullContext, ...] = ()
    """Conversations that hold more than fits their window, or that compaction could not bring below its goal."""
    has_model: bool = False
    """Whether a model is configured to write summaries."""
    uncovered: tuple[Uncovered, ...] = ()
    """Conversations whose newest request left out what no summary covers, the worst few."""


class RoleFigures(Struct, frozen=True):
    """What one role said."""

    role: str
    messages: int
    tokens: int


class DayFigures(Struct, frozen=True):
    """What came in on one day, in UTC."""

    day: date
    messages: int


class ModelFigures(Struct, frozen=True):
    """What one model wrote: at least a call for each text, and what it read and wrote for them."""

    model: str
    texts: int
    tokens_read: int
    tokens_written: int
    cost: float | None
    """In US dollars by list prices, prompts and failed calls aside; None if the price is not known."""


class Turns(Struct, frozen=True):
    """What models were shown, turn by turn, and what the whole history would have come to each time."""

    turns: int = 0
    shown_tokens: int = 0
    whole_tokens: int = 0
    saved_tokens: int = 0
    conversations: int = 0
    """That were looked at: the newest."""


class Stats(Struct, frozen=True):
    """What was stored, summarised, shown and spent, of a conversation or of all."""

    since: datetime | None
    conversations: int
    holdings: Holdings
    roles: tuple[RoleFigures, ...]
    step: int
    """1 if every message was counted for roles and turns; otherwise one in so many was."""
    days: tuple[DayFigures, ...]
    """The last fourteen."""
    days_step: int
    """The same for these."""
    turns: Turns
    models: tuple[ModelFigures, ...]
    cost: float | None
    """Of the models whose price is known, in US dollars; None if there is none."""
    biggest: tuple[ConversationStatus, ...]
