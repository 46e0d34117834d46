"""Write and read JSON without loss, at the speed of msgspec where msgspec loses nothing either.

msgspec writes NaN as null and refuses lone surrogates in both directions, so free-form values go
through the standard library, and what msgspec cannot read is read by it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from lossless.errors import StoreCorrupt

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def dumps(value: Any) -> str:
    """Return a JSON value as text that both databases can store. NaN, infinities and lone surrogates survive."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if is_clean(text) else json.dumps(value, separators=(",", ":"))


def dumps_plain(value: Any) -> str:
    """Return the same for a value of strings, whole numbers and containers only: six times as fast."""
    try:
        return _encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))


def loads(text: str) -> Any:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json.loads(text)


def stored(text: str) -> Any:
    """Return a value that we wrote into a database; raise if it is damaged there."""
    try:
        return loads(text)
    except ValueError as error:
        raise StoreCorrupt(
            f"A value in the database is damaged ({error}).", hint="`lcm doctor` tells more; restore a backup."
        ) from error


def is_clean(text: str) -> bool:
    """Tell whether a text column of either database takes a text as it is (no NUL, no lone surrogate)."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cleaned(text: str) -> str:
    """Return a copy that a text column takes, for searching and for people's own queries."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
