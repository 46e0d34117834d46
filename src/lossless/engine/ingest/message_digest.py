"""Compute the digest by which messages without an event id are compared. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeAlias

from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.store import jsontext

Canonicalize: TypeAlias = Callable[[str, str], str]
"""(role, text) -> the text to compare, without what a host adds around it."""


def digest(message: Message, canonicalize: Canonicalize) -> bytes:
    """Return the digest of a message: equal for equal roles and contents, whatever its id, time or wire format.

    Thinking counts only where there is nothing else: hosts resend a reply with or without it.
    """
    role, parts = message.role, message.parts
    if len(parts) != 1:
        parts = tuple(part for part in parts if not isinstance(part, Reasoning)) or parts
    if len(parts) == 1 and type(parts[0]) is Text:
        return sha256(_bytes(f"{role}\0{canonicalize(role, parts[0].text)}")).digest()[:16]
    # Each field with its length, so that no two contents run together into the same bytes.
    fields = [f"{len(field)}:{field}" for part in parts for field in _fields(part, role, canonicalize)]
    return sha256(_bytes(f"{role}\1{''.join(fields)}")).digest()[:16]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _fields(part: Part, role: str, canonicalize: Canonicalize) -> Sequence[str]:
    if isinstance(part, Text):  # the two common kinds first, by hand: a match statement is several times slower
        return ("text", canonicalize(role, part.text))
    if isinstance(part, ToolResult):
        inner = [field for each in part.parts for field in _fields(each, role, canonicalize)]
        return ("result", part.call_id, str(part.is_error), str(len(inner)), *inner)
    match part:
        case ToolCall(call_id, name, arguments):
            return ("call", call_id, name, canonicalize(role, arguments))
        case File(mime, name, data, url):
            return ("file", mime or "", name or "", data or "", url or "")
        case Opaque(kind, data):
            return ("opaque", kind, jsontext.dumps(data))
        case Reasoning(text, signature):
            return ("reasoning", text, signature or "")


def tool_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the calls a message makes or answers: different ids mean different messages."""
    return tuple(part.call_id for part in message.parts if isinstance(part, (ToolCall, ToolResult)))


def same_event(message: Message) -> tuple[object, ...] | None:
    """Return the fields that two copies of one event share; None for a message without an event id."""
    return (message.event_id, message.role, *tool_ids(message)) if message.event_id else None


def without_tags(tags: Sequence[str]) -> Canonicalize:
    """Return a canonicalizer that removes blocks which plugins inject into a user's text."""
    patterns = [re.compile(rf"<(/?){re.escape(tag)}(?=[\s>])[^<>]*>", re.IGNORECASE) for tag in tags]

    def canonicalize(role: str, text: str) -> str:
        if role != "user" or "</" not in text:
            return text
        for pattern in patterns:
            text = _without(text, pattern)
        return text

    return canonicalize


def _without(text: str, tag: re.Pattern[str]) -> str:
    """Return the text without each `<tag ...>...</tag>`, in one pass."""
    kept, at, opened = [], 0, -1
    for found in tag.finditer(text):
        if not found[1] and opened < 0:
            opened = found.start()
        elif found[1] and opened >= 0:
            kept.append(text[at:opened])
            at, opened = found.end(), -1
    return ("".join(kept) + text[at:]).strip() if at else text
