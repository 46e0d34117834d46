"""The hosts that lossless can be connected to."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from lossless.errors import NotFound
from lossless.hosts.install import claude_code, codex, hermes, openclaw, opencode, pi
from lossless.hosts.install.plans import HostPlan, Place, Scope, own_command

__all__ = ["HOSTS", "Host", "Place", "Scope", "find_program", "host_named", "this_place"]


class Host(Struct, frozen=True):
    """An agent program."""

    name: str
    title: str
    program: str
    packages: tuple[str, ...]
    """Its names on npm or PyPI, the newest first."""
    root: Callable[[Place], Path]
    plan: Callable[[Place], HostPlan]


_PI = ("@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")
HOSTS = (
    Host("openclaw", "OpenClaw", "openclaw", ("openclaw",), openclaw.root, openclaw.plan),
    Host("hermes", "Hermes", "hermes", ("hermes-agent",), hermes.root, hermes.plan),
    Host("claude-code", "Claude Code", "claude", ("@anthropic-ai/claude-code",), claude_code.root, claude_code.plan),
    Host("codex", "Codex", "codex", ("@openai/codex",), codex.root, codex.plan),
    Host("pi", "pi", "pi", _PI, pi.root, pi.plan),
    Host("opencode", "OpenCode", "opencode", ("opencode-ai",), opencode.root, opencode.plan),
)


def host_named(name: str) -> Host:
    """Return a host by its name."""
    for host in HOSTS:
        if host.name == name.lower():
            return host
    names = {host.name: host.name for host in HOSTS} | {host.program: host.name for host in HOSTS}
    names |= {host.name.replace("-", ""): host.name for host in HOSTS} | {"anthropic": "claude-code", "openai": "codex"}
    near = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.5)
    every = ", ".join(host.name for host in HOSTS)
    raise NotFound("host", name, hint=f"Did you mean {names[near[0]]}?" if near else f"There are {every}.")


def find_program(host: Host, place: Place) -> Path | None:
    """Return the program of a host."""
    if host.name == "hermes":
        return hermes.find_program(place)
    found = shutil.which(host.program, path=place.search_path)
    return Path(found) if found else None


def this_place(scope: Scope = "user") -> Place:
    """Return the place of the current user and, for the scope `project`, of the working directory."""
    return Place(
        home=Path.home(),
        project=Path.cwd() if scope == "project" else None,
        environment=os.environ,
        command=own_command(),
    )
