"""Prune inactive conversations: report them, or export them to one archive and remove them in batches.

Each batch is a short transaction in which its conversations are checked again: those that changed stay. After an
interruption, everything removed is in the archive, and the next call finds the rest. Related conversations are removed
together, so that the archive contains their relations.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from lossless.engine.erase import gc
from lossless.engine.shared.abandoned_drafts import Stray
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.files_dir import is_exclusive, sibling_base
from lossless.engine.shared.runtime import Runtime
from lossless.errors import FileUnavailable, InvalidTimeFilter
from lossless.model import OldConversation, Pruning
from lossless.store.rows.codec import moment
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store
from lossless.times import read_time

Progress: TypeAlias = Callable[[int, int], None]
_Old: TypeAlias = list[tuple[ConversationRow, int]]

_SHOWN = 20
_KINDS = ("cleaned", "pruned")
"""The names of archives beside a database, by operation."""


class PruneRequest(Struct, frozen=True):
    """The conversations to prune: those without a message since `before`."""

    before: int
    active: bool = False
    batch: int = 100
    without_files: bool = False


def cutoff(before: datetime | str, now: datetime, zone: tzinfo) -> datetime:
    """Return the time before which conversations are pruned; it must be in the past."""
    found = read_time("before", before, zone, now)
    if found is None or found >= now:
        raise InvalidTimeFilter(f"before={before!r} is not in the past.", hint="Write 90d, 6mo, 1y or a past date.")
    return found


def plan(store: Store, request: PruneRequest) -> Pruning:
    """Return the conversations that would be removed; write nothing."""
    return _report(*_silent(store, request), request)


def _silent(store: Store, request: PruneRequest) -> tuple[_Old, int]:
    """Return the inactive families, and the number of other inactive conversations."""
    found = store.housekeeping.idle_since(request.before, active=request.active)
    silent = {row.id for row, _ in found}
    whole = [
        family for family in families(store.conversations.of_owner()) if silent.issuperset(row.id for row in family)
    ]
    going = {row.id for family in whole for row in family}
    return [each for each in found if each[0].id in going], len(silent - going)


def _report(found: _Old, related: int, request: PruneRequest) -> Pruning:
    shown = (
        OldConversation(id=row.id, key=row.key, active=row.active, messages=row.messages, newest_at=moment(newest))
        for row, newest in found[:_SHOWN]
    )
    messages = sum(row.messages for row, _ in found)
    return Pruning(
        before=moment(request.before), conversations=len(found), messages=messages, oldest=tuple(shown), related=related
    )


def apply(runtime: Runtime, request: PruneRequest, archive: Path, progress: Progress) -> Pruning:
    """Export the conversations, then remove them batch by batch with their own payloads."""
    found, related = _silent(runtime.store, request)
    report = _report(found, related, request)
    if not found:
        return report
    options = RemovalOptions(batch=request.batch, without_files=request.without_files, together=True, progress=progress)
    done = export_and_remove(runtime, [row for row, _ in found], archive, options)
    return replace(
        report,
        conversations=len(done.rows),
        messages=sum(row.messages for row in done.rows),
        applied=True,
        archive=str(archive),
        changed=len(found) - len(done.rows),
        files=len(done.strays),
        bytes=sum(stray.bytes for stray in done.strays),
        doubtful=done.doubtful,
    )


# removing conversations, for any reason


class RemovalOptions(Struct, frozen=True):
    """Options for removing conversations."""

    batch: int = 100
    without_files: bool = False
    """Remove conversations although payloads cannot be read and are not in the archive."""
    together: bool = False
    """Remove related conversations together, or not at all."""
    progress: Progress = lambda done, total: None


class Removal(Struct):
    """The conversations and payloads that were removed."""

    rows: list[ConversationRow] = field(default_factory=list)
    strays: list[Stray] = field(default_factory=list)
    doubtful: int = 0
    """Payloads that stay because another database may use them."""


def export_and_remove(
    runtime: Runtime, rows: Sequence[ConversationRow], archive: Path, options: RemovalOptions
) -> Removal:
    """Export these conversations, then remove those that have not changed since."""
    store, files = runtime.store, runtime.files
    tallies = store.housekeeping.tallies([row.id for row in rows])
    _export(runtime, rows, archive, without_files=options.without_files)
    done, contents, ours = Removal(), set[str](), is_exclusive(store, files)
    seen = 0
    for some in _batches(families(rows), options.batch):
        gone, names = _batch(store, some, tallies, options)
        done.rows += gone
        if ours:
            done.strays += gc.sweep(store, files, names)
        contents |= names
        seen += sum(map(len, some))
        options.progress(seen, len(rows))
    if not ours:
        done.doubtful = len(contents - store.housekeeping.used_files(sorted(contents)))
    return done


def _export(runtime: Runtime, rows: Sequence[ConversationRow], archive: Path, *, without_files: bool) -> None:
    # Imported here because most processes never write an archive.
    from lossless.engine.backup.export_archive import export
    from lossless.engine.shared.file_store import NO_BYTES

    done = export(
        runtime.store,
        runtime.files,
        archive,
        ids=[row.id for row in rows],
        replace=False,
        now=runtime.now_utc(),
    )
    lost = [name for name in done.missing_files if name != NO_BYTES]
    if lost and not without_files:
        os.unlink(archive)
        raise FileUnavailable(
            f"{len(lost):,} payloads of what is to be removed cannot be read from {runtime.files.root}.",
            hint="Nothing was changed. See that the directory is there, or say without_files=True (--without-files).",
        )


def families(rows: Iterable[ConversationRow]) -> list[list[ConversationRow]]:
    """Group conversations by family: a sub-agent's and the one above it."""
    known = {row.id: row for row in rows}
    near: dict[int, set[int]] = {each: set() for each in known}
    for row in known.values():
        if row.parent in near:
            near[row.id].add(row.parent)
            near[row.parent].add(row.id)
    found = []
    while near:
        family, fresh = set[int](), {next(iter(near))}
        while fresh:
            family |= fresh
            fresh = {other for each in fresh for other in near.pop(each)} - family
        found.append([known[each] for each in sorted(family)])
    return found


def _batches(groups: Iterable[list[ConversationRow]], size: int) -> Iterator[list[list[ConversationRow]]]:
    """Group families into batches of at most `size` conversations, or one larger family."""
    some = list[list[ConversationRow]]()
    for group in groups:
        if some and sum(map(len, some)) + len(group) > size:
            yield some
            some = []
        some.append(group)
    yield some


def _batch(
    store: Store,
    groups: Sequence[Sequence[ConversationRow]],
    tallies: dict[int, tuple[int, ...]],
    options: RemovalOptions,
) -> tuple[list[ConversationRow], set[str]]:
    """Remove a batch; return the removed conversations and their payloads."""
    gone, contents = list[ConversationRow](), set[str]()
    ids = [row.id for group in groups for row in group]
    with store.transaction():
        held = {row.id: row for row in store.housekeeping.hold_all(ids)}
        counted, referring = (
            store.housekeeping.tallies(ids),
            store.housekeeping.referring(ids) if options.together else [],
        )
        for group in groups:
            same = [row for row in group if _is_same(held.get(row.id), row) and counted[row.id] == tallies[row.id]]
            if not options.together or (len(same) == len(group) and _is_whole(group, referring)):
                for row in same:
                    contents.update(file.sha256 for file in store.files.of_conversation(row.id))
                    store.integrity.remove_conversation(row.id)
                gone += same
    return gone, contents


def _is_same(now: ConversationRow | None, row: ConversationRow) -> bool:
    """Return whether it has not changed, apart from the removal of the conversation it continues."""
    return now is not None and replace(now, continues=row.continues) == row


def _is_whole(family: Sequence[ConversationRow], referring: Sequence[tuple[int, int]]) -> bool:
    """Return whether no conversation joined the family meanwhile."""
    ids = {row.id for row in family}
    return ids.issuperset(each for each, other in referring if other in ids)


# archives beside a database


def archive_path(runtime: Runtime, kind: str) -> Path:
    """Return the default path of the archive for removed conversations."""
    place = sibling_base(runtime.store, runtime.files) or runtime.files.root.parent / "memory"
    return place.with_name(f"{place.name}.{kind}-{runtime.now_utc():%Y%m%d-%H%M%S}.zip")


def archives(store: Store, files: Files) -> list[str]:
    """Return the archives of removed conversations beside the database."""
    if (place := sibling_base(store, files)) is None:
        return []
    return sorted(path for kind in _KINDS for path in glob.glob(f"{glob.escape(str(place))}.{kind}-*.zip"))


def drop_archives(store: Store, files: Files) -> None:
    """Remove the archives of removed conversations beside the database."""
    for path in archives(store, files):
        with suppress(FileNotFoundError):
            os.unlink(path)
