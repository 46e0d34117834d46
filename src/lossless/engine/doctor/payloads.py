"""Files that left messages: that they are where they were put, and that nothing else is there."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lossless.engine.doctor.examination import Fault, Step, Ward
from lossless.engine.import_history.foreign_history import NO_BYTES
from lossless.engine.shared.files_dir import is_its_own
from lossless.errors import FileUnavailable, InvalidInput

_HOUR = 3_600
_SHARED = (
    "{count} files belong to nothing in this database. If no other keeps its files there,"
    " lcm gc --unshared --apply removes them."
)
_NAME = re.compile(r"\.?[0-9a-f]{64}(?:\.\d+\.[0-9a-f]+)?")


def kept(ward: Ward) -> Iterator[Fault]:
    never = "The content of {count} files was not there when they were imported."
    for conversation, rows in ward.payloads.items():
        for row in rows:
            if row.sha256 == NO_BYTES:
                yield Fault("F01", conversation, row.id, None, "info", never)
            elif not _is_whole(ward, row.sha256, row.bytes):
                yield Fault("F01", conversation, row.id)


def _is_whole(ward: Ward, sha256: str, size: int) -> bool:
    try:
        if "F01" in ward.closely and not ward.files.is_intact(sha256):
            return False
        found = (ward.files.root / sha256[:2] / sha256).lstat()
        return stat.S_ISREG(found.st_mode) and found.st_size == size
    except (FileUnavailable, InvalidInput, OSError):
        return False


def unowned(ward: Ward) -> Iterator[Fault]:
    if not ward.everything:
        return
    ours = is_its_own(ward.store, ward.files)
    for path in _there(ward.files.root):
        with suppress(OSError):
            old = ward.now / 1_000_000 - path.stat().st_mtime > _HOUR
            if old and not ward.store.file_is_used(path.name):
                step = Step("erase", "file", {"name": f"{path.parent.name}/{path.name}"})
                yield (
                    Fault("F02", None, path.name, step) if ours else Fault("F02", None, path.name, None, None, _SHARED)
                )


def _there(root: Path) -> Iterator[Path]:
    """The files that were put into the directory, or were on their way; nothing else that may be there."""
    for directory in sorted(root.glob("[0-9a-f][0-9a-f]")):
        if directory.is_dir() and not directory.is_symlink():
            yield from (
                Path(each)
                for each in sorted(os.scandir(directory), key=lambda each: each.name)
                if _NAME.fullmatch(each.name)
            )


def named(ward: Ward) -> Iterator[Fault]:
    known = {(conversation, row.id) for conversation, rows in ward.payloads.items() for row in rows}
    for each in dict.fromkeys([*ward.heard.named, *ward.read.named]):
        if each not in known:
            yield Fault("F03", *each)
