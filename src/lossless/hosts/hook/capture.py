"""Read what is new in the transcripts of a session: its own, and those of its sub-agents.

A conversation has the key that `lcm import` and `lcm watch` give it, so all of them write into the same one. Reading twice,
in parallel or out of order stores nothing twice: the position is stored with the messages.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG

from msgspec import Struct, field

from lossless.client import Lossless
from lossless.engine.import_history.discovery import CandidateFile
from lossless.engine.import_history.import_context import ImportContext
from lossless.engine.import_history.run import marks_of, transcript
from lossless.engine.sync.read_marks import PATIENCE
from lossless.errors import InvalidInput

MOST_BYTES = 1_000_000
"""Unread bytes up to which a host may wait for a capture; more are read in the background."""
_AGAIN = PATIENCE / 1_000_000 + 1
_HINT = "`lcm import` says more about the file."


class _File(Struct):
    """A transcript and its state when it was read last."""

    state: tuple[int, int] | None = None
    again: float = 0.0
    """Time to read it once more although it did not change: an incomplete message at its end counts as complete then."""


class Session(Struct):
    """A session of a host: its transcript, and what was read of it in this process."""

    host: str
    path: Path
    """Without symbolic links."""
    files: dict[Path, _File] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    later: float = 0.0
    """Until then it is not read without an event."""
    seen: float = 0.0
    """The time of its last event."""
    key: str = ""
    """The key of its conversation, once something was read."""

    def paths(self, *more: Path) -> Iterator[Path]:
        """Yield the transcript, then those of its sub-agents."""
        yield self.path
        found = _transcripts_in(self.path.with_suffix("") / "subagents")
        yield from dict.fromkeys((*found, *(path for path in more if path != self.path)))

    def changed(self, now: float, *more: Path) -> list[tuple[Path, os.stat_result]]:
        """Return the files that changed since they were read in this process, by their size and time."""
        found = []
        for path in self.paths(*more):
            try:
                stat = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue  # hosts name it before they write it
            file = self.files.setdefault(path, _File())
            if file.state != (stat.st_size, stat.st_mtime_ns) or now >= file.again > 0:
                found.append((path, stat))
        return found


def _transcripts_in(directory: Path) -> list[Path]:
    """Return the transcripts in a directory; without links, pipes and the like, which no host puts there."""
    try:
        with os.scandir(directory) as entries:
            found = [each for each in entries if each.name.endswith(".jsonl") and each.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(Path(entry.path) for entry in found)


class Captured(Struct):
    """The number of new messages, and why a file could not be read."""

    stored: int = 0
    problems: list[str] = field(default_factory=list)


def unread_bytes(lcm: Lossless, found: list[tuple[Path, os.stat_result]]) -> int:
    """Return about how many bytes of these files are not stored yet."""
    return sum(max(0, stat.st_size - marks_of(lcm._store, path).offset(path)) for path, stat in found)


def capture(lcm: Lossless, session: Session, *more: Path, wait: float = -1) -> Captured:
    """Store what is new in the files of a session. One that cannot be read does not keep the others from being read.

    While another thread reads them, it waits so many seconds, and leaves the rest to that thread's next look.
    """
    done = Captured()
    if not session.lock.acquire(timeout=wait):
        return done
    try:
        context = lcm._import_context()
        for path, stat in session.changed(context.runtime.clock(), *more):
            try:
                done.stored += _read(lcm, context, session, path, stat)
            except (InvalidInput, OSError) as error:
                done.problems.append(str(error))
        return done
    finally:
        session.lock.release()


def _read(lcm: Lossless, context: ImportContext, session: Session, path: Path, stat: os.stat_result) -> int:
    if not S_ISREG(stat.st_mode):
        raise InvalidInput(f"{path} is not a file.", hint=_HINT)
    if stat.st_size == 0:
        return 0
    found = CandidateFile(path, stat, named=True)
    if problem := found.recognise():
        raise InvalidInput(problem.reason, hint=_HINT)
    marks = marks_of(lcm._store, path)
    row = transcript(context, marks, found, None, apply=True, progressed=lambda read, size: None)
    if row.status == "error":
        raise InvalidInput(f"{path}: {row.reason}", hint=_HINT)
    if path == session.path:
        session.key = row.key
    complete = stat.st_mtime + _AGAIN
    again = complete if complete > context.runtime.clock() else 0.0
    session.files[path] = _File((stat.st_size, stat.st_mtime_ns), again)
    return row.messages
