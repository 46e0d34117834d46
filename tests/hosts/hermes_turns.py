"""Hermes as the adapter sees it: an agent with its engine, its list and its requests, without the program."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lossless import Conversation, Lossless
from lossless.hosts.hermes import Engine, Hooks, Memory
from lossless.hosts.hermes.wires import size
from lossless.model import SummaryRequest

WINDOW = 64_000
LONG = "The ferry leaves at noon, and the ferry is late. " * 150


class Hermes:
    """What Hermes does with a plugin: one agent with its engine, its list and its requests."""

    def __init__(
        self, database: Path, *, api_mode: str = "chat_completions", session: str = "s1", **settings: Any
    ) -> None:
        self.database, self.api_mode = database, api_mode
        self.asked: list[SummaryRequest] = []
        about = {"database_path": str(database), "fresh_tail_count": 6, **settings}
        self.memory = Memory(settings=lambda: about, summarize=self._summarize, version="0.19.0")
        self.hooks = Hooks(self.memory)
        self.engine = copy.deepcopy(Engine(self.memory))
        self.session = session
        self.list: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.engine.update_model("stand-in", WINDOW, api_mode=api_mode)
        self.engine.on_session_start(session, platform="cli")

    def _summarize(self, request: SummaryRequest) -> str:
        self.asked.append(request)
        return f"They spoke of the ferry, part {len(self.asked)}."

    def say(self, text: str, reply: str = "", *, calls: int = 0, result: str = "found") -> None:
        """Take a turn: a prompt, rounds of tool calls, a reply."""
        self.list.append({"role": "user", "content": text})
        self.hooks.pre_llm_call(session_id=self.session, conversation_history=list(self.list))
        for number in range(calls):
            self.request()
            name = f"call_{len(self.list)}_{number}"
            function = {"name": "look", "arguments": '{"at": 1}'}
            call = {"id": name, "type": "function", "function": function}
            self.list.append({"role": "assistant", "content": "", "tool_calls": [call]})
            self.list.append({"role": "tool", "tool_call_id": name, "tool_name": "look", "content": result})
        self.request()
        self.list.append({"role": "assistant", "content": reply or f"Reply to {text}", "finish_reason": "stop"})
        self.engine.update_from_response({"prompt_tokens": size(self.sent[-1]), "completion_tokens": 5})
        self.hooks.post_llm_call(session_id=self.session, conversation_history=list(self.list))

    def request(self) -> dict[str, Any]:
        request = {"tools": [{"name": "look"}], **_REQUESTS[self.api_mode](copy.deepcopy(self.list))}
        done = self.hooks.llm_request(
            request=request, session_id=self.session, api_mode=self.api_mode, model="stand-in", turn_id="t"
        )
        self.sent.append(done["request"] if done else request)
        self.hooks.pre_api_request(session_id=self.session, conversation_history=list(self.list))
        return self.sent[-1]

    @property
    def last(self) -> str:
        return json.dumps(self.sent[-1])

    @property
    def chat(self) -> Conversation:
        return Lossless.open(self.database).conversation(f"hermes:{self.session}")

    def rows(self) -> list[tuple[str, str]]:
        return [(stored.role, stored.text) for stored in self.chat.messages()]

    def held(self) -> list[tuple[str, str]]:
        return [(each["role"], each["content"]) for each in self.list]


def as_chat(messages: list[dict[str, Any]]) -> dict[str, Any]:
    known = ("role", "content", "tool_calls", "tool_call_id")
    sent = [{key: each[key] for key in known if key in each} for each in messages]
    sent[-1]["cache_control"] = {"type": "ephemeral"}
    return {"messages": [{"role": "system", "content": "You are Hermes."}, *sent]}


def _as_anthropic(messages: list[dict[str, Any]]) -> dict[str, Any]:
    sent: list[dict[str, Any]] = []
    for each in messages:
        if each["role"] == "tool":
            content = [{"type": "tool_result", "tool_use_id": each["tool_call_id"], "content": each["content"]}]
        else:
            content = [{"type": "text", "text": each["content"]}] if each["content"] else []
            content += [
                {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {"at": 1}}
                for call in each.get("tool_calls", ())
            ]
        role = "user" if each["role"] == "tool" else each["role"]
        if sent and sent[-1]["role"] == role:
            sent[-1]["content"] += content
        else:
            sent.append({"role": role, "content": content})
    return {"system": "You are Hermes.", "max_tokens": 2_000, "messages": sent}


def _as_responses(messages: list[dict[str, Any]]) -> dict[str, Any]:
    sent: list[dict[str, Any]] = []
    for each in messages:
        if each["role"] == "tool":
            sent.append({"type": "function_call_output", "call_id": each["tool_call_id"], "output": each["content"]})
            continue
        if each["content"]:
            sent.append({"role": each["role"], "content": each["content"]})
        calls = each.get("tool_calls", ())
        sent += [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]
    return {"instructions": "You are Hermes.", "input": sent}


_REQUESTS: dict[str, Callable[[list[dict[str, Any]]], dict[str, Any]]] = {
    "chat_completions": as_chat,
    "anthropic_messages": _as_anthropic,
    "codex_responses": _as_responses,
    "bedrock_converse": lambda messages: {"messages": messages},
}
API_FORMATS = {
    "chat_completions": "openai_chat",
    "anthropic_messages": "anthropic",
    "codex_responses": "openai_responses",
}
