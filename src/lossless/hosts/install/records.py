"""Remember what `lcm install` wrote: one record per host and place, with the files as they were before.

A record is written before the files are changed, so that an interrupted installation can be reverted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct

from lossless.config.paths import make_directory, open_private
from lossless.errors import InstallRefused
from lossless.hosts.install.entries import Entry, Grammar

_PAUSE = 0.05


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that was written, and how to revert it."""

    path: str
    before: str | None
    """The name of the backup; None if there was no file."""
    digest: str
    """Of the bytes that were written."""
    grammar: Grammar | None = None
    """None for a file that was copied whole."""
    entries: tuple[Entry, ...] = ()
    directories: tuple[str, ...] = ()
    """The directories that were created for it, outermost first."""


class RanProgram(Struct, frozen=True):
    """A program that was run, and the one that reverts it."""

    arguments: tuple[str, ...]
    undo: tuple[str, ...]


class Record(Struct, frozen=True, kw_only=True):
    """The files and programs of one installation."""

    host: str
    scope: str
    root: str
    """The directory of the host's configuration, or of the project."""
    interpreter: str
    version: str
    """Of lossless."""
    at: float
    files: tuple[WrittenFile, ...] = ()
    programs: tuple[RanProgram, ...] = ()


def directory() -> Path:
    """Return the directory of the records. It may be missing."""
    return platformdirs.user_state_path("lossless", appauthor=False) / "installs"


def place(host: str, root: Path) -> Path:
    """Return the directory of one record and its backups."""
    return directory() / f"{host}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"


def digest(data: bytes) -> str:
    """Return the digest of the bytes of a file."""
    return hashlib.sha256(data).hexdigest()


def load(host: str, root: Path) -> Record | None:
    """Return the record of a host at a place; None if there is none, or if it cannot be read."""
    return _read(place(host, root) / "record.json")


def load_all() -> list[Record]:
    """Return every record, by host."""
    found = (_read(path) for path in sorted(directory().glob("*/record.json")))
    return [each for each in found if each is not None]


@contextmanager
def exclusive(wait: float = 30.0) -> Iterator[None]:
    """Let one process at a time change hosts; raise `InstallRefused` if another one takes longer than some seconds."""
    make_directory(directory())
    descriptor, until = os.open(directory() / ".lock", os.O_RDWR | os.O_CREAT, 0o600), time.monotonic() + wait
    try:
        while not _took(descriptor):
            if time.monotonic() > until:
                hint = "Try again when it is done. Nothing was changed."
                raise InstallRefused("Another `lcm install` is running.", hint=hint)
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _took(descriptor: int) -> bool:
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # the platform has no such locks
        return True
    except BlockingIOError:
        return False
    return True


def save(record: Record) -> None:
    """Write a record, atomically."""
    folder = place(record.host, Path(record.root))
    make_directory(folder)
    draft = folder / "record.draft"
    write_private(draft, msgspec.json.encode(record))
    draft.replace(folder / "record.json")


def keep_backup(record: Record, data: bytes) -> str:
    """Keep the bytes of a file before the change; return the name of the backup."""
    folder = place(record.host, Path(record.root))
    make_directory(folder)
    name = f"{digest(data)[:32]}.backup"
    if not (folder / name).exists():
        draft = folder / f"{name}.draft"
        write_private(draft, data)
        draft.replace(folder / name)
    return name


def backup(record: Record, name: str) -> bytes:
    """Return the bytes of a backup."""
    return (place(record.host, Path(record.root)) / name).read_bytes()


def discard(record: Record) -> None:
    """Remove a record, then its backups: a record without them could not be followed."""
    folder = place(record.host, Path(record.root))
    (folder / "record.json").unlink()
    shutil.rmtree(folder)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read: other programs keep their keys in what is copied."""
    with open(path, "wb", opener=open_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None
