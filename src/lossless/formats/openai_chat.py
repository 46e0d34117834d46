"""OpenAI's Chat Completions API, and the many servers that speak it: `messages` and a `ChatCompletion`.

A `tool` message holds one result. A refusal is a text, `reasoning_content` and `reasoning` (which some
servers send) are reasoning. Where messages of another format say more than this one can, the rest is left
out: a failed result looks like any other, and a picture inside a result or an answer is not shown.

What `dump` writes is taken by the API: nothing is empty, ids and names are of the length and letters it allows.
What is right already goes out as it came in, except for cache markers (`cache_control`, which some servers
hand on to Anthropic), which `dump` drops unless it is asked to keep them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, overload

from msgspec.structs import replace

from lossless.errors import InvalidInput
from lossless.formats.fit import (
    Spelling,
    System,
    answering,
    blocks_in,
    holds,
    is_picture,
    is_whole,
    joined,
    model_of,
    of_model,
    sendable,
    system_text,
    worded,
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
    dict_in,
    from_data_url,
    known,
    media,
    messages_of,
    read_record,
    result_parts,
    role_in,
    sound_of,
    sound_record,
    split,
    text_in,
    text_or_none,
    to_data_url,
    unmarked,
)
from lossless.model import Context, File, Message, Part, Reasoning, Text, ToolCall, ToolResult

WIRE = Wire(
    "openai_chat",
    "role name tool_call_id content refusal reasoning_content reasoning tool_calls id type function custom text"
    " image_url input_audio file url filename file_data arguments input data format",
)
MESSAGE = Content()
CALLING = Content(empty="null")
RESULT = Content(void="")

ROLES = ("user", "assistant", "system", "developer", "tool")
FIELDS = ("reasoning_content", "reasoning", "refusal")
"""What a message says outside of its content."""
SPELLING = Spelling(re.compile(r"(?s).{1,40}"), re.compile(r"[a-zA-Z0-9_-]{1,64}"))
NAME = re.compile(r"[^\s<|\\/>]{1,64}")
"""The names the API takes for a speaker."""


@overload
def load(value: list[Any] | tuple[Any, ...]) -> list[Message]: ...
@overload
def load(value: Mapping[str, Any] | SdkObject) -> Message: ...
def load(value: Any) -> Message | list[Message]:
    """Return a message of a request or of a completion as a Message; a list of them as a list.

    Of a whole `ChatCompletion` the first choice is the message, the completion's id the event id and its
    finish reason `stop`; the rest stays in `extra["openai_chat"]["$reply"]` and is never sent back.
    """
    if isinstance(value, (list, tuple)):
        return [_load(item, f"messages[{place}]") for place, item in enumerate(value)]
    return _load(value, "The message")


def load_request(kwargs: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a request."""
    messages: list[Any] = asked(kwargs, "messages", list, tuple)
    return load(messages)


def dump(
    messages: Context | Sequence[Message],
    *,
    system: System = None,
    model: str | None = None,
    keep_cache_markers: bool = False,
) -> dict[str, Any]:
    """Return the `messages` of a call.

    A message with several tool results becomes several. A message of which this API can express nothing
    is left out. Calls must be answered already, as in the messages of a `Context`.

    `system` is your own system prompt, a text or blocks of text: it is joined with the system messages at the start
    into one. `model` is the model that is asked: reasoning of other models is left out.
    """
    known_to = of_model(messages_of(messages), model or model_of(messages))
    said = [SPELLING.message(message) for message in answering(known_to)]
    alone = [one for message in said if not is_whole(message, WIRE.name) for one in split(message)]
    body = [_speaking(record, message) for message in alone if (record := _fitting(_dump(message))) is not None]
    return sendable({"messages": _prompted(body if keep_cache_markers else unmarked(body), system_text(system))})


def _prompted(body: list[Record], system: str) -> list[Record]:
    """Join the system messages at the start behind the host's own prompt."""
    if not worded(system):
        return body
    leading = list(takewhile(lambda record: record["role"] in ("system", "developer"), body))
    texts = (block["text"] for record in leading for block in blocks_in(record["content"], "text"))
    return [{"role": "system", "content": joined(system, texts)}, *body[len(leading) :]]


def _speaking(record: Record, message: Message) -> Record:
    """Return the record with the speaker's name as the API takes it: other characters become `_`."""
    if record["role"] in ("tool", "function") or (name := record.get("name") or message.name) is None:
        return record
    spelled = re.sub(r"[\s<|\\/>]+", "_", name)[:64] if isinstance(name, str) else ""
    if spelled == record.get("name"):
        return record
    others = {key: value for key, value in record.items() if key != "name"}
    return WIRE.arrange(others | {"name": spelled}) if spelled else others


def dump_message(message: Message) -> Record:
    """Return one message as it came."""
    if len(split(message)) > 1:
        raise InvalidInput("This message becomes several in OpenAI's chat format.", hint="Use dump().")
    return _dump(message)


def _dump(message: Message) -> Record:
    if message.parts and "$whole" in WIRE.notes(message.parts[0]):
        whole: Record = _emit(message.parts[0])
        return whole
    return WIRE.restore(_bare_message(message), WIRE.notes(message))


def _load(value: Any, where: str) -> Message:
    record = read_record(value, where, _tidy)
    if "choices" in record:
        return _completion(record, where)
    role = role_in(record, where)
    try:
        message = _read(record, role)
        kept = WIRE.settle(message, record, _bare_message)
    except Odd:
        kept = None
    return kept or Message(role, (WIRE.opaque(record, whole=True),))


def _read(record: Record, role: str) -> Message:
    content = record.get("content", ABSENT)
    parts = WIRE.unfold(content, _part)
    if role != "user":
        parts = tuple(_marked(part) for part in parts)
    calls = [] if role == "tool" else _calls(record)
    how = CALLING if calls else RESULT if role == "tool" else MESSAGE
    extra = WIRE.extra(role=None if role in ROLES else role, shape=WIRE.shape(content, parts, _emit, how))
    name = text_or_none(record, "name")
    if role == "tool":
        parts = (ToolResult(text_in(record, "tool_call_id", ""), result_parts(parts), name),)
        name = None
    keys = () if role == "tool" else FIELDS
    fields = [_field(key, record[key]) for key in keys if isinstance(record.get(key), str)]
    before = [part for part in fields if isinstance(part, Reasoning)]
    after = [part for part in fields if isinstance(part, Text)]
    return Message(role, (*before, *parts, *after, *calls), name=name, extra=extra if extra[WIRE.name] else {})


def _completion(record: Record, where: str) -> Message:
    choices = record.pop("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        raise InvalidInput(f'{where} has nothing under "choices": a list of choices was expected.')
    first, others = choices[0], choices[1:]
    said = first.pop("message", None)
    name, stop = record.pop("id", None), first.pop("finish_reason", None)
    about = record | {"choice": WIRE.tidy(first), "choices": others or None}
    said = _tidy(said) if isinstance(said, dict) else said
    if isinstance(said, dict) and isinstance(role := said.get("role"), str) and not role.replace("assistant", ""):
        # Ollama repeats the role in every chunk of a stream, and the SDK joins them to "assistantassistant".
        said["role"] = "assistant"
    if isinstance(said, dict) and isinstance(audio := said.get("audio"), dict):
        # The API takes back the id of what it said aloud, not the sound.
        about["audio"], said["audio"] = audio, {"id": audio.get("id")}
    message = _load(said, f"{where}.choices[0].message")
    notes = WIRE.notes(message) | WIRE.extra(reply=WIRE.tidy(about))[WIRE.name]
    return replace(message, event_id=known(name), stop=known(stop), extra={WIRE.name: notes})


def _tidy(record: Record) -> Record:
    if "choices" in record:
        return record
    tidied = WIRE.tidy(record)
    if "role" in tidied:
        tidied = WIRE.arrange({"content": None} | tidied)
    if not tidied.get("annotations", True):
        del tidied["annotations"]
    if isinstance(calls := tidied.get("tool_calls"), list):
        tidied["tool_calls"] = [_tidy(call) if isinstance(call, dict) else call for call in calls]
    inner = {key: tidied[key] for key in ("function", "custom") if isinstance(tidied.get(key), dict)}
    return tidied | {key: WIRE.tidy(value) for key, value in inner.items()}


def _marked(part: Part) -> Part:
    """Mark a file where the API does not expect one: it may only go back where it came from."""
    return replace(part, extra=WIRE.extra() | part.extra) if isinstance(part, File) else part


def _field(key: str, said: str) -> Part:
    extra = WIRE.extra(field=key)
    return Text(said, extra) if key == "refusal" else Reasoning(said, None, extra)


def _fitting(record: Record) -> Record | None:
    """Return the record without what the API refuses, or None if nothing is left of it."""
    role = record["role"] if record["role"] in (*ROLES, "function") else "user"
    content = _fitting_content(record.get("content"), role)
    if role in ("tool", "function"):
        content = "" if content is None else content
    elif role == "assistant":
        return _answer(record, content)
    elif content is None:
        return None
    kept = {key: value for key, value in record.items() if key != "tool_calls"}
    return kept | {"role": role, "content": content}


def _fitting_content(content: Any, role: str) -> Any:
    """Return the content as the role may have it, or None if that is nothing."""
    if isinstance(content, str):
        return content if worded(content) else None
    kept = [part for part in blocks_in(content, "text") if _allowed(part, role)]
    return (content if kept == content else kept) or None


def _allowed(part: Record, role: str) -> bool:
    match part:
        case {"type": "text"}:
            return worded(part.get("text"))
        case {"type": "refusal"}:
            return role == "assistant" and worded(part.get("refusal"))
        case {"type": "image_url", "image_url": {"url": url}}:
            return role == "user" and is_picture(url)
        case {"type": "input_audio", "input_audio": {"format": "wav" | "mp3", "data": data}}:
            return role == "user" and holds(data)
        case {"type": "file", "file": {"file_data": str(data)}}:
            return role == "user" and holds(data)
        case {"type": "file", "file": {"file_id": str()}}:
            return role == "user"
        case _:
            return role in ("user", "assistant") and part["type"] not in ("image_url", "input_audio", "file")


def _answer(record: Record, content: Any) -> Record | None:
    calls = [call for call in record.get("tool_calls") or () if _callable(call)]
    if calls:
        said = content or ("" if record.get("content") == "" else None)
        return record | {"tool_calls": calls} | ({"content": said} if said != record.get("content") else {})
    kept = {key: value for key, value in record.items() if key != "tool_calls"}
    if content is None and worded(record.get("refusal")):
        del kept["refusal"]
        content = [{"type": "refusal", "refusal": record["refusal"]}]
    if content is not None:
        return kept | {"content": content}
    return kept if record.get("function_call") or record.get("audio") else None


def _callable(call: Any) -> bool:
    if not isinstance(call, dict):
        return False
    inner = call.get("custom" if call.get("type") == "custom" else "function")
    return isinstance(inner, dict) and isinstance(inner.get("name"), str) and worded(call.get("id"))


def _bare_message(message: Message) -> Record:
    notes = WIRE.notes(message)
    bare: Record = {"role": notes.get("$role") or _role(message)}
    if message.name is not None and NAME.fullmatch(message.name):
        bare["name"] = message.name
    inner, how = message.parts, MESSAGE
    if inner and isinstance(result := inner[0], ToolResult):
        bare["tool_call_id"] = result.call_id
        inner, how = result.parts, RESULT
    calls = [call for part in inner if _is_call(part) and (call := _emit(part)) is not ABSENT]
    body = [part for part in inner if _in_content(part, bare["role"])]
    content = WIRE.fold(body, _emit, CALLING if calls else how, notes.get("$shape"))
    if content is not ABSENT:
        bare["content"] = content
    bare |= _fields(inner)
    return bare | {"tool_calls": calls} if calls else bare


def _role(message: Message) -> str:
    answers = any(isinstance(part, ToolResult) for part in message.parts)
    return message.role if message.role in ROLES and (answers or message.role != "tool") else "user"


def _fields(parts: Sequence[Part]) -> Record:
    found = [part for part in parts if isinstance(part, (Text, Reasoning)) and "$field" in WIRE.notes(part)]
    return {WIRE.notes(part)["$field"]: part.text for part in found}


def _in_content(part: Part, role: str) -> bool:
    if isinstance(part, File):
        return role == "user" or WIRE.native(part)
    return not _is_call(part) and "$field" not in WIRE.notes(part)


def _is_call(part: Part) -> bool:
    return isinstance(part, ToolCall) or WIRE.notes(part).get("$field") == "tool_calls"


def _emit(part: Part) -> Any:
    return WIRE.emit(part, _bare)


def _bare(part: Part) -> Record | None:
    match part:
        case Text(text):
            return (
                {"type": "refusal", "refusal": text}
                if WIRE.notes(part).get("$type")
                else {"type": "text", "text": text}
            )
        case ToolCall(call_id, name, arguments) if WIRE.notes(part).get("$type") == "custom":
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
        case ToolCall(call_id, name, arguments):
            kind = {} if WIRE.notes(part).get("$type") else {"type": "function"}
            return {"id": call_id} | kind | {"function": {"name": name, "arguments": arguments}}
        case File():
            return _bare_file(part)
        case _:
            return None


def _bare_file(part: File) -> Record | None:
    match WIRE.notes(part).get("$type") or _kind(part), part:
        case "image_url", File(mime, _, str(data)):
            return {"type": "image_url", "image_url": {"url": to_data_url(mime, data)}}
        case "image_url", File(url=str(url)):
            return {"type": "image_url", "image_url": {"url": url}}
        case "input_audio", File(str(mime), _, str(data)):
            return sound_record(mime, data)
        case "file", File(mime, name, data):
            inline = {} if data is None else {"file_data": to_data_url(mime, data)}
            return {"type": "file", "file": inline if name is None else {"filename": name} | inline}
        case _:
            return None


def _kind(file: File) -> str | None:
    """Return the part type for a file; a document is only taken inline."""
    if (kind := media(file)) == "document":
        return None if file.data is None else "file"
    return {"image": "image_url", "audio": "input_audio"}[kind]


def _part(block: Record) -> Part:
    return WIRE.part(block, _READERS, _bare)


def _calls(record: Record) -> list[Part]:
    calls = record.get("tool_calls")
    if not isinstance(calls, list):
        return []
    return [_call(call) for call in calls]


def _call(record: Any) -> Part:
    if not isinstance(record, dict):
        return WIRE.opaque(record, field="tool_calls")
    return WIRE.part(record, _CALLS, _bare, field="tool_calls")


def _load_call(record: Record) -> ToolCall:
    inner = dict_in(record, "function")
    name, text = text_in(inner, "name", ""), text_in(inner, "arguments", "")
    extra = {} if "type" in record else WIRE.extra(type="untyped")
    return ToolCall(text_in(record, "id", ""), name, text, extra)


def _load_custom(record: Record) -> ToolCall:
    inner = dict_in(record, "custom")
    name, text = text_in(inner, "name", ""), text_in(inner, "input", "")
    return ToolCall(text_in(record, "id", ""), name, text, WIRE.extra(type="custom"))


def _load_image(block: Record) -> File:
    url = text_in(dict_in(block, "image_url"), "url")
    inline = from_data_url(url)
    return _typed(File(inline[0], None, inline[1]) if inline else File(url=url), "image_url")


def _load_file(block: Record) -> File:
    file = dict_in(block, "file")
    data = text_or_none(file, "file_data")
    mime, data = (data and from_data_url(data)) or (None, data)
    return _typed(File(mime, text_or_none(file, "filename"), data), "file")


def _typed(file: File, kind: str) -> File:
    return file if _kind(file) == kind else replace(file, extra=WIRE.extra(type=kind))


_READERS: Readers = {
    "text": lambda block: Text(text_in(block, "text")),
    "refusal": lambda block: Text(text_in(block, "refusal"), WIRE.extra(type="refusal")),
    "image_url": _load_image,
    "input_audio": lambda block: _typed(sound_of(block), "input_audio"),
    "file": _load_file,
}
_CALLS: Readers = {"function": _load_call, "": _load_call, "custom": _load_custom}
