"""Store the entries of a transcript in its conversation, batch by batch, and follow its active branch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct, structs, to_builtins

from lossless.engine.ingest.heartbeats import IDLE, mark_idle
from lossless.engine.ingest.ingest import ingest
from lossless.engine.ingest.intake import Intake
from lossless.engine.ingest.match_host_and_transcript import PROGRESS, Progress
from lossless.engine.sessions import begun_after
from lossless.engine.shared.file_store import Files
from lossless.engine.sync import placement
from lossless.engine.sync.placement import Anchor, Transcript
from lossless.engine.sync.read_marks import PATIENCE, ReadMark, cursor_name, edge_digests
from lossless.model import Ingested, Message, ToolCall, ToolResult
from lossless.store.rows import codec
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store
from lossless.transcripts.base import Branch, Tally, TranscriptEntry

_MOST_TIPS = 64
_BATCH = 500
_BATCH_BYTES = 4_000_000

Progressed = Callable[[int, int], None]
"""Called with the bytes read so far and the size of the file."""


class ReadJob(Struct):
    """One read of one file: its conversation, its mark and the counts so far."""

    store: Store
    files: Files
    intake: Intake
    file: Transcript
    stat: os.stat_result
    budget: int
    progressed: Progressed
    tally: Tally
    mark: ReadMark
    expected: bool = False
    target: ConversationRow | None = None
    branch: Branch | None = None
    anchor: Anchor | None = None
    tips: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    branched: bool = False
    heartbeats: int = 0
    imported: int = 0
    known: int = 0
    outside: int = 0
    copies: int = 0
    collisions: int = 0
    times: tuple[datetime | None, datetime | None] = (None, None)

    def add(self, done: Ingested, outside: int, heartbeats: int) -> None:
        """Add the counts of one batch."""
        self.heartbeats += heartbeats
        self.imported += len(done.stored)
        self.known += done.known
        self.outside += outside + done.late
        self.copies += done.copies
        self.collisions += done.collisions

    @property
    def source(self) -> str:
        """Return the name of the file's cursor."""
        return cursor_name(self.file.path)


def read_entries(job: ReadJob, until: int | None = None) -> None:
    """Store the entries after the mark, or up to an offset, in batches, each with its mark."""
    mark, batch, waits = job.mark, list[TranscriptEntry](), False
    given = job.file.reader.entries(job.file.path, job.file.header, job.tally, offset=mark.offset, number=mark.number)
    is_fresh = job.intake.now() - job.stat.st_mtime_ns // 1000 < PATIENCE
    for entry in mark_idle(_with_generations(job, given)):
        if until is not None and entry.end > until:
            break
        if entry.is_open and is_fresh:
            waits = True
            break
        batch.append(entry)
        if len(batch) >= _BATCH or entry.end - job.mark.offset > _BATCH_BYTES:
            _store_batch(job, batch)
            batch = []
    _store_batch(job, batch, ended=until is None, waits=waits)
    if job.mark.branched and until is None:
        job.branch = job.file.branch()
        follow_branch(job)


def _with_generations(job: ReadJob, entries: Iterator[TranscriptEntry]) -> Iterator[TranscriptEntry]:
    """Rename the entries of a file without entry ids that was rewritten."""
    return (_with_generation(entry, job.mark.generation) if job.mark.generation else entry for entry in entries)


def _with_generation(entry: TranscriptEntry, generation: int) -> TranscriptEntry:
    """Return an entry named after its position, with the generation of its file."""
    name = f"{entry.id}~{generation}"
    return structs.replace(entry, id=name, message=entry.message and structs.replace(entry.message, event_id=name))


def _store_batch(job: ReadJob, batch: Sequence[TranscriptEntry], *, ended: bool = False, waits: bool = False) -> None:
    """Store a batch and its mark in one transaction, after the messages of sub-agents in it."""
    messages = [entry for entry in batch if entry.message is not None and entry.thread is None]
    for entry in batch:
        _track_branch(job, entry)
        if entry.message is not None:
            job.times = widen(job.times, entry.message.at)
    if not (batch[-1].number if batch else job.mark.number):
        # The file has no message yet: no conversation is created for it.
        size = job.stat.st_size if ended else -1
        job.mark = structs.replace(job.mark, size=size, time=job.stat.st_mtime_ns, waits=waits)
        return
    _store_threads(job, batch)
    after = _next_mark(job, batch, ended, waits)
    reasons = _outside_reasons(job, messages)
    intake = structs.replace(
        job.intake,
        conversation_id=None if job.target is None else job.target.id,
        outside=lambda messages: {
            at: reasons[name] for at, message in enumerate(messages) if (name := message.event_id or "") in reasons
        },
        timeless=frozenset(job.intake.entry_id(entry.id) for entry in messages if not entry.own_time),
    )
    marked: list[int] = []

    def in_transaction(row: ConversationRow) -> None:
        _write_mark(job, row, after)
        marked.append(row.id)

    done = ingest(
        job.store,
        job.files,
        intake,
        [entry.message for entry in messages if entry.message],
        in_transaction=in_transaction,
    )
    if not marked:  # there was nothing to store
        with job.store.transaction():
            in_transaction(lock_target(job))
    job.anchor, job.mark = None, after
    job.target = job.target or job.store.conversations.get(marked[-1])
    job.add(done, len(reasons), sum(entry.is_idle for entry in messages))
    job.progressed(after.offset, job.stat.st_size)


def _write_mark(job: ReadJob, row: ConversationRow, mark: ReadMark) -> None:
    """In a transaction: write the mark, and whatever else a read sets on its conversation."""
    now = job.intake.now()
    if not row.transcribed:
        job.store.conversations.set_transcribed(row.id)
    if job.anchor is not None:
        progress = Progress.load(job.store.state.cursor(row.id, PROGRESS))
        progress.rewind(job.anchor.seq, list(job.anchor.own))
        job.store.state.set_cursor(row.id, PROGRESS, progress.dump(), now)
    if (
        row.parent is None
        and job.file.header.parent_key
        and (parent := job.store.conversations.active(job.file.header.parent_key))
    ):
        job.store.conversations.set_parent(row.id, parent.id)
    job.store.state.set_cursor(row.id, job.source, to_builtins(mark), now)


def lock_target(job: ReadJob) -> ConversationRow:
    """In a transaction: lock the conversation that the file is read into."""
    if job.target is not None:
        return job.store.conversations.hold(job.target.id)
    return job.store.conversations.lock(job.intake.key, job.intake.session, job.intake.now())


def _next_mark(job: ReadJob, batch: Sequence[TranscriptEntry], ended: bool, waits: bool) -> ReadMark:
    """Return the mark after a batch."""
    offset, number = (batch[-1].end, batch[-1].number) if batch else (job.mark.offset, job.mark.number)
    head, tail = edge_digests(job.file.path, offset)
    return structs.replace(
        job.mark,
        offset=offset,
        number=number,
        size=job.stat.st_size if ended else -1,
        time=job.stat.st_mtime_ns,
        head=head,
        tail=tail,
        tips=job.tips,
        callers=job.callers,
        waits=waits,
        branched=job.branched,
        read_at=job.intake.now(),
    )


def _outside_reasons(job: ReadJob, messages: Sequence[TranscriptEntry]) -> dict[str, str]:
    """Return why some of the entries stay out of the context, by event id."""
    found = {}
    for entry in messages:
        if entry.is_idle:
            found[job.intake.entry_id(entry.id)] = IDLE
        elif entry.number <= job.mark.bounded:
            found[job.intake.entry_id(entry.id)] = "fork"
        elif job.branch is not None and entry.id not in job.branch:
            found[job.intake.entry_id(entry.id)] = "branch"
    return found


def _track_branch(job: ReadJob, entry: TranscriptEntry) -> None:
    """Follow the active branch. An entry that continues from elsewhere than its end starts another one.

    The results of one reply's calls all continue from the reply.
    """
    if entry.thread is not None or not job.file.header.named:
        return
    if job.branch is not None and entry.id not in job.branch:
        return
    parts = entry.message.parts if entry.message else ()
    name, parent = job.intake.entry_id(entry.id), entry.parent and job.intake.entry_id(entry.parent)
    if entry.message is None and parent in job.tips:
        # An entry without a message belongs to its parent: the branch may continue from either.
        job.tips = (*job.tips, name)[-_MOST_TIPS:]
        if parent in job.callers:
            job.callers = (*job.callers, name)[-_MOST_TIPS:]
    elif any(isinstance(part, ToolResult) for part in parts) and parent in job.callers:
        job.tips = (*job.tips, name)[-_MOST_TIPS:]
    else:
        if job.branch is None and job.tips and parent not in job.tips:
            job.branched = True
        job.tips = (name,)
    if any(isinstance(part, ToolCall) for part in parts):
        job.callers = (name,)


def follow_branch(job: ReadJob) -> None:
    """Switch the context to the branch that is active now: attach its messages, detach the others."""
    store, target, branch = job.store, job.target, job.branch
    if target is None:
        return
    on, off = list[int](), list[int]()
    for batch in job.file.batches():
        for entry_id, event in placement.known_entries(store, job.intake, target.id, batch).items():
            (on if branch is None or entry_id in branch else off).append(event.seq)
    with store.transaction():
        store.conversations.hold(target.id)
        leaving = set(off) - set(on)
        items = [item for item in store.context.items(target.id) if item.is_message and item.ordinal in leaving]
        store.context.detach(target.id, items, "branch", job.intake.now())
        gone = {item.ordinal for item, cause, _ in store.context.detached(target.id) if cause == "branch"}
        # Messages that a summary covers, or that a /new left behind, cannot return to their place.
        behind = max(store.context.covered_until(target.id), begun_after(store, target))
        back = {seq for seq in on if seq > behind}
        store.context.attach(target.id, sorted(gone & back))
        store.context.reveal(target.id, sorted(back), "branch")
        job.mark = structs.replace(job.mark, branched=False)
        store.state.set_cursor(target.id, job.source, to_builtins(job.mark), job.intake.now())
    job.branched = False


def widen(
    times: tuple[datetime | None, datetime | None], at: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and latest of the times and one more."""
    if at is None:
        return times
    first, last = times
    return (at if first is None or at < first else first), (at if last is None or at > last else last)


def sidechain_key(key: str, thread: str) -> str:
    """Return the key of a sub-agent's conversation that shares its parent's file."""
    return f"{key}:sidechain_key:{codec.event_key(thread)}"


def _store_threads(job: ReadJob, batch: Sequence[TranscriptEntry]) -> None:
    """Store the messages of sub-agents in the file, each in a conversation below this one."""
    threads: dict[str, list[Message]] = {}
    for entry in batch:
        if entry.message is not None and entry.thread is not None:
            threads.setdefault(entry.thread, []).append(entry.message)
    for thread, messages in threads.items():
        if job.target is None:
            with job.store.transaction():
                job.target = lock_target(job)
        parent = job.target.id
        key = sidechain_key(job.intake.key, job.intake.entry_id(thread))
        if job.intake.closed is not None and job.intake.closed(key):
            continue
        intake = structs.replace(job.intake, key=key, session=None)
        done = ingest(
            job.store,
            job.files,
            intake,
            messages,
            in_transaction=lambda row, parent=parent: job.store.conversations.set_parent(row.id, parent),  # type: ignore[misc]  # a default binds it
        )
        job.add(done, 0, 0)
