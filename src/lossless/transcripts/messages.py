"""Read plain messages from a file: one per line, or all in one JSON array.

They have the shape of Anthropic's API, of OpenAI's chat API or of pi, and may be mixed. They have no ids, so they are named
after their position.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lossless.errors import InvalidInput
from lossless.formats import anthropic, openai_chat, openclaw
from lossless.formats.wire import Record
from lossless.model import Message
from lossless.transcripts import fast_load
from lossless.transcripts.base import Branch, Header, Tally, TranscriptEntry
from lossless.transcripts.fields import make_session_id, message_time, position_id, with_event_id
from lossless.transcripts.lines import LONGEST, records

CLAUDE = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "document"))
_raw = json.JSONDecoder().raw_decode
_opening = re.compile(r"\ufeff?\s*\[\s*")
_between = re.compile(r"\s*,?\s*")


class Messages:
    """The reader of files of plain messages."""

    name = "messages"

    def header(self, first: list[Record], path: Path) -> Header | None:
        if not first or not all(isinstance(line.get("role"), str) for line in first):
            return None
        session = make_session_id(first[0], path)
        return Header(
            format=self.name,
            session=session,
            key=f"messages:{session}",
            started_at=message_time(first[0]),
            named=False,
        )

    def entries(
        self, path: Path, header: Header, tally: Tally, *, offset: int = 0, number: int = 0
    ) -> Iterator[TranscriptEntry]:
        for record, end in read_records(path, tally, offset=offset):
            message = _load(record)
            if message is None:
                tally.malformed += 1
                continue
            number += 1
            name, at = f"{header.session}#{number}", message.at or message_time(record)
            yield TranscriptEntry(
                id=name,
                parent=position_id(header.session, number - 1),
                end=end,
                number=number,
                message=with_event_id(message, name, at),
                own_time=at is not None,
            )

    def branch(self, path: Path, header: Header) -> Branch | None:
        return None


def read_records(path: Path, tally: Tally, *, offset: int = 0) -> Iterator[tuple[Record, int]]:
    """Yield the records of a file of either kind after an offset, each with the offset after it."""
    return _items(path, tally, offset) if is_array(path) else records(path, tally, offset=offset)


def is_array(path: Path) -> bool:
    """Return whether a file contains a JSON array."""
    with open(path, "rb") as file:
        return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _items(path: Path, tally: Tally, offset: int) -> Iterator[tuple[Record, int]]:
    """Yield the items of an array. An incomplete item ends it, since the start of the next is unknown."""
    tally.end = offset
    if path.stat().st_size > LONGEST:
        tally.too_long += 1
        return
    with open(path, "rb") as file:
        file.seek(offset)
        text = file.read().decode("utf-8", "surrogateescape")
    at, opening = 0, _between if offset else _opening
    while (begin := opening.match(text, at)) and text[begin.end() : begin.end() + 1] not in ("]", ""):
        opening = _between
        try:
            item, after = _raw(text, begin.end())
        except (ValueError, RecursionError):
            tally.malformed += 1
            return
        offset += len(text[at:after].encode("utf-8", "surrogateescape"))
        at, tally.end = after, offset
        tally.lines += 1
        if isinstance(item, dict) and _is_text(text[begin.end() : after]):
            yield item, offset
        else:
            tally.malformed += 1


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _load(record: Record) -> Message | None:
    try:
        return fast_load.chat(record) or _format(record).load(record)
    except (InvalidInput, RecursionError):
        return None


def _format(record: Record) -> Any:
    """Return the format of a message, by fields that only that format has."""
    content = record.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    kinds = {str(block.get("type")) for block in blocks}
    if _is_pi(record, kinds):
        return openclaw
    if record.get("type") == "message" or kinds & CLAUDE or any("source" in block for block in blocks):
        return anthropic
    return openai_chat


def _is_pi(record: Record, kinds: set[str]) -> bool:
    if record.get("role") in ("toolResult", "bashExecution", "custom") or "stopReason" in record:
        return True
    return type(record.get("timestamp")) is int or "toolCall" in kinds
