"""Grants: permission to read some conversations, with a token budget, an expiry time and a ledger.

A sub-agent, or a model that answers a question, reads under a grant. A grant is a row, so it is valid in all processes.
Tokens are reserved in one statement before anything is read, and unused ones are returned.
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
from lossless.store.rows.types import GrantRow, ReadRow
from lossless.store.store import Store

MAX_DEPTH = 3
_KEPT_SECONDS = 30 * 86_400
_MOST_TRIES = 8
T = TypeVar("T")


class Charge(Struct, frozen=True):
    """One text that was read, and its tokens."""

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
    """Issue a grant, and delete old ones."""
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
    """A reader under a grant: limited to its conversations, and charged for what is returned."""

    def __init__(self, store: Store, grant_id: str, now: Callable[[], float]) -> None:
        self.id = grant_id
        self._store, self._now = store, now

    def grant(self) -> GrantRow:
        """Return the grant; raise `GrantRefused` if it is not valid any more."""
        row = self._store.grants.get(self.id)
        if row is None:
            raise _refusal("no such grant")
        if row.revoked_at is not None:
            raise _refusal("it was revoked")
        if row.expires_at <= self._micros():
            raise _refusal("it has expired")
        if not row.conversation_ids:
            raise GrantRefused("The grant allows no conversation.", hint="Ask for a new grant.")
        return row

    def scope(self, conversation: int | None = None) -> tuple[int, ...]:
        """Return the conversations that it may read now, or the one of them that is named.

        Conversations that joined their families later are included, e.g. after a reset or for a new sub-agent.
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
        """Read at most `most` tokens: `work` gets its limit, and returns the result with its charges."""
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
            tokens = left if most is None else min(max(1, most), left)
            if tokens < 1:
                break
            if self._store.grants.reserve(self.id, tokens, self._micros()):
                return tokens
        raise GrantRefused(
            "The token budget of this grant is exhausted.", hint="Answer from what was read, or ask for a new grant."
        )

    def ledger(self) -> list[ReadRow]:
        """Return everything that was read so far."""
        return self._store.grants.reads(self.id)

    def revoke(self) -> bool:
        return self._store.grants.revoke(self.id, self._micros())

    def _micros(self) -> int:
        return int(self._now() * 1_000_000)


def _refusal(reason: str) -> GrantRefused:
    return GrantRefused(
        f"Expansion authorization failed: {reason}.", hint="Continue with what was read, or ask for a new grant."
    )


class Slots:
    """One question at a time for each origin, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[str] = set()

    @contextmanager
    def hold(self, origin: str) -> Iterator[bool]:
        """Reserve the slot of an origin; yield False if it is in use."""
        with self._lock:
            free = origin not in self._taken
            self._taken.add(origin)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._taken.discard(origin)
