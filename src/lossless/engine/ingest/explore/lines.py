"""Walk a large text line by line without a list of all lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

MOST_HITS = 20_000
MOST_LINES = 300_000
MOST_CHARS = 8_000_000

_NEWLINE = re.compile("\n")


def normal(text: str) -> str:
    """Return the text without a byte order mark, its lines ended by a bare newline."""
    text = text.removeprefix("\ufeff")
    if "\r" not in text:
        return text
    text = text.replace("\r\n", "\n")
    return text if "\n" in text else text.replace("\r", "\n")


def line_count(text: str) -> int:
    """Return the number of lines that an editor would show."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def line_at(text: str, offset: int) -> int:
    """Return the number, from 1, of the line at this offset."""
    return text.count("\n", 0, offset) + 1


class Ruler:
    """Line numbers for many offsets of one text, fastest in ascending order."""

    def __init__(self, text: str) -> None:
        self._text, self._offset, self._line = text, 0, 1

    def line(self, offset: int) -> int:
        """Return the number of the line at an offset."""
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line


def line_from(text: str, start: int, most: int = 400) -> str:
    """Return the line that starts here, cut at `most` characters."""
    piece = text[start : start + most]
    return piece.partition("\n")[0]


def beginning(text: str, most: int = MOST_LINES) -> str:
    """Return as much of a text as is worth reading by lines: all of it, unless it is enormous."""
    text = text[:MOST_CHARS]
    if text.count("\n") < most:
        return text
    last = next(islice(_NEWLINE.finditer(text), most - 1, None), None)
    return text[: last.start()] if last else text


def unread(text: str, part: str) -> list[str]:
    """Return the note that only the beginning was read."""
    return [] if len(part) == len(text) else [f"Structure below covers lines 1-{line_count(part):,} only."]


def hits(pattern: re.Pattern[str], text: str, most: int = MOST_HITS) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield line numbers and matches of a pattern that starts with `\\n`, which stands for the start of a line."""
    # A literal newline lets the regex engine leap from line to line; `^` would make it try every character.
    padded = "\n" + text
    ruler = Ruler(padded)
    for match in islice(pattern.finditer(padded), most):
        yield ruler.line(match.start()), match


def sample(text: str, most: int, width: int = 2_000) -> tuple[list[tuple[int, str]], bool]:
    """Return lines with their offsets, spread evenly over the text, and whether they are all lines."""
    whole = text.count("\n") < most
    found = _all_lines(text) if whole else _spread_lines(text, most)
    return [(at, text[at : min(end, at + width)]) for at, end in found if end > at], whole


def _all_lines(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        end = _end(text, at)
        yield at, end
        at = end + 1


def _spread_lines(text: str, most: int) -> Iterator[tuple[int, int]]:
    at = 0
    for index in range(most):
        # Never search behind the last line taken: one huge line would otherwise be searched again for each sample.
        wanted = index * len(text) // most
        if wanted < at:
            continue
        start = _end(text, wanted - 1) + 1 if wanted else 0
        end = _end(text, start)
        yield start, end
        at = end + 1


def _end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
