"""Find the conversation that a transcript belongs to: one that holds some of its entries, or a new one.

Used only for a file that was never read, or was rewritten; a file that grows needs none of this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from lossless import transcripts
from lossless.engine.ingest.find_duplicates import find_duplicates
from lossless.engine.ingest.intake import Intake
from lossless.engine.ingest.match_host_and_transcript import SourceMessage, provider_key
from lossless.engine.ingest.message_digest import digest
from lossless.engine.shared.transplanted_ranges import is_copied, own_after
from lossless.engine.sync.continuation import Destination, Fingerprint, Situation, choose_destination
from lossless.engine.sync.read_marks import PREFIX, ReadMark, load_mark
from lossless.model import Message
from lossless.store.rows import codec
from lossless.store.rows.types import ConversationRow, KnownEvent, MessageRow
from lossless.store.store import Store
from lossless.transcripts.base import Branch, Header, Reader, Tally, TranscriptEntry

BATCH = 500
"""Number of entries or messages that are compared together."""


class Transcript(Struct, frozen=True):
    """A transcript file with its header."""

    path: Path
    header: Header

    @property
    def reader(self) -> Reader:
        return transcripts.reader(self.header.format)

    def branch(self) -> Branch | None:
        return self.reader.branch(self.path, self.header)

    def messages(self) -> Iterator[TranscriptEntry]:
        """Yield the entries that are messages, except those of sub-agents."""
        read = self.reader.entries(self.path, self.header, Tally())
        return (entry for entry in read if entry.message is not None and entry.thread is None)

    def batches(self) -> Iterator[list[TranscriptEntry]]:
        """Yield the same entries in batches."""
        batch: list[TranscriptEntry] = []
        for entry in self.messages():
            batch.append(entry)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch


class Anchor(Struct, frozen=True):
    """The place in a transcript where entries become new to a conversation that holds some of them."""

    conversation: ConversationRow
    seq: int
    """The seq of the last known entry before the first unknown one."""
    end: int
    """The offset after the last known entry."""
    own: tuple[tuple[int, int], ...] = ()
    """Ranges of known entries after the first unknown one."""


def find_anchor(store: Store, intake: Intake, file: Transcript, members: Sequence[ConversationRow]) -> Anchor | None:
    """Return the first conversation that holds any of the entries, and where unknown ones start, in one pass.

    Entries named after their position must match what is stored as far as it goes: a file that starts like another one is not
    that file.
    """
    candidates = [row for row in members if row.next_seq > 1]
    holder: ConversationRow | None = None
    seq, end, own, gap = 0, 0, list[tuple[int, int]](), False
    for batch in file.batches() if candidates else ():
        events: dict[str, KnownEvent] = {}
        for row in [holder] if holder else candidates:
            if events := known_entries(store, intake, row.id, batch):
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
    return Anchor(conversation=holder, seq=seq, end=end, own=tuple(own)) if holder else None


def _is_same(entry: TranscriptEntry, event: KnownEvent, intake: Intake) -> bool:
    return entry.message is not None and digest(intake.cleaned(entry.message), intake.canonicalize) == event.digest


def known_entries(
    store: Store, intake: Intake, conversation_id: int, entries: Sequence[TranscriptEntry]
) -> dict[str, KnownEvent]:
    """Return the stored events of some entries, by the entries' ids in the transcript."""
    names = {entry.id: codec.event_key(intake.entry_id(entry.id)) for entry in entries}
    events = store.messages.known_events(conversation_id, [name for name in names.values() if name], aliases=True)
    return {entry_id: events[name] for entry_id, name in names.items() if name in events}


def delivered_until(
    store: Store, intake: Intake, file: Transcript, row: ConversationRow, *, offset: int, number: int, sure: bool
) -> int | None:
    """Return the offset after the last unread entry that the host delivered before a conversation was archived.

    An entry is matched by its id, or as a message that only the host has delivered so far; with `sure` equal text is not enough.
    """
    read = file.reader.entries(file.path, file.header, Tally(), offset=offset, number=number)
    messages = [
        (entry, _source_message(entry.message, entry.own_time, intake))
        for entry in islice(read, BATCH)
        if entry.message is not None and entry.thread is None
    ]
    messages = [
        (entry, each) for entry, each in messages if each.at is None or each.at < (row.archived_at or each.at + 1)
    ]
    named = known_entries(store, intake, row.id, [entry for entry, _ in messages]) if file.header.named else {}
    duplicates = find_duplicates(store, row, "transcript", [each for _, each in messages], []).rows
    ends = [
        entry.end
        for at, (entry, each) in enumerate(messages)
        if entry.id in named or (at in duplicates and (not sure or _is_certain(each, duplicates[at])))
    ]
    return max(ends, default=None)


def _source_message(message: Message, own_time: bool, intake: Intake) -> SourceMessage:
    message = intake.cleaned(message)
    return SourceMessage(
        digest(message, intake.canonicalize), _time(message) if own_time else None, provider_key(message)
    )


def _is_certain(incoming: SourceMessage, stored: MessageRow) -> bool:
    """Return whether the time or the provider's id also says that both are the same."""
    if incoming.at is not None and incoming.at == stored.at:
        return True
    return incoming.key is not None and incoming.key == provider_key(codec.message_of(stored))


def place_transcript(
    store: Store, intake: Intake, file: Transcript, row: ConversationRow, mark: ReadMark | None
) -> tuple[Destination, str]:
    """Return the destination of a transcript without a stored entry, although its key has a conversation, and why.

    `mark` says how far the conversation was read from this very file, as it was before.
    """
    if mark is not None and not mark.offset:
        return "same", "it was expected here"
    copied = store.imported.transplants(row.id)
    behind = store.messages.read(row.id, after=own_after(copied, row, BATCH))
    stored = [each for each in behind if not is_copied(copied, each.seq)]
    messages = file.messages()
    first = list(islice(messages, BATCH))
    last = deque(messages, BATCH)
    marks = [load_mark(state) for *_, state in store.state.cursors(PREFIX, row.id)]
    read = [Path(each.path) for each in marks if each.offset]
    read_at = max((each.read_at for each in marks), default=0)
    newest = [each.message for each in [*first, *last][-1:]]
    situation = Situation(
        entries=[_fingerprint(entry.message, intake) for entry in [*first, *last] if entry.message],
        stored=[
            Fingerprint(each.role, each.digest, each.created_at if each.at is None else each.at) for each in stored
        ],
        tracked="same file" if mark else _tracked_state(read),
        renewed=row.renewed_at is not None and row.renewed_at >= read_at,
        elsewhere=_is_elsewhere(store, intake, file.header, first),
        last_at=_time(newest[0]) if newest and newest[0] else None,
        sure=file.header.named and all(entry.own_time for entry in [*first, *last]),
    )
    return choose_destination(situation)


def _tracked_state(read: Sequence[Path]) -> Literal["none", "other file", "missing file"]:
    if not read:
        return "none"
    return "other file" if any(path.exists() for path in read) else "missing file"


def _is_elsewhere(store: Store, intake: Intake, header: Header, first: Sequence[TranscriptEntry]) -> bool:
    """Return whether the entries belong to an active conversation under an unrelated key."""
    if not header.named or header.parent_session is not None:
        return False
    key = intake.key
    channel = key.rpartition(":")[0]
    return any(
        row.active
        and row.transcribed
        and row.key != key
        and (
            not channel or row.key.rpartition(":")[0] != channel
        )  # threads of one channel may start with the same messages
        and known_entries(store, intake, row.id, first[:16])
        and not _is_fork_of(store, row, header.session)
        for row in store.conversations.of_owner()
    )


def _is_fork_of(store: Store, row: ConversationRow, session: str) -> bool:
    return any(load_mark(state).fork_of == session for *_, state in store.state.cursors(PREFIX, row.id))


def _fingerprint(message: Message, intake: Intake) -> Fingerprint:
    return Fingerprint(message.role, digest(intake.cleaned(message), intake.canonicalize), _time(message))


def _time(message: Message) -> int | None:
    return None if message.at is None else codec.micros(message.at)
