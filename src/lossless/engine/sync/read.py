"""Read a host's transcript into a conversation: store what is new in it, exactly once.

A mark per file remembers how far it was read, its content there and the end of its active branch. It is written with the
rows it covers, so it never claims more than is stored. An unchanged file is not opened; one that grew is read from its
mark; after any other change its entries' ids decide, and where it has none, `continuation`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from msgspec import structs, to_builtins

from lossless import transcripts
from lossless.engine.ingest.intake import Intake
from lossless.engine.shared.file_store import Files
from lossless.engine.sync import placement
from lossless.engine.sync.placement import Anchor, Transcript
from lossless.engine.sync.read_marks import (
    ReadMark,
    continues_file,
    cursor_name,
    find_mark,
    header_from_mark,
    is_unchanged,
    printable_name,
)
from lossless.engine.sync.store_entries import Progressed, ReadJob, follow_branch, lock_target, read_entries
from lossless.errors import InvalidInput
from lossless.events import Event
from lossless.model import Bootstrapped
from lossless.session_patterns import is_scheduled
from lossless.store.header import refuse_database
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store
from lossless.tokens import message_tokens
from lossless.transcripts.base import Branch, Header, Tally

_MISSING = "transcript missing"
_UNAVAILABLE = "transcript unavailable"
UNREACHABLE = (_MISSING, _UNAVAILABLE)
SEPARATE = ("new epoch", "stored aside")
"""First words of the reason when a transcript became a separate conversation."""
_EMPTY = "no leaf-path messages in session"
_MISSED = "reconciled missing session messages"
_CONTINUED = ("manual-reset", "session-end")
"""Causes of archiving after which the next conversation under the key continues the transcript."""


def recognise(path: Path, format: str | None = None) -> Header:
    """Read the header of a transcript.

    A database is refused without opening it, since this process may hold it locked.
    """
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
    """Store what is new in a transcript. After an error the next call continues behind what was stored.

    `expected` says that a host writes the file, or is about to if it is missing or empty; `format` names its kind.
    """
    path = _resolve(path)
    try:
        done = None
        while done is None:
            with suppress(_ConcurrentRead):
                done = _bootstrap(store, files, intake, path, header, format, budget, expected, progressed)
    except FileNotFoundError:
        done = Bootstrapped(_MISSING)
    except OSError as error:
        report = f"{printable_name(path)} cannot be read: {error.strerror}."
        intake.on_event(Event("transcript.unavailable", report, "warning", {"conversation": intake.key}))
        return Bootstrapped(_UNAVAILABLE)
    if expected and done.reason in (_MISSING, _EMPTY):
        _note_expected(store, intake, path)
    if expected and done.imported:
        _resume(store, done.conversation, intake.now())
    return done


def _resolve(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise InvalidInput(f"{str(path)!r} is no path: {error}.", hint="Give the path of a transcript.") from error


class _ConcurrentRead(Exception):
    """Another process placed the same file meanwhile: it is read again."""


def _resume(store: Store, conversation_id: int | None, now: int) -> None:
    """Reactivate the conversation of an earlier session that its host continues."""
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
    found = find_mark(store, intake.key, path)
    if found and is_unchanged(found[1], stat, intake.now()):
        return Bootstrapped(
            reason="already bootstrapped", conversation=found[0].id, offset=found[1].offset, size=stat.st_size
        )
    if stat.st_size == 0:
        return Bootstrapped(_EMPTY)
    mark = found[1] if found else ReadMark()
    goes = continues_file(mark, path, stat.st_size)
    header = header_from_mark(mark, intake.key) if goes else intake.without_secrets(header or recognise(path, format))
    job = ReadJob(
        store=store,
        files=files,
        intake=_for_transcripts(intake, header),
        file=Transcript(path, header),
        stat=stat,
        budget=budget,
        progressed=progressed,
        tally=Tally(),
        mark=mark,
        expected=expected,
    )
    if found and goes:
        return _read_appended(job, found[0])
    return _read_whole(job, found)


def _for_transcripts(intake: Intake, header: Header) -> Intake:
    session = intake.session if intake.session is not None else header.session
    return structs.replace(intake, stream="transcript", session=session, placed=not header.named)


def _note_expected(store: Store, intake: Intake, path: Path) -> None:
    """Note a transcript of which nothing could be read yet, so that the next turn looks for it."""
    if find_mark(store, intake.key, path) is not None:
        return
    with store.transaction():
        now = intake.now()
        row = store.conversations.lock(intake.key, intake.session, now)
        store.conversations.set_transcribed(row.id)
        store.state.set_cursor(row.id, cursor_name(path), to_builtins(ReadMark(path=str(path), read_at=now)), now)


def _note_empty(job: ReadJob, found: tuple[ConversationRow, ReadMark] | None) -> None:
    """Note the state of a file without messages: nothing is unread, and it is read from the start once it changes.

    The earlier position and time stay: they decide where what comes next belongs.
    """
    if found is None and not job.expected:
        return
    before = found[1] if found else structs.replace(job.mark, read_at=job.intake.now())
    mark = structs.replace(before, size=job.mark.size, time=job.mark.time, waits=job.mark.waits)
    with job.store.transaction():
        row = job.store.conversations.hold(found[0].id) if found else lock_target(job)
        now_marked = find_mark(job.store, job.intake.key, job.file.path)
        if (now_marked and now_marked[1]) != (found and found[1]):
            return  # another process has read it meanwhile
        if not row.transcribed:
            job.store.conversations.set_transcribed(row.id)
        job.store.state.set_cursor(row.id, job.source, to_builtins(mark), mark.read_at)


def _read_appended(job: ReadJob, row: ConversationRow) -> Bootstrapped:
    """Read what was appended to a file after its mark."""
    job.tips, job.callers, job.branched = job.mark.tips, job.mark.callers, job.mark.branched
    successor = _successor(job, row)
    if successor.id != row.id:
        _read_into_earlier(job, row)
    job.target = successor
    read_entries(job)
    return _report(job, _MISSED)


def _successor(job: ReadJob, row: ConversationRow) -> ConversationRow:
    """Return the conversation for the rest of a transcript: its own, or the one after a reset."""
    if row.active or row.archive_cause not in _CONTINUED:
        return row
    return job.store.conversations.active(row.key) or row


def _read_into_earlier(job: ReadJob, earlier: ConversationRow, *, sure: bool = False) -> bool:
    """Read what the host delivered before a reset into the conversation that the reset archived.

    The lines of such messages may be written after the reset. The rest of the file belongs to the next conversation. Return
    False if there is no such message.
    """
    end = placement.delivered_until(
        job.store, job.intake, job.file, earlier, offset=job.mark.offset, number=job.mark.number, sure=sure
    )
    if end is None:
        return False
    job.target = earlier
    read_entries(job, until=end)
    return True


def _predecessor(job: ReadJob, row: ConversationRow | None) -> ConversationRow | None:
    """Return the conversation that a reset archived for this one."""
    found = job.store.conversations.get(row.continues) if row is not None and row.continues is not None else None
    return found if found is not None and found.archive_cause in _CONTINUED else None


def _read_whole(job: ReadJob, found: tuple[ConversationRow, ReadMark] | None) -> Bootstrapped:
    """Read a file that was never read, or was rewritten."""
    header = job.file.header
    before = found[1] if found else None
    job.branch = job.file.branch()
    job.mark = ReadMark(
        format=header.format,
        session=header.session,
        fork_of=header.parent_session or "",
        parent_key=header.parent_key or "",
        path=str(job.file.path),
        named=header.named,
        directory=header.directory or "",
    )
    # Entries named after their position do not identify the messages of a rewritten file.
    is_rewritten = before is not None and before.offset > 0 and not header.named
    members = [] if is_rewritten else job.store.conversations.under_key(job.intake.key)
    anchored = placement.find_anchor(job.store, job.intake, job.file, members)
    if anchored is not None:
        return _read_from_anchor(job, anchored, is_same=before is not None and before.offset > 0)
    row = _current(job)
    reason = "bootstrapped"
    earlier = _predecessor(job, row)
    if earlier is not None and _read_into_earlier(job, earlier, sure=before is None):
        job.target = row
    elif row is not None and row.next_seq > 1:
        reason = _place(job, row, before)
        if is_rewritten and job.target is row and before is not None:
            job.mark = structs.replace(job.mark, generation=before.generation + 1)
    if header.parent_session is not None:
        job.mark = structs.replace(job.mark, bounded=fork_limit(job.file, job.branch, job.budget))
    read_entries(job)
    if not job.mark.number:
        _note_empty(job, found)
    return _report(job, reason)


def _read_from_anchor(job: ReadJob, anchored: Anchor, *, is_same: bool) -> Bootstrapped:
    """Read a file some of whose entries are stored.

    If the conversation that holds them was reset since, it gets what belongs among them, and the next one the rest.
    """
    job.target = anchored.conversation
    job.anchor = anchored if is_same else None
    successor = _successor(job, anchored.conversation)
    if successor.id != anchored.conversation.id:
        read_entries(job, until=anchored.end)
        job.target, job.anchor = successor, None
    read_entries(job)
    if job.branch is not None:
        follow_branch(job)
    return _report(job, _MISSED)


def _current(job: ReadJob) -> ConversationRow | None:
    """Return the conversation that a message of this session would go to, if it exists."""
    key, session = job.intake.key, job.intake.session
    if session is not None and is_scheduled(key):
        return job.store.conversations.with_session(key, session)
    return job.store.conversations.active(key)


def _place(job: ReadJob, row: ConversationRow, mark: ReadMark | None) -> str:
    """Place a transcript that shares no entry with the conversation under its key; return the reason."""
    destination, why = placement.place_transcript(job.store, job.intake, job.file, row, mark)
    if destination == "same":
        job.target = row
        return "bootstrapped"
    is_next = destination == "epoch"
    with job.store.transaction():
        held = job.store.conversations.hold(row.id)
        now_marked = find_mark(job.store, job.intake.key, job.file.path)
        if held.active != row.active or (now_marked and now_marked[1]) != mark:
            raise _ConcurrentRead
        job.target = job.store.conversations.start(
            job.intake.key,
            job.intake.session,
            job.intake.now(),
            continues=row.id if is_next else None,
            parent=row.parent,
            active=is_next,
            cause="rollover" if is_next else "aside",
        )
    report = f"{printable_name(job.file.path)} becomes a separate conversation under {job.intake.key}: {why}."
    facts = {"conversation": job.intake.key, "destination": destination}
    job.intake.on_event(Event("transcript.separate", report, "warning", facts))
    return f"{SEPARATE[0] if is_next else SEPARATE[1]}: {why}"


def fork_limit(file: Transcript, branch: Branch | None, budget: int) -> int:
    """Return the number of the last message of a fork that stays out of the context.

    Of the messages from before the fork, the newest that fit the budget are shown.
    """
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


def _report(job: ReadJob, reason: str) -> Bootstrapped:
    tally = job.tally
    if tally.malformed or tally.too_long:
        report = f"{tally.malformed + tally.too_long} line(s) of {printable_name(job.file.path)} could not be read."
        facts = {"conversation": job.intake.key, "malformed": tally.malformed, "too_long": tally.too_long}
        job.intake.on_event(Event("transcript.unreadable", report, "warning", facts))
    if not job.mark.number:
        reason = _EMPTY
    elif not job.imported and reason == _MISSED:
        reason = "conversation already up to date"
    return Bootstrapped(
        reason=reason,
        conversation=job.target.id if job.target else None,
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
