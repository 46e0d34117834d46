"""Small transcripts, written the way the programs write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lossless.transcripts import Header, Tally, TranscriptEntry, reader, recognise

Line = dict[str, Any]
SESSION = "8698dce9-4ad5-44c4-8d22-cd7c4181c698"
AT = "2026-11-16T01:31:23.721Z"


def put(path: Path, *lines: Line) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(
    path: Path, *, offset: int = 0, number: int = 0, header: Header | None = None
) -> tuple[list[TranscriptEntry], Header, Tally]:
    header, tally = header or recognise(path), Tally()
    entries = list(reader(header.format).entries(path, header, tally, offset=offset, number=number))
    return entries, header, tally


def said(entries: list[TranscriptEntry]) -> list[TranscriptEntry]:
    return [entry for entry in entries if entry.message]


def words(entries: list[TranscriptEntry]) -> list[tuple[str, str]]:
    return [(entry.message.role, entry.message.text) for entry in entries if entry.message]


def shown(path: Path) -> list[str]:
    """What a model would be shown of a file: the texts on its branch."""
    entries, header, _ = read(path)
    branch = reader(header.format).branch(path, header)
    return [each.message.text for each in entries if each.message and (branch is None or each.id in branch)]


def pi(entry_id: str, parent: str | None, text: str, role: str = "user") -> Line:
    message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1794765678227}
    return {"type": "message", "id": entry_id, "parentId": parent, "timestamp": AT, "message": message}


def pi_session(**more: Any) -> Line:
    return {"type": "session", "version": 3, "id": SESSION, "timestamp": AT, "cwd": "/home/dev/project", **more}


def claude(kind: str, uuid: str, parent: str | None, message: Line | None = None, **more: Any) -> Line:
    line = {"parentUuid": parent, "isSidechain": False, "type": kind, "uuid": uuid, "timestamp": AT}
    return line | ({"message": message} if message else {}) | {"cwd": "/home/dev", "sessionId": SESSION} | more


def prompt(uuid: str, parent: str | None, text: str, **more: Any) -> Line:
    return claude("user", uuid, parent, {"role": "user", "content": text}, **more)


def reply(
    uuid: str, parent: str | None, reply_id: str, *blocks: Line, stop: str | None = "end_turn", **more: Any
) -> Line:
    message = {"id": reply_id, "type": "message", "role": "assistant", "model": "opus", "content": list(blocks)}
    about = {"stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 9}}
    return claude("assistant", uuid, parent, message | about, **more)


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def thinking(words: str) -> Line:
    return {"type": "thinking", "thinking": words, "signature": "c2ln"}


def call(call_id: str) -> Line:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "cat notes.txt"}}


def result(uuid: str, parent: str, call_id: str, words: str) -> Line:
    block = {"tool_use_id": call_id, "type": "tool_result", "content": words, "is_error": False}
    return claude("user", uuid, parent, {"role": "user", "content": [block]}, toolUseResult={"stdout": words})


def codex(kind: str, **payload: Any) -> Line:
    return {"timestamp": AT, "type": kind, "payload": payload}


def codex_session(**more: Any) -> Line:
    return codex("session_meta", id=SESSION, timestamp=AT, cwd="/home/dev", cli_version="0.166.0", **more)


def item(kind: str, **payload: Any) -> Line:
    return codex("response_item", type=kind, **payload)


def asked(words: str) -> Line:
    about = {"turn_id": "t1", "create_time": 1794792734.3}
    content = [{"type": "input_text", "text": words}]
    return item("message", role="user", content=content, internal_chat_message_metadata_passthrough=about)


def answered(words: str, **metadata: Any) -> Line:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return item("message", status="completed", id="msg_1", role="assistant", content=content) | {"metadata": metadata}


def usage(response_id: str) -> Line:
    return codex("token_usage_record", response_id=response_id, usage={"total_tokens": 18})


DONE = codex("event_msg", type="task_complete", turn_id="t1")
