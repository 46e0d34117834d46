"""The stand-in asks for tools as the providers do: the official SDKs read the same, whole or streamed."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from tests.conftest import KEY
from tests.provider import Play, Provider, Use

USES = (Use("call_1", "Bash", {"command": "ls"}), Use("call_2", "Read", {"file_path": "a.txt"}))
ASKED = [(use.id, use.name, use.arguments) for use in USES]
USER: Any = {"role": "user", "content": "hello"}


def messages(url: str, streamed: bool) -> tuple[str, list[Any]]:
    with anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0) as client:
        if streamed:
            with client.messages.stream(model="m", max_tokens=10, messages=[USER]) as stream:
                answer: Any = stream.get_final_message()
        else:
            answer = client.messages.create(model="m", max_tokens=10, messages=[USER])
    thought, said, *uses = answer.content
    assert (thought.thinking, thought.signature, answer.stop_reason) == ("Let me see.", "c2ln", "tool_use")
    return said.text, [(use.id, use.name, use.input) for use in uses]


def chat(url: str, streamed: bool) -> tuple[str, list[Any]]:
    with openai.OpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
        if streamed:
            with client.chat.completions.stream(model="m", messages=[USER]) as stream:
                answer: Any = stream.get_final_completion()
        else:
            answer = client.chat.completions.create(model="m", messages=[USER])
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls
    return choice.message.content, [
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in calls
    ]


def responses(url: str, streamed: bool) -> tuple[str, list[Any]]:
    with openai.OpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
        if streamed:
            with client.responses.stream(model="m", input="hello") as stream:
                answer: Any = stream.get_final_response()
        else:
            answer = client.responses.create(model="m", input="hello")
    thought, _, *calls = answer.output
    assert thought.summary[0].text == "Let me see."
    return answer.output_text, [(call.call_id, call.name, json.loads(call.arguments)) for call in calls]


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("api", [messages, chat, responses])
def test_tools_are_asked_for_beside_the_words(provider: Provider, api: Any, streamed: bool) -> None:
    provider.script(Play("I look.", "Let me see.", USES))
    assert api(provider.url, streamed) == ("I look.", ASKED)
