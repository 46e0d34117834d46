"""How far transcripts are ahead of what was read of them, by the look of the files from outside: a stat for each.

Two questions it leaves open. Since when a file is ahead that was written just now and read long ago: the first line that
was not read and tells its time decides. Whether a file of the same size and another time is the same: the places decide by
which a reading would know it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from lossless.engine.sync.read_marks import PREFIX, Mark, goes_on, mark_of
from lossless.model import Following, Lagging, instant
from lossless.store import jsontext
from lossless.store.rows import moment
from lossless.store.store import Store

LATE = 60.0
"""Seconds for which a file may hold what was not read."""
_MOST, _SHOWN = 1_000, 3
_DAY = 86_400.0
_STATES = ("behind", "unreadable", "missing")
_FARTHEST = 1_048_576
"""How many bytes are searched for a line that tells its time."""


def following(
    store: Store, conversation_id: int | None, now: float, is_closed: Callable[[str], bool]
) -> tuple[Following, datetime | None]:
    """Of the transcripts that were read last, in one conversation or in all, those that hold something new or are gone.

    With it comes when one that was read to its end was written to last. What is written for a key that is closed is not to
    be read; a file that is read for several keys is as late as the latest of them.
    """
    total, newest = store.figures.newest_cursors(PREFIX, conversation_id, _MOST)
    marks: dict[tuple[str, str], Any] = {}
    for key, source, state in newest:
        if not is_closed(key):
            marks.setdefault((key, source), state)
    found: dict[str, _Found] = {}
    keys: set[str] = set()
    read_whole = 0.0
    for (key, source), state in marks.items():
        mark = mark_of(state)
        lagging = looked_at(mark, mark.path or source.removeprefix(PREFIX), key, now)
        if lagging is not None:
            each = _Found(key not in keys and _has_vanished(lagging, now), lagging)
            found[source] = max(found.get(source, each), each, key=lambda each: (each.vanished, each.lagging.seconds))
        elif mark.time / 1e9 <= now:
            read_whole = max(read_whole, mark.time / 1e9)
        keys.add(key)
    looked = {source for _, source in marks}
    closed = {source for _, source, _ in newest} - looked
    told = _told(found.values(), total - len(closed), len(looked))
    return told, moment(int(read_whole * 1_000_000)) if read_whole else None


def unread(store: Store, now: float) -> list[tuple[str, Lagging]]:
    """The transcripts, of all owners, that hold what was not read, and whose they are."""
    names = store.tables.shape("conversation").columns
    id_, owner, key = (names.index(name) for name in ("id", "owner", "key"))
    with closing(store.tables.rows(store.tables.shape("conversation"))) as rows:
        whose = {row[id_]: (row[owner], row[key]) for row in rows}
    names = store.tables.shape("cursor").columns
    of, source, state, at = (names.index(name) for name in ("conversation_id", "source", "state", "updated_at"))
    newest: dict[tuple[str, str, str], tuple[int, Mark]] = {}
    with closing(store.tables.rows(store.tables.shape("cursor"))) as rows:
        for row in rows:
            if row[source].startswith(PREFIX) and row[of] in whose:
                place = (*whose[row[of]], row[source])
                newest[place] = max(
                    newest.get(place, (-1, Mark())),
                    (row[at], mark_of(jsontext.stored(row[state]))),
                    key=lambda each: each[0],
                )
    found = [
        (owner, looked_at(mark, mark.path or source.removeprefix(PREFIX), key, now))
        for (owner, key, source), (_, mark) in newest.items()
    ]
    return [(owner, each) for owner, each in found if each is not None and each.state == "behind"]


class _Found(Struct, frozen=True):
    vanished: bool
    """The newest of its conversation is gone, and was written to not long ago."""
    lagging: Lagging


def looked_at(mark: Mark, path: str, key: str, now: float) -> Lagging | None:
    """What there is to tell of a transcript; None if all of it was read."""
    read_at, written_at = moment(mark.read_at), moment(mark.time // 1000) if mark.time else None
    try:
        stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Lagging(path, key, "missing", read_at=read_at, written_at=written_at)
    except OSError:
        return Lagging(path, key, "unreadable", read_at=read_at, written_at=written_at)
    unread = _unread(mark, Path(path), stat)
    if not unread:
        return None
    since = _since(mark, Path(path), stat, now)
    written_at = moment(stat.st_mtime_ns // 1000)
    state: Literal["behind", "unreadable"] = "behind" if os.access(path, os.R_OK) else "unreadable"
    return Lagging(path, key, state, unread, max(0.0, now - since), read_at, written_at)


def _unread(mark: Mark, path: Path, stat: os.stat_result) -> int:
    """How many bytes were not read: all of a file that was written anew."""
    size = stat.st_size
    seen = size if size == mark.size and not mark.waits else _seen(mark)
    if size != seen:
        return size - seen if size > seen else size
    is_same = stat.st_mtime_ns == mark.time or not 0 < mark.offset <= size or _goes_on(mark, path, size)
    return 0 if is_same else size


def _seen(mark: Mark) -> int:
    """Up to where a file was looked at, if it goes on: it may have grown while it was read."""
    return mark.offset if mark.waits else max(mark.offset, mark.size)


def _goes_on(mark: Mark, path: Path, size: int) -> bool:
    try:
        return goes_on(mark, path, size)
    except OSError:
        return False


def _since(mark: Mark, path: Path, stat: os.stat_result, now: float) -> float:
    """When the oldest line that was not read was written: after the last reading, and not after the last writing.

    A file that will be written to, as its time says, was written to at any time since the last reading.
    """
    read_at, written = min(mark.read_at / 1_000_000, now), stat.st_mtime
    is_to_come, is_anew = written > now + LATE, stat.st_size < _seen(mark)
    is_certain = now - written >= LATE or now - read_at < LATE or is_anew or written <= read_at
    if is_certain and not is_to_come:
        return written
    told = None if is_anew else _told_by_lines(path, _seen(mark))
    if told is None:
        return read_at if is_to_come else written
    return min(max(read_at, told), now if is_to_come else written)


class _Line(Struct):
    timestamp: Any = None


def _told_by_lines(path: Path, offset: int) -> float | None:
    """The first time that is told by a line from an offset on; None if none tells one, 0 if not all could be searched."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            text = file.read(_FARTHEST)
    except OSError:
        return None
    unknown = 0.0 if len(text) == _FARTHEST else None
    return next((at for line in text.splitlines() if (at := _time(line)) is not None), unknown)


def _time(line: bytes) -> float | None:
    try:
        when = instant(msgspec.json.decode(line, type=_Line).timestamp)
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, OverflowError):
        return None
    return when.timestamp() if when else None


def _has_vanished(each: Lagging, now: float) -> bool:
    """Whether a file is gone that was written to not long ago."""
    return each.state == "missing" and each.written_at is not None and now - each.written_at.timestamp() < _DAY


def _told(found: Collection[_Found], total: int, looked: int) -> Following:
    late = [each for each in found if each.lagging.state != "behind" or each.lagging.seconds >= LATE]
    late.sort(key=_worst_first)
    by_state = {state: [each.lagging for each in late if each.lagging.state == state] for state in _STATES}

    return Following(
        transcripts=total,
        looked_at=looked,
        behind=len(by_state["behind"]),
        missing=len(by_state["missing"]),
        vanished=sum(each.vanished for each in late),
        unreadable=len(by_state["unreadable"]),
        bytes=sum(each.lagging.bytes for each in found),
        lagging=tuple(each for state in _STATES for each in by_state[state][:_SHOWN]),
    )


def _worst_first(each: _Found) -> tuple[bool, float, float, str]:
    lagging = each.lagging
    written = lagging.written_at.timestamp() if lagging.written_at else 0.0
    return not each.vanished, -lagging.seconds, -written, lagging.path
