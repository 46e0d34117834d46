"""Contents that a provider refused: read its error, find the parts, and leave them out.

Pure. Stored messages do not change: the next requests leave the parts out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from msgspec import Struct, ValidationError, convert, field, structs, to_builtins

from lossless.formats import anthropic, openai_chat, openai_responses
from lossless.formats.fit import asked_by, without_thinking
from lossless.formats.wire import media
from lossless.model import File, Message, Opaque, Part, Rejection, Text, ToolResult

Kind: TypeAlias = Literal["thinking", "picture", "file", "call", "message"]

NOTE = "[lossless] Left out: the provider refused this {}."
"""The text in place of a content that cannot be sent."""
_MOST = 2_000
_PATH = re.compile(r"\b(messages|input)((?:\.?\[\d+\]|\.\w+)+)")
_STEP = re.compile(r"\d+|[A-Za-z_]\w*")
_NAME = re.compile(r"[\w:.|-]*\w")
_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("thinking", re.compile(r"thinking|signature|reasoning|encrypted.content", re.I)),
    ("picture", re.compile(r"image|picture|pixel", re.I)),
    ("call", re.compile(r"tool_(?:use|result)|tool.calls?|function_call|call_id", re.I)),
    ("file", re.compile(r"document|pdf|\bfile|audio", re.I)),
)
_TYPES: dict[str, Kind] = {
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), "thinking"),
    **dict.fromkeys(("image", "image_url", "input_image"), "picture"),
    **dict.fromkeys(("document", "file", "input_file", "input_audio"), "file"),
    **dict.fromkeys(("tool_use", "tool_result", "function", "custom"), "call"),
}
_IDS = ("tool_use_id", "call_id", "tool_call_id", "id")


class Rejections(Struct, frozen=True, omit_defaults=True):
    """The contents left out of a conversation's requests because a provider refused them."""

    parts: dict[str, list[Kind]] = field(default_factory=dict)
    """Kinds of parts, by the digest of their message."""
    calls: list[str] = field(default_factory=list)
    """The ids of calls that are left out with their results."""


class SentMessage(Struct, frozen=True):
    """A message that was sent: its name, its digest, and its stored and sent forms."""

    name: str
    digest: str
    forms: tuple[Message, ...]


class ProviderError(Struct, frozen=True):
    """The facts that an error gives about a request."""

    text: str
    path: tuple[str | int, ...] = ()
    kind: Kind | None = None
    wire: str = "anthropic"
    request: Mapping[str, Any] | None = None
    """The request itself, if the error or the host provides it."""


class RejectedParts(Struct, frozen=True):
    """The parts to leave out, and their messages."""

    parts: tuple[tuple[str, Kind], ...] = ()
    calls: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    kind: Kind | None = None
    located: bool = True
    """False if the error names no place: then all parts of the kind are left out."""


def decode_rejections(state: Any) -> Rejections:
    """Decode stored rejections; return none if the state is not valid."""
    try:
        return convert(state, Rejections) if state is not None else Rejections()
    except ValidationError:
        return Rejections()


def add_rejected(known: Rejections, found: RejectedParts) -> Rejections:
    """Add parts to the rejections; drop the oldest if there are too many."""
    parts = {digest: list(kinds) for digest, kinds in known.parts.items()}
    for digest, kind in found.parts:
        kinds = parts.pop(digest, [])
        parts[digest] = kinds if kind in kinds else [*kinds, kind]
    calls = list(dict.fromkeys([*known.calls, *found.calls]))
    return Rejections(dict(list(parts.items())[-_MOST:]), calls[-_MOST:])


# reading the error


def parse_error(error: object, request: Mapping[str, Any] | None = None) -> ProviderError:
    """Parse a provider's error: an exception of its SDK, the body of its response, or a text."""
    body = _body(error)
    texts = list(dict.fromkeys([*_strings_under(body, ("message", "param", "code")), *_error_texts(error)]))
    text = "\n".join(texts)
    path = next((_steps(found) for found in _PATH.finditer(text) if any(map(str.isdigit, found[2]))), ())
    kind = next((kind for kind, words in _WORDS if words.search(text)), None)
    sent = request if request is not None else _request_of(error)
    return ProviderError(text, path, kind, _wire(error, body, text, path, sent), sent)


def _error_texts(error: object) -> Iterator[str]:
    if isinstance(error, BaseException):
        yield str(error)
    elif isinstance(error, (str, bytes)):
        yield error if isinstance(error, str) else error.decode("utf-8", "replace")


def _body(error: object) -> Any:
    found = getattr(error, "body", None) if isinstance(error, BaseException) else error
    if isinstance(found, (str, bytes)):
        with suppress(ValueError):
            return json.loads(found)
    return found


def _strings_under(value: Any, keys: Sequence[str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (value[key] for key in keys if isinstance(value.get(key), str))
        yield from _strings_under(value.get("error"), keys)


def _steps(found: re.Match[str]) -> tuple[str | int, ...]:
    steps = [int(step) if step.isdigit() else step for step in _STEP.findall(found[2])]
    return (found[1], *steps)


def _request_of(error: object) -> Mapping[str, Any] | None:
    """Return the request in an SDK's exception."""
    sent = getattr(error, "request", None) if isinstance(error, BaseException) else None
    # A streamed body cannot be read again, and one without JSON is not useful.
    with suppress(RuntimeError, ValueError):
        found = json.loads(getattr(sent, "content", b"") or b"null")
        return found if isinstance(found, dict) else None
    return None


def _wire(error: object, body: Any, text: str, path: Sequence[object], request: Mapping[str, Any] | None) -> str:
    """Return the format of a request, as far as the error shows it."""
    if path[:1] == ("input",) or (request is not None and "input" in request) or re.search(r"\b(?:rs|fc)_\w", text):
        return "openai_responses"
    if type(error).__module__.partition(".")[0] == "openai" or re.search(r"messages\.?\[", text):
        return "openai_chat"
    is_ours = isinstance(body, Mapping) and "param" in (body.get("error") or body)
    return "openai_chat" if is_ours else "anthropic"


# finding the parts


def locate(error_facts: ProviderError, sent: Sequence[SentMessage], messages: Sequence[Message]) -> RejectedParts:
    """Find the parts that the error names; `messages` are the request if the exact one is unknown."""
    if found := _find_by_id(error_facts, sent):
        return found
    exact = error_facts.request is not None
    request = error_facts.request if error_facts.request is not None else _dump(error_facts.wire, messages)
    if found := _find_by_path(error_facts, request, sent, exact=exact):
        return found
    if error_facts.kind not in ("thinking", "picture", "file"):
        return RejectedParts(kind=error_facts.kind, located=False)
    holding = [each for each in sent if any(_holds(form, error_facts.kind) for form in each.forms)]
    return _reject(holding, error_facts.kind, located=False)


def _dump(wire: str, messages: Sequence[Message]) -> Mapping[str, Any]:
    formats = {"anthropic": anthropic, "openai_chat": openai_chat, "openai_responses": openai_responses}
    request: Mapping[str, Any] = formats[wire].dump(list(messages))
    return request


def _reject(owners: Sequence[SentMessage], kind: Kind, *, located: bool = True) -> RejectedParts:
    return RejectedParts(
        tuple((each.digest, kind) for each in owners), (), tuple(each.name for each in owners), kind, located
    )


def _find_by_id(error_facts: ProviderError, sent: Sequence[SentMessage]) -> RejectedParts | None:
    """Return the parts that the error names by id: calls and results, or a reasoning item."""
    words = set(_NAME.findall(error_facts.text))
    calls = [
        (each, call_id) for each in sent for call_id in _calls_in(each) if words & {call_id, *_id_variants(call_id)}
    ]
    if calls:
        names = dict.fromkeys(each.name for each, _ in calls)
        return RejectedParts((), tuple(dict.fromkeys(call_id for _, call_id in calls)), tuple(names), "call")
    tied = [each for each in sent if any(_item_id(part) in words for form in each.forms for part in form.parts)]
    return _reject(tied, "thinking") if tied else None


def _calls_in(sent: SentMessage) -> list[str]:
    parts = [part for form in sent.forms for part in form.parts]
    found = [part.call_id if isinstance(part, ToolResult) else asked_by(part) for part in parts]
    return [call_id for call_id in dict.fromkeys(found) if call_id]


def _id_variants(call_id: str) -> set[str]:
    return {wire.SPELLING.id(call_id) for wire in (anthropic, openai_chat, openai_responses)}


def _item_id(part: Part) -> str | None:
    notes = part.extra.get("openai_responses", {})
    found = notes.get("id") or notes.get("$item", {}).get("id")
    return found if isinstance(found, str) else None


def _find_by_path(
    error_facts: ProviderError, request: Mapping[str, Any], sent: Sequence[SentMessage], *, exact: bool
) -> RejectedParts | None:
    """Return the parts at the path in the error."""
    elements = list(_elements(request, error_facts.path))
    if not elements:
        return None
    element, kind = elements[-1], _kind_of(elements[-1])
    if len(elements) == 1 and kind is None:
        return _in_record(error_facts, element, sent)
    if not exact and error_facts.kind is not None and (kind or "message") != error_facts.kind:
        return None  # the request was longer or shorter than this one
    if kind == "call":
        ids = {element[key] for key in _IDS if isinstance(element.get(key), str)}
        return _with_calls(ids, sent)
    owners = _owners(element, sent)
    return _reject(owners, kind or "message") if owners else None


def _in_record(
    error_facts: ProviderError, record: Mapping[str, Any], sent: Sequence[SentMessage]
) -> RejectedParts | None:
    """Return the parts of a message that the error mentions, or all of them."""
    blocks = [block for block in _blocks(record) if _kind_of(block) == error_facts.kind]
    if error_facts.kind == "call":
        ids = {block[key] for block in [record, *blocks] for key in _IDS if isinstance(block.get(key), str)}
        if found := _with_calls(ids, sent):
            return found
    kind: Kind = error_facts.kind if blocks and error_facts.kind and error_facts.kind != "call" else "message"
    owners = [owner for block in (blocks or [record, *_blocks(record)]) for owner in _owners(block, sent)]
    return _reject(list({each.digest: each for each in owners}.values()), kind) if owners else None


def _with_calls(ids: set[Any], sent: Sequence[SentMessage]) -> RejectedParts | None:
    calls = [(each, one) for each in sent for one in _calls_in(each) if ids & {one, *_id_variants(one)}]
    names = dict.fromkeys(each.name for each, _ in calls)
    return RejectedParts((), tuple(dict.fromkeys(one for _, one in calls)), tuple(names), "call") if calls else None


def _elements(request: Mapping[str, Any], path: Sequence[str | int]) -> Iterator[Mapping[str, Any]]:
    """Yield the list entries along a path, skipping names that the request does not have."""
    value: Any = request
    for step in path:
        if isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
            if isinstance(value, Mapping):
                yield value
        elif isinstance(step, str) and isinstance(value, Mapping) and step in value:
            value = value[step]


def _blocks(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    lists = [record[key] for key in ("content", "tool_calls") if isinstance(record.get(key), list)]
    return [block for blocks in lists for block in blocks if isinstance(block, Mapping)]


def _kind_of(element: Mapping[str, Any]) -> Kind | None:
    kind = str(element.get("type", ""))
    if kind.endswith(("_call", "_call_output", "tool_use", "tool_result")):
        return "call"
    return _TYPES.get(kind)


def _owners(block: Mapping[str, Any], sent: Sequence[SentMessage]) -> list[SentMessage]:
    """Return the messages that contain a block; of duplicates, the newest."""
    marks = [mark.partition(";base64,")[2] or mark for mark in _strings(block)]
    longest = max(marks, key=len, default="")
    found = [
        each for each in sent if longest and any(longest in set(_strings(to_builtins(form))) for form in each.forms)
    ]
    return found if _kind_of(block) else found[-1:]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ("type", "role", "media_type", "cache_control"):
                yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


def report_rejection(found: RejectedParts, *, changed: bool) -> Rejection:
    """Return a report of what is left out."""
    if not changed:
        text = "Nothing was left out: the error names nothing of the last request that could be."
        return Rejection(found.kind, (), found.located, text)
    what = {"call": "a tool call and its result", "message": "the whole message", None: ""}.get(
        found.kind, f"the {found.kind}"
    )
    if found.located:
        text = f"Left out of the next requests: {what} ({', '.join(found.names)})."
    else:
        text = f"The error does not say where: every {found.kind} of {len(found.names):,} messages is left out."
    return Rejection(found.kind, found.names, found.located, text)


# leaving the parts out


def apply_rejections(rejections: Rejections, digest: str, message: Message) -> Message | None:
    """Return the message without its rejected parts; None if nothing is left to show."""
    kinds = rejections.parts.get(digest, ())
    if "message" in kinds:
        return (
            structs.replace(message, parts=(Text(NOTE.format("message")),), extra={})
            if message.role == "user"
            else None
        )
    if "thinking" in kinds:
        message = without_thinking(message)
    calls = frozenset(rejections.calls)
    if calls and any(_call_of(part) in calls for part in message.parts):
        message = structs.replace(message, parts=tuple(part for part in message.parts if _call_of(part) not in calls))
    for kind in ("picture", "file"):
        if kind in kinds and _holds(message, kind):
            message = structs.replace(message, parts=tuple(_with_note(part, kind) for part in message.parts))
    return message


def _call_of(part: Part) -> str | None:
    return part.call_id if isinstance(part, ToolResult) else asked_by(part)


def _holds(message: Message, kind: str) -> bool:
    if kind == "thinking":
        return without_thinking(message) is not message
    return any(_with_note(part, kind) is not part for part in message.parts)


def _with_note(part: Any, kind: str) -> Any:
    """Return the part, or a note in its place if it is of the kind."""
    if isinstance(part, ToolResult):
        inner = tuple(_with_note(each, kind) for each in part.parts)
        changed = any(new is not old for new, old in zip(inner, part.parts, strict=True))
        return structs.replace(part, parts=inner) if changed else part
    is_picture = isinstance(part, File) and media(part) == "image"
    is_file = (isinstance(part, File) and not is_picture) or (isinstance(part, Opaque) and part.kind == "document")
    return Text(NOTE.format(kind)) if (is_picture if kind == "picture" else is_file) else part
