"""Extract the text of a summary from a model's reply.

Models write their reasoning in separate blocks, in fields beside the text, or in tags within it. None of it may be
stored. Everything here is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


def summary_of(reply: Any) -> str:
    """Return the text of a summary in a reply; empty if it contains only reasoning."""
    return without_reasoning(well_formed(extract(reply)))


def well_formed(text: str) -> str:
    """Replace lone surrogates and NUL, which neither requests nor text columns accept."""
    return _UNFIT.sub("\ufffd", text)


def extract(reply: Any) -> str:
    """Return the text of a reply: a string, decoded JSON or an SDK object of any provider.

    Blocks of reasoning are skipped, and a text that occurs twice is taken once.
    """
    found = {fragment.strip(): fragment for fragment in _fragments(reply, _DEEPEST)}
    return "\n".join(fragment for words, fragment in found.items() if words)


def _fragments(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from _fragments(item, depth - 1)
    elif depth:
        fields = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
        kind = str(fields.get("type") or "").lower()
        # Gemini marks reasoning with `thought`, others by the type.
        if fields.get("thought") or "reasoning" in kind or "thinking" in kind:
            return
        for key in _TEXT_FIELDS:
            if key in fields:
                yield from _fragments(fields[key], depth - 1)


def without_reasoning(text: str) -> str:
    """Remove the reasoning that a model wrote into a text.

    Reasoning is text in tags at the beginning or on separate lines, text after a tag that is never closed, and text
    before a closing tag alone on its line. A tag that a sentence mentions stays.
    """
    marks = list(_marks(text))
    closings = _next_closing(marks)
    kept: list[str] = []
    at, index, beginning = 0, 0, _first_word(text, 0)
    while index < len(marks):
        mark, closing = marks[index], closings[index]
        leading = not kept and mark.start <= beginning < mark.end
        if not mark.is_thinking(text, closing, leading=leading, only=not kept):
            index += 1
            continue
        if not (leading or mark.closes):
            kept.append(text[at : mark.start])
        at, index = (closing.end, closing.nth + 1) if closing else (len(text), len(marks))
        beginning = _first_word(text, at)
    return "".join([*kept, text[at:]]).strip()


class _Mark(NamedTuple):
    """A tag or heading that may start or end reasoning."""

    nth: int
    start: int
    end: int
    closes: bool
    heading: bool
    first: bool
    last: bool

    def is_thinking(self, text: str, closing: _Mark | None, *, leading: bool, only: bool) -> bool:
        """Return whether it starts reasoning (or, a closing one, ends it) rather than being part of a sentence."""
        if self.closes:
            return only and self.first and self.last
        if leading or (self.first and self.last):
            return True
        if not self.first or self.heading:
            return False
        if closing:
            return closing.last or text.find("\n", self.end, closing.start) >= 0
        return not text[self.end].isspace()


def _marks(text: str) -> Iterator[_Mark]:
    low = text.lower()
    if not any(word in low for word in ("think", "thought", "reasoning")):
        return
    for nth, found in enumerate(_MARK.finditer(text)):
        closes, heading = bool(found["tag"] or found["bracket"]), found["heading"] is not None
        first, last = found["line"] is not None, found["rest"] is not None
        yield _Mark(
            nth=nth,
            start=found.start(),
            end=found.end(),
            closes=closes,
            heading=heading,
            first=first,
            last=last,
        )


def _next_closing(marks: list[_Mark]) -> list[_Mark | None]:
    """Return for each mark the first closing one from there on."""
    found: list[_Mark | None] = []
    closing = None
    for mark in reversed(marks):
        closing = mark if mark.closes else closing
        found.append(closing)
    return found[::-1]


def _first_word(text: str, at: int) -> int:
    found = _WORD.search(text, at)
    return found.start() if found else len(text)


_TEXT_FIELDS = ("text", "output_text", "content", "summary", "output", "message", "response", "choices", "delta")
_DEEPEST = 16
_UNFIT = re.compile("[\0\ud800-\udfff]")
_WORD = re.compile(r"\S")
_MARK = re.compile(
    r"""
    (?P<line>^[ \t#*_]*)?
    (?: <\|?(?P<tag>/|end_)?(?:think|thinking|thought|reasoning)(?:\s[^<>\n]{0,80})?\|?>
    |   \[(?P<bracket>/)?(?:think|thinking|thought|reasoning)\]
    |   (?P<heading>(?:thinking[ ]process|chain[ ]of[ ]thought)[ \t]*:[*_]*)
    )
    (?P<rest>(?=[ \t]*$))?
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
