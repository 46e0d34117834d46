"""What a summariser is: something that is asked with a `SummaryRequest` and replies with a text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from lossless.errors import InvalidInput, SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.model import SummaryRequest
from lossless.summarizers.text import summary_of, well_formed

if TYPE_CHECKING:
    from anyio.lowlevel import EventLoopToken

REFUSED = (401, 403)
"""The HTTP statuses that mean refused credentials. What a reply says is never looked at for that."""
UNFIT = (400, 413, 422)
"""The HTTP statuses that are about this one request: another may well be answered."""
_NO_ANSWER = ("Timeout", "Connect", "Network", "RateLimit", "Unavailable", "Overloaded", "InternalServer")
"""Words in the names of errors with which libraries say that a server cannot be reached."""
_COUNT: ContextVar[Callable[[], None] | None] = ContextVar("lossless_count", default=None)


class Reply(Struct, frozen=True):
    """A summary, and the model that really wrote it, which need not be the one that was named."""

    text: str
    model: str
    cut: bool = False
    """The limit of tokens cut it off: its end is missing."""


@runtime_checkable
class Summarizer(Protocol):
    """Whatever `resolve` gives. A text that stays empty is a reply too; a failure raises `SummarizerError`."""

    @property
    def name(self) -> str: ...

    def ask(self, request: SummaryRequest) -> Reply: ...


Function: TypeAlias = Callable[[SummaryRequest], Any]
"""A summariser of the user's own: it gives the text, a provider's whole response, or a `Reply`."""


@contextmanager
def counting(count: Callable[[], None]) -> Iterator[None]:
    """Have `count` called before each request to a model within this block; it may raise to prevent it."""
    before = _COUNT.set(count)
    try:
        yield
    finally:
        _COUNT.reset(before)


def sending() -> None:
    """Count a request that is about to be sent to a model, if anybody counts."""
    if count := _COUNT.get():
        count()


class Own(Struct, frozen=True):
    """A function as a summariser."""

    counts: ClassVar[bool] = True

    function: Function
    name: str
    plain: bool = False
    """Its words are taken as they are: no model has thought in them."""

    def ask(self, request: SummaryRequest) -> Reply:
        if not self.plain:
            sending()
        with translated(self.name):
            reply = self.function(request)
        return Reply(well_formed(reply), self.name) if self.plain else _read(reply, self.name)


class Foreign(Struct, frozen=True):
    """A summariser of the user's own class, each request counted as one call."""

    summarizer: Summarizer
    counts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.summarizer.name

    def ask(self, request: SummaryRequest) -> Reply:
        sending()
        return self.summarizer.ask(request)


class Unusable(Struct, frozen=True):
    """A summariser that the settings name and that cannot be had: every request says why."""

    why: str
    name: str = "none"
    counts: ClassVar[bool] = True

    def ask(self, request: SummaryRequest) -> Reply:
        raise SummarizerAuth(self.why, missing=True)


class Awaited(Struct, frozen=True):
    """An async function as a summariser: awaited where there is an event loop, asked through it from any other thread."""

    counts: ClassVar[bool] = True

    function: Callable[[SummaryRequest], Awaitable[Any]]
    name: str
    loop: EventLoopToken

    async def reply(self, request: SummaryRequest) -> Reply:
        with translated(self.name):
            reply = await self.function(request)
        return _read(reply, self.name)

    def ask(self, request: SummaryRequest) -> Reply:
        from anyio import RunFinishedError, from_thread

        sending()
        try:
            return from_thread.run(self.reply, request, token=self.loop)
        except RunFinishedError as error:
            raise SummarizerUnavailable(f"The event loop of {self.name} has ended.", retry_after=60) from error


@contextmanager
def translated(name: str) -> Iterator[None]:
    """The errors of a user's own function as ours."""
    try:
        yield
    except (SummarizerError, InvalidInput):
        raise
    except Exception as error:
        what = f"{name} failed: {type(error).__name__}."
        if getattr(error, "status_code", None) in REFUSED:
            raise SummarizerAuth(what, hint="Check its credentials.") from error
        raise SummarizerUnavailable(what, outage=_is_outage(error)) from error


def _is_outage(error: Exception) -> bool:
    """Whether an error says that a model cannot be reached, and not that this request went wrong."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status not in UNFIT
    names = [each.__name__ for each in type(error).__mro__]
    return isinstance(error, OSError) or any(word in name for name in names for word in _NO_ANSWER)


def _read(reply: Any, name: str) -> Reply:
    if isinstance(reply, Reply):
        return Reply(summary_of(reply.text), reply.model, reply.cut)
    return Reply(summary_of(reply), name)
