"""The interface of a summarizer: it takes a `SummaryRequest` and returns a `Reply`."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from lossless.errors import InvalidInput, SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.model import SummaryRequest
from lossless.summarizers.reply_text import summary_of, well_formed

if TYPE_CHECKING:
    from anyio.lowlevel import EventLoopToken

EMBEDDED = "extractive"
"""The name of the built-in summarizer, and the level of its summaries."""
METHOD = "quotes-2"
"""The version of the built-in summarizer, stored with its summaries; older ones can be written again."""
REFUSED = (401, 403)
"""HTTP statuses of refused credentials. The text of a reply is never considered for that."""
UNFIT = (400, 413, 422)
"""HTTP statuses that concern this one request; others may be answered."""
_NO_ANSWER = ("Timeout", "Connect", "Network", "RateLimit", "Unavailable", "Overloaded", "InternalServer")
"""Words in the names of library errors that mean that a server cannot be reached."""
_COUNT: ContextVar[Callable[[], None] | None] = ContextVar("lossless_count", default=None)
_CANCELLATION: ContextVar[Cancellation | None] = ContextVar("lossless_cancellation", default=None)


class Cancelled(Exception):
    """Work that its caller cancelled. It is raised to that caller alone."""


class Cancellation:
    """End a request to a model from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """End the request that is open, and refuse those that would follow."""
        with self._lock:
            self._cancelled = True
            end, self._end = self._end, None
        if end:
            end()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    def check(self) -> None:
        """Raise `Cancelled` if the work was cancelled."""
        if self._cancelled:
            raise Cancelled

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Make requests within this block end when the work is cancelled, and then raise `Cancelled`."""
        self.check()
        before = _CANCELLATION.set(self)
        try:
            yield
        finally:
            _CANCELLATION.reset(before)
            with self._lock:
                self._end = None
        self.check()

    def _ends_with(self, end: Callable[[], None]) -> None:
        with self._lock:
            self._end = None if self._cancelled else end
            late = self._cancelled
        if late:
            end()


def on_cancel(end: Callable[[], None]) -> None:
    """Have `end` called if the open request is cancelled; the newest one counts."""
    if cancellation := _CANCELLATION.get():
        cancellation._ends_with(end)


def check_cancelled() -> None:
    """Raise `Cancelled` if the open request was cancelled: its failure says nothing about the model."""
    if cancellation := _CANCELLATION.get():
        cancellation.check()


class Reply(Struct, frozen=True):
    """A summary and the model that wrote it, which may differ from the requested one."""

    text: str
    model: str
    cut: bool = False
    """True if the token limit cut it off."""


@runtime_checkable
class Summarizer(Protocol):
    """A summarizer, e.g. from `resolve`. An empty text is a reply too; a failure raises `SummarizerError`."""

    @property
    def name(self) -> str: ...

    def ask(self, request: SummaryRequest) -> Reply: ...


Function: TypeAlias = Callable[[SummaryRequest], Any]
"""A user's own summarizer: it returns the text, a provider's complete response, or a `Reply`."""


@contextmanager
def counting(count: Callable[[], None]) -> Iterator[None]:
    """Call `count` before each request to a model within this block; it may raise to prevent the request."""
    before = _COUNT.set(count)
    try:
        yield
    finally:
        _COUNT.reset(before)


def count_request() -> None:
    """Count a request that is about to be sent to a model, if `counting` is active."""
    if count := _COUNT.get():
        count()


class FunctionSummarizer(Struct, frozen=True):
    """A function as a summarizer."""

    counts: ClassVar[bool] = True

    function: Function
    name: str
    plain: bool = False
    """True if its text contains no reasoning of a model and is used unchanged."""

    def ask(self, request: SummaryRequest) -> Reply:
        if not self.plain:
            count_request()
        with translate_errors(self.name):
            reply = self.function(request)
        return Reply(well_formed(reply), self.name) if self.plain else _read_reply(reply, self.name)


class CountedSummarizer(Struct, frozen=True):
    """A summarizer of a user's own class; each request counts as one call."""

    summarizer: Summarizer
    counts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.summarizer.name

    def ask(self, request: SummaryRequest) -> Reply:
        count_request()
        return self.summarizer.ask(request)


class Unusable(Struct, frozen=True):
    """A configured summarizer that is not available; every request raises the reason."""

    why: str
    name: str = "none"
    counts: ClassVar[bool] = True

    def ask(self, request: SummaryRequest) -> Reply:
        raise SummarizerAuth(self.why, missing=True)


class AsyncSummarizer(Struct, frozen=True):
    """An async function as a summarizer: awaited in its event loop, called through it from other threads."""

    counts: ClassVar[bool] = True

    function: Callable[[SummaryRequest], Awaitable[Any]]
    name: str
    loop: EventLoopToken

    async def reply(self, request: SummaryRequest) -> Reply:
        with translate_errors(self.name):
            reply = await self.function(request)
        return _read_reply(reply, self.name)

    def ask(self, request: SummaryRequest) -> Reply:
        from anyio import RunFinishedError, from_thread

        count_request()
        try:
            return from_thread.run(self.reply, request, token=self.loop)
        except RunFinishedError as error:
            raise SummarizerUnavailable(f"The event loop of {self.name} has ended.", retry_after=60) from error


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Translate the errors of a user's own function into ours."""
    try:
        yield
    except (SummarizerError, InvalidInput):
        raise
    except Exception as error:
        message = f"{name} failed: {type(error).__name__}."
        if getattr(error, "status_code", None) in REFUSED:
            raise SummarizerAuth(message, hint="Check its credentials.") from error
        raise SummarizerUnavailable(message, outage=_is_outage(error)) from error


def _is_outage(error: Exception) -> bool:
    """Return whether an error means that the model is not reachable, rather than that this request failed."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status not in UNFIT
    names = [each.__name__ for each in type(error).__mro__]
    return isinstance(error, OSError) or any(word in name for name in names for word in _NO_ANSWER)


def _read_reply(reply: Any, name: str) -> Reply:
    if isinstance(reply, Reply):
        return Reply(summary_of(reply.text), reply.model, reply.cut)
    return Reply(summary_of(reply), name)
