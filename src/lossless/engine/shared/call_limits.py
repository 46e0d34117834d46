"""What holds calls to models back: too many of them, or credentials that are refused again and again.

The rules are pure functions of a remembered state and the time; `Guards` keeps the state in the database, so that a
restart forgets nothing. What is counted are requests on the wire, each just before it is sent. A stored time that lies
further ahead than the longest wait there is comes from a clock that was wrong, and does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, get_args

from msgspec import Struct, convert, field, structs, to_builtins

from lossless.config import Settings
from lossless.errors import SummarizerAuth, SummarizerBlocked, SummarizerError
from lossless.model import Compaction, CompactionStop, ModelBlock, SummaryRequest
from lossless.store.store import Store
from lossless.summarizers.base import Reply, Summarizer, counting

DAILY = "calls by hour"
_HOUR, _DAY = 3600, 24


class Spend(Struct, frozen=True):
    """The requests of one conversation: when, and until when no more are made."""

    calls: tuple[float, ...] = ()
    until: float = 0.0

    def called(self, now: float, settings: Settings) -> Spend:
        """Add one request."""
        recent = self.recent(now, settings)
        if len(recent) >= settings.summary_max_calls_per_window:
            return Spend((), now + settings.summary_spend_backoff_ms / 1000)
        return Spend((*recent, now), self.until)

    def recent(self, now: float, settings: Settings) -> tuple[float, ...]:
        """Return the requests within the window that ends now."""
        return tuple(at for at in self.calls if now - settings.summary_call_window_ms / 1000 < at <= now)

    def is_held(self, now: float, settings: Settings) -> bool:
        return now < self.until <= now + settings.summary_spend_backoff_ms / 1000


class Daily(Struct, frozen=True):
    """The requests to models by hour, over the whole database."""

    hours: dict[int, int] = field(default_factory=dict)

    def called(self, now: float) -> Daily:
        """Add one request."""
        hour = int(now // _HOUR)
        recent = self.recent(now)
        return Daily({**recent, hour: recent.get(hour, 0) + 1})

    def recent(self, now: float) -> dict[int, int]:
        """Return the last 24 hours that had requests, oldest first."""
        hour = int(now // _HOUR)
        return {each: count for each, count in sorted(self.hours.items()) if hour - _DAY < each <= hour}

    def total(self, now: float) -> int:
        return sum(self.recent(now).values())

    def full_until(self, now: float, most: int | None) -> float:
        """Return when a request may be made again; 0 if one may be made now."""
        recent = self.recent(now)
        left = sum(recent.values())
        for hour, count in recent.items():
            if most is None or left < most:
                break
            left -= count
            if left < most:
                return float((hour + _DAY) * _HOUR)
        return 0.0


class Stop(Struct, frozen=True):
    """A compaction after which there is nothing to gain: not tried again until there is something new."""

    seq: int = 0
    window: int = 0


class Breaker(Struct, frozen=True):
    """A model whose credentials were refused: how often in a row, and until when it is left alone."""

    failures: int = 0
    until: float = 0.0
    missing: str = ""
    """Why there were no credentials at all, when it was asked last."""

    def refused(self, now: float, settings: Settings) -> Breaker:
        failures = self.failures + 1
        if failures < settings.circuit_breaker_threshold:
            return Breaker(failures)
        return Breaker(0, now + settings.circuit_breaker_cooldown_ms / 1000)

    def is_open(self, now: float, settings: Settings) -> bool:
        return now < self.until <= now + settings.circuit_breaker_cooldown_ms / 1000


S = TypeVar("S", Spend, Breaker, Stop)
_HELD_BACK: Final[tuple[CompactionStop, ...]] = (*get_args(ModelBlock), "moved", "yielded", "in vain")


class Guards:
    """The guards of one conversation and one summariser. A summariser that costs nothing is not held back."""

    def __init__(self, store: Store, settings: Settings, key: str, model: str, now: Callable[[], float]) -> None:
        self._store, self._settings, self._now = store, settings, now
        self._spend, self._breaker = f"spend:{key}", f"breaker:{model}"
        self._stop = f"stop:{key}"
        self._free = model == "extractive"
        self._calls = self._sent = 0
        self._known = Breaker()
        self._counted: tuple[Spend, Daily] | None = None
        """As they were when a request was counted last; the next one is checked once more when it is counted."""

    def ask(self, summarizer: Summarizer, request: SummaryRequest) -> Reply | SummarizerError:
        """Return the reply of a summarizer, or the error that kept it from one."""
        try:
            self.before_call()
            with counting(self.count):
                reply = summarizer.ask(request)
        except SummarizerError as error:
            return self.failed(error)
        self.answered()
        return reply

    def failed(self, error: SummarizerError) -> SummarizerError:
        if isinstance(error, SummarizerAuth):
            self.refused(str(error) if error.missing else "")
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
        """Raise `SummarizerBlocked` if nothing may be asked now. Nothing is counted before it is sent."""
        self._sent = 0
        if self._free:
            return
        now, settings = self._now(), self._settings
        self._known = self._read(self._breaker, Breaker)
        if self._known.is_open(now, settings):
            raise SummarizerBlocked(
                "breaker", "The summariser's credentials were refused too often.", until=self._known.until
            )
        spend, daily = self._counted or (self._read(self._spend, Spend), self._daily())
        if spend.is_held(now, settings):
            raise _too_many(spend)
        self._refuse_if_full(daily, now)

    def count(self) -> None:
        """Count a request that is about to be sent, or raise `SummarizerBlocked` if it may not be."""
        now, settings = self._now(), self._settings
        with self._store.transaction():
            daily = self._daily(hold=True)
            self._refuse_if_full(daily, now)
            spend = self._read(self._spend, Spend, hold=True)
            counted = spend if spend.is_held(now, settings) else spend.called(now, settings)
            self._store.state.set_guard(self._spend, to_builtins(counted), _micros(now))
            if not counted.is_held(now, settings):
                daily = daily.called(now)
                self._store.state.set_guard(DAILY, to_builtins(daily, str_keys=True), _micros(now), shared=True)
        self._counted = counted, daily
        if counted.is_held(now, settings):
            raise _too_many(counted)
        self._calls += 1
        self._sent += 1

    def refused(self, missing: str = "") -> None:
        """Credentials were refused: that costs nothing, and counts towards the breaker. `missing` ones do not."""
        if missing:
            if self._known.missing != missing:
                self._write(self._breaker, structs.replace(self._known, missing=missing))
            return
        self._counted = None
        with self._store.transaction():
            if self._sent:
                spend = self._read(self._spend, Spend, hold=True)
                self._write(self._spend, Spend(spend.calls[:-1], spend.until))
            self._write(self._breaker, self._read(self._breaker, Breaker).refused(self._now(), self._settings))

    def answered(self) -> None:
        """A call went through: whatever was refused before it is forgotten."""
        if self._known != Breaker():
            self._write(self._breaker, Breaker())
            self._known = Breaker()

    def found_key(self) -> None:
        """There is a key, where there was none: forget that."""
        known = self._read(self._breaker, Breaker)
        if known.missing:
            self._write(self._breaker, structs.replace(known, missing=""))

    def lift(self) -> None:
        """Forget what holds calls back, as somebody asks for it now; the daily limit stays."""
        self._counted = None
        for name, state in ((self._spend, Spend()), (self._breaker, Breaker()), (self._stop, Stop())):
            if self._store.state.guard(name) is not None:
                self._write(name, state)

    def _daily(self, *, hold: bool = False) -> Daily:
        return daily(self._store, hold=hold)

    def _refuse_if_full(self, found: Daily, now: float) -> None:
        most = self._settings.max_calls_per_day
        if until := found.full_until(now, most):
            raise SummarizerBlocked(
                "daily limit",
                f"The limit of {most:,} requests to models in 24 hours is reached.",
                hint="The setting max_calls_per_day raises it.",
                until=until,
            )

    def _read(self, name: str, kind: type[S], *, hold: bool = False) -> S:
        found = self._store.state.guard(name, hold=hold)
        return kind() if found is None else convert(found, type=kind)

    def _write(self, name: str, state: Struct) -> None:
        with self._store.transaction():
            self._store.state.set_guard(name, to_builtins(state), _micros(self._now()))


def daily(store: Store, *, hold: bool = False) -> Daily:
    """Read the requests of the last hours, over all owners."""
    found = store.state.guard(DAILY, hold=hold, shared=True)
    return Daily() if found is None else convert(found, type=Daily, strict=False)


def _too_many(spend: Spend) -> SummarizerBlocked:
    return SummarizerBlocked("spend", "This conversation asked for too many summaries.", until=spend.until)


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
