"""The same verbs, awaited: each runs on a worker thread, so the event loop never waits for a disk or a server.

A call that is cancelled may still finish in its thread, and is stored whole or not at all: give messages their event
ids, and sending them again changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from types import MethodType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import anyio.to_thread
from anyio.lowlevel import current_token

from lossless.client import Conversation, Lossless
from lossless.client.conversations import Conversations
from lossless.client.doctor import Doctor
from lossless.client.files import ConversationFiles, StoredFiles
from lossless.client.messages import Messages
from lossless.client.model_work import Briefing, Inquiry, Job, Ready, Repairs
from lossless.client.summaries import Summaries
from lossless.client.surgery import Remaking
from lossless.config import Settings
from lossless.engine.ingest.intake import Skip
from lossless.engine.ingest.message_digest import Canonicalize
from lossless.engine.shared.model_flow import drive_async
from lossless.engine.surgery.rewrite import AT_ONCE
from lossless.errors import LosslessError, SummarizerError
from lossless.model import Answer, Brief, Compaction, Outcome, Step, SummaryRequest
from lossless.summarizers import AsyncSummarizer, Reply, function_name, is_async
from lossless.summarizers.base import counting

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


async def _run(verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await anyio.to_thread.run_sync(partial(verb, *args, **kwargs))


class Twin(Generic[T]):
    """An object whose verbs are awaited; the one with the verbs themselves is `_sync`."""

    def __init__(self, sync: T) -> None:
        self._sync = sync


class awaited(Generic[T, P, R]):  # used like a decorator
    """A verb of the synchronous class as a coroutine, with the same parameters, result and docstring."""

    def __init__(self, verb: Callable[Concatenate[T, P], R]) -> None:
        prepare = vars(verb).get("prepare")

        @wraps(verb)
        async def method(own: Twin[T], *args: P.args, **kwargs: P.kwargs) -> R:
            if prepare is None:
                return await _run(verb, own._sync, *args, **kwargs)
            found: R = await _finish(await _run(prepare, own._sync, *args, **kwargs))
            return found

        vars(method)["__signature__"] = inspect.signature(verb)
        self._method = method
        self.__doc__ = verb.__doc__

    @overload
    def __get__(self, own: None, kind: type) -> Callable[Concatenate[Twin[T], P], Coroutine[Any, Any, R]]: ...

    @overload
    def __get__(self, own: Twin[T], kind: type) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def __get__(self, own: Twin[T] | None, kind: type) -> Callable[..., Coroutine[Any, Any, R]]:
        return self._method if own is None else MethodType(self._method, own)


async def _finish(job: object) -> Any:
    """Await work that was prepared: a compaction, a question, a brief, a rewrite or the repairs of several conversations."""
    match job:
        case Job():
            return await _driven(job)
        case Inquiry():
            return await _answered(job)
        case Briefing():
            return await _briefed(job)
        case Remaking():
            return await _remade(job)
        case Repairs():
            return await _repaired(job)
        case Ready():
            return job.value
        case _:
            raise TypeError(f"{type(job).__name__} cannot be awaited")


async def _repaired(repairs: Repairs) -> tuple[Outcome, ...]:
    done: list[Outcome] = []
    while (job := await _run(next, repairs.jobs, None)) is not None and not (done and done[-1].problem):
        done.append(await _finish(job))
    return tuple(done)


async def _driven(job: Job) -> Compaction:
    return await _run(job.ended, await drive_async(job.flow, partial(_answer, job)))


async def _answered(inquiry: Inquiry) -> Answer:
    return await drive_async(inquiry.flow, partial(_answer, inquiry))


async def _briefed(job: Briefing) -> Brief:
    return await _run(job.described, await drive_async(job.flow, partial(_answer, job)))


async def _answer(job: Job | Inquiry | Briefing, request: SummaryRequest) -> Reply | SummarizerError:
    try:
        await _run(job.guards.before_call)
        if isinstance(job.summarizer, AsyncSummarizer):
            await _run(job.guards.count)
            reply = await job.summarizer.reply(request)
        else:
            # Nothing is open meanwhile: a cancelled call need not wait for the model.
            with counting(job.guards.count):
                reply = await anyio.to_thread.run_sync(job.summarizer.ask, request, abandon_on_cancel=True)
    except SummarizerError as error:
        return await _run(job.guards.note_failure, error)
    await _run(job.guards.note_answer)
    return reply


async def _remade(job: Remaking) -> Outcome:
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
            done = job.making.fail(step, error)
        job.progress(done)


async def _replied(job: Remaking, request: SummaryRequest) -> Reply | SummarizerError:
    try:
        if isinstance(job.summarizer, AsyncSummarizer):
            await _run(job.guards.count)
            return await job.summarizer.reply(request)
        return await anyio.to_thread.run_sync(job.answer, request, abandon_on_cancel=True)
    except SummarizerError as error:
        return error


class AsyncConversations(Twin[Conversations]):
    """`Conversations`, awaited."""

    __call__ = awaited(Conversations.__call__)
    show = awaited(Conversations.show)


class AsyncMessages(Twin[Messages]):
    """`Messages`, awaited."""

    __call__ = awaited(Messages.__call__)
    show = awaited(Messages.show)
    tail = awaited(Messages.tail)
    around = awaited(Messages.around)


class AsyncSummaries(Twin[Summaries]):
    """`Summaries`, awaited."""

    __call__ = awaited(Summaries.__call__)
    show = awaited(Summaries.show)
    request = awaited(Summaries.request)
    tree = awaited(Summaries.tree)
    revisions = awaited(Summaries.revisions)
    compare = awaited(Summaries.compare)


class AsyncFiles(Twin[StoredFiles]):
    """`StoredFiles`, awaited."""

    __call__ = awaited(StoredFiles.__call__)
    show = awaited(StoredFiles.show)
    read = awaited(StoredFiles.read)


class AsyncConversationFiles(Twin[ConversationFiles]):
    """`ConversationFiles`, awaited."""

    __call__ = awaited(ConversationFiles.__call__)
    show = awaited(ConversationFiles.show)
    read = awaited(ConversationFiles.read)
    lines = awaited(ConversationFiles.lines)


class AsyncDoctor(Twin[Doctor]):
    """`Doctor`, awaited."""

    __call__ = awaited(Doctor.__call__)
    prove = awaited(Doctor.prove)
    fix = awaited(Doctor.fix)
    clean = awaited(Doctor.clean)


class Opening(Generic[P]):
    """An `AsyncLossless` about to be opened: awaited, or entered."""

    def __init__(self, opening: Callable[P, Lossless], *args: P.args, **options: P.kwargs) -> None:
        self._opening, self._args = opening, args
        self._options: dict[str, Any] = dict(options)
        self._opened: AsyncLossless | None = None

    def __await__(self) -> Generator[Any, None, AsyncLossless]:
        return self._open().__await__()

    async def _open(self) -> AsyncLossless:
        function = self._options.get("summarizer")
        if function is not None and is_async(function):
            self._options["summarizer"] = AsyncSummarizer(function, function_name(function), current_token())
        return AsyncLossless(await anyio.to_thread.run_sync(partial(self._opening, *self._args, **self._options)))

    async def __aenter__(self) -> AsyncLossless:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened:
            await self._opened.__aexit__(kind, error, trace)


def _opened_by(opening: Callable[P, Lossless]) -> Callable[P, Opening[P]]:
    """Return the async twin of `Lossless.open`."""

    @wraps(opening)
    def open(*args: P.args, **options: P.kwargs) -> Opening[P]:
        return Opening(opening, *args, **options)

    return open


def _awaited_function(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a function that runs another one on a worker thread."""

    @wraps(function)
    async def verb(*args: P.args, **kwargs: P.kwargs) -> R:
        return await _run(function, *args, **kwargs)

    return verb


class AsyncConversation(Twin[Conversation]):
    """`Conversation` for asyncio and trio."""

    @property
    def key(self) -> str:
        """The key of the conversation."""
        return self._sync.key

    @property
    def files(self) -> AsyncConversationFiles:
        """The large contents of this conversation; see `Conversation.files`."""
        return AsyncConversationFiles(self._sync.files)

    ingest = awaited(Conversation.ingest)
    after_turn = awaited(Conversation.after_turn)
    bootstrap = awaited(Conversation.bootstrap)
    compact = awaited(Conversation.compact)
    assemble = awaited(Conversation.assemble)
    report_rejection = awaited(Conversation.report_rejection)
    context = awaited(Conversation.context)
    explain = awaited(Conversation.explain)
    messages = awaited(Conversation.messages)
    summaries = awaited(Conversation.summaries)
    cue = awaited(Conversation.cue)
    grep = awaited(Conversation.grep)
    describe = awaited(Conversation.describe)
    expand = awaited(Conversation.expand)
    ask = awaited(Conversation.ask)
    rewrite = awaited(Conversation.rewrite)
    repair = awaited(Conversation.repair)
    dissolve = awaited(Conversation.dissolve)
    history = awaited(Conversation.history)
    new = awaited(Conversation.new)
    reset = awaited(Conversation.reset)
    end = awaited(Conversation.end)
    detached = awaited(Conversation.detached)
    pin = awaited(Conversation.pin)
    unpin = awaited(Conversation.unpin)
    pins = awaited(Conversation.pins)
    focus = awaited(Conversation.focus)
    unfocus = awaited(Conversation.unfocus)
    focused = awaited(Conversation.focused)
    briefs = awaited(Conversation.briefs)
    forget = awaited(Conversation.forget)
    grant = awaited(Conversation.grant)
    revoke = awaited(Conversation.revoke)
    status = awaited(Conversation.status)


class AsyncLossless(Twin[Lossless]):
    """`Lossless` for asyncio and trio."""

    open = staticmethod(_opened_by(Lossless.open))
    """Open a database, as `Lossless.open`; the `summarizer` may be an async function.

    `async with AsyncLossless.open(...) as lcm:` or `lcm = await AsyncLossless.open(...)`.
    """
    restore = staticmethod(_awaited_function(Lossless.restore))

    @property
    def settings(self) -> Settings:
        """The settings of the database."""
        return self._sync.settings

    @property
    def location(self) -> str:
        """The path of the database, or its URL without the password."""
        return self._sync.location

    def conversation(
        self,
        key: str,
        session: str | None = None,
        *,
        parent: AsyncConversation | str | None = None,
        canonicalize: Canonicalize | None = None,
        skip: Skip | None = None,
    ) -> AsyncConversation:
        """Return the conversation under a key; not awaited, since nothing is read or written for it."""
        above = parent._sync if isinstance(parent, AsyncConversation) else parent
        chat = self._sync.conversation(key, session, parent=above, canonicalize=canonicalize, skip=skip)
        return AsyncConversation(chat)

    async def find(self, name: str | int) -> AsyncConversation:
        """Return the stored conversation that a name refers to; see `Lossless.find`."""
        return AsyncConversation(await _run(self._sync.find, name))

    @property
    def conversations(self) -> AsyncConversations:
        """The conversations of this owner; see `Lossless.conversations`."""
        return AsyncConversations(self._sync.conversations)

    @property
    def messages(self) -> AsyncMessages:
        """The messages of any conversation; see `Lossless.messages`."""
        return AsyncMessages(self._sync.messages)

    @property
    def summaries(self) -> AsyncSummaries:
        """The summaries of any conversation; see `Lossless.summaries`."""
        return AsyncSummaries(self._sync.summaries)

    @property
    def files(self) -> AsyncFiles:
        """The large contents of any conversation; see `Lossless.files`."""
        return AsyncFiles(self._sync.files)

    @property
    def doctor(self) -> AsyncDoctor:
        """The checks of the database; see `Lossless.doctor`."""
        return AsyncDoctor(self._sync.doctor)

    status = awaited(Lossless.status)
    stats = awaited(Lossless.stats)
    describe = awaited(Lossless.describe)
    expand = awaited(Lossless.expand)
    ask = awaited(Lossless.ask)
    grep = awaited(Lossless.grep)
    migrate = awaited(Lossless.migrate)
    backup = awaited(Lossless.backup)
    export = awaited(Lossless.export)
    import_ = awaited(Lossless.import_)
    backfill = awaited(Lossless.backfill)
    transplant = awaited(Lossless.transplant)
    merge = awaited(Lossless.merge)
    repair = awaited(Lossless.repair)
    history = awaited(Lossless.history)
    undo = awaited(Lossless.undo)
    resume = awaited(Lossless.resume)
    forget = awaited(Lossless.forget)
    prune = awaited(Lossless.prune)
    gc = awaited(Lossless.gc)
    drain = awaited(Lossless.drain)
    close = awaited(Lossless.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
