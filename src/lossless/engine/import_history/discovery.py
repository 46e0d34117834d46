"""Find the files that may contain a history: those the user names, and those with a likely name in a directory.

Symbolic links in a directory are not followed: their targets are found where they are, or do not belong to the directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from lossless import transcripts
from lossless.engine.sync.read import recognise
from lossless.errors import InvalidInput
from lossless.model import ImportedSource
from lossless.transcripts.base import Header

_DATABASE = ".db"


class CandidateFile(Struct):
    """A file that may be a source."""

    path: Path
    """Without symbolic links."""
    stat: os.stat_result
    named: bool = False
    """The user named it; it was not found in a directory."""
    header: Header | None = None
    """The header of a recognized transcript."""

    @property
    def looks_like_transcript(self) -> bool:
        """Return whether its name is that of a transcript."""
        return transcripts.may_be_transcript(self.path.name)

    def recognise(self) -> ImportedSource | None:
        """Read the header of a transcript; return a report if it is not one."""
        try:
            self.header = recognise(self.path)
        except InvalidInput as error:
            is_broken = self.named or isinstance(error.__cause__, OSError)
            return ImportedSource(str(self.path), "error" if is_broken else "skipped", reason=error.message)
        return None


def discover(paths: Iterable[Path], problems: list[ImportedSource]) -> Iterator[CandidateFile]:
    """Yield the files that the paths lead to, each once; add unreadable ones to `problems`."""
    seen: set[str] = set()
    for given in paths:
        real = os.path.realpath(given.expanduser())
        for name in _below(real, problems) if os.path.isdir(real) else (real,):
            if name in seen:
                continue
            seen.add(name)
            try:
                yield CandidateFile(Path(name), os.stat(name), name == real)
            except FileNotFoundError:
                problems.append(ImportedSource(name, "error", reason="It is not there."))
            except OSError as error:
                problems.append(_unreadable(name, error))


def _below(directory: str, problems: list[ImportedSource]) -> Iterator[str]:
    try:
        with os.scandir(directory) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        problems.append(_unreadable(directory, error))
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, problems)
        elif entry.is_file(follow_symlinks=False) and _is_likely(entry.name):
            yield entry.path


def _is_likely(name: str) -> bool:
    return name.endswith(_DATABASE) or transcripts.may_be_transcript(name)


def _unreadable(name: str, error: OSError) -> ImportedSource:
    return ImportedSource(name, "error", reason=f"It cannot be read: {error.strerror}.")
