"""Follow live transcripts: check their sizes and times repeatedly, and read what changed.

A file that cannot be read is retried after a second, then two, four and so on up to a minute, and reported once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from lossless.engine.import_history.discovery import CandidateFile, discover
from lossless.engine.import_history.import_context import ImportContext
from lossless.engine.import_history.run import load_read_marks, transcript
from lossless.engine.sync.read_marks import PATIENCE
from lossless.errors import LosslessError, StoreError
from lossless.model import ImportedSource

SCAN_INTERVAL = 5.0
"""Seconds between searches for new files."""
_SHORTEST, _LONGEST = 1.0, 60.0


class _Backoff(Struct):
    """The delay before something that failed is tried again."""

    delay: float = 0.0
    until: float = 0.0
    last_reason: str = ""

    def fail(self, why: str, now: float) -> bool:
        """Double the delay; return whether the reason is new and should be reported."""
        self.delay = min(2 * self.delay or _SHORTEST, _LONGEST)
        self.until = now + self.delay
        last, self.last_reason = self.last_reason, why
        return last != why


class _WatchedFile(Struct):
    """A transcript, and its state when it was read."""

    found: CandidateFile
    state: tuple[int, int] | None = None
    again: float = float("inf")
    """Time to read it again although it did not change: an entry at its end may be complete by then."""
    backoff: _Backoff = field(default_factory=_Backoff)


class Watch:
    """Follows the transcripts in some directories, including files that are created later."""

    def __init__(self, context: ImportContext, paths: Sequence[Path]) -> None:
        self._context, self._paths = context, paths
        self._known = load_read_marks(context.runtime.store)
        self._followed: dict[Path, _WatchedFile] = {}
        self._scan_at = 0.0
        self._backoff = _Backoff()

    def __len__(self) -> int:
        """Return the number of transcripts."""
        return len(self._followed)

    def step(self) -> Iterator[ImportedSource]:
        """Read what is new; yield a report for each file with new messages or a problem."""
        now = self._context.runtime.clock()
        if now < self._backoff.until:
            return
        try:
            if now >= self._scan_at:
                self._scan(now)
            for each in list(self._followed.values()):
                yield from self._follow(each, now)
            self._backoff = _Backoff()
        except StoreError as error:
            # The database fails for every file: all of them wait.
            if self._backoff.fail(str(error), now):
                yield ImportedSource(self._context.runtime.store.location, "error", reason=str(error))

    def _scan(self, now: float) -> None:
        """Find new files."""
        found = [each for each in discover(self._paths, []) if each.looks_like_transcript]
        new = [each for each in found if each.path not in self._followed]
        if new:
            self._known = load_read_marks(self._context.runtime.store)
        for each in new:
            is_read = self._known.unchanged(each, int(now * 1_000_000)) is not None
            self._followed[each.path] = _WatchedFile(each, _state(each.stat) if is_read else None)
        self._scan_at = now + SCAN_INTERVAL

    def _follow(self, each: _WatchedFile, now: float) -> Iterator[ImportedSource]:
        if now < each.backoff.until:
            return
        path = each.found.path
        try:
            stat = os.stat(path)
        except OSError:
            del self._followed[path]  # it is found again when it exists again
            return
        state = _state(stat)
        if state == each.state and now < each.again:
            return
        each.found = CandidateFile(path, stat)
        row = self._read(each.found)
        if row.status == "error":
            if each.backoff.fail(row.reason, now):
                yield row
            return
        ends = stat.st_mtime + PATIENCE / 1_000_000
        each.state, each.again, each.backoff = state, ends if ends > now else float("inf"), _Backoff()
        if row.status == "imported":
            yield row

    def _read(self, found: CandidateFile) -> ImportedSource:
        try:
            return found.recognise() or transcript(
                self._context, self._known, found, None, apply=True, progressed=lambda read, size: None
            )
        except StoreError:
            raise
        except (LosslessError, OSError) as error:
            return ImportedSource(str(found.path), "error", reason=str(error))


def _state(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns
