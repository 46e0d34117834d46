"""Several summarisers in a row: whoever fails is followed by the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from lossless.errors import SummarizerAuth, SummarizerBlocked, SummarizerError, SummarizerUnavailable
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply, Summarizer

LONGEST_REST = 600.0
"""The most seconds for which a provider's wish to be left alone is honoured."""


class Chain:
    """Candidates in order: the first that gives a text has written it.

    One that asked for a pause (Retry-After) is passed over until it is over, by this and every later request.
    """

    counts: ClassVar[bool] = True

    def __init__(
        self,
        candidates: Sequence[Summarizer],
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.candidates = tuple(candidates)
        self._clock = clock
        self._sleep = sleep
        self._resting: dict[int, float] = {}

    @property
    def name(self) -> str:
        return " -> ".join(candidate.name for candidate in self.candidates)

    def ask(self, request: SummaryRequest) -> Reply:
        """The first text. Without one: `SummarizerAuth` if the last candidate refused the credentials, else
        `SummarizerUnavailable` with every reason, and the shortest pause that was asked for."""
        failures: list[SummarizerError] = []
        for index, candidate in enumerate(self.candidates):
            if failures and isinstance(failures[-1], SummarizerAuth) and not failures[-1].missing:
                self._sleep(min(500 * 2 ** (index - 1), 8000) / 1000)
            try:
                return self._try(index, candidate, request)
            except SummarizerBlocked:
                raise
            except SummarizerError as error:
                failures.append(error)
        raise _all(failures)

    def _try(self, index: int, candidate: Summarizer, request: SummaryRequest) -> Reply:
        wait = self._resting.get(index, 0.0) - self._clock()
        if 0 < wait <= LONGEST_REST:  # a longer one is from a clock that was ahead
            raise SummarizerUnavailable(f"{candidate.name} asked to be left alone for a while.", retry_after=wait)
        try:
            reply = candidate.ask(request)
        except SummarizerUnavailable as error:
            if error.retry_after:
                self._resting[index] = self._clock() + min(error.retry_after, LONGEST_REST)
            raise
        if not reply.text:
            raise SummarizerUnavailable(f"{candidate.name} gave no text.", outage=False)
        return reply


def _all(failures: Sequence[SummarizerError]) -> SummarizerError:
    if not failures:
        return SummarizerUnavailable("There is no summariser to ask.")
    if len(failures) == 1 or isinstance(failures[-1], SummarizerAuth):
        return failures[-1]
    pauses = [error.retry_after for error in failures if isinstance(error, SummarizerUnavailable) and error.retry_after]
    reasons = " ".join(error.message for error in failures)
    # One that could not be asked may do better the next time.
    outage = any(not isinstance(error, SummarizerUnavailable) or error.outage for error in failures)
    return SummarizerUnavailable(reasons, retry_after=min(pauses, default=None), outage=outage)
