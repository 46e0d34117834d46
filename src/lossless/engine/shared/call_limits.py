"""Limit the calls to models: too many of them, or credentials that are refused repeatedly.

The rules are pure functions of a stored state and the time; `Guards` keeps the state in the database, so that a restart loses
nothing. Requests are counted just before they are sent. A stored time further ahead than the longest wait comes from a wrong
clock and is ignored.
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
    """The request times of one conversation, and the time until which it makes no more."""

    calls: tuple[float, ...] = ()
    until: float = 0.0

    def with_call(self, now: float, settings: Settings) -> Spend:
        """Return the state with one more request."""
        recent = self.recent(now, settings)
        if len(recent) >= settings.summary_max_calls_per_window:
            return Spend((), now + settings.summary_spend_backoff_ms / 1000)
        return Spend((*recent, now), self.until)

    def recent(self, now: float, settings: Settings) -> tuple[float, ...]:
        """Return the requests within the window that ends now."""
        return tuple(at for at in self.calls if now - settings.summary_call_window_ms / 1000 < at <= now)

    def is_held(self, now: float, settings: Settings) -> bool:
        """Return whether the conversation may make no request now."""
        return now < self.until <= now + settings.summary_spend_backoff_ms / 1000


class Daily(Struct, frozen=True):
    """The requests to models by hour, over the whole database."""

    hours: dict[int, int] = field(default_factory=dict)

    def with_call(self, now: float) -> Daily:
        """Return the state with one more request."""
        hour = int(now // _HOUR)
        recent = self.recent(now)
        return Daily({**recent, hour: recent.get(hour, 0) + 1})

    def recent(self, now: float) -> dict[int, int]:
        """Return the last 24 hours that had requests, oldest first."""
        hour = int(now // _HOUR)
        return {each: count for each, count in sorted(self.hours.items()) if hour - _DAY < each <= hour}

    def total(self, now: float) -> int:
        """Return the number of requests in the last 24 hours."""
        return sum(self.recent(now).values())

    def full_until(self, now: float, most: int | None) -> float:
        """Return the time at which a request may be made again; 0 if one may be made now."""
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
    """A compaction that could gain nothing: it is not tried again until there is something new."""

    seq: int = 0
    window: int = 0


class Breaker(Struct, frozen=True):
    """The refusals of a model's credentials in a row, and the time until which it is not called."""

    failures: int = 0
    until: float = 0.0
    missing: str = ""
    """The reason why there were no credentials at the last call."""

    def with_refusal(self, now: float, settings: Settings) -> Breaker:
        """Return the state with one more refusal."""
        failures = self.failures + 1
        if failures < settings.circuit_breaker_threshold:
            return Breaker(failures)
        return Breaker(0, now + settings.circuit_breaker_cooldown_ms / 1000)

    def is_open(self, now: float, settings: Settings) -> bool:
        """Return whether the model may not be called now."""
        return now < self.until <= now + settings.circuit_breaker_cooldown_ms / 1000


S = TypeVar("S", Spend, Breaker, Stop)
_HELD_BACK: Final[tuple[CompactionStop, ...]] = (*get_args(ModelBlock), "moved", "yielded", "in vain")


class Guards:
    """The call limits of one conversation and one summarizer. A free summarizer is not limited."""

    def __init__(self, store: Store, settings: Settings, key: str, model: str, now: Callable[[], float]) -> None:
        self._store, self._settings, self._now = store, settings, now
        self._spend, self._breaker = f"spend:{key}", f"breaker:{model}"
        self._stop = f"stop:{key}"
        self._free = model == "extractive"
        self._calls = self._sent = 0
        self._known = Breaker()
        self._counted: tuple[Spend, Daily] | None = None
        """The state after the last counted request; the next one is checked again when it is counted."""

    def ask(self, summarizer: Summarizer, request: SummaryRequest) -> Reply | SummarizerError:
        """Return the reply of a summarizer, or the error that kept it from one."""
        try:
            self.before_call()
            with counting(self.count):
                reply = summarizer.ask(request)
        except SummarizerError as error:
            return self.note_failure(error)
        self.note_answer()
        return reply

    def note_failure(self, error: SummarizerError) -> SummarizerError:
        """Count a refusal of credentials; return the error."""
        if isinstance(error, SummarizerAuth):
            self.note_refusal(str(error) if error.missing else "")
        return error

    def is_exhausted(self, seq: int, window: int) -> bool:
        """Return whether a compaction could gain nothing, and nothing new came since."""
        return self._read(self._stop, Stop) == Stop(seq, window)

    def note_end(self, done: Compaction, seq: int, window: int) -> tuple[Compaction, bool]:
        """Store how a compaction ended; return it, and whether it is the first that can gain nothing.

        Calls that gained nothing at all delay the next ones.
        """
        if self._calls and not done.summaries and done.stop not in _HELD_BACK:
            self._write(self._spend, Spend((), self._now() + self._settings.summary_spend_backoff_ms / 1000))
            done = structs.replace(done, stop="exhausted")
        before, after = self._read(self._stop, Stop), Stop(seq, window) if done.stop == "exhausted" else Stop()
        if before != after:
            self._write(self._stop, after)
        return done, after != Stop() and before == Stop()

    def before_call(self) -> None:
        """Raise `SummarizerBlocked` if no request may be sent now. Nothing is counted yet."""
        self._sent = 0
        if self._free:
            return
        now, settings = self._now(), self._settings
        self._known = self._read(self._breaker, Breaker)
        if self._known.is_open(now, settings):
            raise SummarizerBlocked(
                "breaker", "The summarizer's credentials were refused too often.", until=self._known.until
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
            counted = spend if spend.is_held(now, settings) else spend.with_call(now, settings)
            self._store.state.set_guard(self._spend, to_builtins(counted), _micros(now))
            if not counted.is_held(now, settings):
                daily = daily.with_call(now)
                self._store.state.set_guard(DAILY, to_builtins(daily, str_keys=True), _micros(now), shared=True)
        self._counted = counted, daily
        if counted.is_held(now, settings):
            raise _too_many(counted)
        self._calls += 1
        self._sent += 1

    def note_refusal(self, missing: str = "") -> None:
        """Count refused credentials towards the breaker; `missing` ones do not count."""
        if missing:
            if self._known.missing != missing:
                self._write(self._breaker, structs.replace(self._known, missing=missing))
            return
        self._counted = None
        with self._store.transaction():
            if self._sent:
                spend = self._read(self._spend, Spend, hold=True)
                self._write(self._spend, Spend(spend.calls[:-1], spend.until))
            self._write(self._breaker, self._read(self._breaker, Breaker).with_refusal(self._now(), self._settings))

    def note_answer(self) -> None:
        """Forget earlier refusals after a successful call."""
        if self._known != Breaker():
            self._write(self._breaker, Breaker())
            self._known = Breaker()

    def found_key(self) -> None:
        """Forget that a key was missing."""
        known = self._read(self._breaker, Breaker)
        if known.missing:
            self._write(self._breaker, structs.replace(known, missing=""))

    def reset(self) -> None:
        """Forget every limit for a call that the user requested; the daily limit stays."""
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
                hint="Raise it with the setting max_calls_per_day.",
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
    return SummarizerBlocked("spend", "This conversation requested too many summaries.", until=spend.until)


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
