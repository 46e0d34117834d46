"""The lines of a file that may still grow, and the records in them.

A line is held while it is looked at, and no other. What is no record is counted and passed over: whoever reads a transcript wants
the rest of it. A last line without an end is somebody's who is still writing; it is given only if it is whole already.
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
"""Bytes of a line that is still read."""

_STEP = 1 << 18
_decode = msgspec.json.Decoder().decode


def records(path: Path, tally: Tally, *, offset: int = 0, longest: int = LONGEST) -> Iterator[tuple[Record, int]]:
    """The records that begin at an offset, each with the offset behind its line."""
    for line, end in lines(path, tally, offset=offset, longest=longest):
        record = parsed(line)
        if record is None:
            tally.malformed += 1
        else:
            yield record, end


def lines(path: Path, tally: Tally, *, offset: int = 0, longest: int = LONGEST) -> Iterator[tuple[bytes, int]]:
    """The lines that begin at an offset, blank ones left out, each with the offset behind it."""
    tally.end = offset
    with open(path, "rb", buffering=_STEP) as file:
        file.seek(offset)
        while line := file.readline(longest):
            size = len(line)
            if line[-1:] != b"\n":
                if size == longest:
                    if (rest := _passed_over(file)) is None:
                        return
                    offset += size + rest
                    tally.end = offset
                    tally.lines += 1
                    tally.too_long += 1
                    continue
                if parsed(line) is None:
                    return
            offset += size
            tally.end = offset
            if not line.isspace():
                tally.lines += 1
                yield line, offset


def parsed(line: bytes) -> Record | None:
    """The JSON object that a line is, if it is one."""
    try:
        value = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _parsed_slowly(line)
    return value if type(value) is dict else None


def _parsed_slowly(line: bytes) -> Any:
    """What msgspec refuses although it can be kept: lone surrogates, NaN, numbers out of range, a byte order mark."""
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _passed_over(file: BinaryIO) -> int | None:
    """How many bytes the rest of a line has; None if it has no end yet."""
    size = 0
    while piece := file.readline(_STEP):
        size += len(piece)
        if piece.endswith(b"\n"):
            return size
    return None
