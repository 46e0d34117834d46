"""Describe JSON and JSON Lines: the shape of the values, their keys and numbers of elements."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lossless.engine.ingest.explore.compose import Fact, Several, counted, named, number, plural, shown
from lossless.engine.ingest.explore.lines import Ruler, line_at, line_count, line_from, sample

MOST_PARSED = 16_000_000
MOST_CONTAINERS = 300_000
MOST_POINTS = 600_000
MOST_WALKED = 500_000
MOST_STEPS = 10_000
DEPTH = 2
KEYS = 40
RECORDS = 2_000
LONGEST_RECORD = 100_000
MOST_SAMPLED = 6_000_000
NEWLINE = "\n"

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

_DECODER = json.JSONDecoder(strict=False)
_CAREFUL = json.JSONDecoder(strict=False, parse_int=float)
_SPACE = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")


def describe_json(text: str) -> list[Fact]:
    """Describe one JSON value, as far as it can be parsed if it is broken, cut short or too large."""
    if _is_heavy(text):
        return _walked(text, "too large to parse whole, so described from its beginning")
    try:
        return _parsed(text, _loads(text))
    except json.JSONDecodeError as error:
        return _walked(
            text, f"not valid JSON: {error.msg.removesuffix(' at')} at line {error.lineno:,} column {error.colno:,}"
        )
    except RecursionError:
        return _walked(text, "nested too deeply to parse")


def describe_jsonl(text: str) -> list[Fact]:
    """Describe one JSON value per line: the keys, how many records have them, and their values."""
    lines, whole = _record_lines(text)
    values, bad = _records(lines)
    seen = "" if whole else f" in {len(lines):,} sampled records"
    facts: list[Fact] = [f"JSON Lines, {_size(text)}" + (f", {plural(len(lines), 'record')}." if whole else ".")]
    if bad:
        facts.append(f"Not JSON: {plural(len(bad), 'line')}{seen}, the first is line {line_at(text, bad[0]):,}.")
    others = Counter(_type(value) for value in values if not isinstance(value, dict))
    facts.append(Several("Records that are not objects", counted(others.most_common(6))))
    records = [value for value in values if isinstance(value, dict)]
    facts.append(Several(f"Keys{seen}", list(_keys(records)), _key_total(records)))
    facts.append(f"First record: {shown(line_from(text.lstrip(), 0), 140)}")
    facts.append(f"Last record: {shown(line_from(text, text.rstrip().rfind(NEWLINE) + 1), 100)}")
    return facts


def shape(value: Json, depth: int = DEPTH) -> str:
    """Return a value's type, keys and lengths, to a limited depth."""
    if isinstance(value, dict):
        return _object_shape(value, depth)
    if isinstance(value, list):
        return f"array of {_elements(value, depth)}"
    if isinstance(value, str):
        return f"string of {len(value):,} characters" if len(value) > 200 else "string"
    return _type(value)


def _is_heavy(text: str) -> bool:
    containers, points = text.count("[") + text.count("{"), text.count(".")
    return len(text) > MOST_PARSED or containers > MOST_CONTAINERS or points > MOST_POINTS


def _loads(text: str) -> Json:
    try:
        return _value(_DECODER.decode(text))
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python refuses to read an integer of thousands of digits; its size is all we need.
        return _value(_CAREFUL.decode(text))


def _value(value: Json) -> Json:
    return value


def _parsed(text: str, value: Json) -> list[Fact]:
    if isinstance(value, dict):
        return [f"JSON object with {plural(len(value), 'key')}, {_size(text)}.", *_object_facts(text, value)]
    if isinstance(value, list):
        return [f"JSON array of {plural(len(value), 'element')}, {_size(text)}.", *_array_facts(value)]
    return [f"JSON {_type(value)}, {_size(text)}.", f"Value: {shown(str(value), 300)}"]


def _object_facts(text: str, value: dict[str, Json]) -> list[Fact]:
    keys = list(value)[:KEYS]
    place = _places(text, keys)
    depth = DEPTH + 1 if len(keys) <= 12 else DEPTH
    lines = [f"{named(key)}{place.get(key, '')}: {_member(value[key], depth)}" for key in keys]
    return [Several("Keys", lines, len(value), "\n- ")]


def _member(value: Json, depth: int) -> str:
    if isinstance(value, dict | list | bool | None) or (isinstance(value, str) and len(value) > 200):
        return shape(value, depth)
    return f"{_type(value)} {_literal(value, 30)}"


def _array_facts(value: Sequence[Json]) -> list[Fact]:
    picked = _spread(value)
    objects = [element for element in picked if isinstance(element, dict)]
    kinds = Counter(map(_type, picked))
    facts: list[Fact] = []
    if len(kinds) > 1:
        facts.append(Several("Types" + _among(picked, value), counted(kinds.most_common(6))))
    if objects:
        label = "Keys of its objects" + _among(picked, value)
        facts.append(Several(label, list(_keys(objects)), _key_total(objects)))
    elif value and not objects:
        facts.append(f"Elements: {_elements(value, DEPTH)}")
    ends = {"First": value[0], "Last": value[-1]} if len(value) > 1 else {"Only": value[0]} if value else {}
    return facts + [f"{label} element: {_literal(element, 150)}" for label, element in ends.items()]


def _among(picked: Sequence[Json], value: Sequence[Json]) -> str:
    return "" if len(picked) == len(value) else f" ({len(picked):,} sampled)"


def _spread(value: Sequence[Json], most: int = 500) -> Sequence[Json]:
    if len(value) <= most:
        return value
    # A prime stride inside each interval, so that a pattern repeating in the data cannot hide from the sample.
    step = len(value) // most
    return [value[index * step + index * 7_919 % step] for index in range(most)]


def _keys(records: Sequence[dict[str, Json]]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(list(record)[:KEYS])
    for key, count in counts.most_common(KEYS):
        share = "" if count == len(records) else f" in {100 * count / len(records):.2g}%"
        yield f"{named(key)}{share} {_seen([record[key] for record in records if key in record])}"


def _key_total(records: Iterable[dict[str, Json]]) -> int:
    return len({key for record in records for key in list(record)[:200]})


def _seen(values: list[Json]) -> str:
    types = Counter(map(_type, values))
    name = "/".join(sorted(types)) if len(types) <= 3 else "mixed"
    words = Counter(value for value in values if isinstance(value, str) and len(value) <= 24)
    if len(values) >= 10 and len(words) <= 5 and words.total() == len(values):
        return f"({' | '.join(counted((shown(word, 24) or 'empty', count) for word, count in words.most_common()))})"
    first = next((value for value in values if value is not None), None)
    if isinstance(first, dict | list):
        return f"({shape(first, 1)})"
    return f"({name})" if first is None or isinstance(first, bool) else f"({name}: {_literal(first, 24)})"


def _object_shape(value: dict[str, Json], depth: int) -> str:
    if depth <= 0 or not value:
        return f"object with {plural(len(value), 'key')}"
    parts = []
    for key in list(value)[:8]:
        inner = value[key]
        nested = isinstance(inner, dict | list) and depth > 1
        parts.append(f"{named(key, 30)}: {shape(inner, depth - 1)}" if nested else named(key, 30))
    more = f", {len(value) - 8:,} more" if len(value) > 8 else ""
    return "{" + ", ".join(parts) + more + "}"


def _elements(value: Sequence[Json], depth: int) -> str:
    kinds = Counter(map(_type, _spread(value)))
    if not value:
        return "0"
    if len(kinds) > 1:
        return f"{len(value):,}, mixed " + "/".join(kind for kind, _ in kinds.most_common(4))
    [kind] = kinds
    first = value[0]
    inner = f" like {shape(first, depth - 1)}" if kind in ("object", "array") and depth > 1 else ""
    return plural(len(value), kind) + inner


def _type(value: Json) -> str:
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "boolean"
        case None:
            return "null"
        case int():
            return "integer"
        case _:
            return "number"


def _literal(value: Json, most: int) -> str:
    if isinstance(value, str):
        return f'"{shown(value, most)}"'
    if isinstance(value, dict | list):
        return shown(_sketch(value), most)
    return shown(f"{value!r:.60}" if not isinstance(value, int) or abs(value) < 10**50 else "a huge integer", most)


def _sketch(value: Json, depth: int = 3) -> str:
    if isinstance(value, dict):
        inner = (f"{named(key)}: {_sketch(item, depth - 1)}" for key, item in list(value.items())[:12])
        return "{" + ", ".join(inner) + "}" if depth else "{…}"
    if isinstance(value, list):
        return "[" + ", ".join(_sketch(item, depth - 1) for item in value[:6]) + "]" if depth else "[…]"
    return _literal(value, 40)


def _places(text: str, keys: Sequence[str]) -> dict[str, str]:
    indent = re.match(r"\s*\{[ \t]*(\n[ \t]*)\"", text[:2_000])
    if not indent:
        return {}
    found = {key: text.find(f"{indent[1]}{json.dumps(key, ensure_ascii=False)}:") for key in keys[:24]}
    ruler = Ruler(text)
    return {key: f" (line {ruler.line(at + 1):,})" for key, at in found.items() if at >= 0}


def _record_lines(text: str) -> tuple[list[tuple[int, str]], bool]:
    lines, whole = sample(text, RECORDS, width=LONGEST_RECORD)
    kept = [(at, line) for at, line in lines if len(line) < LONGEST_RECORD and not line.isspace()]
    step = sum(len(line) for _, line in kept) // MOST_SAMPLED + 1
    return kept[::step], whole and step == 1


def _records(lines: Iterable[tuple[int, str]]) -> tuple[list[Json], list[int]]:
    values: list[Json] = []
    bad: list[int] = []
    for offset, line in lines:
        try:
            values.append(_loads(line))
        except (ValueError, RecursionError):
            bad.append(offset)
    return values, bad


def _size(text: str) -> str:
    return f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"


@dataclass(slots=True)
class _Seen:
    """The contents of one container up to where a walk had to stop."""

    opening: str
    path: str
    at: int
    stopped_in: str = ""
    members: Counter[str] = field(default_factory=Counter)
    count: int = 0


def _walked(text: str, why: str) -> list[Fact]:
    start = _after(_SPACE, text, 0)
    facts: list[Fact] = [f"JSON, {_size(text)}, {why}."]
    for seen in _walk(text[:MOST_WALKED], start):
        label = "Keys" if seen.opening == "{" else "Elements"
        where = f" of {shown(seen.path, 60)}" if seen.path else ""
        separator = "\n- " if seen.opening == "{" else "; "
        members = [
            f"{number(count, MOST_STEPS)} x {member}" if count > 1 else member for member, count in seen.members.items()
        ]
        facts.append(Several(f"{label}{where} that could be read", members, 0, separator))
    return [*facts, f"Begins: {shown(text[start : start + 400], 120)}", f"Ends: {shown(text[-300:], 100)}"]


def _walk(text: str, at: int) -> Iterator[_Seen]:
    path = ""
    for _ in range(3):
        if text[at : at + 1] not in ("{", "["):
            return
        seen = _Seen(text[at], path, at + 1)
        _step_through(text, seen)
        yield seen
        if seen.opening == "[" and seen.count:
            return
        at, path = seen.at, f"{path} > {seen.stopped_in}".strip("> ")


def _step_through(text: str, seen: _Seen) -> None:
    try:
        while seen.count < MOST_STEPS:
            seen.at = _after(_SPACE, text, seen.at)
            key = _key(text, seen) if seen.opening == "{" else ""
            value, seen.at = _DECODER.raw_decode(text, seen.at)
            seen.count += 1
            member = key + shape(value, 1)
            if member in seen.members or len(seen.members) < KEYS:
                seen.members[member] += 1
    except (ValueError, RecursionError):
        return


def _key(text: str, seen: _Seen) -> str:
    key, end = _DECODER.raw_decode(text, seen.at)
    seen.at, seen.stopped_in = _after(_COLON, text, end), str(key)
    return f"{named(str(key))}: "


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
