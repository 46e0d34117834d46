"""Import a history, compact it to its end and transplant the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from lossless.client.arguments import checked
from lossless.engine.compaction import backfill as engine
from lossless.engine.shared.call_limits import Guards
from lossless.errors import InvalidInput, NotFound
from lossless.model import Backfill, ImportedSource, Message
from lossless.store.rows.types import MESSAGE, USER_MESSAGE, ConversationRow, ItemRow
from lossless.tokens import message_tokens
from lossless.transcripts import Tally, reader, recognise

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless


class BackfillRequest(Struct, frozen=True):
    """The histories to import, and how far to compact them."""

    key: str | None
    title: str | None
    recompact: bool
    single_root: bool
    tail: int
    transplant_to: str | None
    apply: bool
    progress: engine.Progress


def backfill(lcm: Lossless, paths: Iterable[str | Path], request: BackfillRequest) -> tuple[Backfill, ...]:
    """See `Lossless.backfill`."""
    given = [Path(path) for path in paths]
    if not given and not (request.recompact and request.key):
        raise InvalidInput("There is nothing to backfill.", hint="Name a transcript, or recompact and a key.")
    if request.transplant_to is not None:
        lcm._resolved(request.transplant_to, active=True)
    if request.recompact and request.key is not None:
        request = structs.replace(request, key=lcm._resolved(request.key, active=True).row.key)
    sources = _sources(lcm, given, request)
    keys = list(dict.fromkeys(each.key for each in sources if each.key)) or [request.key or ""]
    if request.title is not None and len(keys) > 1:
        raise InvalidInput(f"{len(keys)} conversations would have one title.", hint="Name one transcript.")
    failed = [_failed(each) for each in sources if each.status == "error" or not each.key]
    good = [each for each in sources if each.status != "error"]
    done = [_one(lcm, key, [each for each in good if each.key == key], request) for key in keys if key]
    return (*failed, *_carried(lcm, done, request))


def _sources(lcm: Lossless, paths: Sequence[Path], request: BackfillRequest) -> tuple[ImportedSource, ...]:
    if not paths:
        return ()
    apply = request.apply and not request.recompact
    return lcm.import_(paths, apply=apply, key=request.key).sources


def _failed(source: ImportedSource) -> Backfill:
    why = source.reason or "It holds many conversations: import it, then compact them one by one."
    return Backfill(source.key, (source.path,), failure="" if source.status == "skipped" else why)


def _one(lcm: Lossless, key: str, sources: Sequence[ImportedSource], request: BackfillRequest) -> Backfill:
    """Compact one conversation, or tell what that would take."""
    store = lcm._store
    lcm.conversation(checked("key", key))._refuse_if_closed()
    row = store.conversations.active(key)
    if request.recompact and row is None:
        raise NotFound("conversation", key, hint="A conversation is created by its import.")
    items = [] if row is None else store.context.items(row.id)
    if not request.apply and not request.recompact:
        items += _to_come(lcm, sources, row.next_seq if row else 1)
    settings, templates = engine.without_deadlines(lcm.settings), lcm._models.templates()
    expected = engine.estimate_cost(
        items, settings, templates=templates, tail=request.tail, single_root=request.single_root
    )
    planned = Backfill(
        key,
        tuple(each.path for each in sources),
        row.id if row else None,
        imported=0 if request.recompact else sum(each.messages for each in sources),
        known=sum(each.known for each in sources),
        model=lcm._models.summarizer().name,
        expected=expected,
        tokens_before=sum(item.tokens for item in items),
        tokens_after=sum(item.tokens for item in items),
        summaries_left=sum(not item.is_message for item in items),
        messages_left=sum(item.is_message for item in items),
    )
    return _compacted(lcm, row, planned, request) if request.apply and row is not None else planned


def _compacted(lcm: Lossless, row: ConversationRow, planned: Backfill, request: BackfillRequest) -> Backfill:
    store, settings, summarizer = lcm._store, engine.without_deadlines(lcm.settings), lcm._models.summarizer()
    if request.title is not None:
        with store.transaction():
            store.conversations.set_title(row.id, lcm._redact.text(request.title) if lcm._redact else request.title)
    guards = Guards(store, settings, row.key, summarizer.name, lcm._clock)
    guards.reset()
    work = engine.begin(store, row, settings, templates=lcm._models.templates(), now=lcm._clock, tail=request.tail)

    def progress(made: int) -> None:
        request.progress(row.key, made, max(made, planned.expected.calls))

    ask = partial(guards.ask, summarizer)
    failure = engine.finish(work, ask, single_root=request.single_root, progress=progress)
    left = sum(item.is_message for item in work.items)
    if not failure and request.single_root and len(work.items) > 1:
        failure = f"There is no single root: {len(work.items):,} items are left that nothing makes shorter."
    return structs.replace(
        planned,
        applied=True,
        made=tuple(work.made),
        tokens_after=work.tokens,
        summaries_left=len(work.items) - left,
        messages_left=left,
        failure=failure,
    )


def _to_come(lcm: Lossless, sources: Sequence[ImportedSource], ordinal: int) -> Iterator[ItemRow]:
    """The messages that an import would bring, about as they would stand in the context."""
    most = lcm.settings.large_file_token_threshold
    for source in sources:
        new = list(_messages(Path(source.path)))[-source.messages :] if source.status == "would-import" else []
        for message in new:
            depth = USER_MESSAGE if message.role == "user" else MESSAGE
            yield ItemRow(ordinal, None, min(message_tokens(message), most), depth)
            ordinal += 1


def _messages(path: Path) -> Iterator[Message]:
    header = recognise(path)
    read = reader(header.format)
    branch = read.branch(path, header)
    for entry in read.entries(path, header, Tally()):
        if entry.message and entry.thread is None and (branch is None or entry.id in branch):
            yield entry.message


def _carried(lcm: Lossless, done: Sequence[Backfill], request: BackfillRequest) -> Iterator[Backfill]:
    """Each with its transplant. The newest goes first, since each comes before all that is there."""
    if request.transplant_to is None:
        yield from done
        return
    grafts = {}
    for each in sorted(done, key=lambda each: _began(lcm, each), reverse=True):
        if each.conversation is not None and not each.failure:
            grafts[each.key] = lcm.transplant(each.key, request.transplant_to, apply=request.apply, dedupe=True)
    for each in done:
        yield structs.replace(each, transplant=grafts.get(each.key))


def _began(lcm: Lossless, done: Backfill) -> int:
    first = lcm._store.messages.read(done.conversation, limit=1) if done.conversation is not None else []
    return next((row.created_at if row.at is None else row.at for row in first), 0)
