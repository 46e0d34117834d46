"""From what a model sent back to the text of a summary.

Models think aloud in many ways: in blocks of their own, in fields beside the text, in tags within it.
None of that may become memory. Everything here takes time linear in the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


def summary_of(reply: Any) -> str:
    """The text of a summary in a reply, fit to be stored; empty if there is nothing but thinking."""
    return without_reasoning(well_formed(extract(reply)))


def well_formed(text: str) -> str:
    """The text with each lone surrogate and NUL replaced: no wire and no text column takes them."""
    return _UNFIT.sub("\ufffd", text)


def extract(reply: Any) -> str:
    """The words of a reply: a text, decoded JSON or an SDK's object, of any provider's shape.

    Blocks that hold reasoning are passed over, and what stands in the reply twice is taken once.
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
        # Gemini marks a part that is thinking with `thought`, the others name it in its type.
        if fields.get("thought") or "reasoning" in kind or "thinking" in kind:
            return
        for key in _SPOKEN:
            if key in fields:
                yield from _fragments(fields[key], depth - 1)


def without_reasoning(text: str) -> str:
    """The text without the thinking that a model wrote into it.

    Thinking is what stands in tags at the beginning or on lines of its own, what follows a tag that is never
    closed, and what precedes a closing tag alone on its line. A tag that a sentence mentions stays.
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
    """A place where thinking begins or ends, or where somebody writes about it."""

    nth: int
    start: int
    end: int
    closes: bool
    heading: bool
    first: bool
    last: bool

    def is_thinking(self, text: str, closing: _Mark | None, *, leading: bool, only: bool) -> bool:
        """Whether it begins thinking (or, a closing one, ends it), and is not part of a sentence."""
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
        yield _Mark(nth, found.start(), found.end(), closes, heading, first, last)


def _next_closing(marks: list[_Mark]) -> list[_Mark | None]:
    """For each mark the first closing one from there on."""
    found: list[_Mark | None] = []
    closing = None
    for mark in reversed(marks):
        closing = mark if mark.closes else closing
        found.append(closing)
    return found[::-1]


def _first_word(text: str, at: int) -> int:
    found = _WORD.search(text, at)
    return found.start() if found else len(text)


_SPOKEN = ("text", "output_text", "content", "summary", "output", "message", "response", "choices", "delta")
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
