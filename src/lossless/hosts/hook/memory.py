"""Answer the events of hosts from one open database: capture, then say what the host should know."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, field

from lossless.client import Conversation, Lossless
from lossless.client.lossless import WINDOW
from lossless.engine.compaction import plan
from lossless.engine.context.load import load_view
from lossless.engine.shared import host_activity
from lossless.errors import LosslessError
from lossless.hosts.hook import cue, events, history
from lossless.hosts.hook.capture import MOST_BYTES, Session, capture, unread_bytes
from lossless.hosts.hook.database import Database
from lossless.hosts.hook.events import HookEvent
from lossless.model import StoredMessage, Summary

WAIT, WAIT_FOR_SUMMARIES, WAIT_BEHIND = 3.0, 2.0, 0.3
"""Seconds that a host waits for an answer: usually; of these, after a compaction, for the summaries of what left its
context; and while an earlier event still waits, e.g. for a locked database."""
_LONGEST = 900.0
"""Seconds for which pending work keeps the process alive, and for which a session is followed after its last event."""
_PAUSE = 30.0
"""Seconds before a transcript that could not be read is looked at again without an event."""
_LISTED = 100
"""Number of newest conversations among which those of a directory are looked for."""
_LOW_PRIORITY = 10


class Memory:
    """The database of the hooks and the sessions that deliver into it. Threads share it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._database = Database()
        self._lock = threading.Lock()
        self._sessions: dict[Path, Session] = {}
        self._compactions: dict[str, Future[None]] = {}
        self._known: dict[str, dict[str, object]] = {}
        self._late: set[Future[bytes]] = set()
        self._used: Lossless | None = None
        self._answers = ThreadPoolExecutor(16, "lcm-hook")
        self._slow = ThreadPoolExecutor(2, "lcm-hook-slow", initializer=_lower_priority)
        self.busy_at = clock()
        """The last time at which an event came or a transcript changed."""

    def close(self) -> None:
        """Finish what is being written, and close the database."""
        for pool in (self._answers, self._slow):
            pool.shutdown(wait=True, cancel_futures=True)
        self._database.close()

    @property
    def is_working(self) -> bool:
        """Return whether a compaction or a catch-up runs, or is pending and was asked for lately."""
        # Copies: other threads add to both.
        if any(not each.done() for each in list(self._compactions.values())):
            return True
        if any(each.lock.locked() for each in list(self._sessions.values())):
            return True
        return self._clock() - self.busy_at < _LONGEST and self._database.has_pending()

    def answer(self, host: str, data: bytes) -> bytes:
        """Handle one event of a host; return the answer to it. It never raises."""
        begun = self._clock()
        self.busy_at = begun
        handling = _Handling()
        wait = WAIT_BEHIND if self._late else WAIT
        running = self._answers.submit(self._handle, host, data, handling)
        try:
            reply = running.result(wait)
        except NotDone:
            handling.problems.append(f"It took more than {wait:g} seconds; the background process continues.")
            self._late.add(running)
            running.add_done_callback(lambda done: self._record_late(host, handling, done))
            reply = b""
        except Exception as error:  # noqa: BLE001 - the host's turn goes on, and `lcm status` shows what happened
            handling.problems.append(host_activity.error_text(error))
            reply = b""
        stored = handling.stored if running.done() else 0
        self._record(host, handling.name, begun, stored, " ".join(handling.problems))
        return reply

    def _record_late(self, host: str, handling: _Handling, done: Future[bytes]) -> None:
        """Record the end of an event that took too long: its messages are stored, or it failed for another reason."""
        self._late.discard(done)
        if not done.cancelled():
            error = done.exception()
            problems = [*handling.problems[1:], *([host_activity.error_text(error)] if error else [])]
            self._record(host, handling.name, self._clock(), handling.stored, " ".join(problems))

    def look_again(self) -> None:
        """Read the transcripts of known sessions that grew without an event."""
        now = self._clock()
        with self._lock:
            idle = [
                path for path, each in self._sessions.items() if now - each.seen > _LONGEST and not each.lock.locked()
            ]
            for path in idle:
                key = self._sessions.pop(path).key
                self._known.pop(key, None)
                if (compaction := self._compactions.get(key)) and compaction.done():
                    del self._compactions[key]
            sessions = list(self._sessions.values())
        for session in sessions:
            if session.key and now >= session.later and not session.lock.locked() and _has_changed(session, now):
                session.later = now + _PAUSE  # once at a time, and not again at once after a failure
                self._slow.submit(self._catch_up, session)

    def _handle(self, host: str, data: bytes, handling: _Handling) -> bytes:
        event = events.decode(data)
        handling.name = event.hook_event_name[:40]
        if not event.is_known:
            handling.problems.append(f"The event {handling.name!r} is not known; the transcript was read all the same.")
        self._deliver(host, event, handling)
        return self._reply(host, event)

    def _record(self, host: str, name: str, begun: float, stored: int, error: str) -> None:
        host_activity.record(
            *(host, name),
            seconds=self._clock() - begun,
            delivered=stored,
            error=error,
            database=self._database.location,
            clock=self._clock,
        )

    def _opened(self) -> Lossless:
        """Return the open database. With another one, what was read into the last one does not count."""
        lcm = self._database.opened()
        with self._lock:
            if lcm is not self._used:
                self._used = lcm
                self._known.clear()
                for session in self._sessions.values():
                    session.files = {}
        return lcm

    def _session(self, host: str, event: HookEvent) -> Session | None:
        if not event.transcript_path:
            return None
        path = Path(os.path.realpath(os.path.expanduser(event.transcript_path)))
        with self._lock:
            session = self._sessions.setdefault(path, Session(host, path))
            session.seen = self._clock()
            return session

    def _deliver(self, host: str, event: HookEvent, handling: _Handling) -> None:
        """Capture what is new for an event, at once or, if it is much, in the background."""
        lcm, session = self._opened(), self._session(host, event)
        if session is None:
            return
        more = [Path(os.path.realpath(event.agent_transcript_path))] if event.agent_transcript_path else []
        changed = session.changed(self._clock(), *more)
        if unread_bytes(lcm, changed) > MOST_BYTES:
            if not session.lock.locked():
                self._slow.submit(self._catch_up, session, event, *more)
            return
        if changed:
            try:
                done = capture(lcm, session, *more, wait=WAIT)
                handling.stored, handling.problems = done.stored, handling.problems + done.problems
            except (LosslessError, OSError) as error:
                handling.problems.append(host_activity.error_text(error))  # the event may have an answer all the same
        self._compact(event, session)

    def _catch_up(self, session: Session, event: HookEvent | None = None, *more: Path) -> None:
        stored, error = 0, ""
        try:
            done = capture(self._opened(), session, *more)
            stored, error = done.stored, " ".join(done.problems)
            if event is not None:
                self._compact(event, session)
            session.later = 0.0
        except Exception as failure:  # noqa: BLE001 - it is reported, and tried again at the next event
            error = host_activity.error_text(failure)
        if stored:
            self.busy_at = self._clock()
        if stored or error:
            self._record(session.host, "catch-up", self._clock(), stored, error)  # no host waited for it

    def _compact(self, event: HookEvent, session: Session) -> None:
        """Have summaries written in the background: at once if the host compacts, after a turn if it is due."""
        if not session.key:
            return
        chat = self._database.opened().conversation(session.key)
        if event.hook_event_name == "PreCompact":
            if not chat._lcm.settings.hook_block_compaction:
                self._remember(chat, {"compacted": True})
            running = self._compactions.get(chat.key)
            if running is None or running.done():
                self._compactions[chat.key] = self._slow.submit(_compact_all, chat)
        elif event.hook_event_name in events.ENDS:
            self._slow.submit(_schedule, chat)

    def _reply(self, host: str, event: HookEvent) -> bytes:
        lcm = self._database.opened()
        settings = lcm.settings
        if not settings.enabled:
            return b""
        match event.hook_event_name, event.source:
            case "SessionStart", "resume" | "compact":
                session = self._session(host, event)
                chat = lcm.conversation(session.key) if session and session.key else None
                return events.added_context(event, self._history(chat, event) if chat else "")
            case "SessionStart", _ if settings.hook_startup_note:
                return events.added_context(event, self._earlier_sessions(lcm, event))
            case "UserPromptSubmit", _ if settings.hook_recall_cue and cue.asks_about_past(event.prompt):
                return events.added_context(event, cue.CUE)
            case "PreCompact", _ if settings.hook_block_compaction:
                return events.blocked_compaction()
        return b""

    def _history(self, chat: Conversation, event: HookEvent) -> str:
        """Return what the host's own context does not hold any more; empty if the host was given it already.

        After a compaction that is everything. On resume the host has its messages, so only summaries are shown.
        """
        if chat._hidden:
            return ""
        known = self._known.get(chat.key) or _stored_facts(chat)
        compacted = event.source == "compact" or bool(known.get("compacted"))
        if compacted and (running := self._compactions.get(chat.key)):
            with suppress(NotDone):
                running.result(WAIT_FOR_SUMMARIES)
        summaries, messages = _view(chat)
        named = sha256("\n".join(each.id for each in summaries).encode()).hexdigest()[:16]
        if (not compacted and not summaries) or named == known.get("given"):
            return ""
        intro, limits = chat._lcm.settings.hook_context_intro, self._limits(chat._lcm)
        text = history.history(chat.key, intro, summaries, messages if compacted else (), limits)
        if text:
            self._remember(chat, {"given": named})
        return text

    def _remember(self, chat: Conversation, facts: dict[str, object]) -> None:
        """Note what the host was given last; a compaction of the host takes it away."""
        self._known[chat.key] = facts
        self._slow.submit(_store_facts, chat, facts, int(self._clock() * 1_000_000))

    def _earlier_sessions(self, lcm: Lossless, event: HookEvent) -> str:
        own = f":{event.session_id}"
        listed = lcm.conversations(limit=_LISTED) if event.cwd else ()
        found = [each for each in listed if each.directory == event.cwd and not each.key.endswith(own)]
        return history.earlier_sessions(lcm.settings.hook_context_intro, event.cwd, found, self._limits(lcm))

    def _limits(self, lcm: Lossless) -> history.Limits:
        settings = lcm.settings
        now = datetime.fromtimestamp(self._clock(), UTC)
        return history.limits(settings.hook_context_tokens, settings.hook_context_ttl_hours, now, settings.zone)


class _Handling(Struct):
    """The state of the handling of an event, also if it takes too long."""

    name: str = "event"
    stored: int = 0
    problems: list[str] = field(default_factory=list)


def _has_changed(session: Session, now: float) -> bool:
    try:
        return bool(session.changed(now))
    except OSError:  # its next event reports it
        return False


def _view(chat: Conversation) -> tuple[list[Summary], list[StoredMessage]]:
    """Return the summaries and the newest messages of a context, without reading more than could be shown."""
    row = chat._row()
    if row is None:
        return [], []
    settings = chat._lcm.settings
    limits = plan.limits(settings, max(4 * settings.hook_context_tokens, 1), key=chat.key)
    entries = load_view(chat._store, row, limits, settings.zone).entries
    items = [entry.item for entry in entries]
    return (
        [item for item in items if isinstance(item, Summary)],
        [item for item in items if isinstance(item, StoredMessage)],
    )


def _compact_all(chat: Conversation) -> None:
    """Summarise what the host's compaction takes out of its context."""
    with suppress(LosslessError):  # what is missing is reported with the pending work
        chat.compact(WINDOW, force=True)


def _stored_facts(chat: Conversation) -> dict[str, object]:
    found = chat._store.state.guard(f"hook:{chat.key}")
    return found if isinstance(found, dict) else {}


def _store_facts(chat: Conversation, facts: dict[str, object], now: int) -> None:
    if not chat._closed_to:
        with suppress(LosslessError), chat._store.transaction():  # without it the host is given the same once more
            chat._store.state.set_guard(f"hook:{chat.key}", facts, now)


def _schedule(chat: Conversation) -> None:
    with suppress(LosslessError):  # the next turn schedules it again
        chat._compactor.schedule(WINDOW, 0, None)


def _lower_priority() -> None:
    """Let the threads of slow work wait for everything else; on Linux, a priority is that of a thread."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)
