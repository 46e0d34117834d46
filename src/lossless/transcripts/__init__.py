"""Transcripts: the files in which other programs keep what was said, as messages.

    header = recognise(path)
    for entry in reader(header.format).entries(path, header, tally): ...

Nothing is written and nothing is held: a file of any length is read line by line, and from where one left off.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from lossless.errors import InvalidInput
from lossless.formats.wire import Record
from lossless.transcripts.base import Branch, Entry, Header, Reader, Tally
from lossless.transcripts.claude_code import ClaudeCode
from lossless.transcripts.codex import Codex
from lossless.transcripts.lines import lines, parsed
from lossless.transcripts.messages import Messages, is_array, written
from lossless.transcripts.openclaw import OpenClaw

__all__ = ["KNOWN", "Branch", "Entry", "Header", "Reader", "Tally", "find", "looks_like_one", "reader", "recognise"]

KNOWN: tuple[Reader, ...] = (Codex(), ClaudeCode(), OpenClaw(), Messages())

_FIRST = 32
_LOOKED_AT = 1_000
_HINT = "Give a session of Claude Code, Codex, OpenClaw or pi (*.jsonl), or a file of plain messages, as JSON in UTF-8."
_UNFINISHED = (".lock", ".tmp", ".gz", ".zst")


def recognise(path: Path, format: str | None = None) -> Header:
    """What a file says about itself, whichever program wrote it. The content decides, not the name.

    With `format` only that kind of file will do.
    """
    asked = KNOWN if format is None else (reader(format),)
    if not path.is_file():
        what = "a directory" if path.is_dir() else "no file" if path.exists() else "not there"
        raise InvalidInput(f"{path} is {what}.", hint="Name a file; `find` looks for them in a directory.")
    try:
        first = _first(path)
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read: {problem.strerror}.", hint=_HINT) from problem
    for each in asked:
        if first and (header := each.header(first, path)):
            return header
    raise InvalidInput(f"{path} is no transcript that we know.", hint=_HINT)


def _first(path: Path) -> list[Record]:
    """The first records of a file. Not many lines are looked at: a wrong file may be a large one."""
    with open(path, "rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise InvalidInput(f"{path} is empty.", hint="Try again when something was said.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or (b"\0" in start[:2] and start[:2].strip(b"\0") in (b"{", b"[")):
        raise InvalidInput(f"{path} is in UTF-16.", hint="Convert it to UTF-8, e.g. with iconv.")
    if b"\0" in start and not any(map(parsed, start.splitlines())):
        raise InvalidInput(f"{path} is binary.", hint=_HINT)
    if is_array(path):
        return [item for item, _ in islice(written(path, Tally()), _FIRST)]
    found = (parsed(line) for line, _ in islice(lines(path, Tally()), _LOOKED_AT))
    return list(islice((record for record in found if record is not None), _FIRST))


def reader(format: str) -> Reader:
    """The reader of a format, by the name a header gives it."""
    for each in KNOWN:
        if each.name == format:
            return each
    raise InvalidInput(f"{format} is no format of transcripts.", hint=f"There are {', '.join(r.name for r in KNOWN)}.")


def looks_like_one(name: str) -> bool:
    """Whether a file may be a transcript, by its name."""
    return name.endswith((".jsonl", ".json")) or (".jsonl." in name and not name.endswith(_UNFINISHED))
