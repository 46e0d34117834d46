"""Try several summarizers in order until one returns a text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from lossless.errors import SummarizerAuth, SummarizerBlocked, SummarizerError, SummarizerUnavailable
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply, Summarizer

LONGEST_PAUSE = 600.0
"""The longest pause in seconds that a provider can ask for."""


class Chain:
    """Summarizers in order; the first that returns a text wins.

    One that asked for a pause (Retry-After) is skipped until the pause ends, also by later requests.
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
        self._paused: dict[int, float] = {}

    @property
    def name(self) -> str:
        return " -> ".join(candidate.name for candidate in self.candidates)

    def ask(self, request: SummaryRequest) -> Reply:
        """Return the first text.

        Without one, raise `SummarizerAuth` if the last candidate refused the credentials, else
        `SummarizerUnavailable` with every reason and the shortest requested pause.
        """
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
        raise _combine(failures)

    def _try(self, index: int, candidate: Summarizer, request: SummaryRequest) -> Reply:
        wait = self._paused.get(index, 0.0) - self._clock()
        if 0 < wait <= LONGEST_PAUSE:  # a longer one is from a clock that was wrong
            raise SummarizerUnavailable(f"{candidate.name} asked for a pause.", retry_after=wait)
        try:
            reply = candidate.ask(request)
        except SummarizerUnavailable as error:
            if error.retry_after:
                self._paused[index] = self._clock() + min(error.retry_after, LONGEST_PAUSE)
            raise
        if not reply.text:
            raise SummarizerUnavailable(f"{candidate.name} returned no text.", outage=False)
        return reply


def _combine(failures: Sequence[SummarizerError]) -> SummarizerError:
    if not failures:
        return SummarizerUnavailable("There is no summarizer.")
    if len(failures) == 1 or isinstance(failures[-1], SummarizerAuth):
        return failures[-1]
    pauses = [error.retry_after for error in failures if isinstance(error, SummarizerUnavailable) and error.retry_after]
    reasons = " ".join(error.message for error in failures)
    # A candidate that could not be reached may answer next time.
    outage = any(not isinstance(error, SummarizerUnavailable) or error.outage for error in failures)
    return SummarizerUnavailable(reasons, retry_after=min(pauses, default=None), outage=outage)
