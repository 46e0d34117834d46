"""Draw a tree of summaries in lines for a terminal of any width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lossless.cli.tables import Line, Styled, format_minute, plural, shorten, terminal_width

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from lossless.model import ListedSummary, MessageRun, TreeEntry

_COLORS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_WIDE, _NARROW = 100, 60
_FEWEST = 8
"""The fewest columns in which text is shown."""


_MARKS = {
    "~": ({"provisional"}, "not written by a model; `lcm repair` rewrites it"),
    "!": ({"stale", "unfaithful"}, "a source changed, or a claim is not found in it: `lcm summaries show ID`"),
}
_DATED = re.compile(r"^\d{4}-\d\d-\d\d \([^)]{1,40}\) (?:\d\d:\d\d )?")
"""The date at the beginning of our own summaries: a tree has the time in a column."""


class _Row(Struct, frozen=True):
    """The parts of a line before its columns are laid out."""

    branch: str
    name: str
    figures: str = ""
    when: str = ""
    cause: str = ""
    words: str = ""
    color: str | None = None
    mark: str = ""
    more: str = ""
    dim: bool = False

    @property
    def columns(self) -> int:
        return sum(map(len, (self.branch, self.name, self.mark, self.more)))


def tree_lines(entries: Sequence[TreeEntry], zone: tzinfo) -> Iterator[Line]:
    """Yield a line for each entry, in columns, none wider than the terminal."""
    columns = terminal_width()
    drawn = _drawn(entries, columns < _NARROW)
    rows = [
        _row(entry, branch, zone, columns, entry is entries[-1]) for entry, branch in zip(entries, drawn, strict=True)
    ]
    names = max((row.columns for row in rows), default=0)
    figures = max((len(row.figures) for row in rows), default=0)
    times = max((len(row.when) for row in rows), default=0)
    for row in rows:
        yield _laid(row, names, figures, times, columns)


def _drawn(entries: Sequence[TreeEntry], narrow: bool) -> list[str]:
    """Return the branch before each entry. Read from below: the entries still to come decide its shape."""
    more, last, on, off = ("├ ", "└ ", "│ ", "  ") if narrow else ("├─ ", "└─ ", "│  ", "   ")
    drawn, coming = list[str](), set[int]()
    for entry in reversed(entries):
        steps = entry.steps
        before = "".join(on if step in coming else off for step in range(1, steps))
        drawn.append(before + (more if steps in coming else last) if steps else "")
        coming = {step for step in coming if step <= steps} | {steps}
    return drawn[::-1]


def _row(entry: TreeEntry, branch: str, zone: tzinfo, columns: int, is_last: bool) -> _Row:
    if entry.messages is not None:
        return _of_messages(entry.messages, entry.cause, zone, columns, is_last)
    assert entry.summary is not None
    return _of_summary(entry, entry.summary, branch, zone, columns)


def _of_summary(entry: TreeEntry, summary: ListedSummary, branch: str, zone: tzinfo, columns: int) -> _Row:
    name, color = f"d{summary.depth} {summary.id}", _COLORS[summary.depth % len(_COLORS)]
    if entry.repeated:
        return _Row(branch, name, words="shown above", color=color, dim=True)
    figures = f"{summary.source_tokens:,} → {summary.tokens:,}" if columns >= _NARROW else f"{summary.tokens:,}"
    return _Row(
        branch,
        name,
        figures + (" tokens" if columns >= _WIDE else ""),
        _when(summary.earliest_at, summary.latest_at, zone, columns),
        entry.cause,
        _DATED.sub("", summary.preview),
        color,
        _mark(summary),
        f" +{entry.hidden:,}" if entry.hidden else "",
    )


def _mark(summary: ListedSummary) -> str:
    return "".join(mark for mark, (flags, _) in _MARKS.items() if flags & {*summary.flags})


def legend_lines(entries: Sequence[TreeEntry]) -> Iterator[Line]:
    """Yield the meaning of each mark that a tree contains."""
    marks = {mark for entry in entries if entry.summary and not entry.repeated for mark in _mark(entry.summary)}
    for mark, (_, meaning) in _MARKS.items():
        if mark in marks:
            yield Styled(shorten(f"{mark} {meaning}", terminal_width()), dim=True)


def _of_messages(run: MessageRun, cause: str, zone: tzinfo, columns: int, is_last: bool) -> _Row:
    name = plural(run.messages, "message")
    if is_last and not cause:
        name = f"the {run.messages:,} newest messages" if run.messages > 1 else "the newest message"
    reach = run.first if run.first == run.last else f"{run.first} – {run.last}"
    figures = f"{run.tokens:,}" + (" tokens" if columns >= _WIDE else "")
    return _Row("", name, figures, _when(run.earliest_at, run.latest_at, zone, columns), cause, reach)


def _when(first: datetime | None, last: datetime | None, zone: tzinfo, columns: int) -> str:
    if not (first or last) or columns < _NARROW:
        return ""
    begun, ended = format_minute(first or last, zone), format_minute(last or first, zone)
    if columns < _WIDE:
        return begun[:10]
    return f"{begun} – {ended[11:]}" if begun[:10] == ended[:10] else f"{begun[:10]} – {ended[:10]}"


def _laid(row: _Row, names: int, figures: int, times: int, columns: int) -> Line:
    """Return the parts of a line side by side; the text gets the remaining space."""
    line: list[str | Styled] = [
        Styled(row.branch, dim=True),
        Styled(row.name, row.color, dim=row.dim),
        Styled(row.mark, "yellow"),
        Styled(row.more, dim=True),
        " " * (names - row.columns),
    ]
    taken = names
    if taken + 2 + figures <= columns:
        line.append(f"  {row.figures:>{figures}}")
        taken += 2 + figures
    if times and taken + 2 + times <= columns:
        line.append(Styled(f"  {row.when:<{times}}", dim=True))
        taken += 2 + times
    for words, paint in ((row.cause, "yellow"), (row.words, None)):
        if words and columns - taken - 2 >= _FEWEST:
            text = shorten(words, columns - taken - 2)
            line.append(Styled(f"  {text}", paint, dim=row.dim))
            taken += 2 + len(text)
    return line
