"""Memory for Hermes Agent: its context engine, turn hooks and request middleware.

Hermes finds this package through the entry point `lossless` of the group `hermes_agent.plugins`, once its config.yaml enables the
plugin and selects the engine:

    plugins: {enabled: [lossless]}
    context: {engine: lossless}

Every message is stored as soon as it is answered. Each request gets a bounded context in place of the old part of Hermes's list;
the list itself stays as it is.
"""

from __future__ import annotations

from typing import Any

from lossless.hosts.hermes import host, requests
from lossless.hosts.hermes.engine import Engine
from lossless.hosts.hermes.host import PluginContext
from lossless.hosts.hermes.memory import Memory

__all__ = ["Engine", "Hooks", "Memory", "register"]


def register(context: PluginContext) -> None:
    """Register the engine, the hooks and the middleware with Hermes."""
    memory = Memory(
        settings=host.settings,
        summarize=host.summarize,
        version=host.version(),
        can_rewrite=hasattr(context, "register_middleware"),
    )
    memory.say_version()
    engine = type("LosslessEngine", (Engine, host.engine_base()), {})
    context.register_context_engine(engine(memory))
    hooks = Hooks(memory)
    for name in ("pre_llm_call", "pre_api_request", "post_llm_call", "subagent_start"):
        context.register_hook(name, getattr(hooks, name))
    if memory.can_rewrite:
        context.register_middleware("llm_request", hooks.llm_request)
    else:
        memory.say(
            "no middleware", "this Hermes has no request middleware: its own list is shortened at its threshold."
        )


class Hooks:
    """The callbacks of a turn, for every agent of the process."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def pre_llm_call(self, *, session_id: str = "", conversation_history: Any = (), **_: Any) -> None:
        """Store what an earlier turn or another program left, before the first request."""
        self._deliver("pre_llm_call", session_id, conversation_history, is_final=False)

    def pre_api_request(self, *, session_id: str = "", conversation_history: Any = (), **_: Any) -> None:
        """Store the rounds of a turn as they end."""
        self._deliver("pre_api_request", session_id, conversation_history, is_final=False)

    def post_llm_call(self, *, session_id: str = "", conversation_history: Any = (), **_: Any) -> None:
        """Store the end of a turn, and have old runs summarised."""
        session = self._deliver("post_llm_call", session_id, conversation_history, is_final=True)
        if session is not None:
            with self._memory.guarded("end_turn"):
                self._memory.end_turn(session)

    def llm_request(
        self, *, request: Any = None, session_id: str = "", api_mode: str = "", model: str = "", **_: Any
    ) -> dict[str, Any] | None:
        """Return the request with a bounded context; None to leave it as it is."""
        session = self._memory.session(session_id)
        if session is None or not isinstance(request, dict):
            return None
        session.model = model or session.model
        with self._memory.guarded("llm_request"):
            changed = requests.rewrite(self._memory, session, api_mode, request)
            return None if changed is None else {"request": changed, "source": "lossless"}
        return None

    def subagent_start(self, *, parent_session_id: str = "", child_session_id: str = "", **_: Any) -> None:
        """Remember whose sub-agent a session is."""
        self._memory.adopt(parent_session_id or "", child_session_id or "")

    def _deliver(self, event: str, session_id: str, history: Any, *, is_final: bool) -> Any:
        if host.is_side_run():
            return None
        session = self._memory.session(session_id)
        with self._memory.guarded(event) as guard:
            if session is not None:
                guard.delivered += self._memory.deliver(session, history, is_final=is_final)
        return session
