"""Connect a program to lossless as its page says, and read what was stored and sent."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from lossless import Conversation
from tests.hosts.connecting import install
from tests.provider import Call, Play, Provider

SETTINGS = {"fresh_tail_count": 8, "leaf_chunk_tokens": 3000, "condensed_target_tokens": 900, "leaf_target_tokens": 600}
OURS = '<summary id="sum_'
PATIENCE = 60.0


class AgentProvider(Provider):
    """A stand-in that keeps the requests of an agent apart from those for summaries and titles, which offer no tools."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[Call] = []
        self.aside: list[Call] = []

    def take(self, call: Call) -> Play:
        if call.body.get("tools"):
            self.turns.append(call)
            return super().take(call)
        self.aside.append(call)
        return Play("They talked about the ferry.\nExpand for details about: the turns")


def connect(
    host: Literal["pi", "opencode"],
    home: Path,
    directory: Path,
    settings: dict[str, Any],
    *,
    command: list[str] | None = None,
) -> None:
    """Connect a program as its user does, and change the settings that were written beside the plugin."""
    install(host, {"PATH": os.environ["PATH"], "HOME": str(home)})
    path = directory / "lossless.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({**written, "settings": settings, **({"command": command} if command else {})}))


def bridges(parent: int) -> list[int]:
    """Return the ids of the bridges below a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            ancestor = int(path.parent.name)
            while b"bridge" in words and ancestor not in (0, parent):
                ancestor = int((Path("/proc") / str(ancestor) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if b"bridge" in words and ancestor == parent:
            found.append(int(path.parent.name))
    return found


def kill_bridge(parent: int) -> int:
    """Kill the bridge of a program, and return its id."""
    (bridge,) = bridges(parent)
    os.kill(bridge, signal.SIGKILL)
    wait_until(lambda: bridge not in bridges(parent))
    return bridge


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def texts(call: Call) -> list[str]:
    """Return the texts of a request's messages, less the system prompt."""
    return [_text(message) for message in call.body["messages"] if message["role"] != "system"]


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    words = content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
    return words + "".join(use["function"]["arguments"] for use in message.get("tool_calls", ()))


def said(chat: Conversation) -> list[tuple[str, str]]:
    """Return who said what, in order, less the system prompt."""
    return [(stored.role, stored.text) for stored in chat.messages() if stored.role != "system"]
