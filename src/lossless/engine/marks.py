"""How far transcripts were read: one mark per file, in the cursor of the conversation it was read into."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from lossless.store.base import ConversationRow, Store

PREFIX = "transcript:"
PATIENCE = 60_000_000
"""How long, in microseconds, the end of a file may still be on its way."""

_WITNESS = 1024


class Mark(Struct, frozen=True):
    """How far a file was read."""

    format: str = ""
    session: str = ""
    offset: int = 0
    number: int = 0
    """How many messages came before the offset."""
    size: int = -1
    """Of the file when it was read to its end; so its time."""
    time: int = 0
    head: str = ""
    tail: str = ""
    tips: tuple[str, ...] = ()
    """Where the active branch ends: one entry, or the results of one reply's calls."""
    caller: str = ""
    bounded: int = 0
    """So many messages of a fork came from the session it was forked from, and are kept out of the context."""
    waits: bool = False
    """Whether something at its end was left for the next time."""
    branched: bool = False
    """Whether the context is still to be led over to another branch."""
    read_at: int = 0
    fork_of: str = ""
    """The session that this one was forked from."""


def source_of(path: Path) -> str:
    """The name of a file's cursor."""
    return f"{PREFIX}{path}"


def is_unchanged(mark: Mark, stat: os.stat_result, now: int) -> bool:
    """Whether there is nothing to be read that was not read, by the look of the file from outside."""
    if mark.branched or (mark.size, mark.time) != (stat.st_size, stat.st_mtime_ns):
        return False
    return not mark.waits or now - stat.st_mtime_ns // 1000 < PATIENCE


def mark_of(state: Any) -> Mark:
    return convert(state, Mark)


def members(store: Store, key: str) -> list[ConversationRow]:
    """The conversations that were ever under a key, sub-agents' apart: the active one first, then the newest."""
    return [row for row in store.family(key) if row.key == key]


def marked(store: Store, key: str, path: Path) -> tuple[ConversationRow, Mark] | None:
    """The newest conversation under the key that this file was read into, and how far."""
    for row in members(store, key):
        state = store.cursor(row.id, source_of(path))
        if state is not None:
            return row, mark_of(state)
    return None


def newest_path(store: Store, row: ConversationRow) -> Path | None:
    """The transcript that was read last into a conversation."""
    marks = [(mark_of(state), source) for _, source, state in store.cursors(PREFIX, row.id)]
    last = max(marks, key=lambda each: each[0].read_at, default=None)
    return Path(last[1][len(PREFIX) :]) if last else None


def witnesses(path: Path, offset: int) -> tuple[str, str]:
    """Digests of the beginning of a file and of what stands before an offset."""
    with path.open("rb") as file:
        head = file.read(min(_WITNESS, offset))
        file.seek(max(0, offset - _WITNESS))
        return _short(head), _short(file.read(min(_WITNESS, offset)))


def _short(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
