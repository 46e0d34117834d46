"""Change one setting in `lcm.toml` and keep everything else as it is written.

The text is edited, so comments and layout stay; parsing the result proves that only this setting differs.
A file that is not valid TOML can be mended this way too. A refused change leaves the file as it was, and no backup.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins

from lossless.config.conflicts import Check
from lossless.config.load import collect, find_problems, parse
from lossless.config.paths import config_path, make_directory
from lossless.config.redact import hide_secrets
from lossless.config.settings import find_setting, spellings
from lossless.errors import (
    ConfigBackupFailed,
    ConfigError,
    ConfigLinked,
    ConfigRefused,
    ConfigUnreadable,
    ConfigWriteFailed,
    InvalidInput,
    SettingNotFound,
)

_BY_HAND = "Edit the file."
_MARK = b"\xef\xbb\xbf"


class Change(Struct, frozen=True):
    """A change of one setting. Passwords are hidden."""

    name: str
    old: object
    """The value in the file before; None if there was none, or it could not be parsed."""
    new: object
    path: str
    backup: str | None
    """A copy of the file before the change; None if there was no file or no change."""
    overridden_by: str | None
    """The variable that overrides the file."""
    problems: tuple[str, ...]
    """Mistakes that remain in the configuration."""


def put(
    name: str,
    text: str,
    *,
    path: Path | None = None,
    clock: Callable[[], float] = time.time,
    check: Check | None = None,
) -> Change:
    """Set a setting to the value that the text stands for: TOML or JSON, else as in the variable.

    A change that adds a mistake is refused; mistakes that were there before do not matter.
    `check` finds mistakes that only show once a setting is used.
    """
    setting = find_setting(name)
    if text.strip() == "null":
        raise InvalidInput("null is not a value of a setting.", hint=f"`lcm config set --unset {name}` removes it.")
    return _change(_place(path), setting.name, spellings(setting.name), setting.read(text), clock, check)


def unset(
    name: str, *, path: Path | None = None, clock: Callable[[], float] = time.time, check: Check | None = None
) -> Change:
    """Remove a setting from the file, or a name in it that is not a setting."""
    path = _place(path)
    table = _try_parse(path, _bytes(path) or b"")
    try:
        setting = None if name in (table or {}) else find_setting(name)
    except SettingNotFound:
        if table is not None:
            raise
        setting = None  # a file that cannot be parsed may contain the name
    if setting is None:
        return _change(path, name, {name}, None, clock, check)
    return _change(path, setting.name, spellings(setting.name), None, clock, check)


def toml(value: object) -> str:
    """Format the value of a setting for `lcm.toml`, on one line."""
    match value:
        case str():
            # TOML has the escapes of JSON except surrogate pairs, and needs this character escaped as well.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool() | int() | float():
            return json.dumps(value)
        case list() | tuple():
            return f"[{', '.join(map(toml, value))}]"
        case _:
            table: Mapping[str, object] = to_builtins(value)
            entries = (f"{_key(key)} = {toml(each)}" for key, each in table.items() if each is not None)
            return f"{{ {', '.join(entries)} }}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)


def _place(path: Path | None) -> Path:
    """Return the path of the file, after a check that it is read and can be replaced."""
    place = path or config_path()
    # A relative configuration directory is not read, see `config.load`; a file that the user names is.
    if not place.is_absolute() and not (path or os.environ.get("LCM_CONFIG", "").strip()):
        raise ConfigWriteFailed(f"{place} is not an absolute path.", hint="Set LCM_CONFIG to one.")
    try:
        mode = place.lstat().st_mode
    except OSError:
        return place
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "not a file"
        raise ConfigLinked(f"{place} is {what}.", hint="Name the file itself with LCM_CONFIG.")
    if not os.access(place, os.W_OK):
        raise ConfigWriteFailed(f"{place} is not writable.", hint="Change its mode, or edit it as its owner.")
    return place


def _change(
    path: Path, name: str, names: set[str], value: object, clock: Callable[[], float], check: Check | None
) -> Change:
    before = _bytes(path)
    old, after = _edit(path, before or b"", name, names, value, check)
    backup = _replace(path, before, after, clock) if after != (before or b"") else None
    loaded = collect(file=path if path.exists() else None, check=check)
    source = loaded.sources.get(name)
    return Change(
        name=name,
        old=hide_secrets(old),
        new=hide_secrets(value),
        path=str(path),
        backup=backup,
        overridden_by=source.where if source and source.kind == "environment" else None,
        problems=loaded.problems,
    )


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigUnreadable(f"{path} cannot be read: {error.strerror}.") from error


def _try_parse(path: Path, data: bytes | str) -> dict[str, Any] | None:
    try:
        return parse(path, data if isinstance(data, bytes) else data.encode())
    except ConfigError:
        return None


class _Edit(NamedTuple):
    """A possible edit: the text without the setting, the text with it, and the values it adds."""

    without: str
    changed: str
    adds: dict[str, object]


def _edit(
    path: Path, before: bytes, name: str, names: set[str], value: object, check: Check | None
) -> tuple[object, bytes]:
    """Return the old value, and the bytes of the file after the first edit that changes nothing else."""
    table = _try_parse(path, before)
    old = next((each for key, each in (table or {}).items() if key in names), None)
    if table is not None and value is None and old is None:
        return None, before
    for edit in _possible_edits(_text(before), table is not None, name, names, value):
        rest, result = _try_parse(path, edit.without), _try_parse(path, edit.changed)
        if rest is None or not rest.keys().isdisjoint(names) or result != rest | edit.adds:
            continue
        if table is None or rest == {key: each for key, each in table.items() if key not in names}:
            _refuse_new_problems(path, rest, result, check)
            return old, (_MARK if before.startswith(_MARK) else b"") + edit.changed.encode()
    try:
        parse(path, before)
    except ConfigError as error:
        raise ConfigUnreadable(error.message, hint=f"This change would not fix it. {_BY_HAND}") from error
    raise ConfigRefused(f"{path}: {name} is written in a form that cannot be changed automatically.", hint=_BY_HAND)


def _text(data: bytes) -> str:
    """Return the text of the file; empty if it is not UTF-8, which no edit can fix."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""


def _refuse_new_problems(
    path: Path, rest: Mapping[str, object], result: Mapping[str, object], check: Check | None
) -> None:
    """Refuse a change that adds a mistake."""
    known = find_problems(path, rest, check)
    added = [each for each in find_problems(path, result, check) if each not in known]
    if added:
        raise ConfigRefused("\n".join(added), hint=f"{path} was not changed.")


def _possible_edits(text: str, is_valid: bool, name: str, names: set[str], value: object) -> Iterator[_Edit]:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    written = "|".join(map(re.escape, sorted(names)))
    head = re.compile(rf"""[ \t]*(["']?)({written})\1[ \t]*=[ \t]*""")
    for start, line in enumerate(lines):
        if found := head.match(line):
            end = _end(lines, start) if is_valid else start + 1
            without = "".join([*lines[:start], *lines[end:]])
            if value is None:
                yield _Edit(without, without, {})
            else:
                replaced = f"{found[0]}{toml(value)}{_trailer(''.join(lines[start:end]))}"
                yield _Edit(without, "".join([*lines[:start], replaced, *lines[end:]]), {found[2]: value})
    if is_valid and value is not None:
        for at in _insertion_points(lines):
            yield _Edit(text, _insert(lines, at, f"{name} = {toml(value)}"), {name: value})


def _end(lines: Sequence[str], start: int) -> int:
    """Return the index after the last line of the entry that starts on a line."""
    ends = range(start + 1, len(lines) + 1)
    return next((end for end in ends if _is_toml("".join(lines[start:end]))), start + 1)


def _is_toml(text: str) -> bool:
    return _try_parse(Path("lcm.toml"), text) is not None


def _trailer(span: str) -> str:
    """Return the text after a value: an optional comment and the end of the line."""
    for found in re.finditer(r"[ \t]*#", span):
        if _is_toml(span[: found.start()]):
            return span[found.start() :]
    # The value itself may be invalid: then take what looks like a comment for one.
    last = re.search(r"""[ \t]+\#[^"'\r\n]*\r?\n?\Z|\r?\n?\Z""", span)
    return last[0] if last else ""


def _insertion_points(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines before which a new setting may go: above a table and its comment, or at the end."""
    for at, line in enumerate(lines):
        if line.lstrip().startswith("["):
            while at and lines[at - 1].lstrip().startswith("#"):
                at -= 1
            while at and not lines[at - 1].strip():
                at -= 1
            yield at
    yield len(lines)


def _insert(lines: Sequence[str], at: int, line: str) -> str:
    newline = "\r\n" if any(each.endswith("\r\n") for each in lines) else "\n"
    above = "".join(lines[:at])
    gap = newline if above and not above.endswith("\n") else ""
    below = newline if lines[at:] and lines[at].strip() else ""
    return f"{above}{gap}{line}{newline}{below}{''.join(lines[at:])}"


def _replace(path: Path, before: bytes | None, after: bytes, clock: Callable[[], float]) -> str | None:
    """Replace the file atomically; return the path of the backup."""
    mode = 0o600 if before is None else stat.S_IMODE(path.stat().st_mode)
    now = datetime.fromtimestamp(clock(), UTC)
    backup = None if before is None else path.with_name(f"{path.name}.backup-{now:%Y%m%d-%H%M%S-%f}")
    try:
        make_directory(path.parent)
        with ExitStack() as undo:
            draft = path.with_name(f".lcm-{os.urandom(4).hex()}.new")
            _write(draft, after, mode, undo)
            if backup:
                _write_backup(backup, before or b"", mode, undo)
            if _bytes(path) != before:
                raise ConfigWriteFailed(f"{path} was changed by another program in the meantime.", hint="Try again.")
            os.replace(draft, path)
            undo.pop_all()
    except OSError as error:
        raise ConfigWriteFailed(f"{path} cannot be written: {error.strerror}.", hint="Nothing was changed.") from error
    _flush(path.parent)
    return str(backup) if backup else None


def _write_backup(backup: Path, data: bytes, mode: int, undo: ExitStack) -> None:
    try:
        _write(backup, data, mode, undo)
    except OSError as error:
        message = f"{backup} cannot be written: {error.strerror}."
        raise ConfigBackupFailed(message, hint="Nothing was changed.") from error


def _write(path: Path, data: bytes, mode: int, undo: ExitStack) -> None:
    """Write and sync a new file; `undo` removes it if a later step fails."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        undo.callback(path.unlink)
        os.chmod(path, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush(directory: Path) -> None:
    # Not every system can sync a directory; the change is made anyway.
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
