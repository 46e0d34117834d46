"""`lcm.toml` changed by a program: one setting at a time, and everything else as a person left it.

The text is changed, not written anew, so comments and layout stay; reading the result proves that one setting
differs and nothing else. What is refused leaves the file as it was, and no backup.
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

from lossless import config
from lossless.config import Check
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
    """What became of one setting. Passwords are hidden."""

    name: str
    old: object
    """What the file said before; None if nothing that could be read."""
    new: object
    path: str
    backup: str | None
    """The file as it was; None if there was none, or nothing had to change."""
    overridden_by: str | None
    """The variable that counts in place of the file."""
    problems: tuple[str, ...]
    """What is still wrong with the configuration."""


def put(
    name: str,
    text: str,
    *,
    path: Path | None = None,
    clock: Callable[[], float] = time.time,
    check: Check | None = None,
) -> Change:
    """Set a setting to what the text means: TOML or JSON, otherwise what it would mean in the variable.

    A mistake that was there before does not stand in the way, and may be what this mends; one that it would make does.
    `check` tells mistakes that only show once a setting is used.
    """
    setting = config.setting(name)
    if text.strip() == "null":
        raise InvalidInput("null is no value of a setting.", hint=f"`lcm config set --unset {name}` takes it out.")
    return _change(_place(path), setting.name, config.spellings(setting.name), setting.read(text), clock, check)


def unset(
    name: str, *, path: Path | None = None, clock: Callable[[], float] = time.time, check: Check | None = None
) -> Change:
    """Take a setting out of the file, or a name in it that is none."""
    path = _place(path)
    table = _parsed(path, _bytes(path) or b"")
    try:
        setting = None if name in (table or {}) else config.setting(name)
    except SettingNotFound:
        if table is not None:
            raise
        setting = None  # what cannot be read may well hold it
    if setting is None:
        return _change(path, name, {name}, None, clock, check)
    return _change(path, setting.name, config.spellings(setting.name), None, clock, check)


def toml(value: object) -> str:
    """A value of a setting as `lcm.toml` has it, on one line."""
    match value:
        case str():
            # TOML has the escapes of JSON but for its pairs of surrogates, and wants this one escaped as well.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool() | int() | float():
            return json.dumps(value)
        case list() | tuple():
            return f"[{', '.join(map(toml, value))}]"
        case _:
            table: Mapping[str, object] = to_builtins(value)
            said = (f"{_key(key)} = {toml(each)}" for key, each in table.items() if each is not None)
            return f"{{ {', '.join(said)} }}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)


def _place(path: Path | None) -> Path:
    """Where the file is or will be: one that is read, and that can be replaced."""
    place = path or config.config_path()
    # A relative directory of the platform's is not read, see `config`; a file that somebody names is.
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
    old, after = _edited(path, before or b"", name, names, value, check)
    backup = _replaced(path, before, after, clock) if after != (before or b"") else None
    loaded = config.look(file=path if path.exists() else None, check=check)
    source = loaded.sources.get(name)
    return Change(
        name=name,
        old=config.hidden(old),
        new=config.hidden(value),
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


def _parsed(path: Path, data: bytes | str) -> dict[str, Any] | None:
    try:
        return config.parsed(path, data if isinstance(data, bytes) else data.encode())
    except ConfigError:
        return None


class _Way(NamedTuple):
    """One way to make a change: the text without the setting, the text with it, and what it says then."""

    without: str
    changed: str
    says: dict[str, object]


def _edited(
    path: Path, before: bytes, name: str, names: set[str], value: object, check: Check | None
) -> tuple[object, bytes]:
    """What the file said, and its bytes with the change: made in the first way that changes nothing else."""
    table = _parsed(path, before)
    old = next((said for key, said in (table or {}).items() if key in names), None)
    if table is not None and value is None and old is None:
        return None, before
    for way in _ways(_text(before), table is not None, name, names, value):
        rest, result = _parsed(path, way.without), _parsed(path, way.changed)
        if rest is None or not rest.keys().isdisjoint(names) or result != rest | way.says:
            continue
        if table is None or rest == {key: said for key, said in table.items() if key not in names}:
            _sound(path, rest, result, check)
            return old, (_MARK if before.startswith(_MARK) else b"") + way.changed.encode()
    try:
        config.parsed(path, before)
    except ConfigError as error:
        raise ConfigUnreadable(error.message, hint=f"This change would not mend it. {_BY_HAND}") from error
    raise ConfigRefused(f"{path}: {name} is written in a way that is not changed from here.", hint=_BY_HAND)


def _text(data: bytes) -> str:
    """The text of the file; none of what is no text, which no change can mend."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""


def _sound(path: Path, rest: Mapping[str, object], result: Mapping[str, object], check: Check | None) -> None:
    """Refuse what would make a mistake that is not there without it."""
    known = config.mistakes(path, rest, check)
    made = [each for each in config.mistakes(path, result, check) if each not in known]
    if made:
        raise ConfigRefused("\n".join(made), hint=f"{path} was not changed.")


def _ways(text: str, is_sound: bool, name: str, names: set[str], value: object) -> Iterator[_Way]:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    written = "|".join(map(re.escape, sorted(names)))
    head = re.compile(rf"""[ \t]*(["']?)({written})\1[ \t]*=[ \t]*""")
    for start, line in enumerate(lines):
        if found := head.match(line):
            end = _end(lines, start) if is_sound else start + 1
            without = "".join([*lines[:start], *lines[end:]])
            if value is None:
                yield _Way(without, without, {})
            else:
                anew = f"{found[0]}{toml(value)}{_behind(''.join(lines[start:end]))}"
                yield _Way(without, "".join([*lines[:start], anew, *lines[end:]]), {found[2]: value})
    if is_sound and value is not None:
        for at in _gaps(lines):
            yield _Way(text, _inserted(lines, at, f"{name} = {toml(value)}"), {name: value})


def _end(lines: Sequence[str], start: int) -> int:
    """Behind the last line of what begins on a line: the first up to which it can be read by itself."""
    ends = range(start + 1, len(lines) + 1)
    return next((end for end in ends if _is_toml("".join(lines[start:end]))), start + 1)


def _is_toml(text: str) -> bool:
    return _parsed(Path("lcm.toml"), text) is not None


def _behind(span: str) -> str:
    """What stands behind a value: a comment perhaps, and the end of the line."""
    for found in re.finditer(r"[ \t]*#", span):
        if _is_toml(span[: found.start()]):
            return span[found.start() :]
    # The value may be what cannot be read: then what looks like a comment is one.
    last = re.search(r"""[ \t]+\#[^"'\r\n]*\r?\n?\Z|\r?\n?\Z""", span)
    return last[0] if last else ""


def _gaps(lines: Sequence[str]) -> Iterator[int]:
    """Where a new setting may stand: above the first table and the comment on it, otherwise at the end."""
    for at, line in enumerate(lines):
        if line.lstrip().startswith("["):
            while at and lines[at - 1].lstrip().startswith("#"):
                at -= 1
            while at and not lines[at - 1].strip():
                at -= 1
            yield at
    yield len(lines)


def _inserted(lines: Sequence[str], at: int, line: str) -> str:
    newline = "\r\n" if any(each.endswith("\r\n") for each in lines) else "\n"
    above = "".join(lines[:at])
    gap = newline if above and not above.endswith("\n") else ""
    below = newline if lines[at:] and lines[at].strip() else ""
    return f"{above}{gap}{line}{newline}{below}{''.join(lines[at:])}"


def _replaced(path: Path, before: bytes | None, after: bytes, clock: Callable[[], float]) -> str | None:
    """Put the new bytes in the place of the old ones, all of them or none; where the old ones are kept."""
    mode = 0o600 if before is None else stat.S_IMODE(path.stat().st_mode)
    moment = datetime.fromtimestamp(clock(), UTC)
    backup = None if before is None else path.with_name(f"{path.name}.backup-{moment:%Y%m%d-%H%M%S-%f}")
    try:
        config.make_directory(path.parent)
        with ExitStack() as undo:
            draft = path.with_name(f".lcm-{os.urandom(4).hex()}.new")
            _written(draft, after, mode, undo)
            if backup:
                _kept(backup, before or b"", mode, undo)
            if _bytes(path) != before:
                raise ConfigWriteFailed(f"{path} was changed by somebody else meanwhile.", hint="Try again.")
            os.replace(draft, path)
            undo.pop_all()
    except OSError as error:
        raise ConfigWriteFailed(f"{path} cannot be written: {error.strerror}.", hint="Nothing was changed.") from error
    _flushed(path.parent)
    return str(backup) if backup else None


def _kept(backup: Path, data: bytes, mode: int, undo: ExitStack) -> None:
    try:
        _written(backup, data, mode, undo)
    except OSError as error:
        told = f"{backup} cannot be written: {error.strerror}."
        raise ConfigBackupFailed(told, hint="Nothing was changed.") from error


def _written(path: Path, data: bytes, mode: int, undo: ExitStack) -> None:
    """A new file, on the disk before anybody relies on it; gone again if what follows fails."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        undo.callback(path.unlink)
        os.chmod(path, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flushed(directory: Path) -> None:
    # Not every system can; the change is made all the same.
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
