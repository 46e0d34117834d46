"""Read another program's SQLite file: in one snapshot, never written, its schema not trusted.

As with our own, the file is never opened but through SQLite: closing any other handle would drop its owner's locks if that
owner is this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from lossless.errors import StoreBusy, StoreCorrupt, StoreError, StoreReadOnly, StoreUnavailable
from lossless.store.header import refuse_log
from lossless.store.sql.columns import Row

_SAFE = (
    (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
    (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
)


class Foreign:
    """A database as it was when it was opened, whatever its owner does meanwhile."""

    def __init__(self, path: str | Path, *, patience_ms: int) -> None:
        self.path = Path(path).absolute()
        if not self.path.is_file():
            raise StoreUnavailable(f"There is no file {path}.", hint="Name the database to import.")
        # Opened as a database, it would lose the locks that this process may hold on it.
        refuse_log(self.path)
        self._patience_ms = patience_ms
        self._had_wal = os.path.exists(f"{self.path}-wal")
        with self._translated():
            self._connection = self._snapshot()
            self.application_id: int = self._connection.pragma("application_id")

    def _snapshot(self) -> apsw.Connection:
        if os.path.exists(f"{self.path}-shm"):
            with suppress(apsw.CantOpenError, apsw.ReadOnlyError):
                return self._open("mode=ro&readonly_shm=1")  # even what a crash left there stays as it is
        try:
            return self._open("mode=ro")
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # Where nothing may be written SQLite finds no place for its shared memory. With nothing left in a WAL, the
            # file alone is the whole truth.
            if self._had_wal:
                raise
            return self._open("immutable=1")

    def _open(self, how: str) -> apsw.Connection:
        connection = apsw.Connection(
            f"{self.path.as_uri()}?{how}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            connection.set_busy_timeout(self._patience_ms)
            for option, value in _SAFE:
                connection.config(option, value)
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def tables(self) -> dict[str, frozenset[str]]:
        """Return the columns of each table; tables of extensions are skipped."""
        names = self.all("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'")
        found = self.all(
            "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) c"
            " WHERE m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        return {table: frozenset(column for owner, column in found if owner == table) for (table,) in names}

    def all(self, sql: str, **parameters: Any) -> list[Row]:
        return list(self.rows(sql, **parameters))

    def rows(self, sql: str, **parameters: Any) -> Iterator[Row]:
        with self._translated():
            yield from self._connection.execute(sql, parameters)

    def close(self) -> None:
        self._connection.close()
        self._tidy()

    def _tidy(self) -> None:
        """Remove the empty WAL that reading a database in that mode leaves behind, as SQLite itself does it: under its locks."""
        with suppress(OSError, apsw.Error):  # a courtesy; what is left is empty, and its owner's next start removes it
            if not self._had_wal and os.stat(f"{self.path}-wal").st_size == 0:
                owner = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
                owner.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                owner.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise _translate(error, self.path) from error
        except UnicodeDecodeError as error:
            raise StoreCorrupt(
                f"{self.path} holds text that is not UTF-8.", hint="Its own tools may repair it."
            ) from error


_COPY = "Stop the program it belongs to, or import a copy of the file."


def _translate(error: apsw.Error, path: Path) -> StoreError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"{path} is held by the program it belongs to.", hint=_COPY)
        case apsw.NotADBError():
            return StoreCorrupt(f"{path} is not an SQLite database, or it is encrypted.", hint="Name another file.")
        case apsw.CorruptError():
            return StoreCorrupt(
                f"{path} is damaged ({error}).", hint="Restore it with SQLite's .recover, then import that."
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreReadOnly(
                f"{path} was left in the middle of a write ({error}).",
                hint="Open it once with the program it belongs to.",
            )
        case apsw.CantOpenError() | apsw.IOError():
            return StoreUnavailable(f"{path} cannot be read ({error}).", hint="Check its permissions.")
        case _:
            return StoreError(f"{path}: {error}.", hint="The file is not what its tables say; please report it.")
