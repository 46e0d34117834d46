"""Take words away for good: messages, and everything that was derived from them.

First the plan, then many short transactions, so that no host waits long: messages become tombstones, summaries made from them
are rewritten from what is left (without a model; a model rewrites them later), and those of which nothing is left go. Texts are
made outside of transactions and put in place only if nothing they were made from changed. It is repeated until nothing is left,
since others go on writing. Then the deleted bytes are overwritten, and searched for. If it is cut off in between, the promise
holds, and the same call, or any other of its kind, completes it. There is no way back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, convert, field
from msgspec.structs import replace

from lossless.config import Settings
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.summarize import CUT, Draft, Told, as_row, drafted, of_messages, of_summaries
from lossless.engine.erase.prune import archives, drop_archives
from lossless.engine.shared.files_dir import is_its_own
from lossless.engine.shared.model_flow import drive
from lossless.engine.shared.runtime import Runtime
from lossless.engine.shared.transplanted_ranges import copy_digest, is_copied
from lossless.engine.sync.read_marks import PREFIX
from lossless.errors import FileUnavailable, InvalidInput, NotFound, SummarizerError
from lossless.model import Forgotten
from lossless.search.byte_search import OVERLAP, Sought, needles
from lossless.search.query.stopwords import STOP_WORDS
from lossless.store.base import BURIED, SPAN, ConversationRow, MessageRow, PinRow, SummaryRow
from lossless.store.store import Store

Target: TypeAlias = tuple[ConversationRow, Sequence[int] | None]
"""A conversation, and the seqs of its messages that are to be forgotten; None for all of it."""

_MARK = "forgetting"
"""The guard that says what is not complete: payloads to be removed, summaries to be rewritten, bytes to be overwritten."""
_LEFT = "forgotten files"
"""The guard that names files that were left, because another database may use them."""
_BLOCK = 1 << 20
_MOST_NAMED = 20
"""Of how many words it is told where else they stand."""
_AT_ONCE = 200
"""How many messages are buried in one transaction."""
_MOST_ROUNDS = 20
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
"""Words that say nothing, or that a summary has of its own."""
_LEAST, _LEAST_NUMBER, _PHRASE = 4, 3, 3
_MESSAGE = re.compile(r"(?:msg#)?([0-9]{1,19})")


class ForgetRequest(Struct, frozen=True):
    """The messages to forget, and the prompts to rewrite summaries with."""

    targets: Sequence[Target]
    templates: Callable[[], Templates]
    apply: bool = False
    backups: bool = False
    """Remove the copies and archives beside the database too."""
    unshared: bool = False
    """No other database keeps payloads in the same directory."""


class _Going(Struct):
    """What goes from one conversation."""

    row: ConversationRow
    seqs: list[int]
    whole: bool
    rewritten: list[SummaryRow] = field(default_factory=list)
    """Summaries that keep some of their sources, the shallowest first."""
    gone: list[SummaryRow] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of files that nothing else mentions, by id."""
    pins: list[str] = field(default_factory=list)
    title: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.seqs or self.rewritten or self.gone)


class _Said(Struct):
    """By what the words that go would be known again; kept while it takes several rounds."""

    seqs: list[int]
    needles: list[str]
    words: set[str]
    """Those that may tell of them."""
    phrases: set[tuple[str, ...]]
    since: int | None = None
    """The first summary that may hold them."""


class _Graph(Struct, frozen=True):
    """The summaries of a conversation, and what each was made from."""

    rows: dict[int, SummaryRow]
    messages: dict[int, list[int]]
    """The seqs below each leaf."""
    sources: dict[int, list[int]]


def message_id(what: str | int) -> tuple[int, int]:
    """Return the conversation and the seq that a message id names."""
    named = _MESSAGE.fullmatch(str(what).strip())
    if not named:
        raise InvalidInput(f"{what!r} is no message's id.", hint="Give msg#...; `grep` finds messages and their ids.")
    return divmod(int(named[1]), SPAN)


def span(store: Store, scope: Sequence[int], what: str | int, until: str | int | None) -> Target:
    """The messages from one id up to another, both included, in a conversation of the scope."""
    (conversation_id, first), (other, last) = message_id(what), message_id(what if until is None else until)
    row = store.conversations.get(conversation_id) if conversation_id in scope else None
    if row is None or not 0 < first < row.next_seq:
        raise NotFound("message", str(what), hint="`grep` finds messages and their ids.")
    if other != conversation_id or not first <= last < row.next_seq:
        raise InvalidInput(
            f"{what} to {until} is no stretch of a conversation.", hint="Give the earlier message first."
        )
    return row, range(first, last + 1)


def forget(runtime: Runtime, request: ForgetRequest) -> Forgotten:
    """What forgetting these messages takes away; with `apply` it is done, and there is no way back."""
    store = runtime.store
    if not request.apply:
        with store.snapshot():
            return _planned(runtime, request, {})[1]
    _complete_rewriting(runtime, request)
    said: dict[int, _Said] = {}
    going, report = _round(runtime, request, said)
    for _ in range(_MOST_ROUNDS):
        if all(each.is_empty for each in going):
            break
        for each in going:
            _erase(runtime, request, each)
        going, more = _round(runtime, request, said)
        report = replace(
            report,
            messages=report.messages + more.messages,
            copied=report.copied + more.copied,
            summaries=tuple(dict.fromkeys((*report.summaries, *more.summaries))),
            gone=tuple(dict.fromkeys((*report.gone, *more.gone))),
        )
    if request.backups:
        store.drop_copies()
        drop_archives(store, runtime.files)
    pending = store.state.guard(_MARK)
    _remove_files(runtime, unshared=request.unshared)
    words = list(dict.fromkeys(chain.from_iterable(each.needles for each in said.values())))
    done = replace(report, applied=True, backups=_copies(runtime), beyond=_beyond(runtime, request, going, done=True))
    return done if pending is None else _receipt(runtime, done, words)


def _round(runtime: Runtime, request: ForgetRequest, said: dict[int, _Said]) -> tuple[list[_Going], Forgotten]:
    with runtime.store.snapshot():
        return _planned(runtime, request, said)


def _planned(runtime: Runtime, request: ForgetRequest, said: dict[int, _Said]) -> tuple[list[_Going], Forgotten]:
    """What goes from each conversation, as of this moment."""
    going = [_collect(runtime, *target, said) for target in _reach(runtime.store, request.targets)]
    reached = {each.row.id for each in going}
    # A conversation of which everything is buried by now may still hold words in a summary that came meanwhile.
    late = [row for row in map(runtime.store.conversations.get, said.keys() - reached) if row]
    going += [_collect(runtime, row, said[row.id].seqs, said) for row in late]
    return going, _plan(runtime, request, going, copied=going[len(request.targets) :])


# what goes


def _reach(store: Store, targets: Sequence[Target]) -> list[Target]:
    """The targets, and the same messages wherever a transplant has copied them to."""
    copies = store.erase.copied_on()
    digests = {copy_digest(row.digest) for row in _stored(store, targets)} if copies else set()
    found: dict[int, bytes] = {}
    while fresh := {each: digest for each, digest in copies if digest in digests and each not in found}:
        found |= fresh
        digests = {copy_digest(digest) for digest in fresh.values()}
    seqs = _grouped(divmod(each, SPAN) for each in sorted(found))
    own = {row.id for row, _ in targets}
    rows = [(store.conversations.get(each), seqs[each]) for each in seqs if each not in own]
    return [*targets, *((row, chosen) for row, chosen in rows if row)]


def _stored(store: Store, targets: Iterable[Target]) -> Iterator[MessageRow]:
    for row, seqs in targets:
        found = store.messages.read(row.id) if seqs is None else store.messages.at(row.id, seqs)
        # What is said from now on is not meant.
        yield from (each for each in found if each.outside not in BURIED and each.seq < row.next_seq)


def _grouped(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one, other in pairs:
        found.setdefault(one, []).append(other)
    return found


def _collect(
    runtime: Runtime, row: ConversationRow, seqs: Sequence[int] | None, said: dict[int, _Said] | None = None
) -> _Going:
    store, known = runtime.store, {} if said is None else said
    rows = list(_stored(store, [(row, seqs)]))
    going = _Going(row, [each.seq for each in rows], seqs is None)
    if rows:
        texts = [each.text for each in rows]
        written = [words for each in rows for words in (each.text, each.parts, each.meta) if words]
        written += _other_texts(store, row.id, set(going.seqs))
        _collect_files(store, going, written)
        own = {pin.id for pin in store.manifests.pins(row.id)} if going.whole else set()
        going.pins = [
            pin.id for pin in store.manifests.key_pins(row.key) if pin.id in own or _is_pinned(pin, going, texts)
        ]
        if row.id not in known:
            known[row.id] = _heard(going.seqs, [*texts, *_contents(runtime, going)])
        known[row.id].seqs = sorted({*known[row.id].seqs, *going.seqs})
    if row.id in known:
        _collect_summaries(store, going, known[row.id])
        going.title = bool(row.title) and (
            going.whole or bool(_own_words(store, known[row.id], row, [row.title or ""]))
        )
    return going


def _heard(seqs: list[int], texts: Sequence[str]) -> _Said:
    words = {word for text in texts for word in _telling(text)}
    return _Said(seqs, needles(texts), words, {phrase for text in texts for phrase in _phrases(text)})


def _telling(text: str) -> Iterator[str]:
    """The words of a text that may give it away."""
    for word in _WORD.findall(text.casefold()):
        least = _LEAST_NUMBER if any(map(str.isdigit, word)) else _LEAST
        if len(word) >= least and word not in _FRAME:
            yield word


def _phrases(text: str) -> Iterator[tuple[str, ...]]:
    """Three words in a row, of which one may give the text away."""
    words = _WORD.findall(text.casefold())
    for at in range(len(words) - _PHRASE + 1):
        phrase = words[at : at + _PHRASE]
        if any(True for _ in _telling(" ".join(phrase))):
            yield tuple(phrase)


def _is_pinned(pin: PinRow, going: _Going, texts: Sequence[str]) -> bool:
    """Whether a pin of the key, made in any of its sessions, is one of these messages or quotes it."""
    named = pin.message_id is not None and pin.message_id - going.row.id * SPAN in going.seqs
    return named or any(_share(pin.text, text) for text in texts)


def _share(one: str, other: str) -> bool:
    """Whether one of two texts holds the other, and that says anything."""
    one, other = one.strip(), other.strip()
    return (one in other and any(True for _ in _telling(one))) or (other in one and any(True for _ in _phrases(other)))


def _other_texts(store: Store, conversation_id: int, seqs: set[int]) -> list[str]:
    """What came under the event ids of these messages besides."""
    rows = store.tables.part("copy", conversation_id, ("message_id", "text", "parts"))
    return [words for identity, *both in rows if identity % SPAN in seqs for words in both if words]


def _collect_summaries(store: Store, going: _Going, said: _Said) -> None:
    """Which summaries lose their text: those made from these messages, from them in turn, and those that tell of them."""
    graph, seqs = _graph(store, going.row.id), set(going.seqs)
    lost = {leaf for leaf, below in graph.messages.items() if not seqs.isdisjoint(below)}
    if lost:
        said.since = min(lost | ({said.since} if said.since else set()))
    if said.since is not None:
        lost |= set(_traces(store, going.row, graph, lost, said))
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
            going.rewritten.append(row)


def _traces(store: Store, conversation: ConversationRow, graph: _Graph, lost: set[int], said: _Said) -> Iterator[int]:
    """Later summaries that hold the words: whoever wrote them was shown what came before.

    A word counts if no message that stays has it, three words in a row if the summary's own sources lack them.
    """
    later = [row for row in graph.rows.values() if row.id > (said.since or 0) and row.id not in lost]
    own = _own_words(store, said, conversation, [row.text for row in later])
    for row in later:
        if not own.isdisjoint(_telling(row.text)):
            yield row.id
        elif phrases := said.phrases.intersection(_phrases(row.text)):
            sources = _source_texts(store, conversation.id, row, graph, said)
            if not phrases.issubset(phrase for text in sources for phrase in _phrases(text)):
                yield row.id


def _own_words(store: Store, said: _Said, conversation: ConversationRow, texts: Sequence[str]) -> set[str]:
    """Of the words that go, those that stand in these texts and in nothing that stays or was written before."""
    shared = said.words.intersection(word for text in texts for word in _telling(text))
    if not shared:
        return shared
    for row in store.summaries.read(conversation.id):
        if said.since is not None and row.id < said.since:
            shared.difference_update(_telling(row.text))
    gone = set(said.seqs)
    with closing(store.tables.part("message", conversation.id, ("id", "text", "parts", "meta"))) as rows:
        for identity, *words in rows:
            if not shared:
                break
            if identity % SPAN not in gone:
                shared.difference_update(word for each in words if each for word in _telling(each))
    return shared


def _source_texts(store: Store, conversation_id: int, row: SummaryRow, graph: _Graph, said: _Said) -> Iterator[str]:
    seqs = [seq for seq in graph.messages.get(row.id, ()) if seq not in said.seqs]
    for each in store.messages.at(conversation_id, seqs) if seqs else ():
        yield f"{each.text} {each.parts} {each.meta}"
    yield from (graph.rows[each].text for each in graph.sources.get(row.id, ()) if each in graph.rows)


def _graph(store: Store, conversation_id: int) -> _Graph:
    links = store.tables.part("summary_message", conversation_id, ("summary_id", "message_id"))
    return _Graph(
        {row.id: row for row in store.summaries.read(conversation_id)},
        _grouped((leaf, identity % SPAN) for leaf, identity in links),
        _grouped(
            (one, other)
            for one, other in store.tables.part("summary_source", conversation_id, ("summary_id", "source_id"))
        ),
    )


def _collect_files(store: Store, going: _Going, written: Sequence[str]) -> None:
    """Files that these messages mention and no other of the conversation does."""
    files = {row.id: row.sha256 for row in store.files.of_conversation(going.row.id)}
    if going.whole:
        going.files = files
        return
    mentioned = {each for each in files if any(each in words for words in written)}
    if mentioned:
        seqs = set(going.seqs)
        for table, column in (("message", "id"), ("copy", "message_id")):
            for identity, text, parts in store.tables.part(table, going.row.id, (column, "text", "parts")):
                if identity % SPAN not in seqs:
                    mentioned -= {each for each in mentioned if each in text or each in (parts or "")}
    going.files = {each: files[each] for each in files if each in mentioned}


def _contents(runtime: Runtime, going: _Going) -> Iterator[str]:
    """How the files begin, where they are text."""
    for sha in going.files.values():
        try:
            yield runtime.files.read(sha, 0, _BLOCK).decode("utf-8", "ignore")
        except FileUnavailable:
            continue  # what is not there need not go


def _plan(runtime: Runtime, request: ForgetRequest, going: Sequence[_Going], copied: Sequence[_Going]) -> Forgotten:
    store = runtime.store
    beside = [store.erase.beside(each.row.id, each.seqs) for each in going if each.seqs]
    return Forgotten(
        key=going[0].row.key,
        messages=sum(len(each.seqs) for each in going),
        copied=sum(len(each.seqs) for each in copied),
        summaries=tuple(row.public_id for each in going for row in each.rewritten),
        gone=tuple(row.public_id for each in going for row in each.gone),
        files=tuple(name for each in going for name in each.files),
        vectors=sum(vectors for vectors, _ in beside),
        other_texts=sum(texts for _, texts in beside),
        pins=len({(each.row.key, pin) for each in going for pin in each.pins}),
        backups=_copies(runtime),
        transcripts=tuple(_transcripts(store, going)),
        beyond=_beyond(runtime, request, going),
    )


def _copies(runtime: Runtime) -> tuple[str, ...]:
    """What we kept before something was changed or removed, and what may still hold the words."""
    return (*runtime.store.kept_copies(), *runtime.store.backups.paths(), *archives(runtime.store, runtime.files))


def _transcripts(store: Store, going: Sequence[_Going]) -> Iterator[str]:
    """Files of hosts that were read into these conversations: they are not ours to change."""
    for each in going:
        yield from (source.removeprefix(PREFIX) for _, source, _ in store.state.cursors(PREFIX, each.row.id))


def _elsewhere(store: Store, going: Sequence[_Going]) -> Iterator[str]:
    for each in going:
        blocks = store.imported.transplants(each.row.id)
        if any(is_copied(blocks, seq) for seq in each.seqs):
            yield f"Messages were copied into {each.row.key} from another conversation, which may still have them."


def _beyond(
    runtime: Runtime, request: ForgetRequest, going: Sequence[_Going], *, done: bool = False
) -> tuple[str, ...]:
    before = runtime.store.state.guard(_LEFT) or ()
    names = before if done else sorted({*before, *(sha for each in going for sha in each.files.values())})
    return (*runtime.store.beyond, *_elsewhere(runtime.store, going), *_left(runtime, request, names))


def _left(runtime: Runtime, request: ForgetRequest, names: Sequence[str]) -> Iterator[str]:
    """Payloads that stay on the disk: in a directory that is not this database's own, they may be another one's too."""
    there = [runtime.files.root / name[:2] / name for name in names if runtime.files.exists(name)]
    if there and not request.unshared and not is_its_own(runtime.store, runtime.files):
        named = ", ".join(map(str, there[:_MOST_NAMED])) + (", ..." if there[_MOST_NAMED:] else "")
        yield (
            f"Another database may use {named}: it stays. If none keeps its payloads there, forget again with"
            " unshared=True (--unshared)."
        )


# taking it away


def _erase(runtime: Runtime, request: ForgetRequest, going: _Going) -> None:
    """Take away what was collected, in transactions of a few rows each, after each of which the promise holds."""
    store, conversation_id = runtime.store, going.row.id
    with store.erasing():
        store.conversations.hold(conversation_id)
        _note(runtime, files=going.files.values(), rewriting=[(conversation_id, row.id) for row in going.rewritten])
        for pin in going.pins:
            store.manifests.remove_key_pin(going.row.key, pin)
        store.erase.remove_files(conversation_id, list(going.files))
        store.erase.clear(conversation_id, [], title=going.title)
    seqs = set(going.seqs)
    for row in sorted((*going.rewritten, *going.gone), key=lambda row: (row.depth, row.id)):
        _rewrite(runtime, request, conversation_id, row.id, seqs)
    # Those that are below no summary.
    for first in range(0, len(going.seqs), _AT_ONCE):
        with store.erasing():
            _bury(runtime, conversation_id, going.seqs[first : first + _AT_ONCE])
    with store.erasing():
        store.conversations.hold(conversation_id)
        # Once more: a new summary may list the files, and a new operation may hold the words.
        store.erase.remove_files(conversation_id, list(going.files))
        store.erase.clear(conversation_id, [], title=False)


def _bury(runtime: Runtime, conversation_id: int, seqs: Sequence[int]) -> None:
    runtime.store.context.bury(conversation_id, seqs, "forgotten", runtime.now())
    runtime.store.erase.clear(conversation_id, seqs, title=False)


def _rewrite(runtime: Runtime, request: ForgetRequest, conversation_id: int, summary_id: int, seqs: Set[int]) -> None:
    """Another text for a summary, from what is left of its sources; or none, if nothing is.

    The text is made before the transaction, which then looks whether it was made from what is there.
    """
    store = runtime.store
    for _ in range(_MOST_ROUNDS):
        row = next(iter(store.summaries.read(conversation_id, [summary_id])), None)
        if row is None:  # it went with the last of its sources
            with store.transaction():
                _note(runtime, rewritten=(conversation_id, summary_id))
            return
        below, sources = store.summaries.sources(conversation_id, row.id)
        left = [seq for seq in below if seq not in seqs]
        report = _told(store, conversation_id, left, sources, runtime.settings)
        new = (
            as_row(
                report,
                _without_model(report, runtime.settings, request.templates()),
                request.templates(),
                runtime.clock(),
            )
            if report
            else None
        )
        with store.erasing():
            store.conversations.hold(conversation_id)
            texts = ((row.id, row.revision, row.created_at), *(report.revisions if report else ()))
            if store.summaries.sources(conversation_id, row.id) != (below, sources) or not store.context.has_texts(
                texts
            ):
                continue
            gone = [seq for seq in below if seq in seqs]
            store.erase.unlink(conversation_id, row.id, gone)
            if new is None:
                _drop(store, conversation_id, row.id)
            else:
                store.erase.reword(conversation_id, row, new)
            _bury(runtime, conversation_id, gone)
            _note(runtime, rewritten=(conversation_id, row.id))
        return


def _drop(store: Store, conversation_id: int, summary_id: int) -> None:
    """A summary of which nothing is left, and those above it that were made from nothing else."""
    above = [row for row in map(store.summaries.named, store.summaries.consumers(conversation_id, summary_id)) if row]
    store.erase.drop_summary(conversation_id, summary_id)
    for _, row in above:
        if store.summaries.sources(conversation_id, row.id) == ([], []):
            _drop(store, conversation_id, row.id)


def _told(
    store: Store, conversation_id: int, seqs: Sequence[int], ids: Sequence[int], settings: Settings
) -> Told | None:
    """What is left of a summary's sources. What came before it is not shown: it vouches for nothing here."""
    if seqs:
        return of_messages(conversation_id, store.messages.at(conversation_id, seqs), (), settings)
    found = {each.id: each for each in store.summaries.read(conversation_id, ids)} if ids else {}
    return of_summaries([found[each] for each in ids if each in found], (), settings) if found else None


# what is not complete


class _Pending(Struct):
    """What a forgetting that was cut off leaves to the next one."""

    files: list[str] = field(default_factory=list)
    rewriting: list[tuple[int, int]] = field(default_factory=list)
    """Conversation and summary."""


def _pending(store: Store, *, hold: bool = False) -> _Pending:
    state = store.state.guard(_MARK, hold=hold)
    # A list of files is what earlier versions wrote.
    return _Pending(state) if isinstance(state, list) else convert(state or {}, _Pending)


def _note(
    runtime: Runtime,
    *,
    files: Iterable[str] = (),
    rewriting: Iterable[tuple[int, int]] = (),
    rewritten: tuple[int, int] | None = None,
) -> None:
    """In a transaction: what is pending from now on, and what no longer is."""
    before = _pending(runtime.store, hold=True)
    after = {*before.rewriting, *rewriting}.difference([rewritten] if rewritten else ())
    state = {"files": sorted({*before.files, *files}), "rewriting": sorted(after)}
    runtime.store.state.set_guard(_MARK, state, runtime.now())


def _complete_rewriting(runtime: Runtime, request: ForgetRequest) -> None:
    """Rewrite the summaries that a forgetting left behind that was cut off."""
    for conversation_id, summary_id in _pending(runtime.store).rewriting:
        if runtime.store.conversations.get(conversation_id):
            _rewrite(runtime, request, conversation_id, summary_id, frozenset())
        else:
            with runtime.store.transaction():
                _note(runtime, rewritten=(conversation_id, summary_id))


def _without_model(told: Told, settings: Settings, templates: Templates) -> Draft:
    error = SummarizerError("No model is asked while messages are being forgotten.")
    draft = drive(drafted(told, settings, templates), lambda request: error)
    # Of very little there is nothing shorter than itself.
    return draft if draft.text else Draft(told.text or CUT, "extractive", "cut", None)


def _remove_files(runtime: Runtime, *, unshared: bool) -> None:
    """Files that nothing refers to any more; where another database may, they are noted for whoever knows better."""
    store = runtime.store
    ours = unshared or is_its_own(store, runtime.files)
    with store.transaction():
        store.hold_files(alone=True)
        before = store.state.guard(_LEFT, hold=True) or []
        names = sorted({*before, *_pending(store).files})
        unused = [sha for sha in names if runtime.files.exists(sha) and not store.files.is_used(sha)]
        for sha in unused if ours else ():
            runtime.files.remove(sha)
        left = [] if ours else unused
        if left != before:
            store.state.set_guard(_LEFT, left, runtime.now())


def _receipt(runtime: Runtime, report: Forgotten, words: Sequence[str]) -> Forgotten:
    """Overwrite what was deleted, and search for the words: in rows, among the bytes where these can be read, in files."""
    store, sought = runtime.store, Sought(words)
    reason = store.scrub()
    kept = store.erase.holding(words)
    left = store.remains([word for word in words if word not in kept])
    # A file that is too large to be written anew while others wait is clean if none of the words is found in it.
    complete = not reason or (reason == "held" and left == [])
    if complete and not _pending(store).rewriting:
        with store.transaction():
            store.state.set_guard(_MARK, None, runtime.now())
    names = [name for each in list(kept.values())[:_MOST_NAMED] for name in each.names]
    names += [path.name for path in _payloads(runtime.files.root) if sought.found(_pieces(path))]
    return replace(
        report,
        sought=len(words),
        left=len(left or ()),
        elsewhere=tuple(dict.fromkeys(names)),
        complete=complete,
    )


def _payloads(root: Path) -> Iterator[Path]:
    return (path for path in root.glob("*/*") if path.is_file()) if root.is_dir() else iter(())


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        end = b""
        while block := stream.read(_BLOCK):
            yield end + block
            end = block[-OVERLAP:]
