"""Restore a database on a server: it is made in a schema of its own, and takes the name of the other.

Hosts wait for the exchange of two names, and not for the rows that come in.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import psycopg

from lossless.config import redact_url
from lossless.errors import InvalidInput, StoreBusy
from lossless.store import migrate
from lossless.store.postgres import dump
from lossless.store.postgres.connection import CONNECT_SECONDS, START_UP_LOCK, Connection, place
from lossless.store.postgres.errors import translate
from lossless.store.postgres.store import PostgresStore
from lossless.store.sql import backups
from lossless.store.sql.tables import TABLES
from lossless.store.store import Store

_OURS = "lossless"
_BEGINNING = "lossless_restoring_"
_RESTORE_LOCK = 0x6C636D33
_TRIES, _PAUSE = 10, 0.1
_MOST_WAIT = "500ms"
"""How long a host may have to wait behind us in the queue for a lock."""


class SchemaSite:
    """The schema of a server as the place of a database (see `lossless.store.store.Site`)."""

    form = dump.FORM

    def __init__(self, url: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._url, self._pause = url, pause
        self._aside: str | None = None
        self._made = ""
        self._placed = False
        with self._connected() as connection:
            self.beside = place(connection)

    def is_taken(self) -> bool:
        with self._connected() as connection:
            return _is_there(connection, _OURS)

    @contextmanager
    def cleared(self, now: datetime, *, replaces: bool) -> Iterator[tuple[str, ...]]:
        stamp = f"{now:%Y%m%d_%H%M%S_%f}"
        aside = f"lossless_before_restore_{stamp}"
        taken = self.is_taken()
        if taken and not replaces:
            raise self._taken_meanwhile()
        self._aside, self._made, self._placed = aside if taken else None, f"{_BEGINNING}{stamp}", False
        with self._alone():
            try:
                yield (aside,) if taken else ()
            except BaseException:
                self._undo(aside)
                raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow one restore at a time; remove what a killed one left."""
        with self._connected() as connection:
            if not connection.execute(f"SELECT pg_try_advisory_lock({_RESTORE_LOCK})".encode()).fetchall()[0][0]:
                raise StoreBusy(
                    "Another restore to this database is under way.", hint="Wait for its end; nothing was changed."
                )
            left = connection.execute(
                "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (_BEGINNING,)
            ).fetchall()
            for (schema,) in left:
                connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
            yield

    def load(self, path: Path, schema: int) -> None:
        """Take the rows out of a dump: no statement in it is carried out."""
        with closing(_Coming(self._url, self._made, migrate.until("postgres", schema))) as store:
            dump.refuse_programs(path, _names(store))
            with store.transaction():
                for table in (each for each in TABLES if store.columns(each)):
                    for columns, lines in dump.rows(path, table):
                        if odd := set(columns) - {name for name, _, _ in store.columns(table)}:
                            raise InvalidInput(f"{path.name} has a column {min(odd)} of {table}, which is not ours.")
                        store.copy_in(table, columns, lines)
                store.renumber()
            migrate.migrate(store, migrate.steps("postgres"))
            store.rebuild_search()
        self._exchange()

    @contextmanager
    def filling(self) -> Iterator[Store]:
        with closing(_Coming(self._url, self._made, migrate.steps("postgres"))) as store:
            yield store
        self._exchange()

    def _exchange(self) -> None:
        """Give the new schema the name of the old one, in one short transaction, retried until nobody is writing."""
        for left in range(_TRIES, -1, -1):
            try:
                with self._connected() as connection, connection.transaction():
                    self._rename(connection)
                self._placed = True
                return
            except StoreBusy as error:
                if not left:
                    raise StoreBusy(
                        "Another session was in the midst of writing for too long.",
                        hint="Let the hosts and workers rest, then try again; nothing was changed.",
                    ) from error
                self._pause(_PAUSE)

    def _rename(self, connection: Connection) -> None:
        connection.execute(f"SET LOCAL lock_timeout TO '{_MOST_WAIT}'".encode())
        connection.execute(f"SELECT pg_advisory_xact_lock({START_UP_LOCK})".encode())
        if self._aside is None and _is_there(connection, _OURS):
            raise self._taken_meanwhile()
        if self._aside is not None:
            connection.execute(_renaming(connection, _OURS, self._aside).encode())
        connection.execute(f"ALTER SCHEMA {self._made} RENAME TO {_OURS}".encode())

    def _undo(self, aside: str) -> None:
        with self._connected() as connection, connection.transaction():
            connection.execute(f"SELECT pg_advisory_xact_lock({START_UP_LOCK})".encode())
            if not self._placed:
                connection.execute(f"DROP SCHEMA IF EXISTS {self._made} CASCADE".encode())
                return
            # A process that opened it meanwhile may have written to it: that is kept, too.
            connection.execute(_renaming(connection, _OURS, f"{aside}_0").encode())
            if self._aside:
                connection.execute(_renaming(connection, aside, _OURS).encode())

    def _taken_meanwhile(self) -> Exception:
        return backups.taken_meanwhile(redact_url(self._url))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with psycopg.connect(self._url, connect_timeout=CONNECT_SECONDS, autocommit=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise translate(error, redact_url(self._url)) from error


class _Coming(PostgresStore):
    """A database that is being made in a schema that nobody else knows."""

    def __init__(self, url: str, schema: str, scripts: dict[int, Path]) -> None:
        self.schema = schema
        super().__init__(url, scripts=scripts)

    def script(self, sql: str) -> None:
        super().script(_SCHEMA.sub(lambda found: f"{found[1]}{self.schema}", sql))

    def keep_copy_before(self, version: int) -> None:
        pass  # the backup is the copy


_SCHEMA = re.compile(r"(CREATE SCHEMA IF NOT EXISTS |SET LOCAL search_path TO )lossless\b")


def _names(store: PostgresStore) -> set[str]:
    """Return the name of everything in a schema."""
    rows = store.all(
        "WITH s AS (SELECT oid FROM pg_namespace WHERE nspname = :schema)"
        " SELECT c.relname FROM pg_class c JOIN s ON s.oid = c.relnamespace"
        " UNION SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN s ON s.oid = c.relnamespace"
        " UNION SELECT f.conname FROM pg_constraint f JOIN s ON s.oid = f.connamespace"
        " UNION SELECT p.proname || '(' || oidvectortypes(p.proargtypes) || ')' FROM pg_proc p JOIN s ON s.oid = p.pronamespace"
        " UNION SELECT g.tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN s ON s.oid = c.relnamespace"
        " UNION SELECT t.cfgname FROM pg_ts_config t JOIN s ON s.oid = t.cfgnamespace"
        " UNION SELECT t.dictname FROM pg_ts_dict t JOIN s ON s.oid = t.dictnamespace",
        schema=store.schema,
    )
    return {_OURS, *(str(row[0]) for row in rows)}


def _is_there(connection: Connection, schema: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall())


def _renaming(connection: Connection, old: str, new: str) -> str:
    """Return the statements that rename a schema, once nobody is writing to it."""
    found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (old,)).fetchall()
    tables = ", ".join(f"{old}.{table}" for (table,) in found)
    held = f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE;" if tables else ""
    return f"{held} ALTER SCHEMA {old} RENAME TO {new};"
