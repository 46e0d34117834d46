"""Threshold rules: other limits for some models or conversations.

A rule is written as a flat table of the fields of `ThresholdRule`. Other tools write camelCase and keep the matchers
in a separate table `match`; both are accepted.
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
    """Other limits for conversations that match every given matcher; None leaves a limit as it is set."""

    model: Pattern | None = None
    window_min: Count | None = None
    window_max: Count | None = None
    session_pattern: Pattern | None = None
    context_threshold: Annotated[float, Meta(gt=0, le=1)]
    fresh_tail_count: Count | None = None
    leaf_chunk_tokens: Count | None = None


class InvalidTables(ValueError):
    """Mistakes in a list of tables: for each its place, such as `[1].model`, and a message."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(map("".join, mistakes)))
        self.mistakes = mistakes


def read_rules(tables: Iterable[object], accept: Accept) -> tuple[ThresholdRule, ...]:
    """Read threshold rules; raise one `InvalidTables` with all mistakes.

    `accept` converts a value to the type of its field, or raises a ValueError.
    """
    results = [_read_rule(table, accept) for table in tables]
    mistakes = [(f"[{at}]{place}", why) for at, (_, wrong) in enumerate(results) for place, why in wrong]
    if mistakes:
        raise InvalidTables(mistakes)
    return tuple(ThresholdRule(**values) for values, _ in results)


def _read_rule(table: object, accept: Accept) -> tuple[dict[str, Any], list[Mistake]]:
    table = asdict(table) if isinstance(table, ThresholdRule) else table
    if not isinstance(table, Mapping):
        return {}, [("", " is not a table.")]
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for written, value in _flatten(table):
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
    return values, mistakes or _check_rule(values)


def _flatten(table: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    """Yield the keys and values of a rule; a key in its `match` becomes `match.key`."""
    for key, value in table.items():
        if key == "match" and isinstance(value, Mapping):
            yield from ((f"match.{inner}", each) for inner, each in value.items() if each is not None)
        elif value is not None:
            yield str(key), value


def _check_rule(values: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes in a rule whose values are all valid by themselves."""
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
    proposals = [_SPELLINGS[near] for near in difflib.get_close_matches(written[:80], _SPELLINGS, 1, 0.75)]
    return " is not part of a rule." + "".join(f" Did you mean {name}?" for name in proposals)


def _spellings() -> dict[str, str]:
    """Map every spelling of a key to its field."""
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
