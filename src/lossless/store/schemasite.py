"""A server's database as the place of one of ours: in one transaction the schema that is there is renamed and another comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import psycopg

from lossless.config import redact_url
from lossless.errors import StoreError
from lossless.store import kept, migrate, pgtools
from lossless.store.base import Store
from lossless.store.postgres import CONNECT_SECONDS, START_UP_LOCK, Connection, PostgresStore, place, translate

_OURS = "lossless"


class SchemaSite:
    """See `lossless.store.base.Site`."""

    form = pgtools.FORM

    def __init__(self, url: str) -> None:
        self._url = url
        self._aside: str | None = None
        self._filled = False
        with self._connected() as connection:
            self.beside = place(connection)

    def is_taken(self) -> bool:
        with self._connected() as connection:
            return _is_there(connection, _OURS)

    @contextmanager
    def cleared(self, now: datetime, *, replaces: bool) -> Iterator[tuple[str, ...]]:
        aside = f"lossless_before_restore_{now:%Y%m%d_%H%M%S_%f}"
        taken = self.is_taken()
        if taken and not replaces:
            raise self._taken_meanwhile()
        self._aside = aside if taken else None
        try:
            yield (aside,) if taken else ()
        except BaseException:
            self._undo(aside)
            raise

    def load(self, path: Path) -> None:
        try:
            pgtools.restore(self._url, path, first=self._clearing())
        except StoreError as error:
            raise (self._taken_meanwhile() if not self._aside and self.is_taken() else error) from error
        self._filled = True

    @contextmanager
    def filling(self) -> Iterator[Store]:
        with closing(_Coming(self._url)) as store, store.transaction():
            store.script(self._clearing())
            if store.version():
                raise self._taken_meanwhile()
            migrate.migrate(store, migrate.steps("postgres"))
            yield store
        self._filled = True

    def _clearing(self) -> str:
        """In the transaction that fills the place: whoever would make a database there waits for it."""
        wait = f"SET LOCAL lock_timeout TO '5s'; SELECT pg_advisory_xact_lock({START_UP_LOCK});"
        if self._aside is None:
            return wait
        with self._connected() as connection:
            return f"{wait} {_renaming(connection, _OURS, self._aside)}"

    def _undo(self, aside: str) -> None:
        with self._connected() as connection, connection.transaction():
            # Whatever was under way has ended, one way or the other, once this is ours.
            connection.execute(f"SELECT pg_advisory_xact_lock({START_UP_LOCK})".encode())
            if not self._filled and not _is_there(connection, aside):
                return
            # Whoever opened it meanwhile may have written to it: that is kept, too.
            connection.execute(_renaming(connection, _OURS, f"{aside}_0").encode())
            if self._aside:
                connection.execute(_renaming(connection, aside, _OURS).encode())

    def _taken_meanwhile(self) -> Exception:
        return kept.taken_meanwhile(redact_url(self._url))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with psycopg.connect(self._url, connect_timeout=CONNECT_SECONDS, autocommit=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise translate(error, redact_url(self._url)) from error


class _Coming(PostgresStore):
    """A database that comes into being in a transaction of its maker's."""

    def _migrate(self, scripts: dict[int, Path]) -> None:
        pass


def _is_there(connection: Connection, schema: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall())


def _renaming(connection: Connection, old: str, new: str) -> str:
    """The statements that rename a schema, once nobody is in the midst of writing to it."""
    found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (old,)).fetchall()
    tables = ", ".join(f"{old}.{table}" for (table,) in found)
    held = f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE;" if tables else ""
    return f"{held} ALTER SCHEMA {old} RENAME TO {new};"
