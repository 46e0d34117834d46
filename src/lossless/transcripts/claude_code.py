"""Read the sessions of Claude Code: `projects/<directory>/<session>.jsonl`, and those of its sub-agents beside them.

    {"type": "user", "uuid": ..., "parentUuid": ..., "sessionId": ..., "timestamp": ..., "message": {"role": "user", ...}}
    {"type": "assistant", "uuid": ..., "parentUuid": ..., "message": {"id": "msg_...", "content": [one block], ...}}

Only the type of a line identifies it: copies of whole requests are in the file too. A reply of the model has one line per
block, and is one message. It has the id of its first line; the others are links after it, so that a child of any of them is a
child of the message. Lines of a compaction are links in the chain and never messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from lossless.errors import InvalidInput
from lossless.formats import anthropic as wire
from lossless.formats.wire import Record
from lossless.model import Message, Text
from lossless.transcripts import fast_load
from lossless.transcripts.base import Branch, Header, Tally, TranscriptEntry
from lossless.transcripts.fields import parse_time, with_event_id
from lossless.transcripts.lines import records
from lossless.transcripts.tree import Tree

COMPACTED = ("compact_boundary", "microcompact_boundary")
LINKS = {
    "attachment",
    "system",
    "progress",
    "summary",
    "queue-operation",
    "last-prompt",
    "mode",
    "cost-state",
    "tools-used",
    "atis-latch",
    "api-request",
    "api-request-shape",
    "api-request-blob",
    "file-history-snapshot",
    "permission-mode",
    "custom-title",
    "ai-title",
    "agent-name",
    "tag",
    "pr-link",
}
CHAINED = ("user", "assistant", "system", "attachment")


class ClaudeCode:
    """The reader of Claude Code sessions."""

    name = "claude_code"

    def header(self, first: list[Record], path: Path) -> Header | None:
        session = next((id_ for line in first if (id_ := _text(line, "sessionId"))), None)
        if session is None or not all(isinstance(line.get("type"), str) for line in first):
            return None
        chained = next((line for line in first if line["type"] in CHAINED and "uuid" in line), {})
        agent = _text(chained, "agentId") if chained.get("isSidechain") else None
        forked = chained.get("forkedFrom")
        return Header(
            format=self.name,
            session=agent or session,
            key=f"claude-code:{agent or session}",
            parent_session=_text(forked, "sessionId") if isinstance(forked, dict) else None,
            parent_key=f"claude-code:{session}" if agent else None,
            started_at=next((at for line in first if (at := parse_time(line.get("timestamp")))), None),
            directory=next((cwd for line in first if (cwd := _text(line, "cwd"))), None),
        )

    def entries(
        self, path: Path, header: Header, tally: Tally, *, offset: int = 0, number: int = 0
    ) -> Iterator[TranscriptEntry]:
        threads = _Threads(path, offset, header)
        reply: _Reply | None = None
        begin = offset
        for line, end in records(path, tally, offset=offset):
            thread = threads.of(line)
            message = _message(line, tally)
            if reply and message and not reply.continues(line):
                yield from reply.closed()
                reply = None
            if message is None:
                if link := _link(line, end, number, thread):
                    yield from _after_reply(reply, link)
            elif reply:
                reply.join(_link(line, end, number, thread), message, end)
            else:
                number += 1
                name = _text(line, "uuid") or f"{header.session}#{number}"
                entry = TranscriptEntry(
                    id=name,
                    parent=_parent(line),
                    end=end,
                    number=number,
                    message=with_event_id(message, name, parse_time(line.get("timestamp"))),
                    thread=thread,
                )
                reply = _Reply(entry, _reply_id(line), begin)
            if reply and message and reply.is_whole:
                yield from reply.closed()
                reply = None
            begin = end
        if reply:
            tally.end = reply.begin
            yield replace(reply.entry, is_open=True)

    def branch(self, path: Path, header: Header) -> Branch | None:
        seen = _Seen(whole_file=header.parent_key is not None)
        for line, _ in records(path, Tally()):
            seen.add(line)
        return seen.branch()


class _Reply(Struct):
    """A message that may have further lines, and the links between and after them."""

    entry: TranscriptEntry
    reply_id: str | None
    begin: int
    links: list[TranscriptEntry] = field(default_factory=list)

    def continues(self, line: Record) -> bool:
        return self.reply_id is not None and _reply_id(line) == self.reply_id

    @property
    def is_whole(self) -> bool:
        """Return whether its last line was read.

        Each line has the reason why the reply ended. A call may be followed by another, and thinking by text; text that ended a turn
        is the last block.
        """
        message = self.entry.message
        if self.reply_id is None or message is None:
            return True
        has_words = not message.parts or isinstance(message.parts[-1], Text)
        return has_words and message.stop not in (None, "tool_use", "pause_turn")

    def join(self, link: TranscriptEntry | None, more: Message, end: int) -> None:
        found = self.entry.message
        assert found is not None
        joined = replace(with_event_id(more, found.event_id, found.at), parts=found.parts + more.parts)
        self.entry = replace(self.entry, end=end, message=joined)
        self.links += [link] if link else []

    def closed(self) -> Iterator[TranscriptEntry]:
        """Yield the entry, then its links.

        A reader that continues after any of them must not find a line of the message again.
        """
        yield self.entry
        for link in self.links:
            yield link if link.end >= self.entry.end else replace(link, end=self.entry.end)


class _Threads:
    """The sub-agent of each line: the one it names, else the first line of its chain."""

    def __init__(self, path: Path, offset: int, header: Header) -> None:
        self._path, self._offset = path, offset
        self._is_shared = header.parent_key is None
        self._roots: dict[str, str] | None = None

    def of(self, line: Record) -> str | None:
        if not line.get("isSidechain") or not self._is_shared:
            return None
        if agent := _text(line, "agentId"):
            return agent
        if self._roots is None:
            self._roots = {}
            for earlier, end in records(self._path, Tally()) if self._offset else ():
                if end > self._offset:
                    break
                self._learn(earlier)
        return self._learn(line)

    def _learn(self, line: Record) -> str | None:
        name, parent = _text(line, "uuid"), _text(line, "parentUuid")
        if self._roots is None or name is None or not line.get("isSidechain"):
            return None
        return self._roots.setdefault(name, self._roots.get(parent or "", name))


class _Seen:
    """The lines of a file, reduced to what the active branch needs."""

    def __init__(self, *, whole_file: bool) -> None:
        self._whole_file = whole_file
        self._tree = Tree()
        self._is_message = bytearray()
        self._replies = array("q")
        self._calls, self._callers = array("q"), array("q")
        self._answers, self._answerers = array("q"), array("q")

    def add(self, line: Record) -> None:
        name = _text(line, "uuid")
        if name is None or (line.get("isSidechain") and not self._whole_file):
            return
        index = len(self._is_message)
        self._tree.add(name, _parent(line))
        self._is_message.append(_message_record(line) is not None)
        self._replies.append(hash(_reply_id(line) or ""))
        for block in _blocks(line):
            if call := _text(block, "id"):
                self._calls.append(hash(call))
                self._callers.append(index)
            if answered := _text(block, "tool_use_id"):
                self._answers.append(hash(answered))
                self._answerers.append(index)

    def branch(self) -> Branch | None:
        """Return the path from the last message up to the first, with forks that are no other branch.

        Calls of one reply run in parallel: each result is a child of its own call, and only one of them continues.
        """
        leaf = self._is_message.rfind(1)
        marks = self._tree.up(leaf) if leaf >= 0 else None
        if marks is None:
            return None
        self._mark_replies(marks)
        self._mark_answers(marks)
        if all(marked or not found for marked, found in zip(marks, self._is_message, strict=True)):
            return None
        return self._tree.path(marks)

    def _mark_replies(self, marks: bytearray) -> None:
        shown = {reply for reply, marked in zip(self._replies, marks, strict=True) if marked and reply}
        for index, reply in enumerate(self._replies):
            if reply in shown:
                marks[index] = 1

    def _mark_answers(self, marks: bytearray) -> None:
        path = self._tree.path(marks)
        shown = {call for call, index in zip(self._calls, self._callers, strict=True) if marks[index]}
        for answer, index in zip(self._answers, self._answerers, strict=True):
            if answer in shown and path.holds(self._tree.parents[index]):
                marks[index] = 1


def _after_reply(reply: _Reply | None, link: TranscriptEntry) -> Iterator[TranscriptEntry]:
    if reply:
        reply.links.append(link)
    else:
        yield link


def _link(line: Record, end: int, number: int, thread: str | None) -> TranscriptEntry | None:
    name = _text(line, "uuid")
    return TranscriptEntry(id=name, parent=_parent(line), end=end, number=number, thread=thread) if name else None


def _message(line: Record, tally: Tally) -> Message | None:
    """Return the message of a line; a line without one is counted."""
    found = _message_record(line)
    if found is None or line.get("isCompactSummary"):
        _count(line, tally)
        return None
    try:
        message = fast_load.anthropic(found) or wire.load(found)
    except (InvalidInput, RecursionError):
        tally.malformed += 1
        return None
    return replace(message, stop="error") if line.get("isApiErrorMessage") else message


def _message_record(line: Record) -> Record | None:
    """Return the message in a line: the user's, the model's, or the user's during a running turn."""
    match line:
        case {"type": "user" | "assistant", "message": dict(message)}:
            return message
        case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": str() | list() as prompt}}:
            return {"role": "user", "content": prompt}
        case _:
            return None


def _count(line: Record, tally: Tally) -> None:
    kind = str(line.get("type"))
    if line.get("isCompactSummary") or (kind == "system" and line.get("subtype") in COMPACTED):
        tally.boundaries += 1
    elif kind in LINKS:
        tally.links += 1
    elif kind in ("user", "assistant"):
        tally.malformed += 1
    else:
        tally.unknown[kind] = tally.unknown.get(kind, 0) + 1


def _reply_id(line: Record) -> str | None:
    match line:
        case {"type": "assistant", "message": {"id": str(name)}}:
            return name
        case _:
            return None


def _blocks(line: Record) -> list[Record]:
    match line:
        case {"type": "user" | "assistant", "message": {"content": list(content)}}:
            return [block for block in content if isinstance(block, dict)]
        case _:
            return []


def _parent(line: Record) -> str | None:
    """Return the id of the line before; after a compaction, of the line before that."""
    return _text(line, "parentUuid") or _text(line, "logicalParentUuid")


def _text(record: Record, key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) and value else None
