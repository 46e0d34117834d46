"""The common part of the adapters for Python frameworks: store messages, build requests, report failures.

A framework keeps its own history. These functions copy it into a conversation, and build the list that its model is shown
instead. A failure here never reaches a run: it is logged, recorded for `lcm hosts`, and the framework's own list is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import metadata
from typing import Any, ParamSpec, TypeAlias, TypeVar

from lossless.aio import AsyncLossless
from lossless.client import Conversation, Lossless
from lossless.client.host_access import HostAccess
from lossless.engine.context.guidance import SHORT
from lossless.engine.context.live_messages import fit_live
from lossless.engine.context.summary_xml import stands_for
from lossless.engine.shared import host_activity
from lossless.errors import InvalidInput
from lossless.events import Event
from lossless.model import Context, Message
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
        started = time.perf_counter()
        try:
            done = verb(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the outermost wall: no failure of memory may break a run
            self.report(event, error, time.perf_counter() - started)
            return None
        self.record(event, time.perf_counter() - started, delivered=done if event == "store" else 0)
        return done

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
        whole: bool = False,
        usage: Mapping[str, int] | None = None,
    ) -> int:
        """Store the new ones of some messages, then compact or schedule it; return how many were new."""
        done = chat.ingest(messages, whole=whole) if messages else None
        chat.after_turn((), self.window(model), model=model, usage=usage)
        return len(done.stored) if done else 0

    def follow(self, chat: Conversation, held: Collection[str]) -> None:
        """Withdraw what the framework dropped from its list, and bring back what it holds again."""
        HostAccess(chat).follow(held)

    def view(self, chat: Conversation, live: Sequence[Message], *, model: str | None = None) -> Context:
        """Build what a model is shown: summaries and the newest messages, and of `live` what is not stored."""
        return chat.assemble(self.window(model), reserve=self.reserve(model), live=live, model=model)

    def bounded(self, live: Sequence[Message], *, model: str | None = None) -> Context | None:
        """Return the newest of some messages that fit into the window; None if all of them do."""
        space = max(1, self.lcm._window(self.window(model)) - self.reserve(model))
        if sum(map(message_tokens, live)) <= space:
            return None
        return fit_live(live, space, "not part of the stored conversation")


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
