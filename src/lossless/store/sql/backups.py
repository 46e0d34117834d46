"""Backups beside a database, and the random mark that all its copies share."""

from __future__ import annotations

import glob
import os
import re
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from lossless.errors import InvalidInput
from lossless.store import jsontext
from lossless.store.sql.section import Section

ELSEWHERE = "Backups and exports that were put elsewhere are not known here, and may still hold it."

_MARK = "SELECT state FROM guard WHERE name = 'database'"

_TIME = r"\d{8}T\d{6}Z"

_NAME = re.compile(
    rf"(?:(?:backup-{_TIME}|[a-z0-9][a-z0-9-]*-latest)(?:\.\d+-[0-9a-f]{{8}}\.part)?"
    rf"|replaced-{_TIME}(?:-files|\.db(?:-wal|-shm|-journal)?)"
    r"|\d+-[0-9a-f]{8}\.part)"
)
"""What follows the name of the database: backups, whole or half written, what was replaced, and what a restore unpacked."""


class Backups(Section):
    """Backups beside a database, and the mark that all its copies share."""

    def paths(self) -> list[str]:
        """Return the backups beside it under our names, and what a restore has moved aside there."""
        place = self.store.place()
        return found(place) if place else []

    def mark(self, now: int) -> str:
        """Return a random text that only this database and its copies have; empty until it is first needed by a writer."""
        rows = self.all(_MARK)
        if not rows and not self.store.read_only:
            with self.store.transaction():
                self.run(
                    "INSERT INTO guard (name, state, updated_at) VALUES ('database', :state, :now) ON CONFLICT DO NOTHING",
                    state=jsontext.dumps(os.urandom(16).hex()),
                    now=now,
                )
            rows = self.all(_MARK)
        return str(jsontext.loads(rows[0][0])) if rows else ""


def backup(place: Path, now: datetime) -> Path:
    """Return the default path of a backup."""
    return _named(place, f"backup-{now:%Y%m%dT%H%M%SZ}")


def rolling(place: Path, label: str) -> Path:
    """Return the path of the newest backup under a label."""
    return _named(place, f"{label}-latest")


def replaced(place: Path, now: datetime) -> Path:
    """Return the path for a database that another replaces. It ends like a database's name: its files are beside it."""
    return _named(place, f"replaced-{now:%Y%m%dT%H%M%SZ}.db")


def draft(path: Path) -> Path:
    """Return the name of something that is being written, until it is complete."""
    return _named(path, f"{os.getpid()}-{os.urandom(4).hex()}.part")


def _named(place: Path, what: str) -> Path:
    return place.with_name(f"{place.name}.{what}")


def found(place: Path) -> list[str]:
    """Return all of these that exist, half-written ones included."""
    beside = sorted(glob.glob(f"{glob.escape(str(place))}.*"))
    return [path for path in beside if _NAME.fullmatch(path[len(str(place)) + 1 :])]


def remove(path: str) -> None:
    """Remove one of these, file or directory."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def forget_second_name(place: Path) -> None:
    """Remove the second name that a killed restore left to a database that is held."""
    if place.stat().st_nlink == 1:
        return
    for path in found(place):
        if path.endswith(".db") and os.path.samefile(path, place):
            remove(path)
            shutil.rmtree(f"{path.removesuffix('.db')}-files", ignore_errors=True)


def taken_meanwhile(location: str) -> InvalidInput:
    """Return the error for a free place that was taken during a restore."""
    return InvalidInput(
        f"There is a database at {location} by now.", hint="It was made meanwhile, and nothing of it was changed."
    )
