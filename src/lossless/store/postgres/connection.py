"""PostgreSQL through psycopg: a pool, row locks, COPY, tsvector. Everything is in the schema `lossless`."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from lossless.config import data_dir, redact_url
from lossless.errors import StoreBusy, StoreReadOnly, StoreUnavailable
from lossless.events import Event, Hook, log
from lossless.store import migrate, waiting
from lossless.store.postgres.errors import AGAIN, translate
from lossless.store.rows.types import Rows
from lossless.store.sql.columns import LAST, Row
from lossless.store.store import Store, opened_before_fork

CONNECT_SECONDS = 5
_LEAST_CONNECT = 0.2
# What the pool would print while it retries in the background, we raise with the way out.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
START_UP_LOCK = 0x6C636D31
_POOL = 8
_LOCK_TIMEOUT = "30s"
_TRIGRAM = 3
_ROWS_AT_A_TIME = 500
_NAMED = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
Connection = psycopg.Connection[Row]


class PostgresConnection(Store):
    """A pool of connections to one database: opening, transactions, statements."""

    for_update = " FOR UPDATE"

    skip_locked = " FOR UPDATE OF d SKIP LOCKED"

    binary = '"C"'

    indexed_as = "{table}_id"

    finds = "strpos({}, {}) > 0"

    dialect = "postgres"

    schema = "lossless"
    """Where its tables are."""

    indexed = {  # noqa: RUF012 - a constant of the kind
        "message": "SELECT message_id AS id FROM search_message WHERE message_id > 0",
        "summary": "SELECT summary_id AS id FROM search_summary",
    }

    def __init__(
        self,
        url: str,
        *,
        owner: str = "default",
        read_only: bool = False,
        on_event: Hook = log,
        scripts: dict[int, Path] | None = None,
    ) -> None:
        self.owner = owner
        self.location = redact_url(url)
        self.read_only = read_only
        self._url = url
        self._on_event = on_event
        self._local = threading.local()
        self._closed = False
        with self._translated():
            # One plain connection first: the pool would retry in the background and hide the reason.
            with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as first:
                encoding = first.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise StoreUnavailable(
                    f"{self.location} keeps text as {encoding}, which cannot hold every message.",
                    hint="Create the database with ENCODING 'UTF8'.",
                )
            self._open_pool()
            try:
                self._migrate(scripts or migrate.steps("postgres"))
            except BaseException:
                self.close()
                raise

    def _open_pool(self) -> None:
        self._pid = os.getpid()
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self._url,
            min_size=0,
            max_size=_POOL,
            timeout=CONNECT_SECONDS,
            kwargs={"autocommit": True, "connect_timeout": CONNECT_SECONDS},
            configure=self._configure,
            check=ConnectionPool.check_connection,
            open=True,
        )

    def _configure(self, connection: Connection) -> None:
        for setting in (
            f"search_path TO {self.schema}, public",
            "client_encoding TO 'UTF8'",
            "default_transaction_isolation TO 'read committed'",  # rows locked by others are read again, not refused
            f"lock_timeout TO '{_LOCK_TIMEOUT}'",
            "idle_in_transaction_session_timeout TO '60s'",
        ):
            connection.execute(f"SET {setting}".encode())
        if self.read_only:
            connection.execute("SET default_transaction_read_only TO on")

    def _migrate(self, scripts: dict[int, Path]) -> None:
        if not self.read_only:
            migrate.migrate(self, scripts)
        else:
            migrate.refuse_newer(self.version(), self.location, max(scripts))
            if self.version() == 0:
                raise StoreUnavailable(f"{self.location} holds nothing yet.", hint="Write to it once, then read.")

    def version(self) -> int:
        # Asked of the catalogue's rows: a name look-up may be answered from a cache older than the lock we waited for.
        if not self.all(
            "SELECT 1 FROM pg_tables WHERE schemaname = :schema AND tablename = 'migration'", schema=self.schema
        ):
            return 0
        return int(self.all(f"SELECT coalesce(max(version), 0) FROM {self.schema}.migration")[0][0])

    def set_version(self, version: int) -> None:
        self.run(f"INSERT INTO {self.schema}.migration (version) VALUES (:version)", version=version)

    def script(self, sql: str) -> None:
        self._connection.execute(sql.encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.transaction():
            self.all("SELECT pg_advisory_xact_lock(:lock)", lock=START_UP_LOCK)
            yield

    def keep_copy_before(self, version: int) -> None:
        """Copy each table into a schema of its own, in the transaction of the step."""
        schema = f"lossless_before_v{version:d}"
        self.script(f"CREATE SCHEMA {schema}")
        for (table,) in self.all("SELECT tablename FROM pg_tables WHERE schemaname = 'lossless' ORDER BY 1"):
            self.script(f"CREATE TABLE {schema}.{table} AS TABLE lossless.{table}")
        self._on_event(Event("store.copied", f"kept a copy before schema {version}: {schema}"))

    @property
    def _connection(self) -> Connection:
        connection = self._current()
        assert connection is not None, "outside of a transaction"
        return connection

    def _current(self) -> Connection | None:
        """Return the connection of this thread's transaction. A child shares its parent's sockets and must not use them."""
        if os.getpid() != self._pid:
            raise opened_before_fork(self.location)
        connection: Connection | None = getattr(self._local, "connection", None)
        return connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.read_only:
            raise StoreReadOnly(f"{self.location} was opened for reading.", hint="Open it without read_only to write.")
        if self._current() is not None:
            yield
            return
        with self._translated(), self._borrowed() as connection, connection.transaction():
            self._local.connection = connection
            try:
                if (limit := waiting.current()) is not None:
                    limit.has_entered = True
                    connection.execute(f"SET LOCAL lock_timeout TO {max(1, int(limit.left * 1000))}".encode())
                yield
            finally:
                self._local.connection = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self._current() is not None:
            yield
            return
        with self._translated(), self._unhurried() as connection:
            self._local.connection = connection
            try:
                yield
            finally:
                self._local.connection = None

    @contextmanager
    def _unhurried(self) -> Iterator[Connection]:
        """Yield a connection that reads one state of the database, however slowly its reader works."""
        with self._borrowed() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
            yield connection

    @contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        if self._closed:
            raise StoreUnavailable(f"{self.location} was closed.", hint="Open it again.")
        limit = waiting.current()
        seconds = None if limit is None else min(CONNECT_SECONDS, max(_LEAST_CONNECT, limit.left))
        with self._pool.connection(seconds) as connection:
            yield connection

    def _is_full(self) -> bool:
        stats = self._pool.get_stats()
        return stats.get("pool_size", 0) >= _POOL and not stats.get("pool_available", 0)

    def all(self, sql: str, **parameters: Any) -> list[Row]:
        current = self._current()
        if current is not None:
            return current.execute(_translated_sql(sql), parameters).fetchall()
        with self._translated(), self._borrowed() as connection:
            return connection.execute(_translated_sql(sql), parameters).fetchall()

    def stream(self, sql: str, **parameters: Any) -> Rows:
        current = self._current()
        own = self._unhurried() if current is None else nullcontext(current)
        with self._translated(), own as connection, connection.cursor(name=f"stream_{uuid4().hex}") as cursor:
            cursor.itersize = _ROWS_AT_A_TIME
            yield from cursor.execute(_translated_sql(sql), parameters)

    def run(self, sql: str, **parameters: Any) -> int:
        return self._connection.execute(_translated_sql(sql), parameters).rowcount

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()) as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def copy_in(self, table: str, columns: Sequence[str], lines: Iterable[bytes]) -> None:
        """Insert rows as a dump writes them (in a transaction)."""
        names = ", ".join(f'"{name}"' for name in columns)
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {self.schema}.{table} ({names}) FROM STDIN".encode()) as copy,
        ):
            for line in lines:
                copy.write(line)

    def columns(self, table: str) -> list[tuple[str, str, int]]:
        rows = self.all(
            "SELECT a.attname, format_type(a.atttypid, NULL), coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0)"
            " FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary"
            " WHERE a.attrelid = to_regclass(:table) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''"
            " ORDER BY a.attnum",
            table=f"{self.schema}.{table}",
        )
        return [(name, kind, place) for name, kind, place in rows]

    def defer_links(self) -> None:
        pass  # the rows of one COPY are checked together

    def new_ids(self, table: str, count: int) -> list[int]:
        rows = self.all(
            "SELECT nextval(pg_get_serial_sequence(:table, 'id')) FROM generate_series(1, :count)",
            table=f"{self.schema}.{table}",
            count=count,
        )
        return [row[0] for row in rows]

    def renumber(self) -> None:
        for table in ("conversation", "summary"):
            self.all(
                "SELECT setval(pg_get_serial_sequence(:table, 'id'), greatest(max(id), (SELECT CAST(state AS BIGINT)"
                f" FROM guard WHERE name = :mark), 0) + 1, false) FROM {table}",
                table=f"{self.schema}.{table}",
                mark=LAST.format(table),
            )

    def each_of(self, name: str, kind: str) -> str:
        return f"SELECT unnest(CAST(:{name} AS {kind}[])) AS value"

    def listing(self, values: Sequence[Any]) -> list[Any]:
        return list(values)

    def needle(self, literal: str, *, folded: bool) -> tuple[str, str]:
        if folded:
            # In the collation C no letter beyond ASCII changes, whatever the database's own language says.
            return 'strpos(lower(t.text COLLATE "C"), {}) > 0', literal
        if len(literal) < _TRIGRAM:
            return "strpos(t.text, {}) > 0", literal
        # LIKE, because an index of trigrams serves it, where there is one.
        return "t.text LIKE {}", "%" + re.sub(r"[\\%_]", r"\\\g<0>", literal) + "%"

    def close(self) -> None:
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            self._pool.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (PoolTimeout, psycopg.errors.LockNotAvailable) as error:
            if (limit := waiting.current()) is not None:
                limit.left, limit.has_entered = 0.0, False
            if isinstance(error, PoolTimeout) and self._is_full():
                raise StoreBusy(f"All {_POOL} connections to {self.location} are in use.", hint=AGAIN) from error
            raise translate(error, self.location) from error
        except psycopg.Error as error:
            raise translate(error, self.location) from error


@cache
def _translated_sql(sql: str) -> bytes:
    return _NAMED.sub(r"%(\1)s", sql.replace("%", "%%")).encode()


def place(connection: Connection) -> Path:
    """Return the prefix of file names that belong to the database of a connection."""
    info = connection.info
    return data_dir() / re.sub(r"[^\w.-]", "_", f"{info.host}-{info.port}-{info.dbname}")
