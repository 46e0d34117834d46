"""Erase selected messages: rewrite summaries, replace messages by tombstones, overwrite and search the bytes.

A guard in the database records what is not complete yet. The next call of the same kind completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path

from msgspec import Struct, convert, field
from msgspec.structs import replace

from lossless.config import Settings
from lossless.engine.compaction.prompts import Templates
from lossless.engine.compaction.summarize import (
    CUT,
    Draft,
    SourceText,
    as_row,
    draft_summary,
    of_messages,
    of_summaries,
)
from lossless.engine.erase.forget_plan import Erasure
from lossless.engine.shared.files_dir import is_exclusive
from lossless.engine.shared.model_flow import drive
from lossless.engine.shared.runtime import Runtime
from lossless.errors import SummarizerError
from lossless.model import Forgotten
from lossless.search.byte_search import OVERLAP, ByteSearch
from lossless.store.store import Store

SKIPPED_FILES = "forgotten files"
"""The guard that lists files that stay because another database may use them."""
_PENDING = "forgetting"
"""The guard that lists files to remove and summaries to rewrite, and says that bytes must be overwritten."""
_BLOCK = 1 << 20
_MOST_NAMED = 20
"""Words whose other places are reported."""
_BATCH = 200
"""Messages that become tombstones in one transaction."""
_MOST_TRIES = 20


class _Pending(Struct):
    """Work that an interrupted call leaves to the next one."""

    files: list[str] = field(default_factory=list)
    rewriting: list[tuple[int, int]] = field(default_factory=list)
    """Conversation and summary."""


def is_pending(store: Store) -> bool:
    """Return whether a call, this one or one before, has still to overwrite bytes."""
    return store.state.guard(_PENDING) is not None


def erase(runtime: Runtime, templates: Callable[[], Templates], erasure: Erasure) -> None:
    """Erase the selection in transactions of a few rows each; the promise holds after each of them."""
    store, conversation_id = runtime.store, erasure.row.id
    with store.erasing():
        store.conversations.hold(conversation_id)
        summaries = [(conversation_id, row.id) for row in erasure.rewritten]
        _record_pending(runtime, files=erasure.files.values(), rewriting=summaries)
        for pin in erasure.pins:
            store.manifests.remove_key_pin(erasure.row.key, pin)
        for key, brief in erasure.briefs:
            store.briefs.remove(key, brief)
        store.erase.remove_files(conversation_id, list(erasure.files))
        store.erase.clear(conversation_id, [], title=erasure.title)
    seqs = set(erasure.seqs)
    for row in sorted((*erasure.rewritten, *erasure.removed), key=lambda row: (row.depth, row.id)):
        _rewrite(runtime, templates, conversation_id, row.id, seqs)
    # Now the messages that no summary covers.
    for first in range(0, len(erasure.seqs), _BATCH):
        with store.erasing():
            _bury(runtime, conversation_id, erasure.seqs[first : first + _BATCH])
    with store.erasing():
        store.conversations.hold(conversation_id)
        # Again, because a new summary may list the files and a new operation may contain the words.
        store.erase.remove_files(conversation_id, list(erasure.files))
        store.erase.clear(conversation_id, [], title=False)


def _bury(runtime: Runtime, conversation_id: int, seqs: Sequence[int]) -> None:
    """In a transaction: replace messages by tombstones."""
    runtime.store.context.bury(conversation_id, seqs, "forgotten", runtime.now())
    runtime.store.erase.clear(conversation_id, seqs, title=False)


def _rewrite(
    runtime: Runtime, templates: Callable[[], Templates], conversation_id: int, summary_id: int, seqs: Set[int]
) -> None:
    """Rewrite a summary from its remaining sources, or remove it if there are none.

    The text is written before the transaction, which then checks that the sources are still the same.
    """
    store = runtime.store
    for _ in range(_MOST_TRIES):
        row = next(iter(store.summaries.read(conversation_id, [summary_id])), None)
        if row is None:  # it was removed with the last of its sources
            with store.transaction():
                _record_pending(runtime, rewritten=(conversation_id, summary_id))
            return
        below, sources = store.summaries.sources(conversation_id, row.id)
        remaining = [seq for seq in below if seq not in seqs]
        source = _remaining_source(store, conversation_id, remaining, sources, runtime.settings)
        new = None
        if source:
            draft = _write_without_model(source, runtime.settings, templates())
            new = as_row(source, draft, templates(), runtime.clock())
        with store.erasing():
            store.conversations.hold(conversation_id)
            texts = ((row.id, row.revision, row.created_at), *(source.revisions if source else ()))
            if store.summaries.sources(conversation_id, row.id) != (below, sources) or not store.context.has_texts(
                texts
            ):
                continue
            erased = [seq for seq in below if seq in seqs]
            store.erase.unlink(conversation_id, row.id, erased)
            if new is None:
                _remove_summary(store, conversation_id, row.id)
            else:
                store.erase.reword(conversation_id, row, new)
            _bury(runtime, conversation_id, erased)
            _record_pending(runtime, rewritten=(conversation_id, row.id))
        return


def _remove_summary(store: Store, conversation_id: int, summary_id: int) -> None:
    """Remove a summary without sources, and those above it that have no other source."""
    above = [row for row in map(store.summaries.named, store.summaries.consumers(conversation_id, summary_id)) if row]
    store.erase.drop_summary(conversation_id, summary_id)
    for _, row in above:
        if store.summaries.sources(conversation_id, row.id) == ([], []):
            _remove_summary(store, conversation_id, row.id)


def _remaining_source(
    store: Store, conversation_id: int, seqs: Sequence[int], ids: Sequence[int], settings: Settings
) -> SourceText | None:
    """Return what remains of a summary's sources, without the summaries before it."""
    if seqs:
        return of_messages(conversation_id, store.messages.at(conversation_id, seqs), (), settings)
    found = {each.id: each for each in store.summaries.read(conversation_id, ids)} if ids else {}
    return of_summaries([found[each] for each in ids if each in found], (), settings) if found else None


def _write_without_model(source: SourceText, settings: Settings, templates: Templates) -> Draft:
    error = SummarizerError("No model is called while messages are being forgotten.")
    draft = drive(draft_summary(source, settings, templates), lambda request: error)
    # A very short source has no shorter summary.
    return draft if draft.text else Draft(text=source.text or CUT, model="extractive", level="cut", faithful=None)


def _read_pending(store: Store, *, hold: bool = False) -> _Pending:
    state = store.state.guard(_PENDING, hold=hold)
    # Earlier versions stored a list of files.
    return _Pending(state) if isinstance(state, list) else convert(state or {}, _Pending)


def _record_pending(
    runtime: Runtime,
    *,
    files: Iterable[str] = (),
    rewriting: Iterable[tuple[int, int]] = (),
    rewritten: tuple[int, int] | None = None,
) -> None:
    """In a transaction: add pending work, and remove a summary that is done."""
    before = _read_pending(runtime.store, hold=True)
    after = {*before.rewriting, *rewriting}.difference([rewritten] if rewritten else ())
    state = {"files": sorted({*before.files, *files}), "rewriting": sorted(after)}
    runtime.store.state.set_guard(_PENDING, state, runtime.now())


def complete_rewriting(runtime: Runtime, templates: Callable[[], Templates]) -> None:
    """Rewrite the summaries that an interrupted call left."""
    for conversation_id, summary_id in _read_pending(runtime.store).rewriting:
        if runtime.store.conversations.get(conversation_id):
            _rewrite(runtime, templates, conversation_id, summary_id, frozenset())
        else:
            with runtime.store.transaction():
                _record_pending(runtime, rewritten=(conversation_id, summary_id))


def remove_unused_files(runtime: Runtime, *, unshared: bool) -> None:
    """Remove files that nothing refers to; where another database may use them, record them instead."""
    store = runtime.store
    own_directory = unshared or is_exclusive(store, runtime.files)
    with store.transaction():
        store.hold_files(alone=True)
        before = store.state.guard(SKIPPED_FILES, hold=True) or []
        names = sorted({*before, *_read_pending(store).files})
        unused = [sha for sha in names if runtime.files.exists(sha) and not store.files.is_used(sha)]
        for sha in unused if own_directory else ():
            runtime.files.remove(sha)
        skipped = [] if own_directory else unused
        if skipped != before:
            store.state.set_guard(SKIPPED_FILES, skipped, runtime.now())


def overwrite_and_search(runtime: Runtime, report: Forgotten, words: Sequence[str]) -> Forgotten:
    """Overwrite deleted bytes, then search rows, readable bytes and files for the words."""
    store, search = runtime.store, ByteSearch(words)
    reason = store.scrub()
    found = store.erase.holding(words)
    left = store.remains([word for word in words if word not in found])
    # A file that is too large to be rewritten while others wait is clean if it contains none of the words.
    complete = not reason or (reason == "held" and left == [])
    if complete and not _read_pending(store).rewriting:
        with store.transaction():
            store.state.set_guard(_PENDING, None, runtime.now())
    names = [name for each in list(found.values())[:_MOST_NAMED] for name in each.names]
    names += [path.name for path in _stored_files(runtime.files.root) if search.find(_blocks(path))]
    return replace(
        report,
        sought=len(words),
        left=len(left or ()),
        elsewhere=tuple(dict.fromkeys(names)),
        complete=complete,
    )


def _stored_files(root: Path) -> Iterator[Path]:
    return (path for path in root.glob("*/*") if path.is_file()) if root.is_dir() else iter(())


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        end = b""
        while block := stream.read(_BLOCK):
            yield end + block
            end = block[-OVERLAP:]
