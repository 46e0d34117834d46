"""Anthropic's Messages API: `messages` and `system`, and the `Message` it replies with.

A user message of nothing but tool results is a message of role `tool`. System text stands beside the
messages, wherever it was said. Two things do not go out as they came in: cache markers, which `dump`
drops unless asked to keep them, and an empty system text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from msgspec.structs import replace

from lossless.formats.wire import (
    ABSENT,
    Content,
    Readers,
    Record,
    SdkObject,
    Wire,
    asked,
    dict_in,
    known,
    media,
    messages_of,
    read_record,
    result_parts,
    role_in,
    text_in,
    text_or_none,
    to_object,
    to_text,
    unmarked,
)
from lossless.model import Context, Extra, File, Message, Part, Reasoning, Text, ToolCall, ToolResult

WIRE = Wire(
    "anthropic",
    "role type id tool_use_id name text thinking signature input source title content is_error media_type data url",
)
MESSAGE = Content(void=[])
RESULT = Content(empty="absent")


@overload
def load(value: list[Any] | tuple[Any, ...]) -> list[Message]: ...
@overload
def load(value: Mapping[str, Any] | SdkObject) -> Message: ...
def load(value: Any) -> Message | list[Message]:
    """A message of a request, or a reply of the API, as a Message; a list of them as a list.

    A reply's id becomes the event id and its stop reason `stop`; its model and usage stay in
    `extra["anthropic"]["$reply"]` and are never sent back.
    """
    if isinstance(value, (list, tuple)):
        return [_load(item, f"messages[{place}]") for place, item in enumerate(value)]
    return _load(value, "The message")


def load_request(kwargs: Mapping[str, Any]) -> list[Message]:
    """The messages of a request, its `system` first."""
    written: list[Any] = asked(kwargs, "messages", list, tuple)
    messages = load(written)
    if kwargs.get("system") is None:
        return messages
    system = _load({"role": "system", "content": kwargs["system"]}, "The request")
    notes = {key: note for key, note in WIRE.notes(system).items() if key != "$role"}
    return [replace(system, extra={WIRE.name: notes} if notes else {}), *messages]


def dump(messages: Context | Sequence[Message], *, keep_cache_markers: bool = False) -> dict[str, Any]:
    """The `messages` of a call, and its `system` if there is any.

    Cache markers (`cache_control`) are dropped: those of old turns add up, and the API refuses more than
    four. A message of which this API can express nothing is left out.
    """
    said = messages_of(messages)
    body = [dump_message(message) for message in said if not _beside(message) and _says_something(message)]
    system = _system([message for message in said if _beside(message)])
    kwargs: dict[str, Any] = {"system": system, "messages": body} if system else {"messages": body}
    return kwargs if keep_cache_markers else {key: unmarked(value) for key, value in kwargs.items()}


def dump_message(message: Message) -> Record:
    """One message as it came, cache markers included."""
    if message.parts and "$whole" in WIRE.notes(message.parts[0]):
        whole: Record = _emit(message.parts[0])
        return whole
    return WIRE.restore(_bare_message(message), WIRE.notes(message))


def _load(value: Any, where: str) -> Message:
    record = read_record(value, where, _tidy)
    role = role_in(record, where)
    if record.get("type") == "message" and "id" in record:
        return _reply(record)
    content = record.get("content", ABSENT)
    parts = WIRE.unfold(content, _part, _text)
    answers = role == "user" and parts and all(isinstance(part, ToolResult) for part in parts)
    neutral = "tool" if answers else role
    extra = WIRE.extra(role=None if _role(neutral) == role else role, shape=WIRE.shape(content, parts, _emit, MESSAGE))
    message = Message(neutral, parts, extra=extra if extra[WIRE.name] else {})
    whole = Message(neutral, (WIRE.opaque(record, whole=True),), extra=WIRE.extra(role=role))
    return WIRE.settle(message, record, _bare_message) or whole


def _reply(record: Record) -> Message:
    content = record.pop("content", None)
    if isinstance(content, list):
        content = [_tidy(block) if isinstance(block, dict) else block for block in content]
    parts = WIRE.unfold(content, _part, _text)
    role, name, stop = record.pop("role"), record.pop("id"), record.pop("stop_reason", None)
    about = {key: value for key, value in record.items() if value is not None and key != "type"}
    return Message(role, parts, event_id=known(name), stop=known(stop), extra=WIRE.extra(reply=about))


def _tidy(record: Record) -> Record:
    return WIRE.tidy(record) if record.get("type") in _READERS else record


def _role(neutral: str) -> str:
    return "assistant" if neutral == "assistant" else "user"


def _beside(message: Message) -> bool:
    """Whether the message stands in `system`, not among the messages."""
    return message.role in ("system", "developer") and "$role" not in WIRE.notes(message)


def _says_something(message: Message) -> bool:
    return "$shape" in WIRE.notes(message) or any(_emit(part) is not ABSENT for part in message.parts)


def _system(messages: Sequence[Message]) -> Any:
    contents = [_content(message) for message in messages if _says_something(message)]
    if len(contents) == 1:
        return contents[0]
    lists = [[{"type": "text", "text": said}] if isinstance(said, str) else said for said in contents if said]
    return [block for blocks in lists for block in blocks]


def _content(message: Message) -> Any:
    return WIRE.fold(message.parts, _emit, MESSAGE, WIRE.notes(message).get("$shape"))


def _bare_message(message: Message) -> Record:
    role = WIRE.notes(message).get("$role") or _role(message.role)
    content = _content(message)
    return {"role": role} if content is ABSENT else {"role": role, "content": content}


def _emit(part: Part) -> Any:
    return WIRE.emit(part, _bare)


def _bare(part: Part) -> Record | None:
    match part:
        case Text(text):
            # The API refuses an empty text, unless it was one it had accepted before.
            return {"type": "text", "text": text} if text or WIRE.native(part) else None
        case Reasoning():
            return _bare_reasoning(part)
        case ToolCall(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": to_object(arguments)}
        case ToolResult():
            return _bare_result(part)
        case File():
            return _bare_file(part)
        case _:
            return None


def _bare_reasoning(part: Reasoning) -> Record | None:
    if not WIRE.native(part):
        return None  # another model's signature would be refused
    if kind := WIRE.notes(part).get("$type"):
        return {"type": kind}
    bare = {"type": "thinking", "thinking": part.text}
    return bare if part.signature is None else bare | {"signature": part.signature}


def _bare_result(part: ToolResult) -> Record:
    bare: Record = {"type": "tool_result", "tool_use_id": part.call_id}
    content = WIRE.fold(part.parts, _emit, RESULT, WIRE.notes(part).get("$shape"))
    if content is not ABSENT:
        bare["content"] = content
    return bare | {"is_error": True} if part.is_error else bare


def _bare_file(part: File) -> Record | None:
    kind = WIRE.notes(part).get("$type") or _kind(part)
    if part.data is not None:
        source = {"type": "base64", "media_type": part.mime, "data": part.data}
    elif part.url is not None:
        source = {"type": "url", "url": part.url}
    else:
        source = {}
    if kind is None or not (source or WIRE.native(part)):
        return None
    bare: Record = {"type": kind, "source": source} if source else {"type": kind}
    return bare | {"title": part.name} if kind == "document" and part.name is not None else bare


def _kind(file: File) -> str | None:
    """The block a file goes into: the API takes images and PDFs."""
    kind = media(file)
    if kind == "document" and file.mime not in (None, "application/pdf"):
        return None
    return kind if kind in ("image", "document") else None


def _part(block: Record) -> Part:
    return WIRE.part(block, _READERS, _bare)


def _text(text: str) -> Text:
    return Text(text, {} if text else WIRE.extra())


def _load_redacted(block: Record) -> Reasoning:
    text_in(block, "data")
    return Reasoning(extra=WIRE.extra(type="redacted_thinking"))


def _load_call(block: Record) -> ToolCall:
    return ToolCall(text_in(block, "id", ""), text_in(block, "name", ""), to_text(dict_in(block, "input")))


def _load_result(block: Record) -> ToolResult:
    content = block.get("content", ABSENT)
    parts = result_parts(WIRE.unfold(content, _part, _text))
    shape = WIRE.shape(content, parts, _emit, RESULT)
    extra: Extra = WIRE.extra(shape=shape) if shape else {}
    return ToolResult(text_in(block, "tool_use_id", ""), parts, None, block.get("is_error") is True, extra)


def _load_file(block: Record) -> File:
    source = dict_in(block, "source")
    inline, linked = source.get("type") == "base64", source.get("type") == "url"
    file = File(
        text_or_none(source, "media_type"),
        text_or_none(block, "title") if block["type"] == "document" else None,
        text_in(source, "data") if inline else None,
        text_in(source, "url") if linked else None,
    )
    usual = block["type"] == _kind(file) and (inline or linked)
    return file if usual else replace(file, extra=WIRE.extra(type=block["type"]))


_READERS: Readers = {
    "text": lambda block: _text(text_in(block, "text")),
    "thinking": lambda block: Reasoning(text_in(block, "thinking"), text_or_none(block, "signature"), WIRE.extra()),
    "redacted_thinking": _load_redacted,
    "tool_use": _load_call,
    "tool_result": _load_result,
    "image": _load_file,
    "document": _load_file,
}
