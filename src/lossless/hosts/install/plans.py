"""The plan of an installation: entries in configuration files, copied files, programs to run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from lossless.errors import LosslessError
from lossless.hosts import bundled
from lossless.hosts.install.entries import Entry, Grammar, Put

Scope: TypeAlias = Literal["user", "project"]
_SKIPPED = ("__pycache__", "node_modules", ".DS_Store")


class Place(Struct, frozen=True, kw_only=True):
    """Everything that decides where a host is configured."""

    home: Path
    project: Path | None
    """The directory of the project; None for the configuration of the user."""
    environment: Mapping[str, str]
    command: tuple[str, ...]
    """The command line that starts lossless, without activation of an environment."""

    def directory(self, variable: str, default: str) -> Path:
        """Return the directory that a variable names, else the default below the home directory."""
        named = self.environment.get(variable, "").strip()
        return Path(os.path.abspath(self.expand(named))) if named else self.home / default

    def expand(self, path: str) -> Path:
        """Return a path with `~` resolved to the home directory."""
        return self.home / path[2:] if path.startswith("~/") else Path(path)

    @property
    def search_path(self) -> str:
        """The directories in which programs are searched."""
        return self.environment.get("PATH", "")

    def shell_command(self, *words: str) -> str:
        """Return a command line of lossless for a shell."""
        command = [*self.command, *words]
        return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)


class ConfigFile(Struct, frozen=True):
    """A configuration file of the host, and the entries that it gets."""

    path: Path
    grammar: Grammar
    entries: tuple[Entry, ...]


class CopiedFile(Struct, frozen=True):
    """A file that belongs to lossless alone."""

    path: Path
    content: bytes


class Program(Struct, frozen=True):
    """A program to run, and the one that reverts it."""

    arguments: tuple[str, ...]
    undo: tuple[str, ...]


class HostPlan(Struct, frozen=True, kw_only=True):
    """Everything that connects a host."""

    root: Path
    """The directory of the host's configuration, or of the project."""
    configs: tuple[ConfigFile, ...] = ()
    copies: tuple[CopiedFile, ...] = ()
    programs: tuple[Program, ...] = ()
    permissions: tuple[str, ...] = ()
    """Sentences about what the host will do without asking the user."""
    notes: tuple[str, ...] = ()
    """Sentences about what is left to the user."""
    warnings: tuple[str, ...] = ()
    """Sentences about what prevents the connection from working."""

    @property
    def files(self) -> list[CopiedFile | ConfigFile]:
        """All files, in the order in which they are written: a plugin exists before it is configured."""
        return [*self.copies, *self.configs]


def own_command() -> tuple[str, ...]:
    """Return the command line that starts this installation of lossless.

    `-P` keeps modules in the working directory, which is the user's project, from being loaded.
    """
    return (sys.executable, "-P", "-m", "lossless")


def bundle_files(name: bundled.Bundle, target: Path) -> tuple[CopiedFile, ...]:
    """Return the files of a bundle as copies below a directory."""
    source = bundled.path(name)
    paths = [path for path in sorted(source.rglob("*")) if path.is_file()]
    kept = [path for path in paths if not any(part in _SKIPPED for part in path.relative_to(source).parts)]
    return tuple(CopiedFile(target / path.relative_to(source), path.read_bytes()) for path in kept)


def skill_files(skills: Path) -> tuple[CopiedFile, ...]:
    """Return the files of the skill below a host's directory of skills."""
    return bundle_files("skill", skills / "lossless")


def command_file(folder: Path, place: Place) -> ConfigFile:
    """Return the file beside a plugin that says how lossless is started; settings of the user may be there, too."""
    return ConfigFile(folder / "lossless.json", "json", (Put(("command",), list(place.command), named=True),))


def user_only(place: Place, title: str) -> None:
    """Refuse the scope of a project for a host that has one configuration per user."""
    if place.project is not None:
        raise LosslessError(f"{title} is configured per user, not per project.", hint="Use --scope user.")
