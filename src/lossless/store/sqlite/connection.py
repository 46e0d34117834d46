"""SQLite through apsw: one writer, readers apart, WAL, every write transaction IMMEDIATE.

No file of a database is ever opened by us: on POSIX, closing any handle of a file drops the locks SQLite holds on it. What
has to be read of its bytes is read by SQLite's own file layer (`lossless.store.header`).
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from lossless.errors import (
    NotOurDatabase,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
)
from lossless.events import Event, Hook, log
from lossless.store import header, jsontext, migrate, waiting
from lossless.store.header import APPLICATION_ID
from lossless.store.rows.types import Rows
from lossless.store.sql import backups
from lossless.store.sql.columns import LAST, Row
from lossless.store.sql.recall_calls import SCHEMA_VERSION as RECALL_VERSION
from lossless.store.sqlite.errors import AGAIN, PATH, RESTORE, moved, translate
from lossless.store.sqlite.files import identity, is_moved, prepare
from lossless.store.store import Store, opened_before_fork
from lossless.store.waiting import BUSY_MS, Patience

_MOST_IDLE = 8
MOST_SHOWN = 3
PAGES = 4096
_DERIVED = ("item", "event", "search_message", "search_summary", "recall_call")
_TABLES = ("conversation", "message", *_DERIVED)
_UNMARKED = "NOT EXISTS (SELECT 1 FROM recall_call r WHERE r.message_id = t.id)"
_SURE_WORD = re.compile(r"(?<!\S)[A-Za-z0-9]{1,30}(?!\S)")
"""A word that the index holds as it is, whatever its tokenizer makes of the rest."""
_COMMON = " etaoinsrhldcumfpgwybvkxjqz"
_WAL_IS_SAFE = (3, 51, 3)
"""Since this version of SQLite no writer and checkpoint can begin the write-ahead log again at the same time."""
_stores: weakref.WeakSet[SQLiteConnection] = weakref.WeakSet()
"""Every store of this process that may have connections."""
_stranded: set[tuple[int, int]] = set()
"""Files that this process must not open: it was forked in the middle of their use, so SQLite takes them for locked by us."""


class SQLiteConnection(Store):
    """Connections to one database file, or to `:memory:`: opening, transactions, statements, forks."""

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
        # A later change of the working directory must not change the file.
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

    def _open_to_write(self) -> None:
        if not self._memory:
            self._look_first()
            prepare(Path(self.location))
        self._writer = self._connect(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        with self._translated():
            self._set_up()
            self._refuse_foreign()
            if not self._memory:
                with suppress(OSError):  # helps to find what was replaced
                    backups.forget_second_name(Path(self._file))
            migrate.migrate(self, self._scripts)
            self._mend()

    def _open_to_read(self) -> None:
        if not Path(self.location).is_file():
            if Path(self.location).is_dir():
                raise StoreUnavailable(f"{self.location} is a directory.", hint="Name a file in it.")
            raise StoreMissing(f"There is no database at {self.location}.", hint=f"Check the {PATH}.")
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
        """Tell whether the file has content; refuse a foreign one before SQLite could change it."""
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
        if identity(self._file) in _stranded:
            raise StoreUnavailable(
                f"{self.location} was in use when this process was forked, and cannot be opened here safely.",
                hint="Close it before forking, or start processes with the method spawn or forkserver.",
            )

    def _refuse_second_name(self) -> None:
        """Refuse a hard link: SQLite keeps its log beside the name it is given, so two names would have two logs."""
        own = identity(self._file)
        for other in list(_stores):
            with suppress(OSError):  # one that is gone has no name at all
                is_open = not (other is self or other._closed or other._memory)
                if is_open and other._file != self._file and identity(other._file) == own:
                    raise StoreUnavailable(
                        f"{self.location} is another name of {other.location}, which is open.",
                        hint="Use one name for it; a symbolic link would do.",
                    )

    @property
    def _file(self) -> str:
        """Return the file itself, behind any links: SQLite and we put files beside that."""
        return os.path.realpath(self.location)

    def _connect(self, flags: int) -> apsw.Connection:
        with self._translated():
            name = f"{Path(self.location).absolute().as_uri()}?immutable=1" if self._immutable else self.location
            flags |= apsw.SQLITE_OPEN_URI if self._immutable else 0
            connection = apsw.Connection(name, flags=flags, vfs=self._vfs)
            connection.set_busy_handler(Patience(self._on_event))
            return connection

    def _set_up(self) -> None:
        """Set page size, vacuum mode and WAL: they only take before the first table."""
        limit = waiting.current()
        deadline = time.monotonic() + (BUSY_MS / 1000 if limit is None else limit.left)
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
        """Return why the database is used without a write-ahead log, if it is."""
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
            f"{self.location} is a database of another program.", hint=f"Choose another {PATH}; nothing was changed."
        )

    def _mend(self) -> None:
        """Rebuild derived tables that are missing or broken, all of them or none."""
        if not self._wanting():
            return
        with self.transaction():
            names = self._wanting()  # again: another process may have been at it
            if names:
                self._rebuild(names)
        if names:
            self._on_event(Event("store.mended", f"rebuilt: {', '.join(names)}", "warning"))

    def _wanting(self) -> list[str]:
        """Return the derived tables that are missing or broken; raise for missing raw ones."""
        rows = self._writer.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        known = _TABLES if RECALL_VERSION in self._scripts else _TABLES[:-1]
        missing = set(known) - {row[0] for row in rows}
        if missing & {"conversation", "message"}:
            raise StoreCorrupt(
                f"{self.location} has lost its table(s) {', '.join(sorted(missing))}.", hint="Restore a backup."
            )
        if "recall_call" in missing:
            missing.add("search_message")  # they are made together
        broken = [index for index, source, _ in INDEXES if index not in missing and not self._answers(index, source)]
        return [*sorted(missing), *broken]

    def _rebuild(self, names: Sequence[str]) -> None:
        """Rebuild derived tables in a transaction that any fault reverts: a damaged file is not written to."""
        searched = [index for index, _, _ in INDEXES if index in names]
        for name in searched:
            self._drop_search(name)
        # Asked once they are gone, since what is wrong with them is no damage of the file.
        if damage := self._damage("quick_check(1)"):
            raise StoreCorrupt(f"{self.location} is damaged ({damage}).", hint=RESTORE)
        self.script(self._scripts[1].read_text(encoding="utf-8"))
        if "recall_call" in names:
            self.script(self._scripts[RECALL_VERSION].read_text(encoding="utf-8"))
        if "item" in names:
            self.run(_ITEMS_FROM_HISTORY)
        if "event" in names:
            for conversation_id, name, seq in self._writer.execute(EVENTS_FROM_HISTORY):
                self.remember_events(conversation_id, [(name, seq)])
        if searched:
            self.rebuild_search()

    def _answers(self, name: str, source: str) -> bool:
        """Tell whether an index looks intact: its tables exist, and it finds the newest words."""
        shadows = [f"{name}_{shadow}" for shadow in ("data", "idx", "docsize", "config")]
        there = self.all(
            "SELECT count(*) FROM sqlite_schema WHERE name IN (SELECT value FROM json_each(:names))",
            names=self.listing(shadows),
        )
        if there[0][0] < len(shadows):
            return False
        plain = f"WHERE {_UNMARKED}" if source == "message" and self.recall_calls.are_marked else ""
        newest = self.all(f"SELECT t.id, t.text FROM {source} t {plain} ORDER BY t.id DESC LIMIT 1")
        sure = [(at, word[0]) for at, text in newest if (word := _SURE_WORD.search(_beginning(text)))]
        find = f"SELECT 1 FROM {name} WHERE {name} MATCH ? AND rowid >= ? LIMIT 1"
        try:
            found = [self._writer.execute(find, (f'"{word}"', at)).fetchall() for at, word in sure or [(0, "lossless")]]
            return bool(found[0]) or not sure
        except (apsw.SQLError, apsw.CorruptError):
            return False

    def _drop_search(self, name: str) -> None:
        """Drop an index and the tables behind it, as far as they exist."""
        try:
            self._writer.execute(f"DROP TABLE IF EXISTS {name}")
        except (apsw.SQLError, apsw.CorruptError):
            # A virtual table that cannot be opened cannot be dropped either: take its entry out by hand.
            self._writer.execute("PRAGMA writable_schema = ON")
            self._writer.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
            self._writer.execute("PRAGMA writable_schema = RESET").fetchall()
        for shadow in ("data", "idx", "docsize", "config", "content"):
            self._writer.execute(f"DROP TABLE IF EXISTS {name}_{shadow}")

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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._check_open()
        if self.read_only:
            raise StoreReadOnly(f"{self.location} was opened for reading.", hint="Open it without read_only to write.")
        if getattr(self._writing, "now", False):
            yield
            return
        with self._alone(), self._used(), self._translated(own=False):
            try:
                self._writing.now = True
                self._writer.execute("BEGIN IMMEDIATE")
                if (limit := waiting.current()) is not None:
                    limit.has_entered = True
                self._refuse_moved()
                yield
                self._writer.execute("COMMIT")
            finally:
                self._writing.now = False
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads from the writer, which may wait for another process just now."""
        limit = waiting.current()
        if limit is None:
            self._mutex.acquire()
        elif not limit.acquire(self._mutex):
            raise StoreBusy(f"{self.location} was in use by this process for too long.", hint=AGAIN)
        try:
            yield
        finally:
            self._mutex.release()

    def _refuse_moved(self) -> None:
        """Refuse to write to a file that nobody will find again. With a write-ahead log SQLite does not look by itself."""
        if not self._memory and is_moved(self._writer):
            raise moved(self.location)

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
        """Mark a connection as in use: a process that is forked meanwhile cannot even close it."""
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
                _stranded.add(identity(self._file))
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
        self._writer.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)

    def columns(self, table: str) -> list[tuple[str, str, int]]:
        rows = self.all("SELECT name, type, pk FROM pragma_table_info(:table) ORDER BY cid", table=table)
        return [(name, kind, place) for name, kind, place in rows]

    def defer_links(self) -> None:
        self._writer.execute("PRAGMA defer_foreign_keys = ON")

    def new_ids(self, table: str, count: int) -> list[int]:
        rows = self.all(
            f"SELECT max(id) FROM {table} UNION ALL SELECT CAST(state AS INTEGER) FROM guard WHERE name = :mark",
            mark=LAST.format(table),
        )
        last = max(row[0] or 0 for row in rows)
        return list(range(last + 1, last + 1 + count))

    def renumber(self) -> None:
        pass  # the next id is always the one after the highest that ever was

    def each_of(self, name: str, kind: str) -> str:
        return f"SELECT value FROM json_each(:{name})"

    def listing(self, values: Sequence[Any]) -> str:
        return jsontext.dumps_plain(values)

    def needle(self, literal: str, *, folded: bool) -> tuple[str, str]:
        literal = _from_the_rarest(literal)
        if folded:
            return "t.text LIKE {} ESCAPE '!'", "%" + re.sub("[!%_]", r"!\g<0>", literal) + "%"
        return "t.text GLOB {}", "*" + re.sub(r"[*?\[]", r"[\g<0>]", literal) + "*"

    def _damage(self, check: str) -> str:
        """Return what a check finds, at most three lines of it; empty if the file is intact."""
        lines: list[str] = []
        try:
            for (report,) in self.stream(f"PRAGMA {check}"):
                lines += [line for line in report.splitlines() if not line.startswith("***") and line != "ok"]
        except StoreCorrupt:
            if not lines:
                raise  # else it went as far as it could
        more = len(lines) - MOST_SHOWN
        return "; ".join(lines[:MOST_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")

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
                    self._writer.set_busy_timeout(0)  # and not worth waiting for a writer
                    self._writer.execute("PRAGMA optimize").fetchall()
                    self._writer.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
                self._writer.close()

    @contextmanager
    def _translated(self, *, own: bool = True) -> Iterator[None]:
        """Raise errors of the driver as ours. Code inside may decode its own bytes, which is not our `own` error."""
        try:
            yield
        except (apsw.Error, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError) and not own:
                raise
            raise self._fault(error) from error

    def _fault(self, error: apsw.Error | UnicodeDecodeError) -> StoreError:
        if isinstance(error, apsw.Error):
            return translate(error, self.location)
        return StoreCorrupt(f"{self.location} is damaged (a text in it is no UTF-8).", hint=RESTORE)


def journal_mode(version: str) -> str:
    """Return the journal mode that is safe with a version of SQLite."""
    return "WAL" if tuple(int(part) for part in version.split(".")) >= _WAL_IS_SAFE else "DELETE"


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


INDEXES = (("search_message", "message", "messages"), ("search_summary", "summary", "summaries"))


_ITEMS_FROM_HISTORY = """
INSERT INTO item (conversation_id, ordinal, summary_id, tokens, depth)
SELECT m.conversation_id, m.seq, NULL, m.tokens, CASE m.role WHEN 'user' THEN -2 ELSE -1 END FROM message m
 WHERE m.outside IS NULL AND m.id NOT IN (SELECT message_id FROM summary_message) AND NOT EXISTS
       (SELECT 1 FROM detached d WHERE d.conversation_id = m.conversation_id AND d.ordinal = m.seq)
"""


EVENTS_FROM_HISTORY = "SELECT conversation_id, event_id, seq FROM message WHERE event_id IS NOT NULL"


def _beginning(text: str) -> str:
    """Return enough of a text to find a word in, without cutting one."""
    return text if len(text) <= 2000 else text[:2000].rpartition(" ")[0]


def _from_the_rarest(literal: str) -> str:
    """Return the end of a literal from a rare character on: LIKE and GLOB find their first character quickly."""
    starts = range(max(1, len(literal) - 2))
    return literal[max(starts, key=lambda at: _COMMON.find(literal[at]) % len(_COMMON)) :]
