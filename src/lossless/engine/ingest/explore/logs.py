"""Describe a log: its time span, its levels and its most frequent messages."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from lossless.engine.ingest.explore.compose import Fact, Several, counted, plural, shown
from lossless.engine.ingest.explore.lines import Ruler, beginning, line_count, line_from, sample, unread

MOST_MARKS = 50_000
SAMPLED_LINES = 2_000
EDGE = 65_536
FIRST_ERRORS = 3
NEWLINE = "\n"

_WHEN = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d (?:\d{4} )?\d\d:\d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
)
# Each takes the rest of its line with it, so that a line counts once, by the first level it names.
_LOUD = re.compile(r"(FATAL|CRITICAL|ERROR|ERR|WARN(?:ING)?|NOTICE|INFO|DEBUG|TRACE)\b[^\n]*+")
_QUIET = re.compile(r"[=:\"'\[<( ](fatal|critical|error|warn(?:ing)?|notice|info|debug|trace)(?=[\]\"'>):, ]|$)[^\n]*+")
_STATUS = re.compile(r"HTTP/\d(?:\.\d)?\" ([1-5])\d\d\b[^\n]*+")
_SAME = {"WARNING": "WARN", "ERR": "ERROR"}
_BAD = frozenset(("FATAL", "CRITICAL", "ERROR", "HTTP 5XX"))
_SIGNS = ("Traceback (most recent", "Exception", "panic:", "rror:", "FAILED", "failed", "Segmentation fault")
_VARIABLE = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{12,27}|0x[0-9a-fA-F]{1,32}|\b(?=[a-f]{0,31}\d)[0-9a-f]{8,64}\b"
    r"|\d{1,40}(?:[.:]\d{1,40}){0,8}"
)


def describe_log(text: str) -> list[Fact]:
    """Return the time span, lines by level, the most frequent messages with numbers masked, and the first errors."""
    part = beginning(text)
    pattern = max((_LOUD, _QUIET, _STATUS), key=lambda one: len(one.findall(text[:EDGE])))
    levels = _levels(part, pattern)
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    return [
        f"Log, {size}{_span(text)}.",
        *unread(text, part),
        Several("Lines by level", counted(levels.most_common(8))),
        *_errors(text, _bad(part, pattern) if _BAD & levels.keys() else _suspects(text)),
        _templates(text),
        f"Last line: {shown(line_from(text, text.rstrip().rfind(NEWLINE) + 1), 120)}",
    ]


def _span(text: str) -> str:
    first = _WHEN.search(text[:EDGE])
    last = _WHEN.findall(text[-EDGE:])[-1:]
    return f", from {first[0]} to {last[0]}" if first and last else ""


def _levels(text: str, pattern: re.Pattern[str]) -> Counter[str]:
    levels: Counter[str] = Counter()
    for word, count in Counter(pattern.findall(text)).items():
        levels[_level(word)] += count
    return levels


def _level(word: str) -> str:
    word = word.upper()
    return f"HTTP {word}XX" if word.isdigit() else _SAME.get(word, word)


def _bad(text: str, pattern: re.Pattern[str]) -> list[int]:
    marks = islice(pattern.finditer(text), MOST_MARKS)
    return [mark.start() for mark in islice((mark for mark in marks if _level(mark[1]) in _BAD), FIRST_ERRORS)]


def _suspects(text: str) -> list[int]:
    found = [at for sign in _SIGNS if (at := text.find(sign)) >= 0]
    starts = {text.rfind("\n", 0, at) + 1 for at in found}
    return sorted(starts)[:FIRST_ERRORS]


def _errors(text: str, offsets: list[int]) -> list[Fact]:
    ruler = Ruler(text)
    facts = []
    for at in offsets:
        start = max(text.rfind("\n", 0, at) + 1, at - 200)
        facts.append(f"- line {ruler.line(at):,}: {shown(_WHEN.sub('', line_from(text, start)), 110)}")
    return ["First lines that look like errors:", *facts] if facts else []


def _templates(text: str) -> Fact:
    lines, whole = sample(text, SAMPLED_LINES, width=300)
    masked = Counter(_masked(line) for _, line in lines)
    label = "Commonest messages" if whole else f"Commonest messages in {len(lines):,} sampled lines"
    common = [(template, count) for template, count in masked.most_common(8) if count > 1]
    return Several(label, [f"{count:,} x {shown(template, 90)}" for template, count in common], len(masked), "\n- ")


def _masked(line: str) -> str:
    return _VARIABLE.sub("#", _WHEN.sub("", line[:60], count=1) + line[60:160]).strip()
