"""Open the database of a server when the first call needs it, and again after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from lossless import Lossless
from lossless.engine.shared import database_file
from lossless.errors import StoreReadOnly

Open: TypeAlias = Callable[[bool], Lossless]
"""Open the database, read-only if the argument is True; a missing one is an error."""


class Memory:
    """The database of a server: opened on first use, and shared by all calls."""

    def __init__(self, open_database: Open) -> None:
        self._open = open_database
        self._lock = threading.Lock()
        self._opened: Lossless | None = None
        self._file: database_file.FileIdentity = None

    def __call__(self) -> Lossless:
        """Return the database, opened if it is not, and again if its file was replaced.

        A failure is not remembered: the next call tries again.
        """
        with self._lock:
            if self._opened is not None and database_file.identity(self._opened.location) != self._file:
                opened, self._opened = self._opened, None
                opened.close()
            if self._opened is None:
                try:
                    self._opened = self._open(False)
                except StoreReadOnly:  # without a model nothing is recorded
                    self._opened = self._open(True)
                self._file = database_file.identity(self._opened.location)
            return self._opened

    def close(self) -> None:
        """Close the database, if it was opened."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened:
            opened.close()
