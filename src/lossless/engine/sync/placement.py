"""Where a transcript belongs: to the conversation that holds some of its entries, or to one of its own.

Read only when a file was never read, or is another than it was; a file that grows needs none of this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from lossless import transcripts
from lossless.engine.ingest.duplicates import look_back
from lossless.engine.ingest.identity import digest
from lossless.engine.ingest.ingest import Intake
from lossless.engine.ingest.two_sources import Said, provider_key
from lossless.engine.shared.transplanted_ranges import is_copied, own_after
from lossless.engine.sync.continuation import Home, Situation, Told, home
from lossless.engine.sync.read_marks import PREFIX, Mark, mark_of
from lossless.model import Message
from lossless.store import rows
from lossless.store.base import ConversationRow, KnownEvent, MessageRow
from lossless.store.store import Store
from lossless.transcripts.base import Branch, Entry, Header, Reader, Tally

LOOK = 500
"""How many entries, or messages, are looked at together."""


class Transcript(Struct, frozen=True):
    """A transcript, and what it says about itself."""

    path: Path
    header: Header

    @property
    def reader(self) -> Reader:
        return transcripts.reader(self.header.format)

    def branch(self) -> Branch | None:
        return self.reader.branch(self.path, self.header)

    def messages(self) -> Iterator[Entry]:
        """All entries that are messages, sub-agents' apart."""
        read = self.reader.entries(self.path, self.header, Tally())
        return (entry for entry in read if entry.message is not None and entry.thread is None)

    def batches(self) -> Iterator[list[Entry]]:
        """The same, some at a time."""
        batch: list[Entry] = []
        for entry in self.messages():
            batch.append(entry)
            if len(batch) == LOOK:
                yield batch
                batch = []
        if batch:
            yield batch


class Anchor(Struct, frozen=True):
    """Where the entries of a transcript begin to be new to a conversation that holds some of them."""

    conversation: ConversationRow
    seq: int
    """The last known entry before the first unknown one."""
    end: int
    """The offset behind the last known entry of all."""
    own: tuple[tuple[int, int], ...] = ()
    """Runs of known ones behind the first unknown one."""


def anchor(store: Store, intake: Intake, file: Transcript, members: Sequence[ConversationRow]) -> Anchor | None:
    """The first of the conversations that holds any of the entries, found in one reading.

    Entries that are named after their place have to agree with what is stored as far as it goes: a file that begins like
    another is not that one.
    """
    asked = [row for row in members if row.next_seq > 1]
    holder: ConversationRow | None = None
    seq, end, own, gap = 0, 0, list[tuple[int, int]](), False
    for batch in file.batches() if asked else ():
        events: dict[str, KnownEvent] = {}
        for row in [holder] if holder else asked:
            if events := known(store, intake, row.id, batch):
                holder = row
                break
        for entry in batch:
            event = events.get(entry.id)
            if event is not None and not file.header.named and not _is_same(entry, event, intake):
                return None
            if event is None:
                gap = True
                continue
            end = entry.end
            if gap:
                own.append((event.seq, event.seq))
            else:
                seq = max(seq, event.seq)
    return Anchor(holder, seq, end, tuple(own)) if holder else None


def _is_same(entry: Entry, event: KnownEvent, intake: Intake) -> bool:
    return entry.message is not None and digest(intake.cleaned(entry.message), intake.canonicalize) == event.digest


def known(store: Store, intake: Intake, conversation_id: int, entries: Sequence[Entry]) -> dict[str, KnownEvent]:
    """What is stored of some entries, by their ids in the transcript."""
    names = {entry.id: rows.event_key(intake.entry_id(entry.id)) for entry in entries}
    events = store.messages.known_events(conversation_id, [name for name in names.values() if name], aliases=True)
    return {entry_id: events[name] for entry_id, name in names.items() if name in events}


def delivered_until(
    store: Store, intake: Intake, file: Transcript, row: ConversationRow, *, offset: int, number: int, sure: bool
) -> int | None:
    """Return the offset behind the last unread entry that the host delivered to a conversation before it was archived.

    An entry is recognised by its id, or as one that only the host has told so far; with `sure` equal words do not suffice.
    """
    read = file.reader.entries(file.path, file.header, Tally(), offset=offset, number=number)
    said = [
        (entry, _said(entry.message, entry.own_time, intake))
        for entry in islice(read, LOOK)
        if entry.message is not None and entry.thread is None
    ]
    said = [(entry, each) for entry, each in said if each.at is None or each.at < (row.archived_at or each.at + 1)]
    named = known(store, intake, row.id, [entry for entry, _ in said]) if file.header.named else {}
    told = look_back(store, row, "transcript", [each for _, each in said], []).rows
    ends = [
        entry.end
        for at, (entry, each) in enumerate(said)
        if entry.id in named or (at in told and (not sure or _is_surely(each, told[at])))
    ]
    return max(ends, default=None)


def _said(message: Message, own_time: bool, intake: Intake) -> Said:
    message = intake.cleaned(message)
    return Said(digest(message, intake.canonicalize), _time(message) if own_time else None, provider_key(message))


def _is_surely(said: Said, stored: MessageRow) -> bool:
    """Return whether more than words says that both are the same."""
    if said.at is not None and said.at == stored.at:
        return True
    return said.key is not None and said.key == provider_key(rows.message_of(stored))


def place(store: Store, intake: Intake, file: Transcript, row: ConversationRow, mark: Mark | None) -> tuple[Home, str]:
    """Where a transcript goes of which nothing is stored, although there is a conversation under its key, and why.

    `mark` says how far the conversation was read from this very file, as it was before.
    """
    if mark is not None and not mark.offset:
        return "same", "it was expected here"
    copied = store.imported.transplants(row.id)
    behind = store.messages.read(row.id, after=own_after(copied, row, LOOK))
    stored = [each for each in behind if not is_copied(copied, each.seq)]
    said = file.messages()
    first = list(islice(said, LOOK))
    last = deque(said, LOOK)
    marks = [mark_of(state) for *_, state in store.state.cursors(PREFIX, row.id)]
    read = [Path(each.path) for each in marks if each.offset]
    read_at = max((each.read_at for each in marks), default=0)
    newest = [each.message for each in [*first, *last][-1:]]
    situation = Situation(
        entries=[_told(entry.message, intake) for entry in [*first, *last] if entry.message],
        stored=[Told(each.role, each.digest, each.created_at if each.at is None else each.at) for each in stored],
        tracked="same file" if mark else _tracked(read),
        renewed=row.renewed_at is not None and row.renewed_at >= read_at,
        elsewhere=_is_elsewhere(store, intake, file.header, first),
        last_at=_time(newest[0]) if newest and newest[0] else None,
        sure=file.header.named and all(entry.own_time for entry in [*first, *last]),
    )
    return home(situation)


def _tracked(read: Sequence[Path]) -> Literal["none", "other file", "missing file"]:
    if not read:
        return "none"
    return "other file" if any(path.exists() for path in read) else "missing file"


def _is_elsewhere(store: Store, intake: Intake, header: Header, first: Sequence[Entry]) -> bool:
    """Whether the entries belong to an active conversation under a key that has nothing to do with this one."""
    if not header.named or header.parent_session is not None:
        return False
    key = intake.key
    channel = key.rpartition(":")[0]
    return any(
        row.active
        and row.transcribed
        and row.key != key
        and (not channel or row.key.rpartition(":")[0] != channel)  # threads of one channel may share their beginning
        and known(store, intake, row.id, first[:16])
        and not _is_fork_of(store, row, header.session)
        for row in store.conversations.of_owner()
    )


def _is_fork_of(store: Store, row: ConversationRow, session: str) -> bool:
    return any(mark_of(state).fork_of == session for *_, state in store.state.cursors(PREFIX, row.id))


def _told(message: Message, intake: Intake) -> Told:
    return Told(message.role, digest(intake.cleaned(message), intake.canonicalize), _time(message))


def _time(message: Message) -> int | None:
    return None if message.at is None else rows.micros(message.at)
