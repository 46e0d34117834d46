"""What nobody needs any more, found first and removed second: never a message, never a summary.

Payloads that no row refers to, drafts of writers that died, grants and leases that are over, what archived conversations once
showed, copies older than somebody wants them, room in the database that is not used. A payload is written before its row, so
one of the last hour is left alone; each is asked about again while nobody else may write, before it goes; and in a directory
that other databases may use as well, none goes unless somebody says that they do not.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from lossless import config
from lossless.engine.shared.drafts import Stray, find_drafts, older_than, try_remove
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.files_dir import is_exclusive
from lossless.engine.shared.runtime import Runtime
from lossless.errors import StoreFull
from lossless.model import Garbage
from lossless.store.base import KeptCopy, OverRows
from lossless.store.store import Store

_HOUR, _DAY = 3_600, 86_400
_PAYLOAD = re.compile(r"[0-9a-f]{64}")
_AT_ONCE = 200


class Found(Struct, frozen=True):
    """What there is to remove."""

    payloads: tuple[Stray, ...]
    drafts: tuple[Stray, ...]
    copies: tuple[KeptCopy, ...]
    over: OverRows
    spare: int
    doubtful: int = 0
    """Payloads that may be another database's."""


def look(runtime: Runtime, *, keep_copies: int | None = None, unshared: bool = False) -> Found:
    """What nobody needs; of the copies that were kept, those older than so many days, if somebody says how many."""
    store, files, now = runtime.store, runtime.files, runtime.now()
    payloads = tuple(_unused(store, older_than(_payloads(files.root), now / 1_000_000 - _HOUR)))
    ours = unshared or is_exclusive(store, files)
    return Found(
        payloads=payloads if ours else (),
        drafts=find_drafts(store, files, now),
        copies=tuple(_outlived(store, now, keep_copies)),
        over=store.housekeeping.expired(now),
        spare=store.housekeeping.spare(),
        doubtful=0 if ours else len(payloads),
    )


def _payloads(root: Path) -> Iterator[Path]:
    for directory in sorted(root.glob("[0-9a-f][0-9a-f]")):
        if not directory.is_symlink():
            yield from (path for path in sorted(directory.iterdir()) if _PAYLOAD.fullmatch(path.name))


def _unused(store: Store, strays: Iterable[Stray]) -> Iterator[Stray]:
    for some in _some(strays):
        used = store.housekeeping.used_files([stray.path.name for stray in some])
        yield from (stray for stray in some if stray.path.name not in used)


def _some(strays: Iterable[Stray]) -> Iterator[list[Stray]]:
    rest = iter(strays)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _outlived(store: Store, now: int, days: int | None) -> Iterator[KeptCopy]:
    if days is not None:
        before = now - days * _DAY * 1_000_000
        yield from (copy for copy in store.housekeeping.copies_kept() if copy.at is not None and copy.at < before)


def told(found: Found) -> Garbage:
    """What would be removed."""
    return Garbage(
        files=len(found.payloads),
        drafts=len(found.drafts),
        copies=tuple(copy.name for copy in found.copies),
        grants=found.over.grants,
        manifests=found.over.manifests,
        leases=found.over.leases,
        bytes=_weight(found.payloads, found.drafts, found.copies) + found.spare,
        doubtful=found.doubtful,
    )


def _weight(*kinds: Sequence[Stray | KeptCopy]) -> int:
    return sum(each.bytes for kind in kinds for each in kind)


def collect(runtime: Runtime, found: Found, *, vacuum: bool = False) -> Garbage:
    """Remove what was found, as far as nobody has come to need it since."""
    store = runtime.store
    before = store.size()
    payloads = sweep(store, runtime.files, [stray.path.name for stray in found.payloads])
    drafts = [stray for stray in found.drafts if try_remove(stray.path)]
    for copy in found.copies:
        store.housekeeping.drop_copy(copy.name)
    over = store.housekeeping.clear_expired(runtime.now())
    emptied = not store.scrub() if vacuum else store.give_back()
    return Garbage(
        files=len(payloads),
        drafts=len(drafts),
        copies=tuple(copy.name for copy in found.copies),
        grants=over.grants,
        manifests=over.manifests,
        leases=over.leases,
        bytes=_weight(payloads, drafts, found.copies) + max(0, before - store.size()),
        doubtful=found.doubtful,
        applied=True,
        complete=emptied,
    )


def sweep(store: Store, files: Files, names: Iterable[str]) -> list[Stray]:
    """Remove those of these payloads that no row refers to; which these were."""
    paths = [files.root / name[:2] / name for name in names]
    gone: list[Stray] = []
    for some in _some(older_than(paths, float("inf"))):
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
