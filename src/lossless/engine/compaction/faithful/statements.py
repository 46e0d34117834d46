"""The statements of a summary, and the summary without some of them.

A statement is a sentence, or an entry of the last lines `Files:` and `Expand for details about:`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from typing import TypeAlias

from lossless.engine.compaction.faithful.claim import words
from lossless.engine.compaction.faithful.dates import is_named

Span: TypeAlias = tuple[int, int]
"""The place of a statement: its start and its end."""

BULLET = re.compile(r"^[ \t]*(?:[-*•–—+>#]+|\(?\d{1,3}[.)])[ \t]+", re.M)
LISTED = re.compile(r"^[ \t*_]*(?:expand for details about|files):[*_]*", re.I)
_END = re.compile(r"[.!?…]+[\"'”’»)*_]*\s+|[。！？][」』”）]*")
_LAST_WORD = re.compile(r"(\w+)[.]\s*$")
_NEXT_WORD = re.compile(r"\s*(\w+)")
_SHORT = words(
    """e g i b ca approx inc ltd bzw usw ggf evtl inkl vgl núm pág г ул р т п см тыс им стр vol fig cf p pp vs
    jan feb mar apr jun jul aug sep sept oct okt nov dec dez"""
)
_TITLES = words("Mr Mrs Ms Dr Prof St No Nr Sr Sra Srta Mme Jr Abs Art Av")


def statements(text: str) -> list[Span]:
    """Return the places of the statements of a summary, in order."""
    found: list[Span] = []
    at = 0
    for line in text.split("\n"):
        found += ((at + start, at + end) for start, end in _of_line(line))
        at += len(line) + 1
    return found


def _of_line(line: str) -> Iterator[Span]:
    if listed := LISTED.match(line):
        at = listed.end()
        for entry in line[at:].split(","):
            yield at, at + len(entry)
            at += len(entry) + 1
        return
    bullet = BULLET.match(line)
    start = bullet.end() if bullet else 0
    for mark in _END.finditer(line, start):
        if mark.end() == len(line) or _ends(line, mark.start(), mark.end()):
            yield start, mark.end()
            start = mark.end()
    if line[start:].strip():
        yield start, len(line)


def _ends(line: str, mark: int, after: int) -> bool:
    """Return True if a full stop ends a sentence and not a short form, an initial or an ordinal."""
    if line[mark] not in ".":
        return True
    last = _LAST_WORD.search(line, max(0, mark - 24), mark + 1)
    if not last:
        return True
    word = last[1].lower()
    if last[1] in _TITLES or word in _SHORT or (len(word) == 1 and word.isalpha()):
        return False
    return not (word.isdigit() and len(word) < 3 and line[after : after + 1].isalpha() and not _opens(line, mark))


def _opens(line: str, mark: int) -> bool:
    """Return True if a capital after a small number begins a sentence: not "5. März", but "in step 5. Then"."""
    following = _NEXT_WORD.match(line, mark + 1)
    return following is not None and following[1][0].isupper() and not is_named(following[1].lower())


def at_place(spans: list[Span], at: int) -> Span | None:
    """Return the statement at a place."""
    index = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return spans[index] if index >= 0 and at < max(spans[index][1], spans[index][0] + 1) else None


def without(text: str, dropped: Collection[Span]) -> str:
    """Return the summary without these statements; a line of which nothing is left goes, too."""
    if not dropped:
        return text
    kept, at, gone = [], 0, set(dropped)
    for line in text.split("\n"):
        spans = [(at + start, at + end) for start, end in _of_line(line)]
        rest = [span for span in spans if span not in gone]
        if len(rest) == len(spans):
            kept.append(line)
        elif listed := LISTED.match(line):
            kept.append(f"{listed[0]} {', '.join(text[start:end].strip() for start, end in rest) or 'none'}")
        elif rest:
            kept.append((line[: spans[0][0] - at] + "".join(text[start:end] for start, end in rest)).rstrip())
        at += len(line) + 1
    return "\n".join(kept).strip()
