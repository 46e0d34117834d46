"""Count the messages that reading a transcript would store, without writing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from lossless.engine.ingest.heartbeats import mark_idle
from lossless.engine.ingest.intake import Intake
from lossless.engine.sync import placement
from lossless.engine.sync.placement import BATCH, Transcript
from lossless.engine.sync.read import fork_limit
from lossless.engine.sync.read_marks import PATIENCE, ReadMark, continues_file, find_mark
from lossless.engine.sync.store_entries import sidechain_key, widen
from lossless.model import Bootstrapped
from lossless.store.store import Store
from lossless.transcripts.base import Branch, Tally, TranscriptEntry


class _Count(Struct):
    """The messages counted so far."""

    heartbeats: int = 0
    new: int = 0
    known: int = 0
    outside: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


def preview(store: Store, intake: Intake, file: Transcript, stat: os.stat_result, budget: int) -> Bootstrapped:
    """Return the report that `bootstrap` would give for a file that has changed, or was never read.

    Messages that the host delivered under ids of its own count as new: only a real read can match them.
    """
    found = find_mark(store, intake.key, file.path)
    mark = found[1] if found and continues_file(found[1], file.path, stat.st_size) else ReadMark()
    branch = None if mark.offset else file.branch()
    is_fork = (
        not mark.offset and file.header.parent_session is not None and store.conversations.active(intake.key) is None
    )
    bounded = fork_limit(file, branch, budget) if is_fork else mark.bounded
    tally, count = Tally(), _Count()
    given = file.reader.entries(file.path, file.header, tally, offset=mark.offset, number=mark.number)
    is_fresh = intake.now() - stat.st_mtime_ns // 1000 < PATIENCE
    for batch in _batches(mark_idle(given), is_fresh):
        _count_batch(store, intake, batch, count, branch, bounded)
    return Bootstrapped(
        reason="would be read",
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


def _batches(entries: Iterator[TranscriptEntry], is_fresh: bool) -> Iterator[list[TranscriptEntry]]:
    """Yield the messages in batches, up to an entry that may still be incomplete."""
    batch: list[TranscriptEntry] = []
    for entry in entries:
        if entry.is_open and is_fresh:
            break
        if entry.message is not None:
            batch.append(entry)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _count_batch(
    store: Store, intake: Intake, batch: Sequence[TranscriptEntry], count: _Count, branch: Branch | None, bounded: int
) -> None:
    entries = [each for each in batch if not (intake.skip and each.message and intake.skip(each.message))]
    known_ids = {thread: _stored_ids(store, intake, entries, thread) for thread in {each.thread for each in entries}}
    seen: set[str] = set()
    for entry in entries:
        is_new = entry.id not in known_ids[entry.thread] and entry.id not in seen
        seen.add(entry.id)
        count.new += is_new
        count.known += not is_new
        if is_new and entry.thread is None:
            off_branch = branch is not None and entry.id not in branch
            count.outside += entry.is_idle or entry.number <= bounded or off_branch
        if is_new and entry.message is not None:
            count.first_at, count.last_at = widen((count.first_at, count.last_at), entry.message.at)
        count.heartbeats += entry.is_idle and entry.thread is None


def _stored_ids(store: Store, intake: Intake, entries: Sequence[TranscriptEntry], thread: str | None) -> set[str]:
    """Return the ids of the entries that are stored."""
    key = intake.key if thread is None else sidechain_key(intake.key, intake.entry_id(thread))
    mine = [each for each in entries if each.thread == thread]
    return {
        name
        for row in store.conversations.under_key(key)
        if row.next_seq > 1
        for name in placement.known_entries(store, intake, row.id, mine)
    }
