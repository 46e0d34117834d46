"""What holds calls to models back: too many of them, or credentials that are refused again and again.

The rules are pure functions of a remembered state and the time; `Guards` keeps the state in the database, so that a
restart forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, convert, structs, to_builtins

from lossless.config import Settings
from lossless.errors import SummarizerAuth, SummarizerBlocked, SummarizerError
from lossless.model import Compaction, SummaryRequest
from lossless.store.base import Store
from lossless.summarizers.base import Reply, Summarizer


class Spend(Struct, frozen=True):
    """The calls of one conversation: when, and until when no more are made."""

    calls: tuple[float, ...] = ()
    until: float = 0.0

    def called(self, now: float, settings: Settings) -> Spend:
        """After one more call."""
        recent = tuple(at for at in self.calls if at > now - settings.summary_call_window_ms / 1000)
        if len(recent) >= settings.summary_max_calls_per_window:
            return Spend((), now + settings.summary_spend_backoff_ms / 1000)
        return Spend((*recent, now), self.until)


class Stop(Struct, frozen=True):
    """A compaction after which there is nothing to gain: not tried again until there is something new."""

    seq: int = 0
    window: int = 0


class Breaker(Struct, frozen=True):
    """A model whose credentials were refused: how often in a row, and until when it is left alone."""

    failures: int = 0
    until: float = 0.0

    def refused(self, now: float, settings: Settings) -> Breaker:
        failures = self.failures + 1
        if failures < settings.circuit_breaker_threshold:
            return Breaker(failures)
        return Breaker(0, now + settings.circuit_breaker_cooldown_ms / 1000)


S = TypeVar("S", Spend, Breaker, Stop)
_HELD_BACK = ("auth", "spend", "breaker", "rate limit", "moved", "yielded", "in vain")


class Guards:
    """The guards of one conversation and one summariser. A summariser that costs nothing is not held back."""

    def __init__(self, store: Store, settings: Settings, key: str, model: str, now: Callable[[], float]) -> None:
        self._store, self._settings, self._now = store, settings, now
        self._spend, self._breaker = f"spend:{key}", f"breaker:{model}"
        self._stop = f"stop:{key}"
        self._free = model == "extractive"
        self._calls = self._failures = 0

    def asked(self, summarizer: Summarizer, request: SummaryRequest) -> Reply | SummarizerError:
        """What a summariser answers, or why it does not."""
        try:
            self.before_call()
            reply = summarizer.ask(request)
        except SummarizerError as error:
            return self.failed(error)
        self.answered()
        return reply

    def failed(self, error: SummarizerError) -> SummarizerError:
        if isinstance(error, SummarizerAuth):
            self.refused()
        return error

    def is_exhausted(self, seq: int, window: int) -> bool:
        """Whether a compaction found nothing to gain, and nothing new came since."""
        return self._read(self._stop, Stop) == Stop(seq, window)

    def ended(self, done: Compaction, seq: int, window: int) -> tuple[Compaction, bool]:
        """How a compaction ended, remembered; and whether that is news: that nothing is left to gain.

        Calls that gained nothing at all hold the next ones back for a while.
        """
        if self._calls and not done.summaries and done.stop not in _HELD_BACK:
            self._write(self._spend, Spend((), self._now() + self._settings.summary_spend_backoff_ms / 1000))
            done = structs.replace(done, stop="exhausted")
        before, after = self._read(self._stop, Stop), Stop(seq, window) if done.stop == "exhausted" else Stop()
        if before != after:
            self._write(self._stop, after)
        return done, after != Stop() and before == Stop()

    def before_call(self) -> None:
        """Count a call, or raise `SummarizerBlocked` if it may not be made."""
        if self._free:
            return
        now = self._now()
        with self._store.transaction():
            breaker = self._read(self._breaker, Breaker)
            if breaker.until > now:
                raise SummarizerBlocked(
                    "breaker", "The summariser's credentials were refused too often.", until=breaker.until
                )
            spend = self._read(self._spend, Spend, hold=True)
            counted = spend if spend.until > now else spend.called(now, self._settings)
            self._write(self._spend, counted)
        if counted.until > now:
            raise SummarizerBlocked("spend", "This conversation asked for too many summaries.", until=counted.until)
        self._calls += 1
        self._failures = breaker.failures

    def refused(self) -> None:
        """Credentials were refused: that is no spending, and counts towards the breaker."""
        spend = self._read(self._spend, Spend)
        self._write(self._spend, Spend(spend.calls[:-1], spend.until))
        self._write(self._breaker, self._read(self._breaker, Breaker).refused(self._now(), self._settings))

    def answered(self) -> None:
        """A call went through: whatever was refused before it is forgotten."""
        if self._failures:
            self._write(self._breaker, Breaker())
            self._failures = 0

    def lift(self) -> None:
        """Somebody asks for it now: whatever holds calls back is forgotten."""
        for name, state in ((self._spend, Spend()), (self._breaker, Breaker()), (self._stop, Stop())):
            if self._store.guard(name) is not None:
                self._write(name, state)

    def _read(self, name: str, kind: type[S], *, hold: bool = False) -> S:
        found = self._store.guard(name, hold=hold)
        return kind() if found is None else convert(found, type=kind)

    def _write(self, name: str, state: Struct) -> None:
        with self._store.transaction():
            self._store.set_guard(name, to_builtins(state), int(self._now() * 1_000_000))
