"""Copy a history into another conversation: the summaries of its context and everything below them.

It is a deep copy under new ids: the source does not change, and both are independent afterwards. The copy is older than
everything in the target, so it is placed before it. Its messages take the next seqs of the target and are reached through
their summaries only; their ordinals are 0 and below, where no seq is. They have no event ids, so no delivery of a host
matches them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lossless.engine.compaction.summary_source import file_ids
from lossless.engine.shared.promise import promise_violations
from lossless.engine.shared.transplanted_ranges import copy_digest
from lossless.errors import InvalidInput, NotFound, StoreCorrupt
from lossless.model import Transplant
from lossless.store import jsontext
from lossless.store.rows.types import (
    SPAN,
    ConversationRow,
    ItemRow,
    MessageRow,
    NewMessage,
    Touched,
    TransplantRow,
)
from lossless.store.store import Store

BATCH = 500
_SAME = ("text", "earliest_at", "latest_at")

T = TypeVar("T")


class _CopyPlan(Struct):
    """The summaries and messages that a transplant copies."""

    source: ConversationRow
    target: ConversationRow
    items: list[ItemRow]
    """The copied summaries of the source's context, in order."""
    below: dict[int, list[int]]
    """The sources of each summary of the source."""
    leaves: dict[int, list[int]]
    """The seqs below each leaf."""
    report: Transplant = Transplant(source="", target="", source_tokens=0, target_tokens=0)

    def summaries(self) -> list[int]:
        """Return the ids of the summaries, each after its sources."""
        return list(dict.fromkeys(each for item in self.items for each in _subtree(item.summary_id, self.below)))

    def seqs(self) -> list[int]:
        """Return the seqs of the messages in order."""
        return list(dict.fromkeys(seq for each in self.summaries() for seq in self.leaves.get(each, ())))

    def first(self, item: ItemRow) -> int:
        """Return the seq of the first message below an item."""
        found = (seq for each in _subtree(item.summary_id, self.below) for seq in self.leaves.get(each, ()))
        return next(found)


def plan(store: Store, source: int, target: int, *, dedupe: bool = False) -> Transplant:
    """Return the report of a dry run."""
    with store.snapshot():
        return _plan_copy(store, _conversation(store, source), _conversation(store, target), dedupe).report


def transplant(store: Store, source: int, target: int, *, now: int, dedupe: bool = False) -> Transplant:
    """Copy the history in one transaction, as an operation that can be undone."""
    with store.transaction():
        copy_plan = _lock_and_plan(store, source, target, dedupe)
        if not copy_plan.items:
            return replace(copy_plan.report, applied=True)
        into, copied = copy_plan.target, copy_plan.report
        text = f"{copied.summaries:,} summaries and {copied.messages:,} messages copied from {copied.source}"
        operation = store.operations.record(
            into.id, "transplant", now, {"source": copy_plan.source.id}, text, "planned"
        )
        with store.operations.recording(operation, Touched(into.id, fresh=True)):
            done = _copy_and_prove(store, copy_plan, now)
        store.operations.set_operation(operation, "applied", text)
        return done


def copy(store: Store, source: int, target: int, *, now: int) -> Transplant:
    """Copy the history as part of another operation, and prove the result."""
    copy_plan = _lock_and_plan(store, source, target, dedupe=False)
    return _copy_and_prove(store, copy_plan, now) if copy_plan.items else replace(copy_plan.report, applied=True)


def _lock_and_plan(store: Store, source: int, target: int, dedupe: bool) -> _CopyPlan:
    """Lock both conversations and plan the copy; refuse summaries that the target already has."""
    source_id, target_id = _conversation(store, source).id, _conversation(store, target).id
    # In a fixed order, so that two opposite transplants never deadlock.
    locked = {each: store.conversations.hold(each) for each in sorted((source_id, target_id))}
    copy_plan = _plan_copy(store, locked[source_id], locked[target_id], dedupe)
    if copy_plan.report.duplicates and not dedupe:
        raise InvalidInput(
            f"{len(copy_plan.report.duplicates):,} summaries are already in {copy_plan.target.key}.",
            hint="dedupe skips them. Nothing was changed.",
        )
    return copy_plan


def _copy_and_prove(store: Store, copy_plan: _CopyPlan, now: int) -> Transplant:
    before = promise_violations(store, copy_plan.target.id)
    made = _copy(store, copy_plan, now)
    if promise_violations(store, copy_plan.target.id) != before:
        raise StoreCorrupt(
            f"The history of {copy_plan.source.key} cannot be copied without loss.",
            hint="Nothing was changed in either.",
        )
    return replace(copy_plan.report, applied=True, made=made)


def _conversation(store: Store, id: int) -> ConversationRow:
    """Return a conversation by its id."""
    row = store.conversations.get(id)
    if row is None:
        raise NotFound("conversation", id)
    return row


def _plan_copy(store: Store, source: ConversationRow, target: ConversationRow, dedupe: bool) -> _CopyPlan:
    if source.id == target.id:
        raise InvalidInput(f"{source.key} would be copied into itself.", hint="Name two conversations.")
    items = store.context.items(source.id)
    below = _grouped(store.tables.part("summary_source", source.id, ("summary_id", "source_id")))
    order = ("summary_id", "message_id")
    leaves = _grouped((leaf, at % SPAN) for leaf, at in store.tables.part("summary_message", source.id, order, order))
    summaries = [item for item in items if not item.is_message]
    present = {_digest(*columns) for columns in store.tables.part("summary", target.id, _SAME)}
    names = {each[0]: each[1:] for each in _summaries(store, source.id, present)}
    known = {each for each, (_, _, is_present) in names.items() if is_present}

    def is_here(item: ItemRow) -> bool:
        # The leaves decide: two summaries of different sources may have the same text.
        return all(each in known for each in _subtree(item.summary_id, below) if each in leaves)

    copied = [item for item in summaries if not (dedupe and is_here(item))]
    copy_plan = _CopyPlan(source=source, target=target, items=copied, below=below, leaves=leaves)
    found = copy_plan.summaries()
    if not all(each in names and (each in below or each in leaves) for each in found):
        raise StoreCorrupt(f"Sources of summaries of {source.key} are missing.", hint="Nothing was changed.")
    duplicates = [each for item in summaries for each in _subtree(item.summary_id, below) if each in known]
    copy_plan.report = Transplant(
        source=source.key,
        target=target.key,
        source_tokens=source.context_tokens,
        target_tokens=target.context_tokens,
        tokens=sum(item.tokens for item in copied),
        depths=dict(sorted(Counter(names[each][1] for each in found).items())),
        messages=len(copy_plan.seqs()),
        uncovered=len(items) - len(summaries),
        duplicates=tuple(names[each][0] for each in dict.fromkeys(duplicates)),
        skipped=len(summaries) - len(copied),
    )
    return copy_plan


def _summaries(store: Store, conversation_id: int, present: set[bytes]) -> Iterator[tuple[int, str, int, bool]]:
    """Yield id, public id and depth of each summary, and whether the target already has it."""
    for identity, name, depth, *columns in store.tables.part(
        "summary", conversation_id, ("id", "public_id", "depth", *_SAME)
    ):
        yield identity, name, depth, _digest(*columns) in present


def _digest(text: str, earliest_at: int | None, latest_at: int | None) -> bytes:
    """Return the identity of a summary: the same text about other times is another summary."""
    return sha256(f"{earliest_at} {latest_at} {text}".encode()).digest()


def _grouped(pairs: Iterable[tuple[Any, ...]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one, other in pairs:
        found.setdefault(one, []).append(other)
    return found


def _subtree(summary_id: int | None, below: dict[int, list[int]]) -> Iterator[int]:
    """Yield a summary after all its sources, in order, each once, also in a damaged history with cycles."""
    waiting, seen = [(summary_id, False)], set[int]()
    while waiting:
        each, is_done = waiting.pop()
        if each is None:
            continue
        if is_done:
            yield each
        elif each not in seen:
            seen.add(each)
            waiting.append((each, True))
            waiting += [(source, False) for source in reversed(below.get(each, ()))]


def _copy(store: Store, copy_plan: _CopyPlan, now: int) -> tuple[str, ...]:
    """Copy messages, summaries and items; return the public ids of the summaries now in the context."""
    source, target = copy_plan.source, copy_plan.target
    first, old = target.next_seq, copy_plan.seqs()
    seqs = {seq: first + at for at, seq in enumerate(old)}
    mentioned = _messages(store, copy_plan, seqs)
    ids, names = _copies(store, copy_plan, mentioned)
    base = target.id * SPAN
    store.tables.take(
        "summary_message",
        ("message_id", "summary_id"),
        [(base + seqs[seq], ids[leaf]) for leaf in ids for seq in copy_plan.leaves.get(leaf, ())],
    )
    store.tables.take(
        "summary_source",
        ("summary_id", "source_id", "ordinal"),
        [(ids[each], ids[low], at) for each in ids for at, low in enumerate(copy_plan.below.get(each, ()))],
    )
    _revisions(store, source.id, ids)
    _files(store, copy_plan, mentioned)
    taken = [item.ordinal for item in store.context.items(target.id)]
    taken += [item.ordinal for item, _, _ in store.context.detached(target.id)]
    place = min([1, *taken]) - len(old)
    places = {seq: place + at for at, seq in enumerate(old)}
    shown = [(item, item.summary_id) for item in copy_plan.items if item.summary_id is not None]
    items = [
        ItemRow(ordinal=places[copy_plan.first(item)], summary_id=ids[each], tokens=item.tokens, depth=item.depth)
        for item, each in shown
    ]
    store.imported.graft(target.id, TransplantRow(first, first + len(old) - 1, place), items, now)
    return tuple(names[each] for _, each in shown)


def _messages(store: Store, copy_plan: _CopyPlan, seqs: dict[int, int]) -> set[str]:
    """Copy the messages under their new seqs; return the ids of the files they mention."""
    mentioned: set[str] = set()
    columns = ("id", *NewMessage.__struct_fields__)
    for batch in _batches(seqs):
        rows = store.messages.at(copy_plan.source.id, batch)
        if len(rows) < len(batch):
            raise StoreCorrupt(
                f"Messages below the summaries of {copy_plan.source.key} are missing.", hint="Nothing was changed."
            )
        mentioned.update(file_ids(words for row in rows for words in (row.text, row.parts or "")))
        copies = sorted((copy_plan.target.id * SPAN + seqs[row.seq], _as_copy(row)) for row in rows)
        store.tables.take("message", columns, [(identity, *values) for identity, values in copies])
    return mentioned


def _as_copy(row: MessageRow) -> tuple[Any, ...]:
    """Return the columns of a message without its event id and with the digest of a copy."""
    meta = None if row.meta is None else jsontext.loads(row.meta)
    if meta is not None and meta.pop("event_id", None) is not None:
        row = replace(row, meta=jsontext.dumps(meta) if meta else None)
    row = replace(row, event_id=None, digest=copy_digest(row.digest))
    return tuple(getattr(row, name) for name in NewMessage.__struct_fields__)


def _copies(store: Store, copy_plan: _CopyPlan, mentioned: set[str]) -> tuple[dict[int, int], dict[int, str]]:
    """Copy the summaries; return their new ids and public ids by the old ids."""
    old = sorted(copy_plan.summaries())
    ids = dict(zip(old, store.new_ids("summary", len(old)), strict=True))
    names = {each: f"sum_{os.urandom(8).hex()}" for each in old}
    columns = store.tables.shape("summary").columns
    rows = (dict(zip(columns, row, strict=True)) for row in store.tables.part("summary", copy_plan.source.id, columns))
    for batch in _batches(row for row in rows if row["id"] in ids):
        copies = []
        for row in batch:
            mentioned.update(jsontext.loads(row["file_ids"]))
            new = {"id": ids[row["id"]], "public_id": names[row["id"]], "origin": row["public_id"]}
            copies.append(tuple((row | new | {"conversation_id": copy_plan.target.id}).values()))
        store.tables.take("summary", columns, copies)
    return ids, names


def _revisions(store: Store, conversation_id: int, ids: dict[int, int]) -> None:
    """Copy the earlier revisions of the summaries."""
    columns = store.tables.shape("revision").columns
    at = columns.index("summary_id")
    rows = store.tables.part("revision", conversation_id, columns)
    for batch in _batches(row for row in rows if row[at] in ids):
        store.tables.take("revision", columns, [(*row[:at], ids[row[at]], *row[at + 1 :]) for row in batch])


def _files(store: Store, copy_plan: _CopyPlan, mentioned: set[str]) -> None:
    """Copy the rows of the files they mention; the bytes are shared."""
    store.hold_files(alone=False)
    for row in store.files.of_conversation(copy_plan.source.id):
        if row.id in mentioned:
            store.files.add(copy_plan.target.id, row)


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, BATCH)):
        yield batch
