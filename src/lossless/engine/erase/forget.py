"""Forget messages for good, with everything that was derived from them.

First a plan, then many short transactions, so that no host waits long. Messages become tombstones. Summaries made from
them are rewritten from their remaining sources, without a model at first, or removed if no source remains. Because
others keep writing, this repeats until nothing is left to erase. Then the deleted bytes are overwritten and searched.
After an interruption the promise holds, and the next call of any kind of forgetting completes it. It cannot be undone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from lossless.engine.compaction.prompts import Templates
from lossless.engine.erase import forget_apply
from lossless.engine.erase.forget_plan import Erasure, Fingerprint, select_erasures
from lossless.engine.erase.forget_plan import Target as Target
from lossless.engine.erase.prune import archives, drop_archives
from lossless.engine.shared.files_dir import is_exclusive
from lossless.engine.shared.runtime import Runtime
from lossless.engine.shared.transplanted_ranges import is_copied
from lossless.engine.sync.read_marks import PREFIX
from lossless.errors import InvalidInput, NotFound
from lossless.model import Forgotten
from lossless.store.rows.types import SPAN
from lossless.store.store import Store

_MOST_NAMED = 20
_MOST_ROUNDS = 20
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


def message_id(id: str | int) -> tuple[int, int]:
    """Return the conversation and the seq that a message id names."""
    named = _MESSAGE.fullmatch(str(id).strip())
    if not named:
        raise InvalidInput(f"{id!r} is not a message id.", hint="Give msg#...; `grep` finds messages and their ids.")
    return divmod(int(named[1]), SPAN)


def span(store: Store, scope: Sequence[int], first: str | int, last: str | int | None) -> Target:
    """Return the messages from one id to another, both included, in a conversation of the scope."""
    (conversation_id, start), (other, end) = message_id(first), message_id(first if last is None else last)
    row = store.conversations.get(conversation_id) if conversation_id in scope else None
    if row is None or not 0 < start < row.next_seq:
        raise NotFound("message", str(first), hint="`grep` finds messages and their ids.")
    if other != conversation_id or not start <= end < row.next_seq:
        raise InvalidInput(
            f"{first} to {last} is not a range of one conversation.", hint="Give the earlier message first."
        )
    return row, range(start, end + 1)


def forget(runtime: Runtime, request: ForgetRequest) -> Forgotten:
    """Forget these messages, or with `apply=False` report what that would erase."""
    fingerprints: dict[int, Fingerprint] = {}
    if not request.apply:
        return _plan(runtime, request, fingerprints)[1]
    forget_apply.complete_rewriting(runtime, request.templates)
    erasures, report = _plan(runtime, request, fingerprints)
    for _ in range(_MOST_ROUNDS):
        if all(each.is_empty for each in erasures):
            break
        for each in erasures:
            forget_apply.erase(runtime, request.templates, each)
        erasures, more = _plan(runtime, request, fingerprints)
        report = replace(
            report,
            messages=report.messages + more.messages,
            copied=report.copied + more.copied,
            briefs=report.briefs + more.briefs,
            summaries=tuple(dict.fromkeys((*report.summaries, *more.summaries))),
            gone=tuple(dict.fromkeys((*report.gone, *more.gone))),
        )
    if request.backups:
        runtime.store.drop_copies()
        drop_archives(runtime.store, runtime.files)
    pending = forget_apply.is_pending(runtime.store)
    forget_apply.remove_unused_files(runtime, unshared=request.unshared)
    words = list(dict.fromkeys(chain.from_iterable(each.needles for each in fingerprints.values())))
    beyond = _out_of_reach(runtime, request, erasures, applied=True)
    report = replace(report, applied=True, backups=_backups(runtime), beyond=beyond)
    return forget_apply.overwrite_and_search(runtime, report, words) if pending else report


def _plan(
    runtime: Runtime, request: ForgetRequest, fingerprints: dict[int, Fingerprint]
) -> tuple[list[Erasure], Forgotten]:
    """Return what to erase now, and the report about it."""
    with runtime.store.snapshot():
        erasures = select_erasures(runtime, request.targets, fingerprints)
        return erasures, _report(runtime, request, erasures)


def _report(runtime: Runtime, request: ForgetRequest, erasures: Sequence[Erasure]) -> Forgotten:
    store = runtime.store
    derived = [store.erase.beside(each.row.id, each.seqs) for each in erasures if each.seqs]
    return Forgotten(
        key=erasures[0].row.key,
        messages=sum(len(each.seqs) for each in erasures),
        copied=sum(len(each.seqs) for each in erasures[len(request.targets) :]),
        summaries=tuple(row.public_id for each in erasures for row in each.rewritten),
        gone=tuple(row.public_id for each in erasures for row in each.removed),
        files=tuple(name for each in erasures for name in each.files),
        vectors=sum(vectors for vectors, _ in derived),
        other_texts=sum(texts for _, texts in derived),
        pins=len({(each.row.key, pin) for each in erasures for pin in each.pins}),
        briefs=len({brief for each in erasures for brief in each.briefs}),
        backups=_backups(runtime),
        transcripts=tuple(_transcripts(store, erasures)),
        beyond=_out_of_reach(runtime, request, erasures),
    )


def _backups(runtime: Runtime) -> tuple[str, ...]:
    """Return the copies, backups and archives that may still contain the words."""
    return (*runtime.store.kept_copies(), *runtime.store.backups.paths(), *archives(runtime.store, runtime.files))


def _transcripts(store: Store, erasures: Sequence[Erasure]) -> Iterator[str]:
    """Yield the files of hosts that were read into these conversations; we never change them."""
    for each in erasures:
        yield from (source.removeprefix(PREFIX) for _, source, _ in store.state.cursors(PREFIX, each.row.id))


def _out_of_reach(
    runtime: Runtime, request: ForgetRequest, erasures: Sequence[Erasure], *, applied: bool = False
) -> tuple[str, ...]:
    """Return sentences about places that may contain the words and that we cannot erase."""
    skipped = runtime.store.state.guard(forget_apply.SKIPPED_FILES) or ()
    names = skipped if applied else sorted({*skipped, *(sha for each in erasures for sha in each.files.values())})
    return (
        *runtime.store.beyond,
        *_transplant_sources(runtime.store, erasures),
        *_shared_files(runtime, request, names),
    )


def _transplant_sources(store: Store, erasures: Sequence[Erasure]) -> Iterator[str]:
    for each in erasures:
        blocks = store.imported.transplants(each.row.id)
        if any(is_copied(blocks, seq) for seq in each.seqs):
            yield f"Messages were copied into {each.row.key} from another conversation, which may still have them."


def _shared_files(runtime: Runtime, request: ForgetRequest, names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about files that stay, because another database may use the same directory."""
    paths = [runtime.files.root / name[:2] / name for name in names if runtime.files.exists(name)]
    if paths and not request.unshared and not is_exclusive(runtime.store, runtime.files):
        named = ", ".join(map(str, paths[:_MOST_NAMED])) + (", ..." if paths[_MOST_NAMED:] else "")
        yield (
            f"Another database may use {named}, which therefore stays. If no other database keeps its files there,"
            " forget again with unshared=True (--unshared)."
        )
