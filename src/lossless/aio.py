"""The same verbs, awaited: each runs on a worker thread, so the event loop never waits for a disk or a server.

A call that is cancelled may still finish in its thread, and is stored whole or not at all: give messages their event
ids, and sending them again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import anyio.to_thread
from anyio.lowlevel import current_token

from lossless.client import Conversation, Inquiry, Job, Lossless
from lossless.client.surgery import Remaking, RewriteOptions
from lossless.engine.ingest.identity import Canonicalize
from lossless.engine.ingest.intake import Skip
from lossless.engine.recall.search_request import Mode, Scope
from lossless.engine.shared.defaults import FLAW_KINDS
from lossless.engine.shared.model_flow import drive_async
from lossless.engine.surgery.flaws import known_kinds
from lossless.engine.surgery.rewrite import AT_ONCE
from lossless.engine.surgery.select import Selection
from lossless.errors import LosslessError, SummarizerError
from lossless.model import (
    Answer,
    Applied,
    Backfill,
    Backup,
    Bootstrapped,
    Cleaning,
    Compaction,
    Comparison,
    Context,
    ConversationStatus,
    Description,
    Detached,
    Expansion,
    Explanation,
    Exported,
    Fix,
    Forgotten,
    Garbage,
    Health,
    Hits,
    ImportReport,
    Ingested,
    ListedConversation,
    ListedMessage,
    ListedSummary,
    Listing,
    Message,
    MessageTail,
    Migration,
    Nearest,
    Neighbours,
    Operation,
    Pin,
    Proof,
    Pruning,
    Rejection,
    Renewed,
    Restored,
    Revision,
    ShownConversation,
    ShownFile,
    ShownMessage,
    ShownSummary,
    Stats,
    Status,
    Step,
    StoredFile,
    StoredMessage,
    Summary,
    SummaryRequest,
    Transplant,
    Tree,
)
from lossless.summarizers import Awaited, Reply, called, is_async
from lossless.summarizers.base import counting

P = ParamSpec("P")
R = TypeVar("R")


async def _run(verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await anyio.to_thread.run_sync(partial(verb, *args, **kwargs))


async def _driven(job: Job) -> Compaction:
    return await _run(job.ended, await drive_async(job.flow, partial(_answer, job)))


async def _answered(inquiry: Inquiry) -> Answer:
    return await drive_async(inquiry.flow, partial(_answer, inquiry))


async def _answer(job: Job | Inquiry, request: SummaryRequest) -> Reply | SummarizerError:
    try:
        await _run(job.guards.before_call)
        if isinstance(job.summarizer, Awaited):
            await _run(job.guards.count)
            reply = await job.summarizer.reply(request)
        else:
            # Nothing is open meanwhile: whoever is cancelled need not wait for the model.
            with counting(job.guards.count):
                reply = await anyio.to_thread.run_sync(job.summarizer.ask, request, abandon_on_cancel=True)
    except SummarizerError as error:
        return await _run(job.guards.failed, error)
    await _run(job.guards.answered)
    return reply


async def _remade(job: Remaking | Applied) -> Applied:
    if isinstance(job, Applied):
        return job
    for stage in await _run(list, job.making.stages()):
        if not job.making.problem:
            at_once = anyio.Semaphore(AT_ONCE)
            async with anyio.create_task_group() as group:
                for step in stage:
                    group.start_soon(_made, job, step, at_once)
    return await _run(job.making.end)


async def _made(job: Remaking, step: Step, at_once: anyio.Semaphore) -> None:
    async with at_once:
        try:
            done = await drive_async(job.making.flow(step), partial(_replied, job))
        except LosslessError as error:
            done = job.making.failed(step, error)
        job.progress(done)


async def _replied(job: Remaking, request: SummaryRequest) -> Reply | SummarizerError:
    try:
        if isinstance(job.summarizer, Awaited):
            await _run(job.guards.count)
            return await job.summarizer.reply(request)
        return await anyio.to_thread.run_sync(job.answer, request, abandon_on_cancel=True)
    except SummarizerError as error:
        return error


class AsyncLossless:
    """`Lossless` for asyncio and trio."""

    def __init__(self, lcm: Lossless) -> None:
        self._lcm = lcm
        self.settings = lcm.settings

    @classmethod
    def open(cls, database: str | Path | None = None, **options: Any) -> _Opening:
        """As `Lossless.open`; `async with AsyncLossless.open(...) as lcm:` or `lcm = await AsyncLossless.open(...)`.

        The `summarizer` may be an async function.
        """
        return _Opening(cls, database, options)

    def conversation(
        self,
        key: str,
        session: str | None = None,
        *,
        parent: AsyncConversation | str | None = None,
        canonicalize: Canonicalize | None = None,
        skip: Skip | None = None,
    ) -> AsyncConversation:
        above = parent._chat if isinstance(parent, AsyncConversation) else parent
        chat = self._lcm.conversation(key, session, parent=above, canonicalize=canonicalize, skip=skip)
        return AsyncConversation(chat)

    async def conversations(self) -> list[ConversationStatus]:
        return await _run(self._lcm.conversations)

    async def status(self, conversation: str | None = None) -> Status:
        return await _run(self._lcm.status, conversation)

    async def stats(self, conversation: str | None = None, since: datetime | str | None = None) -> Stats:
        return await _run(self._lcm.stats, conversation, since)

    async def list_conversations(self, **options: Any) -> Listing[ListedConversation]:
        """As `Lossless.list_conversations`, with the same options."""
        return await _run(self._lcm.list_conversations, **options)

    async def show_conversation(self, conversation: str | int) -> ShownConversation:
        return await _run(self._lcm.show_conversation, conversation)

    async def list_messages(self, conversation: str | int, **options: Any) -> Listing[ListedMessage]:
        """As `Lossless.list_messages`, with the same options."""
        return await _run(self._lcm.list_messages, conversation, **options)

    async def show_message(
        self, id: str | int, conversation: str | int | None = None, *, whole: bool = False
    ) -> ShownMessage:
        return await _run(self._lcm.show_message, id, conversation, whole=whole)

    async def tail_messages(self, conversation: str | int, count: int | None = None) -> MessageTail:
        return await _run(self._lcm.tail_messages, conversation, count)

    async def messages_around(
        self, id: str | int, conversation: str | int | None = None, *, before: int = 5, after: int = 5
    ) -> Neighbours:
        return await _run(self._lcm.messages_around, id, conversation, before=before, after=after)

    async def list_files(self, conversation: str | int, **options: Any) -> Listing[StoredFile]:
        """As `Lossless.list_files`, with the same options."""
        return await _run(self._lcm.list_files, conversation, **options)

    async def show_file(self, id: str, conversation: str | int | None = None) -> ShownFile:
        return await _run(self._lcm.show_file, id, conversation)

    async def file_bytes(self, id: str, conversation: str | int | None = None, **options: Any) -> bytes:
        """As `Lossless.file_bytes`, with the same options."""
        return await _run(self._lcm.file_bytes, id, conversation, **options)

    async def describe(self, id: str | int, **options: Any) -> Description:
        """As `Lossless.describe`, with the same options."""
        return await _run(self._lcm.describe, id, **options)

    async def expand(
        self, id: str | int | Sequence[str | int], max_tokens: int | None = None, **options: Any
    ) -> Expansion:
        """As `Lossless.expand`, with the same options."""
        return await _run(self._lcm.expand, id, max_tokens, **options)

    async def ask(self, question: str, **options: Any) -> Answer:
        """As `Lossless.ask`, with the same options."""
        return await _answered(await _run(self._lcm.inquiry, question, **options))

    async def grep(self, pattern: str, mode: Mode = "regex", scope: Scope = "both", **options: Any) -> Hits:
        """As `Lossless.grep`, with the same options."""
        return await _run(self._lcm.grep, pattern, mode, scope, **options)

    async def migrate(self, target: str | Path, **options: Any) -> Migration:
        """As `Lossless.migrate`, with the same options."""
        return await _run(self._lcm.migrate, target, **options)

    async def backup(self, path: str | Path | None = None, **options: Any) -> Backup:
        """As `Lossless.backup`, with the same options."""
        return await _run(self._lcm.backup, path, **options)

    @classmethod
    async def restore(cls, backup: str | Path, database: str | Path | None = None, **options: Any) -> Restored:
        """As `Lossless.restore`, with the same options."""
        return await _run(Lossless.restore, backup, database, **options)

    async def export(self, path: str | Path, **options: Any) -> Exported:
        """As `Lossless.export`, with the same options."""
        return await _run(self._lcm.export, path, **options)

    async def backfill(self, paths: Any = (), **options: Any) -> tuple[Backfill, ...]:
        """As `Lossless.backfill`, with the same options."""
        return await _run(self._lcm.backfill, paths, **options)

    async def transplant(self, source: str | int, target: str | int, **options: Any) -> Transplant:
        """As `Lossless.transplant`, with the same options."""
        return await _run(self._lcm.transplant, source, target, **options)

    async def import_(self, paths: str | Path | Iterable[str | Path], **options: Any) -> ImportReport:
        """As `Lossless.import_`, with the same options."""
        return await _run(self._lcm.import_, paths, **options)

    async def repair(self, kinds: Sequence[str] = FLAW_KINDS, **how: Any) -> tuple[Applied, ...]:
        """As `Lossless.repair`, with the same options."""
        jobs = await _run(self._lcm.repairs, kinds, RewriteOptions(**how))
        done: list[Applied] = []
        while (job := await _run(next, jobs, None)) is not None and not (done and done[-1].problem):
            done.append(await _remade(job))
        return tuple(done)

    async def merge(self, key: str, *, apply: bool = False) -> Applied:
        return await _run(self._lcm.merge, key, apply=apply)

    async def history(self, conversation: str | None = None, limit: int = 50) -> list[Operation]:
        return await _run(self._lcm.history, conversation, limit)

    async def undo(self, operation_id: str) -> Operation:
        return await _run(self._lcm.undo, operation_id)

    async def resume(self, operation_id: str, **how: Any) -> Applied:
        """As `Lossless.resume`, with the same options."""
        return await _remade(await _run(self._lcm.resuming, operation_id, RewriteOptions(**how)))

    async def list_summaries(self, conversation: str | int, **options: Any) -> Listing[ListedSummary]:
        """As `Lossless.list_summaries`, with the same options."""
        return await _run(self._lcm.list_summaries, conversation, **options)

    async def show_summary(self, id: str) -> ShownSummary:
        return await _run(self._lcm.show_summary, id)

    async def tree(self, conversation: str | int | None = None, **options: Any) -> Tree:
        """As `Lossless.tree`, with the same options."""
        return await _run(self._lcm.tree, conversation, **options)

    async def revisions(self, id: str) -> tuple[Revision, ...]:
        return await _run(self._lcm.revisions, id)

    async def compare(self, id: str, old: int | None = None, new: int | None = None) -> Comparison:
        return await _run(self._lcm.compare, id, old, new)

    async def nearest(self, what: str, which: object) -> Nearest:
        return await _run(self._lcm.nearest, what, which)

    async def doctor(self, conversation: str | int | None = None, checks: Sequence[str] | None = None) -> Health:
        return await _run(self._lcm.doctor, conversation, checks)

    async def prove(self, conversation: str | int | None = None) -> tuple[Proof, ...]:
        return await _run(self._lcm.prove, conversation)

    async def fix(self, checks: Sequence[str], conversation: str | int | None = None, **options: Any) -> Fix:
        """As `Lossless.fix`, with the same options."""
        return await _run(self._lcm.fix, checks, conversation, **options)

    async def clean(self, rule: str | None = None, **options: Any) -> Cleaning:
        """As `Lossless.clean`, with the same options."""
        return await _run(self._lcm.clean, rule, **options)

    async def prune(self, before: datetime | str, **options: Any) -> Pruning:
        """As `Lossless.prune`, with the same options."""
        return await _run(self._lcm.prune, before, **options)

    async def gc(self, **options: Any) -> Garbage:
        """As `Lossless.gc`, with the same options."""
        return await _run(self._lcm.gc, **options)

    async def forget(self, conversation: str | int, **options: Any) -> Forgotten:
        """As `Lossless.forget`, with the same options."""
        return await _run(self._lcm.forget, conversation, **options)

    async def drain(self) -> int:
        return await _run(self._lcm.drain)

    async def close(self) -> None:
        await _run(self._lcm.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()


class _Opening:
    """An `AsyncLossless` about to be opened: awaited, or entered."""

    def __init__(self, kind: type[AsyncLossless], database: str | Path | None, options: dict[str, Any]) -> None:
        self._database, self._options = database, options
        self._kind = kind
        self._opened: AsyncLossless | None = None

    def __await__(self) -> Generator[Any, None, AsyncLossless]:
        return self._now().__await__()

    async def _now(self) -> AsyncLossless:
        function = self._options.get("summarizer")
        if function is not None and is_async(function):
            self._options["summarizer"] = Awaited(function, called(function), current_token())
        return self._kind(await _run(Lossless.open, self._database, **self._options))

    async def __aenter__(self) -> AsyncLossless:
        self._opened = await self._now()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened:
            await self._opened.__aexit__(kind, error, trace)


class AsyncConversation:
    """`Conversation` for asyncio and trio."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self.key = chat.key

    async def ingest(self, messages: Iterable[Message], *, whole: bool = False) -> Ingested:
        return await _run(self._chat.ingest, messages, whole=whole)

    async def new(self, retain_depth: int | None = None, *, apply: bool = True) -> Renewed:
        return await _run(self._chat.new, retain_depth, apply=apply)

    async def reset(self) -> bool:
        return await _run(self._chat.reset)

    async def end(self, reason: str = "") -> bool:
        return await _run(self._chat.end, reason)

    async def detached(self) -> tuple[Detached, ...]:
        return await _run(self._chat.detached)

    async def messages(self, after: int = 0, limit: int | None = None) -> list[StoredMessage]:
        return await _run(self._chat.messages, after, limit)

    async def bootstrap(self, path: str | Path, format: str | None = None) -> Bootstrapped:
        return await _run(self._chat.bootstrap, path, format)

    async def after_turn(
        self,
        messages: Iterable[Message],
        window: int | None = None,
        *,
        observed: int = 0,
        model: str | None = None,
        usage: object = None,
    ) -> Ingested:
        return await _run(self._chat.after_turn, messages, window, observed=observed, model=model, usage=usage)

    async def compact(
        self,
        window: int | None = None,
        *,
        force: bool = False,
        target: int | None = None,
        observed: int = 0,
        model: str | None = None,
        whole: bool = False,
    ) -> Compaction:
        """As `Conversation.compact`. Cancelled, it gives up the summary that is being written and keeps those before it."""
        job = await _run(
            self._chat.job, window, force=force, target=target, observed=observed, model=model, whole=whole
        )
        return job if isinstance(job, Compaction) else await _driven(job)

    async def rewrite(
        self,
        summary: str | None = None,
        *,
        depth: int | None = None,
        all: bool = False,
        subtree: str | None = None,
        **how: Any,
    ) -> Applied:
        """As `Conversation.rewrite`, with the same options. Cancelled, it keeps what was written, for `resume`."""
        selection = Selection(summary, depth, all, subtree)
        return await _remade(await _run(self._chat.remaking, "rewrite", selection, RewriteOptions(**how)))

    async def repair(self, kinds: Sequence[str] = FLAW_KINDS, **how: Any) -> Applied:
        """As `Conversation.repair`, with the same options."""
        selection = Selection(flawed=known_kinds(kinds))
        return await _remade(await _run(self._chat.remaking, "repair", selection, RewriteOptions(**how)))

    async def dissolve(self, id: str, *, apply: bool = False, purge: bool = False) -> Applied:
        return await _run(self._chat.dissolve, id, apply=apply, purge=purge)

    async def history(self, limit: int = 50) -> list[Operation]:
        return await _run(self._chat.history, limit)

    async def summaries(self) -> list[Summary]:
        return await _run(self._chat.summaries)

    async def assemble(self, window: int | None = None, **options: Any) -> Context:
        """As `Conversation.assemble`, with the same options."""
        return await _run(self._chat.assemble, window, **options)

    async def report_rejection(self, error: object, *, request: Mapping[str, Any] | None = None) -> Rejection:
        """As `Conversation.report_rejection`."""
        return await _run(self._chat.report_rejection, error, request=request)

    async def context(self, at: datetime | str | int | None = None) -> Context:
        return await _run(self._chat.context, at)

    async def explain(self, what: str | int, *, window: int | None = None, model: str | None = None) -> Explanation:
        return await _run(self._chat.explain, what, window=window, model=model)

    async def pin(self, what: str | int) -> Pin:
        return await _run(self._chat.pin, what)

    async def unpin(self, pin_id: str) -> None:
        await _run(self._chat.unpin, pin_id)

    async def forget(self, what: str | int, **options: Any) -> Forgotten:
        """As `Conversation.forget`, with the same options."""
        return await _run(self._chat.forget, what, **options)

    async def pins(self) -> list[Pin]:
        return await _run(self._chat.pins)

    async def describe(self, id: str | int, **options: Any) -> Description:
        """As `Conversation.describe`, with the same options."""
        return await _run(self._chat.describe, id, **options)

    async def expand(
        self, id: str | int | Sequence[str | int], max_tokens: int | None = None, **options: Any
    ) -> Expansion:
        """As `Conversation.expand`, with the same options."""
        return await _run(self._chat.expand, id, max_tokens, **options)

    async def ask(self, question: str, **options: Any) -> Answer:
        """As `Conversation.ask`, with the same options."""
        return await _answered(await _run(self._chat.inquiry, question, **options))

    async def grep(self, pattern: str, mode: Mode = "regex", scope: Scope = "both", **options: Any) -> Hits:
        """As `Conversation.grep`, with the same options."""
        return await _run(self._chat.grep, pattern, mode, scope, **options)

    async def grant(self, **options: Any) -> str:
        """As `Conversation.grant`, with the same options."""
        return await _run(self._chat.grant, **options)

    async def revoke(self, grant_id: str) -> bool:
        return await _run(self._chat.revoke, grant_id)

    async def files(self) -> list[StoredFile]:
        return await _run(self._chat.files)

    async def file(self, file_id: str) -> StoredFile:
        return await _run(self._chat.file, file_id)

    async def read_file(self, file_id: str, start: int = 0, end: int | None = None) -> bytes:
        return await _run(self._chat.read_file, file_id, start, end)

    async def read_lines(self, file_id: str, first: int = 1, last: int | None = None) -> str:
        return await _run(self._chat.read_lines, file_id, first, last)

    async def status(self) -> ConversationStatus:
        return await _run(self._chat.status)
