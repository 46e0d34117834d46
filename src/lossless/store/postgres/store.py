"""PostgreSQL through psycopg: a pool, row locks, COPY, tsvector. Everything is in the schema `lossless`."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import errors as pg
from psycopg_pool import ConnectionPool, PoolTimeout

from lossless.config import data_dir, redact_url
from lossless.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from lossless.events import Event, Hook, log
from lossless.search.query.question import analyse
from lossless.search.ranking.messages import Limits, rank_messages
from lossless.store import migrate
from lossless.store.base import SPAN, Dump, KnownEvent, Match, Rows, Step, SummaryMatch, TextKind, Unscrubbed
from lossless.store.postgres import dump as pgtools
from lossless.store.postgres.search import TSVectorIndex, chunks, parameters, queries
from lossless.store.recall_calls import index_words
from lossless.store.sql import backups
from lossless.store.sql import search as fulltext
from lossless.store.sql.columns import LAST, OWNED, Row
from lossless.store.store import Store, opened_before_fork

CONNECT_SECONDS = 5
# What the pool would print while it retries in the background, we raise with the way out.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
START_UP_LOCK, _FILES_LOCK, _KEY_LOCK = 0x6C636D31, 0x6C636D32, 0x6C636D33
_POOL = 8
_LOCK_TIMEOUT = "30s"
_SHORT_MS, _WATCH = 200, 0.05
"""How long others may wait behind us in the queue for a lock, and how often it is looked whether anybody does."""
_PAUSES = (0.1, 0.3, 0.5)
_TRIGRAM = 3
_ROWS_AT_A_TIME = 500
_NAMED = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")

Connection = psycopg.Connection[Row]


class PostgresStore(Store):
    """One PostgreSQL database, for one owner; any number of machines may share it."""

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

    # migrating (see migrate.Migratable)

    def version(self) -> int:
        # Asked of the catalogue's rows: a name look-up may be answered from a cache older than the lock we waited for.
        if not self.all(
            "SELECT 1 FROM pg_tables WHERE schemaname = :schema AND tablename = 'migration'", schema=self.schema
        ):
            return 0
        return int(self.all(f"SELECT coalesce(max(version), 0) FROM {self.schema}.migration")[0][0])  # noqa: S608 - our names

    def set_version(self, version: int) -> None:
        self.run(f"INSERT INTO {self.schema}.migration (version) VALUES (:version)", version=version)  # noqa: S608 - our names

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

    # speaking

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
        with self._pool.connection() as connection:
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
                "SELECT setval(pg_get_serial_sequence(:table, 'id'), greatest(max(id), (SELECT CAST(state AS BIGINT)"  # noqa: S608 - our names
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

    def remember_events(self, conversation_id: int, events: Sequence[tuple[str, int]]) -> None:
        pass  # the unique index over the messages' own column serves here

    def own_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        rows = self.all(
            "SELECT m.event_id, m.id, m.role, m.parts, m.digest, m.outside FROM message m WHERE m.conversation_id = :conversation"  # noqa: S608 - constants
            f" AND m.event_id = ANY(CAST(:ids AS text[])) AND {OWNED}",
            ids=list(event_ids),
            conversation=conversation_id,
            owner=self.owner,
        )
        return {row[0]: KnownEvent(row[1] % SPAN, row[2], row[3], bytes(row[4]), row[5]) for row in rows}

    def hold_files(self, *, alone: bool) -> None:
        self.all(f"SELECT pg_advisory_xact_lock{'' if alone else '_shared'}(:lock)", lock=_FILES_LOCK)

    def hold_key(self, key: str) -> None:
        # Keys that share a number wait for each other, which does no harm.
        self.all(
            "SELECT pg_advisory_xact_lock(:lock, hashtext(:owner || chr(10) || :key))",
            lock=_KEY_LOCK,
            owner=self.owner,
            key=key,
        )

    # search

    def index(self, texts: Sequence[tuple[int, str]]) -> None:
        self._index("search_message", texts)

    def _index(self, table: str, texts: Sequence[tuple[int, str]]) -> None:
        pieces = [(identity, number, words) for identity, text in texts for number, words in enumerate(chunks(text))]
        self.run(
            f"INSERT INTO {table} SELECT i, n, to_tsvector('words', w) FROM"  # noqa: S608 - our names
            " unnest(CAST(:ids AS bigint[]), CAST(:numbers AS int[]), CAST(:words AS text[])) AS t (i, n, w)",
            ids=[piece[0] for piece in pieces],
            numbers=[piece[1] for piece in pieces],
            words=[piece[2] for piece in pieces],
        )

    def unindex(self, ids: Sequence[int]) -> None:
        both = [*ids, *(-identity for identity in ids)]
        self.run("DELETE FROM search_message WHERE message_id = ANY(CAST(:ids AS bigint[]))", ids=both)
        self.recall_calls.remove(ids)
        self.index([(identity, "") for identity in ids])

    def index_summary(self, summary_id: int, text: str) -> None:
        self.run("DELETE FROM search_summary WHERE summary_id = :id", id=summary_id)
        self._index("search_summary", [(summary_id, text)])

    def search(
        self,
        question: str,
        *,
        conversation_ids: Sequence[int] | None = None,
        limit: int = 20,
        since: int | None = None,
        before: int | None = None,
        roles: Sequence[str] | None = None,
        include_recall: bool = False,
    ) -> list[Match]:
        scope = fulltext.scope(self, conversation_ids)
        if not scope.total:
            return []
        limits = Limits(since, before, None if roles is None else tuple(roles), include_recall)
        found = rank_messages(question, TSVectorIndex(self, scope, limits), limits, limit)
        return [Match(identity // SPAN, identity % SPAN, score) for identity, score in found]

    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]:
        wanted = analyse(question).terms
        if not wanted:
            return []
        among = "" if conversation_ids is None else f"AND c.id IN ({self.each_of('ids', 'bigint')})"
        rows = self.all(
            "SELECT c.id, s.summary_id, max(ts_rank(s.words, q.query))::float8"  # noqa: S608 - our names, values as parameters
            f" FROM (SELECT {' || '.join(queries(wanted))} AS query) AS q, search_summary s"
            " JOIN summary y ON y.id = s.summary_id JOIN conversation c ON c.id = y.conversation_id"
            f" WHERE s.words @@ q.query AND c.owner = :owner {among}"
            " GROUP BY 1, 2 ORDER BY 3 DESC, 2 DESC LIMIT :limit",
            owner=self.owner,
            ids=list(conversation_ids or ()),
            limit=limit,
            **parameters(wanted),
        )
        return [SummaryMatch(*row) for row in rows]

    def count_matches(
        self,
        kind: TextKind,
        question: str,
        conversation_ids: Sequence[int] | None = None,
        *,
        since: int | None = None,
        before: int | None = None,
        include_recall: bool = False,
    ) -> int:
        asked, scope = analyse(question), fulltext.scope(self, conversation_ids)
        if not scope.total or not asked.terms:
            return 0
        if kind == "message":
            return TSVectorIndex(self, scope, Limits(since, before, include_recall=include_recall)).count(asked)
        return int(
            self.all(
                "SELECT count(DISTINCT y.id)"  # noqa: S608 - our names
                f" FROM (SELECT {' || '.join(queries(asked.terms))} AS query) AS q, search_summary s"
                " JOIN summary y ON y.id = s.summary_id WHERE s.words @@ q.query"
                f" AND y.conversation_id IN ({self.each_of('ids', 'bigint')}) AND {fulltext.SUMMARY_TIMES}",
                ids=list(scope.ids),
                since=since,
                before=before,
                **parameters(asked.terms),
            )[0][0]
        )

    def check_search(self) -> list[str]:
        """Compare the whole index, word by word, with one made from the messages."""
        problems = []
        is_apart = self._current() is None
        with self.transaction():
            if is_apart:  # of one moment, or what others write meanwhile would be missing
                self.script("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for index, source, what in _INDEXES:
                self.script(f"CREATE TEMP TABLE fresh (LIKE {index}) ON COMMIT DROP")
                self._fill("fresh", source)
                for few, many, problem in (("fresh", index, "missing from"), (index, "fresh", "left over in")):
                    count = self.all(
                        "SELECT count(DISTINCT t.id) FROM"  # noqa: S608 - our names
                        f" (SELECT * FROM {few} EXCEPT SELECT * FROM {many}) AS t (id, chunk, words)"
                    )[0][0]
                    if count:
                        problems.append(f"Words of {count} {what} are {problem} the index.")
                self.script("DROP TABLE fresh")
        return problems

    def rebuild_search(self) -> int:
        if self.recall_calls.are_marked:
            with self.transaction():
                self.recall_calls.mark_all()
        for index, source, _ in _INDEXES:
            self._refill(index, source)
        return int(self.all("SELECT count(*) FROM message")[0][0])

    def _refill(self, index: str, source: str) -> None:
        """Index a few rows at a time, so that writers wait for a few and not for all."""
        column, last = f"{source}_id", 0
        while True:
            with self.transaction():
                texts = self.all(
                    f"SELECT id, text FROM {source} WHERE id > :last ORDER BY id LIMIT 1000 FOR SHARE",  # noqa: S608 - our names
                    last=last,
                )
                ids = [identity for identity, _ in texts]
                both = [*ids, *(-identity for identity in ids)]
                self.run(f"DELETE FROM {index} WHERE {column} = ANY(CAST(:ids AS bigint[]))", ids=both)  # noqa: S608 - our names
                self._index(index, self._index_words(source, texts))
            if not texts:
                break
            last = ids[-1]
        with self.transaction():
            self.run(f"DELETE FROM {index} i WHERE NOT EXISTS (SELECT 1 FROM {source} s WHERE s.id = abs(i.{column}))")  # noqa: S608 - our names

    def _index_words(self, source: str, texts: Sequence[Row]) -> list[tuple[int, str]]:
        """Return what an index should hold of some rows of a table, ascending by id."""
        words = [(identity, text) for identity, text in texts]
        if source != "message" or not words:
            return words
        return index_words(words, self.recall_calls.between(words[0][0], words[-1][0]))

    def _fill(self, index: str, source: str) -> None:
        last = 0
        while texts := self.all(
            f"SELECT id, text FROM {source} WHERE id > :last ORDER BY id LIMIT 1000",  # noqa: S608 - our names
            last=last,
        ):
            self._index(index, self._index_words(source, texts))
            last = texts[-1][0]

    # checking

    def present(self) -> set[str]:
        rows = self.all(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'lossless'"
            " UNION ALL SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'lossless'"
        )
        return {row[0] for row in rows}

    def references(self) -> list[tuple[str, str, str]]:
        rows = self.all(
            "SELECT t.relname, a.attname, p.relname FROM pg_constraint f JOIN pg_class t ON t.oid = f.conrelid"
            " JOIN pg_class p ON p.oid = f.confrelid JOIN pg_namespace n ON n.oid = f.connamespace"
            " JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1]"
            " WHERE f.contype = 'f' AND n.nspname = 'lossless' ORDER BY 1, 2"
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def lost_events(self) -> list[tuple[int, int]]:
        return []  # the index over the messages' own column is the server's to keep

    def rebuild_events(self) -> None:
        pass

    def unindex_conversation(self, conversation_id: int) -> None:
        first, last = conversation_id * SPAN, (conversation_id + 1) * SPAN
        for start, end in ((first, last), (-last, -first)):
            self.run(
                "DELETE FROM search_message WHERE message_id > :first AND message_id < :last", first=start, last=end
            )
        self.run("DELETE FROM recall_call WHERE message_id > :first AND message_id < :last", first=first, last=last)
        self.run(
            "DELETE FROM search_summary WHERE summary_id IN (SELECT id FROM summary WHERE conversation_id = :id)",
            id=conversation_id,
        )

    def slack(self) -> list[str]:
        return []  # the server's own to keep (autovacuum)

    def keep(self, name: str, steps: Sequence[Step]) -> str:
        """Copy the rows that are changed or removed into a schema of its own, one table per table."""
        schema = "lossless_" + re.sub(r"\W", "_", name)
        touched = [step for step in steps if step.action in ("change", "remove", "recount")]
        with self.transaction():
            for table in dict.fromkeys(step.table for step in touched):
                self.script(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                self.script(f"CREATE TABLE IF NOT EXISTS {schema}.{table} (LIKE lossless.{table})")
            for step in touched:
                where = " AND ".join(f"{name} = :{name}" for name, value in step.key.items() if value is not None)
                self.run(
                    f"INSERT INTO {schema}.{step.table} SELECT * FROM lossless.{step.table} WHERE {where}"  # noqa: S608 - our names
                    f" EXCEPT SELECT * FROM {schema}.{step.table}",
                    **step.key,
                )
        return schema if touched else ""

    # erasing

    beyond: tuple[str, ...] = (
        "The server's write-ahead log and its archive, replicas, base backups and dumps may still hold it, until they are"
        " recycled or expire.",
        backups.ELSEWHERE,
    )

    @contextmanager
    def erasing(self) -> Iterator[None]:
        with self.transaction():
            yield

    def scrub(self) -> Unscrubbed:
        with self._translated(), self._borrowed() as connection:
            # A dead row keeps its words until the table is rewritten; so do the samples a planner goes by.
            unseen, done = self._is_unseen(connection), list[bool]()
            for table in _WORDY:
                pauses = _PAUSES if all(done) else _PAUSES[:1]
                done.append(self._rewritten(connection, f"{self.schema}.{table}", "FULL, ANALYZE", pauses))
            # Once more: a reader that started since then sees no deleted row, but may still see the old samples.
            unseen = self._is_unseen(connection) and unseen
            done.append(
                self._rewritten(connection, "pg_catalog.pg_statistic", "FULL", _PAUSES if all(done) else _PAUSES[:1])
            )
        return "read" if not unseen else "" if all(done) else "held"

    def _is_unseen(self, connection: Connection) -> bool:
        """Wait a little until no other session sees the database as it was before now: its rows could not be removed."""
        began = connection.execute("SELECT clock_timestamp()").fetchall()[0][0]
        for pause in (*_PAUSES, None):
            older = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_xmin IS NOT NULL AND xact_start < %s",
                (began,),
            ).fetchall()
            if not older[0][0] or pause is None:
                break
            time.sleep(pause)
        return not older[0][0]

    def give_back(self) -> bool:
        return True  # the server's own to do (autovacuum)

    def _rewritten(self, connection: Connection, table: str, how: str, pauses: Sequence[float]) -> bool:
        """Rewrite a table while nobody waits for it; if that is impossible, only clear its dead rows."""
        for pause in pauses:
            connection.execute(f"SET lock_timeout TO '{_SHORT_MS}ms'".encode())
            try:
                with self._giving_way(connection):
                    connection.execute(f"VACUUM ({how}) {table}".encode())
                return True
            except (pg.LockNotAvailable, pg.QueryCanceled, pg.DeadlockDetected):
                time.sleep(pause)
            finally:
                connection.execute(f"SET lock_timeout TO '{_LOCK_TIMEOUT}'".encode())
        with suppress(pg.LockNotAvailable, pg.InsufficientPrivilege):
            connection.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {table}".encode())
        return False

    @contextmanager
    def _giving_way(self, connection: Connection) -> Iterator[None]:
        """Cancel what a connection does as soon as another session waits for it."""
        over, pid = threading.Event(), connection.info.backend_pid

        def watch() -> None:
            with suppress(psycopg.Error), psycopg.connect(self._url, autocommit=True) as watching:
                while not over.wait(_WATCH):
                    if watching.execute(
                        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND %s = ANY (pg_blocking_pids(pid))",
                        (pid,),
                    ).fetchall():
                        watching.execute("SELECT pg_cancel_backend(%s)", (pid,))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def remains(self, needles: Sequence[str]) -> list[str] | None:
        return None  # a server's pages are not ours to read

    def kept_copies(self) -> list[str]:
        rows = self.all("SELECT nspname FROM pg_namespace WHERE nspname ~ '^lossless_before_[a-z0-9_]+$' ORDER BY 1")
        return [row[0] for row in rows]

    def drop_copies(self) -> None:
        with self.transaction():
            for each in self.kept_copies():
                self.script(f"DROP SCHEMA {each} CASCADE")
        for each in self.backups.paths():
            backups.remove(each)

    # the whole

    def place(self) -> Path:
        with self._translated(), self._borrowed() as connection:
            return place(connection)

    def dump(self, path: Path) -> Dump:
        snapshot = self.all("SELECT pg_export_snapshot()")[0][0]
        return pgtools.dump(self._url, snapshot, path)

    def size(self) -> int:
        return int(
            self.all(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'lossless' AND c.relkind = 'r'"
            )[0][0]
        )

    def damage(self) -> list[str]:
        # Pages and indexes are the server's own to check (pg_amcheck); what we can say is that it answers.
        self.all("SELECT 1")
        return []

    def close(self) -> None:
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            self._pool.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout as error:
            if self._is_full():
                raise StoreBusy(f"All {_POOL} connections to {self.location} are in use.", hint=_AGAIN) from error
            raise translate(error, self.location) from error
        except psycopg.Error as error:
            raise translate(error, self.location) from error


_WORDY = (
    *("message", "copy", "summary", "revision", "pin", "file", "vector", "debt", "conversation"),
    *("search_message", "search_summary", "operation", "change", "grant_read"),
)
_INDEXES = (("search_message", "message", "messages"), ("search_summary", "summary", "summaries"))


@cache
def _translated_sql(sql: str) -> bytes:
    return _NAMED.sub(r"%(\1)s", sql.replace("%", "%%")).encode()


_QUOTES_ADDRESS = re.compile(
    r"connection info string|invalid (?:dsn|connection option|URI|percent|port|integer)|\bURI\b|could not parse .* list"
)
_AGAIN = "Nothing of this call was stored; it can be tried again."
_KINDS: list[tuple[type[Exception] | tuple[type[Exception], ...], type[StoreError], str, str]] = [
    (pg.DiskFull, StoreFull, "has no room left", f"Free some disk space on the server. {_AGAIN}"),
    (pg.ReadOnlySqlTransaction, StoreReadOnly, "cannot be written", "It is a standby, or was set read-only."),
    (pg.InsufficientPrivilege, StoreUnavailable, "does not let this user in", "Ask for the rights on schema lossless."),
    (
        (pg.UndefinedTable, pg.InvalidSchemaName),
        StoreUnavailable,
        "was replaced or removed meanwhile",
        f"Open it again. {_AGAIN}",
    ),
    (pg.LockNotAvailable, StoreBusy, "was held by another session for too long", _AGAIN),
    (pg.DeadlockDetected, StoreBusy, "was held by another session", _AGAIN),
    (pg.SerializationFailure, StoreBusy, "was changed by another session", _AGAIN),
    (pg.ProgramLimitExceeded, StoreError, "has a limit that this call exceeds", "Use shorter keys."),
    (pg.QueryCanceled, StoreBusy, "took too long to answer", _AGAIN),
    (
        psycopg.OperationalError,
        StoreUnavailable,
        "cannot be reached",
        f"Check that the server runs and the URL is right. {_AGAIN}",
    ),
    (PoolTimeout, StoreUnavailable, "cannot be reached", f"Check that the server runs. {_AGAIN}"),
]


def place(connection: Connection) -> Path:
    """Return the prefix of file names that belong to the database of a connection."""
    info = connection.info
    return data_dir() / re.sub(r"[^\w.-]", "_", f"{info.host}-{info.port}-{info.dbname}")


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
