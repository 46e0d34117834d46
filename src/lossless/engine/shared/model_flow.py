"""Flows that ask: generators which yield a `SummaryRequest` and are sent the `Reply`, or have its error thrown in.

They never know whether whoever drives them waits or awaits.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

from lossless.errors import SummarizerError
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply

T = TypeVar("T")
Questioning: TypeAlias = Generator[SummaryRequest, Reply, T]


def advance(flow: Questioning[T], answer: Reply | SummarizerError | None = None) -> SummaryRequest | T:
    """Take a flow to its next question, or to its end; `answer` is what came of the last one."""
    try:
        if answer is None:
            return next(flow)
        return flow.send(answer) if isinstance(answer, Reply) else flow.throw(answer)
    except StopIteration as ended:
        done: T = ended.value
        return done


def never() -> bool:
    """Nobody else wants what a flow is at."""
    return False
