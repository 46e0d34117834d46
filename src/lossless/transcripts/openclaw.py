"""Read the sessions of OpenClaw and pi: JSON lines, a tree since their version 2, linear before.

    {"type": "session", "version": 3, "id": ..., "cwd": ..., "parentSession": ...}
    {"type": "message", "id": ..., "parentId": ..., "timestamp": ..., "message": {"role": ...}}
    {"type": "model_change", "id": ..., "parentId": ..., ...}

Every entry has a parent, whatever its type; the newest entry is the current end of the conversation. A line without an id is
named after its position. A line that is only a message (`{"role": ...}`) is read as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lossless.errors import InvalidInput
from lossless.formats import openclaw as wire
from lossless.formats.wire import Record
from lossless.model import Message
from lossless.transcripts import fast_load
from lossless.transcripts.base import Branch, Header, Tally, TranscriptEntry
from lossless.transcripts.fields import make_session_id, message_time, parse_time, position_id
from lossless.transcripts.lines import records
from lossless.transcripts.tree import Tree

BOUNDARIES = ("compaction", "branch_summary")
LINKS = ("session", "model_change", "thinking_level_change", "label", "session_info", "custom")


class OpenClaw:
    """The reader of OpenClaw and pi sessions."""

    name = "openclaw"

    def header(self, first: list[Record], path: Path) -> Header | None:
        about = next((line for line in first if _is_header(line)), None)
        if about is None and not any(
            isinstance(line.get("message"), dict) and _payload_message(line) for line in first
        ):
            return None
        session = about["id"] if about else make_session_id(first[0], path)
        about = about or {}
        return Header(
            format=self.name,
            session=session,
            key=f"openclaw:{session}",
            parent_session=_text(about.get("parentSession")),
            started_at=parse_time(about.get("timestamp")),
            directory=_text(about.get("cwd")),
            named=any(_name(line) for line in first if line.get("type") != "session"),
        )

    def entries(
        self, path: Path, header: Header, tally: Tally, *, offset: int = 0, number: int = 0
    ) -> Iterator[TranscriptEntry]:
        for line, end in records(path, tally, offset=offset):
            name, record = _name(line), _payload_message(line)
            message = _load(record) if record is not None else None
            if record is None:
                _count(line, tally)
            elif message is None:
                tally.malformed += 1
            if message is None:
                if name:
                    yield TranscriptEntry(id=name, parent=_parent(line), end=end, number=number)
                continue
            parent = _parent(line) if name else position_id(header.session, number)
            number += 1
            name = name or f"{header.session}#{number}"
            own = message.at or message_time(record)
            message = replace(message, event_id=name, at=own or parse_time(line.get("timestamp")))
            yield TranscriptEntry(
                id=name, parent=parent, end=end, number=number, message=message, own_time=own is not None
            )

    def branch(self, path: Path, header: Header) -> Branch | None:
        if not header.named:
            return None
        tree = Tree()
        for line, _ in records(path, Tally()):
            if line.get("type") == "session":
                continue
            if (name := _name(line)) is None:
                return None
            tree.add(name, _parent(line))
        marks = tree.up(len(tree.ids) - 1) if tree.ids else None
        return None if marks is None or all(marks) else tree.path(marks)


def _is_header(line: Record) -> bool:
    return line.get("type") == "session" and bool(_text(line.get("id")))


def _payload_message(line: Record) -> Any:
    """Return the message in a line; None if there is none."""
    match line.get("type"):
        case "message":
            return line.get("message", line) or {}
        case "custom_message":
            fields = ("customType", "content", "display", "details")
            return {"role": "custom"} | {key: line[key] for key in fields if key in line}
        case None if "role" in line:
            return line
        case _:
            return None


def _load(record: Any) -> Message | None:
    if not isinstance(record, dict):
        return None
    try:
        return fast_load.openclaw(record) or wire.load(record)
    except (InvalidInput, RecursionError):
        return None


def _count(line: Record, tally: Tally) -> None:
    kind = str(line.get("type"))
    if kind in BOUNDARIES:
        tally.boundaries += 1
    elif kind in LINKS:
        tally.links += 1
    else:
        tally.unknown[kind] = tally.unknown.get(kind, 0) + 1


def _name(line: Record) -> str | None:
    return None if line.get("type") == "session" else _text(line.get("id")) or _text(line.get("uuid"))


def _parent(line: Record) -> str | None:
    return _text(line.get("parentId")) or _text(line.get("parentUuid"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
