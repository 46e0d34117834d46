"""The stand-in itself: the official SDKs must take it for the real thing, and it must be as strict."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from tests.conftest import KEY
from tests.provider import SUMMARY, Provider

USER: Any = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "42"}
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42"}


def claude(provider: Provider) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key=KEY, base_url=provider.url, max_retries=0)


def gpt(provider: Provider) -> openai.OpenAI:
    return openai.OpenAI(api_key=KEY, base_url=provider.url, max_retries=0)


def messages(provider: Provider, *said: Any) -> str:
    with claude(provider) as client:
        block = client.messages.create(model="m", max_tokens=10, messages=said).content[0]
        return block.text if block.type == "text" else block.type


def chat(provider: Provider, *said: Any) -> str:
    with gpt(provider) as client:
        return client.chat.completions.create(model="m", messages=said).choices[0].message.content or ""


def responses(provider: Provider, *said: Any) -> str:
    with gpt(provider) as client:
        return client.responses.create(model="m", input=list(said)).output_text


@pytest.mark.parametrize(
    ("api", "said"),
    [
        (messages, [USER]),
        (messages, [USER, USE, {"role": "user", "content": [RESULT]}]),
        (chat, [{"role": "system", "content": "s"}, USER]),
        (
            chat,
            [
                USER,
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "42"},
            ],
        ),
        (responses, [USER]),
        (responses, [USER, FUNCTION_CALL, OUTPUT]),
    ],
)
def test_a_right_request_is_answered(provider: Provider, api: Any, said: list[Any]) -> None:
    assert api(provider, *said) == SUMMARY


@pytest.mark.parametrize(
    ("api", "said"),
    [
        (messages, []),
        (messages, [{"role": "user", "content": " "}]),
        (messages, [{"role": "user", "content": []}]),
        (messages, [{"role": "assistant", "content": "hi"}, USER]),
        (messages, [USER, {"role": "assistant", "content": "prefilled"}]),
        (messages, [{"role": "tool", "content": "42"}, USER]),
        (messages, [USER, USE, USER]),
        (messages, [{"role": "user", "content": [RESULT]}]),
        (chat, []),
        (chat, [{"role": "user", "content": ""}]),
        (chat, [{"role": "robot", "content": "hi"}]),
        (chat, [USER, {"role": "assistant", "tool_calls": [CALL]}, USER]),
        (chat, [USER, {"role": "assistant", "tool_calls": [CALL]}]),
        (chat, [USER, {"role": "tool", "tool_call_id": "c1", "content": "42"}]),
        (responses, []),
        (responses, [{"role": "user", "content": ""}]),
        (responses, [USER, FUNCTION_CALL]),
        (responses, [USER, OUTPUT]),
    ],
)
def test_a_wrong_request_is_refused(provider: Provider, api: Any, said: list[Any]) -> None:
    with pytest.raises((anthropic.BadRequestError, openai.BadRequestError)):
        api(provider, *said)
    assert provider.calls == 1


def streamed(provider: Provider, api: str) -> str:
    if api == "messages":
        with claude(provider) as client, client.messages.stream(model="m", max_tokens=10, messages=[USER]) as events:
            return "".join(events.text_stream)
    with gpt(provider) as other:
        if api == "chat":
            chunks = other.chat.completions.create(model="m", messages=[USER], stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        told = other.responses.create(model="m", input="hello", stream=True)
        return "".join(event.delta for event in told if event.type == "response.output_text.delta")


@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
def test_every_api_can_be_streamed(provider: Provider, api: str) -> None:
    assert streamed(provider, api) == SUMMARY
    provider.script("reasoning and text")
    assert streamed(provider, api) == SUMMARY


@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
def test_a_stream_can_break_in_the_middle(provider: Provider, api: str) -> None:
    provider.script("cut in the middle")
    with pytest.raises(Exception, match=r"incomplete|Connection|peer") as raised:
        streamed(provider, api)
    assert type(raised.value).__module__.partition(".")[0] in ("httpx2", "httpcore2", "anthropic", "openai")


def test_a_script_is_played_in_order_and_its_end_repeated(provider: Provider) -> None:
    provider.script("empty", "another language")
    said = [chat(provider, USER) for _ in range(3)]
    assert said[0] == ""
    assert said[1] == said[2] != SUMMARY
    assert provider.calls == 3
    assert provider.requests[0].path == "/chat/completions"
