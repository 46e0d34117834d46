"""The messages of pi, which OpenClaw keeps in its transcripts.

A `toolResult` is a message of role `tool`. Messages without content of the other roles (`bashExecution`,
`branchSummary`, ...) hold one Opaque part with the whole of them; a `bashExecution` counts as the user's.
A timestamp in milliseconds becomes `at`. The transcript entry's id is the reader's to give: `responseId`
is not the event id. What an assistant message of pi has beside its words (api, provider, model, usage) is
kept in `extra["openclaw"]` and is not invented for messages of other formats.

pi sees to what its providers refuse, so `dump` leaves pi's own messages alone, empty ones included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, overload

from msgspec.structs import replace

from lossless.errors import InvalidInput
from lossless.formats.fit import (
    Spelling,
    System,
    answering,
    having,
    introduced,
    joined,
    of_model,
    sendable,
    system_text,
)
from lossless.formats.wire import (
    ABSENT,
    Content,
    Odd,
    Readers,
    Record,
    SdkObject,
    Wire,
    asked,
    media,
    messages_of,
    read_record,
    result_parts,
    role_in,
    split,
    text_in,
    text_or_none,
    to_object,
    to_text,
)
from lossless.model import Context, Extra, File, Message, Part, Reasoning, Text, ToolCall, ToolResult

WIRE = Wire(
    "openclaw",
    "role toolCallId toolName type id call_id name arguments input text textSignature thinking thinkingSignature"
    " redacted data mimeType customType content display api provider model usage stopReason details isError timestamp"
    " errorMessage responseId",
)
CONTENT = Content(empty="list", single="list")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ROLES = ("user", "assistant", "toolResult", "custom", "bashExecution", "branchSummary", "compactionSummary")
SPELLING = Spelling(re.compile(r"(?s).+"), re.compile(r"(?s).+"))

CALLS = {
    "toolCall": ("id", "arguments"),
    "functionCall": ("id", "arguments"),
    "function_call": ("call_id", "arguments"),
    "toolUse": ("id", "input"),
    "tool_use": ("id", "input"),
}
"""How a call is spelled: pi's way first, then those OpenClaw takes over from providers."""

STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "max_tokens": "length",
    "incomplete": "length",
    "tool_use": "toolUse",
    "tool_calls": "toolUse",
    **{stop: stop for stop in ("stop", "length", "toolUse", "error", "aborted")},
}


@overload
def load(value: list[Any] | tuple[Any, ...]) -> list[Message]: ...
@overload
def load(value: Mapping[str, Any] | SdkObject) -> Message: ...
def load(value: Any) -> Message | list[Message]:
    """Return a message of pi as a Message; a list of them as a list."""
    if isinstance(value, (list, tuple)):
        return [_load(item, f"messages[{place}]") for place, item in enumerate(value)]
    return _load(value, "The message")


def load_request(kwargs: Mapping[str, Any]) -> list[Message]:
    """Return the `messages` of a context of pi, its `systemPrompt` first."""
    written: list[Any] = asked(kwargs, "messages", list, tuple)
    messages = load(written)
    prompt = kwargs.get("systemPrompt")
    return [Message.system(prompt), *messages] if isinstance(prompt, str) else messages


def dump(messages: Context | Sequence[Message], *, system: System = None, model: str | None = None) -> dict[str, Any]:
    """Return the `messages` as pi writes them.

    System text of other formats becomes a user's, as pi has no such message, and a user's text begins with the speaker's name. A message of which pi can
    express nothing is left out. With `system`, your own system prompt, there is a `systemPrompt`: yours, then the system
    text at the start of the messages. pi itself sees to the thinking of other models, unless you name the `model`.
    """
    given = messages_of(messages)
    known_to = of_model(given, model) if model else given
    said = [SPELLING.message(message) for message in introduced(answering(known_to))]
    leading = [] if system is None else list(takewhile(lambda message: message.role in ("system", "developer"), said))
    alone = [one for message in said[len(leading) :] for one in split(message)]
    body = {"messages": [_dump(message) for message in having(alone, _takes) if _says_something(message)]}
    prompt = joined(system_text(system), (message.text for message in leading))
    return sendable({"systemPrompt": prompt} | body if prompt else body)


def dump_message(message: Message) -> Record:
    """Return one message as it came."""
    if len(split(message)) > 1:
        raise InvalidInput("This message becomes several in pi's format.", hint="Use dump().")
    return _dump(message)


def _dump(message: Message) -> Record:
    if message.parts and "$whole" in WIRE.notes(message.parts[0]):
        whole: Record = _emit(message.parts[0])
        return whole
    return WIRE.restore(_bare_message(message), WIRE.notes(message))


def _load(value: Any, where: str) -> Message:
    record = read_record(value, where, WIRE.arrange)
    role = role_in(record, where)
    at = _moment(record.get("timestamp"))
    try:
        message = _read(record, role, at)
        kept = message and WIRE.settle(message, record, _bare_message)
    except Odd:
        kept = None
    return kept or Message(_neutral(role), (replace(WIRE.opaque(record, whole=True), kind=role),), at)


def _read(record: Record, role: str, at: datetime | None) -> Message | None:
    content = record.get("content", ABSENT)
    if content is ABSENT and role not in ("user", "assistant", "toolResult"):
        return None
    parts = WIRE.unfold(content, _part)
    extra: Extra = WIRE.extra(
        role=None if _role(_neutral(role)) == role else role,
        shape=WIRE.shape(content, parts, _emit, CONTENT),
        timestamp=None if at is None or type(record["timestamp"]) is int else record["timestamp"],
    )
    if role == "toolResult":
        parts = (_result(record, result_parts(parts)),)
    stop = text_or_none(record, "stopReason")
    unusual = extra[WIRE.name] or STOPS.get(stop or "") != stop
    return Message(_neutral(role), parts, at, None, None, stop, extra if unusual else {})


def _result(record: Record, parts: tuple[Any, ...]) -> ToolResult:
    name = text_or_none(record, "toolName")
    failed = record.get("isError") is True
    # A result of pi without a name must not get one on the way out.
    return ToolResult(text_in(record, "toolCallId", ""), parts, name, failed, WIRE.extra() if name is None else {})


def _neutral(role: str) -> str:
    return {"toolResult": "tool", "bashExecution": "user"}.get(role, role)


def _role(neutral: str) -> str:
    if neutral == "tool":
        return "toolResult"
    return neutral if neutral in ROLES else "user"


def _moment(timestamp: Any) -> datetime | None:
    """Return the time of a timestamp in milliseconds, if it is one."""
    if type(timestamp) not in (int, float) or not 0 < timestamp < 253_402_300_800_000:
        return None
    return EPOCH + timedelta(milliseconds=timestamp)


def _timestamp(message: Message) -> Any:
    written = WIRE.notes(message).get("$timestamp")
    if written is not None and _moment(written) == message.at:
        return written
    return message.at and (message.at - EPOCH) // timedelta(milliseconds=1)


def _takes(message: Message, part: Part) -> bool:
    """Tell whether pi expects such a part there: pictures are a user's or a tool's, thoughts and calls the model's."""
    if isinstance(part, File):
        return message.role != "assistant" and part.data != ""
    if message.role == "assistant":
        return True
    return not isinstance(part, (Reasoning, ToolCall))


def _says_something(message: Message) -> bool:
    return not message.parts or any(isinstance(part, ToolResult) or _emit(part) is not ABSENT for part in message.parts)


def _bare_message(message: Message) -> Record:
    notes = WIRE.notes(message)
    bare: Record = {"role": notes.get("$role") or _role(message.role)}
    inner: Sequence[Part] = message.parts
    if message.role == "tool" and inner and isinstance(result := inner[0], ToolResult):
        inner = result.parts
        unnamed = "" if WIRE.native(result) else "unknown"
        bare |= {"toolCallId": result.call_id, "toolName": result.name or unnamed, "isError": result.is_error}
    elif message.role == "tool":
        bare["role"] = notes.get("$role") or "user"
    content = WIRE.fold(inner, _emit, CONTENT, notes.get("$shape"))
    if content is not ABSENT:
        bare["content"] = content
    if (stop := message.stop if WIRE.native(message) else STOPS.get(message.stop or "")) is not None:
        bare["stopReason"] = stop
    if (timestamp := _timestamp(message)) is not None:
        bare["timestamp"] = timestamp
    return bare


def _emit(part: Part) -> Any:
    return WIRE.emit(part, _bare)


def _bare(part: Part) -> Record | None:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text, signature) if WIRE.native(part):
            bare = {"type": "thinking", "thinking": text}
            return bare if signature is None else bare | {"thinkingSignature": signature}
        case ToolCall():
            return _bare_call(part)
        case File(mime, _, str(data)) if media(part) == "image" or WIRE.native(part):
            return {"type": "image", "data": data, "mimeType": mime}
        case _:
            return None


def _bare_call(part: ToolCall) -> Record:
    notes = WIRE.notes(part)
    kind = notes.get("$type", "toolCall")
    key, arguments = CALLS[kind]
    written = part.arguments if "$text" in notes else to_object(part.arguments)
    return {"type": kind, key: part.call_id, "name": part.name, arguments: written}


def _part(block: Record) -> Part:
    return WIRE.part(block, _READERS, _bare)


def _load_call(block: Record) -> ToolCall:
    kind = block["type"]
    key, arguments = CALLS[kind]
    written = block.get(arguments)
    extra = WIRE.extra(type=None if kind == "toolCall" else kind, text=isinstance(written, str) or None)
    text = written if isinstance(written, str) else to_text(written)
    return ToolCall(text_in(block, key, ""), text_in(block, "name", ""), text, extra if extra[WIRE.name] else {})


def _load_image(block: Record) -> File:
    file = File(text_or_none(block, "mimeType"), None, text_in(block, "data"))
    return file if media(file) == "image" else replace(file, extra=WIRE.extra())


_READERS: Readers = {
    **dict.fromkeys(CALLS, _load_call),
    "text": lambda block: Text(text_in(block, "text")),
    "thinking": lambda block: Reasoning(
        text_in(block, "thinking"), text_or_none(block, "thinkingSignature"), WIRE.extra()
    ),
    "image": _load_image,
}
