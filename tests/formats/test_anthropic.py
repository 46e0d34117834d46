from __future__ import annotations

import re
from typing import Any

import pytest

from lossless.formats import anthropic
from lossless.model import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from tests.formats.samples import Sdk

MARK = {"type": "ephemeral"}


def test_a_turn_becomes_parts() -> None:
    user, assistant, tool = anthropic.load(
        [
            {"role": "user", "content": "Weather in Oslo?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Ask the tool.", "signature": "Eq"},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Ålesund", "day": 1}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}],
            },
        ]
    )
    assert user == Message.user("Weather in Oslo?")
    assert assistant.parts == (
        Reasoning("Ask the tool.", "Eq", {"anthropic": {}}),
        Text("Looking."),
        ToolCall("t1", "weather", '{"city":"Ålesund","day":1}'),
    )
    assert tool == Message("tool", (ToolResult("t1", (Text("no"),), is_error=True),))


def test_files_become_files() -> None:
    png = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    lease = {"type": "document", "source": {"type": "url", "url": "https://e/a.pdf"}, "title": "Lease"}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [png]}
    message = anthropic.load({"role": "user", "content": [png, lease, result]})
    assert message.parts == (
        File("image/png", data="iVBO"),
        File(name="Lease", url="https://e/a.pdf"),
        ToolResult("t", (File("image/png", data="iVBO"),)),
    )


def test_system_stands_beside_the_messages() -> None:
    request = {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}
    assert anthropic.load_request(request) == [Message.system("Be brief."), Message.user("Hi")]
    assert anthropic.dump(anthropic.load_request(request)) == request


def test_a_request_without_system_has_none() -> None:
    request = {"messages": [{"role": "user", "content": "Hi"}]}
    assert anthropic.load_request(request) == anthropic.load_request(request | {"system": None}) == [Message.user("Hi")]
    assert anthropic.dump([Message.user("Hi")]) == request


def test_system_blocks_come_back_as_blocks() -> None:
    blocks = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind.", "cache_control": MARK}]
    said = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "From now on in Dutch."}]
    request = {"system": blocks, "messages": said}
    messages = anthropic.load_request(request)
    assert [message.role for message in messages] == ["system", "user", "system"]
    assert anthropic.dump(messages, keep_cache_markers=True) == request


def test_system_text_said_in_between_moves_beside() -> None:
    said = [Message.system("Be brief."), Message.user("Hi"), Message("developer", (Text("Be kind."),))]
    assert anthropic.dump(said) == {
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": "Hi"}],
    }
    assert "system" not in anthropic.dump([Message.user("Hi"), Message.system("")])


def test_a_system_message_stays_only_where_the_api_takes_one() -> None:
    wire: list[Any] = [{"role": role, "content": role} for role in ("system", "user", "assistant", "system", "user")]
    assert anthropic.dump(anthropic.load(wire)) == {
        "system": [{"type": "text", "text": "system"}, {"type": "text", "text": "system"}],
        "messages": [wire[1], wire[2], wire[4]],
    }


def test_cache_markers_stay_behind_unless_asked_for() -> None:
    trap = {"cache_control": "an argument", "content": [{"cache_control": "one more"}]}
    wire = [
        {"role": "user", "content": "Go"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "n", "input": trap, "cache_control": MARK}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "x", "cache_control": MARK}],
                    "cache_control": MARK,
                },
                {"type": "hologram", "cache_control": MARK},
            ],
        },
    ]
    messages = anthropic.load(wire)
    assert anthropic.dump(messages, keep_cache_markers=True)["messages"] == wire
    assert [anthropic.dump_message(message) for message in messages] == wire
    assert anthropic.dump(messages)["messages"] == [
        wire[0],
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": trap}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]},
                {"type": "hologram"},
            ],
        },
    ]


REPLY: dict[str, Any] = {
    "id": "msg_01",
    "content": [
        {"signature": "Eq", "thinking": "hm", "type": "thinking"},
        {"citations": None, "text": "Hello", "type": "text"},
        {"id": "t1", "caller": None, "input": {"a": None}, "name": "n", "type": "tool_use"},
        {"id": "s1", "input": {"q": None}, "name": "web_search", "type": "server_tool_use", "later": None},
    ],
    "model": "claude-haiku-4-5",
    "role": "assistant",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "type": "message",
    "usage": {"input_tokens": 9, "cache_creation": None},
}


@pytest.mark.parametrize("reply", [REPLY, Sdk(REPLY, container=None)], ids=["dict", "SDK object"])
def test_a_reply_is_kept_and_only_its_words_go_back(reply: Any) -> None:
    message = anthropic.load(reply)
    assert (message.role, message.event_id, message.stop) == ("assistant", "msg_01", "tool_use")
    about = {"model": "claude-haiku-4-5", "usage": {"input_tokens": 9, "cache_creation": None}}
    assert message.extra == {"anthropic": {"$reply": about}}
    assert message.parts[1:3] == (Text("Hello"), ToolCall("t1", "n", '{"a":null}'))
    assert anthropic.dump([Message.user("Hi"), message])["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "Eq"},
                {"type": "text", "text": "Hello"},
                {"type": "tool_use", "id": "t1", "name": "n", "input": {"a": None}},
                REPLY["content"][3],
            ],
        }
    ]


def test_a_reply_of_a_simple_server_is_read_too() -> None:
    simple = {"id": 5, "type": "message", "role": "assistant", "content": "Hello", "stop_reason": None}
    message = anthropic.load(simple)
    assert (message.text, message.event_id, message.stop) == ("Hello", None, None)


def test_the_blocks_of_a_reply_may_stand_in_a_message() -> None:
    blocks = [Sdk(block, never_sent=None) for block in REPLY["content"]]
    assert anthropic.load({"role": "assistant", "content": blocks}).parts == anthropic.load(REPLY).parts


def test_what_cannot_be_said_is_left_out() -> None:
    foreign = [
        Message("assistant", (Reasoning("hm", "sig", {"openclaw": {}}), Text("Hi"), Opaque("patch", {"a": 1}))),
        Message("assistant", (Reasoning("only thoughts"),)),
        Message("user", (File("audio/wav", data="UklG"), File("text/csv", data="YSxi"), File())),
        Message.user(""),
        Message("user", (File("image/svg+xml", data="PHN2"), File(url="data:text/plain,hi"))),
        Message("assistant", (Text(""), ToolCall("c", "n", ""))),
    ]
    _, answer = anthropic.dump(foreign)["messages"]
    assert answer["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "c", "name": "n", "input": {}},
    ]


def test_roles_take_turns_and_the_user_begins() -> None:
    said = [
        Message.assistant("Done."),
        Message("assistant", (ToolCall("c", "n", "{}"),)),
        Message.tool("42", call_id="c"),
        Message.user("And?"),
        Message.user(" "),
        Message.assistant("More. \n"),
    ]
    opening, *turns = anthropic.dump(said)["messages"]
    assert opening == anthropic.OPENING
    assert turns == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Done."}, {"type": "tool_use", "id": "c", "name": "n", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": "42"},
                {"type": "text", "text": "And?"},
            ],
        },
        {"role": "assistant", "content": "More."},
    ]


def test_a_thought_goes_back_only_signed_and_before_what_it_led_to() -> None:
    thought = {"type": "thinking", "thinking": "So.", "signature": "Eq"}
    text = {"type": "text", "text": "Yes."}
    wire = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "unsigned"}, thought, text, thought]},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": [thought]},
        {"role": "user", "content": "Well?"},
    ]
    assert anthropic.dump(anthropic.load(wire))["messages"] == [
        wire[0],
        {"role": "assistant", "content": [thought, text]},
        {"role": "user", "content": [{"type": "text", "text": "And?"}, {"type": "text", "text": "Well?"}]},
    ]


def test_ids_and_names_are_spelled_as_the_api_takes_them() -> None:
    said = [
        Message.user("Go"),
        Message("assistant", (ToolCall("functions.bash:0", "fs.read"), ToolCall("functions/bash:0", ""))),
        Message("tool", (ToolResult("functions.bash:0"), ToolResult("functions/bash:0"))),
    ]
    _, calls, results = anthropic.dump(said)["messages"]
    ids = [block["id"] for block in calls["content"]]
    assert ids == [block["tool_use_id"] for block in results["content"]]
    assert len(set(ids)) == 2
    assert all(re.fullmatch(r"functions_bash_0_[0-9a-f]{16}", one) for one in ids)
    assert [block["name"] for block in calls["content"]] == ["fs_read", "unknown"]


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", "ls -l", "1" * 5000])
def test_arguments_that_are_no_object_are_handed_on_whole(arguments: str) -> None:
    message = anthropic.dump_message(Message("assistant", (ToolCall("c", "n", arguments),)))
    assert message["content"][0]["input"] == {"raw": arguments}
