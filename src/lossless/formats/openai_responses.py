"""OpenAI's Responses API: `input` items and `instructions`, and the `Response` it replies with.

Everything a model produced in a row (reasoning, texts, calls) is one message, its parts in the order of the
items; a call's output is a message of role `tool`; any other item is a message of its own. System text
at the very start becomes `instructions`, unless it came in as an item. A text given as `input` goes out as
the one item it stands for.

What `dump` writes is taken by the API: nothing is empty, no id stands twice, and reasoning goes only together
with the item it led to. What is right already goes out as it came in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, overload

from msgspec.structs import replace

from lossless.formats.fit import (
    Spelling,
    System,
    blocks_in,
    holds,
    introduced,
    is_picture,
    joined,
    model_of,
    of_model,
    sendable,
    system_text,
    unnoted,
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
    from_data_url,
    known,
    media,
    messages_of,
    read_record,
    result_parts,
    role_in,
    same,
    sound_of,
    sound_record,
    text_in,
    text_or_none,
    to_data_url,
)
from lossless.model import Context, Extra, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

WIRE = Wire(
    "openai_responses",
    "type id role status call_id name arguments input output summary encrypted_content content text annotations"
    " refusal image_url filename file_data file_url detail input_audio data format",
)
MESSAGE = Content(void=[])
OUTPUT = Content(void="")
SPELLING = Spelling(re.compile(r"(?s).{1,64}"), re.compile(r"[a-zA-Z0-9_-]{1,64}"))
SAID = (Text, File, Opaque)
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = tuple(f"{call}_output" for call in CALLS)
ECHOED = ("id", "object", "status", "output", "instructions", "tools")
"""What of a response is kept elsewhere, or only repeats the request."""


@overload
def load(value: list[Any] | tuple[Any, ...]) -> list[Message]: ...
@overload
def load(value: Mapping[str, Any] | SdkObject) -> Message: ...
def load(value: Any) -> Message | list[Message]:
    """Return an item or a `Response` as a Message; a list of items as a list of messages.

    A response's id becomes the event id and its status `stop`; its model, usage and so on stay in
    `extra["openai_responses"]["$reply"]` and are never sent back.
    """
    if isinstance(value, (list, tuple)):
        return _load(value, "input[{}]")
    return _load([value], "The item")[0]


def load_request(kwargs: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a request: its `instructions` as a system message, then its `input`."""
    said = asked(kwargs, "input", str, list, tuple)
    messages = [Message.user(said)] if isinstance(said, str) else load(said)
    instructions = kwargs.get("instructions")
    return [Message.system(instructions), *messages] if isinstance(instructions, str) else messages


def dump(messages: Context | Sequence[Message], *, system: System = None, model: str | None = None) -> dict[str, Any]:
    """Return the `input` of a call, and its `instructions` if there are any.

    What this API can express nothing of is left out; a user's text begins with the speaker's name. Calls must be answered already, as in the messages of a
    `Context`. `system` is your own system prompt: it comes first in the instructions. `model` is the model that is
    asked: reasoning of other models is left out.
    """
    known_to = of_model(messages_of(messages), model or model_of(messages))
    said = [SPELLING.message(message) for message in introduced(known_to)]
    named = list(takewhile(_instructs, said))
    items = [item for message in said[len(named) :] for each in dump_items(message) for item in _fitting(each)]
    instructions = joined(system_text(system), (message.text for message in named))
    body = {"input": _led(_once(_answered(items)))}
    return sendable({"instructions": instructions} | body if instructions else body)


def dump_items(message: Message) -> list[Record]:
    """Return the items of one message as they came."""
    if message.role == "assistant":
        return _produced(message.parts)
    items = [item for part in message.parts if _alone(part) and (item := _emit(part)) is not ABSENT]
    rest = replace(message, parts=tuple(part for part in message.parts if isinstance(part, SAID) and not _alone(part)))
    if "$shape" in WIRE.notes(message) or any(_emit(part) is not ABSENT for part in rest.parts):
        items.append(WIRE.restore(_bare_message(rest), WIRE.notes(message)))
    return items


def _alone(part: Part) -> bool:
    return isinstance(part, ToolResult) or "$whole" in WIRE.notes(part)


def _load(values: Sequence[Any], where: str) -> list[Message]:
    messages: list[Message] = []
    run: list[Part] = []
    for place, value in enumerate(values):
        record = read_record(value, where.format(place), _tidy)
        if (side := _side(record, where.format(place))) == "assistant":
            run += _pieces(record)
            continue
        messages += [Message("assistant", tuple(run))] if run else []
        run = []
        messages.append(_response(record) if side == "response" else _message(record, side))
    return [*messages, Message("assistant", tuple(run))] if run else messages


def _side(record: Record, where: str) -> str:
    """Return the role an item belongs to."""
    kind, role = record.get("type"), record.get("role")
    if kind is None and (record.get("object") == "response" or isinstance(record.get("output"), list)):
        return "response"
    if kind is None or kind == "message":
        return role_in(record, where)
    if isinstance(kind, str) and kind.endswith("_output"):
        return "tool"
    if kind == "mcp_approval_response":
        return "user"
    return role if isinstance(role, str) else "assistant"


def _response(record: Record) -> Message:
    output = record.get("output")
    items = output if isinstance(output, list) else []
    about = {key: value for key, value in record.items() if value is not None and key not in ECHOED}
    return Message(
        "assistant",
        tuple(part for item in items for part in _pieces(_tidy(item))),
        event_id=known(record.get("id")),
        stop=known(record.get("status")),
        extra=WIRE.extra(reply=about),
    )


def _message(record: Record, role: str) -> Message:
    """Return an item that is a message of its own."""
    placed: Extra = WIRE.extra(role=role) if role == "system" else {}
    whole = Message(role, (WIRE.opaque(record, whole=True),), extra=placed)
    if role == "tool" and isinstance(record.get("type"), str) and record["type"] != "message":
        part = _piece(record)
        return Message(role, (part,)) if isinstance(part, ToolResult) else whole
    if record.get("type") not in (None, "message"):
        return whole
    content = record.get("content", ABSENT)
    parts = WIRE.unfold(content, partial(_part, role=role), _text)
    extra = WIRE.extra(
        role=None if role in ("user", "developer") else role,
        shape=WIRE.shape(content, parts, partial(_emit, role=role), MESSAGE),
    )
    message = Message(role, parts, extra=extra if extra[WIRE.name] else {})
    return WIRE.settle(message, record, _bare_message) or whole


def _pieces(record: Any) -> list[Part]:
    """Return the parts of an item that a model produced."""
    if not isinstance(record, dict):
        return [WIRE.opaque(record)]
    if record.get("type") not in (None, "message"):
        return [_piece(record)]
    content = record.get("content", ABSENT)
    parts = WIRE.unfold(content, partial(_part, role="assistant"), _text)
    shape = WIRE.shape(content, parts, partial(_emit, role="assistant"), MESSAGE)
    about = WIRE.extra(shape=shape)[WIRE.name]
    about |= WIRE.remember(record, _bare_item(parts, about))
    marked = [
        _noted(part, "$joined" if place else "$item", True if place else about) for place, part in enumerate(parts)
    ]
    if len(parts) == 1 and isinstance(parts[0], Text) and not about:
        marked = list(parts)
    return marked if same(_produced(marked), [record]) else [WIRE.opaque(record)]


def _piece(record: Record) -> Part:
    if str(record.get("type")).endswith("_output"):
        return WIRE.part(record, {record["type"]: _load_output}, _bare)
    return WIRE.part(record, _READERS, _bare)


def _noted(part: Part, key: str, note: Any) -> Part:
    return replace(part, extra=part.extra | {WIRE.name: WIRE.notes(part) | {key: note}})


def _produced(parts: Iterable[Part]) -> list[Record]:
    """Return the items of an assistant's parts: those of one text item together, any other alone."""
    groups: list[list[Part]] = []
    for part in parts:
        if "$joined" in WIRE.notes(part) and groups:
            groups[-1].append(part)
        else:
            groups.append([part])
    return [item for group in groups if (item := _item(group)) is not ABSENT]


def _item(group: Sequence[Part]) -> Any:
    notes = WIRE.notes(group[0])
    if not ({"$item", "$joined"} & notes.keys() or isinstance(group[0], Text)):
        return ABSENT if isinstance(group[0], File) else _emit(group[0])
    parts = [unnoted(part, "$item", "$joined") for part in group]
    if not any(_emit(part, "assistant") is not ABSENT for part in parts):
        return ABSENT
    about: Extra = notes.get("$item", {})
    return WIRE.restore(_bare_item(parts, about), about)


def _bare_item(parts: Sequence[Part], about: Extra) -> Record:
    content = WIRE.fold(parts, partial(_emit, role="assistant"), MESSAGE, about.get("$shape"))
    return {"role": "assistant"} if content is ABSENT else {"role": "assistant", "content": content}


def _tidy(record: Any) -> Any:
    if not isinstance(record, dict) or record.get("type") not in ("message", *_READERS):
        return record
    tidied = WIRE.tidy(record)
    if isinstance(content := tidied.get("content"), list):
        tidied["content"] = [WIRE.tidy(block) if isinstance(block, dict) else block for block in content]
    return tidied


def _fitting(item: Any) -> list[Record]:
    """Return the item without what the API refuses: one, or none."""
    if not isinstance(item, dict):
        return []
    kind = item.get("type", "message")
    if kind == "message" or not isinstance(kind, str):
        role = item["role"] if item.get("role") in ("user", "assistant", "system", "developer") else "user"
        content = _fitting_content(item.get("content"), role)
        return [item | {"role": role, "content": content}] if content else []
    if kind in (*CALLS, *OUTPUTS) and not worded(item.get("call_id")):
        return []
    if kind in OUTPUTS:
        return [item | {"output": _fitting_content(item.get("output"), "user") or ""}]
    return [item]


def _fitting_content(content: Any, role: str) -> Any:
    if isinstance(content, str):
        return content if worded(content) else None
    kept = [_texted(block, role) for block in blocks_in(content, "input_text") if _allowed(block, role)]
    return content if kept == content else kept


def _texted(block: Record, role: str) -> Record:
    if block["type"] in ("input_text", "output_text", "text") and block["type"] != _kind_of_text(role):
        return {"type": _kind_of_text(role), "text": block["text"]}
    return block


def _allowed(block: Record, role: str) -> bool:
    match block["type"]:
        case "input_text" | "output_text" | "text":
            return worded(block.get("text"))
        case "refusal":
            return role == "assistant" and worded(block.get("refusal"))
        case "input_image":
            return role == "user" and bool(block.get("file_id") or is_picture(block.get("image_url")))
        case "input_file":
            return role == "user" and bool(
                holds(block.get("file_data")) or block.get("file_url") or block.get("file_id")
            )
        case "input_audio":
            return False
        case _:
            return role == "user"


def _once(items: list[Record]) -> list[Record]:
    """Return the items without repeated ids: an item that comes again gets no id."""
    seen: set[str] = set()
    kept: list[Record] = []
    for item in items:
        name = known(item.get("id"))
        if name not in seen:
            kept.append(item)
        elif item.get("type", "message") in ("message", "reasoning", *CALLS, *OUTPUTS):
            kept.append(_anonymous(item))
        seen |= {name} if name else set()
    return kept


def _answered(items: list[Record]) -> list[Record]:
    """Return the items, each output of the type of its call, whichever API wrote it."""
    kinds = {item["call_id"]: item["type"] for item in items if _is_call(item)}
    return [
        item | {"type": f"{kinds[item['call_id']]}_output"}
        if item.get("type") in OUTPUTS and item["call_id"] in kinds
        else item
        for item in items
    ]


def _is_call(item: Record) -> bool:
    return str(item.get("type")).endswith("_call") and isinstance(item.get("call_id"), str)


def _anonymous(item: Record) -> Record:
    return {key: value for key, value in item.items() if key not in ("id", "status")}


def _led(items: list[Record]) -> list[Record]:
    """Return the items without reasoning that led to none of them; what it did lead to is sent without an id.

    Reasoning with an id wants the item the model said next, with its id; and that one wants its reasoning.
    """
    kept: list[Record] = []
    for item in reversed(items):
        if item.get("type") != "reasoning" or (kept and _leads(item, kept[-1])):
            kept.append(item)
            continue
        for place in range(len(kept) - 1, -1, -1):
            if kept[place].get("type") == "reasoning" or not _is_produced(kept[place]):
                break
            if kept[place].get("type", "message") in ("message", *CALLS):
                kept[place] = _anonymous(kept[place])
    return kept[::-1]


def _leads(reasoning: Record, item: Record) -> bool:
    replayable = isinstance(reasoning.get("summary"), list) and (
        reasoning.get("id") or reasoning.get("encrypted_content")
    )
    return bool(replayable and _is_produced(item) and (item.get("id") or not reasoning.get("id")))


def _is_produced(item: Record) -> bool:
    """Tell whether a model made the item."""
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else not str(kind).endswith("_output")


def _instructs(message: Message) -> bool:
    return message.role == "system" and "$role" not in WIRE.notes(message)


def _bare_message(message: Message) -> Record:
    notes = WIRE.notes(message)
    role = notes.get("$role") or (message.role if message.role in ("developer", "system") else "user")
    content = WIRE.fold(message.parts, partial(_emit, role=message.role), MESSAGE, notes.get("$shape"))
    return {"role": role} if content is ABSENT else {"role": role, "content": content}


def _emit(part: Part, role: str = "user") -> Any:
    return WIRE.emit(part, partial(_bare, role=role))


def _bare(part: Part, role: str = "user") -> Record | None:
    notes = WIRE.notes(part)
    match part:
        case Text(text):
            kind = notes.get("$type") or _kind_of_text(role)
            said = {"type": kind, "refusal" if kind == "refusal" else "text": text}
            return said if text or WIRE.native(part) else None
        case Reasoning(_, signature) if WIRE.native(part):
            return {"type": "reasoning"} | ({} if signature is None else {"encrypted_content": signature})
        case ToolCall(call_id, name, arguments) if notes.get("$type") == "custom_tool_call":
            return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": arguments}
        case ToolCall(call_id, name, arguments):
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case ToolResult(call_id, parts):
            output = WIRE.fold(parts, _emit, OUTPUT, notes.get("$shape"))
            bare = {"type": notes.get("$type", "function_call_output"), "call_id": call_id}
            return bare if output is ABSENT else bare | {"output": output}
        case File():
            return _bare_file(part)
        case _:
            return None


def _bare_file(part: File) -> Record | None:
    match WIRE.notes(part).get("$type") or _kind(part), part:
        case "input_image", File(mime, _, str(data)):
            return {"type": "input_image", "image_url": to_data_url(mime, data)}
        case "input_image", File(url=str(url)):
            return {"type": "input_image", "image_url": url}
        case "input_image", _ if WIRE.native(part):
            return {"type": "input_image"}
        case "input_audio", File(str(mime), _, str(data)):
            return sound_record(mime, data)
        case "input_file", File(mime, name, data, url) if data or url or WIRE.native(part):
            named = {} if name is None else {"filename": name}
            inline = {} if data is None else {"file_data": to_data_url(mime, data)}
            return {"type": "input_file"} | named | inline | ({} if url is None else {"file_url": url})
        case _:
            return None


def _kind(file: File) -> str:
    return {"image": "input_image", "audio": "input_audio", "document": "input_file"}[media(file)]


def _part(block: Record, role: str = "user") -> Part:
    return WIRE.part(block, _BLOCKS | {_kind_of_text(role): _load_text}, partial(_bare, role=role))


def _kind_of_text(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"


def _load_text(block: Record) -> Text:
    return _text(text_in(block, "text"))


def _load_other_text(block: Record) -> Text:
    return Text(text_in(block, "refusal" if block["type"] == "refusal" else "text"), WIRE.extra(type=block["type"]))


def _text(text: str) -> Text:
    return Text(text, {} if text else WIRE.extra())


def _load_reasoning(item: Record) -> Reasoning:
    lists = [item[key] for key in ("summary", "content") if isinstance(item.get(key), list)]
    texts = [part["text"] for named in lists for part in named if isinstance(part, dict) and known(part.get("text"))]
    return Reasoning("\n\n".join(texts), text_or_none(item, "encrypted_content"), WIRE.extra())


def _load_call(item: Record) -> ToolCall:
    custom = item["type"] == "custom_tool_call"
    arguments = text_in(item, "input" if custom else "arguments", "")
    extra = WIRE.extra(type=item["type"]) if custom else {}
    return ToolCall(text_in(item, "call_id", ""), text_in(item, "name", ""), arguments, extra)


def _load_output(item: Record) -> ToolResult:
    kind, output = item["type"], item.get("output", ABSENT)
    parts = result_parts(WIRE.unfold(output, _part, _text))
    extra = WIRE.extra(
        type=None if kind == "function_call_output" else kind, shape=WIRE.shape(output, parts, _emit, OUTPUT)
    )
    name = known(item.get("name"))
    return ToolResult(text_in(item, "call_id"), parts, name, extra=extra if extra[WIRE.name] else {})


def _load_image(block: Record) -> File:
    url = text_or_none(block, "image_url")
    inline = from_data_url(url or "")
    return _typed(File(inline[0], None, inline[1]) if inline else File(url=url), "input_image")


def _load_file(block: Record) -> File:
    data = text_or_none(block, "file_data")
    mime, data = (data and from_data_url(data)) or (None, data)
    return _typed(File(mime, text_or_none(block, "filename"), data, text_or_none(block, "file_url")), "input_file")


def _typed(file: File, kind: str) -> File:
    usual = _kind(file) == kind and (file.data or file.url)
    return file if usual else replace(file, extra=WIRE.extra(type=kind))


_READERS: Readers = {
    "reasoning": _load_reasoning,
    "function_call": _load_call,
    "custom_tool_call": _load_call,
}
_BLOCKS: dict[str, Callable[[Record], Part]] = {
    **dict.fromkeys(("input_text", "output_text", "text", "refusal"), _load_other_text),
    "input_image": _load_image,
    "input_audio": lambda block: _typed(sound_of(block), "input_audio"),
    "input_file": _load_file,
}
