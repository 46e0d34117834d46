"""What the formats share so that a request is taken: ids and names a provider accepts, and text it can carry."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lossless.formats.wire import Record
from lossless.model import Message, Opaque, Part, ToolCall, ToolResult

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The pictures every provider reads."""


class Spelling(Struct, frozen=True):
    """What a provider takes as the id of a call and as the name of a tool."""

    ids: re.Pattern[str]
    names: re.Pattern[str]

    def id(self, call_id: str) -> str:
        """The id, or one made of it that is always the same and only its own."""
        if self.ids.fullmatch(call_id):
            return call_id
        digest = sha256(call_id.encode(errors="surrogatepass")).hexdigest()
        return f"{_plain(call_id)[:23]}_{digest[:16]}"

    def name(self, tool: str) -> str:
        return tool if self.names.fullmatch(tool) else _plain(tool)[:64] or "unknown"

    def part(self, part: Part) -> Part:
        match part:
            case ToolCall(call_id, name):
                if (self.id(call_id), self.name(name)) == (call_id, name):
                    return part
                return replace(part, call_id=self.id(call_id), name=self.name(name))
            case ToolResult(call_id) if self.id(call_id) != call_id:
                return replace(part, call_id=self.id(call_id))
            case _:
                return part

    def message(self, message: Message) -> Message:
        parts = tuple(map(self.part, message.parts))
        changed = any(new is not old for new, old in zip(parts, message.parts, strict=True))
        return replace(message, parts=parts) if changed else message


def _plain(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)


def asked_by(part: Part) -> str | None:
    """The id of the call a part makes: also that of a call we do not model (a shell's, a computer's)."""
    if isinstance(part, ToolCall):
        return part.call_id
    if isinstance(part, Opaque) and part.kind.endswith("_call") and isinstance(part.data, dict):
        call_id = part.data.get("call_id")
        return call_id if isinstance(call_id, str) else None
    return None


def answering(messages: Sequence[Message]) -> list[Message]:
    """The messages without the results of calls that only another format can express."""
    parts = [part for message in messages for part in message.parts]
    unsaid = {asked_by(part) for part in parts if isinstance(part, Opaque)} - {None}
    if not unsaid:
        return list(messages)
    unsaid -= {part.call_id for part in parts if isinstance(part, ToolCall)}
    return having(messages, lambda _, part: not (isinstance(part, ToolResult) and part.call_id in unsaid))


def having(messages: Iterable[Message], keeps: Callable[[Message, Part], bool]) -> list[Message]:
    """The messages with the parts that are kept; one that loses all of them is left out."""
    kept = [(message, tuple(part for part in message.parts if keeps(message, part))) for message in messages]
    return [
        message if len(parts) == len(message.parts) else replace(message, parts=parts)
        for message, parts in kept
        if parts or not message.parts
    ]


def is_whole(message: Message, name: str) -> bool:
    """Whether the message is a record this format could not read: its own API would refuse it."""
    return any("$whole" in part.extra.get(name, {}) for part in message.parts[:1])


def worded(text: Any) -> bool:
    """Whether it is a text that says something."""
    return isinstance(text, str) and not text.isspace() and text != ""


def is_picture(url: Any) -> bool:
    """Whether a provider would fetch or read the picture at this address."""
    if not isinstance(url, str):
        return False
    return url.startswith(("https://", "http://", *(f"data:{mime};base64," for mime in PICTURES)))


def blocks_in(content: Any, kind: str) -> list[Record]:
    """Content as a list of blocks, whichever way it was written."""
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    items: Iterable[Any] = content if isinstance(content, list) else ()
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("type"), str)]


def sendable(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The request as it can be sent: half an emoji becomes `?`, and a number that is none becomes null."""
    try:
        json.dumps(kwargs, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        text = json.dumps(kwargs, ensure_ascii=False).encode(errors="replace")
        mended: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
        return mended
    return kwargs
