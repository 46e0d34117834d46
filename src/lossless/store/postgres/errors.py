"""Translate errors of PostgreSQL into ours."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolTimeout

from lossless.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

_QUOTES_ADDRESS = re.compile(
    r"connection info string|invalid (?:dsn|connection option|URI|percent|port|integer)|\bURI\b|could not parse .* list"
)


AGAIN = "Nothing of this call was stored; it can be tried again."


_KINDS: list[tuple[type[Exception] | tuple[type[Exception], ...], type[StoreError], str, str]] = [
    (pg.DiskFull, StoreFull, "has no room left", f"Free some disk space on the server. {AGAIN}"),
    (pg.ReadOnlySqlTransaction, StoreReadOnly, "cannot be written", "It is a standby, or was set read-only."),
    (pg.InsufficientPrivilege, StoreUnavailable, "does not let this user in", "Ask for the rights on schema lossless."),
    (
        (pg.UndefinedTable, pg.InvalidSchemaName),
        StoreUnavailable,
        "was replaced or removed meanwhile",
        f"Open it again. {AGAIN}",
    ),
    (pg.LockNotAvailable, StoreBusy, "was held by another session for too long", AGAIN),
    (pg.DeadlockDetected, StoreBusy, "was held by another session", AGAIN),
    (pg.SerializationFailure, StoreBusy, "was changed by another session", AGAIN),
    (pg.ProgramLimitExceeded, StoreError, "has a limit that this call exceeds", "Use shorter keys."),
    (pg.QueryCanceled, StoreBusy, "took too long to answer", AGAIN),
    (
        psycopg.OperationalError,
        StoreUnavailable,
        "cannot be reached",
        f"Check that the server runs and the URL is right. {AGAIN}",
    ),
    (PoolTimeout, StoreUnavailable, "cannot be reached", f"Check that the server runs. {AGAIN}"),
]


def translate(error: Exception, location: str) -> StoreError:
    """Return an error of SQLite as one of ours."""
    reason = " ".join(str(error).split())
    if _QUOTES_ADDRESS.search(reason):  # a part of the address may be a part of its password
        return StoreUnavailable(
            "The address of the database cannot be read.",
            hint="Write postgresql://user@host/name, or host=... dbname=..., with values that hold spaces in quotes.",
        )
    for kind, ours, what, hint in _KINDS:
        if isinstance(error, kind):
            return ours(f"{location} {what} ({reason}).", hint=hint)
    return StoreError(f"{location}: {reason}.", hint="This is a fault in lossless; please report it.")
