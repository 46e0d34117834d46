"""Lines with a title before them, folded to the width of the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from lossless.cli.tables import Line, Paint, width

INDENT = 15
_LEAST = 20


def titled(title: str, text: str, colour: str | None = None, *, dim: bool = False) -> Iterator[Line]:
    """A title, and a text behind it, on as many lines as it takes."""
    for number, line in enumerate(folded(text)):
        yield (Paint(f"{'' if number else title:<{INDENT}}", dim=True), Paint(line, colour, dim=dim))


def folded(text: str) -> list[str]:
    """A text in lines that fit behind a title."""
    room = max(_LEAST, min(width(), 100) - INDENT)
    return textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
