"""Limit how long some work waits for a database that is in use: the turn of an agent must go on.

    with at_most(3.0) as limit:
        chat.ingest(messages)       # raises StoreBusy after 3 seconds, whatever it consists of

Without a limit each transaction waits up to 30 seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class WaitLimit:
    """The seconds that are left for waiting, in all transactions of some work together."""

    def __init__(self, seconds: float) -> None:
        self.seconds = self.left = seconds
        self.has_entered = False
        """True once a transaction began: the database answers."""

    def spend(self, seconds: float) -> bool:
        """Count a wait. Return False if nothing is left."""
        self.left = max(0.0, self.left - seconds)
        return self.left > 0

    def acquire(self, lock: threading.RLock) -> bool:
        """Acquire a lock of this process, unless that takes too long."""
        begun = time.monotonic()
        try:
            return lock.acquire(timeout=self.left)
        finally:
            self.spend(time.monotonic() - begun)


_current: ContextVar[WaitLimit | None] = ContextVar("lossless_wait_limit", default=None)


def current() -> WaitLimit | None:
    """Return the limit of the work that this thread does."""
    return _current.get()


@contextmanager
def at_most(seconds: float) -> Iterator[WaitLimit]:
    """Limit the waits of the work inside."""
    limit = WaitLimit(seconds)
    token = _current.set(limit)
    try:
        yield limit
    finally:
        _current.reset(token)
