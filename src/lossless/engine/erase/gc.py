"""Collect garbage: find unused data, then remove it. Never a message, never a summary.

Garbage is: payloads without a row, drafts of interrupted writers, expired grants and leases, manifests of archived
conversations, copies older than a limit, and unused space in the database. A payload is written before its row, so
payloads of the last hour stay. Each is checked again under a lock before it is removed. In a directory that other
databases may use, payloads are removed only if the caller says that it is not shared.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from lossless import config
from lossless.engine.shared.abandoned_drafts import Stray, find_drafts, older_than, try_remove
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.files_dir import is_exclusive
from lossless.engine.shared.runtime import Runtime
from lossless.errors import StoreFull
from lossless.model import Garbage
from lossless.store.rows.types import KeptCopy, OverRows
from lossless.store.store import Store

_HOUR, _DAY = 3_600, 86_400
_PAYLOAD = re.compile(r"[0-9a-f]{64}")
_AT_ONCE = 200


class Unused(Struct, frozen=True):
    """Everything that can be removed."""

    payloads: tuple[Stray, ...]
    drafts: tuple[Stray, ...]
    copies: tuple[KeptCopy, ...]
    over: OverRows
    spare: int
    doubtful: int = 0
    """Payloads that another database may use."""


def find_unused(runtime: Runtime, *, keep_copies: int | None = None, unshared: bool = False) -> Unused:
    """Find what is unused; kept copies only if they are older than `keep_copies` days."""
    store, files, now = runtime.store, runtime.files, runtime.now()
    payloads = tuple(_unused(store, older_than(_payloads(files.root), now / 1_000_000 - _HOUR)))
    ours = unshared or is_exclusive(store, files)
    return Unused(
        payloads=payloads if ours else (),
        drafts=find_drafts(store, files, now),
        copies=tuple(_expired_copies(store, now, keep_copies)),
        over=store.housekeeping.expired(now),
        spare=store.housekeeping.spare(),
        doubtful=0 if ours else len(payloads),
    )


def _payloads(root: Path) -> Iterator[Path]:
    for directory in sorted(root.glob("[0-9a-f][0-9a-f]")):
        if not directory.is_symlink():
            yield from (path for path in sorted(directory.iterdir()) if _PAYLOAD.fullmatch(path.name))


def _unused(store: Store, strays: Iterable[Stray]) -> Iterator[Stray]:
    for batch in _batches(strays):
        used = store.housekeeping.used_files([stray.path.name for stray in batch])
        yield from (stray for stray in batch if stray.path.name not in used)


def _batches(strays: Iterable[Stray]) -> Iterator[list[Stray]]:
    rest = iter(strays)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch


def _expired_copies(store: Store, now: int, days: int | None) -> Iterator[KeptCopy]:
    if days is not None:
        before = now - days * _DAY * 1_000_000
        yield from (copy for copy in store.housekeeping.copies_kept() if copy.at is not None and copy.at < before)


def report(unused: Unused) -> Garbage:
    """Return the report of a dry run."""
    return Garbage(
        files=len(unused.payloads),
        drafts=len(unused.drafts),
        copies=tuple(copy.name for copy in unused.copies),
        grants=unused.over.grants,
        manifests=unused.over.manifests,
        leases=unused.over.leases,
        bytes=_total_bytes(unused.payloads, unused.drafts, unused.copies) + unused.spare,
        doubtful=unused.doubtful,
    )


def _total_bytes(*kinds: Sequence[Stray | KeptCopy]) -> int:
    return sum(each.bytes for kind in kinds for each in kind)


def collect(runtime: Runtime, unused: Unused, *, vacuum: bool = False) -> Garbage:
    """Remove what was found, unless it is used again by now."""
    store = runtime.store
    before = store.size()
    payloads = sweep(store, runtime.files, [stray.path.name for stray in unused.payloads])
    drafts = [stray for stray in unused.drafts if try_remove(stray.path)]
    for copy in unused.copies:
        store.housekeeping.drop_copy(copy.name)
    over = store.housekeeping.clear_expired(runtime.now())
    complete = not store.scrub() if vacuum else store.give_back()
    return Garbage(
        files=len(payloads),
        drafts=len(drafts),
        copies=tuple(copy.name for copy in unused.copies),
        grants=over.grants,
        manifests=over.manifests,
        leases=over.leases,
        bytes=_total_bytes(payloads, drafts, unused.copies) + max(0, before - store.size()),
        doubtful=unused.doubtful,
        applied=True,
        complete=complete,
    )


def sweep(store: Store, files: Files, names: Iterable[str]) -> list[Stray]:
    """Remove those of these payloads that no row refers to; return them."""
    paths = [files.root / name[:2] / name for name in names]
    removed: list[Stray] = []
    for batch in _batches(older_than(paths, float("inf"))):
        with store.transaction():
            store.hold_files(alone=True)
            removed += _remove(files, list(_unused(store, batch)))
    return removed


def _remove(files: Files, strays: Sequence[Stray]) -> Sequence[Stray]:
    for stray in strays:
        files.remove(stray.path.name)
    return strays


def check_free_space(store: Store) -> None:
    """Raise `StoreFull` unless a second copy of the database file fits on the disk."""
    if not config.is_file(store.location):
        return
    needed, free = store.size(), shutil.disk_usage(Path(store.location).absolute().parent).free
    if free < needed:
        raise StoreFull(
            f"Rewriting {store.location} takes {needed:,} bytes, and {free:,} are free.",
            hint="Free some disk space, or omit --vacuum. Nothing was changed.",
        )
