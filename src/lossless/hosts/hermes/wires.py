"""The requests Hermes sends, by API: their items, and what identifies a message in them. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from lossless.formats import anthropic, openai_chat, openai_responses
from lossless.hosts.hermes.generated import IsOurs, shortened
from lossless.model import INSTRUCTIONS, File, Message, Text, ToolCall, ToolResult
from lossless.tokens import estimate

Item = dict[str, Any]

_MOST_BEFORE = 64
"""Items that precede the conversation in a request, at most: instructions and examples."""


class Trace(Struct, frozen=True):
    """The identity of a message, in whatever form it is sent."""

    role: str
    text: str = ""
    calls: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    files: bool = False

    def matches(self, item: Trace) -> bool:
        """Return whether an item of a request contains this message."""
        if self.results:
            return bool(self.results & item.results)
        if self.calls:
            return bool(self.calls & item.calls)
        if self.role != item.role or item.calls:
            return False
        if self.text == item.text:
            return bool(self.text) or (self.files and item.files)
        # Hermes adds recalled notes to a prompt, and joins prompts that follow each other.
        return self.role == "user" and bool(self.text) and f"\n{self.text}\n" in f"\n{item.text}\n"


class Wire(Struct, frozen=True):
    """One API: where a request has its messages, and how they are written."""

    key: str
    write: Callable[[Sequence[Message]], list[Item]]
    join: Callable[[list[Item]], list[Item]]

    def items(self, request: Mapping[str, Any]) -> list[Item] | None:
        """Return the messages of a request; None if it has none in the expected place."""
        found = request.get(self.key)
        return found if isinstance(found, list) and all(isinstance(each, dict) for each in found) else None


def without_ours(items: Sequence[Item], is_ours: IsOurs) -> list[Item]:
    """Return the items without the summaries and pins in them, as an earlier list of ours had them."""
    kept = list[Item]()
    for item in items:
        content = item.get("content") if item.get("role") == "user" else None
        rest = shortened(content, is_ours) if content else content
        if rest is content or rest == content:
            kept.append(item)
        elif rest is not None:
            kept.append(item | {"content": rest})
    return kept


def trace(message: Message) -> Trace:
    """Return what identifies a message."""
    return Trace(
        "user" if message.role == "tool" else message.role,
        "\n".join(part.text for part in message.parts if isinstance(part, Text)).strip(),
        frozenset(_name(part.call_id) for part in message.parts if isinstance(part, ToolCall)),
        frozenset(_name(part.call_id) for part in message.parts if isinstance(part, ToolResult)),
        any(isinstance(part, File) for part in message.parts),
    )


def item_trace(item: Item) -> Trace:
    """Return what identifies the message, or the messages, in an item of a request."""
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call"):
        return Trace("assistant", calls=_names([item.get("call_id")]))
    if kind in ("function_call_output", "custom_tool_call_output"):
        return Trace("user", results=_names([item.get("call_id")]))
    if kind == "reasoning":
        return Trace("reasoning")
    role = str(item.get("role", ""))
    blocks = _blocks(item.get("content"))
    text = "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block.get("text"), str)).strip()
    if role == "tool":
        return Trace("user", results=_names([item.get("tool_call_id")]))
    calls = [each.get("id") for each in item.get("tool_calls") or () if isinstance(each, dict)]
    calls += [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    files = any(block.get("type") in ("image", "image_url", "input_image", "document", "file") for block in blocks)
    return Trace(role, text, _names(calls), _names(results), files)


def instructions(items: Sequence[Item], first: Trace | None) -> int:
    """Return how many items precede the conversation, whose first message in the host's list is `first`."""
    leading = next((at for at, each in enumerate(items) if each.get("role") not in INSTRUCTIONS), len(items))
    if first is not None:
        for at in range(leading, min(len(items), leading + _MOST_BEFORE)):
            if first.matches(item_trace(items[at])):
                return at
    return leading


def with_result(item: Item, call_ids: frozenset[str], text: str) -> Item:
    """Return an item with another text in place of the results of those calls."""
    if "tool_call_id" in item:
        return item | {"content": text}
    if "output" in item:
        return item | {"output": text}
    return item | {
        "content": [
            block | {"content": text} if _names([block.get("tool_use_id")]) & call_ids else block
            for block in _blocks(item.get("content"))
        ]
    }


def with_text(item: Item, text: str) -> Item:
    """Return an item with another text; its calls and pictures stay."""
    content = item.get("content")
    if isinstance(content, str):
        return item | {"content": text}
    if not isinstance(content, list):
        return item
    kinds = [block.get("type") for block in _blocks(content) if isinstance(block.get("text"), str)]
    rest = [block for block in _blocks(content) if not isinstance(block.get("text"), str)]
    return item | {"content": [{"type": kinds[0] if kinds else "text", "text": text}, *rest]}


def size(value: object) -> int:
    """Estimate the tokens of a part of a request. Pictures count by their size, at most 2,000."""
    return estimate(json.dumps(_light(value), ensure_ascii=False, default=str)) if value else 0


def newest(items: Sequence[Item], budget: int) -> list[Item]:
    """Return the newest items that fit, from the beginning of a turn; the last turn in any case."""
    start, total = len(items), 0
    for at in range(len(items) - 1, -1, -1):
        total += size(items[at])
        if total > budget and start < len(items):
            break
        if _starts_turn(items[at]):
            start = at
    return list(items[start:]) if start < len(items) else list(items)


def _starts_turn(item: Item) -> bool:
    found = item_trace(item)
    return found.role == "user" and not found.results


def _light(value: object) -> object:
    """Return a value with long strings of encoded data shortened: they are pictures, not text."""
    if isinstance(value, dict):
        return {key: _light(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_light(each) for each in value]
    if isinstance(value, str) and len(value) > 8_000 and _ENCODED.match(value):
        return value[:6_000]
    return value


_ENCODED = re.compile(r"(data:[\w/+.-]+;base64,)?[A-Za-z0-9+/]{4000}")


def _blocks(content: object) -> list[Item]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def _names(ids: Sequence[object]) -> frozenset[str]:
    return frozenset(_name(each) for each in ids if isinstance(each, str) and each)


def _name(call_id: str) -> str:
    """Return the id of a call as every API spells it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id.partition("|")[0])


def _as_chat(messages: Sequence[Message]) -> list[Item]:
    written: list[Item] = openai_chat.dump(messages)["messages"]
    return written


def _as_anthropic(messages: Sequence[Message]) -> list[Item]:
    written: list[Item] = anthropic.dump(messages)["messages"]
    return written


def _as_responses(messages: Sequence[Message]) -> list[Item]:
    written: list[Item] = openai_responses.dump(messages)["input"]
    return written


def _same(items: list[Item]) -> list[Item]:
    return items


def _alternating(items: list[Item]) -> list[Item]:
    """Return the items with neighbours of one role joined."""
    joined: list[Item] = []
    for item in items:
        if joined and joined[-1].get("role") == item.get("role"):
            both = [*_blocks(joined[-1].get("content")), *_blocks(item.get("content"))]
            joined[-1] = joined[-1] | {"content": both}
        else:
            joined.append(item)
    return joined


CHAT = Wire("messages", _as_chat, _same)
WIRES: Mapping[str, Wire] = {
    "chat_completions": CHAT,
    "anthropic_messages": Wire("messages", _as_anthropic, _alternating),
    "codex_responses": Wire("input", _as_responses, _same),
}
"""By Hermes's `api_mode`: the APIs whose requests are rebuilt. Others are sent as Hermes made them."""
