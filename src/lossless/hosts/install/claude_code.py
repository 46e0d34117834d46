"""Connect Claude Code: hooks in its settings, the MCP server `lcm`, and the skill."""

from __future__ import annotations

from pathlib import Path

from lossless.hosts.install.entries import Append, Entry, Hook, Put
from lossless.hosts.install.plans import ConfigFile, HostPlan, Place, skill_files

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd")
TIMEOUT = 20
"""Seconds after which Claude Code ends a hook; ours gives up by itself long before."""


def root(place: Place) -> Path:
    """Return the directory of Claude Code's settings."""
    return place.directory("CLAUDE_CONFIG_DIR", ".claude")


def plan(place: Place) -> HostPlan:
    """Return what connects Claude Code.

    The entries contain paths of this machine. So a project gets them in its local settings, which are not shared.
    """
    settings, base = root(place), place.project or root(place)
    named = place.environment.get("CLAUDE_CONFIG_DIR", "").strip()
    state = (settings if named else place.home) / ".claude.json"
    server: tuple[str, ...] = ("mcpServers", "lcm")
    hooks_file, skills = settings / "settings.json", settings / "skills"
    if place.project is not None:
        server = ("projects", str(place.project), *server)
        hooks_file = place.project / ".claude" / "settings.local.json"
        skills = place.project / ".claude" / "skills"
    command, *arguments = (*place.command, "mcp")
    hook = place.shell_command("hook", "claude-code")
    hooks: list[Entry] = [Hook(event, hook, "claude-code", TIMEOUT) for event in EVENTS]
    return HostPlan(
        root=base,
        configs=(
            ConfigFile(hooks_file, "json", (*hooks, Append(("permissions", "allow"), "mcp__lcm"))),
            ConfigFile(
                state,
                "json",
                (Put(server, {"type": "stdio", "command": command, "args": arguments, "env": {}}, named=True),),
            ),
        ),
        copies=skill_files(skills),
        permissions=(
            'Permission: "mcp__lcm" lets Claude Code use the tools of lossless without asking you. '
            "They read every stored conversation, and change nothing.",
        ),
        notes=("Restart Claude Code: a running session keeps its old hooks, and may overwrite .claude.json.",),
    )
