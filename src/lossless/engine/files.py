"""The files directory: bytes kept out of line under the name of their content.

Equal bytes are one file, whoever sent them. A path is made from a hash and never from what a message
says, so nothing stored can lead out of the directory.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from lossless.errors import FileUnavailable, InvalidInput, StoreFull, StoreReadOnly

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class Files:
    """A directory of payloads, made when the first one arrives."""

    def __init__(self, root: Path, *, scratch: bool = False) -> None:
        self.root = root
        self.scratch = scratch
        """Whether it goes with whoever opened it, so that nobody else has anything there."""

    def put(self, sha256: str, data: bytes) -> bool:
        """Keep the bytes, durably. False if they are there already."""
        path = self._path(sha256)
        try:
            if path.exists():
                return False
            made = [directory for directory in (self.root, path.parent) if not directory.is_dir()]
            for directory in made:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, data)
            for directory in made:
                _sync(directory.parent)
        except OSError as error:
            kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreReadOnly
            raise kind(
                f"{self.root} cannot take a payload of {len(data):,} bytes: {error.strerror}.",
                hint="Check large_files_dir. Nothing of this call was stored; it can be tried again.",
            ) from error
        return True

    def remove(self, sha256: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path(sha256))

    def exists(self, sha256: str) -> bool:
        return self._path(sha256).exists()

    def whole(self, sha256: str) -> bytes:
        """All the bytes, if they are still the ones that were put here."""
        with self._open(sha256) as stream:
            data = stream.read()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise FileUnavailable(
                f"The payload {sha256[:16]} in {self.root} is damaged.",
                hint="Restore the files directory from a backup.",
            )
        return data

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes from `start` up to `end`; what lies beyond the end of the file is empty."""
        if start < 0 or (end is not None and end < start):
            raise InvalidInput(f"{start} to {end} is not a range of bytes.", hint="Give 0 <= start <= end.")
        with self._open(sha256) as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(min(start, size))
            return stream.read(min(size if end is None else end, size) - min(start, size))

    def lines(self, sha256: str, first: int = 1, last: int | None = None) -> bytes:
        """Whole lines, counted from 1, `last` included."""
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
    def _open(self, sha256: str) -> Iterator[BinaryIO]:
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
            yield stream


def _write(path: Path, data: bytes) -> None:
    """All of it under its name, or nothing: written beside, synced, renamed, the directory synced."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
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
