"""Make messages with fields of the wrong type storable, without dropping anything. Pure functions."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from msgspec import Struct, structs

from lossless.engine.ingest.message_digest import digest
from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, instant
from lossless.store import jsontext
from lossless.store.rows import codec
from lossless.tokens import message_tokens

_PARTS = (Text, Reasoning, ToolCall, ToolResult, File, Opaque)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_DEEPEST = 100
_MOST_BITS = 10_000
_ERRORS = (TypeError, ValueError, AttributeError, RecursionError)


def check(message: Message) -> None:
    """Raise TypeError, ValueError or AttributeError if a message cannot be stored, whatever its size."""
    extras = [part.extra for part in message.parts]
    extras += [inner.extra for part in message.parts if isinstance(part, ToolResult) for inner in part.parts]
    jsontext.dumps([message.name, message.stop, message.extra, extras])
    if message.at is not None:
        codec.micros(message.at if message.at.tzinfo else instant(message.at) or message.at)


def repair(message: Message) -> Message:
    """Return a message with the same content that can be stored.

    An invalid part becomes an `Opaque` of kind "invalid"; a field of another type becomes text, and its value is kept in
    `extra["invalid"]`.
    """
    given: Any = message
    wrong: dict[str, Any] = {}

    def text(name: str) -> str | None:
        value = getattr(given, name)
        if value is None or isinstance(value, str):
            return value
        wrong[name] = jsonable(value)
        return as_text(value)

    at = given.at
    if not _succeeds(lambda: check(structs.replace(message, parts=(), name=None, stop=None, extra={}))):
        wrong["at"] = jsonable(at)
        at = None
    extra = given.extra
    if not isinstance(extra, dict) or not _succeeds(lambda: jsontext.dumps(extra)):
        extra = jsonable(extra) if isinstance(extra, Mapping) else {"invalid extra": jsonable(extra)}
    parts = given.parts
    listed = parts if isinstance(parts, list | tuple) else () if parts is None else (parts,)
    role, name, event_id, stop = text("role"), text("name"), text("event_id"), text("stop")
    return Message(
        role=role or "None",
        parts=tuple(_part(part) for part in listed),
        at=at,
        name=name,
        event_id=event_id,
        stop=stop,
        extra={**extra, "invalid": wrong} if wrong else extra,
    )


def _part(part: Any) -> Part:
    if isinstance(part, str):
        return Text(part)
    if isinstance(part, _PARTS) and _succeeds(lambda: _encode(part)):
        return part
    return Opaque("invalid", jsonable(part))


def _encode(part: Part) -> None:
    message = Message("user", (part,))
    digest(message, lambda role, text: text)
    codec.encode(message)
    message_tokens(message)


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except _ERRORS:
        return False
    return True


def jsonable(value: Any, depth: int = _DEEPEST) -> Any:
    """Return a value as JSON, the same in every process."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MOST_BITS else hex(value)
    if depth:
        if isinstance(value, Mapping):
            return {
                key if isinstance(key, str) else as_text(key): jsonable(each, depth - 1) for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [jsonable(each, depth - 1) for each in value]
        if isinstance(value, set | frozenset):
            return [jsonable(each, depth - 1) for each in sorted(value, key=as_text)]
        if isinstance(value, Struct):
            return {"type": type(value).__name__, **jsonable(structs.asdict(value), depth - 1)}
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, date):
        return value.isoformat()
    return as_text(value)


def as_text(value: object) -> str:
    """Return a value as text, without the address that differs between processes."""
    try:
        return _ADDRESS.sub("", value if isinstance(value, str) else repr(value))
    except Exception:  # noqa: BLE001 - a foreign object's own __repr__ may raise anything
        return f"<{type(value).__name__}>"
