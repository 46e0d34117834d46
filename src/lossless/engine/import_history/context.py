"""The door through which histories come in: what whoever opens it has to know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from lossless.engine.import_history.foreign_history import IntakeOf
from lossless.engine.shared.file_store import Files
from lossless.imports.base import Source
from lossless.store.base import Store


class Door(Struct, frozen=True):
    """Through which the house takes histories in."""

    store: Store
    files: Files
    intake: IntakeOf
    closed: Callable[[str], str]
    """Why nothing is written under a key, if so."""
    open: Callable[[Path], Source]
    """Another system's database, or an archive."""
    budget: int
    """How much a fork shows of what it has from before, in tokens."""
    prunes: bool
    """Whether heartbeats that are stored already lose their words."""
    trust_pins: bool = False
    """Whether what was pinned elsewhere is pinned here: a pin speaks with the operator's authority."""
