"""What reading a transcript would bring, told without writing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from lossless.engine.ingest.heartbeats import with_beats
from lossless.engine.ingest.ingest import Intake
from lossless.engine.sync import placement
from lossless.engine.sync.placement import LOOK, Transcript
from lossless.engine.sync.read import bound, sidechain, widen
from lossless.engine.sync.read_marks import PATIENCE, Mark, goes_on, marked
from lossless.model import Bootstrapped
from lossless.store.store import Store
from lossless.transcripts.base import Branch, Entry, Tally


class _Count(Struct):
    heartbeats: int = 0
    new: int = 0
    known: int = 0
    outside: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


def foresee(store: Store, intake: Intake, file: Transcript, stat: os.stat_result, budget: int) -> Bootstrapped:
    """What `bootstrap` would do with a file that has changed, or was never read.

    What the host told itself under names of its own counts as new: only a reading can tell.
    """
    found = marked(store, intake.key, file.path)
    mark = found[1] if found and goes_on(found[1], file.path, stat.st_size) else Mark()
    branch = None if mark.offset else file.branch()
    is_fork = (
        not mark.offset and file.header.parent_session is not None and store.conversations.active(intake.key) is None
    )
    bounded = bound(file, branch, budget) if is_fork else mark.bounded
    tally, count = Tally(), _Count()
    given = file.reader.entries(file.path, file.header, tally, offset=mark.offset, number=mark.number)
    is_fresh = intake.now() - stat.st_mtime_ns // 1000 < PATIENCE
    for batch in _batches(with_beats(given), is_fresh):
        _add(store, intake, batch, count, branch, bounded)
    return Bootstrapped(
        "would be read",
        imported=count.new,
        known=count.known,
        outside=count.outside,
        heartbeats=count.heartbeats,
        malformed=tally.malformed,
        too_long=tally.too_long,
        boundaries=tally.boundaries,
        unknown=dict(tally.unknown),
        offset=mark.offset,
        size=stat.st_size,
        first_at=count.first_at,
        last_at=count.last_at,
    )


def _batches(entries: Iterator[Entry], is_fresh: bool) -> Iterator[list[Entry]]:
    """The messages, some at a time, up to what may still be on its way."""
    batch: list[Entry] = []
    for entry in entries:
        if entry.is_open and is_fresh:
            break
        if entry.message is not None:
            batch.append(entry)
        if len(batch) == LOOK:
            yield batch
            batch = []
    if batch:
        yield batch


def _add(
    store: Store, intake: Intake, batch: Sequence[Entry], count: _Count, branch: Branch | None, bounded: int
) -> None:
    said = [each for each in batch if not (intake.skip and each.message and intake.skip(each.message))]
    known = {thread: _known(store, intake, said, thread) for thread in {each.thread for each in said}}
    seen: set[str] = set()
    for entry in said:
        is_new = entry.id not in known[entry.thread] and entry.id not in seen
        seen.add(entry.id)
        count.new += is_new
        count.known += not is_new
        if is_new and entry.thread is None:
            off_branch = branch is not None and entry.id not in branch
            count.outside += entry.is_idle or entry.number <= bounded or off_branch
        if is_new and entry.message is not None:
            count.first_at, count.last_at = widen((count.first_at, count.last_at), entry.message.at)
        count.heartbeats += entry.is_idle and entry.thread is None


def _known(store: Store, intake: Intake, said: Sequence[Entry], thread: str | None) -> set[str]:
    """The ids of those that are stored."""
    key = intake.key if thread is None else sidechain(intake.key, intake.entry_id(thread))
    mine = [each for each in said if each.thread == thread]
    return {
        name
        for row in store.conversations.under_key(key)
        if row.next_seq > 1
        for name in placement.known(store, intake, row.id, mine)
    }
