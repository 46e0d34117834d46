"""Files of a database: create one, tell one from others."""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path

import apsw

from lossless.config import make_directory
from lossless.errors import (
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from lossless.store import header
from lossless.store.sql import backups
from lossless.store.sqlite.errors import PATH


def identity(path: str) -> tuple[int, int]:
    """Return the identity of a file, whatever it is called."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def is_moved(connection: apsw.Connection) -> bool:
    """Tell whether the file of a connection is no longer at its path. A file system that cannot tell is believed."""
    answer = ctypes.c_int(0)
    with suppress(apsw.Error):
        connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(answer))
    return answer.value != 0


def may_be_database(path: Path) -> bool:
    """Tell whether a file may be a database of its own; logs of one are not, an unreadable file may be."""
    return not path.name.endswith(header.LOGS) and (not os.access(path, os.R_OK) or header.is_database(path))


_CREATING: dict[int, type[StoreError]] = {
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
    errno.EROFS: StoreReadOnly,
}


def prepare(path: Path) -> None:
    """Create the directory and the empty file, readable by the owner only, before SQLite opens it."""
    try:
        if not path.parent.is_dir():
            make_directory(path.parent)
        if path.is_dir():
            raise StoreUnavailable(f"{path} is a directory.", hint="Name a file in it.")
        if not path.exists():
            create(path)
        if not os.access(path, os.W_OK):
            raise StoreReadOnly(
                f"{path} cannot be written: its permissions or its file system forbid it.",
                hint="Reading works with read_only=True; to write, make it writable or copy it to another place.",
            )
        with suppress(PermissionError):  # another user's file, which its owner may share
            os.chmod(path, 0o600)
    except OSError as error:
        kind = _CREATING.get(error.errno or 0, StoreUnavailable)
        raise kind(f"{path} cannot be created: {error.strerror}.", hint=f"Choose another {PATH}.") from error


def create(path: Path) -> None:
    """Create an empty file that is complete when it gets its name: a thread may open and lock it at once."""
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
