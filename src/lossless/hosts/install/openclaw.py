"""Connect OpenClaw: the plugin in its configuration, selected as the context engine. The skill is in the plugin."""

from __future__ import annotations

from pathlib import Path

from lossless.errors import InstallRefused
from lossless.hosts import bundled
from lossless.hosts.install import files, json_text
from lossless.hosts.install.entries import Append, Put
from lossless.hosts.install.plans import ConfigFile, HostPlan, Place, user_only

ID = "lossless"


def root(place: Place) -> Path:
    """Return the directory of OpenClaw's configuration."""
    return config_path(place).parent


def config_path(place: Place) -> Path:
    """Return OpenClaw's configuration file."""
    named = place.environment.get("OPENCLAW_CONFIG_PATH", "").strip()
    if named:
        return place.expand(named)
    home = place.environment.get("OPENCLAW_HOME", "").strip()
    default = (place.expand(home) if home else place.home) / ".openclaw"
    return place.directory("OPENCLAW_STATE_DIR", str(default)) / "openclaw.json"


def plan(place: Place) -> HostPlan:
    """Return what connects OpenClaw. The plugin is loaded from this installation, so it is updated with it."""
    user_only(place, "OpenClaw")
    plugin = str(bundled.path("openclaw"))
    path = config_path(place)
    entries = (
        Append(("plugins", "load", "paths"), plugin),
        Append(("plugins", "allow"), ID, only_if_used=True),
        Put(("plugins", "slots", "contextEngine"), ID),
        Put(("plugins", "entries", ID), {"enabled": True, "config": {"command": list(place.command)}}, named=True),
    )
    return HostPlan(
        root=path.parent,
        configs=(ConfigFile(path, "json", entries),),
        notes=("Restart the gateway: `openclaw gateway restart`.",),
        warnings=_warnings(path),
    )


def _warnings(path: Path) -> tuple[str, ...]:
    """Return what in the configuration keeps the plugin from being loaded."""
    try:
        text = (files.read(path) or b"").decode()
        is_off = json_text.find(text, ("plugins", "enabled"))
        denied = json_text.find(text, ("plugins", "deny"))
    except (InstallRefused, ValueError):
        return ()
    found = list[str]()
    if is_off is not None and is_off.value is False:
        found.append("plugins.enabled is false: OpenClaw loads no plugin until you remove it.")
    if denied is not None and denied.kind == "array" and ID in denied.plain():
        found.append(f"plugins.deny contains {ID}: OpenClaw does not load the plugin until you remove it.")
    return tuple(found)
