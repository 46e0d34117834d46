"""Refuse to write results over a database or a backup, or into a payload directory.

A file that may be an open database is not opened to find out: on POSIX, closing a second handle drops SQLite's locks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from msgspec import MsgspecError, Struct, json

from lossless.config import is_file
from lossless.errors import InvalidInput
from lossless.store.header import LOGS, is_database

_KEPT = re.compile(r".+\.(?:(?:cleaned|pruned)-\d{8}-\d{6}\.zip|before-[\w.-]+|(?:backup|replaced)-\d{8}T\d{6}Z.*)")
"""Names of archives of removed conversations, copies and backups beside a database."""
_PAYLOAD = "[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 64
_NEAR = 3
"""Number of levels searched upwards for a payload directory: files are two levels below it."""
_MOST_MANIFEST = 64 << 20


class _ManifestHead(Struct):
    """The manifest of a zip file, reduced to its format."""

    format: str = ""


def refuse_ours(path: Path, *, database: str = "", files: Path | None = None) -> None:
    """Raise `InvalidInput` if writing to a path would destroy a database, a backup or a payload.

    Links and relative paths are followed first. `database` is the one in use, `files` its directory of payloads.
    """
    target = Path(os.path.realpath(path))
    if reason := _directory(target, files) or _file(target, database):
        raise InvalidInput(f"{path} {reason}.", hint="Nothing was written. Name another file.")


def _directory(target: Path, files: Path | None) -> str:
    root = None if files is None else Path(os.path.realpath(files))
    for each in (target, *target.parents):
        if each == root:
            return f"is in {each}, where the database keeps its payloads"
    for each in (target, *target.parents)[:_NEAR]:
        if next(each.glob(_PAYLOAD), None):
            return f"is in {each}, where a database keeps its payloads"
    return ""


def _file(target: Path, database: str) -> str:
    if is_file(database) and database != ":memory:":
        own = os.path.realpath(database)
        for name in (own, *(own + suffix for suffix in LOGS)):
            if str(target) == name or _is_same(target, name):
                return "is the database in use, or a part of it"
    # A log left beside a database would be taken for its own.
    if any(str(target).endswith(suffix) and os.path.exists(str(target)[: -len(suffix)]) for suffix in LOGS):
        return "is a log or journal of a database by its name"
    if not os.path.lexists(target):
        return ""
    if _KEPT.fullmatch(target.name):
        return "is a copy, a backup or an archive that was kept beside a database"
    if target.is_file():
        return _content(target)
    return ""


def _is_same(target: Path, name: str) -> bool:
    try:
        return os.path.samefile(target, name)
    except OSError:
        return False


def _content(target: Path) -> str:
    if any(os.path.exists(f"{target}{suffix}") for suffix in LOGS) or is_database(target):
        return "is a database"
    try:
        with ZipFile(target) as packed:
            manifest = packed.getinfo("manifest.json")
            if (
                manifest.file_size <= _MOST_MANIFEST
                and json.decode(packed.read(manifest), type=_ManifestHead).format == "lossless-backup"
            ):
                return "is a backup"
    except (OSError, BadZipFile, LookupError, MsgspecError, ValueError, RuntimeError, NotImplementedError):
        return ""  # neither a database nor a zip of ours
    return ""
