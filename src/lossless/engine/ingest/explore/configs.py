"""Describe YAML and TOML: the top-level keys, their contents and their lines."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter

from lossless.engine.ingest.explore.compose import Fact, Several, named, number, plural, shown
from lossless.engine.ingest.explore.lines import MOST_HITS, beginning, hits, line_count, unread

MOST_KEYS = 2_000
SHOWN_KEYS = 60
YAML_LINES = 600_000

_YAML_KEY = re.compile(
    r"\n(\"[^\"\n]{1,100}\"|'[^'\n]{1,100}'|[^\s#\-\[{\"'][^\n:#]{0,100}):(?=[ \t\n]|$)([^\n]{0,120})"
)
_YAML_ITEM = re.compile(r"\n- ([^\n]{0,100})")
_DOCUMENT = re.compile(r"\n---(?=[ \t\n]|$)")
_CHILD = re.compile(r"\n([ \t]{1,40})(- |[^\s#])")
_TOML_TABLE = re.compile(r"\n[ \t]{0,20}+(\[{1,2})([^\]\n]{1,120})\]")
_TOML_KEY = re.compile(r"\n[ \t]{0,20}+([^\s#=\[\n][^=\n]{0,100}+)=[ \t]{0,20}+([^\n]{0,120})")


def describe_yaml(text: str) -> list[Fact]:
    """Return the top-level keys or items, found by indentation; anchors and tags stay as written."""
    part = beginning(text, YAML_LINES)
    documents = max(1, sum(1 for _ in hits(_DOCUMENT, part)) + (not part.lstrip().startswith("---")))
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    keys, total = _yaml_keys(part)
    items = [f"line {line:,}: {shown(found[1], 60)}" for line, found in hits(_YAML_ITEM, part, MOST_KEYS)]
    return [
        f"YAML, {size}, {plural(documents, 'document')}.",
        *unread(text, part),
        Several("Top-level keys", keys, total, "\n- "),
        Several(f"Top-level items ({number(len(items), MOST_KEYS)})", items, 0, "\n- ", spread=True),
    ]


def describe_toml(text: str) -> list[Fact]:
    """Return the tables with their lines and number of keys, after the keys outside of any table."""
    part = beginning(text)
    tables, keys = list(hits(_TOML_TABLE, part)), list(hits(_TOML_KEY, part))
    titles, different = _tables(tables, keys)
    first = tables[0][0] if tables else line_count(part) + 1
    loose = [f"{named(key[1].strip())} = {shown(key[2], 30)}" for line, key in keys if line < first]
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    return [
        f"TOML or INI, {size}, {plural(len(tables), 'table', MOST_HITS)}, {plural(len(keys), 'key', MOST_HITS)}.",
        *unread(text, part),
        Several("Keys before any table", loose[:SHOWN_KEYS], len(loose)),
        Several("Tables", titles, different, "\n- "),
    ]


def _yaml_keys(text: str) -> tuple[list[str], int]:
    found = list(hits(_YAML_KEY, text, MOST_KEYS))
    ends = [match.start() for _, match in found[1:]] + [len(text) + 1] * bool(found)
    times = Counter(_key(match) for _, match in found)
    firsts = {_key(match): (line, match, end) for (line, match), end in reversed(list(zip(found, ends, strict=True)))}
    padded, lines = "\n" + text, []
    for key in list(times)[:SHOWN_KEYS]:
        line, match, end = firsts[key]
        often = f" {times[key]:,} times," if times[key] > 1 else ""
        held = _held(match[2].strip(), padded, match.end(), end)
        lines.append(f"{named(key)} ({often.strip()}{' first at ' if often else ''}line {line:,}): {held}")
    return lines, len(times)


def _key(match: re.Match[str]) -> str:
    return match[1].strip().strip("\"'")


def _held(value: str, text: str, start: int, end: int) -> str:
    if value and not value.startswith(("#", "|", ">", "&", "!")):
        return shown(value, 40)
    if value.startswith(("|", ">")):
        return f"text of {plural(_height(text, start, end), 'line')}"
    child = _CHILD.search(text, start, end)
    listed = "\n- " if text.startswith("\n- ", start) else f"\n{child[1]}- " if child and child[2] == "- " else ""
    if listed:
        return f"list of {plural(text.count(listed, start, end), 'item')}"
    return _mapping(text, start, end, child[1]) if child else "empty"


def _height(text: str, start: int, end: int) -> int:
    return text.count("\n", start, end) - text.endswith("\n", start, end)


def _mapping(text: str, start: int, end: int, indent: str) -> str:
    pattern = re.compile(rf"\n{re.escape(indent)}([^\s#\-:][^\n:]{{0,60}}):(?=[ \t\n]|$)")
    keys = [match[1] for match in pattern.finditer(text, start, min(end, start + 500_000))]
    inside = ", ".join(named(key.strip("\"'"), 24) for key in keys[:5])
    more = f", {len(keys) - 5:,} more" if len(keys) > 5 else ""
    return f"{{{inside}{more}}}" if keys else plural(_height(text, start, end), "line")


def _tables(tables: list[tuple[int, re.Match[str]]], keys: list[tuple[int, re.Match[str]]]) -> tuple[list[str], int]:
    times = Counter(_title(table) for _, table in tables)
    places: dict[str, int] = {}
    for line, table in tables:
        places.setdefault(_title(table), line)
    lines = [line for line, _ in tables]
    shown_tables = []
    for title in list(times)[:SHOWN_KEYS]:
        start = places[title]
        end = next(iter(lines[bisect_right(lines, start) :]), sys.maxsize)
        often = f"{times[title]:,} times, first at " if times[title] > 1 else ""
        shown_tables.append(f"{shown(title, 44)} ({often}line {start:,}): {_inside(keys, start, end)}")
    return shown_tables, len(times)


def _title(table: re.Match[str]) -> str:
    return f"{table[1]}{table[2].strip()}{']' * len(table[1])}"


def _inside(keys: list[tuple[int, re.Match[str]]], start: int, end: int) -> str:
    first = bisect_right(keys, start, key=lambda key: key[0])
    last = bisect_left(keys, end, key=lambda key: key[0])
    names = ", ".join(named(key[1].strip(" \t\"'"), 24) for _, key in keys[first : min(last, first + 5)])
    return names + (f", {last - first - 5:,} more" if last - first > 5 else "")
