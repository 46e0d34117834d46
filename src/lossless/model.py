"""The values of lossless: what a message, a part and a context are.

Everything here is frozen, compares by value and imports nothing of ours. A value has no identity:
only a stored one (`StoredMessage`, `Summary`) has an id, so nobody asks whether an id is there yet.
They cannot form cycles, so the garbage collector is told not to walk them (`gc=False`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal, Self, TypeAlias, TypeVar, get_args

from msgspec import Struct, field

Extra: TypeAlias = dict[str, Any]

INSTRUCTIONS = ("system", "developer")
"""The roles of messages that instruct the model."""


class Text(Struct, frozen=True, tag="text", omit_defaults=True, gc=False):
    """Words somebody wrote."""

    text: str
    extra: Extra = field(default_factory=dict)


class Reasoning(Struct, frozen=True, tag="reasoning", omit_defaults=True, gc=False):
    """A model's thinking. It goes back to the model that wrote it, and never into a summary."""

    text: str = ""
    signature: str | None = None
    extra: Extra = field(default_factory=dict)


class ToolCall(Struct, frozen=True, tag="tool_call", omit_defaults=True, gc=False):
    """A model asking for a tool. `arguments` is JSON text, kept exactly as it was written."""

    call_id: str
    name: str
    arguments: str = "{}"
    extra: Extra = field(default_factory=dict)


class File(Struct, frozen=True, tag="file", omit_defaults=True, gc=False):
    """An image, document or other file: its `data` (base64, as it came over the wire) or where it is."""

    mime: str | None = None
    name: str | None = None
    data: str | None = None
    url: str | None = None
    extra: Extra = field(default_factory=dict)


class Opaque(Struct, frozen=True, tag="opaque", omit_defaults=True, gc=False):
    """A piece we do not model (patch, step, snapshot, the unknown), kept verbatim as JSON `data`."""

    kind: str
    data: Any = None
    extra: Extra = field(default_factory=dict)


class ToolResult(Struct, frozen=True, tag="tool_result", omit_defaults=True, gc=False):
    """What a tool answered to the call with the same `call_id`."""

    call_id: str
    parts: tuple[Text | File | Opaque, ...] = ()
    name: str | None = None
    is_error: bool = False
    extra: Extra = field(default_factory=dict)


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | File | Opaque


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of a conversation.

    `event_id` is the host's own name for it: the same event delivered twice is one message.
    `at` is when it was said, `name` who said it (a speaker, as in OpenAI's `name`), `stop` why the
    model ended it. `extra` keeps what a wire format says beyond that, under the format's name.
    """

    role: str
    parts: tuple[Part, ...] = ()
    at: datetime | None = None
    name: str | None = None
    event_id: str | None = None
    stop: str | None = None
    extra: Extra = field(default_factory=dict)

    @classmethod
    def user(cls, text: str, *, event_id: str | None = None, at: When = None, name: str | None = None) -> Self:
        return cls("user", (Text(text),), None if at is None else instant(at), name, event_id)

    @classmethod
    def assistant(cls, text: str, *, event_id: str | None = None, at: When = None, name: str | None = None) -> Self:
        return cls("assistant", (Text(text),), None if at is None else instant(at), name, event_id)

    @classmethod
    def system(cls, text: str, *, event_id: str | None = None, at: When = None, name: str | None = None) -> Self:
        return cls("system", (Text(text),), None if at is None else instant(at), name, event_id)

    @classmethod
    def tool(
        cls,
        text: str,
        *,
        call_id: str = "",
        event_id: str | None = None,
        at: When = None,
        name: str | None = None,
        is_error: bool = False,
    ) -> Self:
        """A tool's answer. `name` is the tool; `call_id` the call it answers."""
        result = ToolResult(call_id, (Text(text),), name, is_error)
        return cls("tool", (result,), instant(at), None, event_id)

    @property
    def text(self) -> str:
        """The words of the message: its text and what tools answered, not the calls or the thinking."""
        return "\n".join(_words(self.parts))


When: TypeAlias = datetime | str | float | None


def instant(when: When) -> datetime | None:
    """A moment in UTC, from a datetime, an ISO 8601 text or seconds since 1970.

    A time without a zone is UTC: the databases of other systems write it so.
    """
    if when is None:
        return None
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    elif isinstance(when, (int, float)):
        return datetime.fromtimestamp(when, UTC)
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _words(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text):
                yield text
            case ToolResult(_, parts=inner):
                yield from _words(inner)
            case _:
                pass


class StoredMessage(Struct, frozen=True, gc=False):
    """A message as the store keeps it: the same message, with its place."""

    id: int
    seq: int
    tokens: int
    digest: bytes
    created_at: datetime
    message: Message
    outside: str | None = None
    """Why it is kept out of the context (an unknown role, an errored empty reply ...), if it is."""

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def event_id(self) -> str | None:
        return self.message.event_id

    @property
    def at(self) -> datetime:
        """When it was said, or stored if nobody told."""
        return self.message.at or self.created_at


class Summary(Struct, frozen=True):
    """A text standing for a run of messages (a leaf, depth 0) or of summaries (condensed, depth 1 and up)."""

    id: str
    depth: int
    text: str
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    descendants: int
    source_tokens: int
    model: str
    level: str
    revision: int = 1
    origin: str | None = None
    """The summary of another conversation that it is a copy of."""
    faithful: float | None = None
    """The share of its claims that were found in its sources; None if nobody looked."""

    @property
    def suspected(self) -> str:
        """What a reader has to know about claims not found in its sources; empty if there are none."""
        return suspicion(self.faithful)

    @property
    def kind(self) -> Literal["leaf", "condensed"]:
        return "leaf" if self.depth == 0 else "condensed"


def suspicion(faithful: float | None) -> str:
    """Say which share of a summary's claims was not found in its sources; empty if none is known."""
    return "" if faithful is None or faithful >= 1 else f"{max(1, round(100 * (1 - faithful)))}% of its claims"


class SummaryRequest(Struct, frozen=True):
    """What a summariser is asked: one text to be shortened, and how.

    `system` and `prompt` are complete and ready to be sent; `source` is the segment inside the prompt, for
    summarisers that need no prompt. `target_tokens` is the length wanted, `max_tokens` the most to be paid for.
    """

    system: str
    prompt: str
    source: str
    depth: int
    target_tokens: int
    max_tokens: int
    previous: str | None = None
    aggressive: bool = False
    temperature: float | None = None
    """The temperature to ask with; None for the model's own."""
    timeout: float | None = None
    """How many seconds there are for a reply, if fewer than the summariser would wait."""

    def within(self, seconds: float) -> float:
        """Return how long to wait for a reply, at most `seconds`."""
        return seconds if self.timeout is None else min(seconds, self.timeout)


Item: TypeAlias = StoredMessage | Summary


class LeftOut(Struct, frozen=True):
    """Something of a conversation that a model is not shown."""

    id: str
    """`msg#...` or `sum_...`; `older` for whatever lies before the oldest that was looked at."""
    reason: str
    """`budget`: the oldest leave first. `tool result`, `picture`: a reference stands for it. `tail over budget`: a tool round
    that left. `no call`, `empty`: what no provider would take. `rejected`: what a provider refused (`report_rejection`)."""
    tokens: int


class Context(Struct, frozen=True):
    """The ordered view of a conversation: summaries, then messages."""

    items: tuple[Item, ...]
    tokens: int
    messages: tuple[Message, ...] = ()
    """What goes to a model: each item as a message, a summary marked as such, calls and results in pairs."""
    left_out: tuple[LeftOut, ...] = ()
    """What did not fit, and why; `grep`, `describe` and `expand` still find it."""
    over_budget: bool = False
    """Only when the newest words of the user and the newest tool round alone exceed the budget."""
    reason: str = "stored"
    """Where it comes from: `stored`, or `live: ...` and why the host's own messages had to serve."""
    model: str | None = None
    """The model it was assembled for, if the host named it: thinking of others is not sent to it."""
    uncovered: int = 0
    """Tokens of what is stored and neither shown nor covered by a summary that is: 0 unless compaction is behind."""


class Rejection(Struct, frozen=True):
    """What is left out of a conversation's requests since a provider refused one."""

    kind: Literal["thinking", "picture", "file", "call", "message"] | None
    """What the error is about; None if it names nothing that could be left out."""
    ids: tuple[str, ...]
    """The messages concerned: `msg#...`, or `live message` for one that is not stored yet. Empty: nothing was changed."""
    located: bool
    """False: the error did not say which one, so that all parts of the kind are left out."""
    text: str
    """What was done, in a sentence."""


class Detached(Struct, frozen=True):
    """A message or a summary that left a context: no model is shown it, and it is found and read as before."""

    id: str
    tokens: int
    cause: str
    """`new`, and whatever else takes things out of a context."""
    at: datetime


class Renewed(Struct, frozen=True):
    """What a /new took out of a context."""

    detached: tuple[Detached, ...]
    tokens_before: int
    tokens_after: int


class Explanation(Struct, frozen=True):
    """What has become of a message."""

    id: str
    state: Literal["shown", "summarised", "left out", "outside", "detached"]
    summaries: tuple[str, ...]
    """The leaf that tells it, and what was made from that, up to the one in the context."""
    text: str


class Pin(Struct, frozen=True):
    """A text that a model is always shown, before everything else."""

    id: str
    text: str
    tokens: int
    message: int | None = None
    """The id of the message it was taken from, if any."""


class StoredFile(Struct, frozen=True):
    """Large content kept out of line: what it is, and its exploration summary."""

    id: str
    name: str | None
    mime: str | None
    bytes: int
    lines: int | None
    sha256: str
    summary: str
    created_at: datetime


class Hit(Struct, frozen=True):
    """Words that a search found, and where."""

    id: str
    """To be described or expanded: `msg#...`, `sum_...` or `file_...`."""
    kind: Literal["message", "summary", "file"]
    conversation: int
    """The id of its conversation."""
    key: str
    at: datetime
    """When it was said; of a summary, its newest source; of a file, when it came."""
    snippet: str
    """The match and a little around it, on one line, safe to be shown in a terminal."""
    score: float = 0.0
    """How well it answers a full-text question; a higher one is better, within one kind."""
    seq: int | None = None
    role: str | None = None
    leaf: str | None = None
    """The summary that covers a message, or None while the message stands in the context itself."""
    depth: int | None = None
    name: str | None = None
    """A file's."""
    line: int | None = None
    offset: int | None = None
    """Where in a file the match begins, in bytes."""


class Hits(tuple[Hit, ...]):
    """What a search found. It is a sequence of `Hit`s that knows whether there are more."""

    next_cursor: str | None
    """Goes on behind the last hit, or where time ran out; None at the end."""
    complete: bool
    """False if the deadline came before everything was looked at; `next_cursor` goes on there."""
    scanned: int
    """How many texts, or lines of files, were read to find these."""
    unavailable: tuple[str, ...]
    """The ids of files whose bytes are not where they were put."""
    hint: str
    """What to try instead, if the question looks like one for another mode."""
    total: int
    """How many matches there are on all pages."""
    total_is_exact: bool
    """False if there may be more than `total`: counting them would have taken too long."""

    def __new__(
        cls,
        hits: Iterable[Hit] = (),
        next_cursor: str | None = None,
        complete: bool = True,
        scanned: int = 0,
        unavailable: tuple[str, ...] = (),
        hint: str = "",
        total: int = 0,
        total_is_exact: bool = True,
    ) -> Self:
        self = super().__new__(cls, hits)
        self.total, self.total_is_exact = total, total_is_exact
        self.next_cursor, self.complete, self.scanned = next_cursor, complete, scanned
        self.unavailable, self.hint = unavailable, hint
        return self


class Ingested(Struct, frozen=True):
    """What one ingest did."""

    stored: tuple[int, ...] = ()
    """The seqs of the messages that were new, in order."""
    known: int = 0
    """How many were already there."""
    skipped: int = 0
    """How many the host's own predicate asked not to store."""
    copies: int = 0
    """How many carried a known event id with another text: kept beside the first, not shown."""
    collisions: int = 0
    """How many carried the event id of a different message: stored under an id of their own."""
    late: int = 0
    """How many a transcript tells from before something that was stored already: kept, and not shown."""
    redacted: int = 0
    """How many secrets in what was stored were replaced by placeholders."""
    invalid: int = 0
    """How many were not what their types say: stored, what is wrong in them as opaque content."""


class Bootstrapped(Struct, frozen=True):
    """What one reading of a transcript did."""

    reason: str
    """`bootstrapped`, `reconciled missing session messages`, `conversation already up to date`, `already bootstrapped` (the
    file did not change), `no leaf-path messages in session`, `transcript missing`, `transcript unavailable`, `session excluded
    by pattern`, `stateless session`; or `new epoch: ...` and `stored aside: ...` with why it got a conversation of its own."""
    conversation: int | None = None
    """The id of the conversation it was read into."""
    imported: int = 0
    known: int = 0
    """How many the host had told before, or an earlier reading."""
    outside: int = 0
    """How many were stored out of the context: abandoned branches, what a fork has from before, and heartbeats."""
    heartbeats: int = 0
    """How many messages belong to heartbeat turns in which nothing was done."""
    copies: int = 0
    collisions: int = 0
    malformed: int = 0
    """Lines that could not be read."""
    too_long: int = 0
    boundaries: int = 0
    """Where the host had compacted its own context."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Lines of unknown types, by type."""
    offset: int = 0
    size: int = 0


class Compaction(Struct, frozen=True):
    """What one compaction did."""

    summaries: tuple[str, ...]
    """The ids of the summaries that were made, in order."""
    tokens_before: int
    tokens_after: int
    stop: str
    """Why it ended: `compacted`, `below threshold`, `nothing to compact`, `passes`, `deadline`, `rate limit`, `moved`,
    `yielded`, `exhausted` (still over the threshold, and nothing left to summarise). Re-making summaries also ends with
    `auth`, `spend`, `breaker`, `daily limit`, `unavailable` and `in vain` (the model's answers did not serve)."""
    retry_at: datetime | None = None
    """When what holds it back is over, if it is known."""
    without_model: str = ""
    """Why summaries were written without the model, if they were: `auth`, `spend`, `breaker`, `daily limit`,
    `rate limit` or `unavailable`. Such summaries are provisional, and re-made once the model answers."""


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
    """Work that is owed to a conversation, or that failed."""

    key: str
    state: Literal["running", "waiting", "settled"]
    since: datetime
    stop: str = ""
    """How the last try ended."""
    failure: str = ""
    attempts: int = 0
    next_at: datetime | None = None
    """When it is tried again, if that is not now."""
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


class Room(Struct, frozen=True):
    """A directory that is written to, and the room on its volume."""

    path: str
    free: int
    least: int
    """Below which it may be too little for the next write."""
    writable: bool = True


Verdict: TypeAlias = Literal["ok", "quiet", "empty", "warning", "degraded"]


class Reason(Struct, frozen=True):
    """One thing that is not as it should be, in a sentence, and what to do about it."""

    severity: Literal["warning", "degraded"]
    what: str
    """For programs: disabled, full, read-only, behind, unreadable, missing, credentials, held, owed, failed, unattended,
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
    rooms: tuple[Room, ...] = ()
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
    active: bool
    archived_at: datetime | None
    archive_cause: str | None
    created_at: datetime
    updated_at: datetime
    """Of the newest activity."""
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


Severity: TypeAlias = Literal["info", "warn", "error", "critical"]


class Finding(Struct, frozen=True):
    """What a check found, in one conversation or (None) in the database as a whole."""

    check: str
    severity: Severity
    conversation: int | None
    count: int
    samples: tuple[str, ...]
    """Up to 20 of them, by their ids."""
    text: str
    fixable: bool
    fix: str
    """The command that puts it right, if one can."""


class Health(Struct, frozen=True):
    """What a doctor found."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    """The checks that were made."""
    seconds: float

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings that are as bad as that, or worse."""
        levels = get_args(Severity)
        return tuple(each for each in self.findings if levels.index(each.severity) >= levels.index(severity))


class Proof(Struct, frozen=True):
    """Where every message of a conversation is. `context`, `below`, `detached`, `outside` and `tombstones` add up to `messages`."""

    conversation: int
    key: str
    messages: int
    items: int
    """How many items the context has."""
    context: int
    """Messages that stand in the context themselves."""
    below: int
    """Messages below the summaries of the context."""
    detached: dict[str, int]
    """Messages that were taken out of the context, by cause."""
    outside: dict[str, int]
    """Messages that no model is to see, by reason."""
    tombstones: dict[str, int]
    """Messages whose words are gone for good, by reason: only their places are left."""
    missing: int
    repeated: int
    """How many times a message is reached beyond the first."""
    broken: tuple[str, ...]
    """What of the promise does not hold, by name."""
    summaries: int
    witnessed: int
    """Summaries of which it was recorded what they were made from, and that is unchanged."""
    changed: tuple[str, ...]
    """Summaries of which it is not."""

    @property
    def accounted(self) -> int:
        """How many messages are somewhere."""
        beside = (self.detached, self.outside, self.tombstones)
        return self.context + self.below + sum(sum(each.values()) for each in beside)

    @property
    def holds(self) -> bool:
        return self.accounted == self.messages and not (self.missing or self.repeated or self.broken or self.changed)


class FixStep(Struct, frozen=True):
    """One change to derived data."""

    check: str
    action: str
    """`change`, `add`, `remove`, `recount`, `rebuild`, `make` or `erase`."""
    table: str
    key: str
    values: str
    what: str


class Fix(Struct, frozen=True):
    """What a fix changes, or has changed."""

    checks: tuple[str, ...]
    """What was asked for, and what follows from it."""
    steps: tuple[FixStep, ...]
    applied: bool = False
    snapshot: str = ""
    """The copy that was kept: a file beside a SQLite database, a schema in PostgreSQL."""
    before: dict[str, int] = field(default_factory=dict)
    """How many faults each check found."""
    after: dict[str, int] = field(default_factory=dict)
    refused: str = ""
    """Why all of it was taken back, if it was."""


class Junk(Struct, frozen=True):
    """Conversations that a rule says nobody needs."""

    rule: str
    conversations: int
    messages: int
    examples: tuple[str, ...]


class Cleaning(Struct, frozen=True):
    """What a cleaning removes, or has removed; what several rules find counts once."""

    junk: tuple[Junk, ...]
    conversations: int
    messages: int
    applied: bool = False
    archive: str = ""
    """Where it was exported to before."""
    files: int = 0
    """Files that went with them."""
    changed: int = 0
    """How many stayed, because they were written to meanwhile."""
    doubtful: int = 0
    """Payloads of theirs that perhaps another database refers to: they stay."""


class Silent(Struct, frozen=True):
    """A conversation in which nothing was said for long."""

    id: int
    key: str
    active: bool
    messages: int
    newest_at: datetime
    """When its last message was said; of an empty one, when it began."""


class Pruning(Struct, frozen=True):
    """Conversations in which nothing was said since a time, and with `applied` what was removed of them."""

    before: datetime
    conversations: int
    messages: int
    oldest: tuple[Silent, ...] = ()
    """The first of them."""
    applied: bool = False
    archive: str = ""
    """Where they were exported to before; importing it brings them back."""
    changed: int = 0
    """How many stayed, because they were written to meanwhile."""
    files: int = 0
    """Files that went with them."""
    bytes: int = 0
    """That were freed: of the files, and of the database if it was written anew."""
    related: int = 0
    """How many are silent and stay, because one that they belong with is not: which they continue, or whose sub-agent's it is."""
    doubtful: int = 0
    """Payloads of theirs that perhaps another database refers to: they stay."""


class Garbage(Struct, frozen=True):
    """What nobody needs any more, and with `applied` what of it was removed."""

    files: int = 0
    """Payloads on disk that no row refers to."""
    drafts: int = 0
    """What writers left half written that are gone."""
    copies: tuple[str, ...] = ()
    """Copies of the database that were kept before it was changed, older than was asked for."""
    grants: int = 0
    manifests: int = 0
    """What was shown to models, of archived conversations, more than 90 days ago."""
    leases: int = 0
    """Held by workers that are gone."""
    bytes: int = 0
    """On disk, of all of it and of what the database itself does not use; once removed, those that were freed."""
    doubtful: int = 0
    """Payloads that this database does not refer to, and perhaps another one does: they stay."""
    applied: bool = False
    complete: bool = True
    """False if somebody's reading kept the database's log from being emptied."""


class MovedTable(Struct, frozen=True):
    """A table that was moved and found equal in both databases; the hash is over all its rows."""

    name: str
    rows: int
    sha256: str


class Migration(Struct, frozen=True):
    """What was moved from one database to another, and proved to be there."""

    tables: tuple[MovedTable, ...]
    rows: int
    digest: str
    """Over all tables: two databases with the same digest hold the same."""
    files: int
    missing_files: tuple[str, ...]
    """Payloads whose bytes the source had lost before."""
    resumed: bool
    """Whether it was begun before, and taken up again."""
    seconds: float


class Exported(Struct, frozen=True):
    """What an archive holds."""

    path: str
    conversations: int
    messages: int
    summaries: int
    files: int
    bytes: int
    missing_files: tuple[str, ...]
    """Payloads whose bytes could not be read: their rows are in the archive, they are not."""


class Backup(Struct, frozen=True):
    """A backup: one file that holds a database, of all owners, and its payloads."""

    path: str
    bytes: int
    created_at: datetime
    form: str
    """In which the database is in it: `sqlite`, or `pg_dump`."""
    made_by: str
    """The program that copied the database, and why another did not."""
    schema: int
    conversations: int
    messages: int
    summaries: int
    files: int
    missing_files: tuple[str, ...]
    """Payloads whose bytes could not be read: their rows are in the backup, they are not."""
    proved: bool = False
    """Whether the proof was asked for that nothing is lost; that it holds if there are no `flaws`."""
    flaws: tuple[str, ...] = ()


class Restored(Struct, frozen=True):
    """What a restore put in place, or would put there."""

    database: str
    backup: Backup
    replaces: bool
    """Whether there is a database in that place."""
    aside: tuple[str, ...] = ()
    """Where it was put."""
    applied: bool = False
    transcripts: tuple[Lagging, ...] = ()
    """Transcripts that were written to since: hosts read on in them, which brings back what they hold."""
    left_out: int = 0
    """How many of their messages were left out, if that was wanted."""


class Transplant(Struct, frozen=True):
    """What a transplant copies from one conversation into another, or has copied."""

    source: str
    """The keys of both."""
    target: str
    source_tokens: int
    """What their contexts cost before it."""
    target_tokens: int
    tokens: int = 0
    """What it adds to the target's context."""
    depths: dict[int, int] = field(default_factory=dict)
    """How many summaries are copied, by depth."""
    messages: int = 0
    """How many messages lie below them."""
    uncovered: int = 0
    """Messages in the source's context that no summary covers: they are not copied."""
    duplicates: tuple[str, ...] = ()
    """Summaries of the source that stand in the target already, in the same words about the same time."""
    skipped: int = 0
    """How many of the source's context are left out because they are there."""
    applied: bool = False
    made: tuple[str, ...] = ()
    """The ids of the copies that stand in the target's context, in order."""

    @property
    def summaries(self) -> int:
        return sum(self.depths.values())


class Estimate(Struct, frozen=True):
    """About what it takes to compact a history: calls to a model, tokens it reads and writes, tokens that are left."""

    calls: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    tokens_left: int = 0


class Backfill(Struct, frozen=True):
    """What a backfill made of a conversation, or would make."""

    key: str
    paths: tuple[str, ...] = ()
    conversation: int | None = None
    """Its id, once it is there."""
    imported: int = 0
    """How many messages are new."""
    known: int = 0
    model: str = ""
    expected: Estimate = Estimate()
    """What its compaction was expected to take."""
    tokens_before: int = 0
    tokens_after: int = 0
    made: tuple[str, ...] = ()
    """The ids of the summaries, in the order they were made."""
    summaries_left: int = 0
    """In its context."""
    messages_left: int = 0
    applied: bool = False
    failure: str = ""
    """Why it ended before its end, if it did; what was made stays, and the next time goes on from there."""
    transplant: Transplant | None = None


class Forgotten(Struct, frozen=True):
    """What forgetting takes away for good, or has taken: it cannot be undone."""

    key: str
    messages: int
    """How many lose their words; only their places stay."""
    copied: int = 0
    """How many of these are copies that a transplant made in other conversations."""
    summaries: tuple[str, ...] = ()
    """Those that are made anew from what is left, without a model at first."""
    gone: tuple[str, ...] = ()
    """Summaries of which nothing is left."""
    files: tuple[str, ...] = ()
    vectors: int = 0
    other_texts: int = 0
    """That came under the event ids of these messages."""
    pins: int = 0
    backups: tuple[str, ...] = ()
    """Copies, backups and archives beside the database, which may still hold the words."""
    transcripts: tuple[str, ...] = ()
    """Files of hosts that were read here: they hold the words, and are not ours to change."""
    beyond: tuple[str, ...] = ()
    """Where else words may be that we cannot reach, as sentences."""
    applied: bool = False
    sought: int = 0
    """How many of the words were looked for afterwards."""
    left: int = 0
    """How many of them are still among the bytes, in no row."""
    elsewhere: tuple[str, ...] = ()
    """Where the same words stand besides, because somebody else said them too: messages, summaries, files."""
    complete: bool = True
    """False if another session reads an older state, which keeps the deleted bytes: forget again when it is over."""


class Branch(Struct, frozen=True):
    """A summary as a branch to climb down: where it hangs, and what it costs to read."""

    id: str
    above: str | None
    """The summary it is a source of; None for the one that was asked about."""
    steps: int
    """How far below the one that was asked about."""
    path: str
    """Its place among the sources on every step, e.g. `0000.0002`."""
    depth: int
    tokens: int
    below_tokens: int
    """What all summaries below it cost together."""
    source_tokens: int
    """What the messages at the bottom cost."""
    descendants: int
    sources: int
    earliest_at: datetime | None
    latest_at: datetime | None

    @property
    def kind(self) -> Literal["leaf", "condensed"]:
        return "leaf" if self.depth == 0 else "condensed"

    @property
    def cost(self) -> int:
        """Reading it and every summary below it."""
        return self.tokens + self.below_tokens

    @property
    def cost_with_messages(self) -> int:
        return self.cost + self.source_tokens


class TextPage(Struct, frozen=True):
    """Some of a text: the bytes of its UTF-8 form from `start` up to `end`. The pages of a text, put together, are the text."""

    text: str
    start: int
    end: int
    size: int
    """How many bytes the whole text has."""
    first_line: int
    last_line: int
    """The lines it shows, counted from 1; before the first if it shows none."""
    lines: int
    """How many lines the whole text has."""
    ends_line: bool = True
    """Whether it ends where a line does."""

    @property
    def next_line(self) -> int | None:
        """The `start_line` of the next page; None at the end, or in the middle of a line."""
        return self.last_line + 1 if self.end < self.size and self.ends_line else None

    @property
    def next_offset(self) -> int | None:
        """The `offset` of the next page; None at the end."""
        return self.end if self.end < self.size else None


class Description(Struct, frozen=True):
    """What a summary, a message or a file is. `content` is its text, word for word; `head` all that we say about it."""

    id: str
    kind: Literal["summary", "message", "file"]
    conversation: int
    head: str
    content: str
    created_at: datetime
    summary: Summary | None = None
    message: StoredMessage | None = None
    file: StoredFile | None = None
    sources: tuple[str, ...] = ()
    """The summaries it was made from."""
    consumers: tuple[str, ...] = ()
    """The summaries that were made from it."""
    message_ids: tuple[int, ...] = ()
    file_ids: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    """The summary and everything below it, nearest first, each once."""
    more: int = 0
    """How many branches beyond those listed."""
    cap: int = 0
    """The tokens that a reading may cost, by which branches fit or do not."""
    truncated: bool = False
    """Whether there is more of what was asked for than `content` shows."""
    page: TextPage | None = None
    """Which part of its text `content` shows, and where the next one starts; None where there is no text to show."""

    @property
    def text(self) -> str:
        return f"{self.head}\n{self.content}" if self.content else self.head


class ListedSummary(Struct, frozen=True):
    """One summary of a list: what it stands for, where it stands, and what is to be said against it."""

    id: str
    conversation: int
    kind: Literal["leaf", "condensed"]
    depth: int
    tokens: int
    source_tokens: int
    """What the messages below it cost."""
    descendants: int
    """How many summaries lie below it."""
    sources: int
    """How many messages, or summaries, it was made from."""
    consumers: int
    """How many summaries were made from it."""
    earliest_at: datetime | None
    latest_at: datetime | None
    created_at: datetime
    model: str
    level: str
    revision: int
    place: str
    """`context`; `below` others; or why it left the context (`new`, `dissolved`, ...); `nowhere` is for a doctor."""
    flags: tuple[str, ...]
    """`provisional` (no model wrote it), `cut`, `stale` (a source was made anew since), `unfaithful`."""
    faithful: float | None
    """Which share of its claims its sources bear out, if that was looked at."""
    preview: str
    messages: int | None = None
    """How many messages lie below it; None where nobody counted, as below more than 1,000 summaries in a list."""
    content: str | None = None
    """All of its text, where that was asked for."""


class SummarySource(Struct, frozen=True):
    """A message that a leaf was made from."""

    id: str
    seq: int
    role: str
    tokens: int
    at: datetime
    preview: str


class ShownSummary(Struct, frozen=True):
    """Everything about one summary."""

    key: str
    summary: ListedSummary
    consumers: tuple[ListedSummary, ...]
    """What was made from it, by depth and id."""
    sources: tuple[ListedSummary, ...]
    """The summaries it was made from, in order."""
    messages: tuple[SummarySource, ...]
    """The messages it was made from, in order."""
    file_ids: tuple[str, ...]
    prompt_version: str | None
    origin: str | None
    """The summary of another conversation that it is a copy of."""
    revisions: int
    """How many texts of it there are, the present one included."""


class MessageRun(Struct, frozen=True):
    """Messages that stand together in a context, or that left it for one cause."""

    first: str
    last: str
    messages: int
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None


class TreeEntry(Struct, frozen=True):
    """One line of a tree: a summary, or messages that stand together."""

    steps: int
    """How far below the context."""
    above: str | None
    """The summary it is a source of."""
    summary: ListedSummary | None = None
    messages: MessageRun | None = None
    cause: str = ""
    """Why it left the context, if it did."""
    repeated: bool = False
    """It stands further up with all that is below it."""
    hidden: int = 0
    """How many summaries below it are not told."""


class Tree(Struct, frozen=True):
    """A context with what lies below it, in order, the oldest first."""

    key: str
    tokens: int
    source_tokens: int
    """What the messages below it, and in it, cost."""
    summaries: int
    """How many stand in it themselves."""
    messages: int
    entries: tuple[TreeEntry, ...]
    aside: tuple[TreeEntry, ...] = ()
    """What left the context, in the same way."""
    older: int = 0
    """How many entries before the first are left out."""

    @property
    def hidden(self) -> int:
        """How many summaries are not told."""
        return sum(each.hidden for each in (*self.entries, *self.aside))


class Revision(Struct, frozen=True):
    """One of the texts that a summary has had."""

    number: int
    at: datetime
    model: str
    level: str
    tokens: int
    prompt_version: str | None
    faithful: float | None
    operation: str | None
    """What `undo` takes, if an operation wrote it."""
    text: str


class Comparison(Struct, frozen=True):
    """Two texts of a summary; `diff` is empty where they are the same, or where there is only one."""

    id: str
    old: int | None
    new: int
    diff: str


class Nearest(Struct, frozen=True):
    """What somebody may have meant who named something that is not there."""

    names: tuple[str, ...] = ()
    note: str = ""
    """A sentence about what there is."""


class Excerpt(Struct, frozen=True):
    """Old words: those of a message, of a summary or of a file, exactly as they are stored."""

    id: str
    kind: Literal["summary", "message", "file"]
    conversation: int
    text: str
    tokens: int
    """What it costs a model to read."""
    at: datetime | None
    seq: int | None = None
    role: str | None = None
    depth: int | None = None
    above: str | None = None
    """The summary it is a source of, as far as it was reached through one."""
    start: int = 0
    """How many characters of it came before these, when it takes several pages."""
    level: str | None = None
    """Of a summary: `normal`, `aggressive`, `extractive` (written without a model) or `cut`."""
    suspected: str = ""
    """Of a summary: how many of its claims were not found in its sources."""


class Skipped(Struct, frozen=True):
    """What did not fit into an expansion, and what it would cost."""

    id: str
    tokens: int


class Expansion(Struct, frozen=True):
    """What an expansion gave, and where it goes on."""

    items: tuple[Excerpt, ...]
    tokens: int
    truncated: bool = False
    next: str | None = None
    """The cursor with which the same call goes on where this one stopped."""
    skipped: tuple[Skipped, ...] = ()
    closed: tuple[str, ...] = ()
    """Leaves whose messages were not asked for."""

    @property
    def text(self) -> str:
        """The exact words, each under a line that says whose they are. To show them to a model, use `lossless.tools`."""
        return "\n\n".join(f"[{_headline(item)}]\n{item.text}" for item in self.items)


def _headline(item: Excerpt) -> str:
    who = item.role if item.kind == "message" else f"summary, depth {item.depth}"
    said = f"{item.at:%Y-%m-%d %H:%M} UTC" if item.at else ""
    return " | ".join(filter(None, (item.id, who, said)))


class Evidence(Struct, frozen=True):
    """Words that bear on a question: they stand in the history exactly so."""

    id: str
    quote: str
    at: datetime | None
    seq: int | None = None
    conversation: int = 0


class Share(Struct, frozen=True):
    """What one conversation, or one family of them, had to say to a question."""

    conversation: int
    status: Literal["success", "failed", "skipped"]
    expanded: int = 0
    cited_ids: tuple[str, ...] = ()
    source_tokens: int = 0
    truncated: bool = False
    summary_ids: tuple[str, ...] = ()
    phase: str = ""
    elapsed_ms: int = 0
    error_code: str = ""
    error: str = ""


class Answer(Struct, frozen=True):
    """The answer to a question about the past. Without a model it is empty, and the evidence is there."""

    answer: str
    evidence: tuple[Evidence, ...] = ()
    cited_ids: tuple[str, ...] = ()
    """Only ids of what was really read for it."""
    dropped: tuple[str, ...] = ()
    """What a model cited or quoted that was never read, or does not stand there."""
    conversations: tuple[int, ...] = ()
    expanded: int = 0
    """How many summaries were opened."""
    source_tokens: int = 0
    """How many tokens of history were read."""
    truncated: bool = False
    breakdown: tuple[Share, ...] = ()
    model: str = ""
    error: str = ""
    """What went wrong, if there is no answer because of it."""
    error_code: str = ""


class PlannedHistory(Struct, frozen=True):
    """A conversation of another system, and what an import would do with it."""

    ref: str
    """The other system's id of it."""
    key: str
    messages: int
    summaries: int
    files: int
    state: Literal["new", "begun", "here"]
    """Nothing of it is here, an import of it was cut off, or all of it is here."""
    active: bool
    """Whether it would be the conversation in use under its key; if not, it is archived beside that one."""


class ImportPlan(Struct, frozen=True):
    """What an import would do."""

    system: str
    version: str
    identity: str
    histories: tuple[PlannedHistory, ...]
    unmapped: tuple[str, ...]
    """What has no place here, as sentences."""


class ImportedHistory(Struct, frozen=True):
    """A conversation that came from another system."""

    ref: str
    key: str
    conversation: int
    messages: int
    summaries: int
    files: int
    active: bool
    changed: tuple[str, ...] = ()
    """What could not stay as it was, as sentences."""
    problems: tuple[str, ...] = ()
    """What of the promise does not hold for it; empty when it was proven whole."""


class Imported(Struct, frozen=True):
    """What an import did."""

    system: str
    histories: tuple[ImportedHistory, ...]
    unmapped: tuple[str, ...]
    verified: bool
    """Whether every message is here, exactly once below its context or listed beside it."""


class ImportedSource(Struct, frozen=True):
    """A transcript, a database or an archive, and what an import did with it, or would do."""

    path: str
    status: Literal["would-import", "imported", "up-to-date", "skipped", "error"]
    kind: str = ""
    """`openclaw`, `claude_code`, `codex` or `messages`; `lossless-claw`, `hermes-lcm` or `lossless` (an archive)."""
    key: str = ""
    """The conversation's, where there is one."""
    messages: int = 0
    """How many are new."""
    known: int = 0
    outside: int = 0
    """How many of the new ones are stored out of the context."""
    conversations: int = 0
    summaries: int = 0
    """That came along."""
    skipped: dict[str, int] = field(default_factory=dict)
    """What is no message, by reason: malformed, too long, and unknown types by their names."""
    reason: str = ""
    """Why it was skipped, or what is wrong with it."""
    notes: tuple[str, ...] = ()
    """What has no place here, or could not stay as it was, as sentences."""
    histories: tuple[PlannedHistory, ...] | tuple[ImportedHistory, ...] = ()
    """The conversations of a database or an archive, as they would come, or came."""


class ImportReport(Struct, frozen=True):
    """What an import did, or would do, source by source."""

    sources: tuple[ImportedSource, ...]
    applied: bool
    left: int = 0
    """How many sources were not looked into: older than `since`, or more than `limit`."""

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.sources)

    @property
    def errors(self) -> tuple[ImportedSource, ...]:
        return tuple(each for each in self.sources if each.status == "error")


class Step(Struct, frozen=True):
    """One summary of a plan, and what became of it."""

    id: str
    depth: int
    sources: int
    """How many messages, or summaries, it is made from."""
    tokens: int
    input_tokens: int
    """About what is read for it."""
    output_tokens: int
    """About what is written."""
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    reason: str = ""
    """Why it is in the plan: chosen, provisional, marked, truncated, unfaithful, follows (its sources), returns."""
    state: Literal["planned", "drafted", "written", "kept", "failed"] = "planned"
    """`drafted`: there is a new text that was not written. `kept`: it stays as it is, and `note` tells why."""
    old: str = ""
    new: str = ""
    new_tokens: int = 0
    note: str = ""

    @property
    def diff(self) -> str:
        """The old text against the new one, as a unified diff."""
        from difflib import unified_diff

        before, after = self.old.splitlines(), self.new.splitlines()
        return "\n".join(unified_diff(before, after, f"{self.id} (old)", f"{self.id} (new)", lineterm=""))


class Plan(Struct, frozen=True):
    """What an operation on old data would do, and what it costs."""

    kind: Literal["rewrite", "repair", "dissolve", "merge"]
    conversation: str
    steps: tuple[Step, ...] = ()
    model: str = ""
    cost: float | None = None
    """About how many US dollars, where the model's price is known."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Of the context, where the operation changes which items it has."""
    review: tuple[str, ...] = ()
    """What stands against it, as sentences: then nothing is done."""

    @property
    def input_tokens(self) -> int:
        return sum(step.input_tokens for step in self.steps)

    @property
    def output_tokens(self) -> int:
        return sum(step.output_tokens for step in self.steps)


class Applied(Struct, frozen=True):
    """A plan, and what came of it."""

    plan: Plan
    status: Literal["planned", "drafted", "partly", "applied"]
    """`planned`: nothing was asked or written. `drafted`: a model was asked, nothing was written. `partly`: not all of it."""
    steps: tuple[Step, ...] = ()
    operation: str | None = None
    """What `undo` and `resume` take, if anything was written."""
    problem: str = ""
    """Why it ended early, if it did."""


class Operation(Struct, frozen=True):
    """Something that was done to old data."""

    id: str
    kind: str
    conversation: str
    at: datetime
    status: Literal["planned", "partly", "applied", "undone"]
    summary: str
    """What it was, in a sentence."""
