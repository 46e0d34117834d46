"""Parse JSON with comments (JSONC, JSON5) into values that know where they are written."""

from __future__ import annotations

import re
from typing import Any, Literal, NoReturn

from msgspec import Struct

_SPACE = re.compile(r"(?:[\s\ufeff]|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.S)
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.$])"
)
_CHARACTERS = {'"': re.compile(r'[^"\\\n\r]*'), "'": re.compile(r"[^'\\\n\r]*")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 200

Kind = Literal["object", "array", "scalar"]


class JsonSyntaxError(ValueError):
    """A text that is not JSON, also not with comments."""


class Node(Struct):
    """A value and its position: `text[start:end]`."""

    kind: Kind
    start: int
    end: int
    value: Any
    """The Python value; empty for objects and arrays, whose contents are `members`."""
    members: list[Member]
    last_comma: int = -1
    """The position of the comma after the last member; -1 if there is none."""

    def get(self, key: str) -> Node | None:
        """Return the value of a key. As in every parser, the last of several wins."""
        found = self.member(key)
        return found.node if found else None

    def member(self, key: str) -> Member | None:
        """Return the last member with a key."""
        return next((each for each in reversed(self.members) if each.key == key), None)

    def plain(self) -> Any:
        """Return the whole value as Python objects."""
        if self.kind == "object":
            return {each.key: each.node.plain() for each in self.members}
        return [each.node.plain() for each in self.members] if self.kind == "array" else self.value


class Member(Struct):
    """A member of an object or an array, from its key on."""

    key: str
    start: int
    node: Node


def parse(text: str) -> Node | None:
    """Return the value of a text; None if it contains only spaces and comments."""
    return _Parser(text).document()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0

    def document(self) -> Node | None:
        self._skip()
        if self._at == len(self._text):
            return None
        root = self._value()
        self._skip()
        if self._at != len(self._text):
            self._fail("text after the end")
        return root

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _fail(self, reason: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        raise JsonSyntaxError(f"line {line}: {reason}")

    def _value(self) -> Node:
        first = self._peek()
        if first in ("{", "["):
            return self._container("object" if first == "{" else "array", "}" if first == "{" else "]")
        start = self._at
        value = self._string() if first in ('"', "'") and first else self._word()
        return Node("scalar", start, self._at, value, [])

    def _container(self, kind: Kind, close: str) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail("nested too deeply")
        node = Node(kind, self._at, self._at, None, [])
        self._at += 1
        self._skip()
        while self._peek() != close:
            node.members.append(self._member(kind))
            node.last_comma = -1
            self._skip()
            if self._peek() == ",":
                node.last_comma = self._at
                self._at += 1
                self._skip()
            elif self._peek() != close:
                self._fail(f"expected , or {close}")
        self._at += 1
        self._depth -= 1
        node.end = self._at
        return node

    def _member(self, kind: Kind) -> Member:
        start, key = self._at, ""
        if kind == "object":
            key = self._key()
            self._skip()
            if self._peek() != ":":
                self._fail("expected :")
            self._at += 1
            self._skip()
        return Member(key, start, self._value())

    def _key(self) -> str:
        if self._peek() in ('"', "'") and self._peek():
            return self._string()
        found = _NAME.match(self._text, self._at)
        if not found:
            self._fail("expected a name")
        self._at = found.end()
        return found[0]

    def _word(self) -> Any:
        if found := _NUMBER.match(self._text, self._at):
            self._at = found.end()
            return _number(found[0])
        found = _NAME.match(self._text, self._at)
        if not found or found[0] not in _WORDS:
            self._fail("expected a value")
        self._at = found.end()
        return _WORDS[found[0]]

    def _string(self) -> str:
        quote, parts = self._peek(), list[str]()
        self._at += 1
        while True:
            found = _CHARACTERS[quote].match(self._text, self._at)
            assert found is not None
            parts.append(found[0])
            self._at = found.end() + 1
            end = self._text[found.end() : self._at]
            if end == quote:
                return "".join(parts) if len(parts) == 1 else _join_surrogates("".join(parts))
            if end != "\\":
                self._at = found.end()
                self._fail("a text without end")
            parts.append(self._escape())

    def _escape(self) -> str:
        char = self._peek()
        self._at += 1
        digits = {"u": 4, "x": 2}.get(char)
        if digits:
            code = self._text[self._at : self._at + digits]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", code):
                self._fail(f"a wrong escape \\{char}")
            self._at += digits
            return chr(int(code, 16))
        if char == "\r" and self._peek() == "\n":
            self._at += 1
        return "" if char in ("\n", "\r", "\u2028", "\u2029") else _ESCAPES.get(char, char)


def _join_surrogates(text: str) -> str:
    """Join the halves of characters that were escaped one by one."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _number(text: str) -> int | float:
    bare = text.lstrip("+-").lower()
    sign = -1 if text.startswith("-") else 1
    if bare.startswith("0x"):
        return sign * int(bare, 16)
    if re.fullmatch(r"\d+", bare):
        return sign * int(bare)
    return sign * float(bare)
