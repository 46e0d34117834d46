"""Follow live transcripts: look at their sizes and times again and again, and read what changed.

What cannot be read is tried again after a second, then two, four and so on up to a minute, and told once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from lossless.engine.import_history.context import ImportContext
from lossless.engine.import_history.discovery import Found, discover
from lossless.engine.import_history.run import known, transcript
from lossless.engine.sync.read_marks import PATIENCE
from lossless.errors import LosslessError, StoreError
from lossless.model import ImportedSource

LOOK = 5.0
"""Seconds between looks for new files."""
_SHORTEST, _LONGEST = 1.0, 60.0


class _Rest(Struct):
    """How long something that failed is left alone."""

    delay: float = 0.0
    until: float = 0.0
    told: str = ""

    def fail(self, why: str, now: float) -> bool:
        """Whether it is to be told: it failed otherwise than the last time."""
        self.delay = min(2 * self.delay or _SHORTEST, _LONGEST)
        self.until = now + self.delay
        told, self.told = self.told, why
        return told != why


class _Followed(Struct):
    """A transcript, and how it looked when it was read."""

    found: Found
    looks: tuple[int, int] | None = None
    again: float = float("inf")
    """When to read it once more although it did not change: something at its end may be whole by then."""
    rest: _Rest = field(default_factory=_Rest)


class Watch:
    """Follows the transcripts in some directories, those that are yet to come included."""

    def __init__(self, context: ImportContext, paths: Sequence[Path]) -> None:
        self._context, self._paths = context, paths
        self._known = known(context.runtime.store)
        self._followed: dict[Path, _Followed] = {}
        self._look_at = 0.0
        self._rest = _Rest()

    def __len__(self) -> int:
        """How many transcripts there are."""
        return len(self._followed)

    def step(self) -> Iterator[ImportedSource]:
        """Read what is new, and tell what it brought, or why it cannot be read."""
        now = self._context.runtime.clock()
        if now < self._rest.until:
            return
        try:
            if now >= self._look_at:
                self._look(now)
            for each in list(self._followed.values()):
                yield from self._follow(each, now)
            self._rest = _Rest()
        except StoreError as error:
            # The database fails for one file as for the next: all of them wait.
            if self._rest.fail(str(error), now):
                yield ImportedSource(self._context.runtime.store.location, "error", reason=str(error))

    def _look(self, now: float) -> None:
        """Find the files that are new."""
        found = [each for each in discover(self._paths, []) if each.looks_like_transcript]
        new = [each for each in found if each.path not in self._followed]
        if new:
            self._known = known(self._context.runtime.store)
        for each in new:
            is_read = self._known.unchanged(each, int(now * 1_000_000)) is not None
            self._followed[each.path] = _Followed(each, _looks(each.stat) if is_read else None)
        self._look_at = now + LOOK

    def _follow(self, each: _Followed, now: float) -> Iterator[ImportedSource]:
        if now < each.rest.until:
            return
        path = each.found.path
        try:
            stat = os.stat(path)
        except OSError:
            del self._followed[path]  # it is found again when it is there again
            return
        looks = _looks(stat)
        if looks == each.looks and now < each.again:
            return
        each.found = Found(path, stat)
        row = self._read(each.found)
        if row.status == "error":
            if each.rest.fail(row.reason, now):
                yield row
            return
        ends = stat.st_mtime + PATIENCE / 1_000_000
        each.looks, each.again, each.rest = looks, ends if ends > now else float("inf"), _Rest()
        if row.status == "imported":
            yield row

    def _read(self, found: Found) -> ImportedSource:
        try:
            return found.recognise() or transcript(
                self._context, self._known, found, None, apply=True, progressed=lambda read, size: None
            )
        except StoreError:
            raise
        except (LosslessError, OSError) as error:
            return ImportedSource(str(found.path), "error", reason=str(error))


def _looks(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns
