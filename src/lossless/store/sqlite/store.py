"""SQLite through apsw: one writer, readers apart, WAL, every write transaction IMMEDIATE.

No file of a database is ever opened by us: on POSIX, closing any handle of a file drops the locks SQLite holds on it. What
has to be read of its bytes is read by SQLite's own file layer (`lossless.store.header`).
"""

from __future__ import annotations

import errno
import glob
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw

from lossless.config import make_directory
from lossless.errors import (
    InvalidInput,
    NotOurDatabase,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
)
from lossless.events import Event, Hook, log
from lossless.search.byte_search import OVERLAP, Sought
from lossless.search.query.question import Question, analyse
from lossless.search.ranking.messages import Limits, recall
from lossless.search.text import segment
from lossless.store import header, jsontext, migrate
from lossless.store.base import SPAN, Dump, KnownEvent, Match, Rows, Step, SummaryMatch, TextKind, Unscrubbed
from lossless.store.header import APPLICATION_ID
from lossless.store.recall_calls import without
from lossless.store.sql import backups
from lossless.store.sql import search as fulltext
from lossless.store.sql.columns import LAST, OWNED, Row
from lossless.store.sql.recall_calls import SCHEMA_VERSION as RECALL_VERSION
from lossless.store.sqlite.search import FTS5Index, either
from lossless.store.store import Store, opened_before_fork

BUSY_MS = 30_000
_PAUSES = tuple(ms / 1000 for ms in (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100))
"""In seconds, as SQLite itself would wait, which keeps signals out until it is through."""
_LEAST_TOLD = 2.0
_MOST_IDLE = 8
_MOST_TOLD = 3
_PAGES = 4096
_MERGED = 500
_SHORT_MS, _TRIES = 100, 5
_LONGEST_RUN = 0.2
_DERIVED = ("item", "event", "search_message", "search_summary", "recall_call")
_TABLES = ("conversation", "message", *_DERIVED)
_UNMARKED = "NOT EXISTS (SELECT 1 FROM recall_call r WHERE r.message_id = t.id)"
_SURE_WORD = re.compile(r"(?<!\S)[A-Za-z0-9]{1,30}(?!\S)")
"""A word that the index holds as it is, whatever its tokenizer makes of the rest."""
_MUCH_FREE = 1_000
_MUCH_LOGGED = 256 * 2**20
_COMMON = " etaoinsrhldcumfpgwybvkxjqz"
_WAL_IS_SAFE = (3, 51, 3)
"""Since this version of SQLite no writer and checkpoint can begin the write-ahead log again at the same time."""
_stores: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()
"""Every store of this process that may have connections."""
_stranded: set[tuple[int, int]] = set()
"""Files that this process must not open: it was forked in the middle of their use, so SQLite takes them for locked by us."""


class Patience:
    """Waits for whoever holds the database, a little longer each time, so that an interrupt gets through between."""

    def __init__(
        self,
        on_event: Hook,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._on_event, self._clock, self._pause = on_event, clock, pause
        self._since, self._told = 0.0, False

    def __call__(self, tries: int) -> bool:
        """Whether to try again, after a pause."""
        now = self._clock()
        if tries == 0:
            self._since, self._told = now, False
        waited = now - self._since
        if waited >= _LEAST_TOLD and not self._told:
            self._told = True
            told = f"Another process holds the database; waiting up to {BUSY_MS // 1000} seconds."
            self._on_event(Event("store.waiting", told, "warning"))
        if waited * 1000 >= BUSY_MS:
            return False
        self._pause(_PAUSES[min(tries, len(_PAUSES) - 1)])
        return True


class SQLiteStore(Store):
    """One database file (or `:memory:`), for one owner."""

    binary = "BINARY"
    indexed_as = "rowid"
    finds = "instr({}, {}) > 0"
    dialect = "sqlite"
    indexed = {  # noqa: RUF012 - a constant of the kind
        "message": "SELECT id FROM search_message_docsize WHERE id > 0",
        "summary": "SELECT id FROM search_summary_docsize",
    }

    def __init__(
        self,
        path: str | Path,
        *,
        owner: str = "default",
        read_only: bool = False,
        on_event: Hook = log,
        vfs: str | None = None,
        scripts: dict[int, Path] | None = None,
    ) -> None:
        self.owner = owner
        # Whoever changes the working directory later still means this file.
        self.location = ":memory:" if str(path) == ":memory:" else str(Path(path).absolute())
        self.read_only = read_only
        self._on_event = on_event
        self._vfs = vfs
        self._memory = self.location == ":memory:"
        self._scripts = scripts or migrate.steps("sqlite")
        self._mutex = threading.RLock()
        self._writing = threading.local()
        self._readers: list[apsw.Connection] = []
        self._idle: list[apsw.Connection] = []
        self._in_use: list[object] = []
        self._pid = os.getpid()
        self._closed = False
        self._rested = 0.0
        self._immutable = False
        with self._used():
            _stores.add(self)
            try:
                if read_only:
                    self._open_to_read()
                else:
                    self._open_to_write()
            except BaseException:
                self._closed = True
                for each in self._connections():
                    each.close()
                raise

    # opening

    def _open_to_write(self) -> None:
        if not self._memory:
            self._look_first()
            _prepare(Path(self.location))
        self._writer = self._connect(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        with self._translated():
            self._set_up()
            self._refuse_foreign()
            if not self._memory:
                with suppress(OSError):  # a courtesy to whoever looks for what was replaced
                    backups.forget_second_name(Path(self._file))
            migrate.migrate(self, self._scripts)
            self._mend()

    def _open_to_read(self) -> None:
        if not Path(self.location).is_file():
            if Path(self.location).is_dir():
                raise StoreUnavailable(f"{self.location} is a directory.", hint="Name a file in it.")
            raise StoreMissing(f"There is no database at {self.location}.", hint=f"Check the {_PATH}.")
        if not self._look_first():
            raise StoreUnavailable(f"{self.location} holds nothing yet.", hint="Write to it once, then read.")
        with self._translated():
            try:
                self.version()
            except (StoreUnavailable, StoreReadOnly):
                # In a directory that cannot be written SQLite finds no place for its shared memory. With no writer
                # about and nothing left in a WAL, the file alone is the whole truth.
                if os.path.exists(self._file + "-wal"):
                    raise
                self._immutable = True
            self._refuse_foreign()
            migrate.refuse_newer(self.version(), self.location, max(self._scripts))
            if self.version() == 0:
                raise StoreUnavailable(f"{self.location} holds nothing yet.", hint="Write to it once, then read.")

    def _look_first(self) -> bool:
        """Whether there is anything in the file. One that is not ours is refused before SQLite could change anything."""
        if not os.path.isfile(self._file) or not os.access(self._file, os.R_OK):
            return os.path.exists(self._file)
        self._refuse_stranded()
        self._refuse_second_name()
        with self._translated():
            found = header.read(self._file)
        if found is None or found.is_blank:
            return False
        if not found.is_ours:
            raise self._foreign()
        migrate.refuse_newer(found.user_version, self.location, max(self._scripts))
        return True

    def _refuse_stranded(self) -> None:
        if _identity(self._file) in _stranded:
            raise StoreUnavailable(
                f"{self.location} was in use when this process was forked, and cannot be opened here safely.",
                hint="Close it before forking, or start processes with the method spawn or forkserver.",
            )

    def _refuse_second_name(self) -> None:
        """A hard link: SQLite keeps its log beside the name it is given, so two names would be two truths about one file."""
        own = _identity(self._file)
        for other in list(_stores):
            with suppress(OSError):  # one that is gone has no name at all
                is_open = not (other is self or other._closed or other._memory)
                if is_open and other._file != self._file and _identity(other._file) == own:
                    raise StoreUnavailable(
                        f"{self.location} is another name of {other.location}, which is open.",
                        hint="Use one name for it; a symbolic link would do.",
                    )

    @property
    def _file(self) -> str:
        """The file itself, whatever links lead there: what SQLite and we put beside it is beside that."""
        return os.path.realpath(self.location)

    def _connect(self, flags: int) -> apsw.Connection:
        with self._translated():
            name = f"{Path(self.location).absolute().as_uri()}?immutable=1" if self._immutable else self.location
            flags |= apsw.SQLITE_OPEN_URI if self._immutable else 0
            connection = apsw.Connection(name, flags=flags, vfs=self._vfs)
            connection.set_busy_handler(Patience(self._on_event))
            return connection

    def _set_up(self) -> None:
        """The page size and vacuum mode only take before the first table; WAL needs the file for itself."""
        deadline = time.monotonic() + BUSY_MS / 1000
        while True:
            try:
                for pragma in (
                    "page_size = 8192",
                    "auto_vacuum = INCREMENTAL",
                    f"journal_mode = {journal_mode(apsw.sqlite_lib_version())}",
                    "synchronous = FULL",
                    "foreign_keys = ON",
                    "cache_size = -24576",
                    "journal_size_limit = 67108864",
                    "temp_store = MEMORY",
                    "trusted_schema = OFF",
                ):
                    self._writer.execute(f"PRAGMA {pragma}").fetchall()
                if self._without_log():
                    self._on_event(Event("store.without_log", self._without_log(), "warning"))
                return
            except apsw.BusyError:
                # Switching to WAL does not wait for the busy timeout when two processes create the file together.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _without_log(self) -> str:
        """Why the database is used without a log of writes, if it is."""
        version = apsw.sqlite_lib_version()
        if self._memory or journal_mode(version) == "WAL":
            return ""
        return (
            f"SQLite {version} may damage a database with a write-ahead log, so none is used: readers and writers wait"
            f" for each other. Install apsw with SQLite {'.'.join(map(str, _WAL_IS_SAFE))} or newer."
        )

    def _reader(self) -> apsw.Connection:
        connection = self._connect(apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE)
        self._readers.append(connection)
        with self._translated():
            for pragma in ("query_only = ON", "cache_size = -16384", "temp_store = MEMORY", "trusted_schema = OFF"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def _refuse_foreign(self) -> None:
        ours = self.all("PRAGMA application_id")[0][0] == APPLICATION_ID
        if not ours and self.all("SELECT 1 FROM sqlite_schema LIMIT 1"):
            raise self._foreign()

    def _foreign(self) -> NotOurDatabase:
        return NotOurDatabase(
            f"{self.location} is a database of another program.", hint=f"Choose another {_PATH}; nothing was changed."
        )

    def _mend(self) -> None:
        """Derived tables that are missing or broken are made anew, all of them or none."""
        if not self._wanting():
            return
        with self.transaction():
            names = self._wanting()  # again: another process may have been at it
            if names:
                self._make_anew(names)
        if names:
            self._on_event(Event("store.mended", f"made anew: {', '.join(names)}", "warning"))

    def _wanting(self) -> list[str]:
        """The derived tables that are missing or broken; raw ones that are missing are told."""
        rows = self._writer.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        known = _TABLES if RECALL_VERSION in self._scripts else _TABLES[:-1]
        missing = set(known) - {row[0] for row in rows}
        if missing & {"conversation", "message"}:
            raise StoreCorrupt(
                f"{self.location} has lost its table(s) {', '.join(sorted(missing))}.", hint="Restore a backup."
            )
        if "recall_call" in missing:
            missing.add("search_message")  # they are made together
        broken = [index for index, source, _ in _INDEXES if index not in missing and not self._answers(index, source)]
        return [*sorted(missing), *broken]

    def _make_anew(self, names: Sequence[str]) -> None:
        """In a transaction, which whatever goes wrong takes back: a file that is damaged is not written to."""
        searched = [index for index, _, _ in _INDEXES if index in names]
        for name in searched:
            self._drop_search(name)
        # Asked once they are gone, since what is wrong with them is no damage of the file.
        if damage := self._damage("quick_check(1)"):
            raise StoreCorrupt(f"{self.location} is damaged ({damage}).", hint=_RESTORE)
        self.script(self._scripts[1].read_text(encoding="utf-8"))
        if "recall_call" in names:
            self.script(self._scripts[RECALL_VERSION].read_text(encoding="utf-8"))
        if "item" in names:
            self.run(_ITEMS_FROM_HISTORY)
        if "event" in names:
            for conversation_id, name, seq in self._writer.execute(_EVENTS_FROM_HISTORY):
                self.remember_events(conversation_id, [(name, seq)])
        if searched:
            self.rebuild_search()

    def _answers(self, name: str, source: str) -> bool:
        """Whether an index is whole as far as a glance can tell: its tables are there, and it finds the newest words."""
        shadows = [f"{name}_{shadow}" for shadow in ("data", "idx", "docsize", "config")]
        there = self.all(
            "SELECT count(*) FROM sqlite_schema WHERE name IN (SELECT value FROM json_each(:names))",
            names=self.listing(shadows),
        )
        if there[0][0] < len(shadows):
            return False
        plain = f"WHERE {_UNMARKED}" if source == "message" and self.recall_calls.are_marked else ""
        newest = self.all(f"SELECT t.id, t.text FROM {source} t {plain} ORDER BY t.id DESC LIMIT 1")  # noqa: S608 - our names
        sure = [(at, word[0]) for at, text in newest if (word := _SURE_WORD.search(_beginning(text)))]
        find = f"SELECT 1 FROM {name} WHERE {name} MATCH ? AND rowid >= ? LIMIT 1"  # noqa: S608 - our names
        try:
            found = [self._writer.execute(find, (f'"{word}"', at)).fetchall() for at, word in sure or [(0, "lossless")]]
            return bool(found[0]) or not sure
        except (apsw.SQLError, apsw.CorruptError):
            return False

    def _drop_search(self, name: str) -> None:
        """An index and the tables behind it, whichever of them are there."""
        try:
            self._writer.execute(f"DROP TABLE IF EXISTS {name}")
        except (apsw.SQLError, apsw.CorruptError):
            # A virtual table that cannot be opened cannot be dropped either: take its entry out by hand.
            self._writer.execute("PRAGMA writable_schema = ON")
            self._writer.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
            self._writer.execute("PRAGMA writable_schema = RESET").fetchall()
        for shadow in ("data", "idx", "docsize", "config", "content"):
            self._writer.execute(f"DROP TABLE IF EXISTS {name}_{shadow}")

    # migrating (see migrate.Migratable)

    def version(self) -> int:
        return int(self.all("PRAGMA user_version")[0][0])

    def set_version(self, version: int) -> None:
        self._writer.execute(f"PRAGMA user_version = {version:d}")
        self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")

    def script(self, sql: str) -> None:
        for _ in self._writer.execute(sql):
            pass

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.transaction():
            yield

    def keep_copy_before(self, version: int) -> None:
        if self._memory:
            return
        target = Path(f"{self._file}.before-v{version}")
        self._copy(target)
        self._on_event(Event("store.copied", f"kept a copy before schema {version}: {target.name}"))

    def _copy(self, target: Path) -> None:
        with suppress(FileExistsError):
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with self._used():
            source, copy = self._reader(), apsw.Connection(str(target))
            try:
                with copy.backup("main", source, "main") as backup:
                    backup.step(-1)
            finally:
                copy.close()
                self._close_reader(source)

    # speaking

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._check_open()
        if self.read_only:
            raise StoreReadOnly(f"{self.location} was opened for reading.", hint="Open it without read_only to write.")
        if getattr(self._writing, "now", False):
            yield
            return
        with self._mutex, self._used(), self._translated(own=False):
            try:
                self._writing.now = True
                self._writer.execute("BEGIN IMMEDIATE")
                yield
                self._writer.execute("COMMIT")
            finally:
                self._writing.now = False
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._translated(own=False), self._reading() as connection:
            if self._memory or connection.in_transaction:
                yield  # held against every writer, or one snapshot already
                return
            connection.execute("BEGIN")
            self._writing.snapshot = connection
            try:
                yield
            finally:
                self._writing.snapshot = None
                connection.execute("ROLLBACK")

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        self._check_open()
        if getattr(self._writing, "now", False):
            yield self._writer
        elif (snapshot := getattr(self._writing, "snapshot", None)) is not None:
            yield snapshot
        elif self._memory:
            with self._mutex:
                yield self._writer
        else:
            self._in_use.append(token := object())  # as `_used` does, which every single query would wait for
            try:
                try:
                    connection = self._idle.pop()
                except IndexError:
                    connection = self._reader()
                try:
                    yield connection
                except apsw.Error:
                    self._close_reader(connection)
                    raise
                if self._closed or len(self._idle) >= _MOST_IDLE:
                    self._close_reader(connection)
                else:
                    self._idle.append(connection)
            finally:
                self._in_use.remove(token)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """A connection is in use: a process that is forked meanwhile cannot even close it."""
        token = object()
        self._in_use.append(token)
        try:
            yield
        finally:
            self._in_use.remove(token)

    def _close_reader(self, connection: apsw.Connection) -> None:
        with suppress(ValueError):
            self._readers.remove(connection)
        connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self.location} was closed.", hint="Open it again.")
        if os.getpid() != self._pid:
            if self._memory:
                raise StoreUnavailable("A database in memory stays with the process that made it.", hint="Use a file.")
            raise opened_before_fork(self.location)

    def _connections(self) -> list[apsw.Connection]:
        return [*self._readers, *([self._writer] if hasattr(self, "_writer") else [])]

    def give_up(self, *, closing: bool) -> None:
        """Leave the connections to the parent, in a child. Closed here, they take the locks that SQLite believes in with them.

        A connection that was in use is neither closed nor collected, and its file not opened here: SQLite would take it
        for locked by this process, which has no lock on it at all.
        """
        connections = self._connections()
        if self._closed or self._memory or not connections:
            return
        if not closing:
            with suppress(OSError):
                _stranded.add(_identity(self._file))
        for each in connections:
            if closing:
                # The parent's log is the parent's to bring in.
                each.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                each.close()
            else:
                _keep_for_ever(each)

    def all(self, sql: str, **parameters: Any) -> list[Row]:
        try:  # as `_translated` and `_reading` do, which every single query would wait for
            if getattr(self._writing, "now", False) and not self._closed:
                return self._writer.execute(sql, parameters).fetchall()
            with self._reading() as connection:
                return connection.execute(sql, parameters).fetchall()
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._fault(error) from error

    def stream(self, sql: str, **parameters: Any) -> Rows:
        with self._translated(), self._reading() as connection:
            yield from connection.execute(sql, parameters)

    def run(self, sql: str, **parameters: Any) -> int:
        self._writer.execute(sql, parameters)
        return self._writer.changes()

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        places = ", ".join("?" * len(columns))
        self._writer.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)  # noqa: S608 - our names

    def columns(self, table: str) -> list[tuple[str, str, int]]:
        rows = self.all("SELECT name, type, pk FROM pragma_table_info(:table) ORDER BY cid", table=table)
        return [(name, kind, place) for name, kind, place in rows]

    def defer_links(self) -> None:
        self._writer.execute("PRAGMA defer_foreign_keys = ON")

    def new_ids(self, table: str, count: int) -> list[int]:
        rows = self.all(
            f"SELECT max(id) FROM {table} UNION ALL SELECT CAST(state AS INTEGER) FROM guard WHERE name = :mark",  # noqa: S608 - our names
            mark=LAST.format(table),
        )
        last = max(row[0] or 0 for row in rows)
        return list(range(last + 1, last + 1 + count))

    def renumber(self) -> None:
        pass  # the next id is always the one after the highest that ever was

    def each_of(self, name: str, kind: str) -> str:
        return f"SELECT value FROM json_each(:{name})"  # noqa: S608 - our names

    def listing(self, values: Sequence[Any]) -> str:
        return jsontext.dumps_plain(values)

    def needle(self, literal: str, *, folded: bool) -> tuple[str, str]:
        literal = _from_the_rarest(literal)
        if folded:
            return "t.text LIKE {} ESCAPE '!'", "%" + re.sub("[!%_]", r"!\g<0>", literal) + "%"
        return "t.text GLOB {}", "*" + re.sub(r"[*?\[]", r"[\g<0>]", literal) + "*"

    # events

    def remember_events(self, conversation_id: int, events: Sequence[tuple[str, int]]) -> None:
        self._writer.executemany(
            "INSERT INTO event VALUES (?, ?, ?)", [(conversation_id, _hash(name), seq) for name, seq in events]
        )

    def own_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        rows = self.all(
            "SELECT m.event_id, e.seq, m.role, m.parts, m.digest, m.outside FROM json_each(:hashes) AS h"  # noqa: S608 - constants
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

    # search

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
        knows_recall = self.recall_calls.are_marked
        with self._translated(), self._reading() as connection:
            index = FTS5Index(connection, scope, limits, knows_recall=knows_recall)
            found = recall(question, index, limits, limit)
        return [Match(rowid // SPAN, rowid % SPAN, score) for rowid, score in found]

    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]:
        wanted = analyse(question).terms
        if not wanted:
            return []
        among = "" if conversation_ids is None else f"AND c.id IN ({self.each_of('ids', 'bigint')})"
        rows = self.all(
            "SELECT c.id, s.rowid, -s.rank FROM search_summary s JOIN summary y ON y.id = s.rowid"  # noqa: S608 - our names
            " JOIN conversation c ON c.id = y.conversation_id"
            f" WHERE s.search_summary MATCH :match AND c.owner = :owner {among} ORDER BY s.rank, s.rowid DESC LIMIT :limit",
            match=either(wanted),
            owner=self.owner,
            ids=self.listing(conversation_ids or ()),
            limit=limit,
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
        if not scope.total:
            return 0
        if kind == "summary":
            return self._count_summaries(asked, scope, since, before)
        with self._translated(), self._reading() as connection:
            return FTS5Index(connection, scope, Limits(since, before, include_recall=include_recall)).count(asked)

    def _count_summaries(self, asked: Question, scope: fulltext.Scope, since: int | None, before: int | None) -> int:
        if not asked.terms:
            return 0
        return int(
            self.all(
                "SELECT count(*) FROM search_summary s JOIN summary y ON y.id = s.rowid WHERE s.search_summary MATCH :match"  # noqa: S608 - our names
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
                return [problem for index in _INDEXES for problem in _compare(connection, *index)]
            finally:
                for table in _COMPARED:
                    connection.execute(f"DROP TABLE IF EXISTS temp.{table}")

    def rebuild_search(self) -> int:
        with self.transaction(), self._translated():
            if knows_recall := self.recall_calls.are_marked:
                self.recall_calls.mark_all()
            for index, source, _ in _INDEXES:
                self._writer.execute(f"INSERT INTO {index} ({index}) VALUES ('delete-all')")  # noqa: S608 - our names
                self._writer.executemany(
                    f"INSERT INTO {index} (rowid, text) VALUES (?, ?)",  # noqa: S608 - our names
                    _words(self._writer, source, knows_recall=knows_recall),
                )
            return int(self.all("SELECT count(*) FROM message")[0][0])

    # checking

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
        told = "SELECT conversation_id, seq FROM message WHERE event_id IS NOT NULL"
        known = "SELECT conversation_id, seq FROM event"
        rows = self.all(f"{told} EXCEPT {known}") + self.all(f"{known} EXCEPT {told}")
        return [(row[0], row[1]) for row in rows]

    def rebuild_events(self) -> None:
        self.run("DELETE FROM event")
        # Read to the end first: what is read must not be what is written meanwhile.
        for conversation_id, name, seq in self.all(_EVENTS_FROM_HISTORY):
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
        told = [why] if (why := self._without_log()) else []
        if free > _MUCH_FREE and 4 * free > pages:
            told.append(f"{free:,} of {pages:,} pages are free; whoever closes the database gives them back.")
        with suppress(FileNotFoundError):
            log_size = os.stat(f"{self._file}-wal").st_size
            if log_size > _MUCH_LOGGED:
                told.append(f"{log_size / 1e6:,.0f} MB wait in the log of writes: somebody reads for a long time.")
        return told

    def keep(self, name: str, steps: Sequence[Step]) -> str:
        if self._memory or not steps:
            return ""
        target = Path(f"{self._file}.{name}")
        if not target.exists():
            self._copy(target)
        return str(target)

    # erasing

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
        """Pause now and then between transactions that follow one another: whoever waits looks only every tenth of a second."""
        if time.monotonic() - self._rested >= _LONGEST_RUN:
            time.sleep(_PAUSES[-1] * 1.1)
            self._rested = time.monotonic()

    most_held = 0.5
    """For how many seconds the file may be held against other writers."""

    def scrub(self) -> Unscrubbed:
        for index, _, _ in _INDEXES:
            self._merge(index)
        if not (rewritten := self._rewritten()):
            self._shrink()
        if not self._emptied():
            return "read"
        return "" if rewritten else "held"

    def _merge(self, index: str) -> None:
        """Deleted words stay in an index until its segments are merged: a few pages at a time, so that nobody waits long."""
        pages = -_MERGED
        while True:
            with self.erasing():
                before = self._writer.total_changes()
                self._writer.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))  # noqa: S608 - our names
                if self._writer.total_changes() - before < 2:
                    return
            pages = _MERGED

    def _rewritten(self) -> bool:
        """Write the file anew, unless that takes too long."""
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
                self.all(f"PRAGMA incremental_vacuum({_PAGES})")
                if self.all("PRAGMA freelist_count") == before:
                    return

    def _emptied(self) -> bool:
        """Whether the log of writes could be emptied. Waiting for readers keeps writers out: it is done in short tries."""
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
        if self._memory:
            return []
        # A word that the tables' own definitions have would be found for ever, and give nothing away.
        ours = "\n".join(sql for (sql,) in self.all("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        told = [needle for needle in needles if needle not in ours]
        with self._translated():
            return Sought(told).found(
                block for suffix in ("", "-wal") for block in header.blocks(self._file + suffix, OVERLAP)
            )

    def kept_copies(self) -> list[str]:
        return [] if self._memory else sorted(glob.glob(f"{glob.escape(self._file)}.before-*"))

    def namesakes(self) -> list[str]:
        own, copies = Path(self.location), set(self.kept_copies())
        found = [] if self._memory else sorted(own.parent.iterdir())
        others = [each for each in found if each.stem == own.stem and each.name != own.name and str(each) not in copies]
        return [str(each) for each in others if each.is_file() and not each.samefile(own) and _may_be_database(each)]

    def drop_copies(self) -> None:
        for each in (*self.kept_copies(), *self.backups.paths()):
            backups.remove(each)

    # the whole

    def place(self) -> Path | None:
        return None if self._memory else Path(self._file)

    def dump(self, path: Path) -> Dump:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with self._translated(), self._reading() as source:
            try:
                copy = apsw.Connection(str(path))
                try:
                    with copy.backup("main", source, "main") as backup:
                        while not backup.done:  # in steps, so that whoever waits can interrupt it
                            backup.step(_PAGES)
                    # Whoever only reads it needs no log of writes beside it.
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
        """One state of the database on a connection of its own, which writes to temporary tables only.

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

    def _damage(self, check: str) -> str:
        """What a check finds, at most three lines of it; empty if the file is sound."""
        lines: list[str] = []
        try:
            for (told,) in self.stream(f"PRAGMA {check}"):
                lines += [line for line in told.splitlines() if not line.startswith("***") and line != "ok"]
        except StoreCorrupt:
            if not lines:
                raise  # else it went as far as it could
        more = len(lines) - _MOST_TOLD
        return "; ".join(lines[:_MOST_TOLD]) + (f"; and {more:,} more" if more > 0 else "")

    def close(self) -> None:
        if os.getpid() != self._pid:
            return  # a child's: its parent's connections, and perhaps a mutex that nobody here will ever release
        with self._mutex, self._used():
            if self._closed:
                return
            self._closed = True
            while self._idle:
                self._close_reader(self._idle.pop())
            if not self.read_only:
                with suppress(apsw.Error):  # tidying is a courtesy; everything acknowledged is on disk already
                    self._writer.set_busy_timeout(0)  # and not worth waiting for whoever writes
                    self._writer.execute("PRAGMA optimize").fetchall()
                    self._writer.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
                self._writer.close()

    @contextmanager
    def _translated(self, *, own: bool = True) -> Iterator[None]:
        """Faults of the driver as ours. What others do inside may decode bytes of theirs, which is not our `own` fault."""
        try:
            yield
        except (apsw.Error, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError) and not own:
                raise
            raise self._fault(error) from error

    def _fault(self, error: apsw.Error | UnicodeDecodeError) -> StoreError:
        if isinstance(error, apsw.Error):
            return translate(error, self.location)
        return StoreCorrupt(f"{self.location} is damaged (a text in it is no UTF-8).", hint=_RESTORE)


_COMPARED = ("fresh_words", "stored_words", "fresh", "differing")
_SPOT = "((doc % 2147483629) * 1000003 + offset) % 2147483629"
"""One number for the place of a word: its square is at most 62 bits."""
_PER_TERM = f"SELECT term, count(*), sum(({_SPOT}) * ({_SPOT}) % 2147483629) FROM temp.{{}}_words GROUP BY term"  # noqa: S608 - our names


def _compare(db: apsw.Connection, index: str, source: str, what: str) -> Iterator[str]:
    """What is wrong with an index. Its terms are compared by sums over their places, and only those that differ by place."""
    if [row for row in db.execute(f"PRAGMA integrity_check({index})") if row != ("ok",)]:
        yield f"The index of {what} is damaged."
        return
    db.execute("CREATE VIRTUAL TABLE temp.fresh USING fts5 (text, content = '', tokenize = 'porter unicode61')")
    db.executemany("INSERT INTO temp.fresh (rowid, text) VALUES (?, ?)", _words(db, source))
    db.execute("CREATE VIRTUAL TABLE temp.fresh_words USING fts5vocab (temp, fresh, instance)")
    db.execute(f"CREATE VIRTUAL TABLE temp.stored_words USING fts5vocab (main, {index}, instance)")
    fresh, stored = _PER_TERM.format("fresh"), _PER_TERM.format("stored")
    db.execute(
        "CREATE TEMP TABLE differing AS SELECT DISTINCT term FROM"  # noqa: S608 - our names
        f" (SELECT * FROM ({fresh} EXCEPT {stored}) UNION ALL SELECT * FROM ({stored} EXCEPT {fresh}))"
    )
    for few, many, problem in (("fresh", "stored", "missing from"), ("stored", "fresh", "left over in")):
        places = "SELECT w.doc, w.term, w.offset FROM temp.differing d CROSS JOIN temp.{}_words w ON w.term = d.term"
        count = db.execute(
            f"SELECT count(DISTINCT doc) FROM ({places.format(few)} EXCEPT {places.format(many)})"  # noqa: S608 - our names
        ).fetchall()[0][0]
        if count:
            yield f"Words of {count} {what} are {problem} the index."
    for table in _COMPARED:
        db.execute(f"DROP TABLE temp.{table}")


def journal_mode(version: str) -> str:
    """Return the journal mode that is safe with a version of SQLite."""
    return "WAL" if tuple(int(part) for part in version.split(".")) >= _WAL_IS_SAFE else "DELETE"


def _identity(path: str) -> tuple[int, int]:
    """Return what tells a file from all others, whatever it is called."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _keep_for_ever(connection: apsw.Connection) -> None:
    """Keep a connection from being collected, even when Python ends: its collection would close it."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _in_child() -> None:
    """Give up the connections of a parent. With a thread inside SQLite when it was forked, none of them can be closed."""
    living = list(_stores)
    is_quiet = not any(store._in_use for store in living)
    for store in living:
        store.give_up(closing=is_quiet)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(after_in_child=_in_child)

_INDEXES = (("search_message", "message", "messages"), ("search_summary", "summary", "summaries"))
_ITEMS_FROM_HISTORY = """
INSERT INTO item (conversation_id, ordinal, summary_id, tokens, depth)
SELECT m.conversation_id, m.seq, NULL, m.tokens, CASE m.role WHEN 'user' THEN -2 ELSE -1 END FROM message m
 WHERE m.outside IS NULL AND m.id NOT IN (SELECT message_id FROM summary_message) AND NOT EXISTS
       (SELECT 1 FROM detached d WHERE d.conversation_id = m.conversation_id AND d.ordinal = m.seq)
"""

_EVENTS_FROM_HISTORY = "SELECT conversation_id, event_id, seq FROM message WHERE event_id IS NOT NULL"


_INTERNAL = ("sqlite_stat1", "sqlite_stat4", "sqlite_sequence")
_KINDS_OF = {"INTEGER": ("integer", "null"), "TEXT": ("text", "null"), "BLOB": ("blob", "null")}
_COUNTS = ("tokens", "context_tokens", "source_tokens", "descendants", "bytes", "next_seq", "revision", "used_tokens")
"""Columns that are never below zero."""
_REMARKS = re.compile(r"('(?:[^']|'')*')|--[^\n]*|\s+")


def refuse_programs(path: Path, version: int, backup: str) -> None:
    """Raise `InvalidInput` unless the file of a backup holds our schema of a version, nothing beside it, and values that fit its columns.

    Nothing in the file is carried out to find out: no trigger, no view.
    """
    with closing(SQLiteStore(":memory:", scripts=migrate.until("sqlite", version))) as ours:
        expected = {(kind, name): _bare(sql) for kind, name, sql in ours.all(_DEFINED)}
        columns = {table: ours.columns(table) for table in ours.tables.names() if ("table", table) in expected}
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        for kind, name, sql in connection.execute(_DEFINED).fetchall():
            if expected.get((kind, name), "" if name in _INTERNAL else None) not in (_bare(str(sql)), ""):
                raise _not_ours(backup, f"the {kind} {name}, which lossless did not make")
        for table, found in columns.items():
            for name, kind, _ in found:
                wrong = f"typeof({name}) NOT IN {_KINDS_OF[kind]}" if kind in _KINDS_OF else "FALSE"
                wrong += f" OR {name} < 0" if name in _COUNTS else ""
                if connection.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchall():  # noqa: S608 - our names
                    raise _not_ours(backup, f"a value in {table}.{name} that lossless does not write")
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    finally:
        connection.close()


_DEFINED = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"


def _bare(sql: str) -> str:
    """A definition without remarks and white space."""
    return _REMARKS.sub(lambda found: found[1] or "", sql)


def _not_ours(backup: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"{backup} holds {what}.",
        hint="A restore takes rows and no programs. Nothing was restored; do not trust this backup.",
    )


def _beginning(text: str) -> str:
    """Enough of a text to find a word in, no word of it cut."""
    return text if len(text) <= 2000 else text[:2000].rpartition(" ")[0]


def _may_be_database(path: Path) -> bool:
    """Whether a file is a database of its own; the logs of one are not, and what cannot be read may be one."""
    return not path.name.endswith(header.LOGS) and (not os.access(path, os.R_OK) or header.is_database(path))


def _from_the_rarest(literal: str) -> str:
    """The end of a literal, three characters or more, from a rare one on: LIKE and GLOB are quick to find their first."""
    starts = range(max(1, len(literal) - 2))
    return literal[max(starts, key=lambda at: _COMMON.find(literal[at]) % len(_COMMON)) :]


def _hash(event_id: str) -> int:
    return crc32(event_id.encode())


def _words(connection: apsw.Connection, table: str, *, knows_recall: bool = True) -> Iterator[tuple[int, str]]:
    """Yield what an index should hold of a table: ids and words."""
    if table != "message" or not knows_recall:
        for rowid, text in connection.execute(f"SELECT id, text FROM {table} ORDER BY id"):  # noqa: S608 - our names
            yield rowid, segment(text)
        return
    # Those below zero first: FTS5 is slow with ids that do not ascend.
    marked = "FROM message m JOIN recall_call r ON r.message_id = m.id"
    for rowid, text in connection.execute(f"SELECT m.id, m.text {marked} ORDER BY m.id DESC"):
        yield -rowid, segment(text)
    marks: list[Any] = connection.execute("SELECT message_id, spans FROM recall_call").fetchall()
    found: dict[int, str | None] = dict(marks)
    for rowid, text in connection.execute("SELECT id, text FROM message ORDER BY id"):
        yield rowid, segment(without(text, found[rowid]) if rowid in found else text)


_CREATING: dict[int, type[StoreError]] = {
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
    errno.EROFS: StoreReadOnly,
}


def _prepare(path: Path) -> None:
    """The directory and the empty file, for the owner's eyes only, before SQLite opens it."""
    try:
        if not path.parent.is_dir():
            make_directory(path.parent)
        if path.is_dir():
            raise StoreUnavailable(f"{path} is a directory.", hint="Name a file in it.")
        if not path.exists():
            _create(path)
        if not os.access(path, os.W_OK):
            raise StoreReadOnly(
                f"{path} cannot be written: its permissions or its file system forbid it.",
                hint="Reading works with read_only=True; to write, make it writable or copy it to another place.",
            )
        with suppress(PermissionError):  # somebody else's file, which its owner may well share
            os.chmod(path, 0o600)
    except OSError as error:
        kind = _CREATING.get(error.errno or 0, StoreUnavailable)
        raise kind(f"{path} cannot be created: {error.strerror}.", hint=f"Choose another {_PATH}.") from error


def _create(path: Path) -> None:
    """Create an empty file that is complete when it gets its name: a thread may open it at once, and lock it."""
    draft = backups.draft(path)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    except OSError:  # a file system without second names
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    finally:
        os.unlink(draft)


_AGAIN = "Nothing of this call was stored; it can be tried again."
_PATH = "path (--db, or the setting database_path)"
_RESTORE = "Restore a backup; reading may still work with read_only=True."
_KINDS: list[tuple[type[apsw.Error], Callable[..., StoreError], str, str]] = [
    (apsw.FullError, StoreFull, "has no room left", f"Free some disk space. {_AGAIN}"),
    (
        apsw.ReadOnlyError,
        StoreReadOnly,
        "cannot be written",
        f"Check the permissions of the file and its directory. {_AGAIN}",
    ),
    (apsw.PermissionsError, StoreReadOnly, "may not be opened", "Check the permissions of the file."),
    (apsw.CantOpenError, StoreUnavailable, "cannot be opened", "Check that the path exists, is a file."),
    (
        apsw.NotADBError,
        StoreCorrupt,
        "is not a database",
        f"If it was one, restore a backup; else move that file away, or choose another {_PATH}.",
    ),
    (apsw.CorruptError, StoreCorrupt, "is damaged", _RESTORE),
    (apsw.BusyError, StoreBusy, "was held by another process for too long", _AGAIN),
    (apsw.LockedError, StoreBusy, "was held by another process for too long", _AGAIN),
    (apsw.ConnectionClosedError, StoreUnavailable, "was closed", "Open it again."),
    (apsw.IOError, StoreUnavailable, "could not be read or written by the operating system", _AGAIN),
]


def translate(error: apsw.Error, location: str) -> StoreError:
    """What SQLite says, as one of our errors."""
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
        return StoreUnavailable(f"{location} was replaced meanwhile.", hint=f"Open it again. {_AGAIN}")
    for kind, ours, what, hint in _KINDS:
        if isinstance(error, kind):
            return ours(f"{location} {what} ({error}).", hint=hint)
    return StoreError(f"{location}: {error}.", hint="This is a fault in lossless; please report it.")
