"""PostgreSQL through psycopg: event ids, the search index, erasing, dumps and checks."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import errors as pg

from lossless.search.query.question import analyse
from lossless.search.ranking.messages import Limits, match_messages, rank_messages
from lossless.store.postgres import dump as pgtools
from lossless.store.postgres.connection import (
    _LOCK_TIMEOUT,
    Connection,
    PostgresConnection,
    place,
)
from lossless.store.postgres.search import TSVectorIndex, chunks, parameters, queries
from lossless.store.recall_calls import index_words
from lossless.store.rows.types import SPAN, Dump, KnownEvent, Match, Matches, Step, SummaryMatch, Unscrubbed
from lossless.store.sql import backups
from lossless.store.sql import search as fulltext
from lossless.store.sql.columns import OWNED, Row

_FILES_LOCK, _KEY_LOCK = 0x6C636D32, 0x6C636D33
_SHORT_MS, _WATCH = 200, 0.05
"""How long others may wait behind us in the queue for a lock, and how often it is looked whether anybody does."""
_PAUSES = (0.1, 0.3, 0.5)


class PostgresStore(PostgresConnection):
    """One PostgreSQL database, for one owner; any number of machines may share it."""

    def remember_events(self, conversation_id: int, events: Sequence[tuple[str, int]]) -> None:
        pass  # the unique index over the messages' own column serves here

    def own_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        rows = self.all(
            "SELECT m.event_id, m.id, m.role, m.parts, m.digest, m.outside FROM message m WHERE m.conversation_id = :conversation"
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

    def index(self, texts: Sequence[tuple[int, str]]) -> None:
        self._index("search_message", texts)

    def _index(self, table: str, texts: Sequence[tuple[int, str]]) -> None:
        pieces = [(identity, number, words) for identity, text in texts for number, words in enumerate(chunks(text))]
        self.run(
            f"INSERT INTO {table} SELECT i, n, to_tsvector('words', w) FROM"
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

    def ranked(
        self,
        question: str,
        conversation_ids: Sequence[int] | None,
        limits: Limits,
        *,
        limit: int,
        now: int | None = None,
        by_words: bool = False,
    ) -> Matches:
        scope = fulltext.scope(self, conversation_ids)
        if not scope.total:
            return Matches([], 0)
        index = TSVectorIndex(self, scope, limits)
        if by_words:
            found = match_messages(question, index, limit)
        else:
            found = rank_messages(question, index, limits, limit, fulltext.clock(now))
        matches = [
            Match(identity // SPAN, identity % SPAN, score, found.share(identity)) for identity, score in found.hits
        ]
        return Matches(matches, found.total)

    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]:
        wanted = analyse(question).terms
        if not wanted:
            return []
        among = "" if conversation_ids is None else f"AND c.id IN ({self.each_of('ids', 'bigint')})"
        rows = self.all(
            "SELECT c.id, s.summary_id, max(ts_rank(s.words, q.query))::float8"
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

    def count_summaries(
        self,
        question: str,
        conversation_ids: Sequence[int] | None = None,
        *,
        since: int | None = None,
        before: int | None = None,
    ) -> int:
        asked, scope = analyse(question), fulltext.scope(self, conversation_ids)
        if not scope.total or not asked.terms:
            return 0
        return int(
            self.all(
                "SELECT count(DISTINCT y.id)"
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
                        "SELECT count(DISTINCT t.id) FROM"
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
                    f"SELECT id, text FROM {source} WHERE id > :last ORDER BY id LIMIT 1000 FOR SHARE",
                    last=last,
                )
                ids = [identity for identity, _ in texts]
                both = [*ids, *(-identity for identity in ids)]
                self.run(f"DELETE FROM {index} WHERE {column} = ANY(CAST(:ids AS bigint[]))", ids=both)
                self._index(index, self._index_words(source, texts))
            if not texts:
                break
            last = ids[-1]
        with self.transaction():
            self.run(f"DELETE FROM {index} i WHERE NOT EXISTS (SELECT 1 FROM {source} s WHERE s.id = abs(i.{column}))")

    def _index_words(self, source: str, texts: Sequence[Row]) -> list[tuple[int, str]]:
        """Return what an index should hold of some rows of a table, ascending by id."""
        words = [(identity, text) for identity, text in texts]
        if source != "message" or not words:
            return words
        return index_words(words, self.recall_calls.between(words[0][0], words[-1][0]))

    def _fill(self, index: str, source: str) -> None:
        last = 0
        while texts := self.all(
            f"SELECT id, text FROM {source} WHERE id > :last ORDER BY id LIMIT 1000",
            last=last,
        ):
            self._index(index, self._index_words(source, texts))
            last = texts[-1][0]

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
                    f"INSERT INTO {schema}.{step.table} SELECT * FROM lossless.{step.table} WHERE {where}"
                    f" EXCEPT SELECT * FROM {schema}.{step.table}",
                    **step.key,
                )
        return schema if touched else ""

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


_WORDY = (
    *("message", "copy", "summary", "revision", "pin", "brief", "file", "vector", "debt", "conversation"),
    *("search_message", "search_summary", "operation", "change", "grant_read"),
)


_INDEXES = (("search_message", "message", "messages"), ("search_summary", "summary", "summaries"))
