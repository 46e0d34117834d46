"""Text for a terminal: control characters escaped, lines fitted to its width, rows in tables."""

from __future__ import annotations

import re
import shutil
import textwrap
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
_EXACT = re.compile(r"[-+$#]?[\d,.]*%?|[a-z]+[_#][0-9a-f]+|\d{4}-\d\d-\d\d[\d: ]*")
"""Cells that a line break would change: numbers, ids, times."""
_PARTS = re.compile(r"[^:/_@=-]*[:/_@=-]+|[^:/_@=-]+")
"""The parts of a long name, at whose ends it may go on in the next line."""
INDENT = 15
"""The width of the names before the values of facts."""


class Styled(NamedTuple):
    """Text with a style. Without colors it is only text."""

    text: str
    color: str | None = None
    bold: bool = False
    dim: bool = False


Line: TypeAlias = str | Styled | Sequence[str | Styled]
"""A line of an answer. Stored text in it is escaped where it is printed."""


def escape(text: str) -> str:
    """Return the text with control characters escaped, as in `\\x1b`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def escape_name(text: str) -> str:
    """Return a name on one line, with line breaks and control characters escaped."""
    return escape(text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))


def render_line(line: Line) -> str:
    """Return a line with its styles as a terminal reads them, everything else escaped."""
    return "".join(escape(each) if isinstance(each, str) else _render(each) for each in _spans(line))


def plain_text(line: Line) -> str:
    """Return a line without styles, escaped."""
    return "".join(escape(each if isinstance(each, str) else each.text) for each in _spans(line))


def _spans(line: Line) -> Sequence[str | Styled]:
    return (line,) if isinstance(line, str | Styled) else line


def _render(span: Styled) -> str:
    return click.style(escape(span.text), fg=span.color, bold=span.bold or None, dim=span.dim or None)


def diff_lines(text: str) -> Iterator[Line]:
    """Yield the lines of a unified diff, colored."""
    colors = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines():
        is_head = line.startswith(("+++", "---"))
        yield Styled(line, None if is_head else colors.get(line[:1]), bold=is_head)


def terminal_width() -> int:
    """Return the width of the terminal, 80 without one."""
    return max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def shorten(text: str, columns: int) -> str:
    """Return the beginning of a text on one line, cut at the end of a word."""
    most = 4 * columns + 40
    flat = escape(" ".join(text[:most].split()))
    if _width(flat) <= columns and len(text) <= most:
        return flat
    kept = _cut(flat, columns - 1)
    if flat[len(kept) : len(kept) + 1] not in ("", " "):
        # A text without spaces, or with one very long word, is cut inside of it: better than nothing.
        whole = max(kept.rfind(" "), 0)
        kept = kept[:whole] if whole >= len(kept) // 3 else kept
    return f"{kept.rstrip(' ,;:')}…"


def _width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cut(text: str, columns: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += _char_width(char)
        if taken > columns:
            return text[:at]
    return text


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, least: Sequence[str] = (), wrap: bool = False
) -> Iterator[Line]:
    """Yield rows in columns below their heads, fitted to the terminal; numbers are aligned to the right.

    Texts give way first: a sentence ends at a word, or with `wrap` goes on in the next line as names always do. Then
    columns leave: empty ones, those of `least` in that order, then from the right; the first and the last stay longest. Numbers, ids and times are never broken.
    """
    cells = [[shorten(cell, 10_000 if wrap else 400) for cell in row] for row in rows]
    columns = list(zip(*cells, strict=True)) if cells else [() for _ in heads]
    every = [_Column.of(head, column, wrap, head is heads[-1]) for head, column in zip(heads, columns, strict=True)]
    yield from _draw(_fit(every, least, terminal_width()), len(cells))


class _Column(Struct):
    """The cells below a head, with the width at which they are shown."""

    head: str
    cells: Sequence[str]
    width: int
    least: int
    """The width to which it can be reduced."""
    is_wrapped: bool

    @classmethod
    def of(cls, head: str, cells: Sequence[str], wrap: bool, is_last: bool) -> _Column:
        width = max(map(_width, (head, *cells)))
        is_soft = any(map(_is_long, cells)) or (is_last and not all(map(_EXACT.fullmatch, cells)))
        least = min(_NARROWEST, max(10, terminal_width() // 2 - 2))
        if is_last or any(" " in cell for cell in cells):  # a few words need more space than a name
            least = max(least, min(40, terminal_width() * 2 // 5))
        least = min(width, least) if is_soft else width
        return cls(head=head, cells=cells, width=width, least=least, is_wrapped=wrap)

    @property
    def name(self) -> str:
        """The head without the zone or the unit that it names."""
        return self.head.partition(" (")[0]

    @property
    def is_number(self) -> bool:
        """True if all of its cells are numbers."""
        return bool(self.cells) and all(map(_NUMBER.fullmatch, self.cells))

    def cell(self, row: int) -> str:
        """Return the text of a row in lines of the width of the column."""
        text = self.cells[row]
        if _width(text) <= self.width:
            return text
        if " " in text and not self.is_wrapped:
            return shorten(text, self.width)
        return "\n".join(_fold(text, self.width))


def _is_long(text: str) -> bool:
    return _width(text) > (2 * _NARROWEST if " " in text else _NARROWEST) and not _EXACT.fullmatch(text)


def _fold(text: str, columns: int) -> list[str]:
    """Return a text in lines that end where a word or a part of a name ends."""
    lines = [""]
    for word in text.split():
        space = " " if lines[-1] else ""
        if _width(lines[-1] + space + word) <= columns:
            lines[-1] += space + word
            continue
        lines += [""] * bool(lines[-1])
        for part in [word] if _width(word) <= columns else _PARTS.findall(word):
            if lines[-1] and _width(lines[-1] + part) > columns:
                lines.append("")
            lines[-1] += part
            while _width(lines[-1]) > columns:
                head = _cut(lines[-1], columns)
                lines[-1:] = [head, lines[-1][len(head) :]]
    return lines


def _fit(columns: list[_Column], least: Sequence[str], space: int) -> list[_Column]:
    """Return the columns that fit side by side, each as wide as possible."""
    empty = [each.name for each in columns if not any(each.cells)]
    leaving = [*empty, *least, *(each.name for each in (*columns[-2:0:-1], columns[-1]))]
    while len(columns) > 1 and leaving and sum(each.least + 2 for each in columns) - 2 > space:
        gone = leaving.pop(0)
        columns = [each for each in columns if each.name != gone]
    if len(columns) == 1:
        columns[0].width = min(columns[0].width, space)
    while sum(each.width + 2 for each in columns) - 2 > space:
        soft = [each for each in columns if each.width > each.least] or columns
        max(soft, key=lambda each: each.width).width -= 1
    return columns


def _draw(columns: list[_Column], rows: int) -> Iterator[Line]:
    from rich.console import Console
    from rich.style import Style
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=Style(dim=True))
    for each in columns:
        drawn.add_column(
            Text(each.head),
            justify="right" if each.is_number else "left",
            width=each.width,
            no_wrap=True,
            overflow="crop",
        )
    for row in range(rows):
        drawn.add_row(*(Text(each.cell(row)) for each in columns))
    space = sum(each.width + 2 for each in columns)
    console = Console(width=space, color_system=None, legacy_windows=False, file=None, force_terminal=False)
    for segments in console.render_lines(drawn, pad=False):
        is_head = any(each.style and each.style.dim for each in segments)
        text = "".join(each.text for each in segments).rstrip()
        yield Styled(text, dim=True) if is_head else text


def fact_lines(name: str, text: str, color: str | None = None, *, dim: bool = False) -> Iterator[Line]:
    """Yield a name and its value, wrapped to the width of the terminal."""
    for number, line in enumerate(wrap_fact(text)):
        yield (Styled(f"{'' if number else name:<{INDENT}}", dim=True), Styled(line, color, dim=dim))


def wrap_fact(text: str) -> list[str]:
    """Return a text in lines that fit behind the name of a fact."""
    return wrap_prose(text, INDENT)


def wrap_prose(text: str, indent: int = 0) -> list[str]:
    """Return a text in lines that fit the terminal, and at most 100 columns; paths and ids stay whole."""
    space = max(_NARROWEST, min(terminal_width(), 100) - indent)
    return textwrap.wrap(text, space, break_on_hyphens=False, break_long_words=False) or [""]


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return a number and its noun."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def format_size(count: int) -> str:
    """Return a number of bytes as people write it."""
    value, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1024 or unit == "TB":
            break
        value /= 1024
    return f"{count:,} B" if unit == "B" else f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def format_minute(at: datetime | None, zone: tzinfo = UTC) -> str:
    """Return a time to the minute for a column whose head names the zone.

    Where clocks show the minute twice, the zone follows.
    """
    from lossless.times import is_repeated

    if at is None:
        return "-"
    return format_time(at, zone) if is_repeated(at, zone) else format_time(at, zone)[:16]


def format_time(at: datetime, zone: tzinfo) -> str:
    """Return a time to the minute, and its zone."""
    from lossless.times import clock

    return clock(at, zone)


def zone_heading(head: str, zone: tzinfo) -> str:
    """Return the head of a column of times: `at (Europe/Berlin)`."""
    return f"{head} ({zone_name(zone)})"


def zone_name(zone: tzinfo) -> str:
    """Return the name of a zone, `local time` for that of the machine."""
    return getattr(zone, "key", "") or ("UTC" if datetime.now(zone).tzname() == "UTC" else "local time")
