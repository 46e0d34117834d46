"""What the providers refuse, as far as a request's messages go: one function a wire shape, one line a violation.

Written from the published rules (Anthropic's Messages reference, OpenAI's chat and responses references, the types of
pi) and from the errors their servers answer. An empty list means that the request is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
LINKED = re.compile(r".*_of_(rs_\w+)")
"""An item id that tells which reasoning led to it: OpenAI's servers know, a test has to be told."""
FOREIGN = ("gpt-", "pi-")
"""How a signature begins that is not Claude's: Anthropic's servers know."""


def violations(name: str, request: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with the messages of a request in that format."""
    found = list(VALIDATORS[name](request))
    try:
        json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as problem:
        found.append(f"cannot be sent: {problem}")
    return found


def anthropic(request: Mapping[str, Any]) -> Iterator[str]:
    system = request.get("system", "none")
    if system in ("", []) or (isinstance(system, str) and not system.strip()):
        yield "system: empty"
    if isinstance(system, list) and any(block["type"] != "text" or not _worded(block["text"]) for block in system):
        yield "system: only texts that are not blank"
    messages = request["messages"]
    roles = [message["role"] for message in messages]
    if roles and roles[0] != "user":
        yield "messages.0: the first message must use the user role"
    spoken = [role for role in roles if role != "system"]
    for one, other in pairwise(spoken):
        if one == other:
            yield f"messages: two {one} messages in a row"
    for at, role in enumerate(roles):
        if role not in ("user", "assistant", "system"):
            yield f"messages.{at}: unexpected role {role}"
        after = roles[at + 1] if at + 1 < len(roles) else "assistant"
        if role == "system" and (at == 0 or (roles[at - 1], after) != ("user", "assistant")):
            yield f"messages.{at}: a system message must follow the user's"
    asked: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        blocks = _blocks(message["content"])
        if message["role"] == "system":
            continue
        if not blocks:
            yield f"messages.{at}: content must not be empty"
            continue
        for place, block in enumerate(blocks):
            yield from (f"messages.{at}.content.{place}: {wrong}" for wrong in _anthropic_block(block, message["role"]))
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(asked):
            yield f"messages.{at}: results {results} for the calls {asked}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"messages.{at}: tool_result blocks must come first"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(asked)) < len(asked) or seen & set(asked):
            yield f"messages.{at}: tool_use ids must be unique"
        seen |= set(asked)
        if message["role"] == "assistant" and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            yield f"messages.{at}: the final block in an assistant message cannot be thinking"
    if asked:
        yield f"tool_use ids without tool_result: {asked}"
    if spoken and spoken[-1] == "assistant":
        last = _blocks(messages[-1]["content"])[-1:]
        if last and last[0]["type"] == "text" and last[0]["text"] != last[0]["text"].rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"


def _anthropic_block(block: Mapping[str, Any], role: str) -> Iterator[str]:
    match block["type"]:
        case "text":
            if not _worded(block.get("text")):
                yield "text content blocks must be non-empty"
        case "thinking":
            if role != "assistant" or not isinstance(block.get("signature"), str):
                yield "thinking: an assistant's, with its signature"
            elif block["signature"].startswith(FOREIGN):
                yield "thinking: invalid signature"
        case "redacted_thinking":
            if role != "assistant" or not isinstance(block.get("data"), str):
                yield "redacted_thinking: an assistant's, with its data"
        case "tool_use":
            if role != "assistant" or not isinstance(block["input"], dict):
                yield "tool_use: an assistant's, its input an object"
            if not PLAIN.fullmatch(block["id"]):
                yield f"tool_use.id: {block['id']!r}"
            if not PLAIN.fullmatch(block["name"]) or len(block["name"]) > 128:
                yield f"tool_use.name: {block['name']!r}"
        case "tool_result":
            if role != "user" or not isinstance(block.get("content", ""), (str, list)):
                yield "tool_result: a user's, its content a text or a list"
            if not isinstance(content := block.get("content", ""), str):
                for inner in content:
                    yield from _anthropic_block(inner, "user")
        case "image" | "document" as kind:
            source = block["source"]
            types = PICTURES if kind == "image" else ("application/pdf",)
            if role != "user":
                yield f"{kind}: in an answer"
            if source["type"] == "base64" and (source["media_type"] not in types or not source["data"]):
                yield f"{kind}: media_type {source['media_type']}"
            if source["type"] == "url" and not source["url"].startswith("http"):
                yield f"{kind}: url {source['url']}"
        case "server_tool_use" | "web_search_tool_result":
            if role != "assistant":
                yield f"{block['type']}: not an assistant's"
        case kind:
            yield f"unknown block {kind}"


def openai_chat(request: Mapping[str, Any]) -> Iterator[str]:
    asked: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(request["messages"]):
        role, content = message["role"], message.get("content")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            yield f"messages[{at}]: invalid role {role}"
        yield from (f"messages[{at}]: {wrong}" for wrong in _chat_content(content, role))
        if "name" in message and not re.fullmatch(r"[^\s<|\\/>]{1,64}", message["name"]):
            yield f"messages[{at}].name: {message['name']!r}"
        if role == "tool":
            if message["tool_call_id"] not in asked[:1]:
                yield f"messages[{at}]: a result of {message['tool_call_id']}, where {asked} was asked"
            asked = [call_id for call_id in asked if call_id != message["tool_call_id"]]
            continue
        if asked:
            yield f"messages[{at}]: tool_calls without an answer: {asked}"
        calls = message.get("tool_calls")
        if calls is not None and (not calls or role != "assistant"):
            yield f"messages[{at}]: tool_calls is an assistant's, and not empty"
        if not content and not calls:
            yield f"messages[{at}]: content must not be empty"
        asked = [call["id"] for call in calls or ()]
        for call in calls or ():
            yield from (f"messages[{at}]: {wrong}" for wrong in _chat_call(call))
        if len(set(asked)) < len(asked) or seen & set(asked):
            yield f"messages[{at}]: an id used twice"
        seen |= set(asked)
    if asked:
        yield f"tool_calls without an answer: {asked}"


def _chat_call(call: Mapping[str, Any]) -> Iterator[str]:
    if not 0 < len(call["id"]) <= 40:
        yield f"tool_calls.id: string too long or empty: {call['id']!r}"
    inner = call[call["type"]]
    if not PLAIN.fullmatch(inner["name"]) or len(inner["name"]) > 64:
        yield f"tool_calls.function.name: {inner['name']!r}"
    if not isinstance(inner["input" if call["type"] == "custom" else "arguments"], str):
        yield "tool_calls.function.arguments: not a text"


def _chat_content(content: Any, role: str) -> Iterator[str]:
    if content is None and role != "assistant":
        yield "content must not be null"
    if isinstance(content, str) and content and not content.strip() and role != "tool":
        yield "content must not be blank"
    if not isinstance(content, list):
        return
    if not content:
        yield "content must not be an empty list"
    kinds = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}.get(
        role, ("text",)
    )
    for part in content:
        match part["type"]:
            case kind if kind not in kinds:
                yield f"content: {kind} is nothing for {role}"
            case "text" | "refusal" as kind:
                if not _worded(part[kind]):
                    yield "content: blank text"
            case "image_url":
                if not part["image_url"]["url"].startswith(("http", *(f"data:{mime};base64," for mime in PICTURES))):
                    yield f"content: picture {part['image_url']['url'][:40]}"
            case "input_audio":
                if part["input_audio"]["format"] not in ("wav", "mp3"):
                    yield f"content: sound {part['input_audio']['format']}"
            case _:
                if not part["file"].get("file_data") and not part["file"].get("file_id"):
                    yield "content: a file without data"


def openai_responses(request: Mapping[str, Any]) -> Iterator[str]:
    if not request.get("instructions", "none").strip():
        yield "instructions: empty"
    items = request["input"]
    called: dict[str, str] = {}
    open_: dict[str, str] = {}
    ids: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if (name := item.get("id")) is not None:
            if name in ids:
                yield f"Duplicate item found with id {name}"
            if (link := LINKED.fullmatch(name)) and link[1] not in ids:
                yield f"Item {name} of type {kind} was provided without its required reasoning item {link[1]}"
            ids.add(name)
        if kind == "message":
            yield from (f"input[{at}]: {wrong}" for wrong in _responses_message(item))
        elif kind == "reasoning":
            following = items[at + 1] if at + 1 < len(items) else {}
            if not isinstance(item.get("summary"), list):
                yield f"input[{at}]: reasoning without summary"
            if not _produced(following) or (item.get("id") and not following.get("id")):
                yield f"input[{at}]: reasoning was provided without its required following item"
        elif kind.endswith("_call"):
            if "call_id" not in item:
                continue
            if item["call_id"] in called:
                yield f"input[{at}]: call_id {item['call_id']} used twice"
            if not 0 < len(item["call_id"]) <= 64:
                yield f"input[{at}]: call_id too long or empty: {item['call_id']!r}"
            if "name" in item and not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"]):
                yield f"input[{at}].name: {item['name']!r}"
            called[item["call_id"]] = open_[item["call_id"]] = kind
        elif kind.endswith("_call_output"):
            if open_.pop(item["call_id"], None) != kind.removesuffix("_output"):
                yield f"input[{at}]: no tool call found for output {item['call_id']} of type {kind}"
            if kind == "function_call_output" and not isinstance(item.get("output"), str):
                yield from _responses_content(item["output"], "user")
        else:
            yield f"input[{at}]: unknown type {kind}"
    if open_:
        yield f"no tool output found for {open_}"


def _produced(item: Mapping[str, Any]) -> bool:
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")


def _responses_message(item: Mapping[str, Any]) -> Iterator[str]:
    if item["role"] not in ("user", "assistant", "system", "developer"):
        yield f"invalid role {item['role']}"
    if isinstance(item.get("content"), str):
        if not _worded(item["content"]):
            yield "content must not be empty"
    else:
        yield from _responses_content(item.get("content"), item["role"])


def _responses_content(content: Any, role: str) -> Iterator[str]:
    if not isinstance(content, list) or not content:
        yield "content must be a text or a list that is not empty"
        return
    kinds = {"user": ("input_text", "input_image", "input_file"), "assistant": ("output_text", "refusal")}
    for part in content:
        kind = part["type"]
        if kind not in kinds.get(role, ("input_text",)):
            yield f"content: {kind} is nothing for {role}"
        elif kind in ("input_text", "output_text", "refusal") and not _worded(part.get("text", part.get("refusal"))):
            yield "content: blank text"
        elif kind == "input_image" and not part.get("file_id"):
            if not part["image_url"].startswith(("http", *(f"data:{mime};base64," for mime in PICTURES))):
                yield f"content: picture {part['image_url'][:40]}"
        elif kind == "input_file" and not any(part.get(key) for key in ("file_data", "file_url", "file_id")):
            yield "content: a file without data"


def openclaw(request: Mapping[str, Any]) -> Iterator[str]:
    asked: list[str] = []
    seen: set[str] = set()
    roles = ("user", "assistant", "toolResult", "custom", "bashExecution", "branchSummary", "compactionSummary")
    for at, message in enumerate(request["messages"]):
        role = message["role"]
        if role not in roles:
            yield f"messages[{at}]: unknown role {role}"
        if role in ("user", "assistant", "toolResult"):
            yield from (f"messages[{at}]: {wrong}" for wrong in _openclaw_content(message.get("content"), role))
        if message.get("stopReason", "stop") not in ("stop", "length", "toolUse", "error", "aborted"):
            yield f"messages[{at}]: stopReason {message['stopReason']}"
        if role == "toolResult":
            if message["toolCallId"] not in asked[:1] or not isinstance(message["isError"], bool):
                yield f"messages[{at}]: a result of {message['toolCallId']}, where {asked} was asked"
            asked = [call_id for call_id in asked if call_id != message["toolCallId"]]
            continue
        if asked:
            yield f"messages[{at}]: calls without a result: {asked}"
        blocks = message.get("content") if role == "assistant" else ()
        asked = [block["id"] for block in blocks or () if block["type"] == "toolCall"]
        if len(set(asked)) < len(asked) or seen & set(asked):
            yield f"messages[{at}]: an id used twice"
        seen |= set(asked)
    if asked:
        yield f"calls without a result: {asked}"


def _openclaw_content(content: Any, role: str) -> Iterator[str]:
    if isinstance(content, str) and role == "user":
        return
    if not isinstance(content, list):
        yield "content must be a list"
        return
    kinds = ("text", "thinking", "toolCall") if role == "assistant" else ("text", "image")
    for block in content:
        if block["type"] not in kinds:
            yield f"content: {block['type']} is nothing for {role}"
        if block["type"] == "toolCall" and not (block["id"] and block["name"] and isinstance(block["arguments"], dict)):
            yield f"content: call {block}"
        if block["type"] == "image" and not (isinstance(block["mimeType"], str) and block["data"]):
            yield "content: a picture without type or data"


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _worded(text: Any) -> bool:
    return isinstance(text, str) and text.strip() != ""


VALIDATORS: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "openclaw": openclaw,
}
