"""Set a value and extend a list in a YAML text of two levels; everything else stays byte for byte.

Only the forms that people and programs write for such settings are edited. Others are refused by a sentence, and
the file stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_BLANK = re.compile(r"[ \t]*(#.*)?\r?\n?\Z")
_EMPTY = ("", "~", "null", "Null", "NULL")


class _Key(NamedTuple):
    """A key and its lines: `lines[start:end]`, the first one split at the value."""

    start: int
    end: int
    indent: int
    head: str
    value: str
    tail: str


def get(text: str, path: tuple[str, str]) -> str | list[str] | None:
    """Return the text or the list of texts at a path; None if it is missing or empty."""
    lines = _lines(text)
    parent = _find(lines, path[0], 0, len(lines), 0)
    if parent is None:
        return None
    if parent.value.startswith("{"):
        return _scalar_or_list(_flow_pairs(parent.value).get(path[1], ""))
    key = _child(lines, parent, path[1])
    if key is None:
        return None
    if key.value in _EMPTY:
        return [_plain(item) for _, item in _items(lines, key)] or None
    return _scalar_or_list(key.value)


def put(text: str, path: tuple[str, str], value: str) -> str:
    """Set the text at a path."""
    return text if get(text, path) == value else _put_raw(text, path, value)


def _put_raw(text: str, path: tuple[str, str], value: str) -> str:
    lines = _lines(text)
    parent = _find(lines, path[0], 0, len(lines), 0)
    if parent is None:
        return _append_block(text, path, [f"  {path[1]}: {value}"])
    if parent.value.startswith("{"):
        pairs = {**_flow_pairs(parent.value), path[1]: value}
        return _with_value(lines, parent, _flow_mapping(pairs))
    key = _child(lines, parent, path[1])
    if key is None:
        return _insert_child(lines, parent, [f"{path[1]}: {value}"])
    if key.value in _EMPTY and _has_content(lines, key):
        raise _unknown(path)
    return _with_value(lines, key, value)


def append(text: str, path: tuple[str, str], value: str) -> str:
    """Append a text to the list at a path, if the list does not contain it."""
    old = get(text, path)
    if isinstance(old, str):
        raise ValueError(f"{'.'.join(path)} is not a list")
    if value in (old or []):
        return text
    lines = _lines(text)
    parent = _find(lines, path[0], 0, len(lines), 0)
    if parent is None:
        return _append_block(text, path, [f"  {path[1]}:", f"    - {value}"])
    if parent.value.startswith("{"):
        pairs = {**_flow_pairs(parent.value), path[1]: _flow_list([*(old or []), value])}
        return _with_value(lines, parent, _flow_mapping(pairs))
    key = _child(lines, parent, path[1])
    if key is None:
        return _insert_child(lines, parent, [f"{path[1]}:", f"  - {value}"])
    if key.value.startswith("["):
        return _with_value(lines, key, _with_item(key.value, value))
    return _append_item(lines, key, value)


def remove(text: str, path: tuple[str, str], original: str | None) -> str:
    """Remove the value at a path, or give it back the one that the original has."""
    before = _raw(original, path) if original is not None else ""
    return _put_raw(text, path, before) if before not in _EMPTY else _without_key(text, path, original)


def remove_item(text: str, path: tuple[str, str], value: str, original: str | None) -> str:
    """Remove a text from the list at a path; with its last item the list, if the original does not have it."""
    old = get(text, path)
    if not isinstance(old, list) or value not in old:
        return text
    rest = [each for each in old if each != value]
    if not rest and (original is None or not _has_key(original, path)):
        return _without_key(text, path, original)
    lines = _lines(text)
    parent = _find(lines, path[0], 0, len(lines), 0)
    assert parent is not None
    if parent.value.startswith("{"):
        return _with_value(lines, parent, _flow_mapping({**_flow_pairs(parent.value), path[1]: _flow_list(rest)}))
    key = _child(lines, parent, path[1])
    assert key is not None
    if key.value.startswith("["):
        return _with_value(lines, key, _without_item(key.value, value))
    for at, item in reversed(_items(lines, key)):
        if _plain(item) == value:
            del lines[at]
    if rest:
        return "".join(lines)
    return _with_value(lines, key, "[]")


def _raw(text: str, path: tuple[str, str]) -> str:
    """Return the value at a path as it is written on its line."""
    lines = _lines(text)
    parent = _find(lines, path[0], 0, len(lines), 0)
    if parent is None:
        return ""
    if parent.value.startswith("{"):
        return _flow_pairs(parent.value).get(path[1], "")
    key = _child(lines, parent, path[1])
    return key.value if key else ""


def check(text: str) -> None:
    """Refuse a text that is not one document of plain lines."""
    if "\t" in re.sub(r"[^\n]*[^\s][^\n]*", lambda line: line[0][: len(line[0]) - len(line[0].lstrip())], text):
        raise ValueError("a line is indented with tabs, which YAML does not allow")
    bare = re.sub(r"\A(?:%[^\n]*\n|[ \t]*#[^\n]*\n|\s)*---(?=\s|$)", "", text.removeprefix("\ufeff"))
    if re.search(r"^(?:---|\.\.\.)(?=\s|$)", bare, re.M):
        raise ValueError("it contains several documents")


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unknown(path: Sequence[str]) -> ValueError:
    return ValueError(f"{'.'.join(path)} is written in a form that cannot be changed automatically")


def _find(lines: Sequence[str], key: str, start: int, end: int, indent: int) -> _Key | None:
    """Return a key at an indentation between two lines. The last of several wins, as in the parser."""
    pattern = re.compile(
        rf"""(\ufeff?[ ]{{{indent}}}(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')[ \t]*:)([ \t].*|\r?$)"""
    )
    found = None
    for at in range(start, end):
        if matched := pattern.match(lines[at].rstrip("\n")):
            value, tail = _split_comment(matched[2])
            lead = value[: len(value) - len(value.lstrip())]
            ending = lines[at][len(lines[at].rstrip("\r\n")) :]
            last = _key_end(lines, at, end, indent)
            found = _Key(at, last, indent, matched[1] + lead, value.strip(), tail.rstrip("\r") + ending)
    if found and (found.value[:1] in ("&", "*", "!", "|", ">") or not _is_closed(found.value)):
        raise _unknown([key])
    return found


def _key_end(lines: Sequence[str], at: int, end: int, indent: int) -> int:
    """Return the index after the last line of a key's value, without the comments and empty lines behind it."""
    last = at + 1
    for number in range(at + 1, end):
        if _BLANK.match(lines[number]):
            continue
        depth = len(lines[number]) - len(lines[number].lstrip(" "))
        is_item = lines[number].lstrip(" ").startswith(("- ", "-\n", "-\r"))
        if depth < indent or (depth == indent and not is_item):
            break
        last = number + 1
    return last


def _split_comment(text: str) -> tuple[str, str]:
    """Split a value from the comment behind it."""
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif (char in "\"'" and not text[:at].strip(" \t[{,")) or (
            char in "\"'" and text[:at].rstrip(" \t")[-1:] in (",", "[", "{", ":")
        ):
            quote = char
        elif char == "#" and (at == 0 or text[at - 1] in " \t"):
            start = len(text[:at].rstrip())
            return text[:start], text[start:]
    start = len(text.rstrip())
    return text[:start], text[start:]


def _is_closed(value: str) -> bool:
    """Return whether a value ends on its line."""
    if value[:1] in ("[", "{"):
        bare = re.sub(r"""'[^']*'|"[^"]*\"""", "", value)
        return bare[-1:] in ("]", "}") and all(bare.count(one) == bare.count(other) for one, other in ("[]", "{}"))
    return value[:1] not in ('"', "'") or (len(value) > 1 and value.endswith(value[0]))


def _child(lines: Sequence[str], parent: _Key, key: str) -> _Key | None:
    if parent.value not in _EMPTY:
        raise _unknown([key])
    return _find(lines, key, parent.start + 1, parent.end, _child_indent(lines, parent))


def _child_indent(lines: Sequence[str], parent: _Key) -> int:
    for line in lines[parent.start + 1 : parent.end]:
        if not _BLANK.match(line):
            if line.lstrip().startswith("- "):
                raise ValueError("a list stands where settings are expected")
            return len(line) - len(line.lstrip(" "))
    return parent.indent + 2


def _has_content(lines: Sequence[str], key: _Key) -> bool:
    return any(not _BLANK.match(line) for line in lines[key.start + 1 : key.end])


def _items(lines: Sequence[str], key: _Key) -> list[tuple[int, str]]:
    """Return the items of a list in lines: their line numbers and texts."""
    found = list[tuple[int, str]]()
    for at in range(key.start + 1, key.end):
        if _BLANK.match(lines[at]):
            continue
        matched = re.match(r"[ ]*-[ ]+(\S.*)", lines[at])
        if not matched or re.match(r"""[^'"\s]+:(\s|$)|[&*!|>{\[]""", matched[1]):
            raise ValueError("a list contains items that are not plain words")
        found.append((at, _split_comment(matched[1].rstrip("\r"))[0]))
    return found


def _plain(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _scalar_or_list(value: str) -> str | list[str] | None:
    if value in _EMPTY:
        return None
    return [_plain(each) for each in _split(value[1:-1])] or None if value.startswith("[") else _plain(value)


def _flow_pairs(value: str) -> dict[str, str]:
    """Return the pairs of `{a: 1, b: [x, y]}`."""
    pairs = dict[str, str]()
    if "{" in value[1:] or re.search(r"""(["'])[^"']*[,:\[\]}][^"']*\1""", value):
        raise ValueError("a mapping on one line cannot be read")
    for part in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", value[1:-1]):
        key, colon, inner = part.partition(":")
        if not colon and part.strip():
            raise ValueError("a mapping on one line cannot be read")
        if colon:
            pairs[_plain(key)] = inner.strip()
    return pairs


def _flow_mapping(pairs: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"


def _with_item(value: str, item: str) -> str:
    """Return a list on one line with another item at its end; spaces and a last comma stay."""
    inside = value[1:-1]
    head = inside.rstrip()
    tail = inside[len(head) :]
    if not head:
        return f"[{item}]"
    return f"[{head} {item},{tail}]" if head.endswith(",") else f"[{head}, {item}{tail}]"


def _without_item(value: str, item: str) -> str:
    """Return a list on one line without an item."""
    name = rf"""(?:{re.escape(item)}|"{re.escape(item)}"|'{re.escape(item)}')"""
    shorter, count = re.subn(rf"\s*,\s*{name}(?=\s*[,\]])", "", value, count=1)
    return shorter if count else re.sub(rf"(?<=\[){name}\s*,?\s*|(?<=\[\s){name}\s*,?\s*", "", value, count=1)


def _flow_list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"


def _with_value(lines: list[str], key: _Key, value: str) -> str:
    """Return the text with another value on the line of a key."""
    space = "" if key.head.endswith((" ", "\t")) else " "
    lines[key.start] = f"{key.head}{space}{value}{key.tail}"
    return "".join(lines)


def _append_block(text: str, path: Sequence[str], body: Sequence[str]) -> str:
    newline = _newline(text)
    gap = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
    return text + gap + "".join(f"{line}{newline}" for line in (f"{path[0]}:", *body))


def _insert_child(lines: list[str], parent: _Key, body: Sequence[str]) -> str:
    """Insert lines at the end of a block, at the indentation of its keys."""
    newline = _newline("".join(lines))
    indent = " " * _child_indent(lines, parent)
    if parent.value:  # `null` gives way to the block
        _with_value(lines, parent, "")
        lines[parent.start] = f"{parent.head.rstrip()}{parent.tail}"
    if not lines[parent.end - 1].endswith("\n"):
        lines[parent.end - 1] += newline
    return "".join([*lines[: parent.end], *(f"{indent}{line}{newline}" for line in body), *lines[parent.end :]])


def _append_item(lines: list[str], key: _Key, value: str) -> str:
    newline = _newline("".join(lines))
    items = _items(lines, key)
    if not items:
        if key.value:
            lines[key.start] = f"{key.head.rstrip()}{key.tail}"
        line, at = f"{' ' * (key.indent + 2)}- {value}", key.start + 1
    else:
        last = items[-1][0]
        line, at = f"{lines[last][: lines[last].index('-')]}- {value}", last + 1
    if not lines[at - 1].endswith("\n"):
        lines[at - 1] += newline
    return "".join([*lines[:at], f"{line}{newline}", *lines[at:]])


def _has_key(text: str, path: tuple[str, str]) -> bool:
    lines = _lines(text)
    parent = _find(lines, path[0], 0, len(lines), 0)
    if parent is None:
        return False
    if parent.value.startswith("{"):
        return path[1] in _flow_pairs(parent.value)
    return _child(lines, parent, path[1]) is not None


def _without_key(text: str, path: tuple[str, str], original: str | None) -> str:
    """Remove a key; with it its parent, if nothing is left there and the original does not have it."""
    lines = _lines(text)
    parent = _find(lines, path[0], 0, len(lines), 0)
    if parent is None:
        return text
    if parent.value.startswith("{"):
        pairs = {name: each for name, each in _flow_pairs(parent.value).items() if name != path[1]}
        return _with_value(lines, parent, _flow_mapping(pairs))
    key = _child(lines, parent, path[1])
    if key is None:
        return text
    del lines[key.start : key.end]
    rest = lines[parent.start + 1 : parent.end - (key.end - key.start)]
    had_parent = original is not None and _find(_lines(original), path[0], 0, len(_lines(original)), 0) is not None
    if not had_parent and not any(line.strip() for line in rest):
        mark = "\ufeff" if lines[parent.start].startswith("\ufeff") else ""
        return "".join([*lines[: parent.start], mark, *lines[parent.start + 1 :]])
    return "".join(lines)
