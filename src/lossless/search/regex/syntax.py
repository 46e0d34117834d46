"""The pieces of an RE2 pattern. What is not told apart here is a character that stands for itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["literal", "set", "edge", "open", "close", "or", "repeat", "flags", "look-around", "back-reference"]

_PIECE = re.compile(
    r"""
    \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | (?P<edge> \\[AbBz] | [\^$] )
    | (?P<back> \\[1-9](?![0-7]) | \\[kg][<{'][^>}']*[>}'] | \(\?P=\w*\) )
    | (?P<look> \(\?<?[=!] )
    | (?P<set> \\[pP](?:\{[^}]*\}|.) | \\[dDsSwWC] | \.
        | \[\^?\]?(?: \[:\^?\w+:\] | \\(?:[pPx]\{[^}]*\}|.) | [^\]\\] )*\] )
    | \\x(?P<hex>[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\})
    | \\(?P<octal>[0-7]{1,3})
    | \\(?P<escaped>.)
    | (?P<flags> \(\?[imsU-]+\) )
    | (?P<open> \((?:\?(?:P?<\w+>|[imsU-]*:))? )
    | (?P<close> \) )
    | (?P<or> \| )
    | (?P<repeat> (?:[*+?]|\{\d+(?:,\d*)?\})\?? )
    | (?P<literal> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_KINDS: dict[str, Kind] = {
    "edge": "edge",
    "back": "back-reference",
    "look": "look-around",
    "set": "set",
    "flags": "flags",
    "open": "open",
    "close": "close",
    "or": "or",
    "repeat": "repeat",
}


class Token(NamedTuple):
    """A piece as it was written, and the flags in force there. A literal's `character` is the one it stands for."""

    kind: Kind
    text: str
    flags: frozenset[str]
    character: str = ""

    @property
    def least(self) -> int:
        """How often a `repeat` asks for what it follows, at the least."""
        return int(self.text[1:].partition(",")[0].rstrip("}?")) if self.text[0] == "{" else int(self.text[0] == "+")


def tokens(pattern: str) -> Iterator[Token]:
    """The pieces of a pattern, in order. Meant for patterns that RE2 takes; others are read as far as they go."""
    flags, outer = frozenset[str](), list[frozenset[str]]()
    for found in _PIECE.finditer(pattern):
        name = found.lastgroup or ""
        if name == "quoted":
            yield from (Token("literal", character, flags, character) for character in found["quoted"])
            continue
        if name == "open":
            outer.append(flags)
        if name in ("open", "flags"):
            flags = _changed(flags, found[0])
        elif name == "close" and outer:
            flags = outer.pop()
        if name in _KINDS:
            yield Token(_KINDS[name], found[0], flags)
        else:
            yield Token("literal", found[0], flags, _character(name, found[name]))


def _changed(flags: frozenset[str], opened: str) -> frozenset[str]:
    if "<" in opened:
        return flags
    on, _, off = opened.strip("(?:)").partition("-")
    return (flags | set(on)) - set(off)


def _character(name: str, written: str) -> str:
    match name:
        case "hex":
            return chr(min(int(written.strip("{}"), 16), 0x10FFFF))
        case "octal":
            return chr(int(written, 8))
        case "escaped":
            return _CONTROL.get(written, written)
        case _:
            return written
