"""Decide which delivered messages are new, known, or another text of a known message."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from lossless.engine.ingest.find_duplicates import Duplicates, find_duplicates
from lossless.engine.ingest.intake import Arrival, Intake, time_of
from lossless.engine.ingest.match_host_and_transcript import SourceMessage, provider_key
from lossless.engine.ingest.message_digest import tool_ids
from lossless.engine.ingest.resent_list import find_resent
from lossless.model import Message
from lossless.store import jsontext
from lossless.store.rows.types import BURIED, ConversationRow, KnownEvent, MessageRow
from lossless.store.store import Store


class Decision(Struct):
    """The new messages of a delivery, and the known ones that came with another text."""

    new: list[Arrival]
    copies: list[tuple[int, Arrival]]
    known: int = 0
    renamed: dict[int, str] = {}
    """New event ids of arrivals (by identity) whose own id belongs to another message."""
    cursor: dict[str, Any] | None = None
    aliases: dict[str, int] = {}
    """Second event ids of stored messages: the host's for a message from its transcript, or the reverse."""
    duplicates: Duplicates = field(default_factory=Duplicates)
    late: frozenset[int] = frozenset()
    """Arrivals (by identity) that a transcript places before a message stored already."""


def decide(
    store: Store, conversation: ConversationRow, intake: Intake, arrivals: list[Arrival], whole: bool
) -> Decision:
    """Return which arrivals are new: each is known by its event id, or without one by its position."""
    decision = Decision([], [])
    keys = [arrival.event_key for arrival in arrivals if arrival.event_key is not None]
    twice = (conversation.transcribed or intake.stream == "transcript") and not whole
    events: dict[str, KnownEvent] = {}
    if keys and conversation.next_seq > 1:
        events = store.messages.known_events(conversation.id, keys, aliases=twice or conversation.transcribed)
    claimed: dict[int, MessageRow | None] = {}
    if twice:
        claimed = _match_duplicates(store, conversation, intake, arrivals, events, decision)
    nameless = [arrival for arrival in arrivals if arrival.event_key is None]
    named = {event.seq for event in events.values()}
    resent: set[int] = set()
    if whole and nameless:
        indexes, decision.cursor = find_resent(
            store, conversation, intake.session, [arrival.digest for arrival in nameless], named
        )
        resent = {id(nameless[at]) for at in indexes}
    batch: dict[str, tuple[int, Arrival]] = {}
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
            known = _is_same(event, arrival, intake) or _resolve_conflict(
                store, conversation, intake, arrival, event.seq, event.role, _call_ids(event.parts), decision, batch
            )
        elif key in batch:
            seq, first = batch[key]
            known = first.digest == arrival.digest or _resolve_conflict(
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


def _is_same(event: KnownEvent, arrival: Arrival, intake: Intake) -> bool:
    """Return whether an arrival is the message stored under its id.

    A forgotten message is not stored again, whatever its text is now.
    """
    buried = event.is_buried and not intake.placed and jsontext.cleaned(arrival.message.role) == event.role
    return buried or event.digest == arrival.digest


def _match_duplicates(
    store: Store,
    conversation: ConversationRow,
    intake: Intake,
    arrivals: list[Arrival],
    events: dict[str, KnownEvent],
    decision: Decision,
) -> dict[int, MessageRow | None]:
    """Return the arrivals (by identity) that the host or its transcript delivered before, with their rows."""
    unknown = [each for each in arrivals if each.event_key is None or each.event_key not in events]
    incoming = [
        SourceMessage(
            digest=each.digest,
            at=_own_time(each.message, intake),
            key=provider_key(each.message),
            named=each.event_key is not None,
        )
        for each in unknown
    ]
    seqs = [event.seq for event in events.values()]
    duplicates = decision.duplicates = find_duplicates(
        store, conversation, intake.stream, incoming, seqs, followed=intake.followed
    )
    names = {unknown[at].event_key: row.seq for at, row in duplicates.rows.items()}
    decision.aliases = {name: seq for name, seq in names.items() if name is not None}
    found = {id(unknown[at]): row for at, row in duplicates.rows.items()}
    return {**dict.fromkeys(id(unknown[at]) for at in duplicates.twins), **found}


def _resolve_conflict(
    store: Store,
    conversation: ConversationRow,
    intake: Intake,
    arrival: Arrival,
    seq: int,
    role: str,
    calls: tuple[str, ...],
    decision: Decision,
    batch: dict[str, tuple[int, Arrival]],
) -> bool:
    """Handle another content under a known event id; return True if it is stored already or kept as a copy.

    With the same role and tool calls it is another form of the same message, stored as a copy beside the first. Otherwise the
    host used the id twice: the message gets an id made from its content, so that sending it again changes nothing.
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


def _call_ids(parts: str | None) -> tuple[str, ...]:
    if parts is None:
        return ()
    return tuple(piece["call_id"] for piece in jsontext.loads(parts) if "call_id" in piece)


def _own_time(message: Message, intake: Intake) -> int | None:
    return None if intake.timeless and message.event_id in intake.timeless else time_of(message)
