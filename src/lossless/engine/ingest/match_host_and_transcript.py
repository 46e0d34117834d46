"""Match one event that arrives twice: live from the host, and in its transcript. Pure functions.

Both sources have the same events in the same order; neither may know the other's ids for them. A message that one source
stored and the other has not delivered yet is after the other's *frontier*. Only there does a delivery look for its own
messages: a match is the same event and gets its second id, anything else is new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self, TypeAlias

from msgspec import Struct, convert, field, to_builtins

from lossless.model import Message, ToolResult

Pair: TypeAlias = tuple[int, int]
Stream: TypeAlias = Literal["live", "transcript"]

PROGRESS = "told"  # stored name
"""The cursor that remembers how far each source has delivered."""

_MINTED = re.compile(r"(?:toolu_|call_)[A-Za-z0-9]{12,}\Z")


class SourceMessage(Struct, frozen=True, gc=False):
    """The fields of a message by which two sources are compared."""

    digest: bytes
    at: int | None
    key: str | None = None
    """The provider's id of the reply, or of the one call that it answers."""
    named: bool = False
    """The source has an id of its own for it."""


class Progress(Struct):
    """The seq up to which the host and its transcript have delivered."""

    live: int = 0
    transcript: int = 0
    own: list[Pair] = field(default_factory=list)
    """Ranges after the transcript's frontier that it stored itself, before it reached a message of the host."""
    newest: int = 0
    """The latest time of a message that either source stored."""
    timeless: bool = False
    """The messages of the transcript have the times of their lines."""
    is_changed: bool = False

    @classmethod
    def load(cls, state: Any) -> Self:
        """Decode the state of the cursor."""
        return convert(state or {}, cls)

    def dump(self) -> dict[str, Any]:
        """Encode the state for the cursor."""
        fields: dict[str, Any] = to_builtins(self)
        return {name: value for name, value in fields.items() if name != "is_changed" and value}

    def is_own(self, seq: int) -> bool:
        """Return whether the transcript stored a message after its frontier itself."""
        return any(first <= seq <= last for first, last in self.own)

    def frontier(self, stream: Stream) -> int:
        """Return the seq up to which a source has delivered."""
        return self.transcript if stream == "transcript" else self.live

    def advance(self, stream: Stream, seq: int) -> None:
        """Note that a source delivered a message that was stored already."""
        if seq <= self.frontier(stream):
            return
        if stream == "transcript":
            self.transcript = seq
            self.own = [(first, last) for first, last in self.own if last > seq]
        else:
            self.live = seq
        self.is_changed = True

    def add_stored(self, stream: Stream, first: int, last: int, pending: bool) -> None:
        """Note new messages of a source; `pending` if it has yet to deliver others before them."""
        self.is_changed = True
        if stream == "transcript" and pending:
            if self.own and self.own[-1][1] + 1 == first:
                first = self.own.pop()[0]
            self.own.append((first, last))
        else:
            self.advance(stream, last)

    def rewind(self, seq: int, own: list[Pair]) -> None:
        """Go back to a message, since the transcript was rewritten after it; `own` are ranges it stored itself."""
        self.transcript, self.own, self.is_changed = seq, own, True


def provider_key(message: Message) -> str | None:
    """Return the provider's id of a message, if it has one that no other message shares.

    Some models reuse call ids like `exec:101`; only ids that a provider has generated count.
    """
    if message.role == "assistant":
        reply = message.extra.get("openclaw", {}).get("responseId")
        return f"reply:{reply}" if isinstance(reply, str) and reply else None
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if len(results) == len(message.parts) == 1 and _MINTED.match(results[0].call_id):
        return f"result:{results[0].call_id}"
    return None


def match_messages(
    incoming: Sequence[SourceMessage],
    stored: Sequence[SourceMessage],
    *,
    complete: bool,
    follows: bool,
    followed: bool = True,
) -> dict[int, int]:
    """Return which incoming messages are which stored ones, by index.

    `complete` is for a transcript, which contains every event: each incoming message matches the next stored one like it. A live
    delivery may contain less, and may repeat an old text in a new message. There equal text counts only where the delivery
    continues from its frontier (`follows`) or ends where the stored messages end, and only if a transcript will still deliver a
    message that was wrongly taken as known (`followed`).
    """
    if complete:
        return dict(_in_order(incoming, stored, _matches))
    pairs = list(_in_order(incoming, stored, _matches_certainly))
    found = dict(pairs)
    for pair in [*pairs, *(_edges(incoming, stored, follows) if followed else ())]:
        found.update(_around(incoming, stored, pair, found))
    return found


def _matches(one: SourceMessage, other: SourceMessage) -> bool:
    if one.key is not None and one.key == other.key:
        return True
    return one.digest == other.digest and (one.at is None or other.at is None or one.at == other.at)


def _matches_certainly(one: SourceMessage, other: SourceMessage) -> bool:
    return _matches(one, other) and (
        (one.at is not None and one.at == other.at) or (one.key is not None and one.key == other.key)
    )


def _in_order(
    incoming: Sequence[SourceMessage],
    stored: Sequence[SourceMessage],
    same: Callable[[SourceMessage, SourceMessage], bool],
) -> Iterator[Pair]:
    """Yield each incoming message with the next stored one that matches."""
    start = 0
    for at, message in enumerate(incoming):
        for place in range(start, len(stored)):
            if same(message, stored[place]):
                yield at, place
                start = place + 1
                break


def _edges(incoming: Sequence[SourceMessage], stored: Sequence[SourceMessage], follows: bool) -> Iterator[Pair]:
    """Yield the start of a run that matches up to the end of either side: at the frontier, or at the stored end."""
    starts = [0] if follows else []
    starts += range(max(0, len(stored) - len(incoming)), len(stored))
    for start in starts:
        length = min(len(incoming), len(stored) - start)
        if length and all(_matches(incoming[at], stored[start + at]) for at in range(length)):
            yield 0, start
            return


def _around(
    incoming: Sequence[SourceMessage], stored: Sequence[SourceMessage], pair: Pair, found: dict[int, int]
) -> dict[int, int]:
    """Return a pair and its matching neighbours on both sides, without those that are matched already."""
    taken, more = set(found.values()), {}
    for step in (1, -1):
        at, place = pair if step == 1 else (pair[0] - 1, pair[1] - 1)
        while 0 <= at < len(incoming) and 0 <= place < len(stored) and _matches(incoming[at], stored[place]):
            if found.get(at, place) != place or (place in taken and found.get(at) != place):
                break
            more[at] = place
            at, place = at + step, place + step
    return more
