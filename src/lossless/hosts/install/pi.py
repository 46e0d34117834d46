"""Connect the pi coding agent: an extension with the command that starts lossless, and the skill."""

from __future__ import annotations

from pathlib import Path

from lossless.hosts.install.plans import HostPlan, Place, bundle_files, command_file, skill_files


def root(place: Place) -> Path:
    """Return the directory of pi's configuration."""
    return place.directory("PI_CODING_AGENT_DIR", ".pi/agent")


def plan(place: Place) -> HostPlan:
    """Return what connects pi."""
    base = root(place) if place.project is None else place.project / ".pi"
    extension = base / "extensions" / "lossless"
    return HostPlan(
        root=base if place.project is None else place.project,
        configs=(command_file(extension, place),),
        copies=(*bundle_files("pi", extension), *skill_files(base / "skills")),
        notes=("Restart pi, or type /reload.",),
    )
