"""Do pending work: one debt per conversation, worked on by any process when the host is idle.

A context over its budget is compacted without waiting: a host that never pauses would never be compacted.

A worker claims a debt for a minute and renews the claim while it works, so the debt of a killed worker is soon free again. Any
number of workers, on threads, in processes or on machines, may share a database.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from lossless.errors import LONGEST_PAUSE, StoreError
from lossless.events import Event
from lossless.model import Compaction
from lossless.store.rows.types import DebtRow

if TYPE_CHECKING:
    from lossless.engine.recall.semantic import Vectors
    from lossless.engine.shared.runtime import Runtime
    from lossless.model import CompactionStop, DebtStop

IDLE, LEASE, RENEW, POLL = 2.0, 60.0, 20.0, 30.0
"""Seconds without an ingest before work starts; of a claim; between renewals; between checks for work."""
_DONE: Final[tuple[CompactionStop, ...]] = (
    *("compacted", "below threshold", "nothing to compact"),
    *("too small", "exhausted"),
)
_FIRST_DELAY, _LONGEST_DELAY, _MOST_DOUBLED = 300.0, 1800.0, 4

Drain = Callable[[DebtRow, Callable[[], bool]], Compaction]
"""Works on a debt until it is done, or until the function says that a host uses the conversation."""


class Settlement(Struct, frozen=True):
    """The state of a debt after work on it."""

    pending: bool
    attempts: int
    next_at: float


def settlement(debt: DebtRow, done: Compaction, now: float) -> Settlement:
    """Return whether a debt is done, continues, or is retried later: only a lack of progress causes a delay."""
    if done.stop in _DONE:
        # A summary that a model just failed to write is not retried at once; a new turn's debt does not wait for that.
        return Settlement(False, 0, now + _FIRST_DELAY if debt.window_tokens else 0)
    if done.retry_at is not None:
        return Settlement(True, debt.attempts, min(max(now, done.retry_at.timestamp()), now + LONGEST_PAUSE))
    if done.stop != "in vain" and (done.summaries or done.stop in ("yielded", "moved")):
        return Settlement(True, 0, now)
    return retry_later(debt, now)


def retry_later(debt: DebtRow, now: float) -> Settlement:
    """Return the next attempt after a failure: in 5, 10, 20, then every 30 minutes.

    To rewrite summaries it is in 40 and then every 60 minutes: a summary that no model wrote serves until then, while a context
    that is not compacted only grows.
    """
    longest = _LONGEST_DELAY if debt.window_tokens else LONGEST_PAUSE
    delay = min(_FIRST_DELAY * 2 ** min(debt.attempts, _MOST_DOUBLED), longest)
    return Settlement(True, debt.attempts + 1, now + delay)


class Worker:
    """Works on the debts of one owner, one at a time."""

    def __init__(
        self,
        runtime: Runtime,
        drain: Drain,
        *,
        tries: Callable[[], int],
        vectors: Vectors | None = None,
    ) -> None:
        self._store, self._drain, self._now = runtime.store, drain, runtime.clock
        self._budget = runtime.settings.max_assembly_token_budget
        self._vectors = vectors
        self._tries, self._on_event = tries, runtime.on_event
        self._name = f"{os.getpid()}-{os.urandom(4).hex()}"

    def step(self, *, idle: float = IDLE) -> bool:
        """Work on one debt whose conversation had no ingest for `idle` seconds, or is over its budget.

        Return False if there is none.
        """
        now = self._now()
        debt = self._store.debts.claim(
            self._name,
            now=_micros(now),
            idle_before=_micros(now - idle),
            lease_until=_micros(now + LEASE),
            tries=self._tries(),
            budget=self._budget,
        )
        if debt is None:
            return False
        with self._renewing(debt):
            self._work_on(debt, idle)
        return True

    def embed(self, *, idle: float = IDLE) -> bool:
        """Make some missing vectors, when no other work is pending. Return False if none are missing."""
        return self._vectors is not None and self._vectors.step(_micros(self._now() - idle))

    def _work_on(self, debt: DebtRow, idle: float) -> None:
        stop: DebtStop
        failure = None
        try:
            # A context that does not fit loses messages in every request, until it is below its threshold.
            is_urgent = self._is_over(debt)
            done = self._drain(debt, lambda: not is_urgent and self._is_in_use(debt, idle))
            after = settlement(debt, done, self._now())
            stop = done.stop
            self._on_event(_report(debt, done))
        except Exception as error:  # noqa: BLE001 - an error in one conversation must not block the others
            after, stop, failure = retry_later(debt, self._now()), "failed", str(error) or type(error).__name__
            self._on_event(
                Event(
                    "worker.failed",
                    f"{debt.key}: {failure}",
                    "error",
                    {"conversation": debt.key},
                )
            )
        except BaseException:
            # Interrupted: the debt is free for the next worker at once.
            with suppress(StoreError):
                self._store.debts.settle(
                    debt, pending=True, attempts=debt.attempts, next_at=debt.next_at, stop="stopped", failure=None
                )
            raise
        self._store.debts.settle(
            debt,
            pending=after.pending,
            attempts=after.attempts,
            next_at=_micros(after.next_at),
            stop=stop,
            failure=failure,
        )

    def _is_in_use(self, debt: DebtRow, idle: float) -> bool:
        row, now = self._store.conversations.active(debt.key), self._now()
        if row is None or row.id != debt.conversation_id:
            return True
        return _micros(now - idle) < row.updated_at <= _micros(now + LONGEST_PAUSE)

    def _is_over(self, debt: DebtRow) -> bool:
        """Return whether a context is over the budget that it is compacted for."""
        row = self._store.conversations.active(debt.key)
        budget = min(debt.window_tokens, self._budget or debt.window_tokens)
        return row is not None and 0 < budget < row.context_tokens + debt.overhead

    @contextmanager
    def _renewing(self, debt: DebtRow) -> Iterator[None]:
        """Renew the claim while the work lasts."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(RENEW):
                with suppress(StoreError):  # retried soon; if the claim expires, compare-and-swap still protects
                    self._store.debts.renew(debt, _micros(self._now() + LEASE))

        thread = threading.Thread(target=renew, name="lcm-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def run(self, stop: threading.Event, *, wake: threading.Event | None = None, after: float = 0) -> None:
        """Work until `stop` is set; check again soon while work is pending, and at once when woken.

        The first check is after `after` seconds.
        """
        wake = wake or stop
        if after:
            wake.wait(after)
        while not stop.is_set():
            try:
                if self.step() or self.embed():
                    continue
                pause = IDLE if self._store.debts.any_pending() else POLL
            except Exception as error:  # noqa: BLE001 - the worker continues after any error
                if stop.is_set():  # the database was closed meanwhile
                    return
                self._on_event(Event("worker.failed", str(error) or type(error).__name__, "error"))
                pause = POLL
            wake.wait(pause)
            if wake is not stop:
                wake.clear()


class Background:
    """A worker on its own thread, started by the first debt of this process."""

    def __init__(self, worker: Callable[[], Worker]) -> None:
        self._worker = worker
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self.is_enabled = True
        """False if pending work is left to `Worker.step`: a host does it when it lends its model."""

    def wake(self) -> None:
        """Start pending work now."""
        self.start()
        self._wake.set()

    def start(self, *, after: float = 0) -> None:
        """Start a worker unless one runs; it checks for work after `after` seconds."""
        if not self.is_enabled:
            return
        with self._lock:
            if self._pid != os.getpid():  # threads do not survive a fork
                self._thread, self._pid = None, os.getpid()
                self._stop, self._wake = threading.Event(), threading.Event()
            if (self._thread is None or not self._thread.is_alive()) and not self._stop.is_set():
                stop, wake = self._stop, self._wake
                target = self._worker().run
                self._thread = threading.Thread(
                    target=target, args=(stop,), kwargs={"wake": wake, "after": after}, daemon=True
                )
                self._thread.name = "lcm-worker"
                self._thread.start()

    def close(self, seconds: float) -> None:
        """Start no further work. A call to a model is left to its lease after so many seconds."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(seconds)

    @property
    def is_closing(self) -> bool:
        return self._stop.is_set()


def _report(debt: DebtRow, done: Compaction) -> Event:
    facts = {
        "conversation": debt.key,
        "stop": done.stop,
        "summaries": len(done.summaries),
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
    }
    result = f"{done.tokens_before:,} -> {done.tokens_after:,} tokens, {len(done.summaries)} summaries made"
    return Event("worker.paid", f"{debt.key}: {done.stop}; {result}", "info", facts)


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
