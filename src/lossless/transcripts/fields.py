"""Read times, and name sessions and entries that a program left without an id."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from lossless.formats.wire import Record
from lossless.model import Message, instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000 = 253_402_300_800_000


def parse_time(written: object) -> datetime | None:
    """Return the time of an ISO 8601 text or of milliseconds since 1970; None for anything else."""
    if isinstance(written, str):
        try:
            return instant(written)
        except (ValueError, OverflowError):
            return None
    if isinstance(written, (int, float)) and 0 < written < _YEAR_10000:
        return _EPOCH + timedelta(milliseconds=written)
    return None


def message_time(message: Record) -> datetime | None:
    """Return the time that a message has itself."""
    for key in ("timestamp", "createdAt", "created_at"):
        if (at := parse_time(message.get(key))) is not None:
            return at
    return None


def make_session_id(first: Record, path: Path) -> str:
    """Return an id for a session, made from its file's name and first record.

    One of the two is not enough: many sessions start with the same text, and many files have the same name. What follows the first
    line does not count, since the file may grow, nor what a rotation adds to its name.
    """
    written = json.dumps(first, sort_keys=True).encode()
    return f"{path.name.partition('.')[0]}-{hashlib.sha256(written).hexdigest()[:12]}"


def position_id(session: str, number: int) -> str | None:
    """Return the id of a message by its position, from 1; None before the first."""
    return f"{session}#{number}" if number else None


def with_event_id(message: Message, name: str | None, at: datetime | None) -> Message:
    """Return the message with an entry's id. The id from its API is kept among the API's other fields."""
    if message.event_id is None:
        return replace(message, event_id=name, at=at)
    extra = {
        wire: notes | {"$reply": {"id": message.event_id} | notes["$reply"]} if "$reply" in notes else notes
        for wire, notes in message.extra.items()
    }
    return replace(message, event_id=name, at=at, extra=extra)
