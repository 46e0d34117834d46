"""Recognise which program wrote a transcript."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from lossless.errors import InvalidInput
from lossless.formats.wire import Record
from lossless.transcripts.base import Header, Reader, Tally
from lossless.transcripts.claude_code import ClaudeCode
from lossless.transcripts.codex import Codex
from lossless.transcripts.lines import lines, parse_record
from lossless.transcripts.messages import Messages, is_array, read_records
from lossless.transcripts.openclaw import OpenClaw

KNOWN: tuple[Reader, ...] = (Codex(), ClaudeCode(), OpenClaw(), Messages())

_FIRST = 32
_LOOKED_AT = 1_000
_HINT = "Give a session of Claude Code, Codex, OpenClaw or pi (*.jsonl), or a file of plain messages, as JSON in UTF-8."
_UNFINISHED = (".lock", ".tmp", ".gz", ".zst")


def recognise(path: Path, format: str | None = None) -> Header:
    """Return the header of a file, whichever program wrote it. The content decides, not the name.

    With `format` only that kind of file is accepted.
    """
    readers = KNOWN if format is None else (reader(format),)
    if not path.is_file():
        what = "a directory" if path.is_dir() else "not a file" if path.exists() else "missing"
        raise InvalidInput(f"{path} is {what}.", hint="Name a file; `lcm import` accepts a directory.")
    try:
        first = _first(path)
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read: {problem.strerror}.", hint=_HINT) from problem
    for each in readers:
        if first and (header := each.header(first, path)):
            return header
    raise InvalidInput(f"{path} is not a known kind of transcript.", hint=_HINT)


def _first(path: Path) -> list[Record]:
    """Return the first records of a file. Few lines are read: a wrong file may be large."""
    with open(path, "rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise InvalidInput(f"{path} is empty.", hint="Try again when it contains a message.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or (b"\0" in start[:2] and start[:2].strip(b"\0") in (b"{", b"[")):
        raise InvalidInput(f"{path} is in UTF-16.", hint="Convert it to UTF-8, e.g. with iconv.")
    if b"\0" in start and not any(map(parse_record, start.splitlines())):
        raise InvalidInput(f"{path} is binary.", hint=_HINT)
    if is_array(path):
        return [item for item, _ in islice(read_records(path, Tally()), _FIRST)]
    found = (parse_record(line) for line, _ in islice(lines(path, Tally()), _LOOKED_AT))
    return list(islice((record for record in found if record is not None), _FIRST))


def reader(format: str) -> Reader:
    """Return the reader of a format, by the name in a header."""
    for each in KNOWN:
        if each.name == format:
            return each
    raise InvalidInput(
        f"{format} is not a format of transcripts.", hint=f"Use one of {', '.join(r.name for r in KNOWN)}."
    )


def may_be_transcript(name: str) -> bool:
    """Return whether a file may be a transcript, by its name."""
    return name.endswith((".jsonl", ".json")) or (".jsonl." in name and not name.endswith(_UNFINISHED))
