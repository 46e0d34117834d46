"""What a provider refused: what its error names, which message that is in, and what is shown without it.

Pure. Nothing that is stored changes: the next requests leave it out.
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
"""What a model reads in the place of something that cannot be sent."""
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
    """What is left out of a conversation's requests because a provider refused it."""

    parts: dict[str, list[Kind]] = field(default_factory=dict)
    """Kinds of parts, by the digest of their message."""
    calls: list[str] = field(default_factory=list)
    """The ids of calls that are left out with their results."""


class Sent(Struct, frozen=True):
    """A message that was sent: what it is called, by what it is known, and as it was stored and sent."""

    name: str
    digest: str
    forms: tuple[Message, ...]


class Complaint(Struct, frozen=True):
    """What an error says about a request."""

    text: str
    path: tuple[str | int, ...] = ()
    kind: Kind | None = None
    wire: str = "anthropic"
    request: Mapping[str, Any] | None = None
    """The request itself, if the error or the host tells it."""


class Found(Struct, frozen=True):
    """What is to be left out, and of which messages."""

    parts: tuple[tuple[str, Kind], ...] = ()
    calls: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    kind: Kind | None = None
    located: bool = True
    """False: the error did not say where, so that all parts of the kind are left out."""


def stored(state: Any) -> Rejections:
    """Read what was written down; nothing if it is not what we write."""
    try:
        return convert(state, Rejections) if state is not None else Rejections()
    except ValidationError:
        return Rejections()


def added(known: Rejections, found: Found) -> Rejections:
    """Return the rejections with what was found, the oldest forgotten when there are too many."""
    parts = {digest: list(kinds) for digest, kinds in known.parts.items()}
    for digest, kind in found.parts:
        kinds = parts.pop(digest, [])
        parts[digest] = kinds if kind in kinds else [*kinds, kind]
    calls = list(dict.fromkeys([*known.calls, *found.calls]))
    return Rejections(dict(list(parts.items())[-_MOST:]), calls[-_MOST:])


# what the error says


def read(error: object, request: Mapping[str, Any] | None = None) -> Complaint:
    """Read a provider's error: an exception of its SDK, the body of its answer, or a text."""
    body = _body(error)
    told = list(dict.fromkeys([*_strings_under(body, ("message", "param", "code")), *_said(error)]))
    text = "\n".join(told)
    path = next((_steps(found) for found in _PATH.finditer(text) if any(map(str.isdigit, found[2]))), ())
    kind = next((kind for kind, words in _WORDS if words.search(text)), None)
    sent = request if request is not None else _request_of(error)
    return Complaint(text, path, kind, _wire(error, body, text, path, sent), sent)


def _said(error: object) -> Iterator[str]:
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
    """Return the request that an SDK's exception carries."""
    sent = getattr(error, "request", None) if isinstance(error, BaseException) else None
    # A streamed body is gone; one that is no JSON tells nothing.
    with suppress(RuntimeError, ValueError):
        found = json.loads(getattr(sent, "content", b"") or b"null")
        return found if isinstance(found, dict) else None
    return None


def _wire(error: object, body: Any, text: str, path: Sequence[object], request: Mapping[str, Any] | None) -> str:
    """Return the format a request was written in, as far as the error tells."""
    if path[:1] == ("input",) or (request is not None and "input" in request) or re.search(r"\b(?:rs|fc)_\w", text):
        return "openai_responses"
    if type(error).__module__.partition(".")[0] == "openai" or re.search(r"messages\.?\[", text):
        return "openai_chat"
    is_ours = isinstance(body, Mapping) and "param" in (body.get("error") or body)
    return "openai_chat" if is_ours else "anthropic"


# where it is


def locate(complaint: Complaint, sent: Sequence[Sent], messages: Sequence[Message]) -> Found:
    """Find what the error names among what was sent; `messages` are the request, if nobody has it as it was sent."""
    if found := _named(complaint, sent):
        return found
    exact = complaint.request is not None
    request = complaint.request if complaint.request is not None else _dumped(complaint.wire, messages)
    if found := _placed(complaint, request, sent, exact=exact):
        return found
    if complaint.kind not in ("thinking", "picture", "file"):
        return Found(kind=complaint.kind, located=False)
    holding = [each for each in sent if any(_holds(form, complaint.kind) for form in each.forms)]
    return _leave(holding, complaint.kind, located=False)


def _dumped(wire: str, messages: Sequence[Message]) -> Mapping[str, Any]:
    formats = {"anthropic": anthropic, "openai_chat": openai_chat, "openai_responses": openai_responses}
    request: Mapping[str, Any] = formats[wire].dump(list(messages))
    return request


def _leave(owners: Sequence[Sent], kind: Kind, *, located: bool = True) -> Found:
    return Found(tuple((each.digest, kind) for each in owners), (), tuple(each.name for each in owners), kind, located)


def _named(complaint: Complaint, sent: Sequence[Sent]) -> Found | None:
    """Return what the error names by an id: calls and results, or an item of reasoning and what it is tied to."""
    words = set(_NAME.findall(complaint.text))
    calls = [(each, call_id) for each in sent for call_id in _calls_in(each) if words & {call_id, *_spelled(call_id)}]
    if calls:
        names = dict.fromkeys(each.name for each, _ in calls)
        return Found((), tuple(dict.fromkeys(call_id for _, call_id in calls)), tuple(names), "call")
    tied = [each for each in sent if any(_item_id(part) in words for form in each.forms for part in form.parts)]
    return _leave(tied, "thinking") if tied else None


def _calls_in(sent: Sent) -> list[str]:
    parts = [part for form in sent.forms for part in form.parts]
    found = [part.call_id if isinstance(part, ToolResult) else asked_by(part) for part in parts]
    return [call_id for call_id in dict.fromkeys(found) if call_id]


def _spelled(call_id: str) -> set[str]:
    return {wire.SPELLING.id(call_id) for wire in (anthropic, openai_chat, openai_responses)}


def _item_id(part: Part) -> str | None:
    notes = part.extra.get("openai_responses", {})
    found = notes.get("id") or notes.get("$item", {}).get("id")
    return found if isinstance(found, str) else None


def _placed(complaint: Complaint, request: Mapping[str, Any], sent: Sequence[Sent], *, exact: bool) -> Found | None:
    """Return what stands where the error points to."""
    elements = list(_elements(request, complaint.path))
    if not elements:
        return None
    element, kind = elements[-1], _kind_of(elements[-1])
    if len(elements) == 1 and kind is None:
        return _in_record(complaint, element, sent)
    if not exact and complaint.kind is not None and (kind or "message") != complaint.kind:
        return None  # the request was longer or shorter than this one
    if kind == "call":
        ids = {element[key] for key in _IDS if isinstance(element.get(key), str)}
        return _with_calls(ids, sent)
    owners = _owners(element, sent)
    return _leave(owners, kind or "message") if owners else None


def _in_record(complaint: Complaint, record: Mapping[str, Any], sent: Sequence[Sent]) -> Found | None:
    """Return what of a whole message is meant: the parts that the error speaks of, or all of it."""
    blocks = [block for block in _blocks(record) if _kind_of(block) == complaint.kind]
    if complaint.kind == "call":
        ids = {block[key] for block in [record, *blocks] for key in _IDS if isinstance(block.get(key), str)}
        if found := _with_calls(ids, sent):
            return found
    kind: Kind = complaint.kind if blocks and complaint.kind and complaint.kind != "call" else "message"
    owners = [owner for block in (blocks or [record, *_blocks(record)]) for owner in _owners(block, sent)]
    return _leave(list({each.digest: each for each in owners}.values()), kind) if owners else None


def _with_calls(ids: set[Any], sent: Sequence[Sent]) -> Found | None:
    calls = [(each, one) for each in sent for one in _calls_in(each) if ids & {one, *_spelled(one)}]
    names = dict.fromkeys(each.name for each, _ in calls)
    return Found((), tuple(dict.fromkeys(one for _, one in calls)), tuple(names), "call") if calls else None


def _elements(request: Mapping[str, Any], path: Sequence[str | int]) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of lists that a path leads through; names of variants, which the request does not have, are passed over."""
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


def _owners(block: Mapping[str, Any], sent: Sequence[Sent]) -> list[Sent]:
    """Return the messages that hold what a block holds; of those that say the same words, the newest."""
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


def reported(found: Found, *, changed: bool) -> Rejection:
    """Say what is left out since."""
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


# what is shown without it


def applied(rejections: Rejections, digest: str, message: Message) -> Message | None:
    """Return the message without what was refused of it; None if nothing of it is to be shown."""
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
            message = structs.replace(message, parts=tuple(_noted(part, kind) for part in message.parts))
    return message


def _call_of(part: Part) -> str | None:
    return part.call_id if isinstance(part, ToolResult) else asked_by(part)


def _holds(message: Message, kind: str) -> bool:
    if kind == "thinking":
        return without_thinking(message) is not message
    return any(_noted(part, kind) is not part for part in message.parts)


def _noted(part: Any, kind: str) -> Any:
    """Return the part, or a note in its place if it is of the kind."""
    if isinstance(part, ToolResult):
        inner = tuple(_noted(each, kind) for each in part.parts)
        changed = any(new is not old for new, old in zip(inner, part.parts, strict=True))
        return structs.replace(part, parts=inner) if changed else part
    is_picture = isinstance(part, File) and media(part) == "image"
    is_file = (isinstance(part, File) and not is_picture) or (isinstance(part, Opaque) and part.kind == "document")
    return Text(NOTE.format(kind)) if (is_picture if kind == "picture" else is_file) else part
