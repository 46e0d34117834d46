"""Names for what a program left without one."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from lossless.formats.wire import Record
from lossless.model import Message


def session_of(first: Record, path: Path) -> str:
    """A session's id, made from its file's name and first record.

    Either alone would mix conversations up: many begin with the same words, and many files are called alike. What comes behind
    the first line does not count, as the file may grow, nor what a rotation adds to its name.
    """
    written = json.dumps(first, sort_keys=True).encode()
    return f"{path.name.partition('.')[0]}-{hashlib.sha256(written).hexdigest()[:12]}"


def place(session: str, number: int) -> str | None:
    """The name of a message after its place, the first being 1; there is none before it."""
    return f"{session}#{number}" if number else None


def named(message: Message, name: str | None, at: datetime | None) -> Message:
    """The message under an entry's name. The id its API gave it stays with what else the API told."""
    if message.event_id is None:
        return replace(message, event_id=name, at=at)
    extra = {
        wire: notes | {"$reply": {"id": message.event_id} | notes["$reply"]} if "$reply" in notes else notes
        for wire, notes in message.extra.items()
    }
    return replace(message, event_id=name, at=at, extra=extra)
