"""Find the messages of a delivery that the host or its transcript has delivered before."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from lossless.engine.ingest.match_host_and_transcript import (
    PROGRESS,
    Progress,
    SourceMessage,
    Stream,
    match_messages,
    provider_key,
)
from lossless.engine.shared.transplanted_ranges import is_copied, own_after
from lossless.store.rows import codec
from lossless.store.rows.types import ConversationRow, MessageRow
from lossless.store.store import Store

_BEHIND = 1_000
"""Number of stored messages searched for those of the other source."""
_SECOND = 1_000_000
_AGAIN = 200
"""Number of stored messages searched for its own."""


class Duplicates(Struct):
    """The messages of a delivery, by index, that were delivered before."""

    progress: Progress = field(default_factory=Progress)
    rows: dict[int, MessageRow] = field(default_factory=dict)
    """The stored rows."""
    twins: set[int] = field(default_factory=set)
    """Those that came earlier in the same delivery, with the same time and text."""
    pending: bool = False
    """The host has delivered messages that its transcript does not contain yet."""


def find_duplicates(
    store: Store,
    conversation: ConversationRow,
    stream: Stream,
    incoming: Sequence[SourceMessage],
    seqs: Sequence[int],
    *,
    followed: bool = False,
) -> Duplicates:
    """Return the messages delivered before; `seqs` are the stored ones that the delivery names by id."""
    duplicates = Duplicates(Progress.load(store.state.cursor(conversation.id, PROGRESS)))
    if conversation.next_seq > 1:
        _find_other_side(store, conversation, stream, incoming, seqs, duplicates, followed)
        _find_own(store, conversation, stream, incoming, duplicates)
    if stream == "transcript":
        duplicates.twins = _repeated(incoming) - duplicates.rows.keys()
    return duplicates


def _find_other_side(
    store: Store,
    conversation: ConversationRow,
    stream: Stream,
    incoming: Sequence[SourceMessage],
    seqs: Sequence[int],
    duplicates: Duplicates,
    followed: bool,
) -> None:
    """Match messages that only the other source has delivered so far: they are after this source's frontier."""
    progress, complete = duplicates.progress, stream == "transcript"
    before = progress.frontier(stream)
    progress.advance(stream, max(seqs, default=0))
    frontier = progress.frontier(stream)
    copied = store.imported.transplants(conversation.id)
    after = max(frontier, own_after(copied, conversation, _BEHIND))
    behind = store.messages.read(conversation.id, after=after) if incoming else []
    others = [row for row in behind if not ((complete and progress.is_own(row.seq)) or is_copied(copied, row.seq))]
    unsure = progress.timeless and not complete
    stored = [
        SourceMessage(row.digest, None if unsure else row.at, provider_key(codec.message_of(row))) for row in others
    ]
    follows = after == before == frontier > 0
    pairs = match_messages(incoming, stored, complete=complete, follows=follows, followed=followed)
    duplicates.rows = {at: others[place] for at, place in pairs.items()}
    found = {row.seq for row in duplicates.rows.values()}
    progress.advance(stream, max(found, default=0))
    duplicates.pending = complete and any(row.seq > progress.transcript and row.seq not in found for row in others)


def _find_own(
    store: Store,
    conversation: ConversationRow,
    stream: Stream,
    incoming: Sequence[SourceMessage],
    duplicates: Duplicates,
) -> None:
    """Match messages with a past time and the same text: they were delivered before, not said again.

    A host that names its messages has sent two if the names differ; and for one that counts in seconds the same second proves
    nothing.
    """
    again = {
        at: message
        for at, message in enumerate(incoming)
        if message.at is not None
        and at not in duplicates.rows
        and (stream == "transcript" or (not message.named and message.at % _SECOND))
    }
    if not any(message.at is not None and message.at <= duplicates.progress.newest for message in again.values()):
        return
    behind = store.messages.read(conversation.id, after=max(0, conversation.next_seq - 1 - _AGAIN))
    stored = {(row.digest, row.at): row for row in behind}
    duplicates.rows |= {at: row for at, message in again.items() if (row := stored.get((message.digest, message.at)))}


def _repeated(incoming: Sequence[SourceMessage]) -> set[int]:
    """Return the messages that came earlier in the same delivery, with the same time and text."""
    seen, found = set[tuple[bytes, int]](), set[int]()
    for at, message in enumerate(incoming):
        if message.at is not None:
            if (message.digest, message.at) in seen:
                found.add(at)
            seen.add((message.digest, message.at))
    return found
