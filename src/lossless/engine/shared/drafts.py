"""Find and remove what killed writers of payloads, archives and backups left behind."""

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
from lossless.engine.shared.files_dir import beside
from lossless.store.store import Store

if sys.platform != "win32":
    import fcntl

_HOUR, _DAY = 3_600, 86_400
_DRAFT = re.compile(r"\..+\.\d+\.[0-9a-f]{8}|.+\.\d+-[0-9a-f]{8}\.part")
"""How we call what we write beside its place, until it is whole."""
_BACKUP_DRAFT = re.compile(r".+\.\d+-[0-9a-f]{8}\.part")
_IN_BACKUP = {"backup", "database", "files"}


class Stray(Struct, frozen=True):
    """A file that is not needed, and its bytes."""

    path: Path
    bytes: int


def drafts_left(store: Store, files: Files, now: int) -> tuple[Stray, ...]:
    """Return what writers of payloads, archives and backups left when they were killed."""
    return tuple(old(_drafts(store, files), now / 1_000_000 - _HOUR))


def remove_drafts(directory: Path, seconds: float) -> None:
    """Remove what backups that were killed left in a directory, whatever they were called."""
    for stray in old(_backup_drafts(directory), seconds - _HOUR):
        is_removed(stray.path)


@contextmanager
def draft_held(draft: Path) -> Iterator[None]:
    """Hold a directory while it is written to. A process that is killed lets go of it, which shows that it is left."""
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


def _is_left(draft: Path, at: float, before: float) -> bool:
    """Whether nobody writes to a directory. What is written in it does not make it younger, and a backup takes its time."""
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
    """What is half written by its name: payloads, archives and backups."""
    found = [*files.root.glob("[0-9a-f][0-9a-f]/.*")]
    for place in filter(None, {beside(store, files), store.place()}):
        name = glob.escape(place.name)
        found += [*place.parent.glob(f".{name}.*"), *place.parent.glob(f"{name}.*.part")]
        found += _backup_drafts(place.parent)
    return (path for path in sorted(set(found)) if _DRAFT.fullmatch(path.name))


def old(paths: Iterable[Path], before: float) -> Iterator[Stray]:
    for path in paths:
        with suppress(FileNotFoundError):  # whoever made it was quicker
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                if _is_left(path, found.st_mtime, before):
                    yield Stray(path, sum(each.lstat().st_size for each in path.rglob("*")))
            elif found.st_mtime < before:
                yield Stray(path, found.st_size)


def is_removed(path: Path) -> bool:
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError:
        return False
    return True
