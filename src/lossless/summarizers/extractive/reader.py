"""Parse a source into passages: time, speaker and text, sentence by sentence.

It reads the format of `lossless.engine.compaction.summary_source`, and that of `lossless.summarizers.extractive`
itself, which is the source of the next depth. Any other text becomes passages without a speaker.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from lossless.summarizers.extractive.passages import ParsedSource, Place, mark_overlaps, without_injections
from lossless.summarizers.extractive.sentences import LONGEST, Span, is_code, is_prose, parts, sentences
from lossless.summarizers.extractive.words import telling_words
from lossless.summarizers.injections import find_injections

MOST_LINES = 60
"""The maximum lines of one tool's output that are read."""
_NEARLY, _MOST_ASKED = 0.8, 3
"""The score of a line that was asked for in relation to the best, and the number of such lines."""
MOST_OF_LINE = 2_000
"""The maximum characters of one such line."""

_ENTRY = re.compile(r"^\[(\d{4}-\d\d-\d\d) (\d\d:\d\d) (\S+) \| ([^\n\]|]{1,160})(?: \| ([^\n\]|]{1,160}))?\]$", re.M)
_SPAN = re.compile(r"^\[(\d{4}-\d\d-\d\d [^\n\[\]]{1,80}|time unknown)\]$", re.M)
_SECTION = re.compile(r"^(Tool call|Tool result|Record) \(([^()\n]{1,200})\): ?", re.M)
_DAY = re.compile(
    r"\d{4}-\d\d-\d\d(?:(?: - (?:\d{4}-)?\d\d-\d\d)?(?: \([^()\n]{1,40}\))?| \d\d:\d\d(?: [^\s:]{1,12})?(?: - [\d: -]{5,17}(?: [^\s:]{1,12})?)?)?|time unknown"
)
_SAID = re.compile(r"(\d\d:\d\d) ([^:\n]{1,80}): (.*)|((?:user|assistant|system|tool)(?: [^:\n]{1,80})?): (.*)", re.S)
_OPEN = re.compile(r"Open: \[(\d{4}-\d\d-\d\d)? ?(\d\d:\d\d)?(?: \| )?([^\n\]|]{0,80})\] ?(.*)", re.S)
_MARKED = re.compile(r"(Goal|Rule|Next): ")
_FENCE = re.compile(r"^[ \t]*```", re.M)
_LINE = re.compile(r"[^\n]+")
_RECORD = re.compile(r"\{([^{}]{3,400})\}")
_JSON = json.JSONDecoder()
_ALARM = re.compile(
    r"\b(?:errors?|fail(?:ed|ure|s)?|exception|traceback|fatal|denied|refused|timed? ?out|panic|cannot|could not|invalid|missing|conflict|"
    r"not found|warning|aborted|rejected|overdue|unavailable|passed|total|summary|completed|confirmed|exited|elapsed)\b|错误|失败|エラー",
    re.I,
)
_PAIR = re.compile(r'\s*"[\w .-]{1,40}": ?(?:"[^"\n]{1,120}"|-?[\d.]{1,24}|true|false),?')
_ONLY_FILE = re.compile(r"(?:file_?)?path: [^;\n]*(?:; (?:offset|limit): \d+)*")


def read_source(source: str, depth: int) -> ParsedSource:
    """Parse a source; prompt injections are left out."""
    parsed = ParsedSource()
    header = _ENTRY if depth == 0 else _SPAN
    heads = list(header.finditer(source))
    starts = [head.start() for head in heads] + [len(source)]
    if source[: starts[0]].strip():
        _read_body(parsed, Place(), source[: starts[0]], depth)
    for head, end in zip(heads, starts[1:], strict=True):
        _read_body(parsed, _place(head, depth), source[head.end() : end], depth)
    return parsed


def _place(head: re.Match[str], depth: int) -> Place:
    if depth > 0:
        return Place(head[1])
    return Place(f"{head[1]} ({head[3]})", head[2], " ".join(map(_name, filter(None, (head[4], head[5])))))


def _name(given: str) -> str:
    """Return a name without colons; `unknown` if it is an injected sentence."""
    name = " ".join(given.replace(":", " ").split())
    return "unknown" if " " in name and find_injections(name) else name


def _read_body(parsed: ParsedSource, place: Place, body: str, depth: int) -> None:
    parsed.turns += 1
    if depth > 0:
        _read_summary(parsed, place, body)
        return
    sections = list(_SECTION.finditer(body))
    starts = [section.start() for section in sections] + [len(body)]
    _read_words(parsed, place, body[: starts[0]])
    if place.role == "user":
        parsed.request = telling_words(body[: starts[0]])
    for section, end in zip(sections, starts[1:], strict=True):
        _read_section(parsed, place, section, body[section.end() : end])


def _read_section(parsed: ParsedSource, place: Place, section: re.Match[str], text: str) -> None:
    name = _name(section[2].removesuffix(", failed"))
    if section[1] != "Tool call":
        output = Place(place.day, place.time, f"tool {name}")
        _read_output(parsed, output, text, section[2].endswith(", failed"))
        return
    end = _end_of_json(text)
    arguments = " ".join(text[:end].split())
    parsed.calls.append((name, arguments))
    if 2 < len(arguments) <= LONGEST and not _ONLY_FILE.fullmatch(arguments) and not find_injections(arguments):
        parsed.add(Place(place.day, place.time, f"{place.role or 'assistant'} called {name}"), arguments, "call")
    _read_words(parsed, place, text[end:])


def _end_of_json(text: str) -> int:
    try:
        return _JSON.raw_decode(text)[1]
    except (ValueError, RecursionError):
        return len(text.partition("\n")[0])


def _read_output(parsed: ParsedSource, place: Place, text: str, failed: bool = False) -> None:
    """Read the important lines of a tool's output or of code: what was asked for, alarms, results, prose, the last one."""
    spans = _output_lines(text)
    asked = _asked_for(text, spans, parsed.request) if place.role == "tool" else set()
    lines = _sample(text, spans, asked)
    brief = len(text) <= LONGEST
    for start, end in without_injections(text, _shorten(text, lines), by_user=False):
        line = text[start:end]
        is_alarm = (failed or _ALARM.search(line) is not None) and not is_code(line)
        kind = "asked" if (start, end) in asked else "alarm" if is_alarm else "output"
        if kind != "output" or brief or end == lines[-1][1] or _PAIR.fullmatch(line) or is_prose(line):
            parsed.add(place, line, kind, failed=failed)


def _output_lines(text: str) -> list[Span]:
    """Return the lines of an output; the flat records of JSON count as lines."""
    if text.lstrip()[:1] not in ("{", "["):
        return [found.span() for found in _LINE.finditer(text)]
    records = [found.span(1) for found in _RECORD.finditer(text)]
    return records or [found.span() for found in _LINE.finditer(text)]


def _asked_for(text: str, lines: list[Span], request: frozenset[str]) -> set[Span]:
    """Return the lines that contain the words of the user's request, if they are few."""
    if not request or len(lines) < 2:
        return set()
    low = text.lower()
    found = [[word for word in request if word in low[start : min(end, start + MOST_OF_LINE)]] for start, end in lines]
    spread = Counter(word for words in found for word in words)
    few = max(2, len(lines) // 8)
    scores = [
        sum(spread[word] ** -0.5 for word in words) if any(spread[word] <= few for word in words) else 0.0
        for words in found
    ]
    best = max(scores)
    chosen = {line for line, score in zip(lines, scores, strict=True) if score >= _NEARLY * best > 0}
    return chosen if len(chosen) <= _MOST_ASKED else set()


def _shorten(text: str, lines: list[Span]) -> Iterator[Span]:
    """Yield the lines, and of very long ones the first sentences."""
    for start, end in lines:
        if end - start <= LONGEST:
            yield start, end
        else:
            yield from sentences(text, start, min(end, start + MOST_OF_LINE))


def _sample(text: str, spans: list[Span], asked: set[Span]) -> list[Span]:
    """Return the beginning, the end, the alarms of a long output, and what was asked for."""
    if len(spans) <= MOST_LINES:
        return spans
    third = MOST_LINES // 3
    alarming = [span for span in spans if _ALARM.search(text, span[0], min(span[1], span[0] + LONGEST))]
    return sorted({*spans[:third], *alarming[:third], *spans[-third:], *asked})


def _read_words(parsed: ParsedSource, place: Place, text: str) -> None:
    """Read the text of a turn. Fenced blocks are code or a log, and read like a tool's output."""
    fences = [found.start() for found in _FENCE.finditer(text)]
    borders = [0, *fences[: len(fences) // 2 * 2], len(text)]
    for nth, (start, end) in enumerate(pairwise(borders)):
        if nth % 2:
            _read_output(parsed, place, text[start:end].strip("`"))
        else:
            _read_sentences(parsed, place, text[start:end])


def _read_sentences(parsed: ParsedSource, place: Place, text: str) -> None:
    spans = list(without_injections(text, sentences(text), by_user=place.role == "user"))
    for nth, (start, end) in enumerate(spans):
        parsed.add(place, text[start:end], "said", ends=nth == len(spans) - 1)


def _read_summary(parsed: ParsedSource, place: Place, body: str) -> None:
    days: dict[str, str] = {}
    for line in _safe_lines(body):
        if line.startswith("Files:"):
            parsed.files += _list(line)
        elif line.startswith("Expand for details about:"):
            parsed.topics += _list(line)
        elif _DAY.fullmatch(line):
            place = Place(line)
            days[line[:10]] = line
        elif marked := _MARKED.match(line):
            _read_line(parsed, Place(place.day, "", "user"), line[marked.end() :], marked[1].lower())
        elif opened := _OPEN.fullmatch(line):
            day = days.get(opened[1] or "", opened[1] or place.day)
            _read_line(parsed, Place(day, opened[2] or "", opened[3].replace(":", " ")), opened[4], "open")
        elif said := _SAID.fullmatch(line):
            place = Place(place.day, said[1] or place.time)
            _read_line(parsed, Place(place.day, place.time, said[2] or said[4]), said[3] or said[5], "said")
        else:
            _read_line(parsed, Place(place.day), line.removeprefix("- "), "said")


def _safe_lines(body: str) -> Iterator[str]:
    """Yield the lines that are not empty and not part of an injection over several lines."""
    spread = [span for span in find_injections(body) if "\n" in body[slice(*span)]]
    for span, injected in mark_overlaps(spread, (line.span() for line in _LINE.finditer(body))):
        line = body[slice(*span)].strip()
        if line and not injected:
            yield line


def _read_line(parsed: ParsedSource, place: Place, text: str, kind: str) -> None:
    if kind == "said" and place.role == "tool":
        kind = "output"
    elif " called " in place.who:
        kind = "call"
    for start, end in parts(text):
        piece = text[start:end]
        # Passages that were apart in the source of the summary must not look adjacent.
        parsed.turns += text[start - 2 : start - 1] != "·"
        for first, last in without_injections(piece, sentences(piece), by_user=place.role == "user"):
            parsed.add(place, piece[first:last], kind)


def _list(line: str) -> list[str]:
    items = (item.strip() for item in line.partition(":")[2].split(","))
    return [item for item in items if item and item != "none"]
