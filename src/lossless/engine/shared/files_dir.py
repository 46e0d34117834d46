"""Decide which directory holds the payloads of a database, and whether any other database uses it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lossless import config
from lossless.config import Settings
from lossless.engine.shared.file_store import Files
from lossless.store.store import Store

SHARED = ".shared"
"""A file of this name says of a directory that several databases keep payloads there."""


def is_its_own(store: Store, files: Files) -> bool:
    """Whether no other database puts anything into the directory: it is named after this one, and after no other."""
    root = files.root.absolute()
    if not files.scratch and root != _named_after(store):
        return False
    return not (root.is_symlink() or (root / SHARED).exists() or store.housekeeping.namesakes())


def files_dir(store: Store, settings: Settings) -> Path:
    """Where a database keeps its payloads: as set, else in a directory named after it."""
    usual, own = settings.files_dir.absolute(), _named_after(store)
    if settings.large_files_dir or own is None or config.is_file(store.location):
        return usual
    if own.exists() or not usual.exists() or not store.tables.count("file"):
        return own
    # All servers' databases had one directory once, and what was put there must stay readable.
    if not store.read_only:
        with suppress(OSError):
            (usual / SHARED).touch(0o600)
    return usual


def _named_after(store: Store) -> Path | None:
    if config.is_file(store.location):
        path = Path(store.location)
        return path.with_name(f"{path.stem}-files")
    place = store.place()
    return None if place is None else place.with_name(f"{place.name}-files")


def beside(store: Store, files: Files) -> Path | None:
    """How the names begin of what is put beside a database; None for one in memory."""
    place = store.place()
    return place if place is None or config.is_file(store.location) else files.root.parent / place.name
