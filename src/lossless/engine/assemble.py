"""What a model is shown: items and a budget in, an ordered, bounded, valid view out. Pure.

The newest are kept. The fresh tail stays whole while it fits; when it alone is too large, its oldest tool results become
references, then its oldest whole turns leave. The newest user turn is always there as it is: only it can make a view
exceed its budget. Nothing before the tail depends on the time or the question, so that a provider's cache keeps hitting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from lossless.engine.pairing import paired
from lossless.engine.render import as_reference
from lossless.model import (
    Context,
    Item,
    LeftOut,
    Message,
    Reasoning,
    StoredMessage,
    Text,
    ToolResult,
)
from lossless.tokens import message_tokens


class Entry(Struct, frozen=True, gc=False):
    """An item of the view, as a message, with its cost."""

    item: Item | None
    """None for what is not stored: a pin, guidance, a live message."""
    message: Message
    tokens: int
    summary: tuple[int, int] | None = None
    """A summary's id in the store, and its revision."""
    at: int = 0
    """When it was stored, in microseconds."""

    @property
    def name(self) -> str:
        if self.item is None:
            return "live message"
        return f"msg#{self.item.id}" if isinstance(self.item, StoredMessage) else self.item.id


class _View(Struct):
    """The entries still in the view, and what has left it."""

    kept: list[Entry]
    fresh: int
    turn: int
    left: list[LeftOut]

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.kept)

    def drop(self, first: int, count: int, reason: str) -> None:
        gone = self.kept[first : first + count]
        del self.kept[first : first + count]
        self.left += [LeftOut(entry.name, reason, entry.tokens) for entry in gone]
        self.fresh, self.turn = (max(first, at - count) if at > first else at for at in (self.fresh, self.turn))


class Assembly(Struct, frozen=True):
    """A context, and the entries it was made of."""

    context: Context
    kept: list[Entry]
    fresh: int


def assemble(head: Sequence[Entry], body: Sequence[Entry], *, fresh: int, budget: int) -> Assembly:
    """The view of `body` (oldest first, its fresh tail from the index `fresh` on) behind a `head` that always stays."""
    users = (at for at in range(len(body) - 1, -1, -1) if body[at].message.role == "user" and body[at].summary is None)
    turn = next(users, max(0, len(body) - 1))
    view = _View(_without_old_thinking(body, turn), min(fresh, turn), turn, [])
    room = budget - sum(entry.tokens for entry in head)
    _evict(view, room)
    _lighten(view, room)
    _shorten(view, room)
    while True:
        messages = paired([entry.message for entry in view.kept], fresh=view.fresh)
        tokens = _cost(view.kept, messages)
        if tokens <= room or not view.turn:
            break
        # A stand-in for a missing result costs a few tokens more than was planned for.
        view.drop(0, _turn_length(view), "budget")
    context = Context(
        tuple(entry.item for entry in view.kept if entry.item is not None),
        tokens + sum(entry.tokens for entry in head),
        (*(entry.message for entry in head), *messages),
        (*view.left, *_unsaid(view.kept, messages)),
        tokens > room,
    )
    return Assembly(context, view.kept, view.fresh)


def _unsaid(kept: Sequence[Entry], messages: Sequence[Message]) -> Iterator[LeftOut]:
    """What pairing left out as a whole: results whose call is not there, and messages that say nothing."""
    said = set(map(id, messages))
    changed = [entry for entry in kept if id(entry.message) not in said]
    if not changed:
        return
    answered = {part.call_id for message in messages for part in message.parts if isinstance(part, ToolResult)}
    for entry in changed:
        parts = entry.message.parts
        results = [part.call_id for part in parts if isinstance(part, ToolResult)]
        if results and len(results) == len(parts) and answered.isdisjoint(results):
            yield LeftOut(entry.name, "no call", entry.tokens)
        elif all(isinstance(part, Reasoning) or (isinstance(part, Text) and not part.text.strip()) for part in parts):
            yield LeftOut(entry.name, "empty", entry.tokens)


def _without_old_thinking(body: Sequence[Entry], turn: int) -> list[Entry]:
    """Without what a model thought before the newest summary was made: providers bind thinking to the words before it.

    The running turn stays as it is, and between two compactions nothing changes.
    """
    bound = max((entry.at for entry in body if entry.summary is not None), default=0)
    return [
        entry if at >= turn or entry.at > bound or entry.summary is not None else _without_thinking(entry)
        for at, entry in enumerate(body)
    ]


def _without_thinking(entry: Entry) -> Entry:
    parts = tuple(part for part in entry.message.parts if not isinstance(part, Reasoning))
    if len(parts) == len(entry.message.parts):
        return entry
    message = structs.replace(entry.message, parts=parts)
    return structs.replace(entry, message=message, tokens=message_tokens(message))


def _evict(view: _View, room: int) -> None:
    """The oldest items outside the tail leave, until the rest fits."""
    over, count = view.tokens - room, 0
    while over > 0 and count < view.fresh:
        over -= view.kept[count].tokens
        count += 1
    if count:
        view.drop(0, count, "budget")


def _lighten(view: _View, room: int) -> None:
    """The oldest tool results of the tail become references, until it fits; those of the newest turn stay."""
    over = view.tokens - room
    for at in range(view.turn):
        if over <= 0:
            return
        entry = view.kept[at]
        if isinstance(entry.item, StoredMessage) and any(isinstance(p, ToolResult) for p in entry.message.parts):
            message = as_reference(entry.message, entry.item.id, entry.tokens)
            tokens = message_tokens(message)
            if tokens < entry.tokens:
                view.kept[at] = structs.replace(entry, message=message, tokens=tokens)
                view.left.append(LeftOut(entry.name, "tool result", entry.tokens - tokens))
                over -= entry.tokens - tokens


def _shorten(view: _View, room: int) -> None:
    """The oldest whole turns of the tail leave, until it fits or only the newest is left."""
    while view.turn and view.tokens > room:
        view.drop(0, _turn_length(view), "tail over budget")


def _turn_length(view: _View) -> int:
    """How many entries the oldest turn has: up to the next message of a user."""
    starts = (at for at in range(1, view.turn) if view.kept[at].message.role == "user")
    return next(starts, view.turn)


def _cost(kept: Sequence[Entry], messages: Sequence[Message]) -> int:
    """What the messages cost: known for those that are as they were stored, counted for those that pairing changed."""
    known = {id(entry.message): entry.tokens for entry in kept}
    return sum(_costs(messages, known))


def _costs(messages: Sequence[Message], known: dict[int, int]) -> Iterator[int]:
    for message in messages:
        tokens = known.get(id(message))
        yield message_tokens(message) if tokens is None else tokens
