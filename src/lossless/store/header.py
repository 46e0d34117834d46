"""Read the header of a database file without opening the database and without a file handle of our own.

On POSIX, closing any handle of a file drops every lock the process holds on it. SQLite knows which files it has open and
puts such a close off, so the bytes are read by SQLite's own file layer. It does not know the shared memory of a database
(`-shm`) by its name, so the files beside a database are never opened as one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from lossless.errors import InvalidInput, StoreUnavailable

APPLICATION_ID = 0x4C434D31
LOGS = ("-wal", "-shm", "-journal")
_MAGIC = b"SQLite format 3\0"
_LEAST = 512
"""The smallest page: no database has fewer bytes, or a part of a page."""
_FIRST = 108
"""The header of the file and of its first page."""
_LOG, _FRAME = 32, 24
_LEAF = 0x0D
_BLOCK = 1 << 22


class Header(Struct, frozen=True):
    """The part of a database's first page that says which program it belongs to."""

    application_id: int
    user_version: int
    has_tables: bool

    @property
    def is_ours(self) -> bool:
        return self.application_id == APPLICATION_ID

    @property
    def is_blank(self) -> bool:
        """Tell whether no program has written to it."""
        return not (self.application_id or self.user_version or self.has_tables)


def read(path: str | Path) -> Header | None:
    """Return the header as of the last commit, None for an empty file; raise SQLite's error for any other file."""
    import apsw

    path = os.path.realpath(path)
    refuse_log(path)
    if os.path.isdir(path):
        raise StoreUnavailable(f"{path} is a directory.", hint="Name a file in it.")
    with closing(_File(path)) as file:
        page = file.read(0, _FIRST)
    if not os.stat(path).st_size:  # not the file layer's size: a file of one byte is empty to SQLite
        return None
    if not page.startswith(_MAGIC) or len(page) < _FIRST:
        raise apsw.NotADBError("file is not a database")
    return _header(_logged(path) or page)


def refuse_log(path: str | Path) -> None:
    """Raise if a name is one that SQLite gives to files beside a database."""
    if os.path.realpath(path).endswith(LOGS):
        raise StoreUnavailable(f"{path} belongs to a database and is none.", hint="Name the database itself.")


def is_database(path: str | Path) -> bool:
    """Tell whether a file is a database, or one of the files that SQLite keeps beside one."""
    path = os.path.realpath(path)
    if not os.path.isfile(path):
        return False
    if path.endswith(LOGS):
        return os.path.isfile(path.rpartition("-")[0])
    size = os.stat(path).st_size
    return size >= _LEAST and size % _LEAST == 0 and beginning(path, len(_MAGIC)) == _MAGIC


def refuse_database(path: str | Path) -> None:
    """Raise unless a file may be read as something other than a database."""
    if is_database(path):
        raise InvalidInput(f"{path} is a database, or belongs to one.", hint="Name another file; nothing was changed.")


def beginning(path: str | Path, size: int) -> bytes:
    """Return the first bytes of a file that may be an open database; empty if it cannot be read."""
    import apsw

    try:
        with closing(_File(os.path.realpath(path))) as file:
            return file.read(0, size)
    except apsw.Error:
        return b""


def blocks(path: str, overlap: int) -> Iterator[bytes]:
    """Yield all bytes of a database or its log, in overlapping pieces."""
    if not os.path.exists(path):
        return
    with closing(_File(path)) as file:
        for start in range(0, file.size, _BLOCK):
            yield file.read(start, _BLOCK + overlap)


class _File:
    """A database, or its write-ahead log (which carries no locks), as SQLite itself opens it."""

    def __init__(self, path: str) -> None:
        import apsw

        assert not path.endswith("-shm"), "its locks would be dropped"
        kind = apsw.SQLITE_OPEN_WAL if path.endswith("-wal") else apsw.SQLITE_OPEN_MAIN_DB
        self._file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_READONLY | kind, 0])
        self.size: int = self._file.xFileSize()

    def read(self, start: int, size: int) -> bytes:
        size = min(size, self.size - start)
        return self._file.xRead(size, start) if size > 0 else b""

    def close(self) -> None:
        self._file.xClose()


def _header(page: bytes) -> Header:
    return Header(
        application_id=int.from_bytes(page[68:72], "big"),
        user_version=int.from_bytes(page[60:64], "big", signed=True),
        has_tables=page[100] != _LEAF or page[103:105] != b"\0\0",
    )


def _logged(path: str) -> bytes:
    """Return the beginning of the newest first page committed to the write-ahead log; empty if there is none."""
    import apsw

    log = f"{path}-wal"
    try:
        if not os.path.isfile(log):
            return b""
        with closing(_File(log)) as file:
            return _newest(file)
    except apsw.Error:
        return b""  # removed meanwhile, with everything in it now in the database


def _newest(file: _File) -> bytes:
    start = file.read(0, _LOG)
    found, pending = b"", b""
    if len(start) < _LOG:
        return found
    size, salt = int.from_bytes(start[8:12], "big") + _FRAME, start[16:24]
    for at in range(_LOG, file.size - size + 1, size):
        frame = file.read(at, _FRAME)
        if frame[8:16] != salt:
            break  # left over from before the log was begun again
        if frame[:4] == b"\0\0\0\1":
            pending = file.read(at + _FRAME, _FIRST)
        if frame[4:8] != b"\0\0\0\0":
            found = pending or found
    return found
