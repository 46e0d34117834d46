"""Stored text as a terminal may show it: escaped, cut to its width, in columns."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple, TypeAlias

import click
from msgspec import Struct

# Lines and tabs may pass; other control characters, and those that turn the direction of writing, would be obeyed.
_UNSAFE = re.compile(
    r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
_NARROWEST = 20
_NUMBER = re.compile(r"[-+$]?[\d,.]*%?")
_WHOLE = re.compile(r"[-+$#]?[\d,.]*%?|[a-z]+[_#][0-9a-f]+|\d{4}-\d\d-\d\d[\d: ]*")
"""What says something else once it is cut: numbers, ids, times."""


class Paint(NamedTuple):
    """Words in a colour. Where there are no colours they are only words."""

    text: str
    colour: str | None = None
    bold: bool = False
    dim: bool = False


Line: TypeAlias = str | Paint | Sequence[str | Paint]
"""A line of an answer: words, or pieces of which some are painted. Whoever prints it makes it safe."""


def safe(text: str) -> str:
    """The text with its control characters escaped, as in `\\x1b`."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def flat(text: str) -> str:
    """A name on one line, whatever it holds."""
    return safe(text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))


def painted(line: Line) -> str:
    """A line with its colours as a terminal reads them, and everything else in it escaped."""
    pieces = (line,) if isinstance(line, str | Paint) else line
    return "".join(safe(piece) if isinstance(piece, str) else _painted(piece) for piece in pieces)


def _painted(piece: Paint) -> str:
    return click.style(safe(piece.text), fg=piece.colour, bold=piece.bold or None, dim=piece.dim or None)


def diffed(text: str) -> Iterator[Line]:
    """A unified diff, in its colours."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines():
        is_head = line.startswith(("+++", "---"))
        yield Paint(line, None if is_head else colours.get(line[:1]), bold=is_head)


def width() -> int:
    """How many columns there are; 100 where nobody says."""
    return max(_NARROWEST, shutil.get_terminal_size((100, 24)).columns)


def one_line(text: str, columns: int) -> str:
    """The beginning of a text on one line of so many columns."""
    flat = safe(" ".join(text[: 4 * columns + 40].split()))
    if _columns(flat) <= columns and len(text) <= 4 * columns + 40:
        return flat
    return f"{_cut(flat, columns - 1)}…"


def _columns(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_wide, text))


def _wide(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cut(text: str, columns: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += _wide(char)
        if taken > columns:
            return text[:at]
    return text


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, least: Sequence[str] = ()) -> Iterator[Line]:
    """Rows in columns below their heads, as many as the terminal has room for; what looks like a number stands to the right.

    Long texts give way first. Then columns leave: those that `least` names, in that order, then from the right; one stays.
    Numbers, ids and times are never cut.
    """
    lines = [[one_line(cell, 400) for cell in row] for row in rows]
    cells = list(zip(*lines, strict=True)) if lines else [() for _ in heads]
    every = [_Column.of(head, column, head is heads[-1]) for head, column in zip(heads, cells, strict=True)]
    columns = _fitting(every, least, width())
    yield Paint("  ".join(column.laid(column.head) for column in columns).rstrip(), dim=True)
    for at in range(len(lines)):
        yield "  ".join(column.laid(column.cells[at]) for column in columns).rstrip()


class _Column(Struct):
    """The cells below a head, and how wide they are shown."""

    head: str
    cells: Sequence[str]
    wide: int
    right: bool
    fewest: int
    """What it can be cut to."""

    @classmethod
    def of(cls, head: str, cells: Sequence[str], last: bool) -> _Column:
        wide = max(map(_columns, (head, *cells)))
        few = min(wide, _NARROWEST, max(10, width() // 2 - 2))
        fewest = few if any(map(_is_long, cells)) or (last and not all(map(_WHOLE.fullmatch, cells))) else wide
        return cls(head, cells, wide, bool(cells) and all(map(_NUMBER.fullmatch, cells)), fewest)

    @property
    def name(self) -> str:
        """Its head without the zone or the unit that is named there."""
        return self.head.partition(" (")[0]

    def laid(self, cell: str) -> str:
        return _padded(_within(cell, self.wide), self.wide, self.right)


def _fitting(columns: list[_Column], least: Sequence[str], room: int) -> list[_Column]:
    """The columns that fit side by side, each as wide as it may be."""
    empty = [each.name for each in columns if not any(each.cells)]
    leaving = [*empty, *least, *(each.name for each in (*columns[-2:0:-1], columns[-1]))]
    while len(columns) > 1 and leaving and sum(each.fewest + 2 for each in columns) - 2 > room:
        gone = leaving.pop(0)
        columns = [each for each in columns if each.name != gone]
    for _ in range(sum(each.wide + 2 for each in columns) - 2 - room):
        if soft := [each for each in columns if each.wide > each.fewest]:
            max(soft, key=lambda each: each.wide).wide -= 1
    return columns


def _is_long(text: str) -> bool:
    """Whether a text may be cut where there is little room: a long name, or a very long sentence."""
    return _columns(text) > (2 * _NARROWEST if " " in text else _NARROWEST) and not _WHOLE.fullmatch(text)


def _within(text: str, columns: int) -> str:
    """A text in so many columns: a sentence loses its end, a name its middle."""
    if _columns(text) <= columns:
        return text
    if " " in text:
        return f"{_cut(text, columns - 1)}…"
    tail = _cut(text[::-1], (columns - 1) // 2)[::-1]
    return f"{_cut(text, columns - 1 - _columns(tail))}…{tail}"


def _padded(text: str, columns: int, right: bool) -> str:
    gap = " " * (columns - _columns(text))
    return gap + text if right else text + gap


def many(count: int, what: str, more: str = "") -> str:
    """A number and its noun."""
    return f"{count:,} {what if count == 1 else more or f'{what}s'}"


def size(count: int) -> str:
    """Bytes as a person reads them."""
    value, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1024 or unit == "TB":
            break
        value /= 1024
    return f"{count:,} B" if unit == "B" else f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def moment(at: datetime | None, zone: tzinfo = UTC) -> str:
    """A time to the minute, for a column whose head names the zone; with its zone where clocks show it twice."""
    from lossless.engine.compaction.summary_source import is_repeated

    if at is None:
        return "-"
    return stamp(at, zone) if is_repeated(at, zone) else stamp(at, zone)[:16]


def stamp(at: datetime, zone: tzinfo) -> str:
    """A time to the minute, and its zone."""
    from lossless.engine.compaction.summary_source import clock

    return clock(at, zone)


def zoned(head: str, zone: tzinfo) -> str:
    """The head of a column of times: `at (Europe/Berlin)`."""
    return f"{head} ({zone_name(zone)})"


def zone_name(zone: tzinfo) -> str:
    """What a zone is called. The machine's own has no name, only one for each season."""
    return getattr(zone, "key", "") or ("UTC" if datetime.now(zone).tzname() == "UTC" else "local time")
