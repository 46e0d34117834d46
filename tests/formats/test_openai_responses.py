from __future__ import annotations

from typing import Any

import pytest

from lossless.formats import openai_responses
from lossless.formats.fit import unlinked
from lossless.model import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from tests.formats.samples import Sdk

OUTPUT: list[dict[str, Any]] = [
    {"id": "rs_1", "summary": [{"text": "So.", "type": "summary_text"}], "type": "reasoning", "encrypted_content": "gA"}
    | {"status": None, "content": None},
    {
        "id": "msg_1",
        "content": [{"annotations": [], "text": "Hello", "type": "output_text", "logprobs": None, "parsed": None}],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    },
    {"arguments": "{}", "call_id": "c1", "name": "f", "type": "function_call", "id": "fc_1", "parsed_arguments": {}},
    {"id": "ci_1", "code": None, "container_id": "x", "outputs": None, "status": "completed"}
    | {"type": "code_interpreter_call"},
]
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "created_at": 1.0,
    "error": None,
    "instructions": "Be brief.",
    "model": "gpt-5",
    "object": "response",
    "output": OUTPUT,
    "status": "completed",
    "tools": [{"type": "function", "name": "f"}],
    "usage": {"total_tokens": 2},
}


@pytest.mark.parametrize("reply", [RESPONSE, Sdk(RESPONSE, metadata=None)], ids=["dict", "SDK object"])
def test_a_response_is_one_message_and_its_items_go_back(reply: Any) -> None:
    message = openai_responses.load(reply)
    assert (message.role, message.event_id, message.stop) == ("assistant", "resp_1", "completed")
    about = {"created_at": 1.0, "model": "gpt-5", "usage": {"total_tokens": 2}}
    assert message.extra == {"openai_responses": {"$reply": about}}
    reasoning, text, call, _ = message.parts
    assert isinstance(reasoning, Reasoning)
    assert (reasoning.text, reasoning.signature) == ("So.", "gA")
    assert isinstance(text, Text)
    assert isinstance(call, ToolCall)
    assert openai_responses.dump([message])["input"] == [
        {"type": "reasoning", "id": "rs_1", "summary": OUTPUT[0]["summary"], "encrypted_content": "gA"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        OUTPUT[3],
    ]


def test_the_items_of_a_response_may_stand_in_the_input() -> None:
    question, answer, output = openai_responses.load(
        [
            {"role": "user", "content": "Hi"},
            *map(Sdk, OUTPUT),
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
        ]
    )
    assert question == Message.user("Hi")
    assert answer.parts == openai_responses.load(RESPONSE).parts
    assert output == Message("tool", (ToolResult("c1", (Text("1"),)),))


def test_a_response_ends_the_message_before_it() -> None:
    said = openai_responses.load(
        [{"role": "assistant", "content": "one"}, RESPONSE, {"role": "assistant", "content": "two"}]
    )
    assert [message.event_id for message in said] == [None, "resp_1", None]


def test_a_response_may_answer_its_own_calls() -> None:
    items = [
        {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "s1", "output": [{"stdout": "a"}]},
        {"role": "assistant", "content": "One file."},
        "a stray text",
    ]
    message = openai_responses.load({"object": "response", "output": items})
    assert [type(part) for part in message.parts] == [Opaque, ToolResult, Text, Opaque]
    assert openai_responses.dump_items(message) == items
    assert openai_responses.dump([message]) == {"input": items[:3]}


def test_a_request_comes_back() -> None:
    request = {
        "instructions": "Be brief.",
        "input": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}],
    }
    messages = openai_responses.load_request(request)
    assert [message.role for message in messages] == ["system", "system", "user"]
    assert openai_responses.dump(messages) == request


def test_a_text_as_input_is_what_the_user_said() -> None:
    assert openai_responses.load_request({"input": "Hi"}) == [Message.user("Hi")]
    assert openai_responses.dump([Message.user("Hi")]) == {"input": [{"role": "user", "content": "Hi"}]}


def test_system_text_in_between_stays_in_its_place() -> None:
    said = [Message.system("a"), Message.system("b"), Message.user("Hi"), Message.system("c"), Message.system("")]
    assert openai_responses.dump(said) == {
        "instructions": "a\n\nb",
        "input": [{"role": "user", "content": "Hi"}, {"role": "system", "content": "c"}],
    }


def test_messages_of_other_formats_become_items() -> None:
    foreign = [
        Message("assistant", (Reasoning("hm", "sig"), Text("One."), Text("Two."), File("image/png", data="i"))),
        Message("assistant", (Text(""), ToolCall("c1", "f", "{}"), Opaque("patch", {"a": 1}))),
        Message("user", (ToolResult("c1", (Text("r"), File("image/png", data="i"))), ToolResult("c2"), Text("and?"))),
        Message("user", (File("application/pdf", "a.pdf", "JVBE"), File("audio/x-wav", data="U"), File())),
        Message("narrator", (Text("Meanwhile"), ToolCall("c", "f"))),
    ]
    assert openai_responses.dump(foreign)["input"] == [
        {"role": "assistant", "content": "One."},
        {"role": "assistant", "content": "Two."},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "r"},
                {"type": "input_image", "image_url": "data:image/png;base64,i"},
            ],
        },
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {"role": "user", "content": "and?"},
        {
            "role": "user",
            "content": [
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
            ],
        },
        {"role": "user", "content": "Meanwhile"},
    ]


REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL: dict[str, Any] = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "1"}


def test_reasoning_goes_only_with_the_item_it_led_to() -> None:
    def back(*items: dict[str, Any]) -> Any:
        return openai_responses.dump(openai_responses.load(list(items)))["input"]

    assert back(REASONING, CALL, RESULT) == [REASONING, CALL, RESULT]
    assert back(REASONING, {"role": "user", "content": "Hi"}) == [{"role": "user", "content": "Hi"}]
    assert back(REASONING, {"role": "assistant", "content": "Hi"}) == [{"role": "assistant", "content": "Hi"}]
    assert back({"type": "reasoning", "summary": []}, CALL, RESULT) == [
        {k: v for k, v in CALL.items() if k != "id"},
        RESULT,
    ]


def test_no_item_id_stands_twice() -> None:
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": "Hi"}
    messages = openai_responses.load([REASONING, said, {"role": "user", "content": "?"}, REASONING, said])
    assert openai_responses.dump(messages)["input"] == [
        REASONING,
        said,
        {"role": "user", "content": "?"},
        {"type": "message", "role": "assistant", "content": "Hi"},
    ]


def test_an_output_is_of_the_type_of_its_call() -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "ls"}
    messages = [openai_responses.load(call), Message.tool("1", call_id="c1")]
    assert openai_responses.dump(messages)["input"][1]["type"] == "custom_tool_call_output"


def test_items_without_their_reasoning_have_no_id() -> None:
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": "Hi"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    message = openai_responses.load({"object": "response", "output": [REASONING, search, said, CALL]})
    alone = Message("assistant", unlinked(message.parts[1:]))
    assert openai_responses.dump([alone])["input"] == [
        {"role": "assistant", "content": "Hi"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]
