"""The database behind every engine of one Hermes process, and the sessions that use it."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from msgspec import Struct, field

from lossless import config
from lossless.client import Conversation, Lossless
from lossless.engine.shared import host_activity
from lossless.errors import LosslessError
from lossless.hosts.hermes import history as histories
from lossless.hosts.hermes.history import Record
from lossless.hosts.hermes.host import HOST, is_newer
from lossless.hosts.hermes.splice import Spliced, splice
from lossless.hosts.hermes.wires import CHAT, WIRES, Item, Trace, Wire, instructions, newest, size, trace, without_ours
from lossless.model import SummaryRequest

log = logging.getLogger("lossless.hosts.hermes")

_MOST_HELD = 64
"""Sessions whose last history is remembered: it belongs to Hermes, and many sessions pass through a gateway."""
_PAUSE = 5.0
"""Seconds until a database that could not be opened is tried again."""
_REPLY = 4_096
_FALLBACK = 0.6


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
                    self._failed_at, self._closed_for = time.monotonic(), f"{type(error).__name__}: {error}"
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
        with session.lock:
            if not said or _is_same(said, session.last):
                return 0
            chat = self.chat(session)
            is_ours = chat._delivery.is_ours
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

    # Requests

    def rewrite(self, session: Session, api_mode: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a request with our context in place of its old messages; None if it stays as it is."""
        wire = WIRES.get(api_mode)
        items = wire.items(request) if wire else None
        if wire is None or items is None:
            self.say(
                f"api {api_mode}",
                f"requests of the kind {api_mode!r} are not rebuilt: Hermes sends its own list, and compress() shortens it.",
            )
            session.is_assembled = False
            return None
        beside = sum(size(request.get(key)) for key in ("system", "instructions", "tools"))
        try:
            with session.lock:
                spliced = self._assembled(session, wire, items, beside + _reply(request, session.window))
            session.is_assembled = True
        except Exception as error:  # noqa: BLE001 - whatever failed on our side, the host's request goes out, bounded
            self.failed("llm_request", error)
            session.is_assembled = False
            return self._bounded(session, wire, request, items, beside)
        if spliced.items == items:
            return None
        return {**request, wire.key: spliced.items}

    def _assembled(self, session: Session, wire: Wire, items: list[Item], beside: int) -> Spliced:
        chat, window = self.chat(session), session.window or None
        items = without_ours(items, chat._delivery.is_ours)
        start = instructions(items, session.first)
        beside += size(items[:start])
        most = int((session.window or 128_000) * _FALLBACK)
        reserve, spliced = min(beside, most), None
        for attempt in range(3):
            context = chat.assemble(window, reserve=reserve, prompt_follows=True, model=session.model)
            spliced = splice(wire, items, start, context)
            unsaved = size(items[spliced.unsaved :])
            session.shown = context.tokens, beside + unsaved
            if attempt == 0 and unsaved and reserve < min(beside + unsaved, most):
                reserve = min(beside + unsaved, most)
            elif context.uncovered and attempt < 2:
                observed = context.tokens + context.uncovered + reserve
                chat.compact(window, observed=observed, model=session.model)
            else:
                break
        assert spliced is not None
        return spliced

    def _bounded(
        self,
        session: Session,
        wire: Wire,
        request: Mapping[str, Any],
        items: list[Item],
        beside: int,
    ) -> dict[str, Any] | None:
        """Return a request with the newest of Hermes's own messages, if all of them do not fit."""
        start = instructions(items, session.first)
        space = int((session.window or 128_000) * 0.75) - beside - size(items[:start])
        if size(items[start:]) <= space:
            return None
        return {**request, wire.key: [*items[:start], *newest(items[start:], max(space, 1))]}

    def shorten(self, session: Session, messages: list[Record], *, force: bool) -> list[Record]:
        """Return a list for Hermes to continue with: summaries, then its newest messages."""
        window = session.window or 128_000
        try:
            with session.lock:
                self.deliver(session, messages, is_final=False)
                chat = self.chat(session)
                observed = size(messages)
                chat.compact(window, observed=observed, model=session.model, force=force)
                context = chat.assemble(window, reserve=int(window * 0.25), prompt_follows=True, model=session.model)
                spliced = splice(CHAT, without_ours(messages, chat._delivery.is_ours), 0, context)
            shortened = _led([_fresh(each) for each in spliced.items])
        except Exception as error:  # noqa: BLE001 - the host has asked because its list does not fit: it gets a shorter one
            self.failed("compress", error)
            shortened = [_fresh(each) for each in newest(messages, window // 2)]
        return shortened if size(shortened) < size(messages) else messages

    # Reports

    def guarded(self, event: str) -> Guard:
        """Return a context in which a callback of the host runs."""
        return Guard(self, event)

    def succeeded(self, event: str, seconds: float, delivered: int) -> None:
        """Record an event."""
        database = self._opened.location if self._opened else ""
        host_activity.record(HOST, event, seconds=seconds, delivered=delivered, database=database, version=self.version)

    def failed(self, event: str, error: Exception) -> None:
        """Record and log a failure."""
        self.failures += 1
        text = str(error)
        self.last_error = text if text == self._closed_for else f"{type(error).__name__}: {text}"
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
    """Record the time and the deliveries of a callback, and keep its failure away from the host."""

    def __init__(self, memory: Memory, event: str) -> None:
        self._memory, self._event = memory, event
        self.delivered = 0

    def __enter__(self) -> Self:
        self._began, self._failures = time.monotonic(), self._memory.failures
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        if error is None and self._memory.failures == self._failures:
            self._memory.succeeded(self._event, time.monotonic() - self._began, self.delivered)
        elif isinstance(error, Exception):
            self._memory.failed(self._event, error)
            return True
        return False


def _is_same(one: Sequence[Record], other: Sequence[Record]) -> bool:
    return len(one) == len(other) and all(left is right for left, right in zip(one, other, strict=True))


def _reply(request: Mapping[str, Any], window: int) -> int:
    """Return the tokens to leave for the reply."""
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    asked = next((request[name] for name in names if isinstance(request.get(name), int)), _REPLY)
    return min(asked, (window or 128_000) // 4)


def _led(records: list[Record]) -> list[Record]:
    """Return a list for Hermes in which the summaries at the start are one message: it joins them otherwise."""
    end = next((at for at, each in enumerate(records) if not str(each.get("content")).startswith("<")), len(records))
    texts = [each["content"] for each in records[:end] if each.get("role") == "user"]
    if len(texts) < 2 or len(texts) < end or not all(isinstance(each, str) for each in texts):
        return records
    return [{"role": "user", "content": "\n".join(texts)}, *records[end:]]


def _fresh(record: Record) -> Record:
    """Return a copy without the mark that Hermes has written the message to its own database."""
    return {key: value for key, value in record.items() if key != "_db_persisted"}
