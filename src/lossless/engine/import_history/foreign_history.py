"""Import the conversations of another system, one by one, after a plan of what would be imported.

Messages are stored in batches, each with a note of how far it got, so that an interrupted import resumes. Until its last message
is stored, a conversation is archived and not continued by anyone; then its summaries, its context and its name are set in one
transaction. If its key is in use, it stays archived beside the conversation that uses it: nothing is ever merged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, TypeAlias

from msgspec import Struct, field, structs

from lossless.engine.context.summary_xml import as_pin
from lossless.engine.import_history.context_layout import LayoutEntry, Node, Place, layout
from lossless.engine.import_history.import_archive import find_existing, unpack
from lossless.engine.ingest import large_content
from lossless.engine.ingest.ingest import ingest
from lossless.engine.ingest.intake import Intake
from lossless.engine.shared.file_store import NO_BYTES, Files
from lossless.engine.shared.promise import promise_violations
from lossless.errors import InvalidInput, StoreBusy
from lossless.imports.base import History, PastFile, PastMessage, PastSummary, Source
from lossless.model import Imported, ImportedHistory, ImportPlan, PlannedHistory
from lossless.store import jsontext
from lossless.store.rows.codec import event_key, micros
from lossless.store.rows.types import (
    MESSAGE,
    SPAN,
    USER_MESSAGE,
    ConversationRow,
    FileRow,
    ItemRow,
    Measure,
    NewSummary,
    PinRow,
)
from lossless.store.store import Store
from lossless.tokens import estimate, message_tokens

BATCH = 500
CAUSE = "import"
_MOST_KEY = 1000
_MOST_SESSION = 250
_SUMMARY_ID = re.compile(r"sum_(?=.*[^0])[a-z0-9_-]{1,60}", re.ASCII)
_FILE_ID = re.compile(r"file_(?=.*[^0])[a-z0-9_-]{1,60}", re.ASCII)
_LEVELS = frozenset({"normal", "aggressive", "extractive", "cut"})

IntakeOf: TypeAlias = Callable[[str, str | None], Intake]
"""Returns the intake of the conversation under a key, for a session."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the key, the messages so far, and the total."""

_CHANGED = {
    "event ids": "{count} messages had the event id of another one; they got ids of their own.",
    "links": "{count} links of summaries led nowhere, or back to themselves; they were dropped.",
    "items": "{count} items of the context named something missing; they were dropped.",
    "renamed": "{count} summaries got a new id: theirs was in use, or invalid.",
    "without sources": "{count} summaries have no existing source; they are kept for recall, in no context.",
    "shown twice": "{count} items were in the context twice; they are shown once.",
    "also below": "{count} messages were in the context and below a summary; they are shown once.",
    "not shown here": "{count} messages of the context are of a kind that no model is shown; they are stored beside it.",
    "shared": "{count} summaries cover messages that are shown elsewhere; their other sources are shown instead.",
    "torn": "{count} summaries cover messages with others between them; their sources are shown instead.",
    "empty": "{count} summaries in the context cover no existing message.",
    "order": "The context was in another order than its messages; it is now in their order.",
    "aside": "{count} items were in no context; they are listed beside it.",
    "pins": "{count} pinned messages were not pinned: a pin has the operator's authority (--trust-pins).",
}


class _Arrival(Struct):
    """A conversation while it is imported."""

    history: History
    id: int
    cursor: str
    changed: Counter[str] = field(default_factory=Counter)
    seqs: dict[str, int] = field(default_factory=dict)
    """The seqs of the source's messages, by ref."""


class _CountedSummary(Struct):
    """A summary with our own counts."""

    past: PastSummary
    node: Node
    depth: int
    tokens: int
    source_tokens: int
    descendants: int
    earliest: int
    latest: int


def plan(store: Store, source: Source) -> ImportPlan:
    """Return what an import would do; nothing is written."""
    known, taken, planned = _known_imports(store, source), set[str](), []
    there = {number for number, _ in known.values()}
    for history in source.histories():
        state = known.get(_cursor(source, history), (0, None))[1]
        if state is None and history.exact and (found := find_existing(store, source, history, there)):
            there.add(found)
            state = {"done": True}
        key = key_of(history)
        free = store.conversations.active(key) is None and key not in taken
        if active := history.active and free and not (state and state["done"]):
            taken.add(key)
        planned.append(
            PlannedHistory(
                ref=history.ref,
                key=key,
                messages=history.messages,
                summaries=history.summaries,
                files=history.files,
                state="new" if state is None else "here" if state["done"] else "begun",
                active=active,
            )
        )
    return ImportPlan(
        system=source.system,
        version=source.version,
        identity=source.identity,
        histories=tuple(planned),
        unmapped=(*source.unmapped, *_list_later_messages(source, known)),
    )


def apply(
    store: Store,
    files: Files,
    intake: IntakeOf,
    source: Source,
    plan: ImportPlan,
    progress: Progress | None = None,
    *,
    trust_pins: bool = False,
) -> Imported:
    """Import what a plan says, and verify it. After an interruption the same call resumes.

    Pins are imported only with `trust_pins`: a pin has the operator's authority.
    """
    if plan.identity != source.identity:
        raise InvalidInput("This is the plan of another source.", hint="Make one for this source, with plan(...).")
    wanted = {each.ref for each in plan.histories if each.state != "here"}
    histories = [history for history in source.histories() if history.ref in wanted]
    done = _restore_exact(store, files, intake, source, [history for history in histories if history.exact], trust_pins)
    done += [
        _import_history(store, files, intake, source, history, progress or _no_progress, trust_pins)
        for history in histories
        if not history.exact
    ]
    _relate(store, source)
    verified = not any(each.problems for each in done)
    return Imported(
        system=source.system,
        histories=tuple(done),
        unmapped=(*source.unmapped, *_list_later_messages(source, _known_imports(store, source))),
        verified=verified,
    )


def _no_progress(_key: str, _done: int, _all: int) -> None:
    pass


def _restore_exact(
    store: Store, files: Files, intake: IntakeOf, source: Source, histories: Sequence[History], trust_pins: bool
) -> list[ImportedHistory]:
    """Restore histories that lossless exported, which keep their layout."""
    exact = [history for history in source.histories() if history.exact]
    if not histories and not (trust_pins and exact):
        return []
    placed = unpack(store, files, source, now=intake(key_of(exact[0]), None).now(), trust_pins=trust_pins)
    return [_verify(store, _Arrival(each, placed[each.ref], ""), each.messages) for each in histories]


def _known_imports(store: Store, source: Source) -> dict[str, tuple[int, Any]]:
    """Return the conversations that were imported, at least in part, from a source."""
    known = {name: (number, state) for number, name, state in store.state.cursors(f"{CAUSE}:{source.identity}")}
    exact = {state["ref"]: number for number, state in known.values() if "count" not in state}
    return known | {
        _cursor(source, each): (exact[each.ref], {"count": each.messages, "done": True})
        for each in source.histories()
        if each.ref in exact
    }


def _cursor(source: Source, history: History) -> str:
    return f"{CAUSE}:{source.identity}:{_hash(history.ref)}"


def _hash(*facts: object) -> str:
    return sha256(jsontext.dumps([str(fact) for fact in facts]).encode()).hexdigest()[:16]


def key_of(history: History) -> str:
    """Return the key of an imported conversation."""
    key = jsontext.cleaned(history.key)
    return key if 0 < len(key.encode()) <= _MOST_KEY else f"{CAUSE}:{_hash(history.key)}"


def _list_later_messages(source: Source, known: dict[str, tuple[int, Any]]) -> Iterator[str]:
    for history in source.histories():
        state = known.get(_cursor(source, history), (0, None))[1]
        if state and state["done"] and history.messages > state["count"]:
            more = history.messages - state["count"]
            yield f"{key_of(history)} has {more:,} messages that are newer than the import; they are not imported."


def _import_history(
    store: Store, files: Files, intake: IntakeOf, source: Source, history: History, progress: Progress, trust_pins: bool
) -> ImportedHistory:
    history_intake = intake(key_of(history), None)
    arrival = _begin(store, source, history, history_intake.now())
    history_intake = structs.replace(history_intake, conversation_id=arrival.id, skip=None, explore=None)
    for batch in _batches(_numbered(source, arrival)):
        _store_batch(store, files, history_intake, arrival, batch, trust_pins)
        progress(history_intake.key, batch[-1][0], history.messages)
    count = 0
    for file in source.files(history):
        _store_file(store, files, arrival.id, file)
        count += 1
    summaries = _finish(store, source, arrival, history_intake.now())
    counted = structs.replace(history, summaries=summaries, files=count)
    return _verify(store, structs.replace(arrival, history=counted), len(arrival.seqs))


def _verify(store: Store, arrival: _Arrival, messages: int) -> ImportedHistory:
    """Return the report on an imported conversation, with what does not hold."""
    history, row = arrival.history, store.conversations.get(arrival.id)
    here = row.messages if row else 0
    problems = [] if here == messages else [f"{messages:,} messages were read, {here:,} are stored."]
    return ImportedHistory(
        ref=history.ref,
        key=key_of(history),
        conversation=arrival.id,
        messages=messages,
        summaries=history.summaries,
        files=history.files,
        active=row is not None and row.active,
        changed=tuple(_CHANGED[name].format(count=f"{n:,}") for name, n in arrival.changed.items() if n),
        problems=(*problems, *promise_violations(store, arrival.id)),
    )


def _begin(store: Store, source: Source, history: History, now: int) -> _Arrival:
    name = _cursor(source, history)
    with store.transaction():
        # Two imports of one source wait for each other here, and then share the conversation.
        store.state.set_guard(f"{CAUSE}:{source.identity}", None, now)
        known = _known_imports(store, source).get(name)
        if known:
            return _Arrival(history, known[0], name)
        fresh = store.conversations.start(key_of(history), None, now, active=False, cause=CAUSE)
        store.state.set_cursor(fresh.id, name, {"count": 0, "ref": None, "done": False}, now)
        return _Arrival(history, fresh.id, name)


def _numbered(source: Source, arrival: _Arrival) -> Iterator[tuple[int, PastMessage]]:
    for number, past in enumerate(source.messages(arrival.history), 1):
        arrival.seqs[past.ref] = number
        yield number, past


def _batches(rows: Iterable[tuple[int, PastMessage]]) -> Iterator[list[tuple[int, PastMessage]]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch


def _store_batch(
    store: Store,
    files: Files,
    intake: Intake,
    arrival: _Arrival,
    batch: Sequence[tuple[int, PastMessage]],
    trust_pins: bool,
) -> None:
    """Store what is new in a batch, in one transaction with the note of how far it got."""
    with store.transaction():
        held = store.conversations.hold(arrival.id)
        state = store.state.cursor(arrival.id, arrival.cursor) or {}
        if any(number == state["count"] and past.ref != state["ref"] for number, past in batch):
            raise _source_changed(arrival)
        fresh = [(number, past) for number, past in batch if number > state["count"]]
        if not fresh:
            return
        if held.next_seq != fresh[0][0]:
            raise StoreBusy(f"Another process writes to {held.key} while it is imported.", hint="Try again later.")
        ingest(store, files, intake, _with_unique_ids(store, arrival, [past for _, past in fresh]))
        store.imported.redate(arrival.id, [(number, micros(past.created_at), past.outside) for number, past in fresh])
        aliases = {event_key(alias): number for number, past in fresh for alias in past.aliases}
        store.messages.add_aliases(arrival.id, {name: seq for name, seq in aliases.items() if name})
        pinned = [number for number, past in fresh if past.pinned]
        _pin(store, arrival.id, pinned if trust_pins else [], intake.now())
        arrival.changed["pins"] += 0 if trust_pins else len(pinned)
        last, past = fresh[-1]
        store.state.set_cursor(arrival.id, arrival.cursor, {**state, "count": last, "ref": past.ref}, intake.now())


def _source_changed(arrival: _Arrival) -> InvalidInput:
    return InvalidInput(
        f"{arrival.history.key} changed since its import was interrupted.",
        hint="Import the copy that you started with.",
    )


def _with_unique_ids(store: Store, arrival: _Arrival, batch: Sequence[PastMessage]) -> Iterator[Any]:
    """Yield the messages of a batch with unique event ids, so that none is taken for another's copy."""
    keys = [key for past in batch if (key := event_key(past.message.event_id))]
    seen = set(store.messages.known_events(arrival.id, keys))
    for past in batch:
        key = event_key(past.message.event_id)
        if key in seen:
            arrival.changed["event ids"] += 1
            yield structs.replace(past.message, event_id=f"{past.message.event_id}#{past.ref}")
        else:
            seen |= {key} if key else set()
            yield past.message


def _pin(store: Store, conversation_id: int, seqs: Sequence[int], now: int) -> None:
    for row in store.messages.at(conversation_id, seqs) if seqs else ():
        name = f"pin_{sha256(row.text.encode()).hexdigest()[:8]}"
        tokens = message_tokens(as_pin(name, row.text))
        store.manifests.add_pin(
            conversation_id,
            PinRow(id=name, message_id=conversation_id * SPAN + row.seq, text=row.text, tokens=tokens, created_at=now),
        )


def _store_file(store: Store, files: Files, conversation_id: int, file: PastFile) -> None:
    """Store a file under the id that the messages use."""
    data, digest = file.data, NO_BYTES
    if data is not None:
        digest = sha256(data).hexdigest()
        files.put(digest, data)
    name, mime = (None if value is None else jsontext.cleaned(value) for value in (file.name, file.mime))
    row = FileRow(
        id=file.ref if _FILE_ID.fullmatch(file.ref) else large_content.file_id(_hash(file.ref) + digest),
        sha256=digest,
        name=name,
        mime=mime,
        bytes=(file.size or 0) if data is None else len(data),
        lines=0 if data is None else _lines(data),
        summary=jsontext.cleaned(file.summary),
        created_at=micros(file.created_at),
    )
    with store.transaction():
        # No file is removed while we hold this lock: if the bytes are gone, they are written again.
        store.hold_files(alone=False)
        if data is not None and not files.exists(digest):
            files.put(digest, data)
        store.files.add(conversation_id, row)


def _lines(data: bytes) -> int | None:
    """Return the number of lines of a text; None if it is not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.count("\n") + (bool(text) and not text.endswith("\n"))


def _finish(store: Store, source: Source, arrival: _Arrival, now: int) -> int:
    """Store summaries, context and name in one transaction; return the number of summaries."""
    measures = store.imported.measures(arrival.id)
    summaries = _count_summaries(source.summaries(arrival.history), arrival, measures)
    nodes = {name: each.node for name, each in summaries.items()}
    shown, left = _entries(source, arrival, nodes)
    places = layout(nodes, shown, list(left), (each.seq for each in measures if each.is_shown))
    arrival.changed += places.changed
    with store.transaction():
        held = store.conversations.hold(arrival.id)
        state = store.state.cursor(arrival.id, arrival.cursor) or {}
        if state["done"]:
            return len(summaries)
        if state["count"] != len(arrival.seqs):
            raise _source_changed(arrival)
        ids: dict[str, int] = {}
        for name, each in summaries.items():
            row = _summary_row(store, source, arrival, each)
            ids[name] = store.imported.add_summary(
                arrival.id, row, each.node.seqs, [ids[ref] for ref in each.node.sources]
            )

        def item(place: Place) -> ItemRow:
            if isinstance(place.entry, str):
                summary = summaries[place.entry]
                return ItemRow(
                    ordinal=place.first, summary_id=ids[place.entry], tokens=summary.tokens, depth=summary.depth
                )
            message = measures[place.entry - 1]
            return ItemRow(
                ordinal=place.first,
                summary_id=None,
                tokens=message.tokens,
                depth=USER_MESSAGE if message.is_user else MESSAGE,
            )

        aside = [(item(place), left.get(place.entry) or CAUSE) for place in places.aside]
        arrival.changed["aside"] += sum(cause == CAUSE for _, cause in aside)
        store.imported.lay_out(arrival.id, [item(place) for place in places.context], aside, now)
        store.integrity.seal(arrival.id)
        store.imported.settle_in(_final_row(held, arrival.history))
        store.state.set_cursor(arrival.id, arrival.cursor, {**state, "done": True}, now)
    arrival.changed = +arrival.changed
    return len(summaries)


def _final_row(held: ConversationRow, history: History) -> ConversationRow:
    return structs.replace(
        held,
        active=history.active,
        session=None if history.session is None else jsontext.cleaned(history.session)[:_MOST_SESSION],
        title=None if history.title is None else jsontext.cleaned(history.title),
        archived_at=micros(history.archived_at or history.updated_at),
        archive_cause=CAUSE if history.active else history.archive_cause,
        created_at=micros(history.created_at),
        updated_at=micros(history.updated_at),
    )


def _count_summaries(
    given: Iterable[PastSummary], arrival: _Arrival, measures: Sequence[Measure]
) -> dict[str, _CountedSummary]:
    """Return the summaries by ref, sources first, with our own counts."""
    counted: dict[str, _CountedSummary] = {}
    for past in given:
        refs = dict.fromkeys(past.sources)
        seqs = tuple(sorted(arrival.seqs[ref] for ref in refs if ref in arrival.seqs)) if past.depth == 0 else ()
        sources = tuple(ref for ref in refs if ref in counted) if past.depth else ()
        arrival.changed["links"] += len(past.sources) - len(seqs) - len(sources)
        arrival.changed["without sources"] += not (seqs or sources)
        counted[past.ref] = _count_summary(
            past, Node(seqs, sources), [measures[seq - 1] for seq in seqs], [counted[ref] for ref in sources]
        )
    return counted


def _count_summary(
    past: PastSummary, node: Node, messages: Sequence[Measure], below: Sequence[_CountedSummary]
) -> _CountedSummary:
    given = past.earliest_at or past.created_at, past.latest_at or past.created_at
    return _CountedSummary(
        past=past,
        node=node,
        depth=1 + max((each.depth for each in below), default=-1),
        tokens=estimate(jsontext.cleaned(past.text)),
        source_tokens=sum(each.tokens for each in messages) + sum(each.source_tokens for each in below),
        descendants=sum(each.descendants + 1 for each in below),
        earliest=min([*(each.at for each in messages), *(each.earliest for each in below)], default=micros(given[0])),
        latest=max([*(each.at for each in messages), *(each.latest for each in below)], default=micros(given[1])),
    )


def _entries(
    source: Source, arrival: _Arrival, nodes: dict[str, Node]
) -> tuple[list[LayoutEntry], dict[LayoutEntry, str]]:
    """Return what the context showed, in order, and what had left it, with the cause."""
    shown: list[LayoutEntry] = []
    left: dict[LayoutEntry, str] = {}
    for item in source.items(arrival.history):
        entry: LayoutEntry | None = arrival.seqs.get(item.ref) if item.kind == "message" else item.ref
        if entry is None or (isinstance(entry, str) and entry not in nodes):
            arrival.changed["items"] += 1
        elif item.cause is None:
            shown.append(entry)
        else:
            left[entry] = item.cause
    return shown, left


def _summary_row(store: Store, source: Source, arrival: _Arrival, summary: _CountedSummary) -> NewSummary:
    past = summary.past
    name = past.ref
    if not _SUMMARY_ID.fullmatch(name) or store.imported.is_named(name):
        name = f"sum_{_hash(source.identity, past.ref, arrival.id)}"
        arrival.changed["renamed"] += 1
    return NewSummary(
        public_id=name,
        depth=summary.depth,
        text=jsontext.cleaned(past.text),
        tokens=summary.tokens,
        earliest_at=summary.earliest,
        latest_at=summary.latest,
        descendants=summary.descendants,
        source_tokens=summary.source_tokens,
        file_ids=jsontext.dumps(list(past.file_ids)),
        model=jsontext.cleaned(past.model),
        level=past.level if past.level in _LEVELS else "normal",
        prompt_version=None,
        faithful=None,
        created_at=micros(past.created_at),
    )


def _relate(store: Store, source: Source) -> None:
    """Store which conversation continues which, and the parents of sub-agents."""
    known = _known_imports(store, source)
    ids = {each.ref: known[name][0] for each in source.histories() if (name := _cursor(source, each)) in known}
    for history in source.histories():
        before, parent = ids.get(history.continues_ref or ""), ids.get(history.parent_ref or "")
        if history.ref in ids and (before or parent):
            with store.transaction():
                store.tables.relate(ids[history.ref], continues=before, parent=parent)
