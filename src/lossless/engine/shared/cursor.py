"""Pure: where a search or a list goes on, as a short text to be handed back.

It holds how far things were looked at, and a check of what was asked for, so that it serves no other question.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any, TypeAlias, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta, Struct

from lossless.errors import InvalidCursor
from lossless.store import jsontext

T = TypeVar("T")
Number: TypeAlias = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Position: TypeAlias = tuple[Number, ...]
_MOST_CHARACTERS = 400
_LENGTHS = {"message": 2, "summary": 2, "file": 4}
_WRONG = (ValueError, TypeError, AttributeError, KeyError, msgspec.DecodeError)


class _Cursor(Struct, array_like=True, forbid_unknown_fields=True):
    check: int
    open: dict[str, Position]
    seen: Number = 0


class _Page(Struct, forbid_unknown_fields=True):
    v: int
    resource: str
    filters: int
    key: Any


def encode(positions: dict[str, Position], asked: Any, seen: int = 0) -> str | None:
    """The cursor of a question whose kinds were looked at so far; a missing one is done with, an empty one not begun.

    `seen` is how many hits were shown up to here.
    """
    if not positions:
        return None
    return _text(msgspec.msgpack.encode(_Cursor(_check(asked), positions, seen)))


def decode(cursor: str, asked: Any) -> tuple[dict[str, Position], int]:
    """How far the same question was looked at before, and how many hits were shown; `InvalidCursor` for any other text."""
    try:
        found = msgspec.msgpack.decode(_bytes(cursor), type=_Cursor)
        if any(len(position) not in (0, _LENGTHS[kind]) for kind, position in found.open.items()):
            raise ValueError
    except _WRONG as error:
        raise _refused(cursor) from error
    if found.check != _check(asked):
        raise InvalidCursor(
            "The cursor belongs to another question.", hint="Go on with the same arguments; only `limit` may change."
        )
    return found.open, found.seen


def after(resource: str, asked: Any, key: tuple[int | str | None, ...]) -> str:
    """The cursor that goes on behind the row of this key, in the list of a resource that was asked for so."""
    return _text(msgspec.json.encode(_Page(v=1, resource=resource, filters=_check(asked), key=key)))


def key_of(cursor: str, resource: str, asked: Any, shape: type[T]) -> T:
    """The key that `after` was given, if it was for the same list; `InvalidCursor` for any other text."""
    try:
        found = msgspec.json.decode(_bytes(cursor), type=_Page)
        if found.v != 1:
            raise ValueError
        key = msgspec.convert(found.key, shape) if found.resource == resource else None
    except _WRONG as error:
        raise _refused(cursor) from error
    if key is None:
        raise InvalidCursor(f"The cursor is one of {found.resource[:40]}.", hint=f"Give one of {resource}, or none.")
    if found.filters != _check(asked):
        raise InvalidCursor(
            "The cursor belongs to other filters.", hint="Go on with the same arguments; only `limit` may change."
        )
    return key


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(cursor: str) -> bytes:
    if len(cursor) > _MOST_CHARACTERS:
        raise ValueError
    return urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))


def _refused(cursor: object) -> InvalidCursor:
    return InvalidCursor(
        f"{str(cursor)[:80]!r} is not a cursor.", hint="Give the one that the page before ended with, or none."
    )


def _check(asked: Any) -> int:
    return crc32(jsontext.dumps(asked).encode())
