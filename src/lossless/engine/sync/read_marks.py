"""How far transcripts were read: one mark per file, in the cursor of the conversation it was read into."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from lossless.store.base import ConversationRow
from lossless.store.store import Store
from lossless.transcripts.base import Header

PREFIX = "transcript:"
PATIENCE = 60_000_000
"""How long, in microseconds, the end of a file may still be on its way."""

_WITNESS = 1024
_LONGEST = 1024


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
    callers: tuple[str, ...] = ()
    """The lines of the reply whose calls these results answer."""
    bounded: int = 0
    """So many messages of a fork came from the session it was forked from, and are kept out of the context."""
    waits: bool = False
    """Whether something at its end was left for the next time."""
    branched: bool = False
    """Whether the context is still to be led over to another branch."""
    read_at: int = 0
    fork_of: str = ""
    """The session that this one was forked from."""
    path: str = ""
    named: bool = True
    generation: int = 0
    """How often a file without entry ids was written anew: what stands in the same place is another message each time."""
    parent_key: str = ""
    """The conversation that this sub-agent's hangs from, once it is there."""
    directory: str = ""
    """The directory in which the program worked, if the file names it."""


def source_of(path: Path) -> str:
    """The name of a file's cursor. A byte in a path that is no text is written as `\\xff`, and a long path by its hash."""
    written = os.fsencode(path)
    if len(written) > _LONGEST:
        return f"{PREFIX}sha256:{sha256(written).hexdigest()}"
    return PREFIX + written.decode("utf-8", "backslashreplace")


def shown(path: Path) -> str:
    """A file's name, fit to be told: what is no text in it is written as `\\xff`."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def is_unchanged(mark: Mark, stat: os.stat_result, now: int) -> bool:
    """Whether there is nothing to be read that was not read, by the look of the file from outside."""
    if mark.branched or (mark.size, mark.time) != (stat.st_size, stat.st_mtime_ns):
        return False
    return not mark.waits or now - stat.st_mtime_ns // 1000 < PATIENCE


def goes_on(mark: Mark, path: Path, size: int) -> bool:
    """Whether a file still begins, and stands before its mark, as it did when it was read."""
    return 0 < mark.offset <= size and (mark.head, mark.tail) == witnesses(path, mark.offset)


def header_of(mark: Mark, key: str) -> Header:
    """What a file that goes on said about itself at its beginning."""
    return Header(
        mark.format,
        mark.session,
        key,
        parent_session=mark.fork_of or None,
        parent_key=mark.parent_key or None,
        named=mark.named,
    )


def mark_of(state: Any) -> Mark:
    return convert(state, Mark)


def marked(store: Store, key: str, path: Path) -> tuple[ConversationRow, Mark] | None:
    """The newest conversation under the key that this file was read into, and how far."""
    for row in store.conversations.under_key(key):
        state = store.state.cursor(row.id, source_of(path))
        if state is not None:
            return row, mark_of(state)
    return None


def newest_path(store: Store, row: ConversationRow) -> Path | None:
    """The transcript that was read last into a conversation."""
    last = store.state.newest_cursor(row.id, PREFIX)
    return Path(mark_of(last[1]).path) if last else None


def witnesses(path: Path, offset: int) -> tuple[str, str]:
    """Digests of the beginning of a file and of what stands before an offset."""
    with path.open("rb") as file:
        head = file.read(min(_WITNESS, offset))
        file.seek(max(0, offset - _WITNESS))
        return _short(head), _short(file.read(min(_WITNESS, offset)))


def _short(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
