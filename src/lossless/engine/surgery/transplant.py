"""Carry history over into another conversation: the summaries of its context, and everything beneath them.

A deep copy under new ids: nothing of the source changes, and the two go their own ways afterwards. What is copied is older
than whatever the target holds, so it stands before all of it. Its messages take the target's next seqs, and are reached
through their summaries alone; their places in the order are 0 and below, where no seq is. They are copies and not what a host
told here: they have no event ids, and no delivery is ever taken for them.
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
from lossless.store.base import (
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


class _Copying(Struct):
    """What a transplant takes along."""

    source: ConversationRow
    target: ConversationRow
    items: list[ItemRow]
    """The summaries of the source's context that are copied, in their order."""
    below: dict[int, list[int]]
    """The sources of each summary of the source."""
    leaves: dict[int, list[int]]
    """The seqs below each leaf."""
    told: Transplant = Transplant("", "", 0, 0)

    def summaries(self) -> list[int]:
        """The ids of the summaries, each after what it was made from."""
        return list(dict.fromkeys(each for item in self.items for each in _beneath(item.summary_id, self.below)))

    def seqs(self) -> list[int]:
        """The seqs of the messages, in the order in which they were said."""
        return list(dict.fromkeys(seq for each in self.summaries() for seq in self.leaves.get(each, ())))

    def first(self, item: ItemRow) -> int:
        """The seq of the first message that an item stands for."""
        found = (seq for each in _beneath(item.summary_id, self.below) for seq in self.leaves.get(each, ()))
        return next(found)


def plan(store: Store, source: int, target: int, *, dedupe: bool = False) -> Transplant:
    """What a transplant would do; nothing is written."""
    with store.snapshot():
        return _collected(store, _found(store, source), _found(store, target), dedupe).told


def transplant(store: Store, source: int, target: int, *, now: int, dedupe: bool = False) -> Transplant:
    """Copy the history in one transaction, as an operation that can be undone."""
    with store.transaction():
        copying = _held(store, source, target, dedupe)
        if not copying.items:
            return replace(copying.told, applied=True)
        into, copied = copying.target, copying.told
        text = f"{copied.summaries:,} summaries and {copied.messages:,} messages copied from {copied.source}"
        operation = store.operations.record(into.id, "transplant", now, {"source": copying.source.id}, text, "planned")
        with store.operations.recording(operation, Touched(into.id, fresh=True)):
            done = _proved(store, copying, now)
        store.operations.set_operation(operation, "applied", text)
        return done


def copy(store: Store, source: int, target: int, *, now: int) -> Transplant:
    """Copy the history as a part of another operation, and prove it."""
    copying = _held(store, source, target, dedupe=False)
    return _proved(store, copying, now) if copying.items else replace(copying.told, applied=True)


def _held(store: Store, source: int, target: int, dedupe: bool) -> _Copying:
    """Hold both conversations, and collect what is copied; refuse what stands there already."""
    whence, where = _found(store, source).id, _found(store, target).id
    # In one order, so that two transplants that cross never wait for each other.
    held = {each: store.conversations.hold(each) for each in sorted((whence, where))}
    copying = _collected(store, held[whence], held[where], dedupe)
    if copying.told.duplicates and not dedupe:
        raise InvalidInput(
            f"{len(copying.told.duplicates):,} summaries stand in {copying.target.key} already.",
            hint="Say dedupe to leave out what is there; nothing was changed.",
        )
    return copying


def _proved(store: Store, copying: _Copying, now: int) -> Transplant:
    before = promise_violations(store, copying.target.id)
    made = _copy(store, copying, now)
    if promise_violations(store, copying.target.id) != before:
        raise StoreCorrupt(
            f"The history of {copying.source.key} cannot be copied whole.", hint="Nothing was changed in either."
        )
    return replace(copying.told, applied=True, made=made)


def _found(store: Store, id: int) -> ConversationRow:
    """Return a conversation by its id."""
    row = store.conversations.get(id)
    if row is None:
        raise NotFound("conversation", id)
    return row


def _collected(store: Store, source: ConversationRow, target: ConversationRow, dedupe: bool) -> _Copying:
    if source.id == target.id:
        raise InvalidInput(f"{source.key} would be copied into itself.", hint="Name two conversations.")
    items = store.context.items(source.id)
    below = _grouped(store.tables.part("summary_source", source.id, ("summary_id", "source_id")))
    order = ("summary_id", "message_id")
    leaves = _grouped((leaf, at % SPAN) for leaf, at in store.tables.part("summary_message", source.id, order, order))
    wanted = [item for item in items if not item.is_message]
    there = {_digest(*told) for told in store.tables.part("summary", target.id, _SAME)}
    names = {each[0]: each[1:] for each in _summaries(store, source.id, there)}
    known = {each for each, (_, _, is_there) in names.items() if is_there}

    def is_here(item: ItemRow) -> bool:
        # The leaves decide: two that condense different things may well read alike.
        return all(each in known for each in _beneath(item.summary_id, below) if each in leaves)

    copied = [item for item in wanted if not (dedupe and is_here(item))]
    copying = _Copying(source, target, copied, below, leaves)
    found = copying.summaries()
    if not all(each in names and (each in below or each in leaves) for each in found):
        raise StoreCorrupt(f"What summaries of {source.key} were made from is gone.", hint="Nothing was changed.")
    twice = [each for item in wanted for each in _beneath(item.summary_id, below) if each in known]
    copying.told = Transplant(
        source.key,
        target.key,
        source.context_tokens,
        target.context_tokens,
        sum(item.tokens for item in copied),
        dict(sorted(Counter(names[each][1] for each in found).items())),
        len(copying.seqs()),
        len(items) - len(wanted),
        tuple(names[each][0] for each in dict.fromkeys(twice)),
        len(wanted) - len(copied),
    )
    return copying


def _summaries(store: Store, conversation_id: int, there: set[bytes]) -> Iterator[tuple[int, str, int, bool]]:
    """Id, public id and depth of each summary, and whether it stands in the target already."""
    for identity, name, depth, *told in store.tables.part(
        "summary", conversation_id, ("id", "public_id", "depth", *_SAME)
    ):
        yield identity, name, depth, _digest(*told) in there


def _digest(text: str, earliest_at: int | None, latest_at: int | None) -> bytes:
    """The witness of a summary: the same words about other times tell of something else."""
    return sha256(f"{earliest_at} {latest_at} {text}".encode()).digest()


def _grouped(pairs: Iterable[tuple[Any, ...]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one, other in pairs:
        found.setdefault(one, []).append(other)
    return found


def _beneath(summary_id: int | None, below: dict[int, list[int]]) -> Iterator[int]:
    """A summary and all it was made from, in order, itself at the end; each once, also where a damaged history leads back."""
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


def _copy(store: Store, copying: _Copying, now: int) -> tuple[str, ...]:
    """Messages, then summaries, then their places; the public ids of those that stand in the context now."""
    source, target = copying.source, copying.target
    first, old = target.next_seq, copying.seqs()
    seqs = {seq: first + at for at, seq in enumerate(old)}
    mentioned = _messages(store, copying, seqs)
    ids, names = _copies(store, copying, mentioned)
    base = target.id * SPAN
    store.tables.take(
        "summary_message",
        ("message_id", "summary_id"),
        [(base + seqs[seq], ids[leaf]) for leaf in ids for seq in copying.leaves.get(leaf, ())],
    )
    store.tables.take(
        "summary_source",
        ("summary_id", "source_id", "ordinal"),
        [(ids[each], ids[low], at) for each in ids for at, low in enumerate(copying.below.get(each, ()))],
    )
    _revisions(store, source.id, ids)
    _files(store, copying, mentioned)
    taken = [item.ordinal for item in store.context.items(target.id)]
    taken += [item.ordinal for item, _, _ in store.context.detached(target.id)]
    place = min([1, *taken]) - len(old)
    places = {seq: place + at for at, seq in enumerate(old)}
    shown = [(item, item.summary_id) for item in copying.items if item.summary_id is not None]
    items = [ItemRow(places[copying.first(item)], ids[each], item.tokens, item.depth) for item, each in shown]
    store.imported.graft(target.id, TransplantRow(first, first + len(old) - 1, place), items, now)
    return tuple(names[each] for _, each in shown)


def _messages(store: Store, copying: _Copying, seqs: dict[int, int]) -> set[str]:
    """The messages under their new seqs; the ids of the files they mention."""
    mentioned: set[str] = set()
    columns = ("id", *NewMessage.__struct_fields__)
    for batch in _batches(seqs):
        rows = store.messages.at(copying.source.id, batch)
        if len(rows) < len(batch):
            raise StoreCorrupt(
                f"Messages below the summaries of {copying.source.key} are gone.", hint="Nothing was changed."
            )
        mentioned.update(file_ids(words for row in rows for words in (row.text, row.parts or "")))
        told = sorted((copying.target.id * SPAN + seqs[row.seq], _as_copy(row)) for row in rows)
        store.tables.take("message", columns, [(identity, *values) for identity, values in told])
    return mentioned


def _as_copy(row: MessageRow) -> tuple[Any, ...]:
    """The columns of a message, less all by which a delivery could be taken for it."""
    meta = None if row.meta is None else jsontext.loads(row.meta)
    if meta is not None and meta.pop("event_id", None) is not None:
        row = replace(row, meta=jsontext.dumps(meta) if meta else None)
    row = replace(row, event_id=None, digest=copy_digest(row.digest))
    return tuple(getattr(row, name) for name in NewMessage.__struct_fields__)


def _copies(store: Store, copying: _Copying, mentioned: set[str]) -> tuple[dict[int, int], dict[int, str]]:
    """The summaries with all that is known of them; their new ids and public ids, by the old ids."""
    old = sorted(copying.summaries())
    ids = dict(zip(old, store.new_ids("summary", len(old)), strict=True))
    names = {each: f"sum_{os.urandom(8).hex()}" for each in old}
    columns = store.tables.shape("summary").columns
    rows = (dict(zip(columns, row, strict=True)) for row in store.tables.part("summary", copying.source.id, columns))
    for batch in _batches(row for row in rows if row["id"] in ids):
        told = []
        for row in batch:
            mentioned.update(jsontext.loads(row["file_ids"]))
            new = {"id": ids[row["id"]], "public_id": names[row["id"]], "origin": row["public_id"]}
            told.append(tuple((row | new | {"conversation_id": copying.target.id}).values()))
        store.tables.take("summary", columns, told)
    return ids, names


def _revisions(store: Store, conversation_id: int, ids: dict[int, int]) -> None:
    """What they said before they were made anew."""
    columns = store.tables.shape("revision").columns
    at = columns.index("summary_id")
    rows = store.tables.part("revision", conversation_id, columns)
    for batch in _batches(row for row in rows if row[at] in ids):
        store.tables.take("revision", columns, [(*row[:at], ids[row[at]], *row[at + 1 :]) for row in batch])


def _files(store: Store, copying: _Copying, mentioned: set[str]) -> None:
    """What is known of the files they mention; the bytes are the same ones."""
    store.hold_files(alone=False)
    for row in store.files.of_conversation(copying.source.id):
        if row.id in mentioned:
            store.files.add(copying.target.id, row)


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, BATCH)):
        yield batch
