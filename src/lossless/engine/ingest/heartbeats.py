"""Recognize the idle turns of a host that polls its agent.

The host asks its agent to read HEARTBEAT.md, and the agent answers that there is nothing to do. An idle turn is a poll and an
answer of exactly `HEARTBEAT_OK`, with nothing but a read of that file between them. It is stored like every other turn, out of
the context. A turn in which the agent did or said more is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from lossless.model import Message, ToolCall
from lossless.store.rows.codec import message_of
from lossless.store.store import Store
from lossless.transcripts.base import TranscriptEntry

IDLE = "poll"
"""The reason why a message of an idle turn is outside the context; `heartbeat` if it lost its text."""
_ACK = "heartbeat_ok"
_POLL = "[openclaw heartbeat poll]"
_FILE = "heartbeat.md"
_LONGEST = 32
"""A longer turn is not a heartbeat."""


def is_ack(message: Message) -> bool:
    """Return whether a message is the acknowledgement of a poll."""
    if message.role != "assistant" or any(isinstance(part, ToolCall) for part in message.parts):
        return False
    return message.text.strip().casefold() == _ACK


def mentions_heartbeat(text: str) -> bool:
    """Return whether a user's text is a poll, or names the file of the heartbeats."""
    folded = text.strip().casefold()
    return folded == _POLL or _FILE in folded


def _is_heartbeat(message: Message) -> bool:
    """Return whether a message mentions the heartbeat file or is a poll."""
    if message.role == "user" and mentions_heartbeat(message.text):
        return True
    arguments = (part.arguments.casefold() for part in message.parts if isinstance(part, ToolCall))
    return _FILE in message.text.casefold() or any(_FILE in each for each in arguments)


def _works(message: Message) -> bool:
    """Return whether an agent's message does more than read the file and acknowledge it."""
    if message.role != "assistant":
        return False
    if any(isinstance(part, ToolCall) and _FILE not in part.arguments.casefold() for part in message.parts):
        return True
    return message.text.strip().casefold() not in ("", _ACK)


def _is_idle(turn: Iterable[Message]) -> bool:
    """Return whether a turn that ends with an acknowledgement did nothing."""
    messages = list(turn)
    return any(map(_is_heartbeat, messages)) and not any(map(_works, messages))


def idle_messages(messages: Sequence[Message]) -> set[int]:
    """Return the messages (by index) of idle turns: from the user's message up to the acknowledgement."""
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
    return dict.fromkeys(idle_messages(messages), IDLE)


def mark_idle(entries: Iterable[TranscriptEntry]) -> Iterator[TranscriptEntry]:
    """Yield the entries, those of idle turns marked as idle. An unanswered poll is an ordinary message."""
    turn: list[TranscriptEntry] = []
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
    """Remove the text of stored idle turns, except where a summary covers them.

    Return the number of messages that lost their text.
    """
    done = store.state.cursor(conversation_id, _PRUNED) or 0
    found = store.messages.read(conversation_id, after=done)
    if not found:
        return 0
    kept = [row for row in found if row.outside in (None, IDLE)]
    seqs = [kept[at].seq for at in sorted(idle_messages([message_of(row) for row in kept]))]
    with store.transaction():
        buried = store.context.bury(conversation_id, seqs, "heartbeat", now) if seqs else []
        # The last turn may continue: the next call starts at it again.
        last = next((row.seq - 1 for row in reversed(kept) if row.role == "user"), done)
        store.state.set_cursor(conversation_id, _PRUNED, last, now)
    return len(buried)


_PRUNED = "heartbeats"
