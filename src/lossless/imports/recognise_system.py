"""Recognise which system wrote a database or an archive, and open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import is_zipfile

from lossless.errors import InvalidInput, NotOurDatabase, StoreCorrupt
from lossless.imports.base import Source

if TYPE_CHECKING:
    from lossless.store.sqlite.foreign import Foreign

_OURS = 0x4C434D31
_PATIENCE_MS = 10_000


def recognise(path: str | Path, *, files_dir: str | Path | None = None, patience_ms: int = _PATIENCE_MS) -> Source:
    """Open a database of a known system, or an archive, for reading.

    A file that is neither, is ours, or is of an unknown version raises an error that says so. `files_dir` is where the large files
    of the database are, if not beside it.
    """
    from lossless.imports.archive import Archive
    from lossless.store.header import is_database
    from lossless.store.sqlite.foreign import Foreign

    try:
        foreign = Foreign(path, patience_ms=patience_ms)
    except StoreCorrupt:
        if is_database(path) or not is_zipfile(path):
            raise
        return Archive(path)
    try:
        return _known(foreign, None if files_dir is None else Path(files_dir))
    except BaseException:
        foreign.close()
        raise


def _known(foreign: Foreign, files_dir: Path | None) -> Source:
    from lossless.imports import hermes_lcm, lossless_claw

    if foreign.application_id == _OURS:
        raise InvalidInput(
            f"{foreign.path} is already a database of lossless.",
            hint="`lcm migrate` moves it, `lcm export` makes an archive of it.",
        )
    names = frozenset(foreign.tables())
    if len(names & lossless_claw.OWN_TABLES) > 1:
        return lossless_claw.LosslessClaw(foreign, files_dir)
    if names & hermes_lcm.OWN_TABLES:
        return hermes_lcm.HermesLcm(foreign)
    listed = ", ".join(sorted(names)[:8]) or "none"
    raise NotOurDatabase(
        f"{foreign.path} is not a database of a known system (its tables: {listed}).",
        hint="Databases of lossless-claw, hermes-lcm and lcm-x can be imported, and archives of lossless.",
    )
