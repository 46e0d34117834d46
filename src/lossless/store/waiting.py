"""Wait for a database that is in use, and limit how long some work waits: the turn of an agent must go on.

    with at_most(3.0) as limit:
        chat.ingest(messages)       # raises StoreBusy after 3 seconds, whatever it consists of

Without a limit each transaction waits up to 30 seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lossless.events import Event, Hook

BUSY_MS = 30_000

PAUSES = tuple(ms / 1000 for ms in (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100))
"""In seconds, as SQLite itself would wait, which keeps signals out until it is through."""

_LEAST_REPORTED = 2.0


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


class Patience:
    """Waits while another process holds the database, a little longer each time, so that an interrupt gets through."""

    def __init__(
        self,
        on_event: Hook,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._on_event, self._clock, self._pause = on_event, clock, pause
        self._since, self._last, self._reported = 0.0, 0.0, False

    def __call__(self, tries: int) -> bool:
        """Wait, and tell whether to try again."""
        now, limit = self._clock(), current()
        if tries == 0:
            self._since, self._last, self._reported = now, now, False
        waited, since, self._last = now - self._since, now - self._last, now
        if waited >= _LEAST_REPORTED and not self._reported:
            self._reported = True
            seconds = BUSY_MS // 1000 if limit is None else limit.seconds
            message = f"Another process holds the database; waiting up to {seconds:g} seconds."
            self._on_event(Event("store.waiting", message, "warning"))
        if waited * 1000 >= BUSY_MS or (limit is not None and not limit.spend(since)):
            return False
        self._pause(PAUSES[min(tries, len(PAUSES) - 1)])
        return True
