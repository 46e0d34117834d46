"""Take words away for good: messages, and everything that was derived from them.

First what would go, then in one transaction: the messages become tombstones, summaries that were made from them are made anew
from what is left (without a model, so that nothing waits; a model makes them anew later), and what nothing is left of goes. Then
the database is written anew without the deleted bytes, and searched for them. If it is cut off in between, the same call, or any
other of its kind, completes it. There is no way back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from lossless.config import Settings
from lossless.engine.copied import is_copied
from lossless.engine.draft import CUT, Draft, Told, as_row, drafted, of_messages, of_summaries
from lossless.engine.files import Files
from lossless.engine.flow import advance
from lossless.engine.gc import is_its_own
from lossless.engine.marks import PREFIX
from lossless.engine.prompts import Templates
from lossless.engine.prune import archives, drop_archives
from lossless.errors import FileUnavailable, InvalidInput, NotFound, SummarizerError
from lossless.model import Forgotten
from lossless.search.sought import OVERLAP, Sought, needles
from lossless.search.stopwords import STOP_WORDS
from lossless.store.base import BURIED, SPAN, ConversationRow, MessageRow, PinRow, Store, SummaryRow

Target: TypeAlias = tuple[ConversationRow, Sequence[int] | None]
"""A conversation, and the seqs of its messages that are to be forgotten; None for all of it."""

_MARK = "forgetting"
"""The guard that says that bytes of deleted words may still be there, and in which files."""
_LEFT = "forgotten files"
"""The guard that names files that were left, because another database may use them."""
_BLOCK = 1 << 20
_MOST_NAMED = 20
"""Of how many words it is told where else they stand."""
_WORD = re.compile(r"\w{4,}")
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
"""Words that say nothing, or that a summary has of its own."""
_MESSAGE = re.compile(r"(?:msg#)?([0-9]{1,19})")


class Means(Struct, frozen=True):
    """What forgetting works with."""

    store: Store
    files: Files
    settings: Settings
    templates: Callable[[], Templates]
    now: Callable[[], float]
    unshared: bool = False
    """No other database keeps payloads in the same directory."""


class _Going(Struct):
    """What goes from one conversation."""

    row: ConversationRow
    seqs: list[int]
    whole: bool
    made_anew: list[SummaryRow] = field(default_factory=list)
    """Summaries that keep some of their sources, the shallowest first."""
    gone: list[SummaryRow] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of files that nothing else mentions, by id."""
    pins: list[str] = field(default_factory=list)
    title: bool = False
    words: list[str] = field(default_factory=list)
    """By which the texts would be known again."""


class _Graph(Struct, frozen=True):
    """The summaries of a conversation, and what each was made from."""

    rows: dict[int, SummaryRow]
    messages: dict[int, list[int]]
    """The seqs below each leaf."""
    sources: dict[int, list[int]]


def message_id(what: str | int) -> tuple[int, int]:
    """The conversation and the seq that the id of a message means."""
    named = _MESSAGE.fullmatch(str(what).strip())
    if not named:
        raise InvalidInput(f"{what!r} is no message's id.", hint="Give msg#...; `grep` finds messages and their ids.")
    return divmod(int(named[1]), SPAN)


def span(store: Store, scope: Sequence[int], what: str | int, until: str | int | None) -> Target:
    """The messages from one id up to another, both included, in a conversation of the scope."""
    (conversation_id, first), (other, last) = message_id(what), message_id(what if until is None else until)
    row = store.conversation_by_id(conversation_id) if conversation_id in scope else None
    if row is None or not 0 < first < row.next_seq:
        raise NotFound("message", str(what), hint="`grep` finds messages and their ids.")
    if other != conversation_id or not first <= last < row.next_seq:
        raise InvalidInput(
            f"{what} to {until} is no stretch of a conversation.", hint="Give the earlier message first."
        )
    return row, range(first, last + 1)


def forget(means: Means, targets: Sequence[Target], *, apply: bool, backups: bool = False) -> Forgotten:
    """What forgetting these messages takes away; with `apply` it is done, and there is no way back."""
    store = means.store
    with store.erasing() if apply else store.snapshot():
        if apply:
            for row, _ in sorted(targets, key=lambda each: each[0].id):
                store.hold(row.id)
        going = [_collect(means, *target) for target in _reach(store, targets)]
        told = _plan(means, going, copied=going[len(targets) :])
        pending = store.guard(_MARK, hold=apply)
        if apply and told.messages:
            for each in going:
                _erase(means, each)
            pending = sorted({*(pending or ()), *(sha for each in going for sha in each.files.values())})
            store.set_guard(_MARK, pending, _micros(means))
    if not apply:
        return told
    if backups:
        store.drop_copies()
        drop_archives(store, means.files)
    _remove_files(means)
    words = list(dict.fromkeys(chain.from_iterable(each.words for each in going)))
    done = replace(told, applied=True, backups=_copies(means), beyond=_beyond(means, going, done=True))
    return done if pending is None else _receipt(means, done, words, _finish(means))


def _micros(means: Means) -> int:
    return int(means.now() * 1_000_000)


# what goes


def _reach(store: Store, targets: Sequence[Target]) -> list[Target]:
    """The targets, and the same messages wherever a transplant has copied them to."""
    copies = store.copied_on()
    digests = {_copied(row.digest) for row in _stored(store, targets)} if copies else set()
    found: dict[int, bytes] = {}
    while fresh := {each: digest for each, digest in copies if digest in digests and each not in found}:
        found |= fresh
        digests = {_copied(digest) for digest in fresh.values()}
    seqs = _grouped(divmod(each, SPAN) for each in sorted(found))
    own = {row.id for row, _ in targets}
    rows = [(store.conversation_by_id(each), seqs[each]) for each in seqs if each not in own]
    return [*targets, *((row, chosen) for row, chosen in rows if row)]


def _copied(digest: bytes) -> bytes:
    """The digest that a message has where a transplant copied it to."""
    return sha256(b"copied" + digest).digest()[: len(digest)]


def _stored(store: Store, targets: Iterable[Target]) -> Iterator[MessageRow]:
    for row, seqs in targets:
        found = store.messages(row.id) if seqs is None else store.messages_at(row.id, seqs)
        yield from (each for each in found if each.outside not in BURIED)


def _grouped(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one, other in pairs:
        found.setdefault(one, []).append(other)
    return found


def _collect(means: Means, row: ConversationRow, seqs: Sequence[int] | None) -> _Going:
    store = means.store
    rows = list(_stored(store, [(row, seqs)]))
    going = _Going(row, [each.seq for each in rows], seqs is None)
    if not rows:
        return going
    texts = [each.text for each in rows]
    written = [words for each in rows for words in (each.text, each.parts, each.meta) if words]
    written += _other_texts(store, row.id, set(going.seqs))
    _collect_summaries(store, going, texts)
    _collect_files(store, going, written)
    going.pins = [pin.id for pin in store.pins(row.id) if _is_pinned(pin, going, texts)]
    going.title = bool(row.title) and (going.whole or any(_share(row.title or "", text) for text in texts))
    going.words = needles([*texts, *_contents(means, going)])
    return going


def _is_pinned(pin: PinRow, going: _Going, texts: Sequence[str]) -> bool:
    named = pin.message_id is not None and pin.message_id % SPAN in going.seqs
    return going.whole or named or any(_share(pin.text, text) for text in texts)


def _share(one: str, other: str) -> bool:
    """Whether one of two texts holds the other."""
    return bool(one.strip() and other.strip()) and (one in other or other in one)


def _other_texts(store: Store, conversation_id: int, seqs: set[int]) -> list[str]:
    """What came under the event ids of these messages besides."""
    rows = store.part("copy", conversation_id, ("message_id", "text", "parts"))
    return [words for identity, *both in rows if identity % SPAN in seqs for words in both if words]


def _collect_summaries(store: Store, going: _Going, texts: Sequence[str]) -> None:
    """Which summaries lose their text: those made from these messages, from them in turn, and those that tell of them."""
    graph, seqs = _graph(store, going.row.id), set(going.seqs)
    lost = {leaf for leaf, below in graph.messages.items() if not seqs.isdisjoint(below)}
    if lost:
        words = {word for text in texts for word in _WORD.findall(text) if word.lower() not in _FRAME}
        later = [row for row in graph.rows.values() if row.id > min(lost) and row.id not in lost]
        lost |= {row.id for row in later if _tells(store, going.row.id, row, graph, seqs, words)}
    empty: set[int] = set()
    for row in sorted(graph.rows.values(), key=lambda row: (row.depth, row.id)):
        sources = graph.sources.get(row.id, [])
        if row.id not in lost and lost.isdisjoint(sources):
            continue
        lost.add(row.id)
        if empty.issuperset(sources) and seqs.issuperset(graph.messages.get(row.id, ())):
            empty.add(row.id)
            going.gone.append(row)
        else:
            going.made_anew.append(row)


def _graph(store: Store, conversation_id: int) -> _Graph:
    links = store.part("summary_message", conversation_id, ("summary_id", "message_id"))
    return _Graph(
        {row.id: row for row in store.summaries(conversation_id)},
        _grouped((leaf, identity % SPAN) for leaf, identity in links),
        _grouped(
            (one, other) for one, other in store.part("summary_source", conversation_id, ("summary_id", "source_id"))
        ),
    )


def _tells(store: Store, conversation_id: int, row: SummaryRow, graph: _Graph, seqs: set[int], words: set[str]) -> bool:
    """Whether a summary has words of these messages that its own sources lack: who wrote it was shown what came before."""
    shared = words.intersection(_WORD.findall(row.text))
    if not shared:
        return False
    own = [seq for seq in graph.messages.get(row.id, ()) if seq not in seqs]
    said = [
        f"{each.text} {each.parts} {each.meta}" for each in (store.messages_at(conversation_id, own) if own else ())
    ]
    said += [graph.rows[each].text for each in graph.sources.get(row.id, ()) if each in graph.rows]
    return not shared.issubset(word for text in said for word in _WORD.findall(text))


def _collect_files(store: Store, going: _Going, written: Sequence[str]) -> None:
    """Files that these messages mention and no other of the conversation does."""
    files = {row.id: row.sha256 for row in store.files(going.row.id)}
    if going.whole:
        going.files = files
        return
    mentioned = {each for each in files if any(each in words for words in written)}
    if mentioned:
        seqs = set(going.seqs)
        for table, column in (("message", "id"), ("copy", "message_id")):
            for identity, text, parts in store.part(table, going.row.id, (column, "text", "parts")):
                if identity % SPAN not in seqs:
                    mentioned -= {each for each in mentioned if each in text or each in (parts or "")}
    going.files = {each: files[each] for each in files if each in mentioned}


def _contents(means: Means, going: _Going) -> Iterator[str]:
    """How the files begin, where they are text."""
    for sha in going.files.values():
        try:
            yield means.files.read(sha, 0, _BLOCK).decode("utf-8", "ignore")
        except FileUnavailable:
            continue  # what is not there need not go


def _plan(means: Means, going: Sequence[_Going], copied: Sequence[_Going]) -> Forgotten:
    store = means.store
    beside = [store.beside(each.row.id, each.seqs) for each in going if each.seqs]
    return Forgotten(
        key=going[0].row.key,
        messages=sum(len(each.seqs) for each in going),
        copied=sum(len(each.seqs) for each in copied),
        summaries=tuple(row.public_id for each in going for row in each.made_anew),
        gone=tuple(row.public_id for each in going for row in each.gone),
        files=tuple(name for each in going for name in each.files),
        vectors=sum(vectors for vectors, _ in beside),
        other_texts=sum(texts for _, texts in beside),
        pins=sum(len(each.pins) for each in going),
        backups=_copies(means),
        transcripts=tuple(_transcripts(store, going)),
        beyond=_beyond(means, going),
    )


def _copies(means: Means) -> tuple[str, ...]:
    """What we kept before something was changed or removed, and what may still hold the words."""
    return (*means.store.kept_copies(), *means.store.backups(), *archives(means.store, means.files))


def _transcripts(store: Store, going: Sequence[_Going]) -> Iterator[str]:
    """Files of hosts that were read into these conversations: they are not ours to change."""
    for each in going:
        yield from (source.removeprefix(PREFIX) for _, source, _ in store.cursors(PREFIX, each.row.id))


def _elsewhere(store: Store, going: Sequence[_Going]) -> Iterator[str]:
    for each in going:
        blocks = store.transplants(each.row.id)
        if any(is_copied(blocks, seq) for seq in each.seqs):
            yield f"Messages were copied into {each.row.key} from another conversation, which may still have them."


def _beyond(means: Means, going: Sequence[_Going], *, done: bool = False) -> tuple[str, ...]:
    before = means.store.guard(_LEFT) or ()
    names = before if done else sorted({*before, *(sha for each in going for sha in each.files.values())})
    return (*means.store.beyond, *_elsewhere(means.store, going), *_left(means, names))


def _left(means: Means, names: Sequence[str]) -> Iterator[str]:
    """Payloads that stay on the disk: in a directory that is not this database's own, they may be another one's too."""
    there = [means.files.root / name[:2] / name for name in names if means.files.exists(name)]
    if there and not means.unshared and not is_its_own(means.store, means.files):
        named = ", ".join(map(str, there[:_MOST_NAMED])) + (", ..." if there[_MOST_NAMED:] else "")
        yield (
            f"Another database may use {named}: it stays. If none keeps its payloads there, forget again with"
            " unshared=True (--unshared)."
        )


# taking it away


def _erase(means: Means, going: _Going) -> None:
    store, conversation_id, now = means.store, going.row.id, _micros(means)
    store.unlink(conversation_id, going.seqs)
    for row in going.gone:
        store.drop_summary(conversation_id, row.id)
    for row in going.made_anew:
        told = _told(store, conversation_id, row, means.settings)
        draft = _without_model(told, means)
        store.reword(conversation_id, row, as_row(told, draft, means.templates(), means.now()))
    for pin in going.pins:
        store.remove_pin(conversation_id, pin)
    store.bury(conversation_id, going.seqs, "forgotten", now)
    store.clear(conversation_id, going.seqs, title=going.title)
    store.remove_files(conversation_id, list(going.files))


def _told(store: Store, conversation_id: int, row: SummaryRow, settings: Settings) -> Told:
    """What is left of a summary's sources. What came before it is not shown: it vouches for nothing here."""
    seqs, ids = store.sources(conversation_id, row.id)
    if seqs:
        return of_messages(conversation_id, store.messages_at(conversation_id, seqs), (), settings)
    found = {each.id: each for each in store.summaries(conversation_id, ids)}
    return of_summaries([found[identity] for identity in ids], (), settings)


def _without_model(told: Told, means: Means) -> Draft:
    flow = drafted(told, means.settings, means.templates())
    advance(flow)
    draft = advance(flow, SummarizerError("Nobody is asked while words are taken away."))
    assert isinstance(draft, Draft)
    # Of very little there is nothing shorter than itself.
    return draft if draft.text else Draft(told.text or CUT, "extractive", "cut", None)


def _finish(means: Means) -> bool:
    """Remove the bytes that nothing refers to any more; False if somebody's reading keeps some of them alive."""
    store = means.store
    if not store.scrub():
        return False
    with store.transaction():
        store.set_guard(_MARK, None, _micros(means))
    return True


def _remove_files(means: Means) -> None:
    """Files that nothing refers to any more; where another database may, they are noted for whoever knows better."""
    store = means.store
    ours = means.unshared or is_its_own(store, means.files)
    with store.transaction():
        store.hold_files(alone=True)
        before = store.guard(_LEFT, hold=True) or []
        names = sorted({*before, *(store.guard(_MARK) or ())})
        unused = [sha for sha in names if means.files.exists(sha) and not store.file_is_used(sha)]
        for sha in unused if ours else ():
            means.files.remove(sha)
        left = [] if ours else unused
        if left != before:
            store.set_guard(_LEFT, left, _micros(means))


def _receipt(means: Means, told: Forgotten, words: Sequence[str], is_clean: bool) -> Forgotten:
    """What a search for the words finds, among the bytes of the database and in the files."""
    store, sought = means.store, Sought(words)
    found = store.remains(words)
    kept = [store.holding(word) for word in found[:_MOST_NAMED]]
    names = [name for each in kept for name in each.names]
    names += [path.name for path in _payloads(means.files.root) if sought.found(_pieces(path))]
    return replace(
        told,
        sought=len(words),
        left=sum(not each.count for each in kept),
        elsewhere=tuple(dict.fromkeys(names)),
        complete=is_clean,
    )


def _payloads(root: Path) -> Iterator[Path]:
    return (path for path in root.glob("*/*") if path.is_file()) if root.is_dir() else iter(())


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        end = b""
        while block := stream.read(_BLOCK):
            yield end + block
            end = block[-OVERLAP:]
