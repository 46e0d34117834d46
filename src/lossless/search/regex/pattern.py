r"""Patterns from users and models, in time linear in the length of the text (RE2).

The `\w`, `\d`, `\s` and `\b` of RE2 cover ASCII only. The classes are rewritten as Unicode categories. A boundary
cannot be: in a text beyond ASCII the boundaries are marked, and the pattern skips the marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING

from lossless.errors import InvalidInput
from lossless.search.regex.syntax import Token, tokens

if TYPE_CHECKING:
    import re2

MOST_CHARACTERS = 500
_MEMORY = 16 << 20
_EDGE, _INSIDE = "\ufdd0", "\ufdd1"
"""Marks: two code points that Unicode guarantees never to assign."""
_MARKS = _EDGE + _INSIDE
_MOST_TIMES = 16
"""The maximum matches of a repeated boundary in one place: each needs a mark, and marks make the text longer."""
_SETS = {
    "w": r"\pL\pM\pN_",
    "W": r"\pC\pS\pZ\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\x{203f}\x{2040}\x{2054}\x{fe33}\x{fe34}\x{fe4d}-\x{fe4f}\x{ff3f}",
    "d": r"\p{Nd}",
    "D": r"\pC\pL\pM\pP\pS\pZ\p{Nl}\p{No}",
    "s": r"\t-\r\x1c-\x20\x{85}\pZ",
    "S": r"\x00-\x08\x0e-\x1b!-\x{84}\x{86}-\x{9f}\pL\pM\pN\pP\pS\p{Cf}\p{Co}",
}
_HAS_UPPER = re.compile("[A-Z\u00c0-\u00d6\u00d8-\u00de]")
_IN_CLASS = re.compile(r"\\(?:[pPx]\{[^}]*\}|.)", re.DOTALL)


class Pattern:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        self.source = pattern
        found = list(tokens(pattern))
        self._plain = _compiled("".join(_plain(token) for token in found), pattern)
        # As many marks as the pattern may consume in one place: each boundary in it consumes one.
        times = min(_MOST_TIMES, prod(token.least for token in found if token.kind == "repeat" and token.least > 1))
        self._edge = _EDGE * sum(_is_edge(token, r"\b") for token in found) * times
        self._inside = _INSIDE * sum(_is_edge(token, r"\B") for token in found) * times
        if self._edge or self._inside:
            unbound = ("(?:)" if _is_edge(token, r"\b", r"\B") else _plain(token) for token in found)
            self._unbound = _compiled("".join(unbound), pattern)
            self._marked = _compiled("".join(_skip_marks(found)), pattern)

    def search(self, text: str) -> tuple[int, int] | None:
        """Return the start and end of the first match."""
        if text.isascii() or not (self._edge or self._inside):
            match = self._plain.search(text)
            return match.span() if match else None
        if self._unbound.search(text) is None:
            return None
        marked = self._with_marks(text)
        match = self._marked.search(marked)
        if match is None:
            return None
        start, end = match.span()
        before = _marks_in(marked[:start])
        return start - before, end - before - _marks_in(marked[start:end])

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of every match."""
        if text.isascii() or not (self._edge or self._inside):
            yield from (match.span() for match in self._plain.finditer(text))
        elif self._unbound.search(text) is not None:
            marked, at, before = self._with_marks(text), 0, 0
            for match in self._marked.finditer(marked):
                start, end = match.span()
                before += _marks_in(marked[at:start])
                at, inner = end, _marks_in(marked[start:end])
                yield start - before, end - before - inner
                before += inner

    def _with_marks(self, text: str) -> str:
        for mark in _MARKS:
            text = text.replace(mark, "\ufffd")
        words = _words()
        if not self._inside:
            return words.sub(rf"{self._edge}\1{self._edge}", text)
        runs = [run for run in words.split(text) if run]
        ends = [self._inside if words.match(run) is None else "" for run in (runs[0], runs[-1])]
        marked = (
            self._edge.join(("", self._inside.join(run), "")) if words.match(run) else self._inside.join(run)
            for run in runs
        )
        return ends[0] + "".join(marked) + ends[1]


@cache
def _words() -> re.Pattern[str]:
    """Return a pattern of words. The `\\w` of Python lacks combining marks, which other scripts need."""
    marks = "".join(
        c for c in map(chr, (*range(0x20000), *range(0xE0100, 0xE01F0))) if unicodedata.category(c)[0] == "M"
    )
    return re.compile(rf"([\w{marks}]+)")


def compile(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Compile a pattern, or raise `InvalidInput` with the reason."""
    if not pattern:
        raise InvalidInput("The pattern is empty.", hint="Give what to look for.")
    if len(pattern) > MOST_CHARACTERS:
        raise InvalidInput(f"The pattern has {len(pattern)} characters.", hint=f"The most is {MOST_CHARACTERS}.")
    pattern = _searchable(pattern)
    for token in tokens(pattern):
        if token.kind == "look-around":
            raise InvalidInput(
                f"{token.text}...) is look-around, which patterns in linear time do not have.",
                hint="Match what stands around it as well.",
            )
        if token.kind == "back-reference":
            raise InvalidInput(
                f"{token.text} is a back-reference, which patterns in linear time do not have.",
                hint="Write out what it should match.",
            )
    _compiled(pattern, pattern)
    return Pattern(f"(?i){pattern}" if ignore_case else pattern)


def has_upper_case(pattern: str) -> bool:
    """Return True if a pattern asks for a letter in upper case, in a literal or a class."""
    return any(
        token.character.isupper() if token.kind == "literal" else _HAS_UPPER.search(_IN_CLASS.sub("", token.text))
        for token in tokens(pattern)
        if token.kind in ("literal", "set")
    )


def _searchable(pattern: str) -> str:
    """Replace characters that no column can store (NUL, lone surrogates) as stored texts do."""
    return re.sub("[\ud800-\udfff]", r"\\?", pattern.replace("\0", "\ufffd"))


def _compiled(pattern: str, written: str) -> re2.Pattern:
    """Compile a pattern with RE2; errors quote it as it was written."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        hint = "Write a character that stands for itself with a backslash before it, or search in mode full_text."
        if "too large" in reason:
            hint = "Repeat less often, or something simpler."
        raise InvalidInput(f"{written!r} is not a pattern: {reason}.", hint=hint) from error


def _plain(token: Token) -> str:
    """Return a token with Unicode classes."""
    if token.kind == "literal":
        return _written(token.character)
    if token.kind != "set":
        return token.text
    if token.text[0] == "[":
        return _IN_CLASS.sub(lambda found: _SETS.get(found[0][1:], found[0]), token.text)
    letter = token.text[1:]
    if letter in ("W", "D", "S"):
        return f"[^{_SETS[letter.lower()]}]"
    return f"[{_SETS[letter]}]" if letter in _SETS else token.text


def _skip_marks(found: Sequence[Token]) -> Iterator[str]:
    """Yield the tokens, each with the marks it skips before the text it matches."""
    for token in found:
        match token.kind, token.text:
            case "edge", r"\b":
                yield f"(?:{_EDGE})"
            case "edge", r"\B":
                yield f"(?:{_INSIDE})"
            case "edge", r"$" | r"\z":
                yield f"(?:[{_MARKS}]*{token.text})"
            case "literal" | "set", _:
                yield f"(?:[{_MARKS}]*{_unmarked(token)})"
            case _:
                yield token.text


def _unmarked(token: Token) -> str:
    """Return a token that never matches a mark."""
    written = _plain(token)
    if written == ".":
        return f"[^{_MARKS}]" if "s" in token.flags else f"[^\\n{_MARKS}]"
    if written.startswith("[^"):
        return f"[^{_MARKS}{written[2:]}"
    if written.startswith((r"\P", r"\p{^")):
        return f"[^{_MARKS}{written.replace('{^', '{') if written[1] == 'p' else 'p'.join(written.split('P', 1))}]"
    return written


def _is_edge(token: Token, *which: str) -> bool:
    return token.kind == "edge" and token.text in which


def _written(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"


def _marks_in(text: str) -> int:
    return text.count(_EDGE) + text.count(_INSIDE)
