"""Look back for what a delivery tells a second time: the other side's words, or its own."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from lossless.engine.ingest.two_sources import PROGRESS, Progress, Said, Stream, provider_key, told_before
from lossless.engine.shared.transplanted_ranges import is_copied, own_after
from lossless.store import rows
from lossless.store.base import ConversationRow, MessageRow
from lossless.store.store import Store

_BEHIND = 1_000
"""How far back the words of the other side are looked for."""
_SECOND = 1_000_000
_AGAIN = 200
"""How far back its own are."""


class Told(Struct):
    """What a delivery tells a second time, by its indexes."""

    progress: Progress = field(default_factory=Progress)
    rows: dict[int, MessageRow] = field(default_factory=dict)
    """What is stored of it."""
    twins: set[int] = field(default_factory=set)
    """What came earlier in the same delivery, at the same time in the same words."""
    pending: bool = False
    """Whether the host has told messages that its transcript is still to tell."""


def look_back(
    store: Store,
    conversation: ConversationRow,
    stream: Stream,
    incoming: Sequence[Said],
    seqs: Sequence[int],
    *,
    followed: bool = False,
) -> Told:
    """What of a delivery was told before, given the messages that it names by ids which are known (`seqs`)."""
    told = Told(Progress.load(store.state.cursor(conversation.id, PROGRESS)))
    if conversation.next_seq > 1:
        _other_side(store, conversation, stream, incoming, seqs, told, followed)
        _itself(store, conversation, stream, incoming, told)
    if stream == "transcript":
        told.twins = _repeated(incoming) - told.rows.keys()
    return told


def _other_side(
    store: Store,
    conversation: ConversationRow,
    stream: Stream,
    incoming: Sequence[Said],
    seqs: Sequence[int],
    told: Told,
    followed: bool,
) -> None:
    """What only the other side has told so far lies behind this side's frontier."""
    progress, complete = told.progress, stream == "transcript"
    before = progress.reached(stream)
    progress.tell(stream, max(seqs, default=0))
    frontier = progress.reached(stream)
    copied = store.imported.transplants(conversation.id)
    after = max(frontier, own_after(copied, conversation, _BEHIND))
    behind = store.messages.read(conversation.id, after=after) if incoming else []
    others = [row for row in behind if not ((complete and progress.is_own(row.seq)) or is_copied(copied, row.seq))]
    unsure = progress.timeless and not complete
    stored = [Said(row.digest, None if unsure else row.at, provider_key(rows.message_of(row))) for row in others]
    follows = after == before == frontier > 0
    pairs = told_before(incoming, stored, complete=complete, follows=follows, followed=followed)
    told.rows = {at: others[place] for at, place in pairs.items()}
    found = {row.seq for row in told.rows.values()}
    progress.tell(stream, max(found, default=0))
    told.pending = complete and any(row.seq > progress.transcript and row.seq not in found for row in others)


def _itself(store: Store, conversation: ConversationRow, stream: Stream, incoming: Sequence[Said], told: Told) -> None:
    """What was said at a time that is past already, in the same words, is not said again but told again.

    A host that has names for what it tells has told two things if the names differ; and of one that counts in seconds
    the same second proves nothing.
    """
    again = {
        at: said
        for at, said in enumerate(incoming)
        if said.at is not None
        and at not in told.rows
        and (stream == "transcript" or (not said.named and said.at % _SECOND))
    }
    if not any(said.at is not None and said.at <= told.progress.newest for said in again.values()):
        return
    behind = store.messages.read(conversation.id, after=max(0, conversation.next_seq - 1 - _AGAIN))
    stored = {(row.digest, row.at): row for row in behind}
    told.rows |= {at: row for at, said in again.items() if (row := stored.get((said.digest, said.at)))}


def _repeated(incoming: Sequence[Said]) -> set[int]:
    seen, found = set[tuple[bytes, int]](), set[int]()
    for at, said in enumerate(incoming):
        if said.at is not None:
            if (said.digest, said.at) in seen:
                found.add(at)
            seen.add((said.digest, said.at))
    return found
