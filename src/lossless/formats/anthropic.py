"""Anthropic's Messages API: `messages` and `system`, and the `Message` it replies with.

A user message of nothing but tool results is a message of role `tool`. System text stands beside the
messages, wherever it was said.

What `dump` writes is taken by the API: roles take turns and the user has the first, results come first in their
message, and nothing is empty. What is right already goes out as it came in, except for cache markers, which
`dump` drops unless asked to keep them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from msgspec.structs import replace

from lossless.formats.fit import (
    PICTURES,
    Spelling,
    System,
    answering,
    blocks_in,
    introduced,
    is_whole,
    model_of,
    of_model,
    sendable,
    system_text,
    worded,
)
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
    split,
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
SPELLING = Spelling(re.compile(r"[a-zA-Z0-9_-]+"), re.compile(r"[a-zA-Z0-9_-]{1,128}"))
THINKING = ("thinking", "redacted_thinking")
OPENING: Record = {"role": "user", "content": "(The conversation so far is not shown.)"}
"""Stands before a view that begins with an answer: the API wants the user to begin."""


@overload
def load(value: list[Any] | tuple[Any, ...]) -> list[Message]: ...
@overload
def load(value: Mapping[str, Any] | SdkObject) -> Message: ...
def load(value: Any) -> Message | list[Message]:
    """Return a message of a request, or a reply of the API, as a Message; a list of them as a list.

    A reply's id becomes the event id and its stop reason `stop`; its model and usage stay in
    `extra["anthropic"]["$reply"]` and are never sent back.
    """
    if isinstance(value, (list, tuple)):
        return [_load(item, f"messages[{place}]") for place, item in enumerate(value)]
    return _load(value, "The message")


def load_request(kwargs: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a request, its `system` first."""
    written: list[Any] = asked(kwargs, "messages", list, tuple)
    messages = load(written)
    if kwargs.get("system") is None:
        return messages
    system = _load({"role": "system", "content": kwargs["system"]}, "The request")
    notes = {key: note for key, note in WIRE.notes(system).items() if key != "$role"}
    return [replace(system, extra={WIRE.name: notes} if notes else {}), *messages]


def dump(
    messages: Context | Sequence[Message],
    *,
    system: System = None,
    model: str | None = None,
    keep_cache_markers: bool = False,
) -> dict[str, Any]:
    """Return the `messages` of a call, and its `system` if there is any.

    Messages of one role in a row become one, and a user's text begins with the speaker's name. Cache markers (`cache_control`) are dropped: those of old turns add
    up, and the API refuses more than four. A message of which this API can express nothing is left out. Calls must
    be answered already, as in the messages of a `Context`.

    `system` is your own system prompt, a text or blocks: it comes first, with its cache markers, and what the messages
    say as `system` follows. `model` is the model that is asked: thinking of other models is left out.
    """
    known_to = of_model(messages_of(messages), model or model_of(messages))
    said = [SPELLING.message(message) for message in introduced(answering(known_to))]
    sent = [message for message in said if not _beside(message) and not is_whole(message, WIRE.name)]
    alone = [one for message in sent for one in (split(message) if message.role == "assistant" else [message])]
    body, moved = _placed(_spoken(map(dump_message, alone)))
    stored = [*(_content(message) for message in said if _beside(message)), *moved]
    if not keep_cache_markers:
        body, stored = unmarked(body), unmarked(stored)
    own = system_text(system)
    others = (each for each in stored if not own or system_text(_texts(each)) != own)
    prompt = _system([_given(system), *others])
    return sendable({"system": prompt, "messages": body} if prompt else {"messages": body})


def dump_message(message: Message) -> Record:
    """Return one message as it came, cache markers included."""
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
    """Tell whether the message belongs into `system`, not among the messages."""
    return message.role in ("system", "developer") and "$role" not in WIRE.notes(message)


def _given(system: System) -> Any:
    """Return a host's system prompt as the API takes it."""
    return system if isinstance(system, str) or not system_text(system) else [dict(block) for block in system or ()]


def _system(contents: Iterable[Any]) -> Any:
    worth = [content for content in contents if (content if worded(content) else _texts(content))]
    if len(worth) == 1 and (isinstance(worth[0], str) or _texts(worth[0]) == worth[0]):
        return worth[0]
    return [block for content in worth for block in _texts(content)]


def _texts(content: Any) -> list[Record]:
    return [block for block in blocks_in(content, "text") if block["type"] == "text" and worded(block.get("text"))]


def _spoken(records: Iterable[Record]) -> list[Record]:
    """Return the records without what the API refuses, in turns."""
    turns = [_unfinished(turn) for turn in _turns(map(_fitting, records))]
    return _turns(turns)


def _turns(records: Iterable[Record]) -> list[Record]:
    """Join neighbours of one role into one record; drop those without content."""
    turns: list[Record] = []
    for record in records:
        if not record["content"]:
            continue
        if turns and turns[-1]["role"] == record["role"]:
            both = [*_blocks(turns[-1]), *_blocks(record)]
            turns[-1] = {"role": record["role"], "content": _results_first(both)}
        else:
            turns.append(record)
    return turns


def _blocks(record: Record) -> list[Record]:
    return blocks_in(record["content"], "text")


def _fitting(record: Record) -> Record:
    role = record["role"] if record["role"] in ("assistant", "system") else "user"
    content = record.get("content")
    if not worded(content):
        blocks = [_bounded(block) for block in blocks_in(content, "text") if _allowed(block, role)]
        content = _results_first(blocks)
    return record | {"role": role, "content": content}


def _results_first(blocks: list[Record]) -> list[Record]:
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _bounded(block: Record) -> Record:
    """Reduce a result to what the API takes inside one."""
    if block["type"] != "tool_result" or isinstance(content := block.get("content", ""), str):
        return block
    kept = [inner for inner in blocks_in(content, "text") if _allowed(inner, "user")]
    return block if kept == content else block | {"content": kept}


def _allowed(block: Record, role: str) -> bool:
    match block["type"]:
        case "text":
            return worded(block.get("text"))
        case "thinking":
            # Without a signature it cannot be Claude's own.
            return role == "assistant" and isinstance(block.get("signature"), str)
        case "redacted_thinking":
            return role == "assistant"
        case "tool_use":
            return role == "assistant" and isinstance(block.get("input"), dict)
        case "tool_result":
            return role == "user"
        case "image" | "document":
            return role == "user" and _readable(block)
        case kind if kind.endswith(("tool_use", "tool_result")):
            return role == "assistant"  # a tool of the server's, which answers in the same turn
        case _:
            return role != "system"


def _readable(block: Record) -> bool:
    match block.get("source"):
        case {"type": "base64", "media_type": mime, "data": str(data)}:
            return data != "" and mime in (PICTURES if block["type"] == "image" else ("application/pdf",))
        case {"type": "url", "url": str(url)}:
            return url.startswith(("https://", "http://"))
        case {"type": str(kind)}:
            return kind not in ("base64", "url")
        case _:
            return False


def _unfinished(turn: Record) -> Record:
    """Return the turn without thoughts at its end that led to nothing: the API refuses them."""
    blocks = _blocks(turn)
    while blocks and blocks[-1]["type"] in THINKING:
        blocks.pop()
    return turn if len(blocks) == len(_blocks(turn)) else turn | {"content": blocks}


def _placed(turns: list[Record]) -> tuple[list[Record], list[Any]]:
    """Return the turns in an order the API takes, and the system texts that had to leave it.

    A system text may stand between a user's turn and the answer to it, and nowhere else.
    """
    roles = ["", *(turn["role"] for turn in turns), "assistant"]
    stays = [
        roles[at] != "system" or (roles[at - 1], roles[at + 1]) == ("user", "assistant")
        for at in range(1, len(roles) - 1)
    ]
    body = _turns(turn for turn, stay in zip(turns, stays, strict=True) if stay)
    if body and body[0]["role"] == "assistant":
        body.insert(0, dict(OPENING))
    if body and body[-1]["role"] == "assistant":
        body[-1] = _trimmed(body[-1])
    return body, [turn["content"] for turn, stay in zip(turns, stays, strict=True) if not stay]


def _trimmed(turn: Record) -> Record:
    """Strip blanks at the end of the last turn, which the API refuses in an answer to be continued."""
    if isinstance(turn["content"], str):
        return turn | {"content": turn["content"].rstrip()}
    *before, last = turn["content"]
    if last["type"] != "text":
        return turn
    return turn | {"content": [*before, last | {"text": last["text"].rstrip()}]}


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
    """Return the block type for a file: the API takes images and PDFs."""
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
