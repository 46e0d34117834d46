"""Connect Codex: hooks, the MCP server `lcm`, and the skill."""

from __future__ import annotations

from pathlib import Path

from lossless.hosts.install.entries import Hook, Put
from lossless.hosts.install.plans import ConfigFile, HostPlan, Place, skill_files

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd")
TIMEOUT = 20
_FORWARDED = ("LCM_CONFIG", "LCM_DATABASE_PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""Variables that decide which database is used; Codex starts servers without them."""


def root(place: Place) -> Path:
    """Return the directory of Codex's configuration."""
    return place.directory("CODEX_HOME", ".codex")


def plan(place: Place) -> HostPlan:
    """Return what connects Codex.

    The server is not `required`: Codex would not start at all once the environment of lossless is deleted.
    """
    base = root(place) if place.project is None else place.project / ".codex"
    command, *arguments = (*place.command, "mcp")
    server = {
        "command": command,
        "args": arguments,
        "env_vars": list(_FORWARDED),
        "startup_timeout_sec": 20,
        "default_tools_approval_mode": "approve",  # the server only reads, and the user is informed
    }
    hook = place.shell_command("hook", "codex")
    notes = [
        "Codex runs new hooks only after you trusted them: start `codex`, type /hooks, and trust those of lossless."
    ]
    if place.project is not None:
        notes.append("Codex reads the files of a project only if you trust the project.")
    return HostPlan(
        root=base if place.project is None else place.project,
        configs=(
            ConfigFile(base / "hooks.json", "json", tuple(Hook(event, hook, "codex", TIMEOUT) for event in EVENTS)),
            ConfigFile(base / "config.toml", "toml", (Put(("mcp_servers", "lcm"), server, named=True),)),
        ),
        copies=skill_files(base / "skills"),
        permissions=(
            'Permission: the mode "approve" lets Codex use the tools of lossless without asking you. '
            "They read every stored conversation, and change nothing.",
        ),
        notes=tuple(notes),
    )
