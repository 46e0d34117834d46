"""SQLite through apsw: event ids, the search index, erasing, dumps and checks."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import apsw

from lossless.search.segment import segment
from lossless.store import header
from lossless.store.rows.types import SPAN, Dump, KnownEvent, Match, Matches, Step, SummaryMatch, Unscrubbed
from lossless.store.sql import backups
from lossless.store.sql import search as fulltext
from lossless.store.sql.columns import OWNED
from lossless.store.sqlite.connection import (
    EVENTS_FROM_HISTORY,
    INDEXES,
    PAGES,
    SQLiteConnection,
)
from lossless.store.sqlite.errors import translate
from lossless.store.sqlite.files import may_be_database
from lossless.store.sqlite.search import FTS5Index, either, indexed_texts
from lossless.store.waiting import PAUSES, Patience

if TYPE_CHECKING:
    from lossless.search.ranking.messages import Limits

_MERGED = 500
_SHORT_MS, _TRIES = 100, 5
_LONGEST_RUN = 0.2
_MUCH_FREE = 1_000
_MUCH_LOGGED = 256 * 2**20


class SQLiteStore(SQLiteConnection):
    """One database file (or `:memory:`), for one owner."""

    def remember_events(self, conversation_id: int, events: Sequence[tuple[str, int]]) -> None:
        self._writer.executemany(
            "INSERT INTO event VALUES (?, ?, ?)", [(conversation_id, _hash(name), seq) for name, seq in events]
        )

    def own_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        rows = self.all(
            "SELECT m.event_id, e.seq, m.role, m.parts, m.digest, m.outside FROM json_each(:hashes) AS h"
            " CROSS JOIN event e ON e.conversation_id = :conversation AND e.hash = h.value"
            f" CROSS JOIN message m ON m.id = :base + e.seq WHERE {OWNED}",
            hashes=self.listing([_hash(name) for name in event_ids]),
            conversation=conversation_id,
            base=conversation_id * SPAN,
            owner=self.owner,
        )
        # Two ids may share a hash, so what is found is a superset: only the ids that were asked for count.
        wanted = set(event_ids)
        return {row[0]: KnownEvent(row[1], row[2], row[3], bytes(row[4]), row[5]) for row in rows if row[0] in wanted}

    def hold_files(self, *, alone: bool) -> None:
        pass  # writers are one at a time anyway

    def hold_key(self, key: str) -> None:
        pass  # writers are one at a time anyway

    def index(self, texts: Sequence[tuple[int, str]]) -> None:
        self._writer.executemany(
            "INSERT INTO search_message (rowid, text) VALUES (?, ?)", [(at, segment(text)) for at, text in texts]
        )

    def unindex(self, ids: Sequence[int]) -> None:
        self._writer.executemany("DELETE FROM search_message WHERE rowid = ?", [(-identity,) for identity in ids])
        self._writer.executemany("INSERT OR REPLACE INTO search_message (rowid, text) VALUES (?, '')", zip(ids))
        self.recall_calls.remove(ids)

    def index_summary(self, summary_id: int, text: str) -> None:
        self._writer.execute(
            "INSERT OR REPLACE INTO search_summary (rowid, text) VALUES (?, ?)", (summary_id, segment(text))
        )

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
        from lossless.search.ranking.messages import match_messages, rank_messages

        scope = fulltext.scope(self, conversation_ids)
        if not scope.total:
            return Matches([], 0)
        knows_recall = self.recall_calls.are_marked
        with self._translated(), self._reading() as connection:
            index = FTS5Index(connection, scope, limits, knows_recall=knows_recall)
            if by_words:
                found = match_messages(question, index, limit)
            else:
                found = rank_messages(question, index, limits, limit, fulltext.clock(now))
        matches = [Match(rowid // SPAN, rowid % SPAN, score, found.share(rowid)) for rowid, score in found.hits]
        return Matches(matches, found.total)

    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]:
        from lossless.search.query.question import analyse

        wanted = analyse(question).terms
        if not wanted:
            return []
        among = "" if conversation_ids is None else f"AND c.id IN ({self.each_of('ids', 'bigint')})"
        rows = self.all(
            "SELECT c.id, s.rowid, -s.rank FROM search_summary s JOIN summary y ON y.id = s.rowid"
            " JOIN conversation c ON c.id = y.conversation_id"
            f" WHERE s.search_summary MATCH :match AND c.owner = :owner {among} ORDER BY s.rank, s.rowid DESC LIMIT :limit",
            match=either(wanted),
            owner=self.owner,
            ids=self.listing(conversation_ids or ()),
            limit=limit,
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
        from lossless.search.query.question import analyse

        asked, scope = analyse(question), fulltext.scope(self, conversation_ids)
        if not scope.total or not asked.terms:
            return 0
        return int(
            self.all(
                "SELECT count(*) FROM search_summary s JOIN summary y ON y.id = s.rowid WHERE s.search_summary MATCH :match"
                f" AND y.conversation_id IN ({self.each_of('ids', 'bigint')}) AND {fulltext.SUMMARY_TIMES}",
                match=either(asked.terms),
                ids=self.listing(scope.ids),
                since=since,
                before=before,
            )[0][0]
        )

    def check_search(self) -> list[str]:
        """Compare the whole index, word by word, with one made from the messages. Writers do not wait for it."""
        with self._translated(), self._apart() as connection:
            connection.execute("PRAGMA query_only = OFF").fetchall()  # what is written is temporary
            try:
                return [problem for index in INDEXES for problem in _compare(connection, *index)]
            finally:
                for table in _COMPARED:
                    connection.execute(f"DROP TABLE IF EXISTS temp.{table}")

    def rebuild_search(self) -> int:
        with self.transaction(), self._translated():
            if knows_recall := self.recall_calls.are_marked:
                self.recall_calls.mark_all()
            for index, source, _ in INDEXES:
                self._writer.execute(f"INSERT INTO {index} ({index}) VALUES ('delete-all')")
                self._writer.executemany(
                    f"INSERT INTO {index} (rowid, text) VALUES (?, ?)",
                    indexed_texts(self._writer, source, knows_recall=knows_recall),
                )
            return int(self.all("SELECT count(*) FROM message")[0][0])

    def present(self) -> set[str]:
        names = self.all("SELECT name FROM sqlite_schema")
        columns = self.all(
            "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c WHERE t.type = 'table'"
        )
        return {row[0] for row in names + columns}

    def references(self) -> list[tuple[str, str, str]]:
        rows = self.all(
            'SELECT t.name, f."from", f."table" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f'
            " WHERE t.type = 'table' ORDER BY 1, 2"
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def lost_events(self) -> list[tuple[int, int]]:
        stored = "SELECT conversation_id, seq FROM message WHERE event_id IS NOT NULL"
        known = "SELECT conversation_id, seq FROM event"
        rows = self.all(f"{stored} EXCEPT {known}") + self.all(f"{known} EXCEPT {stored}")
        return [(row[0], row[1]) for row in rows]

    def rebuild_events(self) -> None:
        self.run("DELETE FROM event")
        # Read to the end first: what is read must not be what is written meanwhile.
        for conversation_id, name, seq in self.all(EVENTS_FROM_HISTORY):
            self.remember_events(conversation_id, [(name, seq)])

    def unindex_conversation(self, conversation_id: int) -> None:
        first, last = conversation_id * SPAN, (conversation_id + 1) * SPAN
        self.run("DELETE FROM search_message WHERE rowid > :first AND rowid < :last", first=first, last=last)
        self.run("DELETE FROM search_message WHERE rowid > :first AND rowid < :last", first=-last, last=-first)
        if self.recall_calls.are_marked:
            self.run("DELETE FROM recall_call WHERE message_id > :first AND message_id < :last", first=first, last=last)
        self.run(
            "DELETE FROM search_summary WHERE rowid IN (SELECT id FROM summary WHERE conversation_id = :id)",
            id=conversation_id,
        )
        self.run("DELETE FROM event WHERE conversation_id = :id", id=conversation_id)

    def slack(self) -> list[str]:
        pages, free = (int(self.all(f"PRAGMA {name}")[0][0]) for name in ("page_count", "freelist_count"))
        sentences = [why] if (why := self._without_log()) else []
        if free > _MUCH_FREE and 4 * free > pages:
            sentences.append(f"{free:,} of {pages:,} pages are free; closing the database releases them.")
        with suppress(FileNotFoundError):
            log_size = os.stat(f"{self._file}-wal").st_size
            if log_size > _MUCH_LOGGED:
                sentences.append(
                    f"{log_size / 1e6:,.0f} MB wait in the write-ahead log: a reader has been active for a long time."
                )
        return sentences

    def keep(self, name: str, steps: Sequence[Step]) -> str:
        if self._memory or not steps:
            return ""
        target = Path(f"{self._file}.{name}")
        if not target.exists():
            self._copy(target)
        return str(target)

    beyond: tuple[str, ...] = (
        "Copies that others made of the file, and blocks that a file system or a disk has put aside, are beyond reach.",
        backups.ELSEWHERE,
    )

    @contextmanager
    def erasing(self) -> Iterator[None]:
        is_outer = not getattr(self._writing, "now", False)
        with self.transaction():
            self._writer.execute("PRAGMA secure_delete = ON").fetchall()
            try:
                yield
            finally:
                self._writer.execute("PRAGMA secure_delete = OFF").fetchall()
        if is_outer and not self._memory:
            self._let_others_write()

    def _let_others_write(self) -> None:
        """Pause between transactions that follow one another: waiting processes look only every tenth of a second."""
        if time.monotonic() - self._rested >= _LONGEST_RUN:
            time.sleep(PAUSES[-1] * 1.1)
            self._rested = time.monotonic()

    most_held = 0.5
    """For how many seconds the file may be held against other writers."""

    def scrub(self) -> Unscrubbed:
        for index, _, _ in INDEXES:
            self._merge(index)
        if not (rewritten := self._rewritten()):
            self._shrink()
        if not self._emptied():
            return "read"
        return "" if rewritten else "held"

    def _merge(self, index: str) -> None:
        """Merge the segments of an index, which still contain deleted words, a few pages at a time."""
        pages = -_MERGED
        while True:
            with self.erasing():
                before = self._writer.total_changes()
                self._writer.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))
                if self._writer.total_changes() - before < 2:
                    return
            pages = _MERGED

    def _rewritten(self) -> bool:
        """Rewrite the file, unless that takes too long."""
        with self._mutex, self._used(), self._translated():
            deadline = time.monotonic() + self.most_held
            self._writer.set_progress_handler(lambda: time.monotonic() >= deadline, 1_000)
            try:
                self._writer.execute("VACUUM")
                return True
            except apsw.InterruptError:
                return False
            finally:
                self._writer.set_progress_handler(None)

    def _shrink(self) -> None:
        while self.all("PRAGMA freelist_count")[0][0]:
            with self.erasing():
                before = self.all("PRAGMA freelist_count")
                self.all(f"PRAGMA incremental_vacuum({PAGES})")
                if self.all("PRAGMA freelist_count") == before:
                    return

    def _emptied(self) -> bool:
        """Empty the write-ahead log, in short tries: waiting for readers keeps writers out. Return whether it worked."""
        with self._mutex, self._used(), self._translated():
            self._writer.set_busy_timeout(_SHORT_MS)
            try:
                for _ in range(_TRIES):
                    if self._memory or not self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
                        return True
                return False
            finally:
                self._writer.set_busy_handler(Patience(self._on_event))

    def give_back(self) -> bool:
        self._shrink()
        return self._emptied()

    def remains(self, needles: Sequence[str]) -> list[str]:
        from lossless.search.byte_search import OVERLAP, ByteSearch

        if self._memory:
            return []
        # A word that the tables' own definitions have would be found for ever, and give nothing away.
        ours = "\n".join(sql for (sql,) in self.all("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        sentences = [needle for needle in needles if needle not in ours]
        with self._translated():
            return ByteSearch(sentences).find(
                block for suffix in ("", "-wal") for block in header.blocks(self._file + suffix, OVERLAP)
            )

    def kept_copies(self) -> list[str]:
        return [] if self._memory else sorted(glob.glob(f"{glob.escape(self._file)}.before-*"))

    def namesakes(self) -> list[str]:
        own, copies = Path(self.location), set(self.kept_copies())
        found = [] if self._memory else sorted(own.parent.iterdir())
        others = [each for each in found if each.stem == own.stem and each.name != own.name and str(each) not in copies]
        return [str(each) for each in others if each.is_file() and not each.samefile(own) and may_be_database(each)]

    def drop_copies(self) -> None:
        for each in (*self.kept_copies(), *self.backups.paths()):
            backups.remove(each)

    def place(self) -> Path | None:
        return None if self._memory else Path(self._file)

    def dump(self, path: Path) -> Dump:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with self._translated(), self._reading() as source:
            try:
                copy = apsw.Connection(str(path))
                try:
                    with copy.backup("main", source, "main") as backup:
                        while not backup.done:  # in steps, so that it can be interrupted
                            backup.step(PAGES)
                    # A reader needs no write-ahead log beside it.
                    copy.execute("PRAGMA journal_mode = DELETE").fetchall()
                finally:
                    copy.close()
            except apsw.Error as error:
                raise translate(error, str(path)) from error
        return Dump("sqlite", f"SQLite {apsw.sqlite_lib_version()}")

    def size(self) -> int:
        if self._memory:
            return int(self.all("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")[0][0])
        found = 0
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                found += os.stat(self._file + suffix).st_size
        return found

    def damage(self) -> list[str]:
        with self._translated(), self._apart():
            found = self._damage("integrity_check")
        return [found] if found else []

    @contextmanager
    def _apart(self) -> Iterator[apsw.Connection]:
        """Yield one state of the database on a connection of its own, which writes to temporary tables only.

        FTS5 checks an index by what its connection remembers of it, which is out of date once others have written.
        """
        self._check_open()
        if self._memory or getattr(self._writing, "now", False):
            with self._mutex:
                yield self._writer  # in a transaction of ours, what it has changed counts
            return
        with self._used():
            connection = self._reader()
            before = getattr(self._writing, "snapshot", None)
            try:
                connection.execute("BEGIN").fetchall()
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                self._writing.snapshot = connection
                yield connection
            finally:
                self._writing.snapshot = before
                self._close_reader(connection)


_COMPARED = ("fresh_words", "stored_words", "fresh", "differing")


_SPOT = "((doc % 2147483629) * 1000003 + offset) % 2147483629"
"""One number for the place of a word: its square is at most 62 bits."""


_PER_TERM = f"SELECT term, count(*), sum(({_SPOT}) * ({_SPOT}) % 2147483629) FROM temp.{{}}_words GROUP BY term"


def _compare(db: apsw.Connection, index: str, source: str, what: str) -> Iterator[str]:
    """Yield what is wrong with an index. Terms are compared by sums over their positions, then by position."""
    if [row for row in db.execute(f"PRAGMA integrity_check({index})") if row != ("ok",)]:
        yield f"The index of {what} is damaged."
        return
    db.execute("CREATE VIRTUAL TABLE temp.fresh USING fts5 (text, content = '', tokenize = 'porter unicode61')")
    db.executemany("INSERT INTO temp.fresh (rowid, text) VALUES (?, ?)", indexed_texts(db, source))
    db.execute("CREATE VIRTUAL TABLE temp.fresh_words USING fts5vocab (temp, fresh, instance)")
    db.execute(f"CREATE VIRTUAL TABLE temp.stored_words USING fts5vocab (main, {index}, instance)")
    fresh, stored = _PER_TERM.format("fresh"), _PER_TERM.format("stored")
    db.execute(
        "CREATE TEMP TABLE differing AS SELECT DISTINCT term FROM"
        f" (SELECT * FROM ({fresh} EXCEPT {stored}) UNION ALL SELECT * FROM ({stored} EXCEPT {fresh}))"
    )
    for few, many, problem in (("fresh", "stored", "missing from"), ("stored", "fresh", "left over in")):
        places = "SELECT w.doc, w.term, w.offset FROM temp.differing d CROSS JOIN temp.{}_words w ON w.term = d.term"
        count = db.execute(
            f"SELECT count(DISTINCT doc) FROM ({places.format(few)} EXCEPT {places.format(many)})"
        ).fetchall()[0][0]
        if count:
            yield f"Words of {count} {what} are {problem} the index."
    for table in _COMPARED:
        db.execute(f"DROP TABLE temp.{table}")


def _hash(event_id: str) -> int:
    return crc32(event_id.encode())
