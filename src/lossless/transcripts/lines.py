"""Read the lines of a file that may still grow, and the records in them.

Only one line is held at a time. What is not a record is counted and skipped. A last line without an end is still being
written; it is returned only if it is complete already.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from lossless.formats.wire import Record
from lossless.transcripts.base import Tally

LONGEST = 256 << 20
"""Maximum bytes of a line that is read."""

_STEP = 1 << 18
_decode = msgspec.json.Decoder().decode


def records(path: Path, tally: Tally, *, offset: int = 0, longest: int = LONGEST) -> Iterator[tuple[Record, int]]:
    """Yield the records after an offset, each with the offset after its line."""
    for line, end in lines(path, tally, offset=offset, longest=longest):
        record = parse_record(line)
        if record is None:
            tally.malformed += 1
        else:
            yield record, end


def lines(path: Path, tally: Tally, *, offset: int = 0, longest: int = LONGEST) -> Iterator[tuple[bytes, int]]:
    """Yield the lines after an offset without blank ones, each with the offset after it."""
    tally.end = offset
    with open(path, "rb", buffering=_STEP) as file:
        file.seek(offset)
        while line := file.readline(longest):
            size = len(line)
            if line[-1:] != b"\n":
                if size == longest:
                    if (rest := _skip_line(file)) is None:
                        return
                    offset += size + rest
                    tally.end = offset
                    tally.lines += 1
                    tally.too_long += 1
                    continue
                if parse_record(line) is None:
                    return
            offset += size
            tally.end = offset
            if not line.isspace():
                tally.lines += 1
                yield line, offset


def parse_record(line: bytes) -> Record | None:
    """Return the JSON object in a line; None if it is not one."""
    try:
        value = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _parse_leniently(line)
    return value if type(value) is dict else None


def _parse_leniently(line: bytes) -> Any:
    """Decode what msgspec refuses: lone surrogates, NaN, numbers out of range, a byte order mark."""
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _skip_line(file: BinaryIO) -> int | None:
    """Return the number of bytes in the rest of a line; None if it has no end yet."""
    size = 0
    while piece := file.readline(_STEP):
        size += len(piece)
        if piece.endswith(b"\n"):
            return size
    return None
