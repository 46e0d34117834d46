"""Split an RE2 pattern into tokens; everything without a special meaning is a literal character."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["literal", "set", "edge", "open", "close", "or", "repeat", "flags", "look-around", "back-reference"]

_TOKEN = re.compile(
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
    """A part of a pattern as written, and the flags in force there. `character` is the one a literal stands for."""

    kind: Kind
    text: str
    flags: frozenset[str]
    character: str = ""

    @property
    def least(self) -> int:
        """The minimum count of a `repeat`."""
        return int(self.text[1:].partition(",")[0].rstrip("}?")) if self.text[0] == "{" else int(self.text[0] == "+")


def tokens(pattern: str) -> Iterator[Token]:
    """Yield the tokens of a pattern. It should be valid for RE2; others are read as far as possible."""
    flags, outer = frozenset[str](), list[frozenset[str]]()
    for found in _TOKEN.finditer(pattern):
        name = found.lastgroup or ""
        if name == "quoted":
            yield from (
                Token(kind="literal", text=character, flags=flags, character=character) for character in found["quoted"]
            )
            continue
        if name == "open":
            outer.append(flags)
        if name in ("open", "flags"):
            flags = _change_flags(flags, found[0])
        elif name == "close" and outer:
            flags = outer.pop()
        if name in _KINDS:
            yield Token(_KINDS[name], found[0], flags)
        else:
            yield Token(kind="literal", text=found[0], flags=flags, character=_character(name, found[name]))


def _change_flags(flags: frozenset[str], opened: str) -> frozenset[str]:
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
