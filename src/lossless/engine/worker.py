"""Deferred work: one debt per conversation, drained when its host is idle, by whoever comes first.

A context that is over its budget does not wait for that: a host that never pauses would never be compacted.

A worker claims a debt for a minute and renews that while it works, so the debt of one that was killed is free again soon.
Any number of workers, on threads, in processes or on machines, may share a database.
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
from lossless.store.base import DebtRow

if TYPE_CHECKING:
    from lossless.engine.recall.semantic import Vectors
    from lossless.engine.shared.runtime import Runtime
    from lossless.model import CompactionStop, DebtStop

IDLE, LEASE, RENEW, LOOK = 2.0, 60.0, 20.0, 30.0
"""Seconds: without an ingest before work starts; that a claim holds; between renewals; between looks for work."""
_DONE: Final[tuple[CompactionStop, ...]] = ("compacted", "below threshold", "nothing to compact", "exhausted")
_FIRST_DELAY, _LONGEST_DELAY, _MOST_DOUBLED = 300.0, 1800.0, 4

Drain = Callable[[DebtRow, Callable[[], bool]], Compaction]
"""Work on a debt, until done or until the function says that the conversation is wanted elsewhere."""


class Settlement(Struct, frozen=True):
    """What becomes of a debt."""

    pending: bool
    attempts: int
    next_at: float


def settlement(debt: DebtRow, done: Compaction, now: float) -> Settlement:
    """Paid, to be continued, or to be tried again later: a delay is for those who stall, never for progress."""
    if done.stop in _DONE:
        # What a model failed at just now is not tried again at once; a new turn's debt does not wait for that.
        return Settlement(False, 0, now + _FIRST_DELAY if debt.window_tokens else 0)
    if done.retry_at is not None:
        return Settlement(True, debt.attempts, min(max(now, done.retry_at.timestamp()), now + LONGEST_PAUSE))
    if done.stop != "in vain" and (done.summaries or done.stop in ("yielded", "moved")):
        return Settlement(True, 0, now)
    return later(debt, now)


def later(debt: DebtRow, now: float) -> Settlement:
    """Tried in vain: again in 5, 10, 20 and then every 30 minutes; to rewrite summaries in 40 and then every 60.

    A summary that no model wrote serves until then, while a context that is not compacted only grows.
    """
    longest = _LONGEST_DELAY if debt.window_tokens else LONGEST_PAUSE
    delay = min(_FIRST_DELAY * 2 ** min(debt.attempts, _MOST_DOUBLED), longest)
    return Settlement(True, debt.attempts + 1, now + delay)


class Worker:
    """Drains the debts of one owner, one at a time."""

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
        """Work on one debt whose conversation saw no ingest for `idle` seconds, or is over its budget. False if there is none."""
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
        with self._held(debt):
            self._work_on(debt, idle)
        return True

    def embed(self, *, idle: float = IDLE) -> bool:
        """Make some of the vectors that are missing, for when nothing is owed. False if there are none to make."""
        return self._vectors is not None and self._vectors.step(_micros(self._now() - idle))

    def _work_on(self, debt: DebtRow, idle: float) -> None:
        stop: DebtStop
        failure = None
        try:
            # Until a context that does not fit is below its threshold again, something is left out of every request.
            is_urgent = self._is_over(debt)
            done = self._drain(debt, lambda: not is_urgent and self._is_wanted(debt, idle))
            after = settlement(debt, done, self._now())
            stop = done.stop
            self._on_event(_paid(debt, done))
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not keep the other conversations waiting
            after, stop, failure = later(debt, self._now()), "failed", str(error) or type(error).__name__
            self._on_event(
                Event(
                    "worker.failed",
                    f"{debt.key}: {failure}",
                    "error",
                    {"conversation": debt.key},
                )
            )
        except BaseException:
            # Stopped in the middle: the debt is free for the next one at once.
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

    def _is_wanted(self, debt: DebtRow, idle: float) -> bool:
        row, now = self._store.conversations.active(debt.key), self._now()
        if row is None or row.id != debt.conversation_id:
            return True
        return _micros(now - idle) < row.updated_at <= _micros(now + LONGEST_PAUSE)

    def _is_over(self, debt: DebtRow) -> bool:
        """Whether a conversation's context is over the budget it is to be compacted for."""
        row = self._store.conversations.active(debt.key)
        budget = min(debt.window_tokens, self._budget or debt.window_tokens)
        return row is not None and 0 < budget < row.context_tokens + debt.overhead

    @contextmanager
    def _held(self, debt: DebtRow) -> Iterator[None]:
        """The claim renewed while the work lasts."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(RENEW):
                with suppress(StoreError):  # tried again in a moment; if it lapses, compare-and-swap still protects
                    self._store.debts.renew(debt, _micros(self._now() + LEASE))

        thread = threading.Thread(target=renew, name="lcm-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def run(self, stop: threading.Event, *, wake: threading.Event | None = None, after: float = 0) -> None:
        """Work until `stop` is set, looking again soon while something is owed and at once when woken.

        The first look is `after` so many seconds.
        """
        wake = wake or stop
        if after:
            wake.wait(after)
        while not stop.is_set():
            try:
                if self.step() or self.embed():
                    continue
                pause = IDLE if self._store.debts.any_pending() else LOOK
            except Exception as error:  # noqa: BLE001 - whatever it is, there is work after it
                if stop.is_set():  # the database was closed under us
                    return
                self._on_event(Event("worker.failed", str(error) or type(error).__name__, "error"))
                pause = LOOK
            wake.wait(pause)
            if wake is not stop:
                wake.clear()


class Background:
    """A worker on a thread of its own, started by the first debt of this process."""

    def __init__(self, worker: Callable[[], Worker]) -> None:
        self._worker = worker
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Have what is pending done now."""
        self.start()
        self._wake.set()

    def start(self, *, after: float = 0) -> None:
        """Have a worker look for work, the first time after so many seconds, unless one runs already."""
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
        """No further debt is begun. One that waits for a model is left to its lease after so many seconds."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(seconds)

    @property
    def is_closing(self) -> bool:
        return self._stop.is_set()


def _paid(debt: DebtRow, done: Compaction) -> Event:
    facts = {
        "conversation": debt.key,
        "stop": done.stop,
        "summaries": len(done.summaries),
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
    }
    told = f"{done.tokens_before:,} -> {done.tokens_after:,} tokens, {len(done.summaries)} summaries made"
    return Event("worker.paid", f"{debt.key}: {done.stop}; {told}", "info", facts)


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
