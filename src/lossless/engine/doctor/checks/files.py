"""Checks of stored files: they exist, are unchanged, and nothing else lies in their directory."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, check
from lossless.engine.shared.file_store import NO_BYTES
from lossless.engine.shared.files_dir import is_exclusive
from lossless.errors import FileUnavailable, InvalidInput
from lossless.store.rows.types import Step

_HOUR = 3_600
_NEVER_STORED = "The content of {count} [file was|files were] already missing at import."
_SHARED = (
    "{count} [file is|files are] not used by this database. If no other database uses the directory,"
    " lcm gc --unshared --apply removes [it|them]."
)
_NAME = re.compile(r"\.?[0-9a-f]{64}(?:\.\d+\.[0-9a-f]+)?")


@check(
    "F01",
    "error",
    "Every stored file exists and is unchanged.",
    "{count} [file is|files are] missing or damaged: restore the files directory from a backup.",
)
def find_damaged_files(examination: Examination) -> Iterator[Fault]:
    for conversation, rows in examination.file_rows.items():
        for row in rows:
            if row.sha256 == NO_BYTES:
                yield Fault(conversation, row.id, severity="info", problem=_NEVER_STORED)
            elif not _is_intact(examination, row.sha256, row.bytes):
                yield Fault(conversation, row.id)


def _is_intact(examination: Examination, sha256: str, size: int) -> bool:
    files = examination.files
    try:
        if "F01" in examination.thorough and not files.is_intact(sha256):
            return False
        status = (files.root / sha256[:2] / sha256).lstat()
        return stat.S_ISREG(status.st_mode) and status.st_size == size
    except (FileUnavailable, InvalidInput, OSError):
        return False


@check(
    "F02",
    "info",
    "Every file in the files directory belongs to a message.",
    "{count} [file is|files are] unused.",
    fix="Removes the files.",
)
def find_unused_files(examination: Examination) -> Iterator[Fault]:
    if not examination.whole_database:
        return
    own_directory = is_exclusive(examination.store, examination.files)
    for path in _stored_paths(examination.files.root):
        with suppress(OSError):
            old = examination.now / 1_000_000 - path.stat().st_mtime > _HOUR
            if not old or examination.store.files.is_used(path.name):
                continue
            if own_directory:
                yield Fault(None, path.name, Step("erase", "file", {"name": f"{path.parent.name}/{path.name}"}))
            else:
                yield Fault(None, path.name, problem=_SHARED)


def _stored_paths(root: Path) -> Iterator[Path]:
    """Yield the files, finished or not, that we wrote to the directory; skip all others."""
    for directory in sorted(root.glob("[0-9a-f][0-9a-f]")):
        if directory.is_dir() and not directory.is_symlink():
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
            yield from (Path(entry) for entry in entries if _NAME.fullmatch(entry.name))


@check(
    "F03",
    "warn",
    "Every file that a message or summary names is stored.",
    "{count} [file is|files are] named but not stored.",
)
def find_unknown_files(examination: Examination) -> Iterator[Fault]:
    known = {(conversation, row.id) for conversation, rows in examination.file_rows.items() for row in rows}
    for named in dict.fromkeys([*examination.message_scan.named_files, *examination.summary_scan.named_files]):
        if named not in known:
            yield Fault(*named)
