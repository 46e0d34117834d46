"""Replace the file of a database: lock it, move it aside, rename another into its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import apsw

from lossless.errors import NotOurDatabase, StoreBusy
from lossless.store import header
from lossless.store.header import APPLICATION_ID, LOGS
from lossless.store.sql import backups
from lossless.store.sqlite.errors import translate
from lossless.store.store import Store

_BUSY_MS = 1_000


class FileSite:
    """A file as the place of a database (see `lossless.store.store.Site`)."""

    form = "sqlite"

    def __init__(self, path: Path) -> None:
        self.beside = Path(os.path.realpath(path))
        self._is_free = False

    def is_taken(self) -> bool:
        return self.beside.exists()

    @contextmanager
    def cleared(self, now: datetime, *, replaces: bool) -> Iterator[tuple[str, ...]]:
        aside, self._is_free = backups.replaced(self.beside, now), not self.is_taken()
        if not (self._is_free or replaces):
            raise backups.taken_meanwhile(str(self.beside))
        with self._left_free(aside) if self._is_free else self._put_aside(aside) as moved:
            yield tuple(moved)

    @contextmanager
    def _left_free(self, aside: Path) -> Iterator[list[str]]:
        """Hold a place where there is no database, only logs of one; a database created meanwhile is kept."""
        with ExitStack() as back:
            moved = self._logs_aside(aside, back)
            if self.is_taken():
                raise backups.taken_meanwhile(str(self.beside))
            try:
                yield moved
            except BaseException:
                if not self._is_free:
                    self.beside.unlink()
                elif self.is_taken():
                    back.pop_all()  # no logs of that one
                raise
            back.pop_all()

    @contextmanager
    def _put_aside(self, aside: Path) -> Iterator[list[str]]:
        with self._held(), ExitStack() as back:
            backups.forget_second_name(self.beside)
            _name_too(self.beside, aside)
            back.callback(_put_back, aside, self.beside)
            yield [str(aside), *self._logs_aside(aside, back)]
            back.pop_all()

    def _logs_aside(self, aside: Path, back: ExitStack) -> list[str]:
        """Move logs of a damaged or missing database aside: the new one would take them for its own."""
        moved = []
        for log in (each for each in LOGS if os.path.exists(f"{self.beside}{each}")):
            os.rename(f"{self.beside}{log}", f"{aside}{log}")
            back.callback(os.rename, f"{aside}{log}", f"{self.beside}{log}")
            moved.append(f"{aside}{log}")
        return moved

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Lock the file, with its write-ahead log merged; a damaged one cannot be locked."""
        with ExitStack() as stack:
            try:
                self._look_first()
                connection = apsw.Connection(str(self.beside), flags=apsw.SQLITE_OPEN_READWRITE)
                stack.callback(connection.close)
                connection.set_busy_timeout(_BUSY_MS)
                self._hold(connection)
            except (apsw.NotADBError, apsw.CorruptError):
                stack.close()
            except apsw.BusyError as error:
                raise StoreBusy(
                    f"{self.beside} is open in another process.",
                    hint="Stop the hosts and workers that use it, then try again; nothing was changed.",
                ) from error
            except apsw.Error as error:
                raise translate(error, str(self.beside)) from error
            yield

    def _look_first(self) -> None:
        """Refuse another program's database while nothing of it is open, so that nothing of it changes."""
        found = header.read(self.beside)
        if found is not None and not (found.is_ours or found.is_blank):
            raise NotOurDatabase(f"{self.beside} is a database of another program.", hint="Name another place.")

    def _hold(self, connection: apsw.Connection) -> None:
        if connection.execute("PRAGMA application_id").fetchall()[0][0] != APPLICATION_ID:
            # A process that waits for an empty file would not notice that it was replaced, and write beside the new one.
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        # Every process that has such a file open holds it shared: the log is only given up by the last one.
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        connection.execute("BEGIN EXCLUSIVE")

    def load(self, path: Path, schema: int) -> None:
        if self._is_free:
            self._take(path)
        else:
            os.replace(path, self.beside)
        if os.name == "nt":
            return  # Windows has no handle of a directory to sync, and needs none
        handle = os.open(self.beside.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _take(self, path: Path) -> None:
        """Take a name that nobody else has, where a file system can tell."""
        try:
            os.link(path, self.beside)
        except OSError as error:
            if self.is_taken():
                raise backups.taken_meanwhile(str(self.beside)) from error
            os.rename(path, self.beside)
        self._is_free = False
        path.unlink(missing_ok=True)

    def filling(self) -> AbstractContextManager[Store]:
        raise NotImplementedError  # whatever is restored to a file is one already


def _name_too(path: Path, aside: Path) -> None:
    """Give a file a second name, so that there is always a database under the first, where a file system can."""
    try:
        os.link(path, aside)
    except FileExistsError:
        raise
    except OSError:
        os.rename(path, aside)


def _put_back(aside: Path, path: Path) -> None:
    os.replace(aside, path)
    # Two names of one file are left as they are by a rename.
    aside.unlink(missing_ok=True)
