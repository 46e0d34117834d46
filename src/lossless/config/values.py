"""Convert the value of a setting to its type, and quote values in error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import tzinfo
from pathlib import PurePath

from msgspec import inspect, json
from msgspec.inspect import BoolType, FloatType, IntType, LiteralType, Metadata, StrType, UnionType, VarTupleType

from lossless.config.redact import redact_url
from lossless.config.rules import read_rules

_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
NOT_TEXT = re.compile(r"[\0\ud800-\udfff]")
_LARGEST = 2**31 - 1


def base_type(schema: inspect.Type) -> inspect.Type:
    """Return the type without its title and its `| None`."""
    while isinstance(schema, Metadata | UnionType):
        schema = schema.type if isinstance(schema, Metadata) else schema.types[0]
    return schema


def describe_range(schema: inspect.Type) -> str:
    """Describe the accepted values, e.g. `at least 1`; empty if there is no limit."""
    match schema:
        case LiteralType(values=values):
            return ", ".join(map(str, values))
        case IntType() | FloatType():
            bounds = (("more than", schema.gt), ("at least", schema.ge), ("at most", schema.le))
            return ", ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)
        case _:
            return ""


def parse_text(schema: inspect.Type, text: str) -> object:
    """Parse the text of a variable. Text that cannot be parsed stays text, which `accept` then refuses."""
    match schema:
        case BoolType():
            return _BOOLEANS.get(text.lower(), text)
        case IntType() | FloatType():
            try:
                return int(text) if isinstance(schema, IntType) else float(text)
            except ValueError:
                return text
        case VarTupleType(item_type=inspect.StructType()) if text:
            try:
                return json.decode(text)
            except (ValueError, RecursionError):
                return text
        case VarTupleType():
            return [item for item in map(str.strip, text.split(",")) if item]
        case _:
            return text


def accept(schema: inspect.Type, value: object, noun: str = "a text") -> object:
    """Convert a value to the type of the schema, or raise a ValueError.

    Nothing is guessed: a text is not a number, and a number is not a truth value.
    """
    if isinstance(value, str | PurePath):
        value = str(value).strip()
    match schema:
        case Metadata(type=inner, extra_json_schema=extra):
            return accept(inner, value, (extra or {}).get("title", noun))
        case UnionType(types=(inner, *_)):
            return None if value is None or (isinstance(value, str) and not value) else accept(inner, value, noun)
        case BoolType():
            if isinstance(value, bool):
                return value
            noun = "true or false"
        case IntType():
            if isinstance(value, int) and not isinstance(value, bool):
                return _in_range(schema, value)
            noun = "a whole number"
        case FloatType():
            if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
                return float(_in_range(schema, value))
            noun = "a number"
        case LiteralType(values=values):
            if value in values:
                return value
            noun = f"one of {describe_range(schema)}"
        case VarTupleType(item_type=inspect.StructType()):
            if isinstance(value, list | tuple):
                return read_rules(value, accept)
            noun = "a list of rules (in a variable, a JSON array)"
        case VarTupleType(item_type=item):
            if isinstance(value, list | tuple):
                return tuple(accept(item, entry) for entry in value)
            noun = "a list"
        case StrType(pattern=pattern, min_length=least) if isinstance(value, str) and len(value) >= (least or 0):
            if re.search(pattern or "", value) and not NOT_TEXT.search(value):
                return value
    raise ValueError(f"{quote(value)} is not {noun}.")


def as_patterns(value: object) -> object:
    """Return a list of patterns from a list or a single word: `true` and the like become `on`, `off` is dropped."""
    given = value if isinstance(value, list | tuple) else [value]
    words = [_BOOLEANS.get(each.strip().lower(), each) if isinstance(each, str) else each for each in given]
    return ["on" if each is True else each for each in words if each is not False]


def _in_range(schema: IntType | FloatType, value: float) -> float:
    if value > _LARGEST:
        raise ValueError(f"{quote(value)} is too large (at most {_LARGEST}).")
    enough = (schema.gt is None or value > schema.gt) and (schema.ge is None or value >= schema.ge)
    if not enough or (schema.le is not None and value > schema.le):
        raise ValueError(f"{quote(value)} is out of range ({describe_range(schema)}).")
    return value


def find_zone(name: str) -> tzinfo:
    """Return the IANA time zone of that name."""
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (LookupError, OSError, ValueError) as error:
        meant = did_you_mean(nearest(name, zoneinfo.available_timezones()))
        raise ValueError(f"{quote(name)} is not a time zone.{meant}") from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name most similar to this one; empty if none is close."""
    import difflib

    return next(iter(difflib.get_close_matches(name[:80], known, 1, 0.75)), "")


def did_you_mean(name: str) -> str:
    """Return the sentence that proposes a name; empty if there is none."""
    return f" Did you mean {name}?" if name else ""


def quote(value: object) -> str:
    """Quote a value for an error message: short, printable and without passwords."""
    match value:
        case str():
            return f'"{printable(redact_url(value))}"'
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > 200:
            return "this number"
        case int() | float() | None:
            return str(value)
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"


def printable(text: str) -> str:
    """Shorten a text and escape what a terminal cannot print."""
    text = text if len(text) <= 200 else f"{text[:200]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
