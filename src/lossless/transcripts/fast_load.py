"""Load the most frequent messages of transcripts several times faster than `lossless.formats`.

`lossless.formats` verifies for every record that it can be written back unchanged, which takes time. For plain texts,
thinking, calls and results this is known. Each function returns exactly what the `load` of its format returns, or None if a
record is not plain.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from lossless.formats.anthropic import WIRE as ANTHROPIC
from lossless.formats.openai_responses import WIRE as RESPONSES
from lossless.formats.openclaw import WIRE as OPENCLAW
from lossless.formats.wire import Record, Wire
from lossless.model import Extra, Message, Part, Reasoning, Text, ToolCall, ToolResult

Block: TypeAlias = Callable[[Record], Part | None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000 = 253_402_300_800_000
_STOPS = ("stop", "length", "toolUse", "error", "aborted")
_arguments = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def openclaw(record: Record) -> Message | None:
    """Load a message of pi: a user's, a model's or a tool's."""
    role, stamp, content = record.get("role"), record.get("timestamp"), record.get("content")
    if type(stamp) is not int or not 0 < stamp < _YEAR_10000 or type(content) is not list:
        return None
    parts = _parts(content, _PI)
    if parts is None:
        return None
    at = _EPOCH + timedelta(milliseconds=stamp)
    if role == "toolResult":
        return _pi_result(record, parts, at)
    stop = record.get("stopReason")
    if role not in ("user", "assistant") or ("stopReason" in record and stop not in _STOPS):
        return None
    notes = _notes(OPENCLAW, record, "role content stopReason timestamp")
    return None if notes is None else Message(role, parts, at, None, None, stop, _extra(OPENCLAW, notes))


def anthropic(record: Record) -> Message | None:
    """Load a message of Anthropic's API: a prompt, a model's reply or the results of tools."""
    role, content = record.get("role"), record.get("content")
    if "type" in record:
        return _reply(record) if role == "assistant" and record["type"] == "message" else None
    if role not in ("user", "assistant"):
        return None
    parts = _written(content, _PROMPT)
    notes = _notes(ANTHROPIC, record, "role content", _shape(content, parts))
    if not parts or notes is None:
        return None
    answers = role == "user" and all(type(part) is ToolResult for part in parts)
    return Message("tool" if answers else role, parts, extra=_extra(ANTHROPIC, notes))


def chat(record: Record) -> Message | None:
    """Load a message of OpenAI's chat API that is one text."""
    role, content = record.get("role"), record.get("content")
    if tuple(record) != ("role", "content") or type(content) is not str or not content:
        return None
    return Message(role, (Text(content),)) if role in ("user", "assistant", "system", "developer") else None


def responses(item: Record) -> Message | None:
    """Load an item of the Responses API: a text, reasoning, a call or its output."""
    match item.get("type"):
        case "message":
            return _message(item)
        case "function_call":
            return _produced(_call(RESPONSES, item, "call_id", "arguments"))
        case "function_call_output":
            return _output(item)
        case "reasoning":
            return _produced(_reasoning(item))
        case _:
            return None


def _produced(part: Part | None) -> Message | None:
    return None if part is None else Message("assistant", (part,))


def _parts(content: list[object], blocks: dict[str, Block]) -> tuple[Part, ...] | None:
    parts = []
    for block in content:
        if type(block) is not dict:
            return None
        kind = block.get("type")
        read = blocks.get(kind) if type(kind) is str else None
        part = read and read(block)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def _written(content: object, blocks: dict[str, Block]) -> tuple[Part, ...] | None:
    """Return the parts of a content that is a text or a list."""
    if type(content) is str and content:
        return (Text(content),)
    return _parts(content, blocks) if type(content) is list else None


def _shape(content: object, parts: tuple[Part, ...] | None) -> str | None:
    """Return how a content was written, if not as one plain text."""
    plain = parts is not None and len(parts) == 1 and type(parts[0]) is Text and not parts[0].extra
    return "list" if plain and type(content) is list else None


def _texts(parts: tuple[Part, ...] | None) -> tuple[Text, ...]:
    return tuple(part for part in parts or () if type(part) is Text)


def _pi_result(record: Record, parts: tuple[Part, ...], at: datetime) -> Message | None:
    call, name, failed = record.get("toolCallId"), record.get("toolName"), record.get("isError")
    if type(call) is not str or type(name) is not str or not name or type(failed) is not bool or "stopReason" in record:
        return None
    texts = _texts(parts)
    notes = _notes(OPENCLAW, record, "role toolCallId toolName content isError timestamp")
    if notes is None or len(texts) != len(parts):
        return None
    return Message("tool", (ToolResult(call, texts, name, failed),), at, extra=_extra(OPENCLAW, notes))


def _reply(record: Record) -> Message | None:
    content = record.get("content")
    parts = _parts(content, _REPLY) if type(content) is list else None
    if parts is None or "id" not in record:
        return None
    name, stop = record["id"], record.get("stop_reason")
    beside = ("type", "role", "content", "id", "stop_reason")
    about = {key: value for key, value in record.items() if value is not None and key not in beside}
    event_id = name if type(name) is str else None
    stopped = stop if type(stop) is str else None
    return Message("assistant", parts, None, None, event_id, stopped, {ANTHROPIC.name: {"$reply": about}})


def _tool_result(block: Record) -> ToolResult | None:
    call, failed = block.get("tool_use_id"), block.get("is_error") is True
    content = block.get("content")
    texts = _texts(_written(content, _WORDS))
    notes = _notes(ANTHROPIC, block, "type tool_use_id content" + " is_error" * failed, _shape(content, texts))
    if type(call) is not str or not texts or notes is None:
        return None
    return ToolResult(call, texts, None, failed, _extra(ANTHROPIC, notes))


def _message(item: Record) -> Message | None:
    role = item.get("role")
    if role not in ("user", "assistant") or type(item.get("content")) is not list:
        return None
    blocks = _INPUT if role == "user" else _OUTPUT
    parts = _parts(item["content"], blocks)
    notes = _notes(RESPONSES, item, "role content", _shape(item["content"], parts))
    if not parts or notes is None:
        return None
    if role == "user":
        return Message(role, parts, extra=_extra(RESPONSES, notes))
    return Message(role, tuple(_marked(part, place, notes) for place, part in enumerate(parts)))


def _marked(part: Part, place: int, about: Extra) -> Part:
    """Return a text of a model's item: the first carries the item's fields, the others say that they belong to it."""
    assert isinstance(part, Text)
    known: Extra = part.extra.get(RESPONSES.name, {})
    return Text(part.text, {RESPONSES.name: known | ({"$joined": True} if place else {"$item": about})})


def _output(item: Record) -> Message | None:
    call, output = item.get("call_id"), item.get("output")
    notes = _notes(RESPONSES, item, "type call_id output")
    if type(call) is not str or type(output) is not str or not output or notes is None or "name" in item:
        return None
    return Message("tool", (ToolResult(call, (Text(output),), None, False, _extra(RESPONSES, notes)),))


def _reasoning(item: Record) -> Reasoning | None:
    lists = [item[key] for key in ("summary", "content") if type(item.get(key)) is list]
    texts = [part["text"] for each in lists for part in each if type(part) is dict and type(part.get("text")) is str]
    encrypted = item.get("encrypted_content")
    notes = _notes(RESPONSES, item, "type" if encrypted is None else "type encrypted_content")
    if notes is None or type(encrypted) not in (str, type(None)):
        return None
    return Reasoning("\n\n".join(texts), encrypted, {RESPONSES.name: notes})


def _text(wire: Wire, block: Record) -> Text | None:
    text, notes = block.get("text"), _notes(wire, block, "type text")
    return Text(text, _extra(wire, notes)) if type(text) is str and text and notes is not None else None


def _thinking(wire: Wire, block: Record, sign: str) -> Reasoning | None:
    text, signature = block.get("thinking"), block.get(sign)
    notes = _notes(wire, block, f"type thinking {sign}")
    if type(text) is not str or notes is None or not (type(signature) is str or sign not in block):
        return None
    return Reasoning(text, signature, {wire.name: notes})


def _call(wire: Wire, block: Record, key: str, given: str) -> ToolCall | None:
    call, name, arguments = block.get(key), block.get("name"), block.get(given)
    notes = _notes(wire, block, f"type {key} name {given}")
    if type(call) is not str or type(name) is not str or notes is None:
        return None
    if wire is RESPONSES:
        return ToolCall(call, name, arguments, _extra(wire, notes)) if type(arguments) is str else None
    return ToolCall(call, name, _arguments(arguments), _extra(wire, notes)) if type(arguments) is dict else None


def _extra(wire: Wire, notes: Extra) -> Extra:
    return {wire.name: notes} if notes else {}


def _notes(wire: Wire, record: Record, bare: str, shape: str | None = None) -> Extra | None:
    """Return the fields of a record beyond its bare keys, as `Wire.remember` keeps them; None if it is not plain."""
    plan = _plan(wire.order, bare, tuple(record))
    if plan is None:
        return None
    others, ordered = plan
    notes: Extra = {"$shape": shape} if shape else {}
    for key in others:
        notes[key] = record[key]
    if not ordered:
        notes["$order"] = list(record)
    return notes


@lru_cache(4096)
def _plan(order: str, bare: str, keys: tuple[str, ...]) -> tuple[tuple[str, ...], bool] | None:
    """Return the keys to note, and whether all keys are in the format's order."""
    if any(key.startswith("$") for key in keys):
        return None
    rank = {key: place for place, key in enumerate(order.split())}
    usual = sorted(keys, key=lambda key: rank.get(key, len(rank)))
    return tuple(key for key in keys if key not in bare.split()), usual == list(keys)


_PI: dict[str, Block] = {
    "text": lambda block: _text(OPENCLAW, block),
    "thinking": lambda block: _thinking(OPENCLAW, block, "thinkingSignature"),
    "toolCall": lambda block: _call(OPENCLAW, block, "id", "arguments"),
}
_WORDS: dict[str, Block] = {"text": lambda block: _text(ANTHROPIC, block)}
_PROMPT: dict[str, Block] = {**_WORDS, "tool_result": _tool_result}
_REPLY: dict[str, Block] = {
    "text": lambda block: _text(ANTHROPIC, ANTHROPIC.tidy(block)),
    "thinking": lambda block: _thinking(ANTHROPIC, ANTHROPIC.tidy(block), "signature"),
    "tool_use": lambda block: _call(ANTHROPIC, ANTHROPIC.tidy(block), "id", "input"),
}
_INPUT: dict[str, Block] = {"input_text": lambda block: _text(RESPONSES, block)}
_OUTPUT: dict[str, Block] = {"output_text": lambda block: _text(RESPONSES, block)}
