"""What is read to assemble a context, and what is kept of having done so.

Only the newest items that could fit are read, and their rows in one query each: what a turn costs does not grow with the
history behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from hashlib import sha256
from weakref import WeakKeyDictionary

from msgspec import Struct, convert, json, structs

from lossless.engine.compaction import plan
from lossless.engine.compaction.plan import Limits
from lossless.engine.compaction.summarize import as_summary
from lossless.engine.context.assemble import Entry
from lossless.engine.context.summary_xml import as_message, as_pin
from lossless.errors import StoreCorrupt
from lossless.model import StoredMessage
from lossless.store.base import SPAN, ConversationRow, ItemRow, Manifest, MessageRow, NewManifest, SummaryRow
from lossless.store.rows import message_of, moment
from lossless.store.store import Store
from lossless.tokens import message_tokens

KEPT = 1_000
"""How many assemblies of a conversation are remembered."""
_FIRST, _MORE = 512, 8
_FRAME = 400
"""Bytes around the words of a message or a summary in a request."""
_MOST_BYTES = 2_000
_MOST_KNOWN = 10_000


class Read(Struct, frozen=True):
    """What could be shown of a conversation's view: its summaries, the newest words of the user, the newest messages."""

    entries: list[Entry]
    fresh: int
    """Where the fresh tail starts among them."""
    older: int
    """The tokens of the messages between them, which could not fit anyway."""


def read(store: Store, conversation: ConversationRow, limits: Limits, zone: tzinfo) -> Read:
    """Read the items that could fit into the budget, and always the newest words of the user."""
    count = max(_FIRST, 2 * limits.tail_count)
    items = store.context.newest(conversation.id, count)
    while len(items) == count and not _is_enough(items, limits):
        count *= _MORE
        items = store.context.newest(conversation.id, count)
    # Summaries are made of the oldest first: behind a backlog that was never compacted they stand at the beginning.
    oldest = store.context.oldest(conversation.id, _FIRST) if len(items) == count else []
    items = [item for item in oldest if item.ordinal < items[0].ordinal and not item.is_message] + items
    fresh = plan.tail_start(items, limits.tail_count, limits.tail_tokens)
    first = min(fresh, _affordable(items, limits.budget))
    earlier = _earlier(items, first, limits.budget)
    needed = [*earlier, *items[first:]]
    older = conversation.context_tokens - sum(item.tokens for item in needed)
    start = items[first].ordinal if first < len(items) else 0
    return Read(entries(store, conversation.id, needed, zone, first=start), fresh - first + len(earlier), max(0, older))


def _earlier(items: Sequence[ItemRow], first: int, budget: int) -> list[ItemRow]:
    """Return of the items before `first`: the newest words of the user, and the newest summaries that fit into the budget."""
    user = next((at for at in range(len(items) - 1, -1, -1) if items[at].is_user), len(items))
    found: list[ItemRow] = []
    for at in range(first - 1, -1, -1):
        if at == user:
            found.append(items[at])
        elif not items[at].is_message and budget >= 0:
            budget -= items[at].tokens
            found.append(items[at])
    return found[::-1]


def _is_enough(items: Sequence[ItemRow], limits: Limits) -> bool:
    """Return whether the fresh tail is among them, and as much before it as the budget could hold."""
    raw = sum(item.is_message for item in items)
    return (
        raw > limits.tail_count
        and any(item.is_user for item in items)
        and sum(item.tokens for item in items) > limits.budget
    )


def _affordable(items: Sequence[ItemRow], budget: int) -> int:
    """Return where the newest items start that fit into the budget; the one that does not is the last to be looked at."""
    total = 0
    for at in range(len(items) - 1, -1, -1):
        total += items[at].tokens
        if total > budget:
            return at
    return 0


def entries(
    store: Store, conversation_id: int, items: Sequence[ItemRow], zone: tzinfo, *, first: int | None = None
) -> list[Entry]:
    """Return the items as messages, each with its cost. From the ordinal `first` on they are all of the view."""
    if not items:
        return []
    first = items[0].ordinal if first is None else first
    messages = {row.seq: row for row in store.context.messages(conversation_id, first=first)}
    # What was summarised between the two questions is no item any more, and still a message.
    gone = [item.ordinal for item in items if item.summary_id is None and item.ordinal not in messages]
    if gone:
        messages |= {row.seq: row for row in store.messages.at(conversation_id, gone)}
    ids = [item.summary_id for item in items if item.summary_id is not None]
    summaries = {row.id: row for row in store.summaries.read(conversation_id, ids)} if ids else {}
    sources = _sources(store, conversation_id, [row.id for row in summaries.values() if row.depth])
    lost = sum((item.summary_id or item.ordinal) not in (summaries if item.summary_id else messages) for item in items)
    if lost:
        raise StoreCorrupt(
            f"{lost:,} of the context's items have no row any more.", hint="`lcm doctor` tells more; restore a backup."
        )
    return [
        stored_entry(conversation_id, messages[item.ordinal])
        if item.summary_id is None
        else summary_entry(summaries[item.summary_id], sources.get(item.summary_id, ()), zone)
        for item in items
    ]


_known: WeakKeyDictionary[Store, dict[int, tuple[str, ...]]] = WeakKeyDictionary()


def _sources(store: Store, conversation_id: int, ids: Sequence[int]) -> Mapping[int, tuple[str, ...]]:
    """Return what each of these summaries was made from. Remembered: a summary keeps its sources, whatever becomes of its text."""
    known = _known.setdefault(store, {})
    new = [identity for identity in ids if identity not in known]
    if new:
        if len(known) > _MOST_KNOWN:
            known.clear()
            new = list(ids)
        found = store.summaries.source_ids(conversation_id, new)
        known |= {identity: tuple(found.get(identity, ())) for identity in new}
    return known


def stored_entry(conversation_id: int, row: MessageRow) -> Entry:
    message = message_of(row)
    stored = StoredMessage(
        conversation_id * SPAN + row.seq, row.seq, row.tokens, row.digest, moment(row.created_at), message, row.outside
    )
    bulk, pictures, parts, meta = 6 * len(row.text) + _FRAME, 0, row.parts, row.meta
    if parts is not None:
        bulk += 4 * len(parts)
        pictures = parts.count('"type":"file"')
    if meta is not None:
        bulk += 4 * len(meta)
    return Entry(stored, message, row.tokens, None, row.created_at, bulk, pictures)


def summary_entry(row: SummaryRow, sources: Sequence[str], zone: tzinfo) -> Entry:
    summary = as_summary(row)
    message, tokens = as_message(summary, zone, tuple(sources))
    return Entry(summary, message, tokens, (row.id, row.revision), row.created_at, 6 * len(row.text) + _FRAME)


def system_entry(store: Store, conversation_id: int) -> Entry | None:
    """Return the newest system message, if it is in the context as it is."""
    item = store.context.newest_system(conversation_id)
    rows = store.messages.at(conversation_id, [item.ordinal]) if item else []
    return stored_entry(conversation_id, rows[0]) if rows else None


def pin_entries(store: Store, key: str) -> list[Entry]:
    """Return the pins of a key as messages."""
    shown = [as_pin(pin.id, pin.text) for pin in store.manifests.key_pins(key)]
    return [Entry(None, message, message_tokens(message)) for message in shown]


def manifest(
    kept: Sequence[Entry],
    fresh: int,
    *,
    at: int,
    window: int,
    tokens: int,
    reason: str,
    extra: str = "",
    uncovered: int = 0,
) -> NewManifest:
    """Return what an assembly showed, in at most two kilobytes."""
    names = [_name(entry) for entry in kept if entry.item is not None]
    shown = zlib.compress(json.encode(_ranges(names)), 6)
    if len(shown) > _MOST_BYTES:
        shown = b""  # a view in a thousand pieces: that it was assembled is kept, its prefix too
    prefix = sha256(json.encode([extra, *names[:fresh]])).hexdigest()[:16]
    return NewManifest(at, window, tokens, prefix, reason, shown, uncovered)


def _name(entry: Entry) -> int | tuple[int, int]:
    """Return a message's seq, or a summary's id and revision."""
    if entry.summary is not None:
        return entry.summary
    assert isinstance(entry.item, StoredMessage)
    return entry.item.seq


def _ranges(names: Sequence[int | tuple[int, int]]) -> list[list[int]]:
    """Runs of seqs as [first, last], summaries as [id, revision, 0]: what lies apart by length."""
    told: list[list[int]] = []
    for name in names:
        if isinstance(name, tuple):
            told.append([*name, 0])
        elif told and len(told[-1]) == 2 and told[-1][1] == name - 1:
            told[-1][1] = name
        else:
            told.append([name, name])
    return told


def shown_then(store: Store, conversation_id: int, found: Manifest, zone: tzinfo) -> tuple[list[Entry], int]:
    """Return the entries of an earlier assembly, summaries as worded then, and how many summaries were removed since."""
    told = convert(json.decode(zlib.decompress(found.shown)), list[list[int]]) if found.shown else []
    seqs = [seq for piece in told if len(piece) == 2 for seq in range(piece[0], piece[1] + 1)]
    ids = [piece[0] for piece in told if len(piece) == 3]
    messages = {row.seq: row for row in store.messages.at(conversation_id, seqs)} if seqs else {}
    summaries = {row.id: row for row in store.summaries.read(conversation_id, ids)} if ids else {}
    earlier = store.summaries.revisions(conversation_id, ids) if ids else {}
    sources = store.summaries.source_ids(conversation_id, ids) if ids else {}
    shown: list[Entry] = []
    for piece in told:
        if len(piece) == 3 and piece[0] in summaries:
            row = _as_of(summaries[piece[0]], piece[1], earlier)
            shown.append(summary_entry(row, sources.get(piece[0], ()), zone))
        elif len(piece) == 2:
            there = (messages[seq] for seq in range(piece[0], piece[1] + 1) if seq in messages)
            shown += [stored_entry(conversation_id, row) for row in there]
    return shown, len(ids) - len(summaries)


def _as_of(row: SummaryRow, revision: int, earlier: dict[tuple[int, int], str]) -> SummaryRow:
    text = earlier.get((row.id, revision), row.text)
    return structs.replace(row, text=text, revision=revision)
