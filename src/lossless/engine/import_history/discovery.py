"""Which files may hold a history: those that somebody names, and those that lie in a directory under a likely name.

Symbolic links in a directory are not followed: what they lead to is found where it lies, or is none of this directory's.
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


class Found(Struct):
    """A file that may be a source."""

    path: Path
    """Without symbolic links."""
    stat: os.stat_result
    named: bool = False
    """Whether somebody named it, and it was not merely lying there."""
    header: Header | None = None
    """Of a transcript, once it was recognised."""

    @property
    def looks_like_transcript(self) -> bool:
        return transcripts.may_be_transcript(self.path.name)

    def recognise(self) -> ImportedSource | None:
        """Read the header of a transcript; if it is none, what there is to tell."""
        try:
            self.header = recognise(self.path)
        except InvalidInput as error:
            is_broken = self.named or isinstance(error.__cause__, OSError)
            return ImportedSource(str(self.path), "error" if is_broken else "skipped", reason=error.message)
        return None


def discover(paths: Iterable[Path], problems: list[ImportedSource]) -> Iterator[Found]:
    """The files that the paths lead to, each once; what cannot be looked at is put among the problems."""
    seen: set[str] = set()
    for given in paths:
        real = os.path.realpath(given.expanduser())
        for name in _below(real, problems) if os.path.isdir(real) else (real,):
            if name in seen:
                continue
            seen.add(name)
            try:
                yield Found(Path(name), os.stat(name), name == real)
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
    return ImportedSource(name, "error", reason=f"It cannot be looked at: {error.strerror}.")
