"""What nobody needs any more, found first and removed second: never a message, never a summary.

Payloads that no row refers to, drafts of writers that died, grants and leases that are over, what archived conversations once
showed, copies older than somebody wants them, room in the database that is not used. A payload is written before its row, so
one of the last hour is left alone; each is asked about again while nobody else may write, before it goes; and in a directory
that other databases may use as well, none goes unless somebody says that they do not.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from lossless import config
from lossless.config import Settings
from lossless.engine.files import Files
from lossless.errors import StoreFull
from lossless.model import Garbage
from lossless.store.base import KeptCopy, OverRows, Store

if sys.platform != "win32":
    import fcntl

_HOUR, _DAY = 3_600, 86_400
_PAYLOAD = re.compile(r"[0-9a-f]{64}")
_DRAFT = re.compile(r"\..+\.\d+\.[0-9a-f]{8}|.+\.\d+-[0-9a-f]{8}\.part")
"""How we call what we write beside its place, until it is whole."""
_BACKUP_DRAFT = re.compile(r".+\.\d+-[0-9a-f]{8}\.part")
_IN_BACKUP = {"backup", "database", "files"}
_AT_ONCE = 200
SHARED = ".shared"
"""A file of this name says of a directory that several databases keep payloads there."""


class Stray(Struct, frozen=True):
    """A file that is not needed, and its bytes."""

    path: Path
    bytes: int


class Found(Struct, frozen=True):
    """What there is to remove."""

    payloads: tuple[Stray, ...]
    drafts: tuple[Stray, ...]
    copies: tuple[KeptCopy, ...]
    over: OverRows
    spare: int
    doubtful: int = 0
    """Payloads that may be another database's."""


def look(store: Store, files: Files, now: int, *, keep_copies: int | None = None, unshared: bool = False) -> Found:
    """What nobody needs; of the copies that were kept, those older than so many days, if somebody says how many."""
    seconds = now / 1_000_000
    payloads = tuple(_unused(store, _old(_payloads(files.root), seconds - _HOUR)))
    ours = unshared or is_its_own(store, files)
    return Found(
        payloads if ours else (),
        drafts_left(store, files, now),
        tuple(_outlived(store, now, keep_copies)),
        store.over(now),
        store.spare(),
        0 if ours else len(payloads),
    )


def is_its_own(store: Store, files: Files) -> bool:
    """Whether no other database puts anything into the directory: it is named after this one, and after no other."""
    root = files.root.absolute()
    if not files.scratch and root != _named_after(store):
        return False
    return not (root.is_symlink() or (root / SHARED).exists() or store.namesakes())


def files_dir(store: Store, settings: Settings) -> Path:
    """Where a database keeps its payloads: as set, else in a directory named after it."""
    usual, own = settings.files_dir.absolute(), _named_after(store)
    if settings.large_files_dir or own is None or config.is_file(store.location):
        return usual
    if own.exists() or not usual.exists() or not store.count("file"):
        return own
    # All servers' databases had one directory once, and what was put there must stay readable.
    if not store.read_only:
        with suppress(OSError):
            (usual / SHARED).touch(0o600)
    return usual


def _named_after(store: Store) -> Path | None:
    if config.is_file(store.location):
        path = Path(store.location)
        return path.with_name(f"{path.stem}-files")
    place = store.place()
    return None if place is None else place.with_name(f"{place.name}-files")


def beside(store: Store, files: Files) -> Path | None:
    """How the names begin of what is put beside a database; None for one in memory."""
    place = store.place()
    return place if place is None or config.is_file(store.location) else files.root.parent / place.name


def drafts_left(store: Store, files: Files, now: int) -> tuple[Stray, ...]:
    """Return what writers of payloads, archives and backups left when they were killed."""
    return tuple(_old(_drafts(store, files), now / 1_000_000 - _HOUR))


def remove_drafts(directory: Path, seconds: float) -> None:
    """Remove what backups that were killed left in a directory, whatever they were called."""
    for stray in _old(_backup_drafts(directory), seconds - _HOUR):
        _is_removed(stray.path)


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


def _payloads(root: Path) -> Iterator[Path]:
    for directory in sorted(root.glob("[0-9a-f][0-9a-f]")):
        if not directory.is_symlink():
            yield from (path for path in sorted(directory.iterdir()) if _PAYLOAD.fullmatch(path.name))


def _old(paths: Iterable[Path], before: float) -> Iterator[Stray]:
    for path in paths:
        with suppress(FileNotFoundError):  # whoever made it was quicker
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                if _is_left(path, found.st_mtime, before):
                    yield Stray(path, sum(each.lstat().st_size for each in path.rglob("*")))
            elif found.st_mtime < before:
                yield Stray(path, found.st_size)


def _unused(store: Store, strays: Iterable[Stray]) -> Iterator[Stray]:
    for some in _some(strays):
        used = store.used_files([stray.path.name for stray in some])
        yield from (stray for stray in some if stray.path.name not in used)


def _some(strays: Iterable[Stray]) -> Iterator[list[Stray]]:
    rest = iter(strays)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _outlived(store: Store, now: int, days: int | None) -> Iterator[KeptCopy]:
    if days is not None:
        before = now - days * _DAY * 1_000_000
        yield from (copy for copy in store.copies_kept() if copy.at is not None and copy.at < before)


def told(found: Found) -> Garbage:
    """What would be removed."""
    return Garbage(
        len(found.payloads),
        len(found.drafts),
        tuple(copy.name for copy in found.copies),
        found.over.grants,
        found.over.manifests,
        found.over.leases,
        _weight(found.payloads, found.drafts, found.copies) + found.spare,
        doubtful=found.doubtful,
    )


def _weight(*kinds: Sequence[Stray | KeptCopy]) -> int:
    return sum(each.bytes for kind in kinds for each in kind)


def collect(store: Store, files: Files, found: Found, now: int, *, vacuum: bool = False) -> Garbage:
    """Remove what was found, as far as nobody has come to need it since."""
    before = store.size()
    payloads = sweep(store, files, [stray.path.name for stray in found.payloads])
    drafts = [stray for stray in found.drafts if _is_removed(stray.path)]
    for copy in found.copies:
        store.drop_copy(copy.name)
    over = store.clear_over(now)
    emptied = not store.scrub() if vacuum else store.give_back()
    return Garbage(
        len(payloads),
        len(drafts),
        tuple(copy.name for copy in found.copies),
        over.grants,
        over.manifests,
        over.leases,
        _weight(payloads, drafts, found.copies) + max(0, before - store.size()),
        doubtful=found.doubtful,
        applied=True,
        complete=emptied,
    )


def _is_removed(path: Path) -> bool:
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError:
        return False
    return True


def sweep(store: Store, files: Files, names: Iterable[str]) -> list[Stray]:
    """Remove those of these payloads that no row refers to; which these were."""
    paths = [files.root / name[:2] / name for name in names]
    gone: list[Stray] = []
    for some in _some(_old(paths, float("inf"))):
        with store.transaction():
            store.hold_files(alone=True)
            gone += _removed(files, list(_unused(store, some)))
    return gone


def _removed(files: Files, strays: Sequence[Stray]) -> Sequence[Stray]:
    for stray in strays:
        files.remove(stray.path.name)
    return strays


def refuse_without_room(store: Store) -> None:
    """A file is written anew beside itself, so it needs as much room again."""
    if not config.is_file(store.location):
        return
    needed, free = store.size(), shutil.disk_usage(Path(store.location).absolute().parent).free
    if free < needed:
        raise StoreFull(
            f"To write {store.location} anew takes {needed:,} bytes, and {free:,} are free.",
            hint="Free some disk space, or go without --vacuum. Nothing was changed.",
        )
