"""Read the rollouts of Codex: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`.

    {"timestamp": ..., "type": "session_meta", "payload": {"id": ..., "cwd": ..., "forked_from_id": ...}}
    {"timestamp": ..., "type": "response_item", "payload": an item of the Responses API}

Only response items are messages; events repeat them. Everything the model produced in one response is one message, as in
`lossless.formats.openai_responses`. Codex requests the summary of a compaction like any answer and writes it like one; a mark
on the line, or the `compacted` line after it, identifies it as a boundary. What Codex itself tells the model about its
environment is not a message either. Entries are named after their position: not every item has an id.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from lossless.errors import InvalidInput
from lossless.formats import openai_responses as wire
from lossless.formats.wire import Record
from lossless.model import Message, Part, Reasoning, Text
from lossless.transcripts import fast_load
from lossless.transcripts.base import Branch, Header, Tally, TranscriptEntry
from lossless.transcripts.fields import parse_time, position_id, with_event_id
from lossless.transcripts.lines import records

LINKS = ("session_meta", "turn_context", "world_state", "token_usage_record", "event_msg")
COMPACTED = ("compaction", "compaction_summary", "context_compaction")
ENDS = ("task_complete", "turn_complete", "turn_aborted")
"""Events after which a response does not continue."""
HOUSEKEEPING = "internal_chat_message_metadata_passthrough"
INJECTED = (
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
)


class Codex:
    """The reader of Codex rollouts."""

    name = "codex"

    def header(self, first: list[Record], path: Path) -> Header | None:
        about = next((_payload(line) for line in first if line.get("type") == "session_meta"), {})
        thread = _text(about.get("id"))
        if thread is None:
            return None
        parent = _spawned_by(about)
        return Header(
            format=self.name,
            session=thread,
            key=f"codex:{thread}",
            parent_session=_text(about.get("forked_from_id")) or _text(about.get("forked_from")),
            parent_key=f"codex:{parent}" if parent else None,
            started_at=parse_time(about.get("timestamp")),
            directory=_text(about.get("cwd")),
            named=False,
        )

    def entries(
        self, path: Path, header: Header, tally: Tally, *, offset: int = 0, number: int = 0
    ) -> Iterator[TranscriptEntry]:
        response: _Response | None = None
        begin = offset
        for line, end in records(path, tally, offset=offset):
            message = _message(line, tally)
            if response and response.ends(line, message):
                if response.is_summary_of(line):
                    tally.boundaries += 1
                else:
                    number += 1
                    yield _entry(header, number, response.message, response.at, response.end)
                response = None
            at = parse_time(line.get("timestamp")) if message else None
            if message is None:
                _note(response, line)
            elif message.role != "assistant":
                number += 1
                yield _entry(header, number, message, at, end)
            else:
                response = response or _Response(at, begin)
                response.add(line, message, end)
            begin = end
        if response:
            tally.end = response.begin
            if not response.is_summary:
                yield _entry(header, number + 1, response.message, response.at, response.end, is_open=True)

    def branch(self, path: Path, header: Header) -> Branch | None:
        return None


class _Response(Struct):
    """The output of the model since the last request."""

    at: datetime | None
    begin: int
    end: int = 0
    parts: tuple[Part, ...] = ()
    response_id: str | None = None
    is_summary: bool = False

    @property
    def message(self) -> Message:
        return Message("assistant", self.parts)

    def add(self, line: Record, message: Message, end: int) -> None:
        self.parts += message.parts
        self.end = end
        self.is_summary = self.is_summary or _is_marked(line)

    def ends(self, line: Record, message: Message | None) -> bool:
        if message is not None:
            if message.role != "assistant" or self.response_id is not None:
                return True
            return _is_marked(line) and any(not isinstance(part, Reasoning) for part in self.parts)
        kind = line.get("type")
        return kind in ("response_item", "compacted") or (kind == "event_msg" and _payload(line).get("type") in ENDS)

    def is_summary_of(self, line: Record) -> bool:
        """Return whether the response is the summary of a compaction; `line` is the line after it."""
        if self.is_summary or line.get("type") != "compacted":
            return self.is_summary
        about = _payload(line)
        if self.response_id is not None and about.get("compaction_response_id") == self.response_id:
            return True
        words = "".join(part.text for part in self.parts if isinstance(part, Text))
        return bool(words) and (_text(about.get("message")) or "").endswith(words)


def _is_marked(line: Record) -> bool:
    about = line.get("metadata")
    return isinstance(about, dict) and about.get("compaction_output") is True


def _note(response: _Response | None, line: Record) -> None:
    if response and line.get("type") == "token_usage_record":
        response.response_id = _text(_payload(line).get("response_id"))


def _entry(
    header: Header, number: int, message: Message, at: datetime | None, end: int, *, is_open: bool = False
) -> TranscriptEntry:
    name = f"{header.session}#{number}"
    return TranscriptEntry(
        id=name,
        parent=position_id(header.session, number - 1),
        end=end,
        number=number,
        message=with_event_id(message, name, at),
        is_open=is_open,
    )


def _message(line: Record, tally: Tally) -> Message | None:
    """Return the message of a line; a line without one is counted."""
    item = _payload(line)
    if line.get("type") != "response_item" or item.get("type") in COMPACTED:
        _count(line, tally)
        return None
    if item.get("type") == "ghost_snapshot" or _is_injected(item):
        tally.links += 1
        return None
    if HOUSEKEEPING in item:
        item = {key: value for key, value in item.items() if key != HOUSEKEEPING}
    try:
        return fast_load.responses(item) or wire.load([item])[0]
    except (InvalidInput, RecursionError):
        tally.malformed += 1
        return None


def _count(line: Record, tally: Tally) -> None:
    kind = str(line.get("type"))
    if kind in ("compacted", "response_item"):
        tally.boundaries += 1
    elif kind in LINKS:
        tally.links += 1
    else:
        tally.unknown[kind] = tally.unknown.get(kind, 0) + 1


def _is_injected(item: Record) -> bool:
    """Return whether Codex wrote the item, not the user: its environment, or instructions of project files."""
    if item.get("role") != "user":
        return item.get("role") == "developer"
    content = item.get("content")
    texts = [block.get("text") for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return bool(texts) and all(isinstance(text, str) and _surrounds(text.strip()) for text in texts)


def _surrounds(text: str) -> bool:
    return any(text.startswith(opening) and text.endswith(closing) for opening, closing in INJECTED)


def _spawned_by(about: Record) -> str | None:
    match about.get("source"):
        case {"subagent": {"thread_spawn": {"parent_thread_id": str(parent)}}}:
            return parent
        case _:
            return None


def _payload(line: Record) -> Record:
    payload = line.get("payload")
    return payload if isinstance(payload, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
