"""Translate errors of SQLite into ours."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from lossless.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreMoved,
    StoreReadOnly,
    StoreUnavailable,
)

AGAIN = "Nothing of this call was stored; it can be tried again."

PATH = "path (--db, or the setting database_path)"

RESTORE = "Restore a backup; reading may still work with read_only=True."

_KINDS: list[tuple[type[apsw.Error], Callable[..., StoreError], str, str]] = [
    (apsw.FullError, StoreFull, "has no room left", f"Free some disk space. {AGAIN}"),
    (
        apsw.ReadOnlyError,
        StoreReadOnly,
        "cannot be written",
        f"Check the permissions of the file and its directory. {AGAIN}",
    ),
    (apsw.PermissionsError, StoreReadOnly, "may not be opened", "Check the permissions of the file."),
    (apsw.CantOpenError, StoreUnavailable, "cannot be opened", "Check that the path exists, is a file."),
    (
        apsw.NotADBError,
        StoreCorrupt,
        "is not a database",
        f"If it was one, restore a backup; else move that file away, or choose another {PATH}.",
    ),
    (apsw.CorruptError, StoreCorrupt, "is damaged", RESTORE),
    (apsw.BusyError, StoreBusy, "was held by another process for too long", AGAIN),
    (apsw.LockedError, StoreBusy, "was held by another process for too long", AGAIN),
    (apsw.ConnectionClosedError, StoreUnavailable, "was closed", "Open it again."),
    (apsw.IOError, StoreUnavailable, "could not be read or written by the operating system", AGAIN),
]


def translate(error: apsw.Error, location: str) -> StoreError:
    """Return an error of SQLite as one of ours."""
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
        return moved(location)
    for kind, ours, what, hint in _KINDS:
        if isinstance(error, kind):
            return ours(f"{location} {what} ({error}).", hint=hint)
    return StoreError(f"{location}: {error}.", hint="This is a fault in lossless; please report it.")


def moved(location: str) -> StoreMoved:
    """Return the error that the file which is open is no longer the one at its path."""
    return StoreMoved(f"{location} was deleted, moved or replaced meanwhile.", hint=f"Open it again. {AGAIN}")
