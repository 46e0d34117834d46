"""Notice that the file of an open database was deleted or replaced.

SQLite goes on with the file that it opened, although nobody can find it any more. A process that keeps a database open
for long compares from time to time.
"""

from __future__ import annotations

import os
from typing import TypeAlias

from lossless import config

FileIdentity: TypeAlias = tuple[int, int] | None
"""Device and number of a file; None for a database without a file, or if the file is missing."""


def identity(database: str) -> FileIdentity:
    """Return the identity of the file at the location of a database."""
    if not config.is_file(database):
        return None
    try:
        found = os.stat(database)
    except OSError:
        return None
    return found.st_dev, found.st_ino
