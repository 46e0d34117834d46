"""Describe rows and columns: their number, the contents of each column, rows of the wrong width."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import StringIO

from lossless.engine.ingest.explore.compose import Fact, Several, named, plural, shown
from lossless.engine.ingest.explore.kinds import HEAD, delimiter
from lossless.engine.ingest.explore.lines import line_count

MOST_ROWS = 100_000
MOST_COLUMNS = 60
LONGEST_LINE = 1_000_000
MOST_CHARS = 8_000_000

_NAMES = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons", "|": "CSV with bars"}
_INTEGER = re.compile(r"[-+]?\d{1,40}")
_NUMBER = re.compile(r"[-+]?(?:\d{1,40}[.,]?\d{0,40}|\.\d{1,40})(?:[eE][-+]?\d{1,4})?%?")
_DATE = re.compile(r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d.{0,20})?|\d\d?[-/.]\d\d?[-/.]\d{4}(?: .{0,20})?")
_BOOLEANS = frozenset(("true", "false", "yes", "no", "t", "f"))


@dataclass(slots=True)
class _Table:
    """The result of one pass over the rows: the first rows, a sample of the others, and the widths."""

    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    whole: bool = False
    wrong: int = 0
    ragged: list[int] = field(default_factory=list)
    broken: int = 0
    count: int = 0


def describe_table(text: str, tabs: bool = False) -> list[Fact]:
    """Describe a delimited table, read by the csv module so that quoted newlines are not rows."""
    mark = delimiter(text[:HEAD].lstrip()) or ("\t" if tabs else ",")
    table = _read(text[:MOST_CHARS], mark)
    titled = _is_header(table.header)
    columns = max(len(table.header), _first_line(text).count(mark) + 1 if len(table.header) > MOST_COLUMNS else 0)
    facts: list[Fact] = [f"{_NAMES[mark]}, {_rows(text, table, titled)}, {plural(columns, 'column')}."]
    if table.ragged:
        lines = ", ".join(f"{line:,}" for line in table.ragged[:5])
        facts.append(f"{plural(table.wrong, 'row')} not {len(table.header):,} cells wide, first at line {lines}.")
    if table.broken:
        facts.append(f"Unreadable as a table in {plural(table.broken, 'place')} (a cell too long or a stray quote).")
    facts.append(Several("Columns", list(_columns(table, titled)), columns))
    first = table.rows[0] if table.rows else []
    return [*facts, f"First row: {shown(mark.join(first[:MOST_COLUMNS]).replace(chr(9), ' | '), 180)}"]


def _rows(text: str, table: _Table, titled: bool) -> str:
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    count = table.count - titled
    if not table.whole or len(text) > MOST_CHARS:
        return f"{size}, the first {plural(count, 'row')} read{' after a header' if titled else ''}"
    return f"{size}, {plural(count, 'row')} {'after a header' if titled else 'and no header'}"


def _read(text: str, mark: str) -> _Table:
    table = _Table()
    reader = csv.reader(_lines(text), delimiter=mark)
    for _ in range(MOST_ROWS):
        try:
            row = next(reader)
        except StopIteration:
            table.whole = True
            break
        except csv.Error:
            table.broken += 1
            continue
        if row:
            _take(table, row, reader.line_num)
    return table


def _take(table: _Table, row: list[str], line: int) -> None:
    width, count = len(row), table.count
    table.count += 1
    if not count:
        table.header = row
    elif width != len(table.header):
        table.wrong += 1
        table.ragged += [line] if table.wrong <= 5 else []
    # The first rows show the table, every 128th one after that tells whether the rest is like them.
    if 0 < count <= 200 or count % 128 == 1:
        table.rows.append(row[:MOST_COLUMNS])


def _lines(text: str) -> Iterable[str]:
    text = text.replace("\0", "") if "\0" in text else text
    return _cut_lines(text) if _has_long_line(text) else StringIO(text, newline="\n")


def _has_long_line(text: str) -> bool:
    starts = range(0, len(text) - LONGEST_LINE, LONGEST_LINE)
    return any(text.find("\n", at, at + LONGEST_LINE) < 0 for at in starts)


def _cut_lines(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        yield text[at : min(end, at + LONGEST_LINE)]
        at = end


def _first_line(text: str) -> str:
    start = text.lstrip("\n")
    return start[: start.find("\n")] if "\n" in start else start


def _is_header(row: list[str]) -> bool:
    cells = [cell.strip() for cell in row[:MOST_COLUMNS]]
    return len(set(cells)) == len(cells) and not any(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) for cell in cells)


def _columns(table: _Table, titled: bool) -> Iterator[str]:
    for index, title in enumerate(table.header[:MOST_COLUMNS]):
        rows = table.rows if titled else [table.header[:MOST_COLUMNS], *table.rows]
        cells = [row[index].strip() for row in rows if index < len(row)]
        name = named(title) if titled and title.strip() else f"#{index + 1}"
        yield f"{name} {_nature(cells)}"


def _nature(cells: list[str]) -> str:
    filled = [cell for cell in cells if cell]
    if not filled:
        return "(empty)"
    gaps = " with gaps" if len(filled) < len(cells) else ""
    kind = _kind(filled)
    different = Counter(filled)
    if kind == "text" and len(filled) >= 8 and len(different) <= 4:
        return "(" + " | ".join(shown(cell, 16) for cell in different) + gaps + ")"
    return f"({kind}{gaps}: {shown(filled[0], 24)})"


def _kind(cells: list[str]) -> str:
    if all(map(_INTEGER.fullmatch, cells)):
        return "integer"
    if all(map(_NUMBER.fullmatch, cells)):
        return "number"
    if all(map(_DATE.fullmatch, cells)):
        return "date"
    return "boolean" if all(cell.lower() in _BOOLEANS for cell in cells) else "text"
