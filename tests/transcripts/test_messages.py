"""Files of plain messages, line by line or as one array."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lossless.formats import anthropic, openai_chat, openclaw
from tests.transcripts.files import Line, put, read, words

CHAT: list[Line] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "what's up"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "done"},
]
CLAUDE: list[Line] = [
    {"role": "user", "content": "what's up"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]},
]
PI: list[Line] = [
    {"role": "user", "content": "what's up", "timestamp": 1_794_765_678_227},
    {
        "role": "assistant",
        "content": [{"type": "toolCall", "id": "c", "name": "f", "arguments": {}}],
        "stopReason": "toolUse",
    },
    {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "f",
        "content": [{"type": "text", "text": "done"}],
        "isError": False,
    },
]


@pytest.mark.parametrize(("format", "messages"), [(openai_chat, CHAT), (anthropic, CLAUDE), (openclaw, PI)])
@pytest.mark.parametrize("way", ["lines", "array", "indented", "marked"])
def test_messages_of_every_kind_come_back_as_they_were(
    tmp_path: Path, format: Any, messages: list[Any], way: str
) -> None:
    path = put(tmp_path / "chat.jsonl", *messages)
    if way != "lines":
        text = json.dumps(messages, indent=2 if way == "indented" else None, ensure_ascii=False)
        path.write_text(("\ufeff" if way == "marked" else "") + text, "utf-8")
    entries, header, tally = read(path)
    assert [format.dump_message(each.message) for each in entries] == messages
    assert [each.id for each in entries] == [f"{header.session}#{n + 1}" for n in range(len(messages))]
    assert header.key.startswith("messages:chat-")
    assert tally.lines == len(messages)


def test_an_array_can_be_left_and_taken_up_again(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    messages = [{"role": "user", "content": f"Grüße {n} 🙂"} for n in range(5)]
    path.write_text(json.dumps(messages[:3], ensure_ascii=False), "utf-8")
    before, header, tally = read(path)
    path.write_text(json.dumps(messages, ensure_ascii=False), "utf-8")
    after, _, _ = read(path, offset=tally.end, number=3, header=header)
    assert [*before, *after] == read(path)[0]
    behind, _, _ = read(path, offset=before[1].end, number=2, header=header)
    assert [*before[:2], *behind] == read(path)[0]


@pytest.mark.parametrize(
    ("text", "found", "malformed"),
    [
        (b'[{"role": "user", "content": "one"}, {"role": "us', 1, 1),
        (b'[{"role": "user", "content": "one"}, 7, {"role": "user", "content": "two"}]', 2, 1),
        (b'[{"role": "user", "content": "one"}, {"role": "user", "content": "\xff"}]', 1, 1),
        (b'[{"role": "user", "content": "one"}] and more', 1, 0),
        (b'{"role": "user", "content": "one"}\n{"role": 7}\n', 1, 1),
    ],
)
def test_what_is_no_message_is_counted(tmp_path: Path, text: bytes, found: int, malformed: int) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(b'{"role": "user", "content": "one"}\n')
    header = read(path)[1]
    path.write_bytes(text)
    entries, _, tally = read(path, header=header)
    assert (len(entries), tally.malformed) == (found, malformed)


def test_files_that_begin_alike_are_different_conversations(tmp_path: Path) -> None:
    one, other = put(tmp_path / "a.jsonl", *CHAT), put(tmp_path / "b.jsonl", *CHAT[:2])
    assert read(one)[1].session != read(other)[1].session
    before = read(one)[1].session
    assert read(put(one, *CHAT, {"role": "user", "content": "more"}))[1].session == before
    assert read(one.rename(tmp_path / "a.jsonl.reset.2026-01-01"))[1].session == before


def test_the_id_of_a_reply_stays_with_it(tmp_path: Path) -> None:
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
    }
    entries, _, _ = read(put(tmp_path / "x.jsonl", reply))
    assert words(entries) == [("assistant", "hi")]
    assert entries[0].message
    assert entries[0].message.extra["anthropic"]["$reply"] == {"id": "msg_1"}
