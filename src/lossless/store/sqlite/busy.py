"""Wait for a database that another process holds."""

from __future__ import annotations

import time
from collections.abc import Callable

from lossless.events import Event, Hook

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
        self._since, self._reported = 0.0, False

    def __call__(self, tries: int) -> bool:
        """Wait, and tell whether to try again."""
        now = self._clock()
        if tries == 0:
            self._since, self._reported = now, False
        waited = now - self._since
        if waited >= _LEAST_REPORTED and not self._reported:
            self._reported = True
            message = f"Another process holds the database; waiting up to {BUSY_MS // 1000} seconds."
            self._on_event(Event("store.waiting", message, "warning"))
        if waited * 1000 >= BUSY_MS:
            return False
        self._pause(PAUSES[min(tries, len(PAUSES) - 1)])
        return True
