"""Read and replace files of other programs: atomically, with their mode, their owner and their links kept."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from lossless.errors import InstallRefused

Kind: TypeAlias = Literal["config", "copy"]
_UNCHANGED = "Nothing was changed."


class FileChange(Struct, frozen=True, kw_only=True):
    """The change of one file. None stands for no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    kind: Kind
    directories: tuple[Path, ...] = ()
    """Directories to create before, or to remove behind it if they are empty; outermost first."""
    note: str = ""
    """A sentence about a file that is not simply restored."""

    @property
    def is_change(self) -> bool:
        """Return True if the file differs afterwards."""
        return self.before != self.after


def read(path: Path) -> bytes | None:
    """Return the bytes of a file, None if there is none."""
    try:
        # A pipe would never end: it is opened without waiting, and refused.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InstallRefused(f"{path} is not a regular file.", hint=_UNCHANGED)
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InstallRefused(f"{path} cannot be read: {error.strerror}.", hint=_UNCHANGED) from error


def missing_directories(path: Path) -> tuple[Path, ...]:
    """Return the directories above a file that do not exist, outermost first."""
    found = list[Path]()
    for parent in target(path).parents:
        if parent.exists():
            break
        found.insert(0, parent)
    return tuple(found)


def target(path: Path) -> Path:
    """Return the file that a path leads to, behind symbolic links."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as error:
        raise InstallRefused(f"{path} is a link that leads nowhere.", hint=_UNCHANGED) from error


def check_inside(path: Path, directory: Path) -> None:
    """Refuse a file of a project that links lead out of it: a project of anybody must not choose what is overwritten."""
    real = path.resolve()
    if path.is_relative_to(directory) and not real.is_relative_to(directory.resolve()):
        raise InstallRefused(f"{path} leads out of the project, to {real}.", hint=f"Remove the link. {_UNCHANGED}")


def check_writable(path: Path) -> None:
    """Refuse a file that must not or cannot be replaced."""
    place = target(path)
    try:
        about = place.stat()
    except FileNotFoundError:
        about = None
    except OSError as error:
        raise InstallRefused(f"{path} cannot be read: {error.strerror}.", hint=_UNCHANGED) from error
    if about is not None:
        _check_file(path, place, about)
    folder = next((each for each in place.parents if each.exists()), place.parent)
    if not folder.is_dir():
        raise InstallRefused(f"{folder} is not a directory.", hint=_UNCHANGED)
    if not os.access(folder, os.W_OK) or not folder.stat().st_mode & 0o222:
        raise InstallRefused(
            f"{folder} is not writable.", hint=f"Change its mode, or run this as its owner. {_UNCHANGED}"
        )


def _check_file(path: Path, place: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise InstallRefused(f"{path} is not a regular file.", hint=_UNCHANGED)
    # The administrator may write anything, but a file without any permission to write is not to be written.
    if not about.st_mode & 0o222 or not os.access(place, os.W_OK):
        hint = f"Allow it (chmod u+w), or edit the file where it is managed. {_UNCHANGED}"
        raise InstallRefused(f"{path} is read-only.", hint=hint)


def write(change: FileChange) -> None:
    """Make a change, if the file is still as it was read."""
    place = target(change.path)
    if read(place) != change.before:
        raise InstallRefused(f"{change.path} was changed by another program in the meantime.", hint="Try again.")
    try:
        if change.after is None:
            place.unlink(missing_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            _replace(place, change.after, 0o600 if change.kind == "config" else 0o644)
    except OSError as error:
        sentence = f"{change.path} cannot be written: {error.strerror}."
        raise InstallRefused(sentence, hint="`--remove` reverts what was written before.") from error
    _flush(place.parent)


def clear_draft(path: Path) -> None:
    """Remove what an interrupted write left beside a file."""
    with suppress(OSError):
        _draft(target(path)).unlink()


def remove_empty(directories: tuple[Path, ...]) -> None:
    """Remove directories that contain nothing, the innermost first."""
    for each in reversed(directories):
        with suppress(OSError):  # another program uses it
            each.rmdir()


def _replace(place: Path, data: bytes, mode: int) -> None:
    old = place.stat() if place.exists() else None
    draft = _draft(place)
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            _keep_owner(draft, old)
        draft.chmod(stat.S_IMODE(old.st_mode) if old else mode)
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _draft(place: Path) -> Path:
    """Return the file in which new bytes are written first. Its name is known, so that the next run finds it."""
    return place.with_name(f".{place.name}.lcm-draft")


def _keep_owner(draft: Path, old: os.stat_result) -> None:
    new = draft.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) and hasattr(os, "chown"):
        os.chown(draft, old.st_uid, old.st_gid)


def _flush(directory: Path) -> None:
    # Not every system can sync a directory; the change is made anyway.
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
