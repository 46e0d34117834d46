"""From one format into another: the same conversation, in each one's own words."""

from __future__ import annotations

from typing import Any

from lossless.formats import anthropic, openai_chat, openai_responses, openclaw

CLAUDE: dict[str, Any] = {
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Which is warmer?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Ask twice.", "signature": "Eq"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "t2", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "20"}]},
            ],
        },
        {"role": "assistant", "content": "Rome."},
    ],
}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Which is warmer?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
                {"id": "t2", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "3"},
        {"role": "tool", "tool_call_id": "t2", "content": "20"},
        {"role": "assistant", "content": "Rome."},
    ]
}
RESPONSES: dict[str, Any] = {
    "instructions": "Be brief.",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Which is warmer?"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBO"},
            ],
        },
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "t1", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"type": "function_call", "call_id": "t2", "name": "weather", "arguments": '{"city":"Rome"}'},
        {"type": "function_call_output", "call_id": "t1", "output": "3"},
        {"type": "function_call_output", "call_id": "t2", "output": "20"},
        {"role": "assistant", "content": "Rome."},
    ],
}


def test_from_anthropic() -> None:
    messages = anthropic.load_request(CLAUDE)
    assert openai_chat.dump(messages) == CHAT
    assert openai_responses.dump(messages) == RESPONSES


def test_from_openai_chat() -> None:
    messages = openai_chat.load_request(CHAT)
    assert openai_responses.dump(messages) == RESPONSES
    written = anthropic.dump(messages)
    assert written["system"] == "Be brief."
    assert [message["role"] for message in written["messages"]] == ["user", "assistant", "user", "assistant"]
    assert written["messages"][1]["content"] == CLAUDE["messages"][1]["content"][1:]
    assert written["messages"][2]["content"][1] == {"type": "tool_result", "tool_use_id": "t2", "content": "20"}


def test_from_openai_responses() -> None:
    messages = openai_responses.load_request(RESPONSES)
    assert openai_chat.dump(messages) == CHAT
    assert anthropic.dump(messages)["messages"][1]["content"] == CLAUDE["messages"][1]["content"][1:]


def test_results_inside_an_answer_follow_it() -> None:
    output = [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
    ]
    messages = [openai_responses.load({"id": "resp_1", "object": "response", "output": output})]
    assert [message["role"] for message in openai_chat.dump(messages)["messages"]] == ["assistant", "tool"]
    assert [message["role"] for message in openclaw.dump(messages)["messages"]] == ["assistant", "toolResult"]


def test_what_pi_notes_stays_with_pi() -> None:
    wire = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "Eq"},
            {"type": "text", "text": "Hi", "textSignature": "msg_1"},
            {"type": "toolCall", "id": "c", "name": "n", "arguments": {}, "partialJson": "{"},
        ],
        "api": "anthropic-messages",
        "usage": {"input": 1},
        "stopReason": "toolUse",
        "timestamp": 1794765678227,
    }
    messages = [openclaw.load(wire)]
    assert anthropic.dump(messages)["messages"][1:] == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "c", "name": "n", "input": {}}],
        }
    ]
    call = {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}
    assert openai_chat.dump(messages)["messages"] == [{"role": "assistant", "content": "Hi", "tool_calls": [call]}]
    assert openai_responses.dump(messages)["input"] == [
        {"role": "assistant", "content": "Hi"},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
    ]


def test_reasoning_goes_back_only_where_it_came_from() -> None:
    said = {"type": "text", "text": "yes"}
    loaded = {
        anthropic: anthropic.load(
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "T", "signature": "s"}, said]}
        ),
        openai_chat: openai_chat.load({"role": "assistant", "content": "yes", "reasoning": "T"}),
        openai_responses: openai_responses.load(
            [
                {"type": "reasoning", "id": "rs", "summary": [{"text": "T"}]},
                {"type": "message", "id": "msg", "role": "assistant", "content": "yes"},
            ]
        )[0],
        openclaw: openclaw.load({"role": "assistant", "content": [{"type": "thinking", "thinking": "T"}, said]}),
    }
    for origin, message in loaded.items():
        for target in loaded:
            assert ("'T'" in str(target.dump([message]))) == (target is origin)
