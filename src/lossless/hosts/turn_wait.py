"""Limit how long the turn of a host waits for a locked database.

The first work that finds it locked waits for some seconds. What comes after it hardly waits until a transaction gets through:
a turn has many steps, and a lock may last for minutes. Work that gave up is delivered again by its host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lossless.store import waiting

FIRST: Final = 3.0
"""Seconds that work waits while the database answers."""
_LATER: Final = 0.1
"""Seconds that work waits after other work gave up."""


class TurnWait:
    """The waits of one host on one database. Threads share it."""

    def __init__(self) -> None:
        self._is_locked = False

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limit the waits of the work inside."""
        with waiting.at_most(_LATER if self._is_locked else FIRST) as limit:
            try:
                yield
            finally:
                self._is_locked = limit.left <= 0 or (self._is_locked and not limit.has_entered)
