"""Entries that lossless writes into configuration files: add them, take them out, see if they are there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from lossless.hosts.install import json_text, toml_text, yaml_text
from lossless.hosts.install.json_tree import JsonSyntaxError, Node, parse

Grammar: TypeAlias = Literal["json", "toml", "yaml"]


class Put(Struct, frozen=True, tag="put"):
    """A value at a path of keys. Tables are merged."""

    path: tuple[str, ...]
    value: Any
    named: bool = False
    """True if the last key is a name of ours: then the removal does not depend on the value."""


class Append(Struct, frozen=True, tag="append"):
    """A text in the list at a path of keys."""

    path: tuple[str, ...]
    value: str
    only_if_used: bool = False
    """True if a list with this item alone would exclude others: then only a list that has items gets it."""


class Hook(Struct, frozen=True, tag="hook"):
    """A command at an event, in the form that Claude Code and Codex share."""

    event: str
    command: str
    host: str
    timeout: int
    matcher: str | None = None


Entry: TypeAlias = Put | Append | Hook


def add(grammar: Grammar, text: str, entries: Sequence[Entry]) -> str:
    """Return the text with all entries."""
    _check(grammar, text)
    for entry in entries:
        text = _ADD[grammar](text, entry)
    return text


def take_out(grammar: Grammar, text: str, entries: Sequence[Entry], original: str | None) -> str:
    """Return the text without the entries; where the original had other values, with those."""
    _check(grammar, text)
    for entry in reversed(entries):
        text = _TAKE_OUT[grammar](text, entry, original)
    return text


def missing(grammar: Grammar, text: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that a text does not contain."""
    try:
        return [entry for entry in entries if add(grammar, text, [entry]) != text]
    except ValueError:
        return list(entries)


def is_present(grammar: Grammar, text: str, entry: Put | Hook) -> bool:
    """Return whether a text contains an entry under its name, in whatever form."""
    _check(grammar, text)
    if isinstance(entry, Hook):
        return bool(_own_hooks(text, entry))
    if grammar == "yaml":
        return bool(yaml_text.get(text, _two(entry)) == entry.value)
    if grammar == "toml":
        return toml_text.get(text, entry.path) is not None
    node = json_text.find(text, entry.path)
    return node is not None and (entry.named or bool(node.plain() == entry.value))


def is_blank(grammar: Grammar, text: str) -> bool:
    """Return whether a text contains nothing but spaces and empty brackets."""
    bare = re.sub(r"\s", "", text.strip("\ufeff"))
    return bare in (("", "{}") if grammar == "json" else ("",))


def describe(entry: Entry) -> str:
    """Return a short name of an entry, for messages."""
    if isinstance(entry, Hook):
        return f"the hook {entry.event}"
    return ".".join(entry.path)


def _check(grammar: Grammar, text: str) -> None:
    """Raise a ValueError if the text does not follow the grammar."""
    try:
        if grammar == "json":
            root = parse(text)
            if root is not None and root.kind != "object":
                raise ValueError("not an object")
        elif grammar == "toml":
            toml_text.parse(text)
        else:
            yaml_text.check(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not valid TOML: {error}") from error
    except JsonSyntaxError as error:
        raise ValueError(f"not valid JSON: {error}") from error


def _add_json(text: str, entry: Entry) -> str:
    match entry:
        case Put():
            return json_text.put(text, entry.path, entry.value)
        case Append():
            if entry.only_if_used and not _has_items(text, entry.path):
                return text
            return json_text.append(text, entry.path, entry.value)
        case Hook():
            return _add_hook(text, entry)


def _has_items(text: str, path: Sequence[str]) -> bool:
    node = json_text.find(text, path)
    return node is not None and node.kind == "array" and bool(node.members)


def _take_out_json(text: str, entry: Entry, original: str | None) -> str:
    match entry:
        case Put():
            return _take_out_value(text, entry, original)
        case Append():
            return _take_out_item(text, entry, original)
        case Hook():
            return _take_out_hook(text, entry, original)


def _take_out_value(text: str, entry: Put, original: str | None) -> str:
    node = json_text.find(text, entry.path)
    if node is None or (not entry.named and node.plain() != entry.value):
        return text
    before = json_text.find(original, entry.path) if original is not None else None
    if before is not None and original is not None:
        return f"{text[: node.start]}{original[before.start : before.end]}{text[node.end :]}"
    return _prune(json_text.remove(text, entry.path), entry.path[:-1], original)


def _take_out_item(text: str, entry: Append, original: str | None) -> str:
    node = json_text.find(text, entry.path)
    if node is None or node.kind != "array" or entry.value in _plain_list(original, entry.path):
        return text
    places = [at for at, each in enumerate(node.members) if each.node.value == entry.value]
    if not places:
        return text
    return _prune(json_text.remove_item(text, entry.path, places[-1]), entry.path, original)


def _plain_list(text: str | None, path: Sequence[str]) -> list[Any]:
    node = json_text.find(text, path) if text is not None else None
    found: list[Any] = node.plain() if node is not None and node.kind == "array" else []
    return found


def _prune(text: str, path: Sequence[str], original: str | None) -> str:
    """Remove the empty containers on a path that the original does not have."""
    for depth in range(len(path), 0, -1):
        part = path[:depth]
        if not json_text.is_empty(text, part) or (original is not None and json_text.find(original, part) is not None):
            break
        text = json_text.remove(text, part)
    return text


def is_ours(command: str, host: str) -> bool:
    """Return whether a command line runs the hook of lossless, by whatever interpreter."""
    program = r"""(?:^|[\s/\\'"])(?:lcm(?:\.exe)?|-m\s+lossless)['"]?"""
    return re.search(rf"{program}\s+hook\s+{re.escape(host)}\b", command) is not None


def _own_hooks(text: str, entry: Hook) -> list[tuple[int, int, str]]:
    """Return our commands at an event: the index of the group, that in the group, and the command."""
    groups = json_text.find(text, ("hooks", entry.event))
    if groups is None or groups.kind != "array":
        return []
    found = list[tuple[int, int, str]]()
    for at, group in enumerate(groups.members):
        inner = group.node.get("hooks") if group.node.kind == "object" else None
        for number, hook in enumerate(inner.members if inner is not None else ()):
            command = _command(hook.node)
            if is_ours(command, entry.host):
                found.append((at, number, command))
    return found


def _command(node: Node) -> str:
    found = node.get("command") if node.kind == "object" else None
    return found.value if found is not None and isinstance(found.value, str) else ""


def _add_hook(text: str, entry: Hook) -> str:
    found = _own_hooks(text, entry)
    if found:
        group, number, command = found[0]
        place = ("hooks", entry.event, group, "hooks", number, "command")
        return text if command == entry.command else json_text.replace(text, place, entry.command)
    hook = {"type": "command", "command": entry.command, "timeout": entry.timeout}
    matcher = {} if entry.matcher is None else {"matcher": entry.matcher}
    return json_text.append(text, ("hooks", entry.event), {**matcher, "hooks": [hook]})


def _take_out_hook(text: str, entry: Hook, original: str | None) -> str:
    before = _own_hooks(original, entry) if original is not None else []
    if before:  # it was there by hand, with a command of its own
        for group, number, _ in _own_hooks(text, entry)[:1]:
            text = json_text.replace(text, ("hooks", entry.event, group, "hooks", number, "command"), before[0][2])
        return text
    path, found = ("hooks", entry.event), _own_hooks(text, entry)
    for group, number, _ in reversed(found):
        inner = json_text.find(text, (*path, group, "hooks"))
        assert inner is not None
        if len(inner.members) == 1:
            text = json_text.remove_item(text, path, group)
        else:
            text = _remove_inner(text, path, group, number)
    return _prune(text, path, original) if found else text


def _remove_inner(text: str, path: tuple[str, str], group: int, number: int) -> str:
    return json_text.remove_item(text, (*path, group, "hooks"), number)


def _add_toml(text: str, entry: Entry) -> str:
    if not isinstance(entry, Put):
        raise TypeError(f"TOML files get tables only, not {describe(entry)}.")
    return toml_text.put(text, entry.path, entry.value)


def _take_out_toml(text: str, entry: Entry, original: str | None) -> str:
    return toml_text.remove(text, entry.path, original) if isinstance(entry, Put) else text


def _two(entry: Put | Append) -> tuple[str, str]:
    first, second = entry.path
    return first, second


def _add_yaml(text: str, entry: Entry) -> str:
    match entry:
        case Put():
            return yaml_text.put(text, _two(entry), entry.value)
        case Append():
            return yaml_text.append(text, _two(entry), entry.value)
        case Hook():
            raise TypeError("YAML files get no hooks.")


def _take_out_yaml(text: str, entry: Entry, original: str | None) -> str:
    match entry:
        case Put() if yaml_text.get(text, _two(entry)) == entry.value:
            return yaml_text.remove(text, _two(entry), original)
        case Append() if original is None or entry.value not in (yaml_text.get(original, _two(entry)) or []):
            return yaml_text.remove_item(text, _two(entry), entry.value, original)
        case _:
            return text


_ADD = {"json": _add_json, "toml": _add_toml, "yaml": _add_yaml}
_TAKE_OUT = {"json": _take_out_json, "toml": _take_out_toml, "yaml": _take_out_yaml}
