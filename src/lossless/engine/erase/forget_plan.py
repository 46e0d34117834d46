"""Select what forgetting removes: messages, their copies, and everything derived from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TypeAlias

from msgspec import Struct, field

from lossless.engine.shared.runtime import Runtime
from lossless.engine.shared.transplanted_ranges import copy_digest
from lossless.errors import FileUnavailable
from lossless.search.byte_search import choose_needles
from lossless.search.query.stopwords import STOP_WORDS
from lossless.store import jsontext
from lossless.store.rows.types import BURIED, SPAN, ConversationRow, MessageRow, PinRow, SummaryRow
from lossless.store.store import Store

Target: TypeAlias = tuple[ConversationRow, Sequence[int] | None]
"""A conversation and the seqs of its messages to forget; None for all of it."""

_BLOCK = 1 << 20
_WORD = re.compile(r"\w+")
_FRAME = STOP_WORDS | {
    "expand",
    "details",
    "files",
    "open",
    "none",
    "user",
    "assistant",
    "tool",
    "truncated",
    "context",
}
"""Words without meaning of their own, and words that every summary contains."""
_LEAST, _LEAST_NUMBER, _PHRASE = 4, 3, 3


class Erasure(Struct):
    """Everything to erase from one conversation."""

    row: ConversationRow
    seqs: list[int]
    whole: bool
    """True if all of the conversation is forgotten."""
    rewritten: list[SummaryRow] = field(default_factory=list)
    """Summaries that keep some of their sources, the shallowest first."""
    removed: list[SummaryRow] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of files that nothing else mentions, by id."""
    pins: list[str] = field(default_factory=list)
    briefs: list[tuple[str, str]] = field(default_factory=list)
    """The keys and ids of briefs that were made from these messages or repeat their words."""
    title: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.seqs or self.rewritten or self.removed or self.briefs)


class Fingerprint(Struct):
    """The words by which forgotten text is recognised elsewhere; kept over several rounds."""

    seqs: list[int]
    needles: list[str]
    words: set[str]
    """Distinctive words."""
    phrases: set[tuple[str, ...]]
    since: int | None = None
    """The first summary that may contain them."""


class _Graph(Struct, frozen=True):
    """The summaries of a conversation and their sources."""

    rows: dict[int, SummaryRow]
    messages: dict[int, list[int]]
    """The seqs below each leaf."""
    sources: dict[int, list[int]]


def select_erasures(runtime: Runtime, targets: Sequence[Target], fingerprints: dict[int, Fingerprint]) -> list[Erasure]:
    """Return what to erase now from each conversation, the targets first; remember new fingerprints."""
    store = runtime.store
    erasures = [_select(runtime, *target, fingerprints) for target in _with_copies(store, targets)]
    reached = {each.row.id for each in erasures}
    # A conversation whose messages are all erased may still contain their words in a summary written meanwhile.
    late = [row for row in map(store.conversations.get, fingerprints.keys() - reached) if row]
    return [*erasures, *(_select(runtime, row, fingerprints[row.id].seqs, fingerprints) for row in late)]


def _with_copies(store: Store, targets: Sequence[Target]) -> list[Target]:
    """Return the targets, and the same messages wherever a transplant copied them."""
    copies = store.erase.copied_on()
    digests = {copy_digest(row.digest) for row in _stored_messages(store, targets)} if copies else set()
    found: dict[int, bytes] = {}
    while fresh := {each: digest for each, digest in copies if digest in digests and each not in found}:
        found |= fresh
        digests = {copy_digest(digest) for digest in fresh.values()}
    seqs = _group(divmod(each, SPAN) for each in sorted(found))
    own = {row.id for row, _ in targets}
    rows = [(store.conversations.get(each), seqs[each]) for each in seqs if each not in own]
    return [*targets, *((row, copied) for row, copied in rows if row)]


def _stored_messages(store: Store, targets: Iterable[Target]) -> Iterator[MessageRow]:
    """Yield the messages that still have text; those stored after the call began are not included."""
    for row, seqs in targets:
        messages = store.messages.read(row.id) if seqs is None else store.messages.at(row.id, seqs)
        yield from (each for each in messages if each.outside not in BURIED and each.seq < row.next_seq)


def _group(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _select(
    runtime: Runtime, row: ConversationRow, seqs: Sequence[int] | None, fingerprints: dict[int, Fingerprint]
) -> Erasure:
    """Select what to erase from one conversation."""
    store = runtime.store
    rows = list(_stored_messages(store, [(row, seqs)]))
    erasure = Erasure(row, [each.seq for each in rows], seqs is None)
    if rows:
        texts = [each.text for each in rows]
        stored = [column for each in rows for column in (each.text, each.parts, each.meta) if column]
        stored += _other_texts(store, row.id, set(erasure.seqs))
        _select_files(store, erasure, stored)
        own = {pin.id for pin in store.manifests.pins(row.id)} if erasure.whole else set()
        erasure.pins = [
            pin.id for pin in store.manifests.key_pins(row.key) if pin.id in own or _quotes(pin, erasure, texts)
        ]
        if row.id not in fingerprints:
            fingerprints[row.id] = _fingerprint(erasure.seqs, [*texts, *_file_texts(runtime, erasure)])
        fingerprints[row.id].seqs = sorted({*fingerprints[row.id].seqs, *erasure.seqs})
    if fingerprint := fingerprints.get(row.id):
        _select_summaries(store, erasure, fingerprint)
        _select_briefs(store, erasure, fingerprint)
        erasure.title = bool(row.title) and (
            erasure.whole or bool(_remaining_words(store, fingerprint, row, [row.title or ""]))
        )
    return erasure


def _fingerprint(seqs: list[int], texts: Sequence[str]) -> Fingerprint:
    return Fingerprint(
        seqs=seqs,
        needles=choose_needles(texts),
        words={word for text in texts for word in _distinctive_words(text)},
        phrases={phrase for text in texts for phrase in _distinctive_phrases(text)},
    )


def _distinctive_words(text: str) -> Iterator[str]:
    """Yield the words by which a text can be recognised."""
    for word in _WORD.findall(text.casefold()):
        least = _LEAST_NUMBER if any(map(str.isdigit, word)) else _LEAST
        if len(word) >= least and word not in _FRAME:
            yield word


def _distinctive_phrases(text: str) -> Iterator[tuple[str, ...]]:
    """Yield three words in a row, at least one of them distinctive."""
    words = _WORD.findall(text.casefold())
    for at in range(len(words) - _PHRASE + 1):
        phrase = words[at : at + _PHRASE]
        if any(True for _ in _distinctive_words(" ".join(phrase))):
            yield tuple(phrase)


def _quotes(pin: PinRow, erasure: Erasure, texts: Sequence[str]) -> bool:
    """Return whether a pin of the key, made in any session, is one of these messages or quotes it."""
    named = pin.message_id is not None and pin.message_id - erasure.row.id * SPAN in erasure.seqs
    return named or any(_overlap(pin.text, text) for text in texts)


def _overlap(one: str, other: str) -> bool:
    """Return whether one of two texts contains the other, and the shared part is distinctive."""
    one, other = one.strip(), other.strip()
    return (one in other and any(True for _ in _distinctive_words(one))) or (
        other in one and any(True for _ in _distinctive_phrases(other))
    )


def _other_texts(store: Store, conversation_id: int, seqs: set[int]) -> list[str]:
    """Return the other texts that arrived under the event ids of these messages."""
    rows = store.tables.part("copy", conversation_id, ("message_id", "text", "parts"))
    return [column for identity, *columns in rows if identity % SPAN in seqs for column in columns if column]


def _select_summaries(store: Store, erasure: Erasure, fingerprint: Fingerprint) -> None:
    """Select the summaries that lose their text.

    These are the summaries of erased messages, the summaries above them, and those that contain traces of them.
    """
    graph, seqs = _read_graph(store, erasure.row.id), set(erasure.seqs)
    affected = {leaf for leaf, below in graph.messages.items() if not seqs.isdisjoint(below)}
    if affected:
        fingerprint.since = min(affected | ({fingerprint.since} if fingerprint.since else set()))
    if fingerprint.since is not None:
        affected |= set(_find_traces(store, erasure.row, graph, affected, fingerprint))
    empty: set[int] = set()
    for row in sorted(graph.rows.values(), key=lambda row: (row.depth, row.id)):
        sources = graph.sources.get(row.id, [])
        if row.id not in affected and affected.isdisjoint(sources):
            continue
        affected.add(row.id)
        if empty.issuperset(sources) and seqs.issuperset(graph.messages.get(row.id, ())):
            empty.add(row.id)
            erasure.removed.append(row)
        else:
            erasure.rewritten.append(row)


def _select_briefs(store: Store, erasure: Erasure, fingerprint: Fingerprint) -> None:
    """Select the briefs, of any key that reads this conversation, that were made from erased texts or contain traces of them."""
    row = erasure.row
    briefs = [each for each in store.briefs.of_owner() if row.id in {seen[0] for seen in jsontext.stored(each.covered)}]
    if not briefs:
        return
    lost = {f"msg#{row.id * SPAN + seq}" for seq in fingerprint.seqs}
    lost |= {each.public_id for each in (*erasure.rewritten, *erasure.removed)} | erasure.files.keys()
    texts = [f"{each.name}\n{each.task}\n{each.text}" for each in briefs]
    words = _remaining_words(store, fingerprint, row, texts)
    for brief, text in zip(briefs, texts, strict=True):
        sources = {source[0] for source in jsontext.stored(brief.sources)}
        if (
            (erasure.whole and brief.conversation_id == row.id)
            or not lost.isdisjoint(sources)
            or not words.isdisjoint(_distinctive_words(text))
            or not fingerprint.phrases.isdisjoint(_distinctive_phrases(text))
        ):
            erasure.briefs.append((_key_of(store, brief.conversation_id), brief.id))


def _key_of(store: Store, conversation_id: int) -> str:
    row = store.conversations.get(conversation_id)
    return "" if row is None else row.key


def _find_traces(
    store: Store, conversation: ConversationRow, graph: _Graph, affected: set[int], fingerprint: Fingerprint
) -> Iterator[int]:
    """Yield later summaries that contain the words: their writer was shown the text before them.

    A word counts if no remaining message contains it, a phrase if the summary's own sources do not.
    """
    later = [row for row in graph.rows.values() if row.id > (fingerprint.since or 0) and row.id not in affected]
    words = _remaining_words(store, fingerprint, conversation, [row.text for row in later])
    for row in later:
        if not words.isdisjoint(_distinctive_words(row.text)):
            yield row.id
        elif phrases := fingerprint.phrases.intersection(_distinctive_phrases(row.text)):
            sources = _source_texts(store, conversation.id, row, graph, fingerprint)
            if not phrases.issubset(phrase for text in sources for phrase in _distinctive_phrases(text)):
                yield row.id


def _remaining_words(
    store: Store, fingerprint: Fingerprint, conversation: ConversationRow, texts: Sequence[str]
) -> set[str]:
    """Return the forgotten words in these texts that occur in nothing that stays or was written before."""
    shared = fingerprint.words.intersection(word for text in texts for word in _distinctive_words(text))
    if not shared:
        return shared
    for row in store.summaries.read(conversation.id):
        if fingerprint.since is not None and row.id < fingerprint.since:
            shared.difference_update(_distinctive_words(row.text))
    erased = set(fingerprint.seqs)
    with closing(store.tables.part("message", conversation.id, ("id", "text", "parts", "meta"))) as rows:
        for identity, *columns in rows:
            if not shared:
                break
            if identity % SPAN not in erased:
                shared.difference_update(word for each in columns if each for word in _distinctive_words(each))
    return shared


def _source_texts(
    store: Store, conversation_id: int, row: SummaryRow, graph: _Graph, fingerprint: Fingerprint
) -> Iterator[str]:
    seqs = [seq for seq in graph.messages.get(row.id, ()) if seq not in fingerprint.seqs]
    for each in store.messages.at(conversation_id, seqs) if seqs else ():
        yield f"{each.text} {each.parts} {each.meta}"
    yield from (graph.rows[each].text for each in graph.sources.get(row.id, ()) if each in graph.rows)


def _read_graph(store: Store, conversation_id: int) -> _Graph:
    links = store.tables.part("summary_message", conversation_id, ("summary_id", "message_id"))
    edges = store.tables.part("summary_source", conversation_id, ("summary_id", "source_id"))
    return _Graph(
        rows={row.id: row for row in store.summaries.read(conversation_id)},
        messages=_group((leaf, identity % SPAN) for leaf, identity in links),
        sources=_group((summary, source) for summary, source in edges),
    )


def _select_files(store: Store, erasure: Erasure, stored: Sequence[str]) -> None:
    """Select files that these messages mention and no other message of the conversation does."""
    files = {row.id: row.sha256 for row in store.files.of_conversation(erasure.row.id)}
    if erasure.whole:
        erasure.files = files
        return
    mentioned = {each for each in files if any(each in column for column in stored)}
    if mentioned:
        seqs = set(erasure.seqs)
        for table, key in (("message", "id"), ("copy", "message_id")):
            for identity, text, parts in store.tables.part(table, erasure.row.id, (key, "text", "parts")):
                if identity % SPAN not in seqs:
                    mentioned -= {each for each in mentioned if each in text or each in (parts or "")}
    erasure.files = {each: files[each] for each in files if each in mentioned}


def _file_texts(runtime: Runtime, erasure: Erasure) -> Iterator[str]:
    """Yield the beginnings of the files that are text."""
    for sha in erasure.files.values():
        try:
            yield runtime.files.read(sha, 0, _BLOCK).decode("utf-8", "ignore")
        except FileUnavailable:
            continue  # nothing to recognise
