"""The context engine that Hermes selects: its counters, sessions, tools, and the safety net for a list that grew too long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from lossless.hosts.hermes import requests
from lossless.hosts.hermes.history import Record
from lossless.hosts.hermes.host import SessionRows, root_session
from lossless.hosts.hermes.memory import Memory, Session
from lossless.hosts.hermes.wires import WIRES
from lossless.tools import tools
from lossless.tools.arguments import offered, schema

NAME = "lossless"
_MOST_WINDOWS = 4
"""Hermes's own list may hold so many windows while requests are rebuilt: longer ones cost time in every call."""
_GROWTH = 1.1
"""A list that could not be shortened below the limit is shortened again when it has grown by this factor."""


class Engine:
    """A context engine of Hermes. The host reads and writes its attributes."""

    name = NAME
    threshold_percent = 0.75
    protect_first_n = 3
    protect_last_n = 6

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows: SessionRows | None = None
        self._session_id = ""
        self._api_mode = ""
        self._model: str | None = None
        self._limit = 0
        self.context_length = 0
        self.threshold_tokens = 0
        self.last_prompt_tokens = 0
        self.last_real_prompt_tokens = 0
        self.last_completion_tokens = 0
        self.last_total_tokens = 0
        self.last_compression_rough_tokens = 0
        self.compression_count = 0  # stays 0: the host warns of lost detail from 2 on, and nothing is lost
        self._last_compress_aborted = False
        self._last_summary_error: str | None = None
        self._last_compression_made_progress = False

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        """Return an engine for another agent: it shares the database and nothing else."""
        copied = type(self)(self._memory)
        copied.context_length, copied.threshold_tokens = self.context_length, self.threshold_tokens
        copied._api_mode, copied._model = self._api_mode, self._model
        return copied

    # The model

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: object = "",
        provider: str = "",
        api_mode: str = "",
    ) -> None:
        """Take over the model and its window. Keys are not kept."""
        self._model, self.context_length = model or None, int(context_length or 0)
        self._api_mode = api_mode or self._api_mode
        self.threshold_tokens = int(self.context_length * self.threshold_percent)
        self._limit = 0
        self._bound()

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Take over what the provider counted."""
        if not usage:
            return
        self.last_prompt_tokens = _count(usage, "prompt_tokens")
        self.last_real_prompt_tokens = self.last_prompt_tokens
        self.last_completion_tokens = _count(usage, "completion_tokens")
        self.last_total_tokens = _count(usage, "total_tokens")
        if session := self._bound():
            session.prompt_tokens = self.last_prompt_tokens

    # Sessions

    def bind_session_state(self, session_db: SessionRows | None = None, session_id: str = "") -> None:
        """Continue with another session; the host calls it at the start, for /resume, /branch and /new."""
        self._rows = session_db
        if session_id:
            self._start(session_id)

    def on_session_start(self, session_id: str, **about: Any) -> None:
        """Start a session, or continue one under a new id after a compression."""
        if not session_id:
            return
        with self._memory.guarded("on_session_start"):
            before = str(about.get("old_session_id") or "")
            is_boundary = about.get("boundary_reason") == "compression"
            self._start(session_id, before if is_boundary and before != session_id else "")

    def on_session_end(self, session_id: str, messages: list[Record]) -> None:
        """Store what a session still holds. The database stays open: Hermes also calls this in the middle of a session."""
        with self._memory.guarded("on_session_end") as guard:
            session = self._memory.session(session_id) if messages else None
            if session is not None:
                guard.delivered += self._memory.deliver(session, messages)

    def on_session_reset(self) -> None:
        """Reset the counters. What was said stays stored under its session."""
        self.last_prompt_tokens = self.last_real_prompt_tokens = 0
        self.last_completion_tokens = self.last_total_tokens = 0
        self.last_compression_rough_tokens = self._limit = 0

    def _start(self, session_id: str, continues: str = "") -> None:
        root = session_id
        with self._memory.guarded("session"):
            root = root_session(self._rows, session_id)
        self._memory.start(session_id, root=root, continues=continues)
        self._session_id = session_id
        self._bound()

    def _bound(self) -> Session | None:
        """Return the session of this engine, with the model it uses now."""
        if not self._session_id:
            return None
        session = self._memory.start(self._session_id)
        session.window = self.context_length or session.window
        session.model, session.api_mode = self._model or session.model, self._api_mode or session.api_mode
        return session

    # The host's own list

    def _is_assembled(self) -> bool:
        """Return whether requests are rebuilt, so that the size of the host's list does not matter."""
        session = self._bound()
        return self._memory.can_rewrite and session is not None and session.is_assembled and session.api_mode in WIRES

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Return whether the host's own list must be shortened."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        limit = _MOST_WINDOWS * self.context_length if self._is_assembled() else self.threshold_tokens
        return 0 < limit <= tokens and tokens > _GROWTH * max(self._limit, self.last_compression_rough_tokens)

    def should_compress_preflight(self, messages: list[Record]) -> bool:
        return False

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Return whether the host's estimate is of no use: it counts its list, not the request that is sent."""
        return self._is_assembled() and not self.should_compress(rough_tokens)

    def has_content_to_compress(self, messages: list[Record]) -> bool:
        return len(messages) > self.protect_last_n

    def compress(
        self,
        messages: list[Record],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
    ) -> list[Record]:
        """Return a shorter list for the host: summaries, then its newest messages. Everything else stays stored."""
        session = self._bound()
        self._last_compression_made_progress = False
        if session is None:
            return messages
        with self._memory.guarded("compress"):
            shortened = requests.shorten(self._memory, session, messages, force=force)
            self._last_compression_made_progress = shortened is not messages
            if shortened is messages:
                self._limit = current_tokens or self._limit
            return shortened
        return messages

    # Tools and status

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the tools that search and read the history."""
        return [schema("openai", name)["function"] for name in offered()]

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **about: Any) -> str:
        """Call one of the tools, and return its result as JSON."""
        session = self._bound()
        with self._memory.guarded(name):
            if session is None:
                raise LookupError("no session was started")
            return tools(self._memory.chat(session)).call(name, dict(args)).text
        return json.dumps({"error": f"The memory did not answer: {self._memory.last_error}"})

    def get_status(self) -> dict[str, Any]:
        """Return the figures that Hermes shows."""
        tokens = max(0, self.last_prompt_tokens)
        session = self._bound()
        return {
            "last_prompt_tokens": tokens,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": min(100, tokens / self.context_length * 100) if self.context_length else 0,
            "compression_count": self.compression_count,
            "engine": NAME,
            "conversation": session.key if session else "",
            "requests_rebuilt": self._is_assembled(),
            "last_error": self._memory.last_error,
        }


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0
