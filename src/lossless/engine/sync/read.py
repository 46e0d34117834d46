"""Read a host's transcript into a conversation: what is new of it, exactly once, and never again what was read.

A mark per file remembers how far it was read, what it looked like there and where its active branch ended. It is written with the rows it
covers, so it never says more than is stored. A file that did not change is not opened; one that grew is read from its mark
on; whatever else happened to it is decided by its entries' ids, and where these say nothing, by `lineage`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from stat import S_ISREG

from msgspec import Struct, structs, to_builtins

from lossless import transcripts
from lossless.engine.ingest.heartbeats import IDLE, with_beats
from lossless.engine.ingest.ingest import Intake, ingest
from lossless.engine.ingest.two_sources import PROGRESS, Progress
from lossless.engine.sessions import begun_after
from lossless.engine.shared.file_store import Files
from lossless.engine.sync import placement
from lossless.engine.sync.placement import Anchor, Transcript
from lossless.engine.sync.read_marks import (
    PATIENCE,
    Mark,
    goes_on,
    header_of,
    is_unchanged,
    marked,
    shown,
    source_of,
    witnesses,
)
from lossless.errors import InvalidInput
from lossless.events import Event
from lossless.model import Bootstrapped, Ingested, Message, ToolCall, ToolResult
from lossless.patterns import is_scheduled
from lossless.store import rows
from lossless.store.base import ConversationRow
from lossless.store.header import refuse_database
from lossless.store.store import Store
from lossless.tokens import message_tokens
from lossless.transcripts.base import Branch, Entry, Header, Tally

_MISSING = "transcript missing"
_UNAVAILABLE = "transcript unavailable"
UNREACHABLE = (_MISSING, _UNAVAILABLE)
SEPARATE = ("new epoch", "stored aside")
"""How the reasons begin of a transcript that got a conversation of its own."""
_EMPTY = "no leaf-path messages in session"
_MISSED = "reconciled missing session messages"
_MOST_TIPS = 64
_BATCH = 500
_BATCH_BYTES = 4_000_000
_GOES_ON = ("manual-reset", "session-end")
"""Archived for these, a conversation is followed by the next one under its key, and so is its transcript."""

Progressed = Callable[[int, int], None]


class _Job(Struct):
    """One reading of one file."""

    store: Store
    files: Files
    intake: Intake
    file: Transcript
    stat: os.stat_result
    budget: int
    progressed: Progressed
    tally: Tally
    mark: Mark
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
        self.heartbeats += heartbeats
        self.imported += len(done.stored)
        self.known += done.known
        self.outside += outside + done.late
        self.copies += done.copies
        self.collisions += done.collisions

    @property
    def source(self) -> str:
        return source_of(self.file.path)


def recognise(path: Path, format: str | None = None) -> Header:
    """Read the header of a transcript. A database is refused without opening it, since this process may hold it locked."""
    refuse_database(path)
    return transcripts.recognise(path, format)


def bootstrap(
    store: Store,
    files: Files,
    intake: Intake,
    path: Path,
    *,
    header: Header | None = None,
    format: str | None = None,
    budget: int,
    expected: bool = False,
    progressed: Progressed = lambda read, size: None,
) -> Bootstrapped:
    """Store what is new in a transcript. What came before an error is stored, and the next call goes on behind it.

    `expected` says that a host writes it, or is about to if it is not there or empty yet; `format` what kind it is.
    """
    path = _real(path)
    try:
        done = None
        while done is None:
            with suppress(_Overtaken):
                done = _bootstrap(store, files, intake, path, header, format, budget, expected, progressed)
    except FileNotFoundError:
        done = Bootstrapped(_MISSING)
    except OSError as error:
        told = f"{shown(path)} cannot be read: {error.strerror}."
        intake.on_event(Event("transcript.unavailable", told, "warning", {"conversation": intake.key}))
        return Bootstrapped(_UNAVAILABLE)
    if expected and done.reason in (_MISSING, _EMPTY):
        _expected(store, intake, path)
    if expected and done.imported:
        _resume(store, done.conversation, intake.now())
    return done


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise InvalidInput(f"{str(path)!r} is no path: {error}.", hint="Give the path of a transcript.") from error


class _Overtaken(Exception):
    """Another process has placed the same file meanwhile: it is looked at again."""


def _resume(store: Store, conversation_id: int | None, now: int) -> None:
    """A host that goes on with an earlier session goes on with its conversation."""
    row = None if conversation_id is None else store.conversations.get(conversation_id)
    if row is not None and not row.active and row.archive_cause == "rollover":
        with store.transaction():
            store.conversations.reactivate(row.id, "rollover", now)


def _bootstrap(
    store: Store,
    files: Files,
    intake: Intake,
    path: Path,
    header: Header | None,
    format: str | None,
    budget: int,
    expected: bool,
    progressed: Progressed,
) -> Bootstrapped:
    stat = path.stat()
    if not S_ISREG(stat.st_mode):
        raise InvalidInput(f"{path} is not a file.", hint="Give the path of a transcript.")
    found = marked(store, intake.key, path)
    if found and is_unchanged(found[1], stat, intake.now()):
        return Bootstrapped("already bootstrapped", found[0].id, offset=found[1].offset, size=stat.st_size)
    if stat.st_size == 0:
        return Bootstrapped(_EMPTY)
    mark = found[1] if found else Mark()
    goes = goes_on(mark, path, stat.st_size)
    header = header_of(mark, intake.key) if goes else intake.without_secrets(header or recognise(path, format))
    job = _Job(
        store,
        files,
        _for_transcripts(intake, header),
        Transcript(path, header),
        stat,
        budget,
        progressed,
        Tally(),
        mark,
        expected,
    )
    if found and goes:
        return _appended(job, found[0])
    return _read_whole(job, found)


def _for_transcripts(intake: Intake, header: Header) -> Intake:
    session = intake.session if intake.session is not None else header.session
    return structs.replace(intake, stream="transcript", session=session, placed=not header.named)


def _expected(store: Store, intake: Intake, path: Path) -> None:
    """Note a transcript of which nothing could be read yet, so that the next turn looks for it."""
    if marked(store, intake.key, path) is not None:
        return
    with store.transaction():
        now = intake.now()
        row = store.conversations.lock(intake.key, intake.session, now)
        store.conversations.set_transcribed(row.id)
        store.state.set_cursor(row.id, source_of(path), to_builtins(Mark(path=str(path), read_at=now)), now)


def _looked_at(job: _Job, found: tuple[ConversationRow, Mark] | None) -> None:
    """Note how a file looked in which nothing was said: none of it was left unread, and once it changes it is read whole.

    How far it was read before, and when, stays: by that it is decided where what comes next belongs.
    """
    if found is None and not job.expected:
        return
    before = found[1] if found else structs.replace(job.mark, read_at=job.intake.now())
    mark = structs.replace(before, size=job.mark.size, time=job.mark.time, waits=job.mark.waits)
    with job.store.transaction():
        row = job.store.conversations.hold(found[0].id) if found else _held(job)
        now_marked = marked(job.store, job.intake.key, job.file.path)
        if (now_marked and now_marked[1]) != (found and found[1]):
            return  # somebody else has read it meanwhile
        if not row.transcribed:
            job.store.conversations.set_transcribed(row.id)
        job.store.state.set_cursor(row.id, job.source, to_builtins(mark), mark.read_at)


def _appended(job: _Job, row: ConversationRow) -> Bootstrapped:
    job.tips, job.callers, job.branched = job.mark.tips, job.mark.callers, job.mark.branched
    successor = _successor(job, row)
    if successor.id != row.id:
        _read_into_earlier(job, row)
    job.target = successor
    _read(job)
    return _told(job, _MISSED)


def _successor(job: _Job, row: ConversationRow) -> ConversationRow:
    """Where the rest of a transcript goes: to the conversation it was read into, or to what a reset put in its place."""
    if row.active or row.archive_cause not in _GOES_ON:
        return row
    return job.store.conversations.active(row.key) or row


def _read_into_earlier(job: _Job, earlier: ConversationRow, *, sure: bool = False) -> bool:
    """Read what the host had delivered itself before a reset into the conversation that was archived by it; False if nothing is.

    The lines of such messages may be written after the reset. The rest of the file is for the next conversation.
    """
    end = placement.delivered_until(
        job.store, job.intake, job.file, earlier, offset=job.mark.offset, number=job.mark.number, sure=sure
    )
    if end is None:
        return False
    job.target = earlier
    _read(job, until=end)
    return True


def _earlier(job: _Job, row: ConversationRow | None) -> ConversationRow | None:
    """Return the conversation that a reset archived for this one."""
    found = job.store.conversations.get(row.continues) if row is not None and row.continues is not None else None
    return found if found is not None and found.archive_cause in _GOES_ON else None


def _read_whole(job: _Job, found: tuple[ConversationRow, Mark] | None) -> Bootstrapped:
    """A file that was never read, or is another than it was."""
    header = job.file.header
    before = found[1] if found else None
    job.branch = job.file.branch()
    job.mark = Mark(
        header.format,
        header.session,
        fork_of=header.parent_session or "",
        parent_key=header.parent_key or "",
        path=str(job.file.path),
        named=header.named,
        directory=header.directory or "",
    )
    # Entries that are named after their place say nothing about a file that was written anew.
    is_anew = before is not None and before.offset > 0 and not header.named
    members = [] if is_anew else job.store.conversations.under_key(job.intake.key)
    anchored = placement.anchor(job.store, job.intake, job.file, members)
    if anchored is not None:
        return _read_on(job, anchored, is_same=before is not None and before.offset > 0)
    row = _present(job)
    reason = "bootstrapped"
    earlier = _earlier(job, row)
    if earlier is not None and _read_into_earlier(job, earlier, sure=before is None):
        job.target = row
    elif row is not None and row.next_seq > 1:
        reason = _settle(job, row, before)
        if is_anew and job.target is row and before is not None:
            job.mark = structs.replace(job.mark, generation=before.generation + 1)
    if header.parent_session is not None:
        job.mark = structs.replace(job.mark, bounded=bound(job.file, job.branch, job.budget))
    _read(job)
    if not job.mark.number:
        _looked_at(job, found)
    return _told(job, reason)


def _read_on(job: _Job, anchored: Anchor, *, is_same: bool) -> Bootstrapped:
    """A file some of whose entries are known: what stands behind them goes on from there.

    If the conversation that holds them was reset since, it gets what belongs among them, and the next one the rest.
    """
    job.target = anchored.conversation
    job.anchor = anchored if is_same else None
    successor = _successor(job, anchored.conversation)
    if successor.id != anchored.conversation.id:
        _read(job, until=anchored.end)
        job.target, job.anchor = successor, None
    _read(job)
    if job.branch is not None:
        _follow(job)
    return _told(job, _MISSED)


def _present(job: _Job) -> ConversationRow | None:
    """The conversation that a message of this session would go to, if there is one."""
    key, session = job.intake.key, job.intake.session
    if session is not None and is_scheduled(key):
        return job.store.conversations.with_session(key, session)
    return job.store.conversations.active(key)


def _settle(job: _Job, row: ConversationRow, mark: Mark | None) -> str:
    """Find a place for a transcript that shares no entry with the conversation under its key."""
    home, why = placement.place(job.store, job.intake, job.file, row, mark)
    if home == "same":
        job.target = row
        return "bootstrapped"
    is_next = home == "epoch"
    with job.store.transaction():
        held = job.store.conversations.hold(row.id)
        now_marked = marked(job.store, job.intake.key, job.file.path)
        if held.active != row.active or (now_marked and now_marked[1]) != mark:
            raise _Overtaken
        job.target = job.store.conversations.start(
            job.intake.key,
            job.intake.session,
            job.intake.now(),
            continues=row.id if is_next else None,
            parent=row.parent,
            active=is_next,
            cause="rollover" if is_next else "aside",
        )
    told = f"{shown(job.file.path)} goes into a conversation of its own under {job.intake.key}: {why}."
    noted = {"conversation": job.intake.key, "home": home}
    job.intake.on_event(Event("transcript.separate", told, "warning", noted))
    return f"{SEPARATE[0] if is_next else SEPARATE[1]}: {why}"


def bound(file: Transcript, branch: Branch | None, budget: int) -> int:
    """Up to which message a fork stays out of the context: of what was said before it, all but the newest that fit."""
    forked_at = file.header.started_at
    before: list[tuple[int, int]] = []
    for entry in file.messages():
        message = entry.message
        if message is None or (branch is not None and entry.id not in branch):
            continue
        if forked_at is None or message.at is None or message.at < forked_at:
            before.append((entry.number, message_tokens(message)))
    left = budget
    for number, size in reversed(before):
        left -= size
        if left < 0:
            return number
    return 0


def _read(job: _Job, until: int | None = None) -> None:
    """Everything from the mark on, or up to an offset, in batches, each with its mark."""
    mark, batch, waits = job.mark, list[Entry](), False
    given = job.file.reader.entries(job.file.path, job.file.header, job.tally, offset=mark.offset, number=mark.number)
    is_fresh = job.intake.now() - job.stat.st_mtime_ns // 1000 < PATIENCE
    for entry in with_beats(_named(job, given)):
        if until is not None and entry.end > until:
            break
        if entry.is_open and is_fresh:
            waits = True
            break
        batch.append(entry)
        if len(batch) >= _BATCH or entry.end - job.mark.offset > _BATCH_BYTES:
            _store(job, batch)
            batch = []
    _store(job, batch, ended=until is None, waits=waits)
    if job.mark.branched and until is None:
        job.branch = job.file.branch()
        _follow(job)


def _named(job: _Job, entries: Iterator[Entry]) -> Iterator[Entry]:
    return (_renamed(entry, job.mark.generation) if job.mark.generation else entry for entry in entries)


def _renamed(entry: Entry, generation: int) -> Entry:
    """An entry that is named after its place, in a file that was written anew."""
    name = f"{entry.id}~{generation}"
    return structs.replace(entry, id=name, message=entry.message and structs.replace(entry.message, event_id=name))


def _store(job: _Job, batch: Sequence[Entry], *, ended: bool = False, waits: bool = False) -> None:
    """One batch in one transaction with its mark; before it what belongs to sub-agents, who have no mark of their own."""
    said = [entry for entry in batch if entry.message is not None and entry.thread is None]
    for entry in batch:
        _step(job, entry)
        if entry.message is not None:
            job.times = widen(job.times, entry.message.at)
    if not (batch[-1].number if batch else job.mark.number):
        # Nothing was ever said in this file: no conversation comes of it.
        size = job.stat.st_size if ended else -1
        job.mark = structs.replace(job.mark, size=size, time=job.stat.st_mtime_ns, waits=waits)
        return
    _store_threads(job, batch)
    after = _after(job, batch, ended, waits)
    reasons = _reasons(job, said)
    intake = structs.replace(
        job.intake,
        conversation_id=None if job.target is None else job.target.id,
        outside=lambda messages: {
            at: reasons[name] for at, message in enumerate(messages) if (name := message.event_id or "") in reasons
        },
        timeless=frozenset(job.intake.entry_id(entry.id) for entry in said if not entry.own_time),
    )
    marked: list[int] = []

    def along(row: ConversationRow) -> None:
        _mark(job, row, after)
        marked.append(row.id)

    done = ingest(job.store, job.files, intake, [entry.message for entry in said if entry.message], along=along)
    if not marked:  # there was nothing to store
        with job.store.transaction():
            along(_held(job))
    job.anchor, job.mark = None, after
    job.target = job.target or job.store.conversations.get(marked[-1])
    job.add(done, len(reasons), sum(entry.is_idle for entry in said))
    job.progressed(after.offset, job.stat.st_size)


def _mark(job: _Job, row: ConversationRow, mark: Mark) -> None:
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


def _held(job: _Job) -> ConversationRow:
    if job.target is not None:
        return job.store.conversations.hold(job.target.id)
    return job.store.conversations.lock(job.intake.key, job.intake.session, job.intake.now())


def _after(job: _Job, batch: Sequence[Entry], ended: bool, waits: bool) -> Mark:
    offset, number = (batch[-1].end, batch[-1].number) if batch else (job.mark.offset, job.mark.number)
    head, tail = witnesses(job.file.path, offset)
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


def _reasons(job: _Job, said: Sequence[Entry]) -> dict[str, str]:
    """Why some of the entries are kept out of the context."""
    found = {}
    for entry in said:
        if entry.is_idle:
            found[job.intake.entry_id(entry.id)] = IDLE
        elif entry.number <= job.mark.bounded:
            found[job.intake.entry_id(entry.id)] = "fork"
        elif job.branch is not None and entry.id not in job.branch:
            found[job.intake.entry_id(entry.id)] = "branch"
    return found


def _step(job: _Job, entry: Entry) -> None:
    """Follow the active branch. An entry that goes on from elsewhere than its end begins another one.

    The results of one reply's calls all go on from the reply.
    """
    if entry.thread is not None or not job.file.header.named:
        return
    if job.branch is not None and entry.id not in job.branch:
        return
    parts = entry.message.parts if entry.message else ()
    name, parent = job.intake.entry_id(entry.id), entry.parent and job.intake.entry_id(entry.parent)
    if entry.message is None and parent in job.tips:
        # What hangs there is said of the entry, not after it: the branch may go on from either.
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


def _follow(job: _Job) -> None:
    """Lead the context over to the branch that is active now: what is on it comes in, what is not goes out."""
    store, target, branch = job.store, job.target, job.branch
    if target is None:
        return
    on, off = list[int](), list[int]()
    for batch in job.file.batches():
        for entry_id, event in placement.known(store, job.intake, target.id, batch).items():
            (on if branch is None or entry_id in branch else off).append(event.seq)
    with store.transaction():
        store.conversations.hold(target.id)
        leaving = set(off) - set(on)
        items = [item for item in store.context.items(target.id) if item.is_message and item.ordinal in leaving]
        store.context.detach(target.id, items, "branch", job.intake.now())
        gone = {item.ordinal for item, cause, _ in store.context.detached(target.id) if cause == "branch"}
        # What a summary reaches past, or a /new has left behind, cannot come back in its place.
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


def sidechain(key: str, thread: str) -> str:
    """The key of a sub-agent's conversation that shares its parent's file."""
    return f"{key}:sidechain:{rows.event_key(thread)}"


def _store_threads(job: _Job, batch: Sequence[Entry]) -> None:
    """The messages of sub-agents that share the file, each in a conversation that hangs from this one."""
    threads: dict[str, list[Message]] = {}
    for entry in batch:
        if entry.message is not None and entry.thread is not None:
            threads.setdefault(entry.thread, []).append(entry.message)
    for thread, messages in threads.items():
        if job.target is None:
            with job.store.transaction():
                job.target = _held(job)
        parent = job.target.id
        key = sidechain(job.intake.key, job.intake.entry_id(thread))
        if job.intake.closed is not None and job.intake.closed(key):
            continue
        intake = structs.replace(job.intake, key=key, session=None)
        done = ingest(
            job.store,
            job.files,
            intake,
            messages,
            along=lambda row, parent=parent: job.store.conversations.set_parent(row.id, parent),  # type: ignore[misc]  # a default binds it
        )
        job.add(done, 0, 0)


def _told(job: _Job, reason: str) -> Bootstrapped:
    tally = job.tally
    if tally.malformed or tally.too_long:
        told = f"{tally.malformed + tally.too_long} line(s) of {shown(job.file.path)} could not be read."
        noted = {"conversation": job.intake.key, "malformed": tally.malformed, "too_long": tally.too_long}
        job.intake.on_event(Event("transcript.unreadable", told, "warning", noted))
    if not job.mark.number:
        reason = _EMPTY
    elif not job.imported and reason == _MISSED:
        reason = "conversation already up to date"
    return Bootstrapped(
        reason,
        job.target.id if job.target else None,
        imported=job.imported,
        known=job.known,
        outside=job.outside,
        heartbeats=job.heartbeats,
        copies=job.copies,
        collisions=job.collisions,
        malformed=tally.malformed,
        too_long=tally.too_long,
        boundaries=tally.boundaries,
        unknown=dict(tally.unknown),
        offset=job.mark.offset,
        size=job.stat.st_size,
        first_at=job.times[0],
        last_at=job.times[1],
    )
