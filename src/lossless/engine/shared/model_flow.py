"""Generators that ask a model, and the drivers that run them to their end.

A flow yields a `SummaryRequest` and is sent the `Reply`, or the error is thrown into it. It does not know whether its driver
is synchronous or asynchronous, and keeps nothing open while a model writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from typing import TypeAlias, TypeVar

from lossless.errors import SummarizerError
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply

T = TypeVar("T")
ModelFlow: TypeAlias = Generator[SummaryRequest, Reply, T]


def drive(flow: ModelFlow[T], answer: Callable[[SummaryRequest], Reply | SummarizerError]) -> T:
    """Run a flow to its end, answer each request, and close it."""
    with closing(flow):
        step = advance(flow)
        while isinstance(step, SummaryRequest):
            step = advance(flow, answer(step))
        return step


async def drive_async(flow: ModelFlow[T], answer: Callable[[SummaryRequest], Awaitable[Reply | SummarizerError]]) -> T:
    """Run a flow to its end in worker threads, await each answer, and close it even if cancelled."""
    from anyio import CancelScope, to_thread  # loaded by asynchronous callers only

    try:
        step = await to_thread.run_sync(advance, flow)
        while isinstance(step, SummaryRequest):
            step = await to_thread.run_sync(advance, flow, await answer(step))
        return step
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(flow.close)


def advance(flow: ModelFlow[T], answer: Reply | SummarizerError | None = None) -> SummaryRequest | T:
    """Run a flow up to its next request or its end; `answer` belongs to the request before."""
    try:
        if answer is None:
            return next(flow)
        return flow.send(answer) if isinstance(answer, Reply) else flow.throw(answer)
    except StopIteration as ended:
        done: T = ended.value
        return done


def without_fallback(flow: ModelFlow[T]) -> ModelFlow[T]:
    """Pass on the requests of a flow, but raise a model's error to the caller instead of the flow."""
    with closing(flow):
        step = advance(flow)
        while isinstance(step, SummaryRequest):
            step = advance(flow, (yield step))
        return step


def never() -> bool:
    """Return False: the default answer to "does another process want this conversation?"."""
    return False
