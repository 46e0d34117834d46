"""Accept messages, a turn or a whole conversation, and store what is new, exactly once.

One transaction per call: rows, search index, context items, files' rows and the cursor. A message with an
event id is known by it; one without is new, unless the host says that it resends everything (`whole`).
Nothing is refused for its content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, ValidationError, convert, field, structs, to_builtins

from lossless.engine.ingest import invalid_messages
from lossless.engine.ingest import large_content as payloads
from lossless.engine.ingest.duplicates import Told, look_back
from lossless.engine.ingest.identity import Canonicalize, continues, digest, new_part, tool_ids
from lossless.engine.ingest.large_content import Payload
from lossless.engine.ingest.two_sources import PROGRESS, Said, Stream, provider_key
from lossless.engine.sessions import begun_after, replace_system
from lossless.engine.shared.file_store import Files
from lossless.errors import InvalidInput, StoreError
from lossless.events import Event, Hook
from lossless.model import INSTRUCTIONS, Ingested, Message, Text, ToolCall, instant
from lossless.patterns import is_scheduled
from lossless.store import jsontext, rows
from lossless.store.base import BURIED, ConversationRow, FileRow, KnownEvent, MessageRow, NewMessage
from lossless.store.store import Store
from lossless.tokens import estimate_bytes, message_tokens

if TYPE_CHECKING:
    from lossless.engine.ingest.explore import Explore
    from lossless.engine.ingest.secrets import Redactor
    from lossless.transcripts.base import Header

Skip: TypeAlias = Callable[[Message], bool]
Along: TypeAlias = Callable[[ConversationRow], None]
"""A message without its secrets, and how many there were."""

SHOWN = frozenset({"user", "assistant", "system", "developer", "tool"})
_WHOLE = "whole"
_FAILED = frozenset({"error", "aborted"})


class Intake(Struct, frozen=True):
    """How a conversation takes messages in."""

    key: str
    session: str | None
    threshold: int
    canonicalize: Canonicalize
    skip: Skip | None
    on_event: Hook
    now: Callable[[], int]
    explore: Callable[[], Explore] | None = None
    """Gives what describes large texts in place of `lossless.engine.ingest.explore`, once for each delivery."""
    conversation_id: int | None = None
    """Which conversation under the key it is, where it is not simply the active one."""
    stream: Stream = "live"
    outside: Callable[[Sequence[Message]], Mapping[int, str]] | None = None
    """Why some messages (by index) are kept out of the context, beyond what their roles say."""
    timeless: frozenset[str | None] = frozenset()
    """The event ids of messages whose time is not their own but that of the line they stood in."""
    placed: bool = False
    """Whether event ids only say where a message stood: another text under one is another message."""
    closed: Callable[[str], bool] | None = None
    """Whether nothing may be stored under a key."""
    followed: bool = False
    """Whether a transcript is there that tells what is delivered as well."""
    redact: Redactor | None = None

    def without_secrets(self, header: Header) -> Header:
        """What a transcript says about itself, as it is stored."""
        if self.redact is None:
            return header
        named = {
            name: getattr(header, name) for name in ("session", "key", "parent_session", "parent_key", "directory")
        }
        return structs.replace(header, **{name: self.redact.identifier(it) for name, it in named.items() if it})

    def entry_id(self, name: str) -> str:
        """Return the id of a transcript's entry as it is stored, which is the event id of its message."""
        return name if self.redact is None else self.redact.identifier(name)

    def cleaned(self, message: Message) -> Message:
        """The message as it is stored, and as it counts for identity."""
        return self.redact(message)[0] if self.redact else message


class _Arrival(Struct, gc=False):
    """A delivered message on its way into a row."""

    message: Message
    digest: bytes
    event_key: str | None
    row: NewMessage | None = None
    """None while large content has not left the message yet."""
    payloads: Sequence[Payload] = ()
    redacted: int = 0
    outside: str | None = None
    wrong: str = ""
    """What was wrong with the message as it came."""


class _Decision(Struct):
    """What a delivery comes to, given what is stored."""

    new: list[_Arrival]
    copies: list[tuple[int, _Arrival]]
    known: int = 0
    renamed: dict[int, str] = {}
    """The event ids of arrivals (by identity) whose own id belongs to another message."""
    cursor: dict[str, Any] | None = None
    aliases: dict[str, int] = {}
    """Second names of stored messages: the host's for what its transcript told first, or the other way round."""
    told: Told = field(default_factory=Told)
    late: frozenset[int] = frozenset()
    """Arrivals (by identity) that a transcript tells before something that is stored already."""


def ingest(
    store: Store,
    files: Files,
    intake: Intake,
    messages: Iterable[Message],
    *,
    whole: bool = False,
    along: Along | None = None,
) -> Ingested:
    """Store what is new of the messages, in order. Raises with nothing stored, or returns with everything stored.

    `along` writes whatever else there is for the conversation, in the same transaction.
    """
    wanted = list(messages)
    refuse_others(wanted)
    skipped = 0
    if intake.skip:
        delivered = wanted
        wanted = [message for message in delivered if not intake.skip(message)]
        skipped = len(delivered) - len(wanted)
    if not wanted:
        return Ingested(skipped=skipped)
    now = intake.now()
    arrivals = [_arrive(message, intake, now) for message in wanted]
    if intake.outside:
        for at, reason in intake.outside([arrival.message for arrival in arrivals]).items():
            arrivals[at] = _kept_out(arrivals[at], reason)
    created: list[Payload] = []
    try:
        _lighten(store, files, intake, arrivals, whole, created)
        try:
            done = _write(store, files, intake, arrivals, whole, skipped, along)
        except _Overtaken:
            _lighten(store, files, intake, arrivals, whole, created, known_too=True)
            done = _write(store, files, intake, arrivals, whole, skipped, along)
    except BaseException:
        sweep(store, files, created)
        raise
    _tell(intake, done)
    wrong = [arrival for arrival in arrivals if arrival.wrong]
    if wrong:
        _report_invalid(intake, wrong)
    return structs.replace(done, invalid=len(wrong)) if wrong else done


class _Overtaken(Exception):
    """Another delivery came in between, and more of this one is new than it looked: it is lightened again."""


def refuse_others(values: Sequence[object]) -> None:
    """Raise if one of the values is not a Message."""
    for at, value in enumerate(values):
        if not isinstance(value, Message):
            raise InvalidInput(
                f"messages[{at}] is a {type(value).__name__}, not a Message.",
                hint="Wire formats are loaded with lossless.formats, e.g. openai_chat.load(...).",
            )


def _arrive(message: Message, intake: Intake, now: int) -> _Arrival:
    """Return the identity of a message and, if nothing of it must leave, its row. What is invalid in it becomes opaque."""
    try:
        return _accepted(message, intake, now)
    except _INVALID as error:
        wrong = _why(message, error)
    arrival = _accepted(invalid_messages.repaired(message), intake, now)
    arrival.wrong = wrong
    return arrival


_INVALID = (TypeError, ValueError, AttributeError, RecursionError)


def _accepted(message: Message, intake: Intake, now: int) -> _Arrival:
    found = 0
    if intake.redact:
        message, found = intake.redact(message)
    witness, key = digest(message, intake.canonicalize), rows.event_key(message.event_id)
    if payloads.is_heavy(message, intake.threshold):
        invalid_messages.check(message)  # its row is made later, when it is too late to repair it
        return _Arrival(message, witness, key, redacted=found)
    return _Arrival(message, witness, key, _row(message, witness, key, now, None), (), found)


def _kept_out(arrival: _Arrival, reason: str) -> _Arrival:
    row = arrival.row and structs.replace(arrival.row, outside=arrival.row.outside or reason)
    return structs.replace(arrival, outside=reason, row=row)


def _why(message: Message, error: Exception) -> str:
    """What is wrong with a message, by its path, where its types tell."""
    try:
        convert(to_builtins(message), type=Message)
    except (ValidationError, TypeError, RecursionError) as found:
        return str(found)
    return str(error)


def _row(view: Message, witness: bytes, key: str | None, now: int, outside: str | None) -> NewMessage:
    text, parts, meta = rows.encode(view, key)
    plain = parts is None and meta is None
    tokens = estimate_bytes(text.encode()) + _PLAIN_OVERHEAD if plain else message_tokens(view)
    role = view.role
    return NewMessage(
        role if role in SHOWN else jsontext.cleaned(role),
        text,
        parts,
        meta,
        tokens,
        witness,
        _time(view),
        now,
        key,
        (None if role in SHOWN and not view.stop else _outside(view)) or outside,
    )


_PLAIN_OVERHEAD = message_tokens(Message("user", (Text(""),)))


def _outside(message: Message) -> str | None:
    """Why a message is stored but not shown to a model, if so."""
    if message.role not in SHOWN:
        return "role"
    if message.role == "assistant" and message.stop in _FAILED and not _says_anything(message):
        return "errored"
    return None


def _says_anything(message: Message) -> bool:
    return any(not isinstance(part, Text) or part.text for part in message.parts)


def _lighten(
    store: Store,
    files: Files,
    intake: Intake,
    arrivals: list[_Arrival],
    whole: bool,
    created: list[Payload],
    *,
    known_too: bool = False,
) -> None:
    """Rows for heavy messages that are not stored yet, their payloads written first and noted in `created`.

    Known messages are sorted out before any file is written, and files before any transaction: making a
    summary of a large file takes its time.
    """
    if all(arrival.row for arrival in arrivals):
        return
    conversation = _conversation(store, intake)
    decision = _Decision(arrivals, [])
    if conversation is not None and not known_too:
        decision = _decide(store, conversation, intake, arrivals, whole)
    tools = _tools(store, conversation, arrivals)
    explore = _once(intake.explore(), store, conversation) if intake.explore else None
    arriving = [*decision.new, *(arrival for _, arrival in decision.copies)]
    if conversation is not None:
        unknown = set(map(id, arriving))
        heavy = [arrival for arrival in arrivals if arrival.row is None and id(arrival) not in unknown]
        if heavy:
            _repair(store, files, intake, conversation, tools, heavy)
    for arrival in arriving:
        if arrival.row is None:
            view, arrival.payloads = payloads.leave(arrival.message, intake.threshold, tools, explore)
            arrival.row = _row(view, arrival.digest, arrival.event_key, intake.now(), arrival.outside)
            for payload in arrival.payloads:
                if files.put(payload.sha256, payload.data):
                    created.append(payload)  # noqa: PERF401 - one by one, so that a failure finds those before it


def _repair(
    store: Store,
    files: Files,
    intake: Intake,
    conversation: ConversationRow,
    tools: dict[str, str],
    heavy: Sequence[_Arrival],
) -> None:
    """Write the payloads of known messages again whose files are missing or of another size.

    Nothing is read or hashed while sizes are right: a host may send its whole history with every turn.
    """
    wrong = {row.sha256 for row in store.files.of_conversation(conversation.id) if files.size(row.sha256) != row.bytes}
    if not wrong:
        return
    found = [payload for each in heavy for payload in payloads.leave(each.message, intake.threshold, tools, _unread)[1]]
    lost = list({payload.sha256: payload for payload in found if payload.sha256 in wrong}.values())
    facts: dict[str, Any] = {"conversation": intake.key, "files": [payload.id for payload in lost]}
    try:
        with store.transaction():
            store.hold_files(alone=False)
            for payload in lost:
                if store.files.is_used(payload.sha256):  # not forgotten meanwhile
                    files.put(payload.sha256, payload.data)
    except StoreError as error:  # the messages are stored; only their files could not be written
        message = f"{len(lost)} payload(s) of {intake.key} are missing or damaged, and cannot be repaired: {error}"
        intake.on_event(Event("file.unavailable", message, "error", facts))
    else:
        message = f"{len(lost)} payload(s) of {intake.key} were missing or damaged; their messages came again and repaired them"
        if lost:
            intake.on_event(Event("file.repaired", message, "info", facts))


def _unread(text: str, name: str | None, mime: str | None) -> str:
    return ""


def _conversation(store: Store, intake: Intake) -> ConversationRow | None:
    if intake.conversation_id is not None:
        return store.conversations.get(intake.conversation_id)
    if intake.session is not None and is_scheduled(intake.key):
        return store.conversations.with_session(intake.key, intake.session)
    return store.conversations.active(intake.key)


def _held(store: Store, intake: Intake, now: int) -> ConversationRow:
    if intake.conversation_id is None:
        return store.conversations.lock(intake.key, intake.session, now)
    return store.conversations.hold(intake.conversation_id)


def _once(explore: Explore, store: Store, conversation: ConversationRow | None) -> Explore:
    """The same, but what this conversation holds already is told as before: nobody pays twice for one content."""
    told: dict[str, str] = {}

    def remembered(text: str, name: str | None, mime: str | None) -> str:
        file_id = payloads.file_id(sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        if file_id not in told:
            known = store.files.get(conversation.id, file_id) if conversation else None
            told[file_id] = known.summary if known else explore(text, name, mime)
        return told[file_id]

    return remembered


def _tools(store: Store, conversation: ConversationRow | None, arrivals: list[_Arrival]) -> dict[str, str]:
    """Which tool each recent call was for: most formats name it in the call and not in the result."""
    recent = (
        store.messages.read(conversation.id, after=max(0, conversation.next_seq - 1 - _RECENT)) if conversation else []
    )
    messages = [rows.message_of(row) for row in recent if row.parts]
    messages += [arrival.message for arrival in arrivals]
    return {part.call_id: part.name for m in messages for part in m.parts if isinstance(part, ToolCall)}


_RECENT = 20


def _write(
    store: Store,
    files: Files,
    intake: Intake,
    arrivals: list[_Arrival],
    whole: bool,
    skipped: int,
    along: Along | None,
) -> Ingested:
    with store.transaction():
        now = intake.now()
        conversation = _held(store, intake, now)
        if along:
            along(conversation)
        decision = _decide(store, conversation, intake, arrivals, whole)
        fresh = [_ready(arrival, decision) for arrival in decision.new]
        if conversation.renewed_at is not None and any(
            each.role in INSTRUCTIONS and not each.outside for each in fresh
        ):
            replace_system(store, conversation)
        if fresh:
            store.messages.append(conversation, fresh, now)
        copies = sum(
            store.messages.keep_copy(conversation.id, seq, _ready(arrival, decision))
            for seq, arrival in decision.copies
        )
        arriving = [*decision.new, *(arrival for _, arrival in decision.copies)]
        for payload in [payload for arrival in arriving if arrival.payloads for payload in arrival.payloads]:
            _add_file(store, files, conversation.id, payload, now)
        if (conversation.transcribed or intake.stream == "transcript") and not whole:
            _go_on(store, conversation, intake, decision, fresh, now)
        if decision.cursor is not None:
            decision.cursor["seq"] = conversation.next_seq - 1 + len(fresh)
            store.state.set_cursor(conversation.id, _source(intake.session), decision.cursor, now)
        first, redacted = conversation.next_seq, sum(arrival.redacted for arrival in arriving)
        stored = tuple(range(first, first + len(fresh)))
        late = len(decision.late)
        return Ingested(stored, decision.known, skipped, copies, len(decision.renamed), redacted=redacted, late=late)


def _go_on(
    store: Store, conversation: ConversationRow, intake: Intake, decision: _Decision, fresh: list[NewMessage], now: int
) -> None:
    """Note how far this side has told, and the second names it gave."""
    if decision.aliases:
        store.messages.add_aliases(conversation.id, decision.aliases)
    progress = decision.told.progress
    if fresh:
        first = conversation.next_seq
        progress.store(intake.stream, first, first + len(fresh) - 1, decision.told.pending)
        progress.newest = max([progress.newest, *(row.at for row in fresh if row.at is not None)])
        progress.timeless = progress.timeless or bool(intake.timeless)
    if progress.has_moved:
        store.state.set_cursor(conversation.id, PROGRESS, progress.dump(), now)


def _ready(arrival: _Arrival, decision: _Decision) -> NewMessage:
    row = arrival.row
    if row is None:
        raise _Overtaken
    if id(arrival) in decision.renamed:
        row = structs.replace(row, event_id=decision.renamed[id(arrival)])
    if id(arrival) in decision.late:
        row = structs.replace(row, outside=row.outside or "late")
    return row


def _add_file(store: Store, files: Files, conversation_id: int, payload: Payload, now: int) -> None:
    # Nobody sweeps while we hold this: if the bytes went before, they are put back.
    store.hold_files(alone=False)
    if not files.exists(payload.sha256):
        files.put(payload.sha256, payload.data)
    name, mime = (None if value is None else jsontext.cleaned(value) for value in (payload.name, payload.mime))
    row = FileRow(payload.id, payload.sha256, name, mime, len(payload.data), payload.lines, payload.summary, now)
    store.files.add(conversation_id, row)


def sweep(store: Store, files: Files, created: Sequence[Payload]) -> None:
    """Remove the payloads of a call that failed, unless somebody else refers to the same bytes by now."""
    if not created:
        return
    # If the database or the disk does not even answer, the bytes stay behind, harmless: the next to send them uses them.
    with suppress(StoreError, OSError), store.transaction():
        store.hold_files(alone=True)
        for payload in created:
            if not store.files.is_used(payload.sha256):
                files.remove(payload.sha256)


def _decide(
    store: Store, conversation: ConversationRow, intake: Intake, arrivals: list[_Arrival], whole: bool
) -> _Decision:
    """Which arrivals are new, given what is stored: each is known by its event id, or by its place if it has none."""
    decision = _Decision([], [])
    keys = [arrival.event_key for arrival in arrivals if arrival.event_key is not None]
    twice = (conversation.transcribed or intake.stream == "transcript") and not whole
    events: dict[str, KnownEvent] = {}
    if keys and conversation.next_seq > 1:
        events = store.messages.known_events(conversation.id, keys, aliases=twice or conversation.transcribed)
    claimed: dict[int, MessageRow | None] = {}
    if twice:
        claimed = _told_before(store, conversation, intake, arrivals, events, decision)
    nameless = [arrival for arrival in arrivals if arrival.event_key is None]
    named = {event.seq for event in events.values()}
    resent = _resent(store, conversation, intake, nameless, named, decision) if whole and nameless else frozenset()
    batch: dict[str, tuple[int, _Arrival]] = {}
    for arrival in arrivals:
        key = arrival.event_key
        if id(arrival) in claimed:
            known = True
            row = claimed[id(arrival)]
            if row is not None and row.digest != arrival.digest and row.outside not in BURIED:
                decision.copies.append((row.seq, arrival))
        elif key is None:
            known = id(arrival) in resent
        elif key in events:
            event = events[key]
            known = _is_same(event, arrival, intake) or _settle(
                store, conversation, intake, arrival, event.seq, event.role, _calls(event.parts), decision, batch
            )
        elif key in batch:
            seq, first = batch[key]
            known = first.digest == arrival.digest or _settle(
                store, conversation, intake, arrival, seq, first.message.role, tool_ids(first.message), decision, batch
            )
        else:
            batch[key] = (conversation.next_seq + len(decision.new), arrival)
            known = False
        if known:
            decision.known += 1
            if intake.stream == "transcript":
                decision.late = frozenset(map(id, decision.new))
        else:
            decision.new.append(arrival)
    return decision


def _is_same(event: KnownEvent, arrival: _Arrival, intake: Intake) -> bool:
    """Whether an arrival is what is stored under its id. What was buried there does not come back, whatever it says now."""
    buried = event.is_buried and not intake.placed and jsontext.cleaned(arrival.message.role) == event.role
    return buried or event.digest == arrival.digest


def _told_before(
    store: Store,
    conversation: ConversationRow,
    intake: Intake,
    arrivals: list[_Arrival],
    events: dict[str, KnownEvent],
    decision: _Decision,
) -> dict[int, MessageRow | None]:
    """The arrivals (by identity) that the host or its transcript has told already, with what is stored of them."""
    unknown = [each for each in arrivals if each.event_key is None or each.event_key not in events]
    incoming = [
        Said(each.digest, _own_time(each.message, intake), provider_key(each.message), each.event_key is not None)
        for each in unknown
    ]
    seqs = [event.seq for event in events.values()]
    told = decision.told = look_back(store, conversation, intake.stream, incoming, seqs, followed=intake.followed)
    names = {unknown[at].event_key: row.seq for at, row in told.rows.items()}
    decision.aliases = {name: seq for name, seq in names.items() if name is not None}
    found = {id(unknown[at]): row for at, row in told.rows.items()}
    return {**dict.fromkeys(id(unknown[at]) for at in told.twins), **found}


def _time(message: Message) -> int | None:
    at = message.at
    return None if at is None else rows.micros(at if at.tzinfo else instant(at) or at)


def _own_time(message: Message, intake: Intake) -> int | None:
    return None if intake.timeless and message.event_id in intake.timeless else _time(message)


def _settle(
    store: Store,
    conversation: ConversationRow,
    intake: Intake,
    arrival: _Arrival,
    seq: int,
    role: str,
    calls: tuple[str, ...],
    decision: _Decision,
    batch: dict[str, tuple[int, _Arrival]],
) -> bool:
    """Another content under a known event id: a copy of that message, or a different one. True if it is stored.

    With the same role and the same tool calls it is the same message in another dress, kept beside the first.
    Otherwise a host has used the id twice: the message gets an id of its own, made from its content so that
    sending it again changes nothing.
    """
    message = arrival.message
    if not intake.placed and jsontext.cleaned(message.role) == role and tool_ids(message) == calls:
        decision.copies.append((seq, arrival))
        return True
    name = f"{arrival.event_key}#{arrival.digest.hex()}"
    if name in batch or store.messages.known_events(conversation.id, [name]):
        return True
    batch[name] = (conversation.next_seq + len(decision.new), arrival)
    decision.renamed[id(arrival)] = name
    return False


def _calls(parts: str | None) -> tuple[str, ...]:
    if parts is None:
        return ()
    return tuple(piece["call_id"] for piece in jsontext.loads(parts) if "call_id" in piece)


def _resent(
    store: Store,
    conversation: ConversationRow,
    intake: Intake,
    arrivals: list[_Arrival],
    named: set[int],
    decision: _Decision,
) -> frozenset[int]:
    """Return the arrivals (by identity) that a host which always sends everything has sent before.

    The cursor remembers its last delivery, so that only what came in since then is read. If that explains little, as when
    the host sent something short in between, all that its list may hold is compared once: what was said since the last
    /new, or everything if the host kept its list then. Messages that this delivery names by their event ids (`named`,
    by seq) answer for themselves only.
    """
    digests = [arrival.digest[:WITNESS] for arrival in arrivals]
    cursor = _last_list(store, conversation, intake.session)
    last, since = _delivered(cursor), cursor["seq"]
    start = _list_start(store, conversation, cursor, digests)
    if since <= start:  # what was delivered before a /new is not in the host's list any more
        last, since = [], start
    new = set(new_part([*last, *_stored_since(store, conversation, since, named)], digests))
    if 2 * len(new) > len(digests) and since > start:
        new = min(new, set(new_part(_stored_since(store, conversation, start, named), digests)), key=len)
    decision.cursor = {"sent": b"".join(digests).hex(), "from": start}
    return frozenset(id(arrival) for at, arrival in enumerate(arrivals) if at not in new)


def list_start(
    store: Store, conversation: ConversationRow, session: str | None, digests: Callable[[], Sequence[bytes]]
) -> int:
    """Return the seq behind which the host's own list of messages begins: 0, or where it was cleared by a /new."""
    if not begun_after(store, conversation):
        return 0
    shortened = [each[:WITNESS] for each in digests()]
    return _list_start(store, conversation, _last_list(store, conversation, session), shortened)


def _list_start(store: Store, conversation: ConversationRow, cursor: dict[str, Any], digests: Sequence[bytes]) -> int:
    begun = begun_after(store, conversation)
    if cursor["seq"] > begun:
        return int(cursor.get("from", begun))
    if begun and not _kept_its_list(store, conversation, _delivered(cursor), digests):
        return begun
    return int(cursor.get("from", 0))


def _kept_its_list(
    store: Store, conversation: ConversationRow, last: Sequence[bytes], digests: Sequence[bytes]
) -> bool:
    """Return whether the first list after a /new still holds the messages from before it."""
    if last:
        return digests[: len(last)] == last or continues(last, digests)
    if len(digests) < conversation.next_seq - 1:
        return False
    return continues([each[:WITNESS] for each in store.messages.digests(conversation.id)], digests)


def _stored_since(store: Store, conversation: ConversationRow, seq: int, named: set[int]) -> list[bytes]:
    if seq >= conversation.next_seq - 1:
        return []
    found = enumerate(store.messages.digests(conversation.id, after=seq), seq + 1)
    return [stored[:WITNESS] for at, stored in found if at not in named]


def _source(session: str | None) -> str:
    return f"{_WHOLE}:{session}" if session else _WHOLE


def _last_list(store: Store, conversation: ConversationRow, session: str | None) -> dict[str, Any]:
    """Return the cursor that remembers the last list a session delivered."""
    return store.state.cursor(conversation.id, _source(session)) or {"sent": "", "seq": 0}


def _delivered(cursor: dict[str, Any]) -> list[bytes]:
    sent = bytes.fromhex(cursor["sent"])
    return [sent[at : at + WITNESS] for at in range(0, len(sent), WITNESS)]


WITNESS = 8


def _report_invalid(intake: Intake, arrivals: Sequence[_Arrival]) -> None:
    first = arrivals[0]
    intake.on_event(
        Event(
            "ingest.invalid",
            f"{len(arrivals)} message(s) of {intake.key} were not valid, and were stored with what is wrong in them as"
            f" opaque content; the first ({first.message.role!r}, event id {first.message.event_id!r}): {first.wrong}",
            "warning",
            {"conversation": intake.key, "invalid": len(arrivals)},
        )
    )


def _tell(intake: Intake, done: Ingested) -> None:
    if done.copies:
        intake.on_event(
            Event(
                "ingest.copies",
                f"{done.copies} message(s) of {intake.key} came again under a known event id with another text",
                "warning",
                {"conversation": intake.key, "copies": done.copies},
            )
        )
    if done.collisions:
        intake.on_event(
            Event(
                "ingest.collisions",
                f"{done.collisions} message(s) of {intake.key} carried the event id of a different message",
                "warning",
                {"conversation": intake.key, "collisions": done.collisions},
            )
        )
