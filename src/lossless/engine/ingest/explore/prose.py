"""Describe Markdown and plain text: an outline if there is one, otherwise landmarks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from lossless.engine.ingest.explore.compose import Fact, Several, counted, plural, shown
from lossless.engine.ingest.explore.lines import MOST_HITS, Ruler, beginning, hits, line_count, line_from, unread

COUNTED_CHARS = 2_000_000
MOST_HEADINGS = 400
MOST_MARKS = 50_000
CHUNK = 65_536

_MARK = re.compile(r"\n(?:(#{1,6})[ \t]{1,9}([^\n]{1,200})|[ ]{0,3}+(```|~~~)([^\n]{0,40}))")
_UNDERLINED = re.compile(r"\n([^\s#>|*=-][^\n]{0,120})\n(={3,80}|-{3,80})[ \t]{0,9}(?=\n|$)")
_TABLE = re.compile(r"\n[ ]{0,3}+\|?+[ ]{0,9}+:?+-{3,80}:?[ ]{0,9}\|")
_ALONE = re.compile(r"\n[ \t]{0,20}+\n[ \t]{0,20}+([^\s][^\n]{1,70})(?=\n[ \t]{0,20}\n)")
_NEXT_LINE = re.compile(r"\n\s{0,200}?([^\s])")
_PARAGRAPH = re.compile(r"\n[ \t]*\n(?=[ \t]*[^\s])")
_NUMBERED = re.compile(r"(?:[A-Z][a-z]{2,12} )?(?:\d{1,3}(?:\.\d{1,3}){0,4}|[IVXLC]{1,6})[.:) ]")
_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]+")


@dataclass(slots=True)
class _Outline:
    """Headings and code blocks of a Markdown text, in order."""

    headings: list[tuple[int, int, str]] = field(default_factory=list)
    blocks: Counter[str] = field(default_factory=Counter)
    fence: str = ""
    marks: int = 0


def describe_markdown(text: str) -> list[Fact]:
    """Return the headings with their lines (the upper levels if there are too many), blocks, tables and links."""
    part = beginning(text)
    outline = _outline(part)
    tables = sum(1 for _ in hits(_TABLE, part))
    capped = 0 if outline.marks >= MOST_MARKS else None
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    parts = [
        plural(len(outline.headings), "heading", capped),
        plural(outline.blocks.total(), "code block", capped),
        plural(tables, "table", MOST_HITS),
        plural(part.count("]("), "link"),
    ]
    headings = [f"{line}: {'#' * level} {shown(title, 70)}" for line, level, title in _upper(outline.headings)]
    return [
        f"Markdown, {size}: {', '.join(parts)}.",
        *unread(text, part),
        Several("Code blocks", counted((shown(name, 20), count) for name, count in outline.blocks.most_common(6))),
        Several("Outline (line: heading)", headings, len(outline.headings), "\n", spread=True),
        f"Begins: {shown(text.lstrip()[:400], 120)}",
        *([] if headings else _landmarks(text)),
    ]


def describe_text(text: str) -> list[Fact]:
    """Return the size, lines that look like headings, and a line from each quarter."""
    if base64 := encoded(text):
        return [base64, f"Begins: {shown(text[:200], 60)}", f"Ends: {shown(text[-200:], 60)}"]
    words, paragraphs, about = _words(text)
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    counts = f"{about}{plural(words, 'word')}, {about}{plural(paragraphs, 'paragraph')}"
    return [
        f"Plain text, {size}, {counts}.",
        f"First line: {shown(line_from(text.lstrip(), 0, 800), 160)}",
        *_landmarks(text),
        f"Last line: {shown(_last_line(text), 160)}",
        _headings(beginning(text)),
    ]


def _outline(text: str) -> _Outline:
    outline = _Outline()
    for line, mark in hits(_MARK, text, MOST_MARKS):
        outline.marks += 1
        level, title, fence, language = mark.groups()
        if outline.fence:
            outline.fence = "" if fence == outline.fence and not language.strip() else outline.fence
        elif fence:
            outline.fence = fence
            outline.blocks[language.strip().split(" ")[0] or "unnamed"] += 1
        else:
            outline.headings.append((line, len(level), title.rstrip("# ")))
    if not outline.headings:
        outline.headings = [
            (line, 1 if mark[2][0] == "=" else 2, mark[1]) for line, mark in hits(_UNDERLINED, text, MOST_HEADINGS)
        ]
    return outline


def _upper(headings: list[tuple[int, int, str]], enough: int = 12) -> list[tuple[int, int, str]]:
    levels = Counter(level for _, level, _ in headings)
    kept, deepest = 0, 0
    for level in sorted(levels):
        if kept >= enough:
            break
        kept, deepest = kept + levels[level], level
    upper = [heading for heading in headings if heading[1] <= deepest]
    return upper[:: len(upper) // MOST_HEADINGS + 1]


def _words(text: str) -> tuple[int, int, str]:
    if len(text) <= COUNTED_CHARS:
        return _word_count(text), len(_PARAGRAPH.findall(text.strip())) + bool(text.strip()), ""
    pieces = [text[at : at + CHUNK] for at in range(0, len(text), len(text) // 12)]
    scale = len(text) / sum(map(len, pieces))
    words = sum(map(_word_count, pieces)) * scale
    paragraphs = sum(len(_PARAGRAPH.findall(piece)) for piece in pieces) * scale + 1
    return round(words), round(paragraphs), "about "


def _word_count(text: str) -> int:
    count, inside = 0, False
    for at in range(0, len(text), CHUNK):
        piece = text[at : at + CHUNK]
        count += len(piece.split()) - (inside and not piece[0].isspace())
        inside = not piece[-1].isspace()
    return count


def _headings(text: str) -> Fact:
    found = list(_lone_lines(text))
    few = found[:: len(found) // MOST_HEADINGS + 1]
    return Several("Lines that look like headings", few, len(found), "\n- ", spread=True)


def _lone_lines(text: str) -> Iterator[str]:
    for line, found in hits(_ALONE, text, 10_000):
        title = found[1].rstrip()
        if title[-1] not in ".,;:!?\"'" and (title[0].isupper() or _NUMBERED.match(title)):
            yield f"line {line + 1:,}: {shown(title, 60)}"


def _landmarks(text: str) -> list[Fact]:
    if len(text) < 2_000:
        return []
    ruler = Ruler(text)
    return [_landmark(text, ruler, len(text) * quarter // 4) for quarter in (1, 2, 3)]


def _landmark(text: str, ruler: Ruler, offset: int) -> str:
    found = _NEXT_LINE.search(text, offset, offset + 2_000)
    start = found.start(1) if found else offset
    return f"Line {ruler.line(start):,}: {shown(line_from(text, start), 90)}"


def _last_line(text: str) -> str:
    tail = text[-2_000:].rstrip()
    return tail[tail.rfind("\n") + 1 :]


def encoded(text: str) -> str:
    """Return a note if a text is encoded data rather than prose, else an empty text."""
    probes = [text[at : at + 200].replace("\n", "") for at in range(0, len(text), max(200, len(text) // 20))]
    if len(text) < 1_000 or not all(_BASE64.fullmatch(probe) for probe in probes[:-1]):
        return ""
    if len({char for probe in probes for char in probe}) < 32:
        return ""
    return f"Encoded data, probably base64: {plural(len(text), 'character')} on {plural(line_count(text), 'line')}."
