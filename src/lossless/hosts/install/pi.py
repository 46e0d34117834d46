"""Connect the pi coding agent: an extension with the command that starts lossless, and the skill."""

from __future__ import annotations

import json
from pathlib import Path

from lossless.hosts.install.plans import CopiedFile, HostPlan, Place, bundle_files, skill_files


def root(place: Place) -> Path:
    """Return the directory of pi's configuration."""
    return place.directory("PI_CODING_AGENT_DIR", ".pi/agent")


def plan(place: Place) -> HostPlan:
    """Return what connects pi."""
    base = root(place) if place.project is None else place.project / ".pi"
    extension = base / "extensions" / "lossless"
    return HostPlan(
        root=base if place.project is None else place.project,
        copies=(
            *bundle_files("pi", extension),
            CopiedFile(extension / "lossless.json", settings_file(place)),
            *skill_files(base / "skills"),
        ),
        notes=("Restart pi, or type /reload.",),
    )


def settings_file(place: Place) -> bytes:
    """Return the file beside a plugin that says how lossless is started."""
    return (json.dumps({"command": list(place.command)}, indent=2) + "\n").encode()
