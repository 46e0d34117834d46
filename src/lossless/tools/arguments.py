"""Arguments of the tools: typed once; schemas for providers and MCP clients are made from them."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from lossless.engine.recall.expand import Strategy
from lossless.errors import InvalidInput
from lossless.search import embeddings
from lossless.summarizers.reply_text import well_formed

Style: TypeAlias = Literal["openai", "anthropic", "mcp"]
Kind = TypeVar("Kind", bound=Struct)

_Id = Annotated[int | None, Meta(description="One conversation, by the number that lcm_grep shows for it.")]
_All = Annotated[bool, Meta(description="Look in all conversations, not only in this one and its earlier sessions.")]
_Summaries = Annotated[tuple[str, ...], Meta(description='Ids of summaries, "sum_...".')]
_AtLeast1 = {"minimum": 1}


class AnyArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of a tool."""


class Arguments(AnyArguments, frozen=True, kw_only=True):
    """The arguments that every tool for searching and reading takes."""

    conversation_id: _Id = None
    all_conversations: _All = False


class Grep(Arguments, frozen=True, kw_only=True):
    """Search everything that was ever said here, summarised or not, by a question, by words or by pattern. Ask the question as you would ask a person. Start with it; if a hit says enough, stop there."""

    pattern: Annotated[str, Meta(description="A question, words, or a pattern (RE2).")]
    mode: Annotated[
        Literal["regex", "full_text", "semantic"] | None,
        Meta(
            description='"full_text" puts what answers a question or holds the words first; "double quotes" keep a phrase together. '
            '"regex" finds every match, the newest first. Without a mode, a question or what matches nothing as a pattern is searched as words.'
        ),
    ] = None
    scope: Annotated[
        Literal["messages", "summaries", "both", "files"], Meta(description='"files": in large contents kept apart.')
    ] = "both"
    file_ids: Annotated[tuple[str, ...], Meta(description="Only in these files (scope files).")] = ()
    since: Annotated[
        str | None, Meta(description="From this time on: as times are shown here, 2026-08-01, 90d or yesterday.")
    ] = None
    before: Annotated[str | None, Meta(description="Before this time.")] = None
    limit: Annotated[int, Meta(description="How many hits.", extra_json_schema={"minimum": 1, "maximum": 200})] = 50
    sort: Annotated[
        Literal["recency", "relevance", "hybrid"] | None,
        Meta(description="For full_text: the best first (relevance) unless you say otherwise; regex is by recency."),
    ] = None
    ignore_case: Annotated[
        bool | None,
        Meta(description="For regex: ignore case; by default unless the pattern has a letter in upper case."),
    ] = None
    include_recall: Annotated[
        bool, Meta(description="Also search earlier calls of these lcm tools and their results; they are left out.")
    ] = False
    cursor: Annotated[str | None, Meta(description="nextCursor of the page before.")] = None


class Describe(Arguments, frozen=True, kw_only=True):
    """Show one summary, message or file: its text, what it was made from, and what it would cost to read what lies below it. A long text comes in pages; the line "shown" says which part this is and how to continue. Cheap."""

    id: Annotated[str, Meta(description='"sum_...", "file_..." or "msg#...", or a reference copied from a message.')]
    token_cap: Annotated[
        int | None,
        Meta(
            description="What you could spend: no more of the text is shown, and branches are marked as in or over it.",
            extra_json_schema=_AtLeast1,
        ),
    ] = None
    expand_file: Annotated[bool, Meta(description="Show the content of a file.")] = True
    expand_file_max_bytes: Annotated[
        int, Meta(description="How much of it.", extra_json_schema={"minimum": 1_024, "maximum": 512_000})
    ] = 32_768
    start_line: Annotated[
        int | None, Meta(description="First line of the text to show.", extra_json_schema=_AtLeast1)
    ] = None
    end_line: Annotated[int | None, Meta(description="Last line of it.", extra_json_schema=_AtLeast1)] = None
    offset: Annotated[
        int | None,
        Meta(
            description="Show the text from this byte on: the offset of a hit in a file, or of the page before.",
            extra_json_schema={"minimum": 0},
        ),
    ] = None


class ExpandQuery(Arguments, frozen=True, kw_only=True):
    """Answer one question from the whole history: exact commands, values, reasons, quotations. The prompt alone is enough; query finds another place, summaryIds name it."""

    prompt: Annotated[str, Meta(description="The question, as you would ask a person.")]
    query: Annotated[
        str | None, Meta(description="Words that find the place, if the prompt does not; not needed with ids.")
    ] = None
    summary_ids: _Summaries = ()
    max_tokens: Annotated[int, Meta(description="How long the answer may be.", extra_json_schema=_AtLeast1)] = 2_000
    token_cap: Annotated[
        int | None, Meta(description="How much history may be read for it.", extra_json_schema=_AtLeast1)
    ] = None
    timeout_ms: Annotated[int | None, Meta(description="How long it may take.", extra_json_schema=_AtLeast1)] = None


class Expand(Arguments, frozen=True, kw_only=True):
    """Read what summaries were made from, down to the messages, within the budget of your grant."""

    summary_ids: _Summaries = ()
    query: Annotated[str | None, Meta(description="Words that find summaries, in place of ids.")] = None
    max_depth: Annotated[int, Meta(description="How many steps down.", extra_json_schema=_AtLeast1)] = 3
    token_cap: Annotated[int | None, Meta(description="The most to read.", extra_json_schema=_AtLeast1)] = None
    include_messages: Annotated[bool, Meta(description="Also the messages below leaves.")] = False
    strategy: Annotated[Strategy, Meta(description='"fit" leaves out what does not fit and goes on.')] = "order"
    cursor: Annotated[str | None, Meta(description="nextCursor of the page before.")] = None


class Focus(AnyArguments, frozen=True, kw_only=True):
    """Keep a brief of what matters for a task before you: it is made from the whole history and shown in every request until you clear it. Set it when a long task begins, refresh it when it is stale, clear it at the end."""

    action: Annotated[
        Literal["set", "show", "refresh", "clear"],
        Meta(description='"set" needs task, or the name of a brief that was kept.'),
    ] = "set"
    task: Annotated[str | None, Meta(description="What you are about to do, with the names that matter for it.")] = None
    name: Annotated[str | None, Meta(description="Keep it under this name, to come back to it.")] = None
    max_tokens: Annotated[
        int | None,
        Meta(
            description="How long it may be; a tenth of the history otherwise.",
            extra_json_schema={"minimum": 500, "maximum": 12_000},
        ),
    ] = None


TOOLS: dict[str, type[AnyArguments]] = {
    "lcm_grep": Grep,
    "lcm_describe": Describe,
    "lcm_expand_query": ExpandQuery,
    "lcm_expand": Expand,
    "lcm_focus": Focus,
}
READING = tuple(name for name in TOOLS if name != "lcm_focus")
"""The tools that only read."""


def offered(*, delegate: bool = False, focus: bool = False) -> tuple[str, ...]:
    """Return the tools on offer: a delegate reads with lcm_expand, all others ask with lcm_expand_query.

    `focus` adds lcm_focus, which writes; a delegate never has it.
    """
    absent = "lcm_expand_query" if delegate else "lcm_expand"
    return tuple(name for name in (TOOLS if focus and not delegate else READING) if name != absent)


def schema(style: Style, name: str, *, semantic: bool | None = None) -> dict[str, Any]:
    """Return one tool as an API takes it, with the mode `semantic` if it is installed, or as `semantic` says."""
    taken = parameters(TOOLS[name])
    if name == "lcm_grep" and not (embeddings.is_installed() if semantic is None else semantic):
        taken["properties"]["mode"]["enum"].remove("semantic")
    about = {"name": name, "description": taken.pop("description")}
    taken.pop("title", None)
    if style == "openai":
        return {"type": "function", "function": {**about, "parameters": taken}}
    return {**about, "input_schema" if style == "anthropic" else "inputSchema": taken}


def parameters(kind: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool, its description included."""
    found: dict[str, Any] = _simple(msgspec.json.schema(kind)["$defs"][kind.__name__])
    return found


def _simple(schema: Any) -> Any:
    """Return a schema in which an optional argument is not nullable as well: models then leave it out."""
    if isinstance(schema, list):
        return [_simple(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _simple(value) for key, value in schema.items() if not (key == "default" and value is None)}
    choices = [each for each in kept.pop("anyOf", []) if each != {"type": "null"}]
    return {**choices[0], **kept} if len(choices) == 1 else {**kept, "anyOf": choices} if choices else kept


def converted(kind: type[Kind], arguments: Mapping[str, Any] | str | None) -> Kind:
    """Convert an agent's arguments, or raise `InvalidInput` with what is wrong about them."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"The arguments are not JSON: {error}.", hint="Send one JSON object.") from error
    if not isinstance(arguments, Mapping | None):
        raise InvalidInput("The arguments are not an object.", hint="Send one JSON object.")
    given = {_text(str(key)): _tidy(key, value) for key, value in (arguments or {}).items() if value is not None}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        said = f"{error}.".replace("`$.", "`")
        raise InvalidInput(said, hint=_hint(said, given, parameters(kind)["properties"])) from error


def _hint(said: str, given: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    """Return what to send instead: the nearest name or value first, then all of them."""
    wrong = next((name for name, each in properties.items() if f"`{name}`" in said and "enum" in each), None)
    if wrong is not None:
        allowed = properties[wrong]["enum"]
        return f"{_nearest(str(given.get(wrong)), allowed)}Give one of {', '.join(allowed)}."
    unknown = next((name for name in given if name not in properties), None)
    return f"{_nearest(unknown, properties) if unknown else ''}It takes {', '.join(properties)}."


def _nearest(name: str, names: Collection[str]) -> str:
    close = nearest_name(name, names)
    return f"Did you mean {close}? " if close else ""


def nearest_name(name: str, names: Collection[str]) -> str | None:
    """Return the name that is most like another, whatever its case and separators; None if none is."""
    plain = {_plain(each): each for each in names}
    close = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _tidy(name: str, value: Any) -> Any:
    """Return an argument trimmed, whole, and as a list where one is wanted."""
    if name == "allConversations":
        return value is True
    if name in ("summaryIds", "fileIds"):
        listed = [value] if isinstance(value, str) else value
        return [_text(each) if isinstance(each, str) else each for each in listed] if _is_list(listed) else listed
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return math.trunc(value)
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    return well_formed(value).strip()


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
