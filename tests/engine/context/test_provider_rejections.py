"""What a provider refuses is left out of the next request, so that a session goes on; the store still holds it."""

from __future__ import annotations

import json
from typing import Any

import anthropic as anthropic_sdk
import anyio
import openai as openai_sdk
import pytest

from lossless import (
    AsyncLossless,
    Conversation,
    File,
    Lossless,
    Message,
    Reasoning,
    Settings,
    Text,
    ToolCall,
    ToolResult,
)
from lossless.engine.context import provider_rejections
from lossless.errors import InvalidInput
from lossless.formats import anthropic, openai_chat, openai_responses
from lossless.model import Context, StoredMessage
from tests.provider import Provider

WINDOW = 20_000
BAD = "bm90IHNpZ25lZA=="
PICTURE = "iVBORw0KGgo" + "A" * 60


def thinking(signature: str, text: str = "hm") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def reply(number: int, *blocks: dict[str, Any]) -> Message:
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-x", "usage": {}}
    return anthropic.load({**head, "content": list(blocks), "stop_reason": "end_turn"})


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def bad_signature(body: dict[str, Any]) -> str:
    """As Anthropic says it of a thinking block that is not the model's own."""
    for at, message in enumerate(body["messages"]):
        for place, block in enumerate(message["content"]):
            if isinstance(block, dict) and block.get("signature") == BAD:
                return f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block"
    return ""


def large_picture(body: dict[str, Any]) -> str:
    for at, message in enumerate(body["messages"]):
        for place, block in enumerate(message["content"] if isinstance(message["content"], list) else ()):
            inner = block.get("content") if block["type"] == "tool_result" else None
            for deep, each in enumerate([block, *(inner if isinstance(inner, list) else [])]):
                if each["type"] == "image":
                    where = f"messages.{at}.content.{place}" + (f".tool_result.content.{deep - 1}" if deep else "")
                    return (
                        f"{where}.image.source.base64.data: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes"
                    )
    return ""


def ask_claude(provider: Provider, context: Context) -> None:
    client = anthropic_sdk.Anthropic(base_url=provider.url, max_retries=0)
    client.messages.create(model="claude-x", max_tokens=100, **anthropic.dump(context, system="Be brief."))


def test_a_session_goes_on_after_a_thinking_block_was_refused(
    chat: Conversation, provider: Provider, credentials: None
) -> None:
    provider.objects = bad_signature
    said = [Message.user("1"), reply(1, thinking("Z29vZA==", "right"), text("one"))]
    said += [Message.user("2"), reply(2, thinking(BAD, "wrong"), text("two")), Message.user("3")]
    chat.ingest(said)
    with pytest.raises(anthropic_sdk.BadRequestError) as refused:
        ask_claude(provider, chat.assemble(WINDOW))
    done = chat.report_rejection(refused.value)
    assert (done.kind, done.located) == ("thinking", True)
    assert done.ids == (f"msg#{chat.messages()[3].id}",)
    context = chat.assemble(WINDOW)
    ask_claude(provider, context)
    assert [part.text for message in context.messages for part in message.parts if isinstance(part, Reasoning)] == [
        "right"
    ]
    assert [each.reason for each in context.left_out] == ["rejected"]
    assert [each.message for each in chat.messages()] == said
    # Another process leaves it out as well.
    with Lossless.open(chat._lcm.location, settings=chat._lcm.settings) as other:
        ask_claude(provider, other.conversation(chat.key).assemble(WINDOW))


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_picture_that_is_too_large_is_left_out_wherever_it_is(
    chat: Conversation, provider: Provider, credentials: None, is_stored: bool
) -> None:
    provider.objects = large_picture
    shot = File("image/png", None, PICTURE)
    call = Message("assistant", (ToolCall("c1", "screenshot"),))
    result = Message("tool", (ToolResult("c1", (Text("here"), shot)),))
    turn = [Message("user", (Text("What is this?"), shot), event_id="u"), call, result]
    if is_stored:
        chat.ingest(turn)

    def assembled() -> Context:
        return chat.assemble(WINDOW, live=None if is_stored else turn)

    with pytest.raises(anthropic_sdk.BadRequestError) as refused:
        ask_claude(provider, assembled())
    done = chat.report_rejection(refused.value)
    assert (done.kind, done.located, len(done.ids)) == ("picture", True, 2)
    ask_claude(provider, assembled())
    shown = [part for message in assembled().messages for part in message.parts]
    assert [part.text for part in shown if isinstance(part, Text)] == [
        "What is this?",
        "[lossless] Left out: the provider refused this picture.",
    ]
    if not is_stored:
        chat.ingest(turn)
        ask_claude(provider, chat.assemble(WINDOW))
    assert chat.messages()[0].message == turn[0]


def test_reasoning_without_its_item_is_found_by_its_id(
    chat: Conversation, provider: Provider, credentials: None
) -> None:
    def objects(body: dict[str, Any]) -> str:
        if any(item.get("id") == "rs_7" for item in body["input"]):
            return "Item 'rs_7' of type 'reasoning' was provided without its required following item."
        return ""

    provider.objects = objects
    items: list[Any] = [
        {"type": "reasoning", "id": "rs_7", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "id": "fc_7", "call_id": "call_7", "name": "look", "arguments": "{}"},
    ]
    output: list[Any] = [{"type": "function_call_output", "call_id": "call_7", "output": "fine"}]
    chat.ingest([Message.user("go"), *openai_responses.load(items), *openai_responses.load(output)])
    client = openai_sdk.OpenAI(base_url=provider.url, max_retries=0)

    def ask() -> None:
        client.responses.create(model="gpt-x", **openai_responses.dump(chat.assemble(WINDOW)))

    with pytest.raises(openai_sdk.BadRequestError) as refused:
        ask()
    assert chat.report_rejection(refused.value).kind == "thinking"
    ask()
    sent = provider.requests[-1].body["input"]
    assert [item.get("type", "message") for item in sent] == ["message", "function_call", "function_call_output"]
    assert "id" not in sent[1]


def test_a_call_that_is_named_leaves_with_its_result(chat: Conversation, provider: Provider, credentials: None) -> None:
    def objects(body: dict[str, Any]) -> str:
        for at, message in enumerate(body["messages"]):
            for call in message.get("tool_calls", ()):
                if call["id"] == "call_bad":
                    return f"Invalid 'messages[{at}].tool_calls[0].function.arguments': not a valid JSON object."
        return ""

    provider.objects = objects
    calls = Message("assistant", (ToolCall("call_bad", "look", "{"), ToolCall("call_good", "look")))
    results = [Message.tool("fine", call_id=each) for each in ("call_bad", "call_good")]
    chat.ingest([Message.user("go"), calls, *results, Message.user("and?")])
    client = openai_sdk.OpenAI(base_url=provider.url, max_retries=0)

    def ask() -> None:
        client.chat.completions.create(model="gpt-x", **openai_chat.dump(chat.assemble(WINDOW)))

    with pytest.raises(openai_sdk.BadRequestError) as refused:
        ask()
    assert chat.report_rejection(refused.value).kind == "call"
    ask()
    assert "call_bad" not in json.dumps(provider.requests[-1].body)
    assert "call_good" in json.dumps(provider.requests[-1].body)


@pytest.mark.parametrize(
    "error",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "messages.1.content.0: Invalid `signature`"},
        },
        json.dumps({"error": {"message": "messages.1.content.0: Invalid `signature` in `thinking` block"}}),
    ],
)
def test_a_text_and_a_body_are_read_like_an_exception(chat: Conversation, error: object) -> None:
    chat.ingest(
        [
            Message.user("1"),
            reply(1, thinking("one"), text("a")),
            Message.user("2"),
            reply(2, thinking("two"), text("b")),
        ]
    )
    chat.assemble(WINDOW)
    done = chat.report_rejection(error)
    assert (done.kind, done.located, done.ids) == ("thinking", True, (f"msg#{chat.messages()[1].id}",))


def test_what_is_not_located_takes_all_of_its_kind_and_says_so(chat: Conversation) -> None:
    chat.ingest(
        [
            Message.user("1"),
            reply(1, thinking("one"), text("a")),
            Message.user("2"),
            reply(2, thinking("two"), text("b")),
        ]
    )
    chat.ingest([Message("user", (Text("see"), File("image/png", None, PICTURE)))])
    done = chat.report_rejection("The thinking blocks of this request cannot be verified.")
    assert (done.kind, done.located, len(done.ids)) == ("thinking", False, 2)
    assert "every thinking of 2 messages is left out" in done.text
    assert len(chat.report_rejection("Could not process image").ids) == 1
    shown = [part for message in chat.assemble(WINDOW).messages for part in message.parts]
    assert not any(isinstance(part, (Reasoning, File)) for part in shown)
    # What comes later is sent again.
    chat.ingest([Message.assistant("ok"), Message("user", (File("image/png", None, "Qg=="),))])
    assert any(isinstance(part, File) for part in chat.assemble(WINDOW).messages[-1].parts)


def test_an_error_about_nothing_that_can_be_left_out_changes_nothing(chat: Conversation) -> None:
    chat.ingest([Message.user("1"), Message.assistant("2"), Message.user("3")])
    before = chat.assemble(WINDOW)
    for error in (
        "prompt is too long: 210000 tokens > 200000 maximum",
        {"error": None},
        ValueError(),
        b"\xff",
        None,
        7,
    ):
        done = chat.report_rejection(error)
        assert (done.ids, chat.assemble(WINDOW)) == ((), before)
    assert chat.report_rejection("messages.0.content: refused").kind == "message"
    assert chat.assemble(WINDOW).messages[0].text == "[lossless] Left out: the provider refused this message."
    assert isinstance(chat.context().items[0], StoredMessage)


def test_a_conversation_that_is_closed_to_writing_reports_nothing(database: str) -> None:
    settings = Settings(stateless_session_patterns=("once:*",), skip_stateless_sessions=True)
    with Lossless.open(database, settings=settings) as lcm, pytest.raises(InvalidInput):
        lcm.conversation("once:1").report_rejection("messages.0: no")


def test_it_can_be_awaited(database: str) -> None:
    async def main() -> str | None:
        async with await AsyncLossless.open(database) as lcm:
            chat = lcm.conversation("k")
            await chat.ingest([Message.user("1"), reply(1, thinking("one"), text("a")), Message.user("2")])
            return (await chat.report_rejection("messages.1.content.0: Invalid `signature`")).kind

    assert anyio.run(main) == "thinking"


def test_what_another_program_wrote_there_is_nothing() -> None:
    states: list[Any] = [None, [], {"parts": 3}, {"calls": [1]}, {"parts": {"x": ["rubbish"]}}]
    for state in states:
        assert provider_rejections.decode_rejections(state) == provider_rejections.Rejections()
