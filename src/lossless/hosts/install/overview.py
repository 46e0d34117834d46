"""Show which hosts are on this machine, which are connected, and what they delivered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from lossless.engine.shared import host_activity
from lossless.engine.shared.host_activity import HostActivity
from lossless.errors import InstallRefused, LosslessError
from lossless.hosts.install import entries, files, hermes, records
from lossless.hosts.install.hosts import HOSTS, Host, find_program
from lossless.hosts.install.plans import HostPlan, Place
from lossless.hosts.install.records import Record

Connection: TypeAlias = Literal["connected", "by hand", "outdated", "broken", "not connected", "in code"]
_VERSION = re.compile(r"(?<![\d.])(\d+\.\d+\.\d+(?:[-.]\w+)?)(?![\d.])")


class HostState(Struct, frozen=True, kw_only=True):
    """A host: where it is, if it is connected, and its newest activity."""

    name: str
    title: str
    found: bool
    program: str
    """The path of its program, empty if it was not found."""
    version: str
    directory: str
    """The directory of its configuration, empty if it is missing."""
    connection: Connection
    problems: tuple[str, ...]
    """What keeps the connection from working, and what solves it."""
    projects: tuple[str, ...]
    """The projects for which it was connected."""
    installed_at: float
    """Seconds since 1970, 0 if it is not connected by `lcm install`."""
    activity: HostActivity | None


def overview(place: Place) -> list[HostState]:
    """Return the state of every host, then of other programs that delivered. Nothing is run or changed."""
    activity = {each.host: each for each in host_activity.read_all()}
    every = records.load_all()
    hosts = [_state(host, place, [each for each in every if each.host == host.name], activity) for host in HOSTS]
    known = {host.name for host in HOSTS}
    return [*hosts, *(_program(each) for name, each in sorted(activity.items()) if name not in known)]


def _state(host: Host, place: Place, known: list[Record], activity: dict[str, HostActivity]) -> HostState:
    root, program = host.root(place), find_program(host, place)
    recent = activity.get(host.name)
    connection, problems = _connection(host, place, known)
    users = [each for each in known if each.scope == "user" and each.root == str(root)]
    return HostState(
        name=host.name,
        title=host.title,
        found=program is not None or root.is_dir(),
        program=str(program or ""),
        version=(find_version(host, program) if program else "") or (recent.version if recent else ""),
        directory=str(root) if root.is_dir() else "",
        connection=connection,
        problems=tuple(problems),
        projects=tuple(each.root for each in known if each.scope == "project"),
        installed_at=min((each.at for each in users or known), default=0.0),
        activity=recent,
    )


def _program(activity: HostActivity) -> HostState:
    """Return the state of a program that uses lossless itself: an agent of a framework, a plugin over the bridge."""
    return HostState(
        name=activity.host,
        title=activity.host,
        found=True,
        program="",
        version=activity.version,
        directory="",
        connection="in code",
        problems=(),
        projects=(),
        installed_at=0.0,
        activity=activity,
    )


def find_version(host: Host, program: Path) -> str:
    """Return the version of a program without running it: from its package, else from its path."""
    real = program.resolve()
    if host.name == "hermes":
        return hermes.installed_version(real.parent / "python", host.packages[0]) or ""
    for folder in real.parents:
        about = _package(folder / "package.json")
        if about.get("name", "").startswith(host.packages):
            return about.get("version", "")
    found = _VERSION.findall(str(real))
    return found[-1] if found else ""


def _package(path: Path) -> dict[str, str]:
    try:
        about = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: each for key, each in about.items() if isinstance(each, str)} if isinstance(about, dict) else {}


def _connection(host: Host, place: Place, known: list[Record]) -> tuple[Connection, list[str]]:
    if not known:
        return ("by hand" if _is_by_hand(host, place) else "not connected"), []
    problems = [problem for record in known for problem in _problems(record)]
    if problems:
        return "broken", problems
    if _is_outdated(host, place, known):
        again = f"`lcm install {host.name} --apply` updates them."
        return "outdated", [f"Its files are those of lossless {known[0].version}. {again}"]
    return "connected", []


def _is_outdated(host: Host, place: Place, known: list[Record]) -> bool:
    """Return whether copied files are still as we wrote them, but not those of this version."""
    try:
        plan = host.plan(place)
    except LosslessError:
        return False
    digests = {each.path: each.digest for record in known for each in record.files if each.grammar is None}
    current = {str(copy.path): records.digest(copy.content) for copy in plan.copies}
    return any(path in digests and digests[path] != digest for path, digest in current.items())


def _is_by_hand(host: Host, place: Place) -> bool:
    """Return whether the configuration contains our entries."""
    try:
        plan = host.plan(place)
    except LosslessError:
        return False
    return any(_has_entries(plan))


def _has_entries(plan: HostPlan) -> list[bool]:
    found = list[bool]()
    for config in plan.configs:
        text = _read(config.path)
        wanted = [each for each in config.entries if isinstance(each, entries.Put | entries.Hook)]
        if text is not None and wanted:
            try:
                found.append(any(entries.is_present(config.grammar, text, each) for each in wanted))
            except ValueError:
                found.append(False)
    return found


def _problems(record: Record) -> list[str]:
    """Return what of an installation is no longer there."""
    again = f"`lcm install {record.host} --apply` writes it again."
    if record.scope == "project":
        again = f"`lcm install {record.host} --scope project --apply` in {record.root} writes it again."
    found = list[str]()
    if not Path(record.interpreter).exists():
        found.append(f"{record.interpreter} is missing: the environment of lossless was moved or deleted. {again}")
    for written in record.files:
        path = Path(written.path)
        text = _read(path)
        if text is None:
            found.append(f"{path} is missing. {again}")
        elif written.grammar is not None:
            gone = entries.missing(written.grammar, text, written.entries)
            found += [f"{path} no longer contains {entries.describe(gone[0])}. {again}"] if gone else []
    return found


def _read(path: Path) -> str | None:
    try:
        found = files.read(path)
    except InstallRefused:
        return None
    return None if found is None else found.decode("utf-8", errors="replace")
