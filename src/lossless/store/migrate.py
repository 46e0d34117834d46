"""Migrate schemas forward only: numbered files, one transaction a step, a copy first.

Two processes that start together are served one after the other: the version is read again once
the database is held.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from lossless.errors import SchemaTooNew

REINDEXED = (5, 11, 14)
"""Versions that index other words: parts of names in camelCase; emoji, and what the escapes of JSON stand for; recall apart."""
DIRECTORY = Path(__file__).parent / "migrations"


class Migratable(Protocol):
    """The parts of a driver that a migration needs."""

    location: str

    def version(self) -> int: ...

    def set_version(self, version: int) -> None: ...

    def script(self, sql: str) -> None: ...

    def held(self) -> AbstractContextManager[None]:
        """Hold the database against every other writer, in one transaction."""

    def keep_copy_before(self, version: int) -> None:
        """Copy what is there, before it becomes `version`."""

    def rebuild_search(self) -> int:
        """Rebuild the search index."""


def steps(dialect: str, directory: Path = DIRECTORY) -> dict[int, Path]:
    return {int(path.name[:4]): path for path in sorted((directory / dialect).glob("[0-9]*.sql"))}


def until(dialect: str, version: int) -> dict[int, Path]:
    """Return the steps that lead to one of our versions."""
    found = steps(dialect)
    if version > max(found):
        raise SchemaTooNew(
            f"It has schema version {version}; this lossless knows versions up to {max(found)}.",
            hint="Install the newer lossless that wrote it (nothing was changed).",
        )
    return {number: path for number, path in found.items() if number <= max(1, version)}


def migrate(database: Migratable, scripts: dict[int, Path]) -> None:
    """Bring a database to the newest version, or refuse one that is newer still."""
    newest, copied = max(scripts), False
    refuse_newer(database.version(), database.location, newest)
    while database.version() < newest:
        with database.held():
            version = database.version()
            if version == newest:
                return
            if version and not copied:
                database.keep_copy_before(version + 1)
                copied = True
            # A new database has nothing to copy, and is created as a whole.
            for step in range(version + 1, (version + 1 if version else newest) + 1):
                database.script(scripts[step].read_text(encoding="utf-8"))
                database.set_version(step)
            if version + 1 in REINDEXED:
                database.rebuild_search()


def refuse_newer(version: int, location: str, newest: int) -> None:
    """Raise if a schema is newer than the newest that is known here."""
    if version > newest:
        raise SchemaTooNew(
            f"{location} has schema version {version}; this lossless knows versions up to {newest}.",
            hint="Install the newer lossless that wrote it (nothing was changed).",
        )
