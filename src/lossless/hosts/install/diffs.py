"""Show the change of a file as a unified diff, without the secrets in its neighbourhood."""

from __future__ import annotations

import difflib
import re
from typing import Literal

from lossless.hosts.install.files import FileChange

_NAMED = re.compile(
    r"""(?i)(["']?[\w.-]*(?:api[_-]?key|token|secret|passw(?:or)?d|credential|authorization)[\w-]*["']?\s*[:=]\s*)"""
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s,{}\[\]"']+)"""
)
_KEY = re.compile(r"\b(?:sk|pk|xox[a-z]|gh[a-z]|glpat)[-_][\w-]{12,}")


def verb(change: FileChange) -> Literal["create", "change", "delete"]:
    """Return what happens to the file."""
    if change.before is None:
        return "create"
    return "delete" if change.after is None else "change"


def is_whole_copy(change: FileChange) -> bool:
    """Return whether a file of our own is created or deleted, whose contents need no reading."""
    return change.kind == "copy" and (change.before is None or change.after is None)


def unified(change: FileChange) -> str:
    """Return the change as a unified diff; empty for a whole copy."""
    if is_whole_copy(change):
        return ""
    before, after = (_split(data) for data in (change.before, change.after))
    old, new = ("/dev/null" if data is None else str(change.path) for data in (change.before, change.after))
    return hide_keys("\n".join(difflib.unified_diff(before, after, old, new, n=2, lineterm="")))


def hide_keys(text: str) -> str:
    """Replace what looks like a key or a password by `***`."""
    return _KEY.sub("***", _NAMED.sub(r'\1"***"', text))


def _split(data: bytes | None) -> list[str]:
    lines = (data or b"").decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}  (no newline at the end)"]
