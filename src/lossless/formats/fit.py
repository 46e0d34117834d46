"""Shared by the formats: make a request acceptable (ids, names, bytes, text)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lossless.errors import InvalidInput
from lossless.formats.wire import Record
from lossless.model import Context, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The pictures every provider reads."""

System: TypeAlias = str | Sequence[Mapping[str, Any]] | None
"""A host's own system prompt: a text, or blocks of text."""

_RESPONSES = "openai_responses"
_REPLIES = ("anthropic", "openai_chat", _RESPONSES)
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_VERSION = re.compile(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest)(?:-v\d+(?::\d+)?)?$|-v\d+:\d+$")


class Caps(NamedTuple):
    """The limits of one request of a provider, besides tokens."""

    bytes: int
    pictures: int


_SMALLEST = Caps(18_000_000, 20)
"""Where the provider is not known: below what the strictest ones take (20 MB of Gemini, 20 pictures of Amazon Bedrock)."""
_CAPS = {"anthropic": Caps(30_000_000, 100), "openai": Caps(45_000_000, 500)}
"""Below their limits (32 MB; 50 MB and 500 pictures), so that the host's system prompt and tools fit, too."""
_FAMILIES = {"claude": "anthropic", "gpt": "openai", "chatgpt": "openai"}
_PART_BYTES, _MESSAGE_BYTES = 80, 40


def caps(model: str | None, most_bytes: int | None = None, most_pictures: int | None = None) -> Caps:
    """Return the limits of a model's provider (`provider/model`, or a name that identifies it), unless they are set."""
    provider, _, name = (model or "").casefold().partition("/")
    found = _CAPS.get(provider if name else _FAMILIES.get(provider.partition("-")[0], ""), _SMALLEST)
    return Caps(
        found.bytes if most_bytes is None else most_bytes, found.pictures if most_pictures is None else most_pictures
    )


def pictures_in(message: Message) -> int:
    """Count the files of a message that a provider would look at."""
    return sum(
        sum(isinstance(each, File) for each in part.parts) if isinstance(part, ToolResult) else isinstance(part, File)
        for part in message.parts
    )


def wire_bytes(message: Message) -> int:
    """Estimate the bytes of a message in a request, rather too many than too few."""
    return _MESSAGE_BYTES + sum(map(_part_bytes, message.parts)) + _json_bytes(message.extra)


def _part_bytes(part: Part) -> int:
    match part:
        case Text(text):
            size = _text_bytes(text)
        case Reasoning(text, signature):
            size = _text_bytes(text) + len(signature or "")
        case ToolCall(_, _, arguments):
            size = _text_bytes(arguments)
        case ToolResult(_, parts):
            size = sum(map(_part_bytes, parts))
        case File(_, name, data, url):
            size = len(data or "") + len(url or "") + _text_bytes(name or "")
        case Opaque(_, data):
            size = _json_bytes(data)
    return _PART_BYTES + size + _json_bytes(part.extra)


def _text_bytes(text: str) -> int:
    """Count the bytes of a text in JSON: quotes, backslashes and line ends count twice."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return size + text.count("\n") + text.count('"') + text.count("\\") + 5 * text.count("\0")


def _json_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")) if value else 0


class Spelling(Struct, frozen=True):
    """The patterns a provider accepts for call ids and tool names."""

    ids: re.Pattern[str]
    names: re.Pattern[str]

    def id(self, call_id: str) -> str:
        """Return the id, or a replacement that is always the same and unique."""
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
    """Return the id of the call a part makes, also of a call we do not model (a shell's, a computer's)."""
    if isinstance(part, ToolCall):
        return part.call_id
    if isinstance(part, Opaque) and part.kind.endswith("_call") and isinstance(part.data, dict):
        call_id = part.data.get("call_id")
        return call_id if isinstance(call_id, str) else None
    return None


def answering(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without results of calls that only another format can express."""
    parts = [part for message in messages for part in message.parts]
    unsaid = {asked_by(part) for part in parts if isinstance(part, Opaque)} - {None}
    if not unsaid:
        return list(messages)
    unsaid -= {part.call_id for part in parts if isinstance(part, ToolCall)}
    return having(messages, lambda _, part: not (isinstance(part, ToolResult) and part.call_id in unsaid))


def having(messages: Iterable[Message], keeps: Callable[[Message, Part], bool]) -> list[Message]:
    """Return the messages with the parts that are kept; drop messages without any."""
    kept = [(message, tuple(part for part in message.parts if keeps(message, part))) for message in messages]
    return [
        message if len(parts) == len(message.parts) else replace(message, parts=parts)
        for message, parts in kept
        if parts or not message.parts
    ]


def is_whole(message: Message, name: str) -> bool:
    """Tell whether the message is a record this format could not read: its own API would refuse it."""
    return any("$whole" in part.extra.get(name, {}) for part in message.parts[:1])


def worded(text: Any) -> bool:
    """Tell whether a value is a text that is not blank."""
    return isinstance(text, str) and not text.isspace() and text != ""


def is_picture(url: Any) -> bool:
    """Tell whether a provider would fetch or read the picture at this address."""
    if not isinstance(url, str):
        return False
    return url.startswith(("https://", "http://")) or any(
        url.startswith(head) and len(url) > len(head) for head in (f"data:{mime};base64," for mime in PICTURES)
    )


def holds(data: Any) -> bool:
    """Tell whether inline data, or a `data:` URL, contains any bytes."""
    return isinstance(data, str) and data.partition(";base64,")[2 if data.startswith("data:") else 0] != ""


def introduced(messages: Iterable[Message]) -> list[Message]:
    """Put the names of speakers into the text, for formats that have no other place for them."""
    return [_introduced(message) if message.name and message.role == "user" else message for message in messages]


def _introduced(message: Message) -> Message:
    name = " ".join((message.name or "").split())
    for at, part in enumerate(message.parts):
        if isinstance(part, ToolResult):
            return message
        if isinstance(part, Text):
            said = part if part.text.startswith(f"{name}:") else replace(part, text=f"{name}: {part.text}")
            return replace(message, parts=(*message.parts[:at], said, *message.parts[at + 1 :]))
    return replace(message, parts=(Text(f"{name}:"), *message.parts)) if message.parts else message


def blocks_in(content: Any, kind: str) -> list[Record]:
    """Return content as a list of blocks, however it was written."""
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    items: Iterable[Any] = content if isinstance(content, list) else ()
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("type"), str)]


def sendable(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the request as it can be sent: half an emoji becomes `?`, NaN and infinity become null."""
    try:
        json.dumps(kwargs, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        text = json.dumps(kwargs, ensure_ascii=False).encode(errors="replace")
        mended: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
        return mended
    return kwargs


def system_text(system: System) -> str:
    """Return a host's system prompt as one text."""
    if system is None or isinstance(system, str):
        return system or ""
    blocks = blocks_in(list(system), "text")
    if not blocks or len(blocks) != len(system):
        raise InvalidInput(
            "system is neither a text nor a list of text blocks.",
            hint='Give "..." or [{"type": "text", "text": "..."}].',
        )
    return "\n\n".join(str(block.get("text", "")) for block in blocks)


def joined(system: str, texts: Iterable[str]) -> str:
    """Return a host's system prompt and the other system texts as one; the prompt may be stored as well."""
    return "\n\n".join(text for text in (system, *(each for each in texts if each != system)) if worded(text))


def written_by(message: Message) -> str:
    """Return the name of the model that wrote a message, without provider and version; empty if it is not known."""
    if message.role != "assistant":
        return ""
    models = [_noted(_noted(message.extra, wire), "$reply").get("model") for wire in _REPLIES]
    named = next(
        (name for name in (*models, _noted(message.extra, "openclaw").get("model")) if isinstance(name, str)), ""
    )
    return plain_model(named)


def _noted(extra: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = extra.get(key)
    return found if isinstance(found, Mapping) else {}


def plain_model(name: str) -> str:
    """Return a model's name without provider, region and version: requests and replies name the same model differently."""
    bare = name.casefold().rpartition("/")[2].rpartition("anthropic.")[2]
    while (shorter := _VERSION.sub("", bare)) != bare:
        bare = shorter
    return bare


def model_of(messages: object) -> str | None:
    """Return the model a context was assembled for, if it says so."""
    return messages.model if isinstance(messages, Context) else None


def of_model(messages: Sequence[Message], model: str | None) -> list[Message]:
    """Return the messages without the thinking of other models: a provider takes back only what the same model wrote.

    `model` is the one that will read them; if it is not given, the newest one whose name is known.
    """
    running = plain_model(model) if model else next(filter(None, map(written_by, reversed(messages))), "")
    if not running:
        return list(messages)
    return [each if written_by(each) in ("", running) else without_thinking(each) for each in messages]


def without_thinking(message: Message) -> Message:
    """Return the message without the model's thinking, and without what links its text to it."""
    if "openai_chat" not in message.extra:
        for part in message.parts:
            if isinstance(part, _MAY_THINK):
                break
        else:
            return message  # most are: this is asked of every message in every turn
    kept = tuple(part for part in message.parts if not _is_thought(part))
    notes = _noted(message.extra, "openai_chat")
    if len(kept) == len(message.parts) and "reasoning_details" not in notes:
        return message
    extra = message.extra
    if "reasoning_details" in notes:
        extra = extra | {"openai_chat": {key: note for key, note in notes.items() if key != "reasoning_details"}}
    return replace(message, parts=kept if len(kept) == len(message.parts) else unlinked(kept), extra=extra)


_MAY_THINK = (Reasoning, Opaque)


def _is_thought(part: Part) -> bool:
    return isinstance(part, Reasoning) or (isinstance(part, Opaque) and part.kind in _THOUGHTS)


def unlinked(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts without the reasoning that led to them.

    In OpenAI's Responses API an item's id ties it to its reasoning, and the API refuses the one without the other. What
    cannot go without its id is left out.
    """
    kept = [part for part in parts if not (isinstance(part, Opaque) and _RESPONSES in part.extra)]
    return tuple(unnoted(part, "id", "status", "$item", "$joined") for part in kept)


def unnoted(part: Part, *keys: str) -> Part:
    """Return a part without some of its notes for OpenAI's Responses API."""
    if _RESPONSES not in part.extra:
        return part
    notes = {key: note for key, note in part.extra[_RESPONSES].items() if key not in keys}
    return replace(part, extra=part.extra | {_RESPONSES: notes})
