"""The common part of the adapters for Python frameworks: store messages, build requests, report failures.

A framework keeps its own history. These functions copy it into a conversation, and build the list that its model is shown
instead. A failure here never reaches a run: it is logged, recorded for `lcm hosts`, and the framework's own list is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import Any, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

import msgspec

from lossless.aio import AsyncLossless
from lossless.client import Conversation, Lossless
from lossless.client.host_access import HostAccess
from lossless.engine.context.guidance import SHORT
from lossless.engine.context.live_messages import fit_live
from lossless.engine.context.summary_xml import stands_for
from lossless.engine.shared import host_activity
from lossless.errors import InvalidInput, LosslessError, StoreMoved
from lossless.events import Event
from lossless.hosts.turn_wait import TurnWait
from lossless.model import Context, Message
from lossless.store.store import Store
from lossless.tokens import message_tokens
from lossless.tools import tools
from lossless.tools.arguments import offered, schema

P = ParamSpec("P")
R = TypeVar("R")

GUIDANCE = SHORT
"""The text that explains summaries and the recall tools to a model."""
Window: TypeAlias = int | Mapping[str, int] | None
"""The context window of the model in tokens: one number, or one per model name. None for 128,000, with a warning."""
_RESERVE = 8
"""The part of the window that is kept for instructions, tool schemas and the reply, as a divisor."""
_MOST_LISTS = 64
"""Conversations whose last list is remembered."""
_MOST_RUNS = 16


class Delivered(NamedTuple):
    """The list that a framework delivered last, and the state of the conversation after it."""

    marks: list[int | None]
    """A hash of each message; None for one that has none."""
    state: tuple[int, int]
    """The id of the conversation, and its next place. Another program that stores something changes it."""


class OpenRuns(Generic[R]):
    """One value for each run that has not ended. Runs that fail never end: the oldest are dropped."""

    def __init__(self) -> None:
        self._values: dict[str, R] = {}

    def keep(self, run: str, value: R) -> None:
        """Keep the value of a run."""
        self._values[run] = value
        while len(self._values) > _MOST_RUNS:
            self._values.pop(next(iter(self._values)), None)

    def get(self, run: str) -> R | None:
        """Return the value of a run."""
        return self._values.get(run)

    def end(self, run: str) -> R | None:
        """Return the value of a run and forget it."""
        return self._values.pop(run, None)


class Memory:
    """The memory of one framework: its database, its window, and its reports."""

    def __init__(
        self,
        host: str,
        lcm: Lossless | AsyncLossless,
        *,
        package: str,
        window: Window = None,
        reserve: int | None = None,
    ) -> None:
        if not isinstance(lcm, (Lossless, AsyncLossless)):
            raise InvalidInput(
                f"{type(lcm).__name__} is not a database.", hint="Give what `Lossless.open(...)` returned."
            )
        if reserve is not None and reserve < 0:
            raise InvalidInput(f"reserve={reserve} is not a number of tokens.", hint="Give 0 or more.")
        self.host = host
        self.lcm = lcm._sync if isinstance(lcm, AsyncLossless) else lcm
        self._window, self._reserve = window, reserve
        self._version = metadata.version(package)
        self._delivered: dict[str, Delivered] = {}
        self._wait = TurnWait()

    def window(self, model: str | None) -> int | None:
        """Return the window of a model, if it is known."""
        if self._window is None or isinstance(self._window, int):
            return self._window
        return self._window.get(model or "")

    def reserve(self, model: str | None) -> int:
        """Return the tokens that are kept for everything in a request beside the conversation."""
        if self._reserve is not None:
            return self._reserve
        return self.lcm._window(self.window(model)) // _RESERVE

    def chat(self, name: str, parent: str | None = None) -> Conversation:
        """Return the conversation of a framework's own name for it."""
        above = None if parent is None else f"{self.host}:{parent}"
        return self.lcm.conversation(f"{self.host}:{name}", session=name, parent=above)

    def attempt(self, event: str, verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return what a verb returns, or None after a failure, which is reported."""
        for is_last in (False, True):
            started, store = time.perf_counter(), self.lcm._store
            try:
                with self._wait.limited():
                    done = verb(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the outermost wall: no failure of memory may break a run
                self.report(event, error, time.perf_counter() - started)
                if is_last or not isinstance(error, StoreMoved) or not self._open_again(store):
                    return None
            else:
                self.record(event, time.perf_counter() - started, delivered=done if event == "store" else 0)
                return done
        return None

    def _open_again(self, moved: Store) -> bool:
        """Use what is now at the path of a database that was deleted or replaced. Return False if that fails."""
        self._delivered.clear()
        try:
            self.lcm._open_again(moved)
        except Exception as error:  # noqa: BLE001 - the next event tries it again
            self.report("open", error)
            return False
        return True

    def record(self, event: str, seconds: float = 0.0, *, delivered: object = 0, error: str = "") -> None:
        """Record an event for `lcm hosts`."""
        host_activity.record(
            self.host,
            event,
            seconds=seconds,
            delivered=delivered if isinstance(delivered, int) else 0,
            error=error,
            database=self.lcm.location,
            version=self._version,
        )

    def report(self, event: str, error: Exception | str, seconds: float = 0.0) -> None:
        """Report a failure: as an event, which is logged by default, and for `lcm hosts`."""
        text = error if isinstance(error, str) else host_activity.error_text(error)
        facts = {"host": self.host, "event": event}
        self.lcm._on_event(Event("host.failed", f"{self.host}: {event} failed: {text}", "error", facts))
        self.record(event, seconds, error=text)

    def store(
        self,
        chat: Conversation,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        usage: Mapping[str, int] | None = None,
    ) -> int:
        """Store the new ones of some messages, then compact or schedule it; return how many were new."""
        before = HostAccess(chat).position
        done = chat.ingest(messages) if messages else None
        last = self._delivered.get(chat.key)
        if last is not None and last.state == before:
            self._remember(chat, last.marks)
        chat.after_turn((), self.window(model), model=model, usage=usage)
        return len(done.stored) if done else 0

    def store_list(
        self,
        chat: Conversation,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        whole: bool = False,
        follow: bool = False,
        usage: Mapping[str, int] | None = None,
    ) -> int:
        """Store what is new in the framework's own list, then compact or schedule it; return how many were new.

        With `whole` messages without an id are identified by their place. With `follow` what the framework dropped is withdrawn,
        and what it holds again is brought back. A list that continues the last one is read from there on.
        """
        marks = [_mark(each) for each in messages]
        known = self._known(chat, marks)
        fresh = messages[known:]
        if not all(each.event_id for each in fresh):
            known, fresh = 0, messages
        if follow and not known:
            HostAccess(chat).follow({each.event_id for each in messages if each.event_id})
        done = chat.ingest(fresh, whole=whole and not known) if fresh else None
        self._remember(chat, marks)
        chat.after_turn((), self.window(model), model=model, usage=usage)
        return len(done.stored) if done else 0

    def _known(self, chat: Conversation, marks: Sequence[int | None]) -> int:
        """Return how many messages of a list were delivered with the last one: all of that, or none."""
        last = self._delivered.get(chat.key)
        if last is None or None in last.marks or marks[: len(last.marks)] != last.marks:
            return 0
        return len(last.marks) if last.state == HostAccess(chat).position else 0

    def _remember(self, chat: Conversation, marks: list[int | None]) -> None:
        state = HostAccess(chat).position
        self._delivered.pop(chat.key, None)
        if state is not None:
            self._delivered[chat.key] = Delivered(marks, state)
        while len(self._delivered) > _MOST_LISTS:
            self._delivered.pop(next(iter(self._delivered)), None)

    def view(self, chat: Conversation, live: Sequence[Message], *, model: str | None = None) -> Context:
        """Build what a model is shown: summaries and the newest messages, and of `live` what is not stored."""
        recent = live
        with suppress(LosslessError):  # `assemble` reports a database that fails, and shows the list within the window
            recent = self._recent(chat, live)
        window, reserve = self.window(model), self.reserve(model)
        context = chat.assemble(window, reserve=reserve, live=recent, model=model)
        if len(recent) < len(live) and (context.reason or "").startswith("live"):
            # The memory did not answer: the framework's own list is shown, as much of it as fits.
            context = chat.assemble(window, reserve=reserve, live=live, model=model)
        return context

    def _recent(self, chat: Conversation, live: Sequence[Message]) -> Sequence[Message]:
        """Return the current turn, and everything that was not delivered with the list before it."""
        known = self._known(chat, [_mark(each) for each in live])
        turn = next((at for at in range(len(live) - 1, -1, -1) if live[at].role == "user"), 0)
        return live[min(known, turn) :]

    def bounded(self, live: Sequence[Message], *, model: str | None = None) -> Context | None:
        """Return the newest of some messages that fit into the window; None if all of them do."""
        space = max(1, self.lcm._window(self.window(model)) - self.reserve(model))
        if sum(map(message_tokens, live)) <= space:
            return None
        return fit_live(live, space, "not part of the stored conversation")


def _mark(message: Message) -> int | None:
    try:
        return hash(msgspec.msgpack.encode(message))
    except (TypeError, ValueError, OverflowError):  # a value that cannot be written, or half of a character
        return None


async def in_thread(verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Await a verb that runs on a worker thread: the event loop does not wait for a disk or a model."""
    from anyio import to_thread

    return await to_thread.run_sync(partial(verb, *args, **kwargs))


def is_summary(message: Message) -> bool:
    """Return whether a message of a context shows a summary."""
    return (stands_for(message) or "").startswith("sum_")


def recall(memory: Memory, chat: Conversation, name: str, arguments: Mapping[str, Any] | str) -> str:
    """Return what a recall tool answers, or that it is not available, for the model to read."""
    outcome = memory.attempt(name, tools(chat).call, name, arguments)
    return "The memory does not answer now. Say so, and go on without it." if outcome is None else outcome.text


def tool_schemas() -> list[tuple[str, str, dict[str, Any]]]:
    """Return the recall tools: name, description and JSON schema of the arguments."""
    schemas = [schema("mcp", name) for name in offered()]
    return [(each["name"], each["description"], each["inputSchema"]) for each in schemas]
