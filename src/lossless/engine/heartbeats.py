"""A host's heartbeats. It wakes its agent to look into HEARTBEAT.md, and the agent says that there is nothing.

Such a turn is a poll and an acknowledgement of exactly `HEARTBEAT_OK`. An answer that says more is real, and so is its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from lossless.model import Message, ToolCall
from lossless.store.base import Store
from lossless.store.rows import message_of
from lossless.transcripts.base import Entry

_ACK = "heartbeat_ok"
_POLL = "[openclaw heartbeat poll]"
_FILE = "heartbeat.md"
_LONGEST = 32
"""A turn of more messages than this is no heartbeat."""


def is_ack(message: Message) -> bool:
    if message.role != "assistant" or any(isinstance(part, ToolCall) for part in message.parts):
        return False
    return message.text.strip().casefold() == _ACK


def _marks(message: Message) -> bool:
    told = message.text.strip().casefold()
    called = (part.arguments.casefold() for part in message.parts if isinstance(part, ToolCall))
    return _FILE in told or (message.role == "user" and told == _POLL) or any(_FILE in each for each in called)


def beats(messages: Sequence[Message]) -> set[int]:
    """The messages (by index) of whole heartbeat turns: from the user's message before an acknowledgement up to it."""
    found: set[int] = set()
    start: int | None = None
    for at, message in enumerate(messages):
        if message.role == "user":
            start = at
        elif is_ack(message) and start is not None and at - start < _LONGEST:
            if any(_marks(each) for each in messages[start : at + 1]):
                found.update(range(start, at + 1))
            start = None
    return found


def without_beats(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries with the messages of heartbeat turns taken out. What is not yet answered counts as said."""
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
            quiet = any(each.message is not None and _marks(each.message) for each in turn)
            yield from (structs.replace(each, message=None) for each in turn) if quiet else turn
            turn = []
    yield from turn


def prune(store: Store, conversation_id: int, now: int) -> int:
    """Take the words of stored heartbeat turns away, those aside that a summary was made from; how many messages lost theirs."""
    done = store.cursor(conversation_id, _PRUNED) or 0
    found = store.messages(conversation_id, after=done)
    if not found:
        return 0
    kept = [row for row in found if row.outside is None]
    seqs = [kept[at].seq for at in sorted(beats([message_of(row) for row in kept]))]
    with store.transaction():
        buried = store.bury(conversation_id, seqs, "heartbeat", now) if seqs else []
        # A turn may go on: the next look begins where the last one did.
        last = next((row.seq - 1 for row in reversed(kept) if row.role == "user"), done)
        store.set_cursor(conversation_id, _PRUNED, last, now)
    return len(buried)


_PRUNED = "heartbeats"
