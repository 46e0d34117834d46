from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lossless.errors import InvalidInput
from lossless.formats import openclaw
from lossless.model import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from tests.fixtures import TRANSCRIPTS
from tests.formats.samples import cases, everything

AT = datetime(2026, 11, 15, 18, 1, 18, 227000, tzinfo=UTC)


def entries(name: str) -> list[Any]:
    lines = (TRANSCRIPTS / name).read_text().splitlines()
    return [entry["message"] for entry in map(json.loads, lines) if entry["type"] == "message"]


@pytest.mark.parametrize(("name", "count"), [("pi-v3.jsonl", 6), ("pi-large-session.jsonl", 914)])
def test_a_real_session_comes_out_as_it_went_in(name: str, count: int) -> None:
    wire = entries(name)
    messages = openclaw.load(wire)
    assert len(messages) == count
    assert [json.dumps(openclaw.dump_message(message)) for message in messages] == [json.dumps(one) for one in wire]
    assert json.dumps(openclaw.dump(messages)) == json.dumps({"messages": wire})


def test_a_real_session_needs_few_notes() -> None:
    messages = openclaw.load(entries("pi-large-session.jsonl"))
    assert all(message.at and message.at.year == 2025 for message in messages)
    assert not [message for message in messages if message.role == "user" and message.extra]
    notes = {key for message in messages for value in everything(message) for key in value.extra.get("openclaw", {})}
    assert notes == {"api", "provider", "model", "usage", "errorMessage", "details", "partialJson"}


def test_a_turn_becomes_parts() -> None:
    user, assistant, tool = openclaw.load(
        [
            {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1794765678227},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "thinkingSignature": "Eq", "redacted": True},
                    {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "å"}},
                ],
                "model": "m",
                "stopReason": "toolUse",
                "timestamp": 1794765678227,
                "responseId": "resp_1",
            },
            {
                "role": "toolResult",
                "toolCallId": "c1",
                "toolName": "read",
                "content": [{"type": "image", "data": "iVBO", "mimeType": "image/png"}],
                "details": {"lines": 1},
                "isError": True,
                "timestamp": 1794765678227,
            },
        ]
    )
    assert user == Message.user("hi", at=AT)
    assert assistant.parts == (
        Reasoning("hm", "Eq", {"openclaw": {"redacted": True}}),
        ToolCall("c1", "read", '{"path":"å"}'),
    )
    assert (assistant.at, assistant.stop, assistant.event_id) == (AT, "toolUse", None)
    assert assistant.extra == {"openclaw": {"model": "m", "responseId": "resp_1"}}
    assert tool.parts == (ToolResult("c1", (File("image/png", data="iVBO"),), "read", is_error=True),)
    assert tool.extra == {"openclaw": {"details": {"lines": 1}}}


def test_a_command_of_the_user_is_kept_whole() -> None:
    wire = {"role": "bashExecution", "command": "ls", "output": "a", "timestamp": 1794765678227}
    message = openclaw.load(wire)
    assert (message.role, message.at) == ("user", AT)
    (part,) = message.parts
    assert isinstance(part, Opaque)
    assert (part.kind, part.data) == ("bashExecution", wire)


def test_only_a_sane_timestamp_is_a_moment() -> None:
    messages = openclaw.load(next(case["wire"] for case in cases("openclaw") if "timestamps" in case["name"]))
    half = AT.replace(microsecond=227500)
    assert [message.at for message in messages] == [half, AT, None, None, None, None, None, None]


def test_messages_of_other_formats_become_messages_of_pi() -> None:
    foreign = [
        Message.system("Be brief."),
        Message.user("hi", at=AT.replace(microsecond=227999)),
        Message(
            "assistant", (Reasoning("x", "y", {"anthropic": {}}), Text("t"), ToolCall("c", "n", "{")), stop="tool_use"
        ),
        Message("tool", (ToolResult("c", (Text("r"),)), ToolResult("d", (), "read", is_error=True))),
        Message("assistant", (Reasoning("only thoughts"),)),
        Message(
            "user", (File("image/png", url="https://e/x.png"), File("image/png", data="i"), File("audio/wav", data="U"))
        ),
        Message("tool", (Text("a result of nothing"),)),
    ]
    assert openclaw.dump(foreign)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1794765678227},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "t"},
                {"type": "toolCall", "id": "c", "name": "n", "arguments": {"raw": "{"}},
            ],
            "stopReason": "toolUse",
        },
        {
            "role": "toolResult",
            "toolCallId": "c",
            "toolName": "unknown",
            "content": [{"type": "text", "text": "r"}],
            "isError": False,
        },
        {"role": "toolResult", "toolCallId": "d", "toolName": "read", "content": [], "isError": True},
        {"role": "user", "content": [{"type": "image", "data": "i", "mimeType": "image/png"}]},
        {"role": "user", "content": [{"type": "text", "text": "a result of nothing"}]},
    ]
    with pytest.raises(InvalidInput, match="several"):
        openclaw.dump_message(foreign[3])


def test_the_prompt_of_a_context_comes_first() -> None:
    context = {"systemPrompt": "Be brief.", "messages": [{"role": "user", "content": "hi"}]}
    assert [message.text for message in openclaw.load_request(context)] == ["Be brief.", "hi"]
