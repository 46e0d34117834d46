"""Pure: where a search goes on, as a short text to be handed back.

It holds how far each kind of thing was looked at, and a check of what was asked for, so that it serves no other question.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any, TypeAlias
from zlib import crc32

import msgspec
from msgspec import Meta, Struct

from lossless.errors import InvalidInput
from lossless.store import jsontext

Position: TypeAlias = tuple[Annotated[int, Meta(ge=-(2**62), le=2**62)], ...]
_MOST_CHARACTERS = 400
_LENGTHS = {"message": 2, "summary": 2, "file": 4}


class _Cursor(Struct, array_like=True, forbid_unknown_fields=True):
    check: int
    open: dict[str, Position]


def encode(positions: dict[str, Position], asked: Any) -> str | None:
    """The cursor of a question whose kinds were looked at so far; a missing one is done with."""
    if not positions:
        return None
    return urlsafe_b64encode(msgspec.msgpack.encode(_Cursor(_check(asked), positions))).rstrip(b"=").decode()


def decode(cursor: str, asked: Any) -> dict[str, Position]:
    """How far the same question was looked at before; `InvalidInput` for any other text."""
    try:
        if len(cursor) > _MOST_CHARACTERS:
            raise ValueError
        data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        found = msgspec.msgpack.decode(data, type=_Cursor)
        if any(len(position) != _LENGTHS[kind] for kind, position in found.open.items()):
            raise ValueError
    except (ValueError, TypeError, AttributeError, KeyError, msgspec.DecodeError) as error:
        raise InvalidInput(
            f"{str(cursor)[:80]!r} is not a cursor.", hint="Give the `next_cursor` of the page before, or none."
        ) from error
    if found.check != _check(asked):
        raise InvalidInput(
            "The cursor belongs to another question.", hint="Go on with the same arguments; only `limit` may change."
        )
    return found.open


def _check(asked: Any) -> int:
    return crc32(jsontext.dumps(asked).encode())
