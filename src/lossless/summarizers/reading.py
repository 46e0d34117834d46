"""A source taken apart: who said what when, sentence by sentence.

Reads what `lossless.engine.compaction.summary_source` writes, and what `lossless.summarizers.extractive` itself writes, which is the
source of the next depth. Whatever else it is given comes out as words of nobody in particular.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

from lossless.summarizers.directives import orders
from lossless.summarizers.passages import Place, Reading, harmless, held_against
from lossless.summarizers.sentences import LONGEST, Span, is_code, is_prose, parts, sentences

MOST_LINES = 60
"""How many lines of one tool's output are read."""
MOST_OF_LINE = 2_000
"""How much of one such line."""

_ENTRY = re.compile(r"^\[(\d{4}-\d\d-\d\d) (\d\d:\d\d) (\S+) \| ([^\n\]|]{1,160})(?: \| ([^\n\]|]{1,160}))?\]$", re.M)
_SPAN = re.compile(r"^\[(\d{4}-\d\d-\d\d [^\n\[\]]{1,80}|time unknown)\]$", re.M)
_SECTION = re.compile(r"^(Tool call|Tool result|Record) \(([^()\n]{1,200})\): ?", re.M)
_DAY = re.compile(
    r"\d{4}-\d\d-\d\d(?: \([^()\n]{1,40}\)| \d\d:\d\d(?: [^\s:]{1,12})?(?: - [\d: -]{5,17}(?: [^\s:]{1,12})?)?)?|time unknown"
)
_SAID = re.compile(r"(\d\d:\d\d) ([^:\n]{1,80}): (.*)|((?:user|assistant|system|tool)(?: [^:\n]{1,80})?): (.*)", re.S)
_OPEN = re.compile(r"Open: \[(\d{4}-\d\d-\d\d)? ?(\d\d:\d\d)?(?: \| )?([^\n\]|]{0,80})\] ?(.*)", re.S)
_FENCE = re.compile(r"^[ \t]*```", re.M)
_LINE = re.compile(r"[^\n]+")
_JSON = json.JSONDecoder()
_ALARM = re.compile(
    r"\b(?:errors?|fail(?:ed|ure|s)?|exception|traceback|fatal|denied|refused|timed? ?out|panic|cannot|could not|invalid|missing|conflict|"
    r"not found|warning|aborted|rejected|overdue|unavailable|passed|total|summary|completed|confirmed|exited|elapsed)\b|错误|失败|エラー",
    re.I,
)
_PAIR = re.compile(r'\s*"[\w .-]{1,40}": ?(?:"[^"\n]{1,120}"|-?[\d.]{1,24}|true|false),?')
_ONLY_FILE = re.compile(r'\{\s*"(?:file_?)?path":\s*"[^"]*"(?:,\s*"(?:offset|limit)":\s*\d+)*\s*\}')


def read(source: str, depth: int) -> Reading:
    """The passages of a source in order, without the orders that were smuggled into it."""
    reading = Reading()
    header = _ENTRY if depth == 0 else _SPAN
    heads = list(header.finditer(source))
    starts = [head.start() for head in heads] + [len(source)]
    if source[: starts[0]].strip():
        _read_body(reading, Place(), source[: starts[0]], depth)
    for head, end in zip(heads, starts[1:], strict=True):
        _read_body(reading, _place(head, depth), source[head.end() : end], depth)
    return reading


def _place(head: re.Match[str], depth: int) -> Place:
    if depth > 0:
        return Place(head[1])
    return Place(f"{head[1]} ({head[3]})", head[2], " ".join(map(_name, filter(None, (head[4], head[5])))))


def _name(given: str) -> str:
    """A name that ends where a colon does, and is no sentence in disguise."""
    name = " ".join(given.replace(":", " ").split())
    return "unknown" if " " in name and orders(name) else name


def _read_body(reading: Reading, place: Place, body: str, depth: int) -> None:
    reading.turns += 1
    if depth > 0:
        _read_summary(reading, place, body)
        return
    sections = list(_SECTION.finditer(body))
    starts = [section.start() for section in sections] + [len(body)]
    _read_words(reading, place, body[: starts[0]])
    for section, end in zip(sections, starts[1:], strict=True):
        _read_section(reading, place, section, body[section.end() : end])


def _read_section(reading: Reading, place: Place, section: re.Match[str], text: str) -> None:
    name = _name(section[2].removesuffix(", failed"))
    if section[1] != "Tool call":
        told = Place(place.day, place.time, f"tool {name}")
        _read_output(reading, told, text, section[2].endswith(", failed"))
        return
    end = _end_of_json(text)
    arguments = " ".join(text[:end].split())
    reading.calls.append((name, arguments))
    if 2 < len(arguments) <= LONGEST and not _ONLY_FILE.fullmatch(arguments) and not orders(arguments):
        reading.add(Place(place.day, place.time, f"{place.role or 'assistant'} called {name}"), arguments, "call")
    _read_words(reading, place, text[end:])


def _end_of_json(text: str) -> int:
    try:
        return _JSON.raw_decode(text)[1]
    except (ValueError, RecursionError):
        return len(text.partition("\n")[0])


def _read_output(reading: Reading, place: Place, text: str, failed: bool = False) -> None:
    """The lines of a tool's output, or of code, that say something: alarms, results, prose, and the last one."""
    lines = _sampled(text, [found.span() for found in _LINE.finditer(text)])
    brief = len(text) <= LONGEST
    for start, end in harmless(text, _shortened(text, lines), by_user=False):
        line = text[start:end]
        telling = (failed or _ALARM.search(line) is not None) and not is_code(line)
        if telling or brief or end == lines[-1][1] or _PAIR.fullmatch(line) or is_prose(line):
            reading.add(place, line, "alarm" if telling else "output", failed=failed)


def _shortened(text: str, lines: list[Span]) -> Iterator[Span]:
    """The lines, and of those that do not end the first sentences."""
    for start, end in lines:
        if end - start <= LONGEST:
            yield start, end
        else:
            yield from sentences(text, start, min(end, start + MOST_OF_LINE))


def _sampled(text: str, spans: list[Span]) -> list[Span]:
    """Of a long output the beginning, the end and the lines that sound an alarm."""
    if len(spans) <= MOST_LINES:
        return spans
    third = MOST_LINES // 3
    alarming = [span for span in spans if _ALARM.search(text, span[0], min(span[1], span[0] + LONGEST))]
    return sorted({*spans[:third], *alarming[:third], *spans[-third:]})


def _read_words(reading: Reading, place: Place, text: str) -> None:
    """What somebody said. What stands in fences is code or a log, and read as a tool's output is."""
    fences = [found.start() for found in _FENCE.finditer(text)]
    borders = [0, *fences[: len(fences) // 2 * 2], len(text)]
    for nth, (start, end) in enumerate(pairwise(borders)):
        if nth % 2:
            _read_output(reading, place, text[start:end].strip("`"))
        else:
            _read_sentences(reading, place, text[start:end])


def _read_sentences(reading: Reading, place: Place, text: str) -> None:
    spans = list(harmless(text, sentences(text), by_user=place.role == "user"))
    for nth, (start, end) in enumerate(spans):
        reading.add(place, text[start:end], "said", ends=nth == len(spans) - 1)


def _read_summary(reading: Reading, place: Place, body: str) -> None:
    days: dict[str, str] = {}
    for line in _whole_lines(body):
        if line.startswith("Files:"):
            reading.files += _list(line)
        elif line.startswith("Expand for details about:"):
            reading.topics += _list(line)
        elif _DAY.fullmatch(line):
            place = Place(line)
            days[line[:10]] = line
        elif opened := _OPEN.fullmatch(line):
            day = days.get(opened[1] or "", opened[1] or place.day)
            _read_line(reading, Place(day, opened[2] or "", opened[3].replace(":", " ")), opened[4], "open")
        elif said := _SAID.fullmatch(line):
            place = Place(place.day, said[1] or place.time)
            _read_line(reading, Place(place.day, place.time, said[2] or said[4]), said[3] or said[5], "said")
        else:
            _read_line(reading, Place(place.day), line.removeprefix("- "), "said")


def _whole_lines(body: str) -> Iterator[str]:
    """The lines that say something, without those over which an order is spread."""
    spread = [span for span in orders(body) if "\n" in body[slice(*span)]]
    for span, ordering in held_against(spread, (line.span() for line in _LINE.finditer(body))):
        line = body[slice(*span)].strip()
        if line and not ordering:
            yield line


def _read_line(reading: Reading, place: Place, text: str, kind: str) -> None:
    if kind == "said" and place.role == "tool":
        kind = "output"
    elif " called " in place.who:
        kind = "call"
    for start, end in parts(text):
        piece = text[start:end]
        # What stood apart in the source of the summary must not look as if it had been said in one breath.
        reading.turns += text[start - 2 : start - 1] != "·"
        for first, last in harmless(piece, sentences(piece), by_user=place.role == "user"):
            reading.add(place, piece[first:last], kind)


def _list(line: str) -> list[str]:
    items = (item.strip() for item in line.partition(":")[2].split(","))
    return [item for item in items if item and item != "none"]
