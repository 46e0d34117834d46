"""Wait for a database that another process holds."""

from __future__ import annotations

import time
from collections.abc import Callable

from lossless.events import Event, Hook
from lossless.store import wait_limit

BUSY_MS = 30_000

PAUSES = tuple(ms / 1000 for ms in (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100))
"""In seconds, as SQLite itself would wait, which keeps signals out until it is through."""

_LEAST_REPORTED = 2.0


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
        now, limit = self._clock(), wait_limit.current()
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
