"""Store payloads in files named after the hash of their content.

Equal bytes are one file, from any sender. A path is made from a hash and never from a message, so nothing stored can lead out
of the directory.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from lossless.config import make_directory
from lossless.errors import FileUnavailable, InvalidInput, StoreFull, StoreReadOnly

NO_BYTES = "0" * 64
"""Stored instead of a content's hash if the content is missing."""
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


_FileState: TypeAlias = tuple[int, int, int, int, int]
_SETTLED_NS = 2_000_000_000
"""A file that changed less than this ago may change again without a change of its times."""
_MOST_VERIFIED = 10_000


class Files:
    """A directory of payloads, created with the first one."""

    def __init__(self, root: Path, *, scratch: bool = False) -> None:
        self.root = root
        self.scratch = scratch
        """The directory is temporary, so that no other database uses it."""
        self._verified: dict[str, _FileState] = {}

    def put(self, sha256: str, data: bytes) -> bool:
        """Store the bytes durably under their hash. Return False if these bytes are stored already.

        A file of that name is read and compared; if it is wrong, it is replaced.
        """
        if self.is_intact(sha256):
            return False
        self.write(sha256, [data])
        return True

    def write(self, sha256: str, chunks: Iterable[bytes]) -> None:
        """Store the chunks durably under their hash, and replace any file of that name."""
        path = self._path(sha256)
        try:
            made = [directory for directory in (self.root, path.parent) if not directory.is_dir()]
            if path.parent.is_symlink() or (path.parent in made and os.path.lexists(path.parent)):
                # Nothing behind a link is ever read, and a file holds no payloads.
                _set_aside(path.parent)
                made = [*made, path.parent]
            for directory in made:
                make_directory(directory)
            if path.is_dir() and not path.is_symlink():
                _set_aside(path)
            _write(path, chunks)
            for directory in made:
                _sync(directory.parent)
        except OSError as error:
            kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreReadOnly
            raise kind(
                f"{self.root} cannot take the payload {sha256[:16]}: {error.strerror}.",
                hint="Check large_files_dir. Nothing of this call was stored; it can be tried again.",
            ) from error

    def remove(self, sha256: str) -> None:
        """Remove a payload, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(sha256))

    def exists(self, sha256: str) -> bool:
        """Return whether a regular file has that name; `is_intact` also reads it."""
        return self.size(sha256) is not None

    def size(self, sha256: str) -> int | None:
        """Return the number of bytes of the regular file of that name; None if there is none."""
        path = self._path(sha256)
        try:
            found = path.lstat()
            return found.st_size if stat.S_ISREG(found.st_mode) and not path.parent.is_symlink() else None
        except OSError:
            return None

    def is_intact(self, sha256: str) -> bool:
        """Return whether the file of that name holds the bytes it is named after."""
        self._verified.pop(sha256, None)
        try:
            with self._open(sha256):
                return True
        except FileUnavailable:
            return False

    def read_all(self, sha256: str) -> bytes:
        """Return all bytes of a payload, if they match its hash."""
        with self._open(sha256, verify=False) as stream:
            data = stream.read()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise self._damaged(sha256)
        return data

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from `start` up to `end`; beyond the end of the file there are none."""
        if start < 0 or (end is not None and end < start):
            raise InvalidInput(f"{start} to {end} is not a range of bytes.", hint="Give 0 <= start <= end.")
        with self._open(sha256) as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(min(start, size))
            return stream.read(min(size if end is None else end, size) - min(start, size))

    def lines(self, sha256: str, first: int = 1, last: int | None = None) -> bytes:
        """Return complete lines, counted from 1, `last` included."""
        if first < 1 or (last is not None and last < first):
            raise InvalidInput(f"{first} to {last} is not a range of lines.", hint="Give 1 <= first <= last.")
        with self._open(sha256) as stream:
            most = os.fstat(stream.fileno()).st_size + 1
            return b"".join(islice(stream, min(first - 1, most), None if last is None else min(last, most)))

    def _path(self, sha256: str) -> Path:
        if not _SHA256.match(sha256):
            raise InvalidInput(f"{sha256!r} is not the name of a payload.")
        return self.root / sha256[:2] / sha256

    @contextmanager
    def _open(self, sha256: str, *, verify: bool = True) -> Iterator[BufferedReader]:
        """Open a payload; with `verify`, only if it holds the bytes it is named after."""
        path = self._path(sha256)
        try:
            # A link planted in the directory must not lead out of it.
            if path.parent.is_symlink():
                raise OSError("its directory is a link")
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise FileUnavailable(
                f"The payload {sha256[:16]} cannot be read from {self.root}: {error.strerror or error}.",
                hint="Restore the files directory from a backup.",
            ) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileUnavailable(f"The payload {sha256[:16]} in {self.root} is not a regular file.")
        with os.fdopen(handle, "rb") as stream:
            if verify:
                self._verify(sha256, stream)
            yield stream

    def _verify(self, sha256: str, stream: BufferedReader) -> None:
        """Compare a file with its name, once for as long as it does not change."""
        found = os.fstat(stream.fileno())
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if self._verified.get(sha256) == state:
            return
        try:
            matches = hashlib.file_digest(stream, "sha256").hexdigest() == sha256
        except OSError as error:
            raise self._damaged(sha256) from error
        if not matches:
            raise self._damaged(sha256)
        stream.seek(0)
        if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _SETTLED_NS:
            if len(self._verified) >= _MOST_VERIFIED:
                self._verified.clear()
            self._verified[sha256] = state

    def _damaged(self, sha256: str) -> FileUnavailable:
        return FileUnavailable(
            f"The payload {sha256[:16]} in {self.root} is damaged.",
            hint="Restore the files directory from a backup.",
        )


def _set_aside(path: Path) -> None:
    """Rename what is in the way of a payload; it is not ours to delete."""
    os.rename(path, path.with_name(f"{path.name}.aside-{os.urandom(4).hex()}"))


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file completely or not at all: beside its place, synced, renamed, the directory synced."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
            stream.flush()
            os.fsync(handle)
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise
    _sync(path.parent)


def _sync(directory: Path) -> None:
    if os.name == "nt":
        return  # Windows has no handle of a directory to sync, and needs none
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
