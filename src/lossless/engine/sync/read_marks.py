"""Remember how far each transcript was read: one mark per file, in a cursor of its conversation."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from lossless.store import jsontext
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store
from lossless.transcripts.base import Header

PREFIX = "transcript:"
PATIENCE = 60_000_000
"""Microseconds for which the end of a file may still be incomplete."""

_WITNESS = 1024
_LONGEST = 1024


class ReadMark(Struct, frozen=True):
    """The position up to which a file was read, and the state of its active branch there."""

    format: str = ""
    session: str = ""
    offset: int = 0
    number: int = 0
    """Number of messages before the offset."""
    size: int = -1
    """Size of the file when it was read to its end; `time` is its time then."""
    time: int = 0
    head: str = ""
    tail: str = ""
    tips: tuple[str, ...] = ()
    """The ends of the active branch: one entry, or the results of one reply's calls."""
    callers: tuple[str, ...] = ()
    """The lines of the reply whose calls these results answer."""
    bounded: int = 0
    """Number of messages that a fork took over from its session, and that stay out of the context."""
    waits: bool = False
    """An incomplete entry at the end was left for the next read."""
    branched: bool = False
    """The context still has to switch to another branch."""
    read_at: int = 0
    fork_of: str = ""
    """The session that this one was forked from."""
    path: str = ""
    named: bool = True
    generation: int = 0
    """Number of times a file without entry ids was rewritten: the same position is another message each time."""
    parent_key: str = ""
    """The key of the parent conversation of a sub-agent, once it exists."""
    directory: str = ""
    """The directory in which the program worked, if the file names it."""


def cursor_name(path: Path) -> str:
    """Return the name of a file's cursor.

    A byte in a path that is not text is written as `\\xff`, and a long path by its hash.
    """
    written = os.fsencode(path)
    if len(written) > _LONGEST:
        return f"{PREFIX}sha256:{sha256(written).hexdigest()}"
    return PREFIX + written.decode("utf-8", "backslashreplace")


def printable_name(path: Path) -> str:
    """Return the name of a file for messages; bytes that are not text are written as `\\xff`."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def is_unchanged(mark: ReadMark, stat: os.stat_result, now: int) -> bool:
    """Return whether size and time of a file say that nothing in it is unread."""
    if mark.branched or (mark.size, mark.time) != (stat.st_size, stat.st_mtime_ns):
        return False
    return not mark.waits or now - stat.st_mtime_ns // 1000 < PATIENCE


def continues_file(mark: ReadMark, path: Path, size: int) -> bool:
    """Return whether the file still has the content that was read, at its start and before the mark."""
    return 0 < mark.offset <= size and (mark.head, mark.tail) == edge_digests(path, mark.offset)


def header_from_mark(mark: ReadMark, key: str) -> Header:
    """Return the header of a file that grew, as it was when the file was first read."""
    return Header(
        format=mark.format,
        session=mark.session,
        key=key,
        parent_session=mark.fork_of or None,
        parent_key=mark.parent_key or None,
        named=mark.named,
    )


def load_mark(state: Any) -> ReadMark:
    """Decode the state of a cursor."""
    return convert(state, ReadMark)


def find_mark(store: Store, key: str, path: Path) -> tuple[ConversationRow, ReadMark] | None:
    """Return the newest conversation under the key that this file was read into, with the mark."""
    for row in store.conversations.under_key(key):
        state = store.state.cursor(row.id, cursor_name(path))
        if state is not None:
            return row, load_mark(state)
    return None


def newest_path(store: Store, row: ConversationRow) -> Path | None:
    """Return the transcript that was read last into a conversation."""
    last = store.state.newest_cursor(row.id, PREFIX)
    return Path(load_mark(last[1]).path) if last else None


def newest_in(store: Store, directory: str) -> ConversationRow | None:
    """Return the conversation of the newest session in a directory; not that of a sub-agent."""
    text = jsontext.dumps({"directory": directory})[1:-1]
    marks = [(id, load_mark(state)) for id, _, state in store.state.cursors(PREFIX, containing=text)]
    ids = {id for id, mark in marks if mark.directory == directory and not mark.parent_key}
    rows = [row for id in ids if (row := store.conversations.get(id)) is not None and row.parent is None]
    return max(rows, key=lambda row: (row.active, row.updated_at, row.id), default=None)


def edge_digests(path: Path, offset: int) -> tuple[str, str]:
    """Return digests of the start of a file and of the bytes before an offset."""
    with path.open("rb") as file:
        head = file.read(min(_WITNESS, offset))
        file.seek(max(0, offset - _WITNESS))
        return _short(head), _short(file.read(min(_WITNESS, offset)))


def _short(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
