"""Write messages and summaries as the source text for a summariser.

Pure. Each entry says when it was said and by whom, because an instruction and a fetched document must stay
distinguishable. Thinking never gets in, encoded bytes are replaced by a word that they were there, and long tool calls and
outputs are shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta, tzinfo
from functools import lru_cache
from typing import Any

from msgspec import Struct

from lossless import request_strings
from lossless.engine.compaction.encoded_data import may_be_encoded, without_encoded
from lossless.engine.compaction.tool_text import call_text, output_text
from lossless.engine.ingest.message_digest import Canonicalize, without_tags
from lossless.model import Extra, File, Opaque, Part, Reasoning, Summary, Text, ToolCall, ToolResult
from lossless.store import jsontext
from lossless.store.rows.codec import moment
from lossless.times import clock, offset_at, time_range

MEDIA = "[media attachment]"
_MINUTE = 60_000_000
_ONE_MINUTE = timedelta(minutes=1)
_EPOCH = moment(0)
_UTC_EPOCH = _EPOCH.replace(tzinfo=None)
_ENVELOPE_DEPTH = 8
_JSON_DEPTH = 64
_FILE_ID = re.compile(r"(?<![A-Za-z0-9_])file_[0-9a-f]{16,64}(?![A-Za-z0-9_])")
_MEDIA_LINE = re.compile(r"^[ \t]*MEDIA:/.*$", re.M)
# A line that looks like one of our headers could attribute text to another speaker.
_HEADER = re.compile(
    r"(?<![^\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=[ \t]*\[\d{4}-\d\d-\d\d \d\d:\d\d (?:- |\S+ (?:\||- )))"
)
_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d ")
_INJECTED_HEADER = re.compile(r"^[ \t]*untrusted context\b.*:[ \t]*$\n?", re.I | re.M)
_THOUGHT_TAG = re.compile(
    r"^[ \t]*(?P<mark><\|?|\[)(?P<opens>think|thinking|reasoning)(?:\|?>|\])"
    r"|(?:<\|?|\[)/(?P<closes>think|thinking|reasoning)(?:\|?>|\])",
    re.I | re.M,
)
_THOUGHT_SIGN = re.compile(r"[<|\[/](?:think|reasoning)", re.I)
_KELVIN = "\u212a"
"""The one sign beyond ASCII whose lower case is a letter of these words."""
_THOUGHT_KEYS = {"thinking", "reasoning", "reasoning_content", "reasoning_details", "encrypted_content"}
_MEDIA_KINDS = re.compile(r"(?:input_|output_)?(?:image|audio|video|file|document|media|snapshot)(?:_url)?", re.I)
_MEDIA_TYPES = ("image", "audio", "video", "image_url", "input_image", "input_audio")
_MEDIA_KEYS = {"data", "source", "url", "image_url", "input_audio", "file_id", "blob"}
_SPOKEN = ("text", "output_text", "input_text", "refusal", "tool_result", "function_call_output", "resource")
_FRAME = {"isError", "is_error", "mimeType", "mime_type", "annotations", "_meta", "cache_control"}
_WRAPPER = re.compile(
    "text|caption|alt|title|summary|value|content|parts|items|messages?|input|arguments|output|results?|data|query|command|"
    "resource|structuredContent"
)


class SourceEntry(Struct, frozen=True, gc=False):
    """The parts of a message that a summariser reads."""

    at: int
    """The time in microseconds since 1970."""
    role: str
    name: str | None
    extra: Extra
    said: Sequence[str | Part]
    """Its plain texts as bare words, and its other parts."""


class _Reading(Struct):
    """The state of writing a run of messages."""

    bare: Canonicalize
    """Returns a text without what other plugins injected."""
    tools: Mapping[str, str]
    """The names of tools by the ids of their calls."""
    user: Sequence[str | Part] = ()
    """The newest message of a user."""

    def question(self) -> str:
        """Return the newest words of a user."""
        return self.bare("user", "\n".join([each for each in self.user if isinstance(each, str)]))


def write_entries(entries: Sequence[SourceEntry], zone: tzinfo, tags: Sequence[str]) -> str:
    """Return the entries as one text; empty if none of them has any text.

    Blocks in `tags`, which other plugins inject into messages, are left out.
    """
    tools = {part.call_id: part.name for each in entries for part in each.said if type(part) is ToolCall}
    reading = _Reading(without_tags(tags), tools)
    texts = _safe_all([_entry_text(each, reading) for each in entries])
    return "\n\n".join([f"{_header(each, zone)}\n{text}" for each, text in zip(entries, texts, strict=True) if text])


def condensed_source(summaries: Sequence[Summary], zone: tzinfo) -> str:
    """Return the summaries as one text, each under its time range, without reasoning."""
    spans = (time_range(each.earliest_at, each.latest_at, zone) or "time unknown" for each in summaries)
    texts = (_safe(without_reasoning(each.text)) for each in summaries)
    return "\n\n".join(f"[{span}]\n{text}" for span, text in zip(spans, texts, strict=True) if text)


def file_ids(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the files in these texts, each once, by their first mention."""
    return tuple(dict.fromkeys(found for text in texts if "file_" in text for found in _FILE_ID.findall(text)))


def may_think(text: str) -> bool:
    """Return True if a text may contain a reasoning tag: a fast check, because most have none."""
    low = text.encode("utf-8", "surrogatepass").lower()  # quicker than to lower a text in other scripts
    spoken_of = b"think" in low or b"reasoning" in low or _KELVIN in text
    return spoken_of and _THOUGHT_SIGN.search(text) is not None


def without_reasoning(text: str) -> str:
    """Return a model's text without reasoning in tags.

    A block counts when it starts its line and ends one, or leads the text; one that never closes goes to the end.
    A tag in the middle of a sentence is something the sentence talks about, and stays.
    """
    if not may_think(text):
        return text.strip()
    kept, at, leading, opened = [], 0, True, None
    for tag in _THOUGHT_TAG.finditer(text):
        if opened is None:
            opened = tag if tag["opens"] else None
        elif (tag["closes"] or "").lower() == opened["opens"].lower():
            leading = leading and not text[at : opened.start()].strip()
            if _ends_line(text, tag.end()) or (leading and _is_tight(text, opened)):
                kept.append(text[at : opened.start()])
                at = tag.end()
            opened = None
    # A lone bracketed word on a line is more often a heading than thinking that was cut off.
    cut = opened is not None and opened["mark"] != "[" and _is_tight(text, opened)
    return "".join([*kept, text[at : opened.start() if opened and cut else len(text)]]).strip()


def _ends_line(text: str, at: int) -> bool:
    end = text.find("\n", at)
    return not text[at : end if end >= 0 else len(text)].strip()


def _is_tight(text: str, opened: re.Match[str]) -> bool:
    """Return True if reasoning follows the tag without a space, as in no sentence."""
    return text[opened.end() : opened.end() + 1] != " "


def _header(entry: SourceEntry, zone: tzinfo) -> str:
    when = _throughout(entry.at // _MINUTE, zone) or clock(moment(entry.at), zone)
    return f"[{when} | {_speaker(entry.role, entry.name)}]"


@lru_cache(maxsize=1_024)
def _throughout(minute: int, zone: tzinfo) -> str:
    """Return the clock during a minute, cached; empty if the zone's offset changes within it."""
    since = minute * _ONE_MINUTE
    offset, name = offset_at(_EPOCH + since, zone)
    if offset.seconds % 60 or offset.microseconds:
        return ""
    return f"{(_UTC_EPOCH + since + offset).isoformat(' ', 'minutes')} {name}"


@lru_cache(maxsize=1_024)
def _speaker(role: str, name: str | None) -> str:
    return " | ".join(filter(None, (_label(role) or "unknown", _label(name))))


@lru_cache(maxsize=1_024)
def _label(name: str | None) -> str:
    """Return a name that is safe in our header lines."""
    return "".join(c for c in (name or "")[:120] if c.isprintable() and c not in "[]()|<>").strip()


def _entry_text(entry: SourceEntry, reading: _Reading) -> str:
    role = entry.role
    texts = [
        _words(each, role, reading) if isinstance(each, str) else _part_text(each, role, reading) for each in entry.said
    ]
    if role == "user" and str in map(type, entry.said):
        reading.user = entry.said
    if entry.extra:
        texts += _beside(entry.extra)
    return "\n".join([text for text in texts if text and not text.isspace()])


def _safe_all(texts: Sequence[str]) -> list[str]:
    """Return the texts as `_safe` does; checked together first, because most need no change."""
    together = "\n".join(texts)
    if "MEDIA:/" in together or may_be_encoded(together) or _STAMP.search(together):
        return list(map(_safe, texts))
    return [text.strip() for text in texts]


def _safe(text: str) -> str:
    """Return the text without encoded bytes and without lines that look like our headers."""
    # Each is looked for by a cheaper sign of it first: most texts hold none of them.
    text = without_encoded(text)
    if "MEDIA:/" in text:
        text = _MEDIA_LINE.sub(MEDIA, text)
    text = text.strip()
    return _HEADER.sub("> ", text) if _STAMP.search(text) else text


def _part_text(part: Part, role: str, reading: _Reading) -> str:
    """Return the text of a part, with the fields sent beside it."""
    if isinstance(part, Reasoning):
        return ""
    text = _words(part.text, role, reading) if isinstance(part, Text) else _own_text(part, reading)
    return _with_beside(text, part.extra) if part.extra else text


def _own_text(part: ToolCall | ToolResult | File | Opaque, reading: _Reading) -> str:
    if isinstance(part, ToolCall):
        return f"Tool call ({_label(part.name) or 'unknown'}): {call_text(part.arguments)}"
    if isinstance(part, ToolResult):
        inner = [
            _with_beside(_result_text(each), each.extra) if each.extra else _result_text(each) for each in part.parts
        ]
        text = output_text("\n".join([each for each in inner if each]), reading.question, failed=part.is_error)
        tool = (_label(part.name or reading.tools.get(part.call_id)) or "unknown") + (
            ", failed" if part.is_error else ""
        )
        return f"Tool result ({tool}): {text or 'no output'}" if part.is_error or (text and not text.isspace()) else ""
    return _result_text(part)


def _with_beside(text: str, extra: Extra) -> str:
    return "\n".join(filter(str.strip, (text, *_beside(extra))))


def _beside(extra: Extra) -> list[str]:
    """Return the fields sent beside a text: documents, citations, a legacy call."""
    return [_note_text(note) for note in request_strings.notes(extra)]


def _note_text(note: request_strings.Note) -> str:
    match note.value:
        case {"name": str(name), "arguments": str(arguments)} if note.key == "function_call":
            return f"Tool call ({_label(name) or 'unknown'}): {call_text(arguments)}"
        case value:
            said = "\n".join(request_strings.visible_texts(request_strings.strings(value, key=note.key)))
            return f"{note.key}: {said}" if said else ""


def _words(text: str, role: str, reading: _Reading) -> str:
    """Return the text of a speaker, without what was injected for another reader."""
    if role == "assistant":
        start = text.lstrip()
        return without_reasoning(text) if start.startswith(("<", "[")) and _THOUGHT_TAG.match(start) else text
    if role == "tool":
        return output_text(_answer(text), reading.question)
    stripped = reading.bare("user", text)  # hosts inject into their own messages as they do into a user's
    return text if stripped == text else _INJECTED_HEADER.sub("", stripped)


def _answer(text: str) -> str:
    """Return the text of a tool result, without its envelope."""
    return "\n".join(_said_in_text(text, _ENVELOPE_DEPTH))


def _result_text(part: Text | File | Opaque) -> str:
    if isinstance(part, Text):
        return _answer(part.text)
    match part:
        case File(mime, name, _, url):
            where = "" if not url or url.lower().startswith("data:") else url.partition("?")[0]
            known = ", ".join(filter(None, map(_label, (name, mime, where))))
            return f"[media attachment: {known}]" if known else MEDIA
        case Opaque(kind, data):
            if _is_thought({"type": kind}) or _is_thought(data) or data == {"type": kind}:
                return ""
            if _MEDIA_KINDS.fullmatch(kind):
                # A bare string is the name of the thing; a record may have a caption, or be a document of words.
                text = (
                    isinstance(data, dict) and "\n".join(request_strings.visible_texts(request_strings.strings(data)))
                ) or MEDIA
            else:
                text = "\n".join(_value_text(data, _ENVELOPE_DEPTH))
            return f"Record ({_label(kind) or 'unknown'}): {text}" if text and text != MEDIA else text


def _value_text(value: Any, depth: int) -> list[str]:
    """Return the text in an envelope; of any other value its JSON, without reasoning and media."""
    said = _envelope_text(value, depth)
    if said or _is_thought(value):
        return said or []
    text = jsontext.dumps(_prune(value, _JSON_DEPTH))
    return [] if text in ("null", "{}", "[]") else [text]


def _envelope_text(value: Any, depth: int) -> list[str] | None:
    """Return the text in an envelope, or None if the value is data."""
    match value:
        case None:
            return []
        case str():
            return _said_in_text(value, depth)
        case list() if depth:
            found = [_envelope_text(each, depth - 1) for each in value]
            return None if None in found else [text for texts in found for text in texts or ()]
        case dict() if depth:
            return _said_in_record(value, depth)
        case _:
            return None


def _said_in_text(text: str, depth: int) -> list[str]:
    if not (depth and text.lstrip().startswith(("{", "["))):
        return [text]
    try:
        value = jsontext.loads(text)
    except (ValueError, RecursionError):
        return [text]
    said = _envelope_text(value, depth - 1)
    if said or _is_thought(value):
        return said or []
    pruned = _prune(value, _JSON_DEPTH)
    return [text if pruned == value else jsontext.dumps(pruned)]


def _said_in_record(record: dict[str, Any], depth: int) -> list[str] | None:
    if _is_thought(record):
        return []
    if _is_media(record):
        text_found = {key: each for key, each in record.items() if key not in _FRAME and key not in _MEDIA_KEYS}
        return [MEDIA, *request_strings.visible_texts(request_strings.strings(text_found))]
    telling = {key: value for key, value in record.items() if not _is_frame(record, key)}
    if not all(map(_WRAPPER.fullmatch, telling)):
        return None
    found = {key: _envelope_text(value, depth - 1) for key, value in telling.items()}
    if None in found.values():
        return None
    failed = ["(failed)"] if record.get("isError") is True or record.get("is_error") is True else []
    return failed + [text for key, texts in found.items() for text in _labelled(key, texts or [], len(found) > 1)]


def _is_frame(record: dict[str, Any], key: str) -> bool:
    """Return True if a key only describes the rest: a known `type`, or a duplicate of MCP."""
    if key in _FRAME:
        return not (key == "annotations" and isinstance(record[key], list) and record[key])  # OpenAI's are citations
    return (key == "type" and record[key] in _SPOKEN) or (key == "structuredContent" and bool(record.get("content")))


def _labelled(key: str, texts: list[str], several: bool) -> Iterator[str]:
    yield from (f"{key}: {text}" if several else text for text in texts)


def _prune(value: Any, depth: int) -> Any:
    """Return a JSON value without reasoning and media."""
    if not depth:
        return None
    match value:
        case list():
            return [_prune(each, depth - 1) for each in value if not _is_thought(each)]
        case dict() if _is_media(value):
            return "\n".join(_said_in_record(value, 1) or [MEDIA])
        case dict():
            spoken = "type" in value or "role" in value  # elsewhere a key called `reasoning` is a tool's own data
            kept = {k: v for k, v in value.items() if not (spoken and k in _THOUGHT_KEYS) and not _is_thought(v)}
            return {key: _prune(each, depth - 1) for key, each in kept.items()}
        case _:
            return value


def _is_thought(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and any(word in kind.lower() for word in ("thinking", "reasoning"))


def _is_media(record: dict[str, Any]) -> bool:
    return (record.get("type") in _MEDIA_TYPES and not _MEDIA_KEYS.isdisjoint(record)) or "blob" in record
