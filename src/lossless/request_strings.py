"""Find the strings that a request contains beside the texts of a message.

A format stores what we do not model in `extra` and in `Opaque` parts, and `dump` sends it: documents, citations, search
results, legacy calls. All code that counts, indexes, summarises or moves the text of a message uses these functions, so
that it sees the same strings. The names of the notes in an `extra` are those of `lossless.formats.wire`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from lossless.model import Extra, File

Path: TypeAlias = tuple[str | int, ...]
Kind: TypeAlias = Literal["words", "thought", "sealed", "media", "frame"]
"""`words` may be read by anyone; a `thought` only by the model that wrote it; `sealed` only by its provider; `media` is
base64; a `frame` (types, ids) describes the rest."""

FORMATS = ("anthropic", "openai_chat", "openai_responses", "openclaw")
_NESTED = {"$in", "$item"}
"""Our own notes that contain notes of the wire format."""
_SPOKEN_REPLY = ("$reply", "audio", "transcript")
"""The transcript of a spoken reply: requests contain an id instead."""
_NOT_SENT = {"cache_control"}
_BOOKKEEPING = {
    *("api", "provider", "model", "usage", "responseId", "responseModel", "rawStopReason", "timestamp", "stopReason"),
    "opencode",
}
"""Fields that pi writes about a reply, and our plugin about a message of OpenCode: they are sent to no provider."""
_FRAME = {
    *("type", "id", "status", "role", "object", "format", "detail", "index", "phase", "media_type", "mimeType"),
    *("call_id", "tool_use_id", "tool_call_id", "toolCallId", "item_id", "file_id", "container_id", "language_id"),
}
_LONGEST_FRAME = 128
_THOUGHT = {"thinking", "reasoning", "reasoning_content", "reasoning_details"}
_SEALED = re.compile(r"encrypted\w*|(?:\w+_|thinking|text|thought)?[sS]ignature")
_MEDIA = {"data", "image", "imageData", "image_data", "base64", "bytes", "source", "blob", "b64_json", "file_data"}
_SHORTEST_MEDIA = 256
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\s*")
_DATA_URL = re.compile(r"data:[^,;]{0,100}(?:;[^,;]{0,100}){0,8};base64,", re.I)
_TEXT_TYPES = re.compile(
    r"text/.+|message/rfc822|.+\+(?:json|xml|yaml)"
    r"|application/(?:x-)?(?:json|jsonl|json5|ndjson|xml|yaml|toml|csv|sql|javascript|typescript|ecmascript|sh|log|httpd-php|tex)",
    re.I,
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_BINARY = (
    b"%PDF-",
    b"\x89PNG",
    b"GIF8",
    b"\xff\xd8\xff",
    b"RIFF",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"OggS",
    b"fLaC",
    b"ID3",
)


class Note(NamedTuple):
    """A value of a record that we do not model."""

    path: Path
    key: str
    value: Any


class RequestString(NamedTuple):
    """A string inside a JSON value, and the path to it."""

    path: Path
    text: str
    kind: Kind


def notes(extra: Extra) -> Iterable[Note]:
    """Return the values of an `extra` that are sent."""
    if len(extra) == 1 and isinstance(held := extra.get("openclaw"), dict) and _BOOKKEEPING.issuperset(held):
        return ()  # every reply that pi writes
    return _all_notes(extra)


def _all_notes(extra: Extra) -> Iterator[Note]:
    for name in FORMATS:
        if isinstance(held := extra.get(name), dict):
            yield from _notes(held, (name,), name == "openclaw")


def _notes(held: Mapping[str, Any], path: Path, bookkeeping: bool) -> Iterator[Note]:
    for key, value in held.items():
        if key in _NOT_SENT or (bookkeeping and key in _BOOKKEEPING):
            continue
        if key.startswith("$") and not key.startswith("$$"):
            yield from _own_note(key, value, path)
        elif not _is_frame(key, value):
            yield Note((*path, key), key.removeprefix("$"), value)


def _own_note(key: str, value: Any, path: Path) -> Iterator[Note]:
    if key == "$item" and isinstance(value, dict):
        yield from _notes(value, (*path, key), False)
    elif key == "$in" and isinstance(value, dict):
        for name, inside in value.items():
            if isinstance(inside, dict):
                yield from _notes(inside, (*path, key, name), False)
    elif key == "$reply":
        match value:
            case {"audio": {"transcript": str(spoken)}}:
                yield Note((*path, *_SPOKEN_REPLY), "transcript", spoken)


def strings(value: Any, path: Path = (), key: str = "", *, thought: bool = False) -> Iterator[RequestString]:
    """Yield the strings of a JSON value in order. `key` is its name, `thought` marks it as reasoning of a model."""
    waiting: list[tuple[Path, str, Any, bool, str]] = [(path, key, value, thought or key in _THOUGHT, "")]
    while waiting:
        at, name, held, thinks, kind = waiting.pop()
        if isinstance(held, str):
            yield RequestString(at, held, _kind(name, held, thinks, kind))
        elif isinstance(held, list):
            waiting += [((*at, n), name, held[n], thinks, kind) for n in range(len(held) - 1, -1, -1)]
        elif isinstance(held, dict):
            kind = held["type"].lower() if isinstance(held.get("type"), str) else ""
            thinks = thinks or "thinking" in kind or "reasoning" in kind
            spoken = "type" in held or "role" in held  # elsewhere `reasoning` is a tool's own field
            waiting += [
                (
                    (*at, each),
                    each if isinstance(each, str) else "",
                    held[each],
                    thinks or (spoken and each in _THOUGHT),
                    kind,
                )
                for each in reversed(held)
            ]


def _kind(key: str, text: str, thought: bool, record: str) -> Kind:
    if key in _FRAME and len(text) <= _LONGEST_FRAME:
        return "frame"
    hidden = _SEALED.fullmatch(key) or (key == "data" and ("redacted" in record or "encrypted" in record))
    if hidden and len(text.split(None, 1)) < 2:
        return "sealed"
    if _is_media(key, text):
        return "media"
    return "thought" if thought else "words"


def _is_media(key: str, text: str) -> bool:
    if text[:5].lower() == "data:" and _DATA_URL.match(text):
        return True
    return key in _MEDIA and len(text) >= _SHORTEST_MEDIA and _BASE64.fullmatch(text) is not None


def _is_frame(key: str, value: Any) -> bool:
    return key in _FRAME and (
        not isinstance(value, (str, dict, list)) or (isinstance(value, str) and len(value) <= _LONGEST_FRAME)
    )


def extra_strings(extra: Extra, *, thought: bool = False) -> Iterator[RequestString]:
    """Yield the strings of an `extra` that are sent."""
    for note in notes(extra):
        yield from strings(note.value, note.path, note.key, thought=thought)


def visible_texts(found: Iterable[RequestString]) -> Iterator[str]:
    """Yield the texts that anyone may read."""
    return (each.text for each in found if each.kind == "words" and each.text)


def replace_at(value: Any, changes: Mapping[Path, Any]) -> Any:
    """Return a copy of a JSON value with new values at some paths; unchanged parts are shared."""
    if () in changes:
        return changes[()]
    below: dict[Any, dict[Path, Any]] = {}
    for path, new in changes.items():
        below.setdefault(path[0], {})[path[1:]] = new
    if not below:
        return value
    copy = dict(value) if isinstance(value, dict) else list(value)
    for step, inside in below.items():
        copy[step] = replace_at(copy[step], inside)
    return copy


def is_text_type(mime: str | None) -> bool:
    """Return whether a media type is text."""
    return mime is not None and _TEXT_TYPES.fullmatch(mime.partition(";")[0].strip()) is not None


def decode_text(data: bytes, mime: str | None = None) -> str | None:
    """Decode bytes as text, if they or their media type are text; None otherwise."""
    claimed = is_text_type(mime)
    if not data or (not claimed and (data.startswith(_BINARY) or b"\0" in data)):
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace") if claimed and b"\0" not in data else None
    controls = len(_CONTROLS.findall(data[:65_536]))
    return text if claimed or 100 * controls <= min(len(data), 65_536) else None


def decode_base64(data: str) -> bytes | None:
    """Decode base64; None unless encoding the bytes gives the same text again."""
    try:
        held = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return held if held and base64.b64encode(held).decode() == data else None


def attached_text(file: File) -> str | None:
    """Return the text of an inline file, if it is text."""
    if not file.data or (file.mime or "").startswith(("image/", "audio/", "video/")):
        return None
    held = decode_base64(file.data)
    return None if held is None else decode_text(held, file.mime)
