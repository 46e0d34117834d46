"""Pure: one event told twice, by the host as it happens and by its transcript.

Both tell the same events in the same order; neither is sure to know the other's names for them. What one of them stored and the
other has not told yet lies behind the other's *frontier*. Only there does a delivery look for its own: a message that is
found is the same event and is given its second name, one that is not found is new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self, TypeAlias

from msgspec import Struct, convert, field, to_builtins

from lossless.model import Message, ToolResult

Pair: TypeAlias = tuple[int, int]
Stream: TypeAlias = Literal["live", "transcript"]

PROGRESS = "told"
"""The cursor that remembers how far either side has told."""

_MINTED = re.compile(r"(?:toolu_|call_)[A-Za-z0-9]{12,}\Z")


class Said(Struct, frozen=True, gc=False):
    """What tells one event from another."""

    digest: bytes
    at: int | None
    key: str | None = None
    """A name that a provider gave it: of a reply, or of the one call that it answers."""
    named: bool = False
    """Whether whoever tells it has a name of its own for it."""


class Progress(Struct):
    """How far the host and its transcript have told, by seq."""

    live: int = 0
    transcript: int = 0
    own: list[Pair] = field(default_factory=list)
    """Runs behind the transcript's frontier that it stored itself, while something the host told was still to come."""
    newest: int = 0
    """The latest time of a message that either of them stored."""
    timeless: bool = False
    """Whether the times of what the transcript stored are those of its lines."""
    has_moved: bool = False

    @classmethod
    def load(cls, state: Any) -> Self:
        return convert(state or {}, cls)

    def dump(self) -> dict[str, Any]:
        told: dict[str, Any] = to_builtins(self)
        return {name: value for name, value in told.items() if name != "has_moved" and value}

    def is_own(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self.own)

    def reached(self, stream: Stream) -> int:
        """A side's frontier."""
        return self.transcript if stream == "transcript" else self.live

    def tell(self, stream: Stream, seq: int) -> None:
        """This side told of a message that was stored already."""
        if seq <= self.reached(stream):
            return
        if stream == "transcript":
            self.transcript = seq
            self.own = [(first, last) for first, last in self.own if last > seq]
        else:
            self.live = seq
        self.has_moved = True

    def store(self, stream: Stream, first: int, last: int, pending: bool) -> None:
        """This side told of messages that were new; `pending` if others before them are still to be told by it."""
        self.has_moved = True
        if stream == "transcript" and pending:
            if self.own and self.own[-1][1] + 1 == first:
                first = self.own.pop()[0]
            self.own.append((first, last))
        else:
            self.tell(stream, last)

    def rewind(self, seq: int, own: list[Pair]) -> None:
        """The transcript was written anew behind a message: what is stored there is told again, these runs apart."""
        self.transcript, self.own, self.has_moved = seq, own, True


def provider_key(message: Message) -> str | None:
    """The provider's own name of a message, where it has one that no other message shares.

    Some models use call ids like `exec:101` again and again; only ids that a provider has minted count.
    """
    if message.role == "assistant":
        told = message.extra.get("openclaw", {}).get("responseId")
        return f"reply:{told}" if isinstance(told, str) and told else None
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if len(results) == len(message.parts) == 1 and _MINTED.match(results[0].call_id):
        return f"result:{results[0].call_id}"
    return None


def told_before(
    incoming: Sequence[Said], stored: Sequence[Said], *, complete: bool, follows: bool, followed: bool = True
) -> dict[int, int]:
    """Which of the incoming messages (by index) are which of the stored ones.

    `complete` is for a transcript: it tells every event, so what is stored before the other side named it is the next one
    like it. A live delivery may tell less, and what it says in the same words as long ago may well be new: equal words alone
    count only where the delivery goes on from its frontier (`follows`), or ends where the stored ones end, and only if a
    transcript is there that will tell what was taken for known (`followed`).
    """
    if complete:
        return dict(_in_order(incoming, stored, _alike))
    pairs = list(_in_order(incoming, stored, _surely))
    found = dict(pairs)
    for pair in [*pairs, *(_edges(incoming, stored, follows) if followed else ())]:
        found.update(_around(incoming, stored, pair, found))
    return found


def _alike(one: Said, other: Said) -> bool:
    if one.key is not None and one.key == other.key:
        return True
    return one.digest == other.digest and (one.at is None or other.at is None or one.at == other.at)


def _surely(one: Said, other: Said) -> bool:
    return _alike(one, other) and (
        (one.at is not None and one.at == other.at) or (one.key is not None and one.key == other.key)
    )


def _in_order(incoming: Sequence[Said], stored: Sequence[Said], same: Callable[[Said, Said], bool]) -> Iterator[Pair]:
    """Each incoming message with the next stored one that is the same."""
    start = 0
    for at, said in enumerate(incoming):
        for place in range(start, len(stored)):
            if same(said, stored[place]):
                yield at, place
                start = place + 1
                break


def _edges(incoming: Sequence[Said], stored: Sequence[Said], follows: bool) -> Iterator[Pair]:
    """Where a run of both, up to the end of either, may begin: at the frontier, or so that it ends where they end."""
    starts = [0] if follows else []
    starts += range(max(0, len(stored) - len(incoming)), len(stored))
    for start in starts:
        length = min(len(incoming), len(stored) - start)
        if length and all(_alike(incoming[at], stored[start + at]) for at in range(length)):
            yield 0, start
            return


def _around(incoming: Sequence[Said], stored: Sequence[Said], pair: Pair, found: dict[int, int]) -> dict[int, int]:
    """A pair and its neighbours on both sides, as far as they are alike and nobody else's."""
    taken, more = set(found.values()), {}
    for step in (1, -1):
        at, place = pair if step == 1 else (pair[0] - 1, pair[1] - 1)
        while 0 <= at < len(incoming) and 0 <= place < len(stored) and _alike(incoming[at], stored[place]):
            if found.get(at, place) != place or (place in taken and found.get(at) != place):
                break
            more[at] = place
            at, place = at + step, place + step
    return more
