"""Compare transcripts with their read marks from outside, by one stat per file.

Two cases need a look inside. A file written just now and read long ago: the first unread line with a time says since when
it is late. A file of the same size and another time: its edges say whether it was rewritten.
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

from lossless.engine.sync.read_marks import PREFIX, ReadMark, continues_file, load_mark
from lossless.model import LaggingTranscript, TranscriptLag, instant
from lossless.store import jsontext
from lossless.store.rows.codec import moment
from lossless.store.store import Store

LATE = 60.0
"""Seconds that a file may contain unread messages before it is late."""
_MOST, _SHOWN = 1_000, 3
_DAY = 86_400.0
_STATES = ("behind", "unreadable", "missing")
_FARTHEST = 1_048_576
"""Number of bytes searched for a line with a time."""


def following_report(
    store: Store, conversation_id: int | None, now: float, is_closed: Callable[[str], bool]
) -> tuple[TranscriptLag, datetime | None]:
    """Report the transcripts that contain unread messages or are missing, in one conversation or in all.

    Also return the last write time of a file that was read to its end. Files of closed keys are not counted; a file read for
    several keys is as late as the latest of them.
    """
    total, newest = store.figures.newest_cursors(PREFIX, conversation_id, _MOST)
    marks: dict[tuple[str, str], Any] = {}
    for key, source, state in newest:
        if not is_closed(key):
            marks.setdefault((key, source), state)
    found: dict[str, _LateFile] = {}
    keys: set[str] = set()
    read_whole = 0.0
    for (key, source), state in marks.items():
        mark = load_mark(state)
        lagging = lag_of(mark, mark.path or source.removeprefix(PREFIX), key, now)
        if lagging is not None:
            each = _LateFile(key not in keys and _has_vanished(lagging, now), lagging)
            found[source] = max(found.get(source, each), each, key=lambda each: (each.vanished, each.lagging.seconds))
        elif mark.time / 1e9 <= now:
            read_whole = max(read_whole, mark.time / 1e9)
        keys.add(key)
    looked = {source for _, source in marks}
    closed = {source for _, source, _ in newest} - looked
    report = _summarize(found.values(), total - len(closed), len(looked))
    return report, moment(int(read_whole * 1_000_000)) if read_whole else None


def unread_transcripts(store: Store, now: float) -> list[tuple[str, LaggingTranscript]]:
    """Return the transcripts of all owners that contain unread messages, each with its owner."""
    names = store.tables.shape("conversation").columns
    id_, owner, key = (names.index(name) for name in ("id", "owner", "key"))
    with closing(store.tables.rows(store.tables.shape("conversation"))) as rows:
        whose = {row[id_]: (row[owner], row[key]) for row in rows}
    names = store.tables.shape("cursor").columns
    of, source, state, at = (names.index(name) for name in ("conversation_id", "source", "state", "updated_at"))
    newest: dict[tuple[str, str, str], tuple[int, ReadMark]] = {}
    with closing(store.tables.rows(store.tables.shape("cursor"))) as rows:
        for row in rows:
            if row[source].startswith(PREFIX) and row[of] in whose:
                place = (*whose[row[of]], row[source])
                newest[place] = max(
                    newest.get(place, (-1, ReadMark())),
                    (row[at], load_mark(jsontext.stored(row[state]))),
                    key=lambda each: each[0],
                )
    found = [
        (owner, lag_of(mark, mark.path or source.removeprefix(PREFIX), key, now))
        for (owner, key, source), (_, mark) in newest.items()
    ]
    return [(owner, each) for owner, each in found if each is not None and each.state == "behind"]


class _LateFile(Struct, frozen=True):
    """A file that is late or missing."""

    vanished: bool
    """The newest file of its conversation is missing, and was written to within the last day."""
    lagging: LaggingTranscript


def lag_of(mark: ReadMark, path: str, key: str, now: float) -> LaggingTranscript | None:
    """Return how far a transcript is ahead of its mark; None if all of it was read."""
    read_at, written_at = moment(mark.read_at), moment(mark.time // 1000) if mark.time else None
    try:
        stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return LaggingTranscript(path=path, key=key, state="missing", read_at=read_at, written_at=written_at)
    except OSError:
        return LaggingTranscript(path=path, key=key, state="unreadable", read_at=read_at, written_at=written_at)
    unread = _unread_bytes(mark, Path(path), stat)
    if not unread:
        return None
    since = _late_since(mark, Path(path), stat, now)
    written_at = moment(stat.st_mtime_ns // 1000)
    state: Literal["behind", "unreadable"] = "behind" if os.access(path, os.R_OK) else "unreadable"
    return LaggingTranscript(
        path=path,
        key=key,
        state=state,
        bytes=unread,
        seconds=max(0.0, now - since),
        read_at=read_at,
        written_at=written_at,
    )


def _unread_bytes(mark: ReadMark, path: Path, stat: os.stat_result) -> int:
    """Return the number of unread bytes: all of a file that was rewritten."""
    size = stat.st_size
    seen = size if size == mark.size and not mark.waits else _read_until(mark)
    if size != seen:
        return size - seen if size > seen else size
    is_same = stat.st_mtime_ns == mark.time or not 0 < mark.offset <= size or _is_continued(mark, path, size)
    return 0 if is_same else size


def _read_until(mark: ReadMark) -> int:
    """Return the offset up to which a file was looked at; it may have grown meanwhile."""
    return mark.offset if mark.waits else max(mark.offset, mark.size)


def _is_continued(mark: ReadMark, path: Path, size: int) -> bool:
    try:
        return continues_file(mark, path, size)
    except OSError:
        return False


def _late_since(mark: ReadMark, path: Path, stat: os.stat_result, now: float) -> float:
    """Return the time of the oldest unread line, between the last read and the last write.

    A file whose time lies in the future may have been written at any time since the last read.
    """
    read_at, written = min(mark.read_at / 1_000_000, now), stat.st_mtime
    is_in_future, is_rewritten = written > now + LATE, stat.st_size < _read_until(mark)
    is_certain = now - written >= LATE or now - read_at < LATE or is_rewritten or written <= read_at
    if is_certain and not is_in_future:
        return written
    line_time = None if is_rewritten else _first_time(path, _read_until(mark))
    if line_time is None:
        return read_at if is_in_future else written
    return min(max(read_at, line_time), now if is_in_future else written)


class _Line(Struct):
    """A line of a transcript, reduced to its time."""

    timestamp: Any = None


def _first_time(path: Path, offset: int) -> float | None:
    """Return the time of the first line after an offset that has one; None without one, 0 if not all was searched."""
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


def _has_vanished(each: LaggingTranscript, now: float) -> bool:
    """Return whether a missing file was written to within the last day."""
    return each.state == "missing" and each.written_at is not None and now - each.written_at.timestamp() < _DAY


def _summarize(found: Collection[_LateFile], total: int, looked: int) -> TranscriptLag:
    late = [each for each in found if each.lagging.state != "behind" or each.lagging.seconds >= LATE]
    late.sort(key=_worst_first)
    by_state = {state: [each.lagging for each in late if each.lagging.state == state] for state in _STATES}

    return TranscriptLag(
        transcripts=total,
        looked_at=looked,
        behind=len(by_state["behind"]),
        missing=len(by_state["missing"]),
        vanished=sum(each.vanished for each in late),
        unreadable=len(by_state["unreadable"]),
        bytes=sum(each.lagging.bytes for each in found),
        lagging=tuple(each for state in _STATES for each in by_state[state][:_SHOWN]),
    )


def _worst_first(each: _LateFile) -> tuple[bool, float, float, str]:
    lagging = each.lagging
    written = lagging.written_at.timestamp() if lagging.written_at else 0.0
    return not each.vanished, -lagging.seconds, -written, lagging.path
