"""The database behind every engine of one Hermes process, and the sessions that use it."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Self

from msgspec import Struct, field

from lossless import config
from lossless.client import Conversation, Lossless
from lossless.client.host_access import HostAccess
from lossless.engine.shared import host_activity
from lossless.errors import LosslessError, StoreMoved
from lossless.hosts.hermes import history as histories
from lossless.hosts.hermes.history import Record
from lossless.hosts.hermes.host import HOST, is_newer
from lossless.hosts.hermes.wires import Trace, trace
from lossless.hosts.turn_wait import TurnWait
from lossless.model import SummaryRequest

log = logging.getLogger("lossless.hosts.hermes")

_MOST_HELD = 64
"""Sessions whose last history is remembered: it belongs to Hermes, and many sessions pass through a gateway."""
_PAUSE = 5.0
"""Seconds until a database that could not be opened is tried again."""


class Session(Struct):
    """One session of Hermes and what is known of its requests."""

    key: str
    session_id: str
    window: int = 0
    model: str | None = None
    api_mode: str = ""
    parent: str | None = None
    last: list[Record] = field(default_factory=list)
    """The messages of the last delivery, the same objects as in Hermes's list."""
    first: Trace | None = None
    shown: tuple[int, int] = (0, 0)
    """Our estimates of the last request: the context, and everything beside it."""
    prompt_tokens: int = 0
    is_assembled: bool = True
    """False after a request that went out as Hermes made it because we failed."""
    lock: threading.RLock = field(default_factory=threading.RLock)


class Memory:
    """One database for a process of Hermes. Nothing here raises into the host."""

    def __init__(
        self,
        *,
        settings: Callable[[], Mapping[str, object]],
        summarize: Callable[[SummaryRequest], object],
        version: str = "",
        can_rewrite: bool = True,
    ) -> None:
        self._settings, self._summarize = settings, summarize
        self.version = version
        self.can_rewrite = can_rewrite
        self.last_error = ""
        self.failures = 0
        self._sessions: dict[str, Session] = {}
        self._said: set[str] = set()
        self._lock = threading.RLock()
        self._opened: Lossless | None = None
        self._closed_for = ""
        self._failed_at = -_PAUSE
        self._wait = TurnWait()
        atexit.register(self.close)

    # The database

    def lossless(self) -> Lossless:
        """Return the open database; raise what prevents it."""
        with self._lock:
            if self._opened is None:
                if time.monotonic() - self._failed_at < _PAUSE:
                    raise LosslessError(self._closed_for)
                try:
                    self._opened = self._open()
                except Exception as error:
                    self._failed_at, self._closed_for = time.monotonic(), host_activity.error_text(error)
                    raise
            return self._opened

    def _open(self) -> Lossless:
        plugin = self._settings()
        chosen = config.resolve({}, plugin=plugin, plugin_name=HOST).settings.summary_model
        summarizer = self._summarize if chosen is None else None
        return Lossless.open(plugin=plugin, plugin_name=HOST, summarizer=summarizer)

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            with suppress(LosslessError):
                opened.close()

    # Sessions

    def start(self, session_id: str, *, root: str = "", continues: str = "") -> Session:
        """Return a session of Hermes, new or known. `continues` is the session whose conversation it goes on with."""
        with self._lock:
            before = self._sessions.get(continues) if continues else None
            found = self._sessions.get(session_id)
            if found is None or (before is not None and before.key != found.key):
                key = before.key if before else f"{HOST}:{root or continues or session_id}"
                found = Session(key, session_id)
                if before is not None:
                    found.window, found.model, found.api_mode = before.window, before.model, before.api_mode
                    found.parent = before.parent
                self._sessions[session_id] = found
            self._release()
            return found

    def session(self, session_id: str) -> Session | None:
        """Return a session that an engine of ours was started for."""
        found = self._sessions.get(session_id)
        if found is None:
            self.say(
                "not selected",
                "the plugin is enabled, but Hermes does not use lossless as its context engine: nothing is stored. "
                "Set context.engine to lossless in config.yaml.",
            )
        return found

    def adopt(self, parent_id: str, child_id: str) -> None:
        """Remember that a session is a sub-agent of another."""
        parent, child = self._sessions.get(parent_id), self._sessions.get(child_id)
        if parent is not None and child is not None and parent.key != child.key:
            child.parent = parent.key

    def chat(self, session: Session) -> Conversation:
        """Return the conversation of a session."""
        lcm = self.lossless()
        tags = lcm.settings.strip_injected_context_tags
        return lcm.conversation(
            session.key, session.session_id, parent=session.parent, canonicalize=histories.canonical(tags)
        )

    def _release(self) -> None:
        holding = [each for each in self._sessions.values() if each.last]
        for each in holding[:-_MOST_HELD]:
            each.last = []

    # Delivery

    def deliver(self, session: Session, history: Sequence[object], *, is_final: bool = True) -> int:
        """Store what is new in Hermes's list. Without `is_final` prompts at its end wait for their reply."""
        said = histories.spoken(history)
        said = said if is_final else histories.answered(said)
        try:
            return self._store(session, said)
        except StoreMoved as error:
            self.failed("database", error)
            return self._store(session, said)

    def _store(self, session: Session, said: list[Record]) -> int:
        with session.lock:
            if not said or _is_same(said, session.last):
                return 0
            chat = self.chat(session)
            is_ours = HostAccess(chat).is_ours
            known = len(session.last)
            if known and _is_same(said[:known], session.last):
                done = chat.ingest(histories.read(said[known:], is_ours, session.last[-1]))
            else:
                messages = histories.read(said, is_ours)
                done = chat.ingest(messages, whole=True)
                session.first = trace(messages[0]) if messages else None
            session.last = said
        return len(done.stored)

    def end_turn(self, session: Session) -> None:
        """Compact what a turn made necessary, in the background, and learn from the provider's count of tokens."""
        context, beside = session.shown
        usage = None
        if session.prompt_tokens > 0 and context > 0:
            # The count covers the whole request, our estimate of the context only a part of it.
            usage = {"prompt_tokens": max(1, round(session.prompt_tokens * context / (context + beside)))}
        self.chat(session).after_turn(
            [], session.window or None, observed=max(0, session.prompt_tokens), model=session.model, usage=usage
        )
        session.prompt_tokens = 0

    # Reports

    def guarded(self, event: str) -> Guard:
        """Return a context in which a callback of the host runs."""
        return Guard(self, event, self._wait.limited())

    def succeeded(self, event: str, seconds: float, delivered: int) -> None:
        """Record an event."""
        database = self._opened.location if self._opened else ""
        host_activity.record(HOST, event, seconds=seconds, delivered=delivered, database=database, version=self.version)

    def failed(self, event: str, error: Exception) -> None:
        """Record and log a failure."""
        if isinstance(error, StoreMoved):
            self.close()
            for session in self._sessions.values():
                session.last = []  # the database that is opened next may not have it
        self.failures += 1
        self.last_error = host_activity.error_text(error)
        log.warning("lossless: %s failed, and Hermes continues with its own messages: %s", event, self.last_error)
        host_activity.record(HOST, event, error=self.last_error, version=self.version)

    def say(self, topic: str, text: str) -> None:
        """Log and record a limitation once."""
        with self._lock:
            if topic in self._said:
                return
            self._said.add(topic)
        log.warning("lossless: %s", text)
        host_activity.record(HOST, topic, error=text, version=self.version)

    def say_version(self) -> None:
        """Say that Hermes is newer than the versions that were tested, if it is."""
        if is_newer(self.version):
            self.say("newer host", f"Hermes {self.version} is newer than the versions tested with this adapter.")


class Guard:
    """Limit the waits of a callback, record its time and its deliveries, and keep its failure away from the host."""

    def __init__(self, memory: Memory, event: str, limited: AbstractContextManager[None]) -> None:
        self._memory, self._event, self._limited = memory, event, limited
        self.delivered = 0

    def __enter__(self) -> Self:
        self._began, self._failures = time.monotonic(), self._memory.failures
        self._limited.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._limited.__exit__(kind, error, trace)
        if error is None and self._memory.failures == self._failures:
            self._memory.succeeded(self._event, time.monotonic() - self._began, self.delivered)
        elif isinstance(error, Exception):
            self._memory.failed(self._event, error)
            return True
        return False


def _is_same(one: Sequence[Record], other: Sequence[Record]) -> bool:
    return len(one) == len(other) and all(left is right for left, right in zip(one, other, strict=True))
