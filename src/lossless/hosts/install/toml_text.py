"""Add and remove a table in a TOML text; everything else stays byte for byte.

The text is edited, and parsing the result proves that nothing else differs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lossless.config.edit_file import toml

_MARK = "\ufeff"
_HEADER = re.compile(r"[ \t]*\[")


def parse(text: str) -> dict[str, Any]:
    """Return the values of a text."""
    return tomllib.loads(text.removeprefix(_MARK))


def get(text: str, path: Sequence[str]) -> Any:
    """Return the value at a path, None if it is missing."""
    value: Any = parse(text)
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def put(text: str, path: Sequence[str], table: Mapping[str, Any]) -> str:
    """Set the keys of the table at a path; keys that only the file has stay."""
    old = get(text, path)
    merged = {**old, **table} if isinstance(old, dict) else dict(table)
    if old == merged:
        return text
    wanted = _with(parse(text), path, merged)
    for candidate in _put_candidates(text, path, table, merged):
        if _values(candidate) == wanted:
            return candidate
    raise ValueError(f"{'.'.join(path)} is written in a form that cannot be changed automatically")


def remove(text: str, path: Sequence[str], original: str | None = None) -> str:
    """Remove the table at a path, or give it back the form that it had in the original."""
    if get(text, path) is None:
        return text
    before = get(original, path) if original is not None else None
    wanted = _with(parse(text), path, before)
    for candidate in _remove_candidates(text, path, original if before is not None else None):
        if _values(candidate) in (wanted, _pruned(wanted, path)):
            return candidate
    raise ValueError(f"{'.'.join(path)} is written in a form that cannot be removed automatically")


def _values(text: str) -> dict[str, Any] | None:
    try:
        return parse(text)
    except tomllib.TOMLDecodeError:
        return None


def _with(values: dict[str, Any], path: Sequence[str], new: Any) -> dict[str, Any]:
    """Return the values with another one at a path; None removes it."""
    key, rest = path[0], path[1:]
    copy = dict(values)
    if rest:
        inner = copy.get(key)
        copy[key] = _with(inner if isinstance(inner, dict) else {}, rest, new)
    elif new is None:
        copy.pop(key, None)
    else:
        copy[key] = new
    return copy


def _pruned(values: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the values without the tables on a path that are empty."""
    for depth in range(len(path) - 1, 0, -1):
        value: Any = values
        for key in path[:depth]:
            value = value.get(key, {})
        values = _with(values, path[:depth], None) if value == {} else values
    return values


def _put_candidates(
    text: str, path: Sequence[str], table: Mapping[str, Any], merged: Mapping[str, Any]
) -> Iterator[str]:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = _lines(text)
    if block := _block(lines, path):
        yield "".join([*lines[: block[0]], *_updated(lines[block[0] : block[1]], table, newline), *lines[block[1] :]])
    if place := _inline(lines, path):
        at, head = place
        yield "".join([*lines[:at], f"{head}{toml(merged)}{newline}", *lines[at + 1 :]])
    body = newline.join([f"[{'.'.join(path)}]", *(f"{key} = {toml(each)}" for key, each in table.items())])
    gap = "" if not text.strip(_MARK + " \t\r\n") else newline if text.endswith("\n") else newline * 2
    yield f"{text}{gap}{body}{newline}"
    first = next((at for at, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    above = "".join(lines[:first])
    gap = newline if above and not above.endswith("\n") else ""
    yield f"{above}{gap}{'.'.join(path)} = {toml(dict(table))}{newline}{''.join(lines[first:])}"


def _remove_candidates(text: str, path: Sequence[str], original: str | None) -> Iterator[str]:
    lines = _lines(text)
    old = _own_text(original, path) if original is not None else ""
    if block := _block(lines, path):
        kept = _without_blocks(lines, path)
        if old:
            yield "".join([*lines[: block[0]], old, *_without_blocks(lines[block[0] :], path)])
        yield _without_gap("".join(kept[: block[0]]), "".join(kept[block[0] :]))
    if place := _inline(lines, path):
        at, _ = place
        yield "".join([*lines[:at], old, *lines[at + 1 :]])


def _own_text(original: str, path: Sequence[str]) -> str:
    """Return the lines of a table in the original, with those of the tables below it."""
    lines = _lines(original)
    if _block(lines, path):
        return "".join(lines[at] for at in sorted(_own_lines(lines, path)))
    place = _inline(lines, path)
    return lines[place[0]] if place else ""


def _without_gap(above: str, below: str) -> str:
    """Join two parts of a text, without the empty line that separated the table."""
    if not below.strip() or below.startswith(("\n", "\r\n")):
        shorter = re.sub(r"(?<=\n)\r?\n\Z", "", above)
        return shorter + below
    return above + below


def _lines(text: str) -> list[str]:
    """Return the lines of a valid text; a value that goes over several lines is one of them."""
    lines, found, at = re.findall(r"[^\n]*\n|[^\n]+", text), list[str](), 0
    while at < len(lines):
        ends = range(at + 1, len(lines) + 1)
        is_entry = "=" in lines[at] and not lines[at].lstrip(f"{_MARK} \t").startswith(("[", "#"))
        end = next((end for end in ends if _values("".join(lines[at:end])) is not None), at + 1) if is_entry else at + 1
        found.append("".join(lines[at:end]))
        at = end
    return found


def _key_pattern(path: Sequence[str]) -> str:
    return r"[ \t]*\.[ \t]*".join(rf"""(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')""" for key in path)


def _block(lines: Sequence[str], path: Sequence[str]) -> tuple[int, int] | None:
    """Return the lines of `[path]`: from its header to its last key."""
    header = re.compile(rf"{_MARK}?[ \t]*\[[ \t]*{_key_pattern(path)}[ \t]*\]")
    start = next((at for at, line in enumerate(lines) if header.match(line)), None)
    if start is None:
        return None
    return start, _block_end(lines, start)


def _block_end(lines: Sequence[str], start: int) -> int:
    """Return the index after the last key below a header; comments above the next header are not its own."""
    end = next((at for at in range(start + 1, len(lines)) if _HEADER.match(lines[at])), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def _own_lines(lines: Sequence[str], path: Sequence[str]) -> set[int]:
    """Return the numbers of the lines of `[path]` and of the tables below it."""
    header = re.compile(rf"{_MARK}?[ \t]*\[\[?[ \t]*{_key_pattern(path)}[ \t]*[\].]")
    starts = [at for at, line in enumerate(lines) if header.match(line)]
    return {number for start in starts for number in range(start, _block_end(lines, start))}


def _without_blocks(lines: Sequence[str], path: Sequence[str]) -> list[str]:
    """Return the lines without `[path]` and the tables below it."""
    own = _own_lines(lines, path)
    mark = [_MARK] if 0 in own and lines[0].startswith(_MARK) else []
    return mark + [line for at, line in enumerate(lines) if at not in own]


def _inline(lines: Sequence[str], path: Sequence[str]) -> tuple[int, str] | None:
    """Return the line of `path = { ... }` and what stands before the value."""
    for depth in range(len(path)):
        block = (0, next((at for at, line in enumerate(lines) if _HEADER.match(line)), len(lines)))
        if depth:
            found = _block(lines, path[:depth])
            if found is None:
                continue
            block = found
        head = re.compile(rf"{_MARK}?[ \t]*{_key_pattern(path[depth:])}[ \t]*=[ \t]*")
        for at in range(*block):
            if matched := head.match(lines[at]):
                return at, matched[0]
    return None


def _updated(lines: Sequence[str], table: Mapping[str, Any], newline: str) -> list[str]:
    """Return the lines of a block with the keys of a table set."""
    result = list(lines)
    for key, value in reversed(list(table.items())):
        head = re.compile(rf"[ \t]*{_key_pattern([key])}[ \t]*=[ \t]*")
        at = next((at for at, line in enumerate(result) if head.match(line)), None)
        if at is None:
            if not result[0].endswith("\n"):
                result[0] += newline
            result.insert(1, f"{key} = {toml(value)}{newline}")
            continue
        if _values(result[at]) != {key: value}:
            matched = head.match(result[at])
            assert matched is not None
            ending = newline if result[at].endswith("\n") else ""
            result[at] = f"{matched[0]}{toml(value)}{ending}"
    return result
