"""Encode the position where a search or a list continues, as a short text. Pure functions.

It contains the positions reached, and a checksum of the query, so that it is valid for no other query.
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
_INVALID = (ValueError, TypeError, AttributeError, KeyError, msgspec.DecodeError)


class _Cursor(Struct, array_like=True, forbid_unknown_fields=True):
    """The state of a search."""

    check: int
    open: dict[str, Position]
    seen: Number = 0


class _Page(Struct, forbid_unknown_fields=True):
    """The state of a list."""

    v: int
    resource: str
    filters: int
    key: Any


def encode(positions: dict[str, Position], query: Any, seen: int = 0) -> str | None:
    """Return the cursor of a search at these positions; a missing kind is finished, an empty position not started.

    `seen` is the number of hits shown so far.
    """
    if not positions:
        return None
    return _text(msgspec.msgpack.encode(_Cursor(_check(query), positions, seen)))


def decode(cursor: str, query: Any) -> tuple[dict[str, Position], int]:
    """Return the positions and the number of hits of a cursor; raise `InvalidCursor` for another query or text."""
    try:
        found = msgspec.msgpack.decode(_bytes(cursor), type=_Cursor)
        if any(len(position) not in (0, _LENGTHS[kind]) for kind, position in found.open.items()):
            raise ValueError
    except _INVALID as error:
        raise _invalid_cursor(cursor) from error
    if found.check != _check(query):
        raise InvalidCursor(
            "The cursor belongs to another query.", hint="Continue with the same arguments; only `limit` may change."
        )
    return found.open, found.seen


def encode_page(resource: str, query: Any, key: tuple[int | str | None, ...]) -> str:
    """Return the cursor of a list after the row with this key."""
    return _text(msgspec.json.encode(_Page(v=1, resource=resource, filters=_check(query), key=key)))


def decode_page(cursor: str, resource: str, query: Any, shape: type[T]) -> T:
    """Return the key of a list's cursor; raise `InvalidCursor` for another list or text."""
    try:
        found = msgspec.json.decode(_bytes(cursor), type=_Page)
        if found.v != 1:
            raise ValueError
        key = msgspec.convert(found.key, shape) if found.resource == resource else None
    except _INVALID as error:
        raise _invalid_cursor(cursor) from error
    if key is None:
        raise InvalidCursor(
            f"The cursor belongs to the list of {found.resource[:40]}.", hint=f"Give a cursor of {resource}, or none."
        )
    if found.filters != _check(query):
        raise InvalidCursor(
            "The cursor belongs to other filters.", hint="Continue with the same arguments; only `limit` may change."
        )
    return key


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(cursor: str) -> bytes:
    if len(cursor) > _MOST_CHARACTERS:
        raise ValueError
    return urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))


def _invalid_cursor(cursor: object) -> InvalidCursor:
    return InvalidCursor(f"{str(cursor)[:80]!r} is not a cursor.", hint="Give the cursor of the last page, or none.")


def _check(query: Any) -> int:
    return crc32(jsontext.dumps(query).encode())
