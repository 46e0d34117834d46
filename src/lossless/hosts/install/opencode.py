"""Connect OpenCode: a plugin with the command that starts lossless, and the skill."""

from __future__ import annotations

from pathlib import Path

from lossless.hosts.install.plans import HostPlan, Place, bundle_files, command_file, skill_files


def root(place: Place) -> Path:
    """Return the directory of OpenCode's configuration."""
    named = place.environment.get("OPENCODE_CONFIG_DIR", "").strip()
    if named:
        return place.expand(named)
    return place.directory("XDG_CONFIG_HOME", ".config") / "opencode"


def plan(place: Place) -> HostPlan:
    """Return what connects OpenCode. It loads every script in the directory of plugins, but none below it."""
    base = root(place) if place.project is None else place.project / ".opencode"
    plugins = base / "plugin"
    return HostPlan(
        root=base if place.project is None else place.project,
        configs=(command_file(plugins, place),),
        copies=(*bundle_files("opencode", plugins), *skill_files(base / "skills")),
        notes=("Restart OpenCode.",),
    )
