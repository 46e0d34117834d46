"""Find and remove files that killed writers of payloads, archives and backups left behind."""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from lossless.engine.shared.file_store import Files
from lossless.engine.shared.files_dir import sibling_base
from lossless.store.store import Store

if sys.platform != "win32":
    import fcntl

_HOUR, _DAY = 3_600, 86_400
_DRAFT = re.compile(r"\..+\.\d+\.[0-9a-f]{8}|.+\.\d+-[0-9a-f]{8}\.part")
"""Names of files that are written beside their place until they are complete."""
_BACKUP_DRAFT = re.compile(r".+\.\d+-[0-9a-f]{8}\.part")
_IN_BACKUP = {"backup", "database", "files"}


class Stray(Struct, frozen=True):
    """A file that is not needed, and its size."""

    path: Path
    bytes: int


def find_drafts(store: Store, files: Files, now: int) -> tuple[Stray, ...]:
    """Return the drafts of payloads, archives and backups whose writers were killed."""
    return tuple(older_than(_drafts(store, files), now / 1_000_000 - _HOUR))


def remove_drafts(directory: Path, seconds: float) -> None:
    """Remove the drafts of killed backups in a directory."""
    for stray in older_than(_backup_drafts(directory), seconds - _HOUR):
        try_remove(stray.path)


@contextmanager
def hold_draft(draft: Path) -> Iterator[None]:
    """Lock a directory while it is written to. The lock of a killed process is released, which marks its draft."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(draft, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks: then its age tells
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _is_abandoned(draft: Path, at: float, before: float) -> bool:
    """Return whether no process writes to a directory. A long backup does not update its time."""
    if sys.platform != "win32" and at < before:
        handle = os.open(draft, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
        finally:
            os.close(handle)
    return at < before - _DAY


def _backup_drafts(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.glob("*.part")):
        if _BACKUP_DRAFT.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            with suppress(OSError):  # not ours to read
                names = {each.name.partition("-")[0] for each in path.iterdir()}
                if names <= _IN_BACKUP:
                    yield path


def _drafts(store: Store, files: Files) -> Iterator[Path]:
    """Yield payloads, archives and backups that are incomplete by their names."""
    found = [*files.root.glob("[0-9a-f][0-9a-f]/.*")]
    for place in filter(None, {sibling_base(store, files), store.place()}):
        name = glob.escape(place.name)
        found += [*place.parent.glob(f".{name}.*"), *place.parent.glob(f"{name}.*.part")]
        found += _backup_drafts(place.parent)
    return (path for path in sorted(set(found)) if _DRAFT.fullmatch(path.name))


def older_than(paths: Iterable[Path], before: float) -> Iterator[Stray]:
    """Yield the files, and abandoned directories, that were written before a time."""
    for path in paths:
        with suppress(FileNotFoundError):  # its writer renamed it meanwhile
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                if _is_abandoned(path, found.st_mtime, before):
                    yield Stray(path, sum(each.lstat().st_size for each in path.rglob("*")))
            elif found.st_mtime < before:
                yield Stray(path, found.st_size)


def try_remove(path: Path) -> bool:
    """Remove a file or directory; return whether that succeeded."""
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError:
        return False
    return True
