"""A host's heartbeats. It wakes its agent to look into HEARTBEAT.md, and the agent says that there is nothing.

An idle turn is a poll and an acknowledgement of exactly `HEARTBEAT_OK`, with nothing but a look into that file between them.
It is stored like every other, out of the context. A turn in which the agent did or said more is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from lossless.model import Message, ToolCall
from lossless.store.rows import message_of
from lossless.store.store import Store
from lossless.transcripts.base import Entry

IDLE = "poll"
"""Why a message of an idle turn is out of the context. (`heartbeat` is the reason of one that lost its words.)"""
_ACK = "heartbeat_ok"
_POLL = "[openclaw heartbeat poll]"
_FILE = "heartbeat.md"
_LONGEST = 32
"""A turn of more messages than this is no heartbeat."""


def is_ack(message: Message) -> bool:
    if message.role != "assistant" or any(isinstance(part, ToolCall) for part in message.parts):
        return False
    return message.text.strip().casefold() == _ACK


def mentions_heartbeat(text: str) -> bool:
    """Return whether a user's text is a poll, or names the file of the heartbeats."""
    folded = text.strip().casefold()
    return folded == _POLL or _FILE in folded


def _marks(message: Message) -> bool:
    called = (part.arguments.casefold() for part in message.parts if isinstance(part, ToolCall))
    if message.role == "user" and mentions_heartbeat(message.text):
        return True
    return _FILE in message.text.casefold() or any(_FILE in each for each in called)


def _works(message: Message) -> bool:
    """Return whether an agent's message does or says more than looking into the file and acknowledging it."""
    if message.role != "assistant":
        return False
    if any(isinstance(part, ToolCall) and _FILE not in part.arguments.casefold() for part in message.parts):
        return True
    return message.text.strip().casefold() not in ("", _ACK)


def _is_idle(turn: Iterable[Message]) -> bool:
    """Return whether a turn that ends with an acknowledgement is a poll that led to nothing."""
    messages = list(turn)
    return any(map(_marks, messages)) and not any(map(_works, messages))


def beats(messages: Sequence[Message]) -> set[int]:
    """Return the messages (by index) of idle turns: from the user's message before an acknowledgement up to it."""
    found: set[int] = set()
    start: int | None = None
    for at, message in enumerate(messages):
        if message.role == "user":
            start = at
        elif is_ack(message) and start is not None and at - start < _LONGEST:
            if _is_idle(messages[start : at + 1]):
                found.update(range(start, at + 1))
            start = None
    return found


def outside(messages: Sequence[Message]) -> dict[int, str]:
    """Return why some messages (by index) of a turn stay out of the context."""
    return dict.fromkeys(beats(messages), IDLE)


def with_beats(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries, those of idle turns marked as such. What is not yet answered counts as said."""
    turn: list[Entry] = []
    for entry in entries:
        message = entry.message
        starts = message is not None and message.role == "user" and entry.thread is None
        if starts or len(turn) >= _LONGEST:
            yield from turn
            turn = []
        if not starts and not turn:
            yield entry
            continue
        turn.append(entry)
        if message is not None and is_ack(message):
            idle = _is_idle(each.message for each in turn if each.message is not None)
            yield from (structs.replace(each, is_idle=each.message is not None) for each in turn) if idle else turn
            turn = []
    yield from turn


def prune(store: Store, conversation_id: int, now: int) -> int:
    """Remove the words of stored idle turns, except what a summary was made from; return how many messages lost theirs."""
    done = store.state.cursor(conversation_id, _PRUNED) or 0
    found = store.messages.read(conversation_id, after=done)
    if not found:
        return 0
    kept = [row for row in found if row.outside in (None, IDLE)]
    seqs = [kept[at].seq for at in sorted(beats([message_of(row) for row in kept]))]
    with store.transaction():
        buried = store.context.bury(conversation_id, seqs, "heartbeat", now) if seqs else []
        # A turn may go on: the next look begins where the last one did.
        last = next((row.seq - 1 for row in reversed(kept) if row.role == "user"), done)
        store.state.set_cursor(conversation_id, _PRUNED, last, now)
    return len(buried)


_PRUNED = "heartbeats"
