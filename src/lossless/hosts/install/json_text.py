"""Add and remove entries in a JSON text; everything else stays byte for byte.

Comments, order, line ends, indentation, trailing commas and the end of the file are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from lossless.hosts.install.json_tree import Node, parse

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_INDENT = re.compile(r"(?:\n|\r)([ \t]+)\S")


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Set the value at a path of keys. Objects are merged: keys that only the file has stay."""
    root = parse(text)
    if root is None:
        return _with_document(text, _nest(path, value))
    node, rest = _descend(root, path)
    if rest and node.kind == "scalar" and node.value is None:
        return _replace(text, node, _nest(rest, value))
    if rest:
        _expect(node, "object", path[: len(path) - len(rest)])
        return _insert(text, node, rest[0], _nest(rest[1:], value))
    if isinstance(value, dict) and node.kind == "object":
        for key, each in value.items():
            text = put(text, (*path, key), each)
        return text
    return text if _same(node.plain(), value) else _replace(text, node, value)


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Append a value to the array at a path, if the array does not contain it. The array is created if missing."""
    node = find(text, path)
    if node is None or (node.kind == "scalar" and node.value is None):
        return put(text, path, [value])
    _expect(node, "array", path)
    if any(_same(each.node.plain(), value) for each in node.members):
        return text
    return _insert(text, node, None, value)


def remove(text: str, path: Sequence[str]) -> str:
    """Remove the key at the end of a path."""
    parent = find(text, path[:-1])
    if parent is None or parent.kind != "object":
        return text
    for at in range(len(parent.members) - 1, -1, -1):
        if parent.members[at].key == path[-1]:
            return _cut(text, parent, at)
    return text


def remove_item(text: str, path: Sequence[str | int], index: int) -> str:
    """Remove one item of the array at a path."""
    parent = find(text, path)
    assert parent is not None
    return _cut(text, parent, index)


def find(text: str, path: Sequence[str | int]) -> Node | None:
    """Return the value at a path of keys and indexes, None if it is missing."""
    node = parse(text)
    for key in path:
        if node is None:
            return None
        if isinstance(key, int):
            node = node.members[key].node if node.kind == "array" and key < len(node.members) else None
        else:
            node = node.get(key) if node.kind == "object" else None
    return node


def replace(text: str, path: Sequence[str | int], value: Any) -> str:
    """Replace the value at a path that exists."""
    node = find(text, path)
    assert node is not None
    return _replace(text, node, value)


def is_empty(text: str, path: Sequence[str]) -> bool:
    """Return whether the container at a path has neither members nor comments."""
    node = find(text, path)
    return node is not None and node.kind != "scalar" and not text[node.start + 1 : node.end - 1].strip()


def _descend(root: Node, path: Sequence[str]) -> tuple[Node, Sequence[str]]:
    """Return the deepest value on a path that exists, and the rest of the path."""
    node = root
    for depth, key in enumerate(path):
        found = node.get(key) if node.kind == "object" else None
        if found is None:
            return node, path[depth:]
        node = found
    return node, ()


def _nest(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _expect(node: Node, kind: str, path: Sequence[str]) -> None:
    if node.kind != kind:
        article = "an object" if kind == "object" else "a list"
        raise ValueError(f"{'.'.join(path) or 'the document'} is not {article}")


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)


def _with_document(text: str, value: Any) -> str:
    """Return a text without any value, with one behind its comments."""
    newline = _newline(text)
    before = text if not text.strip("\ufeff \t\r\n") or text.endswith(("\n", "\r")) else text + newline
    body = _format(value, "", "  ", newline)
    return f"{before.rstrip(' ')}{body}{newline}" if before.strip("\ufeff \t\r\n") else f"{_mark(text)}{body}{newline}"


def _mark(text: str) -> str:
    return "\ufeff" if text.startswith("\ufeff") else ""


def _newline(text: str) -> str:
    found = _LINE_BREAK.search(text)
    return found[0] if found else "\n"


def _unit(text: str) -> str:
    """Return one step of indentation, as the text has it."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _line_indent(text: str, at: int) -> str:
    """Return the indentation of the line that contains a position."""
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    found = re.compile(r"[ \t]*").match(text, start)
    assert found is not None
    return found[0]


def _insert(text: str, node: Node, key: str | None, value: Any) -> str:
    """Insert a member at the end of a container, in the layout of its neighbours."""
    inside = text[node.start + 1 : node.end - 1]
    is_inline = not _LINE_BREAK.search(inside) and (node.members or not _LINE_BREAK.search(text.rstrip()))
    if is_inline and node.members:
        return _insert_inline(text, node, key, value)
    newline, unit, close = _newline(text), _unit(text), node.end - 1
    outer = _line_indent(text, close if _LINE_BREAK.search(inside) else node.start)
    indent = _line_indent(text, node.members[-1].start) if node.members else outer + unit
    if node.members and not text[: node.members[-1].start].endswith(("\n", "\r", indent)):
        indent = outer + unit
    if not _LINE_BREAK.search(text.rstrip()):
        line = f"{_name(key)}{json.dumps(value, ensure_ascii=False)}"
        return f"{text[: node.start + 1]}{inside.strip()}{line}{text[close:]}"
    line = f"{newline}{indent}{_name(key)}{_format(value, indent, unit, newline)}"
    kept = text[node.start + 1 : close].rstrip()
    end = node.start + 1 + len(kept)
    tail = text[end:close] if _LINE_BREAK.search(text[end:close]) else f"{newline}{outer}"
    if not node.members:
        return f"{text[:end]}{line}{tail}{text[close:]}"
    if node.last_comma >= 0:
        return f"{text[:end]}{line},{tail}{text[close:]}"
    last = node.members[-1].node.end
    return f"{text[:last]},{text[last:end]}{line}{tail}{text[close:]}"


def _insert_inline(text: str, node: Node, key: str | None, value: Any) -> str:
    line = f"{_name(key)}{json.dumps(value, ensure_ascii=False)}"
    if node.last_comma >= 0:
        at = node.last_comma + 1
        return f"{text[:at]} {line},{text[at:]}"
    at = node.members[-1].node.end
    return f"{text[:at]}, {line}{text[at:]}"


def _name(key: str | None) -> str:
    return "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "


def _replace(text: str, node: Node, value: Any) -> str:
    indent = _line_indent(text, node.start)
    is_inline = not _LINE_BREAK.search(text.rstrip())
    body = json.dumps(value, ensure_ascii=False) if is_inline else _format(value, indent, _unit(text), _newline(text))
    return f"{text[: node.start]}{body}{text[node.end :]}"


def _format(value: Any, indent: str, unit: str, newline: str) -> str:
    """Return a value in lines; short lists of plain values stay on one."""
    if isinstance(value, dict) and value:
        lines = [f"{_name(key)}{_format(each, indent + unit, unit, newline)}" for key, each in value.items()]
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        lines = [_format(each, indent + unit, unit, newline) for each in value]
    else:
        return json.dumps(value, ensure_ascii=False)
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    step = f"{newline}{indent}{unit}"
    return f"{opening}{step}{f',{step}'.join(lines)}{newline}{indent}{closing}"


def _cut(text: str, node: Node, index: int) -> str:
    """Remove a member, one comma, and its lines if nothing else is on them."""
    member = node.members[index]
    start, end = member.start, member.node.end
    following = _comma(text, end, node.members[index + 1].start if index + 1 < len(node.members) else node.end)
    if following >= 0:
        text, end = _without(text, following, end)
        return _without_span(text, start, end)
    if index:
        before = _comma(text, node.members[index - 1].node.end, start)
        if not text[before + 1 : start].strip(" \t"):
            return text[:before] + text[end:]
        text = _without_span(text, start, end)
        return text[:before] + text[before + 1 :]
    return _without_span(text, start, end)


def _comma(text: str, start: int, end: int) -> int:
    """Return the position of the comma between two positions, outside of comments; -1 if there is none."""
    found = re.compile(r"(?:[\s\ufeff]|//[^\n\r]*|/\*.*?\*/)*", re.S).match(text, start, end)
    assert found is not None
    return found.end() if text[found.end() : found.end() + 1] == "," and found.end() < end else -1


def _without(text: str, at: int, end: int) -> tuple[str, int]:
    """Remove one comma; one directly behind a member is removed with it."""
    return (text, at + 1) if at == end else (text[:at] + text[at + 1 :], end)


def _without_span(text: str, start: int, end: int) -> str:
    """Remove a span; with it the line, if nothing else is on it, or the space behind it."""
    head = len(text[:start].rstrip(" \t"))
    tail = re.compile(r"[ \t]*").match(text, end)
    assert tail is not None
    if text[head - 1 : head] in ("\n", "\r") and (broken := _LINE_BREAK.match(text, tail.end())):
        return text[:head] + text[broken.end() :]
    if text[head - 1 : head] in ("{", "[") and text[tail.end() : tail.end() + 1] in ("}", "]"):
        return text[:head] + text[tail.end() :]
    return text[:start] + text[tail.end() if text[tail.end() : tail.end() + 1] not in ("}", "]") else end :]
