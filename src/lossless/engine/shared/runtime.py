"""The environment every engine function works in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from lossless.config import Settings
from lossless.engine.shared.file_store import Files
from lossless.events import Hook, ignore
from lossless.store.rows.codec import moment
from lossless.store.store import Store


class Runtime(Struct, frozen=True):
    """An open database with its payload files, its settings, a clock and an event hook.

    The client builds it; a request struct beside it says what the caller wants.
    """

    store: Store
    files: Files
    settings: Settings
    clock: Callable[[], float]
    """Returns the current time in seconds since 1970."""
    on_event: Hook = ignore

    def now(self) -> int:
        """Return the current time in microseconds since 1970, as the store keeps times."""
        return int(self.clock() * 1_000_000)

    def now_utc(self) -> datetime:
        """Return the current time as a datetime in UTC."""
        return moment(self.now())
