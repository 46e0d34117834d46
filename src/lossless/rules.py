"""Threshold rules: other limits for some models or conversations, and how an operator writes them.

A rule is written as a flat table of the fields of `ThresholdRule`. Other tools write camelCase and keep the matchers
in a table `match` of their own: that is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, inspect
from msgspec.structs import asdict

Pattern: TypeAlias = Annotated[str, Meta(title="a pattern", min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Mistake: TypeAlias = tuple[str, str]
Accept: TypeAlias = Callable[[inspect.Type, object], Any]


class ThresholdRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Other limits for the conversations that meet every matcher given; what is None stays as it is set."""

    model: Pattern | None = None
    window_min: Count | None = None
    window_max: Count | None = None
    session_pattern: Pattern | None = None
    context_threshold: Annotated[float, Meta(gt=0, le=1)]
    fresh_tail_count: Count | None = None
    leaf_chunk_tokens: Count | None = None


class Misread(ValueError):
    """What is wrong in a list of rules: for each mistake its place, such as `[1].model`, and the words that follow it."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(map("".join, mistakes)))
        self.mistakes = mistakes


def read(tables: Iterable[object], accept: Accept) -> tuple[ThresholdRule, ...]:
    """The rules that the tables hold; all mistakes in them are told at once, by a `Misread`.

    `accept` gives a value in the type of its field, or tells in a ValueError why it is none.
    """
    found = [_read(table, accept) for table in tables]
    mistakes = [(f"[{at}]{place}", why) for at, (_, wrong) in enumerate(found) for place, why in wrong]
    if mistakes:
        raise Misread(mistakes)
    return tuple(ThresholdRule(**values) for values, _ in found)


def _read(table: object, accept: Accept) -> tuple[dict[str, Any], list[Mistake]]:
    table = asdict(table) if isinstance(table, ThresholdRule) else table
    if not isinstance(table, Mapping):
        return {}, [("", " is not a table.")]
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for written, value in _flat(table):
        name = _SPELLINGS.get(written)
        if name is None:
            mistakes.append((f".{written}", _unknown(written)))
        elif name in values:
            mistakes.append((f".{written}", f": {name} is given twice. Keep one of them."))
        else:
            try:
                values[name] = accept(_SCHEMAS[name], value)
            except ValueError as error:
                mistakes.append((f".{written}", f": {error}"))
    return values, mistakes or _amiss(values)


def _flat(table: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    """What a rule says, key by key; a key in its `match` becomes `match.key`."""
    for key, value in table.items():
        if key == "match" and isinstance(value, Mapping):
            yield from ((f"match.{inner}", said) for inner, said in value.items() if said is not None)
        elif value is not None:
            yield str(key), value


def _amiss(values: Mapping[str, Any]) -> list[Mistake]:
    """What is wrong with a rule whose every value is right by itself."""
    mistakes: list[Mistake] = []
    if not any(values.get(name) for name in _MATCHERS):
        mistakes.append(("", f" has nothing to match. Give it one of {', '.join(_MATCHERS)}."))
    if "context_threshold" not in values:
        mistakes.append((".context_threshold", " is missing."))
    least, most = values.get("window_min"), values.get("window_max")
    if least and most and least > most:
        mistakes.append((".window_max", f": {most} is less than window_min ({least})."))
    return mistakes


def _unknown(written: str) -> str:
    import difflib

    if written == "match":
        return " is not a table."
    meant = [_SPELLINGS[near] for near in difflib.get_close_matches(written[:80], _SPELLINGS, 1, 0.75)]
    return " is not part of a rule." + "".join(f" Did you mean {name}?" for name in meant)


def _spellings() -> dict[str, str]:
    """Every way to write a key of a rule, and the field it stands for."""
    snake = {name: name for name in _SCHEMAS}
    snake |= {f"model_context_{bound}": bound for bound in ("window_min", "window_max")}
    flat = snake | {re.sub(r"_(\w)", lambda m: m[1].upper(), written): name for written, name in snake.items()}
    return flat | {f"match.{written}": name for written, name in flat.items() if name in _MATCHERS}


def _schemas() -> dict[str, inspect.Type]:
    declared = inspect.type_info(ThresholdRule)
    assert isinstance(declared, inspect.StructType)
    return {field.name: field.type for field in declared.fields}


_MATCHERS = ("model", "window_min", "window_max", "session_pattern")
_SCHEMAS = _schemas()
_SPELLINGS = _spellings()
