"""Choose the directory that holds the payloads of a database."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lossless import config
from lossless.config import Settings
from lossless.engine.shared.file_store import Files
from lossless.store.store import Store

SHARED = ".shared"
"""A file of this name marks a directory that several databases share."""


def is_exclusive(store: Store, files: Files) -> bool:
    """Return whether no other database uses the directory: it is named after this one, and no other."""
    root = files.root.absolute()
    if not files.scratch and root != _named_after(store):
        return False
    return not (root.is_symlink() or (root / SHARED).exists() or store.namesakes())


def files_dir(store: Store, settings: Settings) -> Path:
    """Return the directory of a database's payloads: as set, else one named after it."""
    usual, own = settings.files_dir.absolute(), _named_after(store)
    if settings.large_files_dir or own is None or config.is_file(store.location):
        return usual
    if own.exists() or not usual.exists() or not store.tables.count("file"):
        return own
    # Earlier versions used one directory for all server databases; its payloads must stay readable.
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


def sibling_base(store: Store, files: Files) -> Path | None:
    """Return the path that names of files beside a database start with; None for one in memory."""
    place = store.place()
    return place if place is None or config.is_file(store.location) else files.root.parent / place.name
