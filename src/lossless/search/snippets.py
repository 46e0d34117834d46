"""Cut snippets: a match on one line with some text around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import TypeAlias

from lossless.search.query.question import Question
from lossless.search.segment import find_emoji

AROUND = 80
_MOST = 200
_MOST_MATCHES = 50
_BEGINNING = 160
_CUT = "..."
# Control characters and those that change the writing direction: a terminal would interpret them.
_UNSAFE = re.compile(r"[\0-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_Place: TypeAlias = tuple[int, int, int]


def snippet(text: str, start: int, end: int) -> str:
    """Return the match and up to 80 characters on either side, on one line, safe for a terminal."""
    end = min(end, start + _MOST)
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    shown = printable(" ".join(text[first:last].split()))
    return (_CUT if first else "") + shown + (_CUT if last < len(text) else "")


def beginning(text: str) -> str:
    """Return the beginning of a text on one line, safe for a terminal."""
    return snippet(text, 0, _BEGINNING - AROUND)


def printable(text: str) -> str:
    """Escape the control characters of a text, as in `\\x1b`."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class TermFinder:
    """Finds the terms of a question in texts."""

    def __init__(self, question: Question) -> None:
        self._terms = [re.compile("|".join(map(_form, term.forms)), re.IGNORECASE) for term in question.terms]

    def __len__(self) -> int:
        return len(self._terms)

    def search(self, text: str) -> tuple[int, int] | None:
        """Return the start and end of the match with most other terms nearby; None if there is none."""
        found = sorted(
            (match.start(), match.end(), number)
            for number, term in enumerate(self._terms)
            for match in islice(term.finditer(text), _MOST_MATCHES)
        )
        if not found:
            return None
        best = max(range(len(found)), key=lambda place: _density(found, place))
        return found[best][:2]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where each term matches, in the order of the text."""
        return sorted(match.span() for term in self._terms for match in islice(term.finditer(text), _MOST_MATCHES))

    def matching(self, text: str) -> frozenset[int]:
        """Return the numbers of the terms that a text contains."""
        return frozenset(number for number, term in enumerate(self._terms) if term.search(text))


def _density(found: Sequence[_Place], place: int) -> tuple[int, int]:
    """Return the number of terms within reach from this position on, and how close they are."""
    start = found[place][0]
    first: dict[int, int] = {}
    for at, _, number in takewhile(lambda each: each[0] < start + AROUND, islice(found, place, None)):
        first.setdefault(number, at)
    return len(first), start - max(first.values())


def _form(form: str) -> str:
    """Return a pattern of the adjacent words of a form. A long word matches by its beginning, as in a stemmed index."""
    words = [find_emoji(word) or word for word in form.split()]
    if words[0] != form.split()[0] and len(words) == 1:
        return re.escape(words[0])
    if len(words) == 1 and form.isascii():
        return rf"(?<![^\W_]){re.escape(form[: max(4, len(form) - 3)])}\w*"
    return r"\W*".join(map(re.escape, words))
