"""Leave to read: some conversations, so many tokens, for a while, and a ledger of what was read.

Whoever reads for somebody else, a sub-agent or a model that answers a question, does it under a grant. It is a row, so it
holds across processes; tokens are taken from it in one statement before anything is read, and what was not needed is
given back.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct

from lossless.engine.recall.reader import granted
from lossless.engine.shared.defaults import GRANT_SECONDS
from lossless.errors import GrantRefused
from lossless.store import jsontext
from lossless.store.base import GrantRow, ReadRow
from lossless.store.store import Store

MAX_DEPTH = 3
_KEPT_SECONDS = 30 * 86_400
_MOST_TRIES = 8
T = TypeVar("T")


class Charge(Struct, frozen=True):
    """One thing that was read, and what it cost."""

    what: str
    tokens: int


def issue(
    store: Store,
    conversations: Sequence[int],
    *,
    max_tokens: int,
    now: float,
    origin: str,
    seconds: float = GRANT_SECONDS,
    max_depth: int = MAX_DEPTH,
    request_id: str | None = None,
) -> GrantRow:
    """A new grant. Old ones are cleared away on the occasion."""
    micros = int(now * 1_000_000)
    row = GrantRow(
        f"grant_{str(uuid.uuid4())[:12]}",
        origin,
        request_id or str(uuid.uuid4()),
        max(1, max_tokens),
        0,
        max(1, max_depth),
        micros,
        micros + int(seconds * 1_000_000),
        None,
        tuple(sorted(set(conversations))),
    )
    with store.transaction():
        store.grants.add(row)
    store.grants.forget_ended(micros - _KEPT_SECONDS * 1_000_000)
    return store.grants.get(row.id) or row


class Delegate:
    """Whoever reads under a grant: never outside of it, and metered by what was really returned."""

    def __init__(self, store: Store, grant_id: str, now: Callable[[], float]) -> None:
        self.id = grant_id
        self._store, self._now = store, now

    def grant(self) -> GrantRow:
        """The grant, if it still holds."""
        row = self._store.grants.get(self.id)
        if row is None:
            raise _refused("no such grant")
        if row.revoked_at is not None:
            raise _refused("it was revoked")
        if row.expires_at <= self._micros():
            raise _refused("it has expired")
        if not row.conversation_ids:
            raise GrantRefused("The grant allows no conversation.", hint="Ask whoever gave it for another.")
        return row

    def scope(self, conversation: int | None = None) -> tuple[int, ...]:
        """Return the conversations it may read now, or the one of them that is named.

        What its conversations and their families became since it was given counts: a reset, a new sub-agent.
        """
        allowed = granted(self._store, self.grant().conversation_ids)
        if conversation is None:
            return allowed
        if conversation not in allowed:
            raise GrantRefused(
                f"Conversation {conversation} is outside the delegated scope.",
                hint=f"Within it: {', '.join(map(str, allowed))}.",
            )
        return (conversation,)

    def remaining(self) -> int:
        row = self.grant()
        return max(0, row.max_tokens - row.used_tokens)

    def read(self, verb: str, most: int | None, work: Callable[[int], tuple[T, Sequence[Charge]]]) -> T:
        """Read at most `most` tokens: `work` is told how many it may return, and says what it did."""
        held = self._reserve(most)
        used: Sequence[Charge] = ()
        try:
            result, used = work(held)
        finally:
            at, total = self._micros(), sum(charge.tokens for charge in used)
            rows = [ReadRow(verb, jsontext.cleaned(charge.what), charge.tokens, at) for charge in used]
            self._store.grants.spend(self.id, held - min(held, total), rows)
        return result

    def _reserve(self, most: int | None) -> int:
        for _ in range(_MOST_TRIES):
            left = self.remaining()
            wanted = left if most is None else min(max(1, most), left)
            if wanted < 1:
                break
            if self._store.grants.reserve(self.id, wanted, self._micros()):
                return wanted
        raise GrantRefused(
            "The token budget of this grant is exhausted.", hint="Answer from what was read, or ask for a new grant."
        )

    def ledger(self) -> list[ReadRow]:
        """What was read so far."""
        return self._store.grants.reads(self.id)

    def revoke(self) -> bool:
        return self._store.grants.revoke(self.id, self._micros())

    def _micros(self) -> int:
        return int(self._now() * 1_000_000)


def _refused(why: str) -> GrantRefused:
    return GrantRefused(
        f"Expansion authorization failed: {why}.", hint="Go on with what was read, or ask for a new grant."
    )


class Slots:
    """One question at a time for each origin, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[str] = set()

    @contextmanager
    def hold(self, origin: str) -> Iterator[bool]:
        """Whether the origin's turn could be had; given back at the end."""
        with self._lock:
            free = origin not in self._taken
            self._taken.add(origin)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._taken.discard(origin)
