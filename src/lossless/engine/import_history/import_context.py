"""Everything an import needs: the runtime, and how to open sources and conversations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from lossless.engine.import_history.foreign_history import IntakeOf
from lossless.engine.shared.runtime import Runtime
from lossless.imports.base import Source


class ImportContext(Struct, frozen=True):
    """The runtime of an import, and the functions that open its sources and conversations."""

    runtime: Runtime
    intake: IntakeOf
    refusal: Callable[[str], str]
    """Returns why nothing may be stored under a key, or "" if it may."""
    open: Callable[[Path], Source]
    """Opens a database of another system, or an archive."""
    trust_pins: bool = False
    """Import pins too: a pin speaks with the operator's authority."""
