"""Load what a context may contain, and record what was shown.

Only the newest items that could fit are read, with one query for each kind of row: the cost of a turn does not grow with
the history.
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
from lossless.engine.context.fit_budget import ViewEntry
from lossless.engine.context.summary_xml import as_brief, as_message, as_pin
from lossless.errors import StoreCorrupt
from lossless.model import StoredMessage
from lossless.session_patterns import is_scheduled
from lossless.store.rows.codec import message_of, moment
from lossless.store.rows.types import (
    SPAN,
    BriefRow,
    ConversationRow,
    ItemRow,
    Manifest,
    MessageRow,
    NewManifest,
    SummaryRow,
)
from lossless.store.store import Store
from lossless.tokens import message_tokens

KEPT = 1_000
"""The number of manifests that are kept for a conversation."""
BRIEF_SHARE = 8
"""A brief takes at most this part of a budget: one eighth."""
_FIRST, _MORE = 512, 8
_FRAME = 400
"""Bytes around the words of a message or a summary in a request."""
_MOST_BYTES = 2_000
_MOST_KNOWN = 10_000


class LoadedView(Struct, frozen=True):
    """The loaded part of a view: summaries, the newest words of the user, the newest messages."""

    entries: list[ViewEntry]
    fresh: int
    """The index of the fresh tail among them."""
    older: int
    """The tokens of the messages in between, which could not fit."""


def load_view(store: Store, conversation: ConversationRow, limits: Limits, zone: tzinfo) -> LoadedView:
    """Load the items that could fit into the budget, and always the newest words of the user."""
    count = max(_FIRST, 2 * limits.tail_count)
    items = store.context.newest(conversation.id, count)
    while len(items) == count and not _is_enough(items, limits):
        count *= _MORE
        items = store.context.newest(conversation.id, count)
    # The oldest messages are summarised first: before a long backlog, summaries are at the beginning.
    oldest = store.context.oldest(conversation.id, _FIRST) if len(items) == count else []
    items = [item for item in oldest if item.ordinal < items[0].ordinal and not item.is_message] + items
    fresh = plan.tail_start(items, limits.tail_count, limits.tail_tokens)
    first = min(fresh, _affordable(items, limits.budget))
    earlier = _earlier_items(items, first, limits.budget)
    needed = [*earlier, *items[first:]]
    older = conversation.context_tokens - sum(item.tokens for item in needed)
    start = items[first].ordinal if first < len(items) else 0
    return LoadedView(
        entries(store, conversation.id, needed, zone, first=start), fresh - first + len(earlier), max(0, older)
    )


def _earlier_items(items: Sequence[ItemRow], first: int, budget: int) -> list[ItemRow]:
    """Return the newest user message and the newest summaries before `first` that fit."""
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
    """Return True if the items include the fresh tail and as much before it as could fit."""
    raw = sum(item.is_message for item in items)
    return (
        raw > limits.tail_count
        and any(item.is_user for item in items)
        and sum(item.tokens for item in items) > limits.budget
    )


def _affordable(items: Sequence[ItemRow], budget: int) -> int:
    """Return the index of the first of the newest items that fit, and one more."""
    total = 0
    for at in range(len(items) - 1, -1, -1):
        total += items[at].tokens
        if total > budget:
            return at
    return 0


def entries(
    store: Store, conversation_id: int, items: Sequence[ItemRow], zone: tzinfo, *, first: int | None = None
) -> list[ViewEntry]:
    """Return the items as messages with their tokens. From the ordinal `first` on, all of them."""
    if not items:
        return []
    first = items[0].ordinal if first is None else first
    messages = {row.seq: row for row in store.context.messages(conversation_id, first=first)}
    # A message that was summarised between the two queries is no longer an item.
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
    """Return the sources of each summary. They never change, so they are cached."""
    known = _known.setdefault(store, {})
    new = [identity for identity in ids if identity not in known]
    if new:
        if len(known) > _MOST_KNOWN:
            known.clear()
            new = list(ids)
        found = store.summaries.source_ids(conversation_id, new)
        known |= {identity: tuple(found.get(identity, ())) for identity in new}
    return known


def stored_entry(conversation_id: int, row: MessageRow) -> ViewEntry:
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
    return ViewEntry(stored, message, row.tokens, None, row.created_at, bulk, pictures)


def summary_entry(row: SummaryRow, sources: Sequence[str], zone: tzinfo) -> ViewEntry:
    summary = as_summary(row)
    message, tokens = as_message(summary, zone, tuple(sources))
    return ViewEntry(summary, message, tokens, (row.id, row.revision), row.created_at, 6 * len(row.text) + _FRAME)


def system_entry(store: Store, conversation_id: int) -> ViewEntry | None:
    """Return the newest system message, if it is in the context as a message."""
    item = store.context.newest_system(conversation_id)
    rows = store.messages.at(conversation_id, [item.ordinal]) if item else []
    return stored_entry(conversation_id, rows[0]) if rows else None


def pin_entries(store: Store, key: str) -> list[ViewEntry]:
    """Return the pins of a key as messages."""
    shown = [as_pin(pin.id, pin.text) for pin in store.manifests.key_pins(key)]
    return [ViewEntry(None, message, message_tokens(message)) for message in shown]


def active_brief(store: Store, row: ConversationRow) -> BriefRow | None:
    """Return the brief that a conversation shows. Each run of a scheduled job has its own."""
    brief = store.briefs.active(row.key)
    return None if brief is None or (is_scheduled(row.key) and brief.conversation_id != row.id) else brief


def brief_entry(store: Store, row: ConversationRow, budget: int) -> tuple[str, ViewEntry | None]:
    """Return the id of the active brief, and the entry that shows it in its share of the budget, if that is enough."""
    brief = active_brief(store, row)
    if brief is None:
        return "", None
    shown = as_brief(*brief_texts(brief), budget // BRIEF_SHARE)
    return brief.id, None if shown is None else ViewEntry(None, *shown)


def brief_texts(brief: BriefRow) -> tuple[str, str, str, str]:
    """Return what of a brief is shown to a model."""
    return brief.id, brief.task, brief.text, "extractive" if brief.model == "extractive" else "model"


def manifest(
    kept: Sequence[ViewEntry],
    fresh: int,
    *,
    at: int,
    window: int,
    tokens: int,
    reason: str,
    extra: str = "",
    uncovered: int = 0,
) -> NewManifest:
    """Return the manifest of an assembly, in at most two kilobytes."""
    names = [_name(entry) for entry in kept if entry.item is not None]
    shown = zlib.compress(json.encode(_ranges(names)), 6)
    if len(shown) > _MOST_BYTES:
        shown = b""  # too many runs: keep the fact and the prefix
    prefix = sha256(json.encode([extra, *names[:fresh]])).hexdigest()[:16]
    return NewManifest(at, window, tokens, prefix, reason, shown, uncovered)


def _name(entry: ViewEntry) -> int | tuple[int, int]:
    """Return the seq of a message, or the id and revision of a summary."""
    if entry.summary is not None:
        return entry.summary
    assert isinstance(entry.item, StoredMessage)
    return entry.item.seq


def _ranges(names: Sequence[int | tuple[int, int]]) -> list[list[int]]:
    """Return runs of seqs as [first, last], and summaries as [id, revision, 0]."""
    runs: list[list[int]] = []
    for name in names:
        if isinstance(name, tuple):
            runs.append([*name, 0])
        elif runs and len(runs[-1]) == 2 and runs[-1][1] == name - 1:
            runs[-1][1] = name
        else:
            runs.append([name, name])
    return runs


def manifest_entries(store: Store, conversation_id: int, found: Manifest, zone: tzinfo) -> tuple[list[ViewEntry], int]:
    """Return the entries of an earlier assembly with the texts of then, and the number of removed summaries."""
    runs = convert(json.decode(zlib.decompress(found.shown)), list[list[int]]) if found.shown else []
    seqs = [seq for piece in runs if len(piece) == 2 for seq in range(piece[0], piece[1] + 1)]
    ids = [piece[0] for piece in runs if len(piece) == 3]
    messages = {row.seq: row for row in store.messages.at(conversation_id, seqs)} if seqs else {}
    summaries = {row.id: row for row in store.summaries.read(conversation_id, ids)} if ids else {}
    earlier = store.summaries.revisions(conversation_id, ids) if ids else {}
    sources = store.summaries.source_ids(conversation_id, ids) if ids else {}
    shown: list[ViewEntry] = []
    for piece in runs:
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
