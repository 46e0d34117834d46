"""The database that the settings name, open for as long as the background process runs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from lossless import config
from lossless.client import Lossless
from lossless.config.redact import redact_url
from lossless.engine.shared import database_file
from lossless.errors import LosslessError, StoreUnavailable
from lossless.events import Event

_WAIT = 2.0
"""Seconds to wait for another thread that opens it."""
_PAUSE, _SOON = 10.0, 5.0
"""Seconds before a database that failed is tried again, and before left work begins."""


class Database:
    """The database that the settings name: opened when it is needed, again when the settings change."""

    def __init__(self) -> None:
        self._lcm: Lossless | None = None
        self._settings: tuple[int, int] | None = None
        self._file: database_file.FileIdentity = None
        self._lock = threading.Lock()
        self._failure: tuple[float, Exception] | None = None
        self.location = ""

    def opened(self) -> Lossless:
        """Return the open database. After a failure it is not tried again for some seconds."""
        if not self._lock.acquire(timeout=_WAIT):
            raise StoreUnavailable("The database does not open.", hint="`lcm status` says more.")
        try:
            state = _state(config.config_path())
            if state != self._settings:
                self.close()
                self._settings, self._failure = state, None
            if self._lcm is not None and database_file.identity(self.location) != self._file:
                self.close()  # what is written to a deleted file is lost
            if self._failure is not None and time.monotonic() < self._failure[0]:
                raise self._failure[1]
            if self._lcm is None:
                self._lcm = self._open()
            return self._lcm
        finally:
            self._lock.release()

    def _open(self) -> Lossless:
        try:
            self.location = _shown(redact_url(config.resolve().settings.database))
            lcm = Lossless.open(on_event=_ignore)
            self.location = _shown(lcm.location)
            self._file = database_file.identity(self.location)
            if lcm.settings.enabled and lcm._store.debts.any_pending():
                lcm._background.start(after=_SOON)
        except Exception as error:
            self._failure = time.monotonic() + _PAUSE, error
            raise
        return lcm

    def has_pending(self) -> bool:
        """Return whether work is pending; False if nobody can tell."""
        try:
            return self._lcm is not None and self._lcm._store.debts.any_pending()
        except LosslessError:
            return False

    def close(self) -> None:
        """Close it; the next use opens it again."""
        if self._lcm is not None:
            self._lcm.close()
            self._lcm = None


def _shown(database: str) -> str:
    """Return the place of a database for records: a path is absolute there."""
    return os.path.abspath(database) if config.is_file(database) else database


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _ignore(event: Event) -> None:
    """Drop events: the process has no output, and `lcm status` reads the database."""
