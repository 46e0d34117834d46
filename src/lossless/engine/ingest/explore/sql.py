"""Describe SQL scripts and dumps: the tables they create and the rows they insert."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from lossless.engine.ingest.explore.compose import Fact, Several, counted, named, plural
from lossless.engine.ingest.explore.lines import Ruler, beginning, line_count, unread

MOST_STATEMENTS = 150_000
MOST_COPIES = 500
MOST_TABLES = 40

_WORD = r'(?:"[^"\n]{1,80}"|`[^`\n]{1,80}`|\[[^\]\n]{1,80}\]|[\w$]{1,80})'
_NAME = rf"({_WORD}(?:\.{_WORD}){{0,2}})"
_GAP = r"\s{1,9}"
_KINDS = frozenset(
    (
        *("CREATE", "INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "ALTER", "DROP", "COPY", "GRANT", "REVOKE", "SET"),
        *("BEGIN", "COMMIT", "TRUNCATE", "MERGE", "REPLACE", "COMMENT", "PRAGMA", "USE", "LOCK", "UNLOCK", "CALL"),
    )
)
_STATEMENT = re.compile(r"[\n;][ \t]{0,40}+([A-Za-z]{3,8}+)\b([^(;\n]{0,80})")
_INSERT = re.compile(rf"(?:INSERT|REPLACE){_GAP}(?:\w{{1,9}}{_GAP}){{0,2}}?INTO{_GAP}{_NAME}", re.I)
_CREATE = re.compile(
    rf"CREATE{_GAP}(?:(?:OR{_GAP}REPLACE|GLOBAL|LOCAL|TEMP(?:ORARY)?|UNIQUE|UNLOGGED|VIRTUAL){_GAP}){{0,2}}(\w{{1,20}})",
    re.I,
)
_NEW_TABLE = re.compile(r"[\n;][ \t]{0,40}+(CREATE\s[^(;]{0,60}?\bTABLE)\b", re.I)
_TABLE = re.compile(rf"{_GAP}(?:IF{_GAP}NOT{_GAP}EXISTS{_GAP})?{_NAME}\s{{0,9}}", re.I)
_COPY = re.compile(rf"\nCOPY{_GAP}{_NAME}[^;]{{0,2000}}?\bFROM{_GAP}stdin[^;]{{0,200}};(?=\n)", re.I)
_TOKEN = re.compile(
    r"'[^']{0,300}'|\"[^\"]{0,80}\"|`[^`]{0,80}`|\[[^\]]{0,80}\]|--[^\n]{0,300}|[(),]|[^\s'\"`\[(),-]{1,80}|\S"
)
_CONSTRAINTS = frozenset(("CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "KEY", "INDEX", "EXCLUDE", "LIKE"))


class _Copy(NamedTuple):
    """Rows after a COPY statement, as offsets of their first and last newline."""

    table: str
    start: int
    end: int


def describe_sql(text: str) -> list[Fact]:
    """Return the statements by kind, the tables with columns and lines, and the rows per table."""
    part = _readable(text)
    copies = list(_copies(part)) if "stdin" in part or "STDIN" in part else []
    kinds, rows = _counted(part, copies)
    created, padded = kinds["CREATE TABLE"], "\n" + part
    ruler = Ruler(part)
    tables = [
        _created(part, found.start(1) - 1, ruler)
        for found in islice(_NEW_TABLE.finditer(padded), min(created, MOST_TABLES))
    ]
    listed = counted((named(name), count) for name, count in rows.most_common(20))
    size = f"{plural(len(text), 'character')} on {plural(line_count(text), 'line')}"
    return [
        f"SQL, {size}, {plural(kinds.total(), 'statement')}.",
        *unread(text, part),
        Several("Statements", counted(kinds.most_common(12))),
        Several("Tables created", list(filter(None, tables)), created, "\n- "),
        Several("Inserts or copied rows", listed, len(rows)),
    ]


def _readable(text: str) -> str:
    part = beginning(text, MOST_STATEMENTS)
    return part[: len(part) * MOST_STATEMENTS // max(MOST_STATEMENTS, part.count(";"))]


def _counted(text: str, copies: list[_Copy]) -> tuple[Counter[str], Counter[str]]:
    kinds: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for (word, rest), count in _openings(text, copies).items():
        word = word.upper()
        if word not in _KINDS:
            continue
        if word in ("INSERT", "REPLACE") and (found := _INSERT.match(word + rest)):
            rows[_bare(found[1])] += count
        made = _CREATE.match(word + rest) if word == "CREATE" else None
        kinds[f"CREATE {made[1].upper()}" if made else word] += count
    for copy in copies:
        rows[copy.table] += text.count("\n", copy.start, copy.end)
    return kinds, rows


def _openings(text: str, copies: list[_Copy]) -> Counter[tuple[str, str]]:
    # A dump repeats one opening thousands of times: counting equal ones first leaves little to look into.
    # Copied rows may look like statements, so they are stepped over.
    padded, openings, at = "\n" + text, Counter[tuple[str, str]](), 0
    for copy in copies:
        openings.update(_STATEMENT.findall(padded, at, copy.start + 1))
        at = copy.end + 1
    openings.update(_STATEMENT.findall(padded, at))
    return openings


def _copies(text: str) -> Iterator[_Copy]:
    at = 0
    for _ in range(MOST_COPIES):
        found = _COPY.search(text, at)
        if not found:
            return
        end = text.find("\n\\.", found.end())
        at = len(text) if end < 0 else end
        yield _Copy(_bare(found[1]), found.end(), at)


def _created(text: str, at: int, ruler: Ruler) -> str:
    made = _CREATE.match(text, at, at + 200)
    name = _TABLE.match(text, made.end(), made.end() + 400) if made else None
    if not name:
        return ""
    columns = list(islice(_columns(text[name.end() : name.end() + 4_000]), 13))
    more = ", …" if len(columns) > 12 else ""
    return f"{named(_bare(name[1]))} (line {ruler.line(at):,}): {', '.join(columns[:12])}{more}"


def _columns(body: str) -> Iterator[str]:
    depth, fresh = 0, False
    for piece in _TOKEN.findall(body):
        if piece == "(":
            depth, fresh = depth + 1, depth == 0
        elif piece == ")":
            depth -= 1
        elif piece == "," and depth == 1:
            fresh = True
        elif fresh and not piece.startswith("--"):
            fresh = False
            if piece.upper() not in _CONSTRAINTS:
                yield named(_bare(piece), 30)
        if depth <= 0:
            return


def _bare(name: str) -> str:
    return re.sub(r"[\"`\[\]]", "", name)
