"""Take another house in: first what would come, then its conversations one by one.

Messages come in batches, each with a note of how far it got, so that an import that was cut off goes on where it was. Until its
last message is in, a conversation is an archived one that nobody continues; then its summaries, its view and its name are
settled in one transaction. If its key is in use it stays archived beside the one that uses it: nothing is ever merged.
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
from lossless.engine.import_history.archive import standing, unpack
from lossless.engine.import_history.context_layout import Entry, Node, Place, layout
from lossless.engine.ingest import large_content
from lossless.engine.ingest.ingest import ingest
from lossless.engine.ingest.intake import Intake
from lossless.engine.shared.file_store import Files
from lossless.engine.shared.promise import broken
from lossless.errors import InvalidInput, StoreBusy
from lossless.imports.base import History, PastFile, PastMessage, PastSummary, Source
from lossless.model import Imported, ImportedHistory, ImportPlan, PlannedHistory
from lossless.store import jsontext
from lossless.store.base import (
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
from lossless.store.rows import event_key, micros
from lossless.store.store import Store
from lossless.tokens import estimate, message_tokens

BATCH = 500
CAUSE = "import"
NO_BYTES = "0" * 64
"""In the place of a content's hash, where the content could not be had."""
_MOST_KEY = 1000
_MOST_SESSION = 250
_SUMMARY_ID = re.compile(r"sum_(?=.*[^0])[a-z0-9_-]{1,60}", re.ASCII)
_FILE_ID = re.compile(r"file_(?=.*[^0])[a-z0-9_-]{1,60}", re.ASCII)
_LEVELS = frozenset({"normal", "aggressive", "extractive", "cut"})

IntakeOf: TypeAlias = Callable[[str, str | None], Intake]
"""How the conversation under a key takes messages in, for a session."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""(key, messages so far, messages)."""

_CHANGED = {
    "event ids": "{count} messages had the event id of another one; they got one of their own.",
    "links": "{count} links of summaries led to nothing, or back to themselves; they are gone.",
    "items": "{count} items of the context named nothing that is there; they are gone.",
    "renamed": "{count} summaries have another id here: theirs was taken, or is none.",
    "without sources": "{count} summaries were made from nothing that is there; they are kept for recall, in no context.",
    "shown twice": "{count} items stood in the context twice; they are shown once.",
    "also below": "{count} messages stood in the context and below a summary; they are shown once.",
    "not shown here": "{count} messages stood in the context that no model is shown here; they are stored beside it.",
    "shared": "{count} summaries stood for messages that are shown otherwise; what else they were made from is shown itself.",
    "torn": "{count} summaries stood for messages with others between them; what they were made from is shown itself.",
    "empty": "{count} summaries in the context stood for nothing that is there.",
    "order": "The context stood in another order than its messages; here it is in theirs.",
    "aside": "{count} items were in no context; they are listed beside it.",
    "pins": "{count} pinned messages are not pinned here: a pin speaks as the operator (--trust-pins).",
}


class _Arriving(Struct):
    """A conversation on its way in."""

    history: History
    id: int
    cursor: str
    changed: Counter[str] = field(default_factory=Counter)
    seqs: dict[str, int] = field(default_factory=dict)
    """Where the source's messages are here."""


class _Told(Struct):
    """A summary with what we make of it."""

    past: PastSummary
    node: Node
    depth: int
    tokens: int
    source_tokens: int
    descendants: int
    earliest: int
    latest: int


def plan(store: Store, source: Source) -> ImportPlan:
    """What an import would do; nothing is written."""
    known, taken, told = _known(store, source), set[str](), []
    there = {number for number, _ in known.values()}
    for history in source.histories():
        state = known.get(_cursor(source, history), (0, None))[1]
        if state is None and history.exact and (found := standing(store, source, history, there)):
            there.add(found)
            state = {"done": True}
        key = key_of(history)
        free = store.conversations.active(key) is None and key not in taken
        if active := history.active and free and not (state and state["done"]):
            taken.add(key)
        told.append(
            PlannedHistory(
                history.ref,
                key,
                history.messages,
                history.summaries,
                history.files,
                "new" if state is None else "here" if state["done"] else "begun",
                active,
            )
        )
    return ImportPlan(
        source.system, source.version, source.identity, tuple(told), (*source.unmapped, *_grown(source, known))
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
    """Do what a plan says, and prove it. Whatever stops it, the same call goes on where it was.

    What was pinned there is pinned here only with `trust_pins`: a pin speaks with the operator's authority.
    """
    if plan.identity != source.identity:
        raise InvalidInput("This is a plan for another source.", hint="Make one for this source, with plan(...).")
    wanted = {each.ref for each in plan.histories if each.state != "here"}
    histories = [history for history in source.histories() if history.ref in wanted]
    done = _unpack(store, files, intake, source, [history for history in histories if history.exact], trust_pins)
    done += [
        _move_in(store, files, intake, source, history, progress or _nobody, trust_pins)
        for history in histories
        if not history.exact
    ]
    _relate(store, source)
    verified = not any(each.problems for each in done)
    return Imported(source.system, tuple(done), (*source.unmapped, *_grown(source, _known(store, source))), verified)


def _nobody(_key: str, _done: int, _all: int) -> None:
    pass


def _unpack(
    store: Store, files: Files, intake: IntakeOf, source: Source, histories: Sequence[History], trust_pins: bool
) -> list[ImportedHistory]:
    """Histories of our own making, which need no place found for them."""
    exact = [history for history in source.histories() if history.exact]
    if not histories and not (trust_pins and exact):
        return []
    placed = unpack(store, files, source, now=intake(key_of(exact[0]), None).now(), trust_pins=trust_pins)
    return [_arrived(store, _Arriving(each, placed[each.ref], ""), each.messages) for each in histories]


def _known(store: Store, source: Source) -> dict[str, tuple[int, Any]]:
    """The conversations that came, or began to come, from a source."""
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
    """The key that a conversation of another house gets here."""
    key = jsontext.cleaned(history.key)
    return key if 0 < len(key.encode()) <= _MOST_KEY else f"{CAUSE}:{_hash(history.key)}"


def _grown(source: Source, known: dict[str, tuple[int, Any]]) -> Iterator[str]:
    for history in source.histories():
        state = known.get(_cursor(source, history), (0, None))[1]
        if state and state["done"] and history.messages > state["count"]:
            more = history.messages - state["count"]
            yield f"{key_of(history)} has {more:,} messages that came after the import; they stay behind."


def _move_in(
    store: Store, files: Files, intake: IntakeOf, source: Source, history: History, progress: Progress, trust_pins: bool
) -> ImportedHistory:
    taking = intake(key_of(history), None)
    arriving = _begin(store, source, history, taking.now())
    taking = structs.replace(taking, conversation_id=arriving.id, skip=None, explore=None)
    for batch in _batches(_numbered(source, arriving)):
        _take(store, files, taking, arriving, batch, trust_pins)
        progress(taking.key, batch[-1][0], history.messages)
    count = 0
    for file in source.files(history):
        _bring(store, files, arriving.id, file)
        count += 1
    summaries = _settle(store, source, arriving, taking.now())
    counted = structs.replace(history, summaries=summaries, files=count)
    return _arrived(store, structs.replace(arriving, history=counted), len(arriving.seqs))


def _arrived(store: Store, arriving: _Arriving, messages: int) -> ImportedHistory:
    """What came, and the proof of it."""
    history, row = arriving.history, store.conversations.get(arriving.id)
    here = row.messages if row else 0
    problems = [] if here == messages else [f"{messages:,} messages came, {here:,} are here."]
    return ImportedHistory(
        history.ref,
        key_of(history),
        arriving.id,
        messages,
        history.summaries,
        history.files,
        row is not None and row.active,
        tuple(_CHANGED[name].format(count=f"{n:,}") for name, n in arriving.changed.items() if n),
        (*problems, *broken(store, arriving.id)),
    )


def _begin(store: Store, source: Source, history: History, now: int) -> _Arriving:
    name = _cursor(source, history)
    with store.transaction():
        # Two imports of one source wait for each other here, and then share the conversation.
        store.state.set_guard(f"{CAUSE}:{source.identity}", None, now)
        known = _known(store, source).get(name)
        if known:
            return _Arriving(history, known[0], name)
        fresh = store.conversations.start(key_of(history), None, now, active=False, cause=CAUSE)
        store.state.set_cursor(fresh.id, name, {"count": 0, "ref": None, "done": False}, now)
        return _Arriving(history, fresh.id, name)


def _numbered(source: Source, arriving: _Arriving) -> Iterator[tuple[int, PastMessage]]:
    for number, past in enumerate(source.messages(arriving.history), 1):
        arriving.seqs[past.ref] = number
        yield number, past


def _batches(rows: Iterable[tuple[int, PastMessage]]) -> Iterator[list[tuple[int, PastMessage]]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch


def _take(
    store: Store,
    files: Files,
    intake: Intake,
    arriving: _Arriving,
    batch: Sequence[tuple[int, PastMessage]],
    trust_pins: bool,
) -> None:
    """What is not here yet of a batch, in one transaction with the note of how far it got."""
    with store.transaction():
        held = store.conversations.hold(arriving.id)
        state = store.state.cursor(arriving.id, arriving.cursor) or {}
        if any(number == state["count"] and past.ref != state["ref"] for number, past in batch):
            raise _changed(arriving)
        fresh = [(number, past) for number, past in batch if number > state["count"]]
        if not fresh:
            return
        if held.next_seq != fresh[0][0]:
            raise StoreBusy(f"Somebody writes into {held.key} while it is imported.", hint="Try again when it is over.")
        ingest(store, files, intake, _named(store, arriving, [past for _, past in fresh]))
        store.imported.redate(arriving.id, [(number, micros(past.created_at), past.outside) for number, past in fresh])
        aliases = {event_key(alias): number for number, past in fresh for alias in past.aliases}
        store.messages.add_aliases(arriving.id, {name: seq for name, seq in aliases.items() if name})
        pinned = [number for number, past in fresh if past.pinned]
        _pin(store, arriving.id, pinned if trust_pins else [], intake.now())
        arriving.changed["pins"] += 0 if trust_pins else len(pinned)
        last, past = fresh[-1]
        store.state.set_cursor(arriving.id, arriving.cursor, {**state, "count": last, "ref": past.ref}, intake.now())


def _changed(arriving: _Arriving) -> InvalidInput:
    return InvalidInput(
        f"{arriving.history.key} is not what it was when its import was cut off.",
        hint="Import the copy you began with.",
    )


def _named(store: Store, arriving: _Arriving, batch: Sequence[PastMessage]) -> Iterator[Any]:
    """The messages of a batch, no two of a conversation under one event id: none of them may pass for another's copy."""
    keys = [key for past in batch if (key := event_key(past.message.event_id))]
    seen = set(store.messages.known_events(arriving.id, keys))
    for past in batch:
        key = event_key(past.message.event_id)
        if key in seen:
            arriving.changed["event ids"] += 1
            yield structs.replace(past.message, event_id=f"{past.message.event_id}#{past.ref}")
        else:
            seen |= {key} if key else set()
            yield past.message


def _pin(store: Store, conversation_id: int, seqs: Sequence[int], now: int) -> None:
    for row in store.messages.at(conversation_id, seqs) if seqs else ():
        name = f"pin_{sha256(row.text.encode()).hexdigest()[:8]}"
        tokens = message_tokens(as_pin(name, row.text))
        store.manifests.add_pin(conversation_id, PinRow(name, conversation_id * SPAN + row.seq, row.text, tokens, now))


def _bring(store: Store, files: Files, conversation_id: int, file: PastFile) -> None:
    """A file under the name the messages call it by."""
    data, digest = file.data, NO_BYTES
    if data is not None:
        digest = sha256(data).hexdigest()
        files.put(digest, data)
    name, mime = (None if value is None else jsontext.cleaned(value) for value in (file.name, file.mime))
    row = FileRow(
        file.ref if _FILE_ID.fullmatch(file.ref) else large_content.file_id(_hash(file.ref) + digest),
        digest,
        name,
        mime,
        (file.size or 0) if data is None else len(data),
        0 if data is None else _lines(data),
        jsontext.cleaned(file.summary),
        micros(file.created_at),
    )
    with store.transaction():
        # Nobody sweeps while we hold this: if the bytes went before, they are put back.
        store.hold_files(alone=False)
        if data is not None and not files.exists(digest):
            files.put(digest, data)
        store.files.add(conversation_id, row)


def _lines(data: bytes) -> int | None:
    """None if it is not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.count("\n") + (bool(text) and not text.endswith("\n"))


def _settle(store: Store, source: Source, arriving: _Arriving, now: int) -> int:
    """Summaries, view and name, in one transaction; how many summaries."""
    measures = store.imported.measures(arriving.id)
    told = _tell(source.summaries(arriving.history), arriving, measures)
    nodes = {name: each.node for name, each in told.items()}
    shown, left = _entries(source, arriving, nodes)
    places = layout(nodes, shown, list(left), (each.seq for each in measures if each.is_shown))
    arriving.changed += places.changed
    with store.transaction():
        held = store.conversations.hold(arriving.id)
        state = store.state.cursor(arriving.id, arriving.cursor) or {}
        if state["done"]:
            return len(told)
        if state["count"] != len(arriving.seqs):
            raise _changed(arriving)
        ids: dict[str, int] = {}
        for name, each in told.items():
            row = _summary_row(store, source, arriving, each)
            ids[name] = store.imported.add_summary(
                arriving.id, row, each.node.seqs, [ids[ref] for ref in each.node.sources]
            )

        def item(place: Place) -> ItemRow:
            if isinstance(place.entry, str):
                summary = told[place.entry]
                return ItemRow(place.first, ids[place.entry], summary.tokens, summary.depth)
            message = measures[place.entry - 1]
            return ItemRow(place.first, None, message.tokens, USER_MESSAGE if message.is_user else MESSAGE)

        aside = [(item(place), left.get(place.entry) or CAUSE) for place in places.aside]
        arriving.changed["aside"] += sum(cause == CAUSE for _, cause in aside)
        store.imported.lay_out(arriving.id, [item(place) for place in places.context], aside, now)
        store.integrity.seal(arriving.id)
        store.imported.settle_in(_settled(held, arriving.history))
        store.state.set_cursor(arriving.id, arriving.cursor, {**state, "done": True}, now)
    arriving.changed = +arriving.changed
    return len(told)


def _settled(held: ConversationRow, history: History) -> ConversationRow:
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


def _tell(summaries: Iterable[PastSummary], arriving: _Arriving, measures: Sequence[Measure]) -> dict[str, _Told]:
    """The summaries by ref, sources first, with what we count ourselves."""
    told: dict[str, _Told] = {}
    for past in summaries:
        refs = dict.fromkeys(past.sources)
        seqs = tuple(sorted(arriving.seqs[ref] for ref in refs if ref in arriving.seqs)) if past.depth == 0 else ()
        sources = tuple(ref for ref in refs if ref in told) if past.depth else ()
        arriving.changed["links"] += len(past.sources) - len(seqs) - len(sources)
        arriving.changed["without sources"] += not (seqs or sources)
        told[past.ref] = _counted(
            past, Node(seqs, sources), [measures[seq - 1] for seq in seqs], [told[r] for r in sources]
        )
    return told


def _counted(past: PastSummary, node: Node, messages: Sequence[Measure], below: Sequence[_Told]) -> _Told:
    given = past.earliest_at or past.created_at, past.latest_at or past.created_at
    return _Told(
        past,
        node,
        1 + max((each.depth for each in below), default=-1),
        estimate(jsontext.cleaned(past.text)),
        sum(each.tokens for each in messages) + sum(each.source_tokens for each in below),
        sum(each.descendants + 1 for each in below),
        min([*(each.at for each in messages), *(each.earliest for each in below)], default=micros(given[0])),
        max([*(each.at for each in messages), *(each.latest for each in below)], default=micros(given[1])),
    )


def _entries(source: Source, arriving: _Arriving, nodes: dict[str, Node]) -> tuple[list[Entry], dict[Entry, str]]:
    """What the context showed, in its order, and what had left it, with the cause."""
    shown: list[Entry] = []
    left: dict[Entry, str] = {}
    for item in source.items(arriving.history):
        entry: Entry | None = arriving.seqs.get(item.ref) if item.kind == "message" else item.ref
        if entry is None or (isinstance(entry, str) and entry not in nodes):
            arriving.changed["items"] += 1
        elif item.cause is None:
            shown.append(entry)
        else:
            left[entry] = item.cause
    return shown, left


def _summary_row(store: Store, source: Source, arriving: _Arriving, told: _Told) -> NewSummary:
    past = told.past
    name = past.ref
    if not _SUMMARY_ID.fullmatch(name) or store.imported.is_named(name):
        name = f"sum_{_hash(source.identity, past.ref, arriving.id)}"
        arriving.changed["renamed"] += 1
    return NewSummary(
        name,
        told.depth,
        jsontext.cleaned(past.text),
        told.tokens,
        told.earliest,
        told.latest,
        told.descendants,
        told.source_tokens,
        jsontext.dumps(list(past.file_ids)),
        jsontext.cleaned(past.model),
        past.level if past.level in _LEVELS else "normal",
        None,
        None,
        micros(past.created_at),
    )


def _relate(store: Store, source: Source) -> None:
    """Which conversation goes on with which, and whose sub-agent's it is."""
    known = _known(store, source)
    ids = {each.ref: known[name][0] for each in source.histories() if (name := _cursor(source, each)) in known}
    for history in source.histories():
        before, parent = ids.get(history.continues_ref or ""), ids.get(history.parent_ref or "")
        if history.ref in ids and (before or parent):
            with store.transaction():
                store.tables.relate(ids[history.ref], continues=before, parent=parent)
