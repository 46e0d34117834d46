"""Use Hermes: its classes, functions and tables. Nothing of it is imported when this module is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from typing import Any, Protocol

from lossless.errors import SummarizerUnavailable
from lossless.model import SummaryRequest

HOST = "hermes"
TESTED = (0, 19)
"""The newest series of Hermes that the tests run."""


class PluginContext(Protocol):
    """The object that Hermes gives to a plugin that registers itself."""

    def register_context_engine(self, engine: Any) -> None: ...

    def register_hook(self, hook_name: str, callback: Callable[..., Any]) -> None: ...

    def register_middleware(self, kind: str, callback: Callable[..., Any]) -> None: ...


class SessionRows(Protocol):
    """Hermes's own table of sessions."""

    def get_session(self, session_id: str) -> Mapping[str, Any] | None: ...


def version() -> str:
    """Return the version of Hermes; empty if it is unknown."""
    try:
        return metadata.version("hermes-agent")
    except metadata.PackageNotFoundError:
        return ""


def is_newer(installed: str) -> bool:
    """Return whether a version belongs to a later series than the tested one."""
    numbers = [int(part) for part in installed.split(".")[:2] if part.isdigit()]
    return tuple(numbers) > TESTED


def engine_base() -> type:
    """Return the class that every context engine of Hermes extends."""
    base: type = import_module("agent.context_engine").ContextEngine
    return base


def settings() -> dict[str, Any]:
    """Return the settings under `plugins.entries.lossless.settings` in Hermes's config.yaml."""
    found: Any = import_module("hermes_cli.config").load_config() or {}
    for name in ("plugins", "entries", "lossless", "settings"):
        found = found.get(name) if isinstance(found, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def is_side_run() -> bool:
    """Return whether Hermes reviews a session in the background: it then talks to itself under the session's id."""
    try:
        origin = import_module("tools.skill_provenance").get_current_write_origin()
    except (ImportError, AttributeError):
        return False
    return bool(origin == "background_review")


def summarize(request: SummaryRequest) -> object:
    """Ask the model that Hermes uses for its own summaries, with Hermes's credentials."""
    call = import_module("agent.auxiliary_client").call_llm
    messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]
    try:
        reply: object = call(
            task="compression",
            messages=messages,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            timeout=request.within(120.0),
        )
    except RuntimeError as error:  # no provider is configured
        raise SummarizerUnavailable(str(error)) from error
    return reply


def root_session(rows: SessionRows | None, session_id: str) -> str:
    """Return the first session of a chain that compression continued under new ids."""
    seen = {session_id}
    while rows is not None and len(seen) < 1_000:
        row = rows.get_session(session_id) or {}
        parent = str(row.get("parent_session_id") or "")
        if not parent or parent in seen:
            break
        if (rows.get_session(parent) or {}).get("end_reason") != "compression":
            break
        seen.add(parent)
        session_id = parent
    return session_id
