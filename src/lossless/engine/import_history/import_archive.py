"""Restore the conversations of an archive unchanged, under new numbers.

Unlike an import from another system, nothing is computed again: tokens, times, summaries and their positions are those that
were exported. A conversation is restored in one transaction; one that was restored before is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any, TypeVar

from msgspec import MsgspecError, Struct, convert
from msgspec.structs import asdict

from lossless.engine.backup.export_archive import IMPORTED
from lossless.engine.context.summary_xml import as_pin
from lossless.engine.ingest.match_host_and_transcript import PROGRESS, Progress
from lossless.engine.ingest.resent_list import DIGEST_BYTES
from lossless.engine.shared.file_store import Files
from lossless.engine.sync.read_marks import PREFIX, ReadMark
from lossless.errors import InvalidInput
from lossless.imports.base import History, PastFile, PastItem, PastMessage, PastSummary, Source
from lossless.model import instant
from lossless.store import jsontext
from lossless.store.rows import codec
from lossless.store.rows.types import SPAN, FileRow, PinRow
from lossless.store.store import Store
from lossless.tokens import message_tokens

BATCH = 500

T = TypeVar("T")
_Row = tuple[Any, ...]


def unpack(
    store: Store,
    files: Files,
    source: Source,
    *,
    now: int,
    progress: Callable[[History], None] | None = None,
    trust_pins: bool = False,
) -> dict[str, int]:
    """Restore every exact history of a source that is not here yet; return the conversation of each, by its ref.

    Pins have the operator's authority, so they are imported only with `trust_pins`, even if the rest is here already. A
    conversation that still exists unchanged, because it was never removed, is left as it is. Where its key has an active
    conversation already, it becomes an archived one of the same family.
    """
    mark = f"{IMPORTED}{source.identity}:"
    placed = {state["ref"]: conversation_id for conversation_id, _, state in store.state.cursors(mark)}
    histories = [history for history in source.histories() if history.exact]
    for history in histories:
        _check_cursors(history)
    for history in histories:
        if history.ref not in placed:
            with store.transaction():
                there = find_existing(store, source, history, placed.values(), pins=trust_pins)
                placed[history.ref] = there or _Unpacker(store, files, source, history, now).all()
                store.state.set_cursor(placed[history.ref], mark + history.ref, {"ref": history.ref}, now)
            if progress:
                progress(history)
    with store.transaction():
        for history in histories if trust_pins else ():
            _add_pins(store, placed[history.ref], history)
        for history in histories:
            if history.continues_ref or history.parent_ref:
                continues, parent = (placed.get(ref or "") for ref in (history.continues_ref, history.parent_ref))
                store.tables.relate(placed[history.ref], continues=continues, parent=parent)
    return placed


def _add_pins(store: Store, conversation_id: int, history: History) -> None:
    for pin in history.pins:
        message = None if pin.ref is None else conversation_id * SPAN + int(pin.ref)
        tokens = message_tokens(as_pin(pin.id, pin.text))
        store.manifests.add_pin(
            conversation_id,
            PinRow(id=pin.id, message_id=message, text=pin.text, tokens=tokens, created_at=_micros(pin.created_at)),
        )


def _check_cursors(history: History) -> None:
    """Refuse a cursor that its reader would not accept, or that points outside the conversation."""
    for cursor in history.cursors:
        shape = next((kind for prefix, kind in _SHAPES.items() if cursor.source.split(":")[0] == prefix), None)
        try:
            is_invalid = shape is not None and _is_invalid(convert(cursor.state, shape), history.messages)
        except (MsgspecError, ValueError, TypeError):
            is_invalid = True
        if is_invalid or cursor.source.startswith(IMPORTED) or not jsontext.is_clean(cursor.source):
            raise InvalidInput(
                f"The cursor {cursor.source!r} of {history.key!r} is not one of lossless.",
                hint="Nothing was imported from the archive.",
            )


class _ListCursor(Struct, rename={"start": "from"}):
    """The last list that a host which always sends everything has sent."""

    sent: str
    seq: int
    start: int = 0


class _SeqCursor(Struct):
    """A cursor that is a seq."""

    seq: int


_SHAPES: dict[str, Any] = {
    PREFIX.rstrip(":"): ReadMark,
    "whole": _ListCursor,
    "renewed": _SeqCursor,
    "heartbeats": int,
    PROGRESS: Progress,
}
"""The type of the state of each kind of cursor."""


def _is_invalid(state: Any, messages: int) -> bool:
    match state:
        case _ListCursor(sent, seq, start):
            return not (0 <= seq <= messages and 0 <= start <= messages) or len(bytes.fromhex(sent)) % DIGEST_BYTES > 0
        case _SeqCursor(seq) | int(seq):
            return not 0 <= seq <= messages
        case Progress(live, transcript, own):
            return not all(0 <= seq <= messages for seq in (live, transcript, *chain.from_iterable(own)))
        case ReadMark(offset=offset, number=number):
            return not (0 <= offset < 1 << 62 and 0 <= number < 1 << 62)
    return False


def find_existing(
    store: Store, source: Source, history: History, besides: Collection[int] = (), *, pins: bool = False
) -> int | None:
    """Return the conversation here that starts with all messages of a history, under the same key.

    With `pins` it must have those, too.
    """
    for row in store.conversations.under_key(history.key):
        fits = row.messages >= history.messages if history.messages else not row.messages
        if fits and row.id not in besides and _is_same(store, source, history, row.id, pins):
            return row.id
    return None


def _is_same(store: Store, source: Source, history: History, conversation_id: int, pins: bool) -> bool:
    if pins and not {pin.id for pin in history.pins} <= {pin.id for pin in store.manifests.pins(conversation_id)}:
        return False
    known = store.tables.part("copy", conversation_id, ("message_id", "digest"))
    copies = {(identity % SPAN, bytes(digest)) for identity, digest in known}
    return all(
        past.digest == digest and copies.issuperset((int(past.ref), copy.digest) for copy in past.copies)
        for past, digest in zip(source.messages(history), store.messages.digests(conversation_id), strict=False)
    )


class _Unpacker:
    """The restore of one conversation."""

    def __init__(self, store: Store, files: Files, source: Source, history: History, now: int) -> None:
        self._store, self._files, self._source, self._history, self._now = store, files, source, history, now
        (self._id,) = store.new_ids("conversation", 1)
        self._base = self._id * SPAN
        self._summary_ids: dict[str, int] = {}

    def all(self) -> int:
        """Store all rows of the conversation; return its id."""
        self._conversation()
        for messages in _batches(self._source.messages(self._history)):
            self._messages(messages)
        for summaries in _batches(self._source.summaries(self._history)):
            self._summaries(summaries)
        for summaries in _batches(self._source.summaries(self._history)):
            self._links(summaries)
        for items in _batches(self._source.items(self._history)):
            self._items(items)
        for file in self._source.files(self._history):
            self._file(file)
        self._rest()
        self._store.integrity.seal(self._id)
        if flaws := self._store.promise.flaws(self._id):
            raise InvalidInput(
                f"{self._history.key!r} violates the promise in the archive ({flaws[0].name}).",
                hint="Nothing of it was imported. Run `lcm doctor` on the database it came from.",
            )
        return self._id

    def _conversation(self) -> None:
        history, now = self._history, self._now
        active = history.active and self._store.conversations.active(history.key) is None
        archived_for = "import" if history.active and not active else history.archive_cause
        tokens = sum(item.tokens or 0 for item in self._source.items(history) if item.cause is None)
        row = {
            "id": self._id,
            "owner": self._store.owner,
            "key": history.key,
            "active": int(active),
            "session": history.session,
            "archive_cause": archived_for,
            "archived_at": now if history.active and not active else _maybe(history.archived_at),
            "title": history.title,
            "next_seq": history.messages + 1,
            "context_tokens": tokens,
            "created_at": _micros(history.created_at),
            "updated_at": _micros(history.updated_at),
            "renewed_at": _maybe(history.renewed_at),
            "transcribed": int(history.transcribed),
        }
        self._store.tables.take("conversation", tuple(row), [tuple(row.values())])

    def _messages(self, messages: list[PastMessage]) -> None:
        columns = ("id", "role", "text", "parts", "meta", "tokens", "digest", "at", "created_at", "event_id", "outside")
        taken: list[_Row] = []
        copies: list[_Row] = []
        aliases: list[_Row] = []
        for past in messages:
            seq, message = int(past.ref), past.message
            key = past.event_key or codec.event_key(message.event_id)
            taken.append(
                (
                    self._base + seq,
                    jsontext.cleaned(message.role),
                    *codec.encode(message, key),
                    past.tokens,
                    past.digest,
                    _maybe(message.at),
                    _micros(past.created_at),
                    key,
                    past.outside,
                )
            )
            copies += [
                (
                    self._base + seq,
                    copy.digest,
                    *codec.encode(copy.message, key),
                    _maybe(copy.message.at),
                    _micros(copy.created_at),
                )
                for copy in past.copies
            ]
            aliases += [(self._id, name, seq) for name in past.aliases]
        self._store.tables.take("message", columns, taken)
        self._store.tables.take("copy", ("message_id", "digest", "text", "parts", "meta", "at", "created_at"), copies)
        self._store.tables.take("alias", ("conversation_id", "name", "seq"), aliases)

    def _summaries(self, summaries: list[PastSummary]) -> None:
        taken = self._store.tables.taken([summary.ref for summary in summaries])
        ids = self._store.new_ids("summary", len(summaries))
        for summary, id_ in zip(summaries, ids, strict=True):
            self._summary_ids[summary.ref] = id_
        table_rows = [
            _summary(summary, summary.ref if summary.ref not in taken else f"sum_{os.urandom(8).hex()}")
            for summary in summaries
        ]
        columns = ("id", "conversation_id", *table_rows[0])
        self._store.tables.take(
            "summary", columns, [(id_, self._id, *row.values()) for id_, row in zip(ids, table_rows, strict=True)]
        )

    def _links(self, summaries: list[PastSummary]) -> None:
        """Store the sources of each summary, and its earlier texts."""
        leaves = [summary for summary in summaries if summary.depth == 0]
        self._store.tables.take(
            "summary_message",
            ("message_id", "summary_id"),
            [(self._base + int(ref), self._summary_ids[leaf.ref]) for leaf in leaves for ref in leaf.sources],
        )
        self._store.tables.take(
            "summary_source",
            ("summary_id", "source_id", "ordinal"),
            [
                (self._summary_ids[summary.ref], self._summary_ids[ref], at)
                for summary in summaries
                if summary.depth
                for at, ref in enumerate(summary.sources)
            ],
        )
        self._revisions(summaries)

    def _revisions(self, summaries: list[PastSummary]) -> None:
        for summary in summaries:
            for earlier in summary.earlier:
                row = {"summary_id": self._summary_ids[summary.ref]} | asdict(earlier)
                row["created_at"] = _micros(earlier.created_at)
                self._store.tables.take("revision", tuple(row), [tuple(row.values())])

    def _items(self, items: list[PastItem]) -> None:
        columns = ("conversation_id", "ordinal", "summary_id", "tokens", "depth")
        left = [item for item in items if item.cause is not None]
        shown = [item for item in items if item.cause is None]
        self._store.tables.take("item", columns, [self._item(item) for item in shown])
        self._store.tables.take(
            "detached", (*columns, "cause", "at"), [(*self._item(i), i.cause, _maybe(i.left_at)) for i in left]
        )

    def _item(self, item: PastItem) -> _Row:
        summary = self._summary_ids[item.ref] if item.kind == "summary" else None
        return (self._id, item.ordinal, summary, item.tokens, item.depth)

    def _file(self, file: PastFile) -> None:
        name = file.sha256 or ""
        if file.data is not None:
            # As for every payload: no file is removed while this lock is held.
            self._store.hold_files(alone=False)
            self._files.put(name, file.data)
        made = _micros(file.created_at)
        row = FileRow(
            id=file.ref,
            sha256=name,
            name=file.name,
            mime=file.mime,
            bytes=file.size or 0,
            lines=file.lines,
            summary=file.summary,
            created_at=made,
        )
        self._store.files.add(self._id, row)

    def _rest(self) -> None:
        history, store = self._history, self._store
        store.tables.take(
            "session",
            ("conversation_id", "session", "first_at", "last_at"),
            [(self._id, each.id, _micros(each.first_at), _micros(each.last_at)) for each in history.sessions],
        )
        store.tables.take(
            "transplant",
            ("conversation_id", "first_seq", "last_seq", "place", "at"),
            [(self._id, each.first, each.last, each.place, _micros(each.at)) for each in history.transplants],
        )
        for cursor in history.cursors:
            store.state.set_cursor(self._id, cursor.source, cursor.state, _micros(cursor.updated_at))


def _summary(summary: PastSummary, public_id: str) -> dict[str, Any]:
    return {
        "public_id": public_id,
        "depth": summary.depth,
        "text": summary.text,
        "tokens": summary.tokens,
        "earliest_at": _maybe(summary.earliest_at),
        "latest_at": _maybe(summary.latest_at),
        "descendants": summary.descendants,
        "source_tokens": summary.source_tokens,
        "file_ids": jsontext.dumps(list(summary.file_ids)),
        "model": summary.model,
        "level": summary.level,
        "prompt_version": summary.prompt_version,
        "faithful": summary.faithful,
        "revision": summary.revision,
        "created_at": _micros(summary.created_at),
        "stale": int(summary.stale),
        "tries": summary.tries,
        "origin": summary.origin,
    }


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _micros(time: datetime) -> int:
    return codec.micros(time if time.tzinfo else instant(time) or time)


def _maybe(time: datetime | None) -> int | None:
    return None if time is None else _micros(time)
