"""Describe a large payload, so that a model can decide whether to open it, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lossless.engine.ingest.explore.binary import describe_binary, medium
from lossless.engine.ingest.explore.code import describe_code, describe_diff
from lossless.engine.ingest.explore.compose import Fact, compose
from lossless.engine.ingest.explore.configs import describe_toml, describe_yaml
from lossless.engine.ingest.explore.kinds import Kind, extension, guess_kind
from lossless.engine.ingest.explore.lines import normal
from lossless.engine.ingest.explore.logs import describe_log
from lossless.engine.ingest.explore.markup import describe_html, describe_xml
from lossless.engine.ingest.explore.prose import describe_markdown, describe_text
from lossless.engine.ingest.explore.records import describe_json, describe_jsonl
from lossless.engine.ingest.explore.sql import describe_sql
from lossless.engine.ingest.explore.tables import describe_table
from lossless.request_strings import decode_text

__all__ = ["Explore", "Kind", "describe_bytes", "explore", "extension", "guess_kind", "medium"]

Explore: TypeAlias = Callable[[str, str | None, str | None], str]
"""Describes a text, given its name and its media type."""


def explore(text: str, name: str | None = None, mime: str | None = None) -> str:
    """Return a summary of a large text in about 200 tokens: its kind, its structure, and line numbers.

    Made without a model. What it quotes is cleaned and cut, but it remains untrusted text.
    """
    text = normal(text)
    if not text.strip():
        return f"Empty: {len(text):,} characters, none of them visible."
    return compose(_facts(text, guess_kind(text, name, mime), name, mime))


def describe_bytes(data: bytes, *, name: str | None = None, mime: str | None = None, explore: Explore = explore) -> str:
    """Return a summary of a file's bytes: text is explored, other bytes are described by their header."""
    text = _decoded(data, mime)
    return explore(text, name, mime) if text else compose(describe_binary(data, name, mime))


def _decoded(data: bytes, mime: str | None) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return decode_text(data, mime) or ""


def _facts(text: str, kind: Kind, name: str | None, mime: str | None) -> list[Fact]:
    match kind:
        case "json":
            return describe_json(text)
        case "jsonl":
            return describe_jsonl(text)
        case "csv" | "tsv":
            return describe_table(text, tabs=kind == "tsv")
        case "sql":
            return describe_sql(text)
        case "xml":
            return describe_xml(text)
        case "html":
            return describe_html(text)
        case "yaml":
            return describe_yaml(text)
        case "toml":
            return describe_toml(text)
        case "code":
            return describe_code(text, name, mime)
        case "markdown":
            return describe_markdown(text)
        case "log":
            return describe_log(text)
        case "diff":
            return describe_diff(text)
        case "text":
            return describe_text(text)
