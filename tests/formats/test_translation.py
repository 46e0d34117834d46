"""From one format into another: the same conversation, in each one's own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lossless.engine.ingest import large_content
from lossless.errors import InvalidInput
from lossless.formats import anthropic, openai_chat, openai_responses, openclaw
from lossless.model import Context, File, Message, Text
from lossless.tokens import message_tokens
from tests.formats.samples import FORMATS

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


PROMPT = "You are the engineer on call."


@pytest.mark.parametrize("system", [PROMPT, [{"type": "text", "text": PROMPT}]], ids=["text", "blocks"])
def test_a_hosts_system_prompt_is_joined_with_what_is_in_the_context(system: Any) -> None:
    said = [Message.system("Guidance."), Message.system(PROMPT), Message.user("hi"), Message.assistant("hello")]
    assert anthropic.dump(said, system=system)["system"] == [
        {"type": "text", "text": PROMPT},
        {"type": "text", "text": "Guidance."},
    ]
    whole = f"{PROMPT}\n\nGuidance."
    chat = openai_chat.dump(said, system=system)["messages"]
    assert [(each["role"], each["content"]) for each in chat] == [
        ("system", whole),
        ("user", "hi"),
        ("assistant", "hello"),
    ]
    assert openai_responses.dump(said, system=system)["instructions"] == whole
    written = openclaw.dump(said, system=system)
    assert written["systemPrompt"] == whole
    assert [each["role"] for each in written["messages"]] == ["user", "assistant"]
    for format in (anthropic, openai_chat, openai_responses, openclaw):
        assert format.dump(said[2:], system=None) == format.dump(said[2:])
        with pytest.raises(InvalidInput):
            format.dump(said, system=[{"text": "no type"}])


def test_the_cache_markers_of_a_hosts_own_prompt_are_kept() -> None:
    block = {"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}}
    assert anthropic.dump([Message.user("hi")], system=[block])["system"] == [block]


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def _reply(model: str, number: int) -> dict[str, Any]:
    words = {"type": "text", "text": f"answer {number}"}
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": [THOUGHT, words], "stop_reason": "end_turn", "usage": {}}


def _thinkers(messages: list[Any]) -> list[int]:
    """Which assistant messages have thinking."""
    answers = [each for each in messages if each["role"] == "assistant"]
    return [at for at, each in enumerate(answers) if THOUGHT in list(each["content"])]


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        (None, [1, 3]),
        ("claude-opus-4-1", [1, 3]),
        ("anthropic/claude-opus-4-1-latest", [1, 3]),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", [1, 3]),
        ("claude-sonnet-4-5", [0, 3]),
        ("claude-haiku-4-5", [3]),
    ],
)
def test_only_thinking_of_the_same_model_is_sent_back(model: str | None, kept: list[int]) -> None:
    unnamed = anthropic.load({"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "answer 3"}]})
    said = [
        Message.user("1"),
        anthropic.load(_reply("claude-sonnet-4-5-20250929", 1)),
        Message.user("2"),
        anthropic.load(_reply("claude-opus-4-1-20250805", 2)),
        Message.user("3"),
        Message.assistant("no thoughts"),
        Message.user("4"),
        unnamed,
        Message.user("5"),
    ]
    assert _thinkers(anthropic.dump(said, model=model)["messages"]) == kept
    context = Context((), 0, tuple(said), model=model)
    assert anthropic.dump(context) == anthropic.dump(said, model=model)


def test_items_of_another_model_go_without_its_reasoning_and_without_their_ids() -> None:
    def response(model: str, number: int) -> dict[str, Any]:
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x"}
        words = {"type": "output_text", "text": "words", "annotations": []}
        item = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [words],
        }
        return {
            "id": f"resp_{number}",
            "object": "response",
            "model": model,
            "status": "completed",
            "output": [thought, item],
        }

    said = [Message.user("1"), openai_responses.load(response("gpt-5-2025-08-07", 1))]
    said += [Message.user("2"), openai_responses.load(response("gpt-5-mini-2025-08-07", 2)), Message.user("3")]
    sent = openai_responses.dump(said, model="gpt-5-mini")["input"]
    assert [each.get("id") for each in sent] == [None, None, None, "rs_2", "msg_2", None]
    assert sent[1]["content"][0]["text"] == "words"


@pytest.mark.parametrize("name", ["anthropic", "openai_responses", "openclaw"])
def test_a_speaker_is_named_in_the_text_where_a_format_has_no_other_place(name: str) -> None:
    ana, bo = Message.user("the kiln is hot", name="Ana María"), Message.user("bo: no", name="bo")
    picture = Message("user", (File("image/png", None, "QUJD"),), name="Cy")
    written = json.dumps(FORMATS[name].dump([ana, bo, picture]), ensure_ascii=False)
    assert "Ana María: the kiln is hot" in written
    assert '"bo: no"' in written
    assert '"Cy:"' in written
    assert FORMATS[name].dump([Message.user("hi")]) == FORMATS[name].dump([Message.user("hi", name="")])


def test_a_speaker_s_name_is_spelled_as_the_chat_api_takes_it() -> None:
    names = ["ana", "Ana María <ops>", "x" * 80, "\n", None]
    sent = openai_chat.dump([Message.user("hi", name=name) for name in names])["messages"]
    assert [record.get("name") for record in sent] == ["ana", "Ana_María_ops_", "x" * 64, "_", None]
    assert openai_chat.dump(openai_chat.load([{"role": "user", "name": "a b", "content": "hi"}]))["messages"] == [
        {"role": "user", "name": "a_b", "content": "hi"}
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_picture_is_not_sent_and_costs_nothing(name: str) -> None:
    empty = (File("image/png", None, ""), File("application/pdf", None, ""), File("audio/wav", None, ""))
    message = Message("user", (Text("see"), *empty))
    written = json.dumps(FORMATS[name].dump([message]))
    assert "see" in written
    assert not any(word in written for word in ("image", "audio", "pdf", "base64"))
    assert message_tokens(message) < 30
    lighter, taken = large_content.extract(message, 1_000, {})
    assert (lighter, taken) == (message, [])
