"""Providers of models: the address of each and the source of its key, never the key itself.

An operator writes a table `[providers.NAME]` in `lcm.toml`. Well-known providers have an address and a variable for
their key without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field, inspect
from msgspec.structs import asdict

from lossless.config.rules import Accept, InvalidTables, Mistake

Api: TypeAlias = Literal["openai", "anthropic"]
Address: TypeAlias = Annotated[str, Meta(title="an http or https address", pattern=r"\Ahttps?://[^\s/]")]
Variable: TypeAlias = Annotated[str, Meta(title="the name of a variable", pattern=r"\A[A-Za-z_]\w*\Z")]
Words: TypeAlias = Annotated[str, Meta(title="a text", min_length=1)]
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SOURCES = ("api_key_env", "api_key_cmd", "api_key_openclaw")


class Provider(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server of models, as the operator describes it."""

    name: str
    base_url: Address | None = None
    api: Api | None = None
    """Its protocol: OpenAI chat completions by default, or Anthropic messages."""
    api_key_env: Variable | None = None
    """The variable that holds its key."""
    api_key_cmd: Words | None = None
    """A program that prints its key, with arguments."""
    api_key_openclaw: Words | None = None
    """An `auth-profiles.json` or `models.json` of OpenClaw that holds its key."""
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request to it."""

    @property
    def key_source(self) -> str:
        """The field that names the source of the key; empty if none does."""
        return next((name for name in _SOURCES if getattr(self, name)), "")


KNOWN: Mapping[str, Provider] = {
    each.name: each
    for each in (
        Provider(
            name="anthropic", base_url="https://api.anthropic.com", api="anthropic", api_key_env="ANTHROPIC_API_KEY"
        ),
        Provider(name="openai", base_url="https://api.openai.com/v1", api="openai", api_key_env="OPENAI_API_KEY"),
        Provider(
            name="openrouter", base_url="https://openrouter.ai/api/v1", api="openai", api_key_env="OPENROUTER_API_KEY"
        ),
    )
}


def read_providers(tables: object, accept: Accept) -> tuple[Provider, ...]:
    """Read the table of providers; raise one `InvalidTables` with all mistakes.

    `accept` converts a value to the type of its field, or raises a ValueError.
    """
    if isinstance(tables, tuple | list):
        tables = dict(map(_split_name, tables))
    if not isinstance(tables, Mapping):
        raise ValueError("this is not a table of tables. Write [providers.NAME].")
    result: list[Provider] = []
    mistakes: list[Mistake] = []
    for name, table in tables.items():
        values, wrong = _values(name, table, accept)
        mistakes += [(f".{name}{place}", why) for place, why in wrong]
        if not wrong:
            result.append(Provider(name=name, **values))
    if mistakes:
        raise InvalidTables(mistakes)
    return tuple(result)


def _split_name(table: object) -> tuple[str, object]:
    """Return the name of a provider and the rest of its table."""
    given = asdict(table) if isinstance(table, Provider) else table
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ValueError("a provider without a name. Write [providers.NAME].")
    return given["name"], {key: value for key, value in given.items() if key != "name"}


def _values(name: object, table: object, accept: Accept) -> tuple[dict[str, Any], list[Mistake]]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return {}, [("", " is not the name of a provider: use small letters, digits and . _ -")]
    if not isinstance(table, Mapping):
        return {}, [("", " is not a table.")]
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for written, value in table.items():
        try:
            if written == "headers":
                values[written] = dict(_headers(value))
            elif written not in _SCHEMAS:
                mistakes.append((f".{written}", _unknown(written)))
            elif value is not None:
                values[written] = accept(_SCHEMAS[written], value)
        except ValueError as error:
            mistakes.append((f".{written}", f": {error}"))
    given = [each for each in _SOURCES if values.get(each)]
    if len(given) > 1:
        mistakes.append(("", f": {' and '.join(given)} exclude one another. Keep one of them."))
    return values, mistakes


def _headers(value: object) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Mapping):
        raise ValueError("this is not a table of texts.")
    for name, text in value.items():
        # The header is named, its value never quoted: it may be a secret.
        if (
            not _HEADER.fullmatch(str(name))
            or not isinstance(text, str)
            or not text.isascii()
            or not text.isprintable()
        ):
            raise ValueError(f"{str(name)[:40]!r} is not a header with a printable text.")
        yield name, text


def _unknown(written: str) -> str:
    import difflib

    if written == "api_key":
        return " is not part of a provider: a key does not belong in a file. Name api_key_env or api_key_cmd."
    proposals = difflib.get_close_matches(str(written)[:80], [*_SCHEMAS, "headers"], 1, 0.6)
    return " is not part of a provider." + "".join(f" Did you mean {name}?" for name in proposals)


def _schemas() -> dict[str, inspect.Type]:
    declared = inspect.type_info(Provider)
    assert isinstance(declared, inspect.StructType)
    return {each.name: each.type for each in declared.fields if each.name not in ("name", "headers")}


_SCHEMAS = _schemas()
