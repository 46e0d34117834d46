from __future__ import annotations

from typing import Any

import pytest

from lossless.errors import InvalidInput
from lossless.formats import openai_chat
from lossless.model import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from tests.formats.samples import Sdk


def test_a_turn_becomes_parts() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"'}}
    assistant, tool, user = openai_chat.load(
        [
            {"role": "assistant", "content": "Looking.", "reasoning_content": "Ask.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "3 degrees", "name": "weather"},
            {"role": "user", "name": "ada", "content": "Thanks"},
        ]
    )
    note = {"openai_chat": {"$field": "reasoning_content"}}
    assert assistant.parts == (
        Reasoning("Ask.", None, note),
        Text("Looking."),
        ToolCall("c1", "weather", '{"city": "Oslo"'),
    )
    assert tool.parts == (ToolResult("c1", (Text("3 degrees"),), "weather"),)
    assert user == Message.user("Thanks", name="ada")


def test_files_become_files() -> None:
    message = openai_chat.load(
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
                {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
            ],
        }
    )
    assert message.parts == (
        File("image/png", data="iVBO"),
        File("audio/mpeg", data="SUQz"),
        File("application/pdf", "a.pdf", "JVBE"),
    )


@pytest.mark.parametrize(
    "url", ["data:image/svg+xml;charset=utf-8;base64,PHN2", "data:text/plain,hi", "https://e/;base64,"]
)
def test_an_address_is_taken_apart_only_if_it_is_plain_data(url: str) -> None:
    message = openai_chat.load({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    assert message.parts == (File(url=url),)


def test_a_refusal_is_words() -> None:
    field = openai_chat.load({"role": "assistant", "content": None, "refusal": "No."})
    part = openai_chat.load({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})
    assert field.text == part.text == "No."


COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "index": 0,
            "logprobs": None,
            "message": {
                "content": None,
                "refusal": None,
                "role": "assistant",
                "annotations": [],
                "audio": None,
                "function_call": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "function": {"arguments": "{}", "name": "f", "parsed_arguments": {}},
                        "type": "function",
                    }
                ],
                "parsed": None,
            },
        }
    ],
    "created": 1,
    "model": "gpt-5",
    "object": "chat.completion",
    "service_tier": None,
    "usage": {"total_tokens": 2},
}
SAID = COMPLETION["choices"][0]["message"]


@pytest.mark.parametrize("reply", [COMPLETION, Sdk(COMPLETION, metadata=None)], ids=["dict", "SDK object"])
def test_a_completion_is_kept_and_only_its_message_goes_back(reply: Any) -> None:
    message = openai_chat.load(reply)
    assert (message.event_id, message.stop) == ("chatcmpl-1", "tool_calls")
    assert message.parts == (ToolCall("c1", "f", "{}"),)
    about = message.extra["openai_chat"].pop("$reply")
    assert message.extra == {"openai_chat": {}}
    assert (about["model"], about["usage"]) == ("gpt-5", {"total_tokens": 2})
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert openai_chat.dump([message])["messages"] == [{"role": "assistant", "content": None, "tool_calls": [call]}]


def test_a_role_that_a_stream_repeated_is_one_role() -> None:
    said = {"role": "assistantassistantassistant", "content": "Hi."}
    reply = {"id": "c1", "choices": [{"index": 0, "finish_reason": "stop", "message": said}]}
    message = openai_chat.load(reply)
    assert (message.role, message.text) == ("assistant", "Hi.")
    assert openai_chat.dump([message]) == {"messages": [{"role": "assistant", "content": "Hi."}]}


def test_the_message_of_a_completion_may_come_alone() -> None:
    assert openai_chat.load(Sdk(SAID)) == Message("assistant", (ToolCall("c1", "f", "{}"),))


def test_other_choices_and_sounds_are_kept_but_not_sent() -> None:
    spoken = {"role": "assistant", "content": None, "audio": {"id": "a1", "data": "UklG", "transcript": "Hi"}}
    other = {"index": 1, "message": {"role": "assistant", "content": "Hey"}}
    message = openai_chat.load({"id": "c", "choices": [{"index": 0, "message": spoken}, other]})
    about = message.extra["openai_chat"]["$reply"]
    assert about["audio"] == spoken["audio"]
    assert about["choices"] == [other]
    assert openai_chat.dump_message(message)["audio"] == {"id": "a1"}


@pytest.mark.parametrize("choices", [[], None, "x", [5], [{"index": 0}]])
def test_a_completion_without_a_message_is_refused(choices: Any) -> None:
    with pytest.raises(InvalidInput, match="choices"):
        openai_chat.load({"id": "c", "choices": choices})


def test_several_results_become_several_messages() -> None:
    results = (
        ToolResult("c1", (Text("a"),), "f", is_error=True),
        ToolResult("c2", (Text("b"), File("image/png", data="i"))),
    )
    mixed = Message("user", (*results, Text("and now?")))
    wire = [
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
    ]
    assert openai_chat.dump([Message("tool", results)])["messages"] == wire
    assert openai_chat.dump([mixed])["messages"] == [*wire, {"role": "user", "content": "and now?"}]
    with pytest.raises(InvalidInput, match="several"):
        openai_chat.dump_message(mixed)


def test_what_cannot_be_said_is_left_out() -> None:
    foreign = [
        Message("assistant", (Reasoning("hm", "sig", {"anthropic": {}}), Opaque("patch", 1, {"anthropic": {}}))),
        Message("assistant", (File("image/png", data="i"),)),
        Message("user", (File("application/pdf", url="https://e/a.pdf"), Text("see"))),
        Message("branchSummary", (Text("we tried"),), name="a b"),
        Message("tool", (Text("a result of nothing"),)),
        Message("tool", (ToolResult("c"),)),
        Message("assistant"),
    ]
    assert openai_chat.dump(foreign)["messages"] == [
        {"role": "user", "content": "see"},
        {"role": "user", "name": "a_b", "content": "we tried"},
        {"role": "user", "content": "a result of nothing"},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]


def test_cache_markers_stay_behind_unless_asked_for() -> None:
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    wire = [{"role": "system", "content": [marked]}]
    messages = openai_chat.load_request({"messages": wire})
    assert openai_chat.dump(messages, keep_cache_markers=True) == {"messages": wire}
    assert openai_chat.dump(messages)["messages"][0]["content"] == [{"type": "text", "text": "x"}]


def test_an_answer_has_words_or_calls() -> None:
    call = {"id": "c" * 50, "type": "function", "function": {"name": "fs.read", "arguments": "{}"}}
    wire = [
        {"role": "assistant", "content": None, "reasoning_content": "only thoughts"},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": "", "tool_calls": [call, {"id": "odd"}]},
        {"role": "tool", "tool_call_id": "c" * 50, "content": None},
        {"role": "user", "content": [{"type": "text", "text": " "}]},
    ]
    refusal, calling, result = openai_chat.dump(openai_chat.load(wire))["messages"]
    assert refusal == {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    (called,) = calling["tool_calls"]
    assert called["function"]["name"] == "fs_read"
    assert len(called["id"]) == 40
    assert result == {"role": "tool", "tool_call_id": called["id"], "content": ""}


def test_what_no_request_can_carry_is_made_harmless() -> None:
    assert openai_chat.dump([Message.user("half \ud83d")])["messages"][0]["content"] == "half ?"
