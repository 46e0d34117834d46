"""Split text into sentences in any script, and recognise code.

The results are spans, which can be compared with other spans of the same text. Linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

LONGEST = 260
"""The maximum characters of a passage; a longer sentence is split into clauses."""
_LINE = re.compile(r"[^\S\n]*(\S[^\n]*)")
_STOP = re.compile(r"[.!?…]{1,6}[\"'”’)\]*_`]{0,3}(?=\s)|[。！？]{1,6}[」』”’）]{0,3}")
_CLAUSE = re.compile(r"[,;:，；、](?=\s)|\s[-–—](?=\s)|[，；、]|\s\|\s")
_SHORTENED = re.compile(
    r"(?:\b(?:e\.g|i\.e|mr|mrs|ms|dr|prof|no|nr|vs|approx|ca|bzw|usw|fig|pp|incl|z\.b)|(?<!\w)\w)\.$", re.I
)
_CODE = re.compile(
    r"\s*(?://|/\*|\*|[+<>|}{)\]@]|(?:import|from|export|const|let|var|if|else|return|def|class|function|throw|public|private|for|while|try|new"
    r"|interface|type|case|describe|it|await|async)\b(?!.*[.!?]$)|-\S)|.*(?:[{}\[(;\\]|=>|\)\{|\(\)[;.]?)\s*,?$|.*(?:=> |\$\{|\(\(|\w\(\w*\)\.|\w\(\")"
)


def sentences(text: str, start: int = 0, end: int | None = None) -> Iterator[Span]:
    """Yield the spans of sentences, and of the clauses of long ones."""
    for at, last in _paragraphs(text, start, len(text) if end is None else end):
        for stop in _STOP.finditer(text, at, last):
            if text[stop.start()] != "." or not _SHORTENED.search(text, max(at, stop.start() - 12), stop.start() + 1):
                yield from _clauses(text, at, stop.end())
                at = stop.end()
        yield from _clauses(text, at, last)


def _paragraphs(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield lines; a line that continues the one before in lower case belongs to it."""
    first, last = -1, start
    for line in _LINE.finditer(text, start, end):
        continues = first >= 0 and line.start() == last + 1 and line[1][:1].islower()
        if first >= 0 and not continues:
            yield first, last
        first, last = first if continues else line.start(), line.end()
    if first >= 0:
        yield first, last


def _clauses(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > LONGEST:
        cut = start + LONGEST
        for comma in _CLAUSE.finditer(text, start + LONGEST // 3, cut):
            cut = comma.end()
        if cut == start + LONGEST and (space := text.rfind(" ", start + LONGEST // 3, cut)) > 0:
            cut = space
        yield start, cut
        start = cut
    if text[start:end].strip():
        yield start, end


def parts(text: str) -> Iterator[Span]:
    """Yield the parts of a line of our own summaries, between its omission marks."""
    at = 0
    for gap in re.finditer(" […·] ", text):
        yield at, gap.start()
        at = gap.end()
    yield at, len(text)


def is_prose(line: str) -> bool:
    """Return whether a line of a tool's output is prose rather than code or a listing."""
    line = line.strip()
    plain = sum(char.isalnum() or char in " ,.'’%€$£-:\"`" for char in line)
    return len(line) > 12 and plain >= 0.93 * len(line) and " " in line and not is_code(line)


def is_code(line: str) -> bool:
    """Return whether a line looks like code, a table or a diff."""
    return _CODE.match(line) is not None
