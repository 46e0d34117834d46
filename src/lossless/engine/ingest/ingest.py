"""Accept messages, a turn or a whole conversation, and store what is new, exactly once.

One transaction per call: rows, search index, context items, files' rows and the cursor. A message with an event id is
identified by it; one without is new, unless the host resends everything (`whole`). No content is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import ValidationError, convert, structs, to_builtins

from lossless.engine.ingest import invalid_messages, large_content
from lossless.engine.ingest.decide_new import Decision, decide
from lossless.engine.ingest.intake import Arrival, Intake, time_of
from lossless.engine.ingest.large_content import Payload
from lossless.engine.ingest.match_host_and_transcript import PROGRESS
from lossless.engine.ingest.message_digest import digest
from lossless.engine.ingest.resent_list import list_cursor
from lossless.engine.sessions import replace_system
from lossless.engine.shared.file_store import Files
from lossless.errors import InvalidInput, StoreError
from lossless.events import Event
from lossless.model import INSTRUCTIONS, Ingested, Message, Text, ToolCall
from lossless.session_patterns import is_scheduled
from lossless.store import jsontext
from lossless.store.rows import codec
from lossless.store.rows.types import ConversationRow, FileRow, NewMessage
from lossless.store.store import Store
from lossless.tokens import estimate_bytes, message_tokens

if TYPE_CHECKING:
    from lossless.engine.ingest.explore import Explore

Skip: TypeAlias = Callable[[Message], bool]
InTransaction: TypeAlias = Callable[[ConversationRow], None]
"""Writes whatever else belongs to the conversation, in the same transaction."""

SHOWN = frozenset({"user", "assistant", "system", "developer", "tool"})
_FAILED = frozenset({"error", "aborted"})


def ingest(
    store: Store,
    files: Files,
    intake: Intake,
    messages: Iterable[Message],
    *,
    whole: bool = False,
    in_transaction: InTransaction | None = None,
) -> Ingested:
    """Store the new messages in order. Raise with nothing stored, or return with everything stored.

    `in_transaction` writes whatever else there is for the conversation, in the same transaction.
    """
    accepted = list(messages)
    refuse_others(accepted)
    skipped = 0
    if intake.skip:
        delivered = accepted
        accepted = [message for message in delivered if not intake.skip(message)]
        skipped = len(delivered) - len(accepted)
    if not accepted:
        return Ingested(skipped=skipped)
    now = intake.now()
    arrivals = [_prepare(message, intake, now) for message in accepted]
    if intake.outside:
        for at, reason in intake.outside([arrival.message for arrival in arrivals]).items():
            arrivals[at] = _keep_outside(arrivals[at], reason)
    created: list[Payload] = []
    try:
        _extract_payloads(store, files, intake, arrivals, whole, created)
        try:
            done = _write(store, files, intake, arrivals, whole, skipped, in_transaction)
        except _ConcurrentDelivery:
            _extract_payloads(store, files, intake, arrivals, whole, created, known_too=True)
            done = _write(store, files, intake, arrivals, whole, skipped, in_transaction)
    except BaseException:
        remove_unused(store, files, created)
        raise
    _report_conflicts(intake, done)
    invalid = [arrival for arrival in arrivals if arrival.invalid]
    if invalid:
        _report_invalid(intake, invalid)
    return structs.replace(done, invalid=len(invalid)) if invalid else done


class _ConcurrentDelivery(Exception):
    """Another delivery was stored meanwhile, and more of this one is new: its payloads are extracted again."""


def refuse_others(values: Sequence[object]) -> None:
    """Raise if one of the values is not a Message."""
    for at, value in enumerate(values):
        if not isinstance(value, Message):
            raise InvalidInput(
                f"messages[{at}] is a {type(value).__name__}, not a Message.",
                hint="Wire formats are loaded with lossless.formats, e.g. openai_chat.load(...).",
            )


def _prepare(message: Message, intake: Intake, now: int) -> Arrival:
    """Return the identity of a message and, unless it is large, its row.

    Invalid fields become opaque content.
    """
    try:
        return _identify(message, intake, now)
    except _INVALID as error:
        invalid = _explain(message, error)
    arrival = _identify(invalid_messages.repair(message), intake, now)
    arrival.invalid = invalid
    return arrival


_INVALID = (TypeError, ValueError, AttributeError, RecursionError)


def _identify(message: Message, intake: Intake, now: int) -> Arrival:
    found = 0
    if intake.redact:
        message, found = intake.redact(message)
    fingerprint, key = digest(message, intake.canonicalize), codec.event_key(message.event_id)
    if large_content.has_large_content(message, intake.threshold):
        invalid_messages.check(message)  # its row is made later, when it is too late to repair it
        return Arrival(message=message, digest=fingerprint, event_key=key, redacted=found)
    return Arrival(
        message=message,
        digest=fingerprint,
        event_key=key,
        row=_row(message, fingerprint, key, now, None),
        payloads=(),
        redacted=found,
    )


def _keep_outside(arrival: Arrival, reason: str) -> Arrival:
    row = arrival.row and structs.replace(arrival.row, outside=arrival.row.outside or reason)
    return structs.replace(arrival, outside=reason, row=row)


def _explain(message: Message, error: Exception) -> str:
    """Return the path and type of the first invalid field of a message."""
    try:
        convert(to_builtins(message), type=Message)
    except (ValidationError, TypeError, RecursionError) as found:
        return str(found)
    return str(error)


def _row(view: Message, fingerprint: bytes, key: str | None, now: int, outside: str | None) -> NewMessage:
    text, parts, meta = codec.encode(view, key)
    plain = parts is None and meta is None
    tokens = estimate_bytes(text.encode()) + _PLAIN_OVERHEAD if plain else message_tokens(view)
    role = view.role
    return NewMessage(
        role=role if role in SHOWN else jsontext.cleaned(role),
        text=text,
        parts=parts,
        meta=meta,
        tokens=tokens,
        digest=fingerprint,
        at=time_of(view),
        created_at=now,
        event_id=key,
        outside=(None if role in SHOWN and not view.stop else _outside_reason(view)) or outside,
    )


_PLAIN_OVERHEAD = message_tokens(Message("user", (Text(""),)))


def _outside_reason(message: Message) -> str | None:
    """Return why a message is stored but not shown to a model; None if it is shown."""
    if message.role not in SHOWN:
        return "role"
    if message.role == "assistant" and message.stop in _FAILED and not _has_content(message):
        return "errored"
    return None


def _has_content(message: Message) -> bool:
    return any(not isinstance(part, Text) or part.text for part in message.parts)


def _extract_payloads(
    store: Store,
    files: Files,
    intake: Intake,
    arrivals: list[Arrival],
    whole: bool,
    created: list[Payload],
    *,
    known_too: bool = False,
) -> None:
    """Make the rows of large messages that are not stored yet; write their payloads first and add them to `created`.

    Known messages are sorted out before any file is written, and files are written before any transaction: describing a large
    file takes time.
    """
    if all(arrival.row for arrival in arrivals):
        return
    conversation = _conversation(store, intake)
    decision = Decision(arrivals, [])
    if conversation is not None and not known_too:
        decision = decide(store, conversation, intake, arrivals, whole)
    tools = _tool_names(store, conversation, arrivals)
    explore = _reuse_summaries(intake.explore(), store, conversation) if intake.explore else None
    arriving = [*decision.new, *(arrival for _, arrival in decision.copies)]
    if conversation is not None:
        unknown = set(map(id, arriving))
        heavy = [arrival for arrival in arrivals if arrival.row is None and id(arrival) not in unknown]
        if heavy:
            _repair_payloads(store, files, intake, conversation, tools, heavy)
    for arrival in arriving:
        if arrival.row is None:
            view, arrival.payloads = large_content.extract(arrival.message, intake.threshold, tools, explore)
            arrival.row = _row(view, arrival.digest, arrival.event_key, intake.now(), arrival.outside)
            for payload in arrival.payloads:
                if files.put(payload.sha256, payload.data):
                    created.append(payload)  # noqa: PERF401 - one by one, so that a failure finds those before it


def _repair_payloads(
    store: Store,
    files: Files,
    intake: Intake,
    conversation: ConversationRow,
    tools: dict[str, str],
    heavy: Sequence[Arrival],
) -> None:
    """Write the payloads of known messages again whose files are missing or of another size.

    Nothing is read or hashed while sizes are right: a host may send its whole history with every turn.
    """
    damaged = {
        row.sha256 for row in store.files.of_conversation(conversation.id) if files.size(row.sha256) != row.bytes
    }
    if not damaged:
        return
    found = [
        payload
        for each in heavy
        for payload in large_content.extract(each.message, intake.threshold, tools, _no_summary)[1]
    ]
    lost = list({payload.sha256: payload for payload in found if payload.sha256 in damaged}.values())
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
        message = f"{len(lost)} payload(s) of {intake.key} were missing or damaged, and were written again"
        if lost:
            intake.on_event(Event("file.repaired", message, "info", facts))


def _no_summary(text: str, name: str | None, mime: str | None) -> str:
    return ""


def _conversation(store: Store, intake: Intake) -> ConversationRow | None:
    if intake.conversation_id is not None:
        return store.conversations.get(intake.conversation_id)
    if intake.session is not None and is_scheduled(intake.key):
        return store.conversations.with_session(intake.key, intake.session)
    return store.conversations.active(intake.key)


def _lock(store: Store, intake: Intake, now: int) -> ConversationRow:
    if intake.conversation_id is None:
        return store.conversations.lock(intake.key, intake.session, now)
    return store.conversations.hold(intake.conversation_id)


def _reuse_summaries(explore: Explore, store: Store, conversation: ConversationRow | None) -> Explore:
    """Return an explorer that reuses the summary of a file that the conversation holds already."""
    summaries: dict[str, str] = {}

    def remembered(text: str, name: str | None, mime: str | None) -> str:
        file_id = large_content.file_id(sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        if file_id not in summaries:
            known = store.files.get(conversation.id, file_id) if conversation else None
            summaries[file_id] = known.summary if known else explore(text, name, mime)
        return summaries[file_id]

    return remembered


def _tool_names(store: Store, conversation: ConversationRow | None, arrivals: list[Arrival]) -> dict[str, str]:
    """Return the tool of each recent call: most formats name it in the call and not in the result."""
    recent = (
        store.messages.read(conversation.id, after=max(0, conversation.next_seq - 1 - _RECENT)) if conversation else []
    )
    messages = [codec.message_of(row) for row in recent if row.parts]
    messages += [arrival.message for arrival in arrivals]
    return {part.call_id: part.name for m in messages for part in m.parts if isinstance(part, ToolCall)}


_RECENT = 20


def _write(
    store: Store,
    files: Files,
    intake: Intake,
    arrivals: list[Arrival],
    whole: bool,
    skipped: int,
    in_transaction: InTransaction | None,
) -> Ingested:
    with store.transaction():
        now = intake.now()
        conversation = _lock(store, intake, now)
        if in_transaction:
            in_transaction(conversation)
        decision = decide(store, conversation, intake, arrivals, whole)
        fresh = [_final_row(arrival, decision) for arrival in decision.new]
        if conversation.renewed_at is not None and any(
            each.role in INSTRUCTIONS and not each.outside for each in fresh
        ):
            replace_system(store, conversation)
        if fresh:
            store.messages.append(conversation, fresh, now)
        copies = sum(
            store.messages.keep_copy(conversation.id, seq, _final_row(arrival, decision))
            for seq, arrival in decision.copies
        )
        arriving = [*decision.new, *(arrival for _, arrival in decision.copies)]
        for payload in [payload for arrival in arriving if arrival.payloads for payload in arrival.payloads]:
            _add_file(store, files, conversation.id, payload, now)
        if (conversation.transcribed or intake.stream == "transcript") and not whole:
            _save_progress(store, conversation, intake, decision, fresh, now)
        if decision.cursor is not None:
            decision.cursor["seq"] = conversation.next_seq - 1 + len(fresh)
            store.state.set_cursor(conversation.id, list_cursor(intake.session), decision.cursor, now)
        first, redacted = conversation.next_seq, sum(arrival.redacted for arrival in arriving)
        stored = tuple(range(first, first + len(fresh)))
        late = len(decision.late)
        return Ingested(
            stored=stored,
            known=decision.known,
            skipped=skipped,
            copies=copies,
            collisions=len(decision.renamed),
            redacted=redacted,
            late=late,
        )


def _save_progress(
    store: Store, conversation: ConversationRow, intake: Intake, decision: Decision, fresh: list[NewMessage], now: int
) -> None:
    """Save how far this source has delivered, and the second event ids it gave."""
    if decision.aliases:
        store.messages.add_aliases(conversation.id, decision.aliases)
    progress = decision.duplicates.progress
    if fresh:
        first = conversation.next_seq
        progress.add_stored(intake.stream, first, first + len(fresh) - 1, decision.duplicates.pending)
        progress.newest = max([progress.newest, *(row.at for row in fresh if row.at is not None)])
        progress.timeless = progress.timeless or bool(intake.timeless)
    if progress.is_changed:
        store.state.set_cursor(conversation.id, PROGRESS, progress.dump(), now)


def _final_row(arrival: Arrival, decision: Decision) -> NewMessage:
    row = arrival.row
    if row is None:
        raise _ConcurrentDelivery
    if id(arrival) in decision.renamed:
        row = structs.replace(row, event_id=decision.renamed[id(arrival)])
    if id(arrival) in decision.late:
        row = structs.replace(row, outside=row.outside or "late")
    return row


def _add_file(store: Store, files: Files, conversation_id: int, payload: Payload, now: int) -> None:
    # No file is removed while we hold this lock: if the bytes are gone, they are written again.
    store.hold_files(alone=False)
    if not files.exists(payload.sha256):
        files.put(payload.sha256, payload.data)
    name, mime = (None if value is None else jsontext.cleaned(value) for value in (payload.name, payload.mime))
    row = FileRow(
        id=payload.id,
        sha256=payload.sha256,
        name=name,
        mime=mime,
        bytes=len(payload.data),
        lines=payload.lines,
        summary=payload.summary,
        created_at=now,
    )
    store.files.add(conversation_id, row)


def remove_unused(store: Store, files: Files, created: Sequence[Payload]) -> None:
    """Remove the payloads of a failed call, unless a row refers to the same bytes by now."""
    if not created:
        return
    # If the database or the disk fails here too, the unused bytes stay: the next call that sends them uses them.
    with suppress(StoreError, OSError), store.transaction():
        store.hold_files(alone=True)
        for payload in created:
            if not store.files.is_used(payload.sha256):
                files.remove(payload.sha256)


def _report_invalid(intake: Intake, arrivals: Sequence[Arrival]) -> None:
    first = arrivals[0]
    intake.on_event(
        Event(
            "ingest.invalid",
            f"{len(arrivals)} message(s) of {intake.key} were not valid; their invalid fields were stored as"
            f" opaque content; the first ({first.message.role!r}, event id {first.message.event_id!r}): {first.invalid}",
            "warning",
            {"conversation": intake.key, "invalid": len(arrivals)},
        )
    )


def _report_conflicts(intake: Intake, done: Ingested) -> None:
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
