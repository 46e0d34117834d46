"""Move large pieces of a message out of its row, leave references in their place, and put them back. Pure functions.

Images and base64 always move; files, tool results, raw text and what a format keeps in `extra` or in an `Opaque` move from a
number of tokens on. The reference names the file and describes it; `extra["lossless"]` remembers the position of the piece,
so that `restore` returns the exact message.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct, field, structs

from lossless.model import Extra, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.request_strings import Path as StringPath
from lossless.request_strings import (
    RequestString,
    decode_base64,
    decode_text,
    extra_strings,
    is_text_type,
    replace_at,
    strings,
    visible_texts,
)
from lossless.tokens import estimate

if TYPE_CHECKING:
    from lossless.engine.ingest.explore import Explore

ID_DIGITS = 24
"""Digits of the content's hash: enough that two payloads cannot be made to share an id."""
_MARK, _ASIDE = "lossless", "lossless:host"
_OURS = frozenset({_MARK, _ASIDE})
_OWN_TOOLS = "lcm_"
_WORTH_IT = 500
_RUN = 256
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)[\w;=.+-]*;base64,\Z")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{256,}={0,2}")
_MAGIC = ("/9j/", "iVBOR", "R0lGOD", "UklGR", "PHN2Zy", "JVBERi")
_FILE_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_MOST_TAG = 2_000
_DEEPEST = 64

P = TypeVar("P", bound=Part)
_Place: TypeAlias = tuple[int, ...]
"""The owner of a string: the message, a part, or a part of a result."""
_Label: TypeAlias = Callable[["Payload"], str]


class Payload(Struct, frozen=True):
    """Bytes that are stored in a file instead of a row."""

    id: str
    sha256: str
    data: bytes
    name: str | None
    mime: str | None
    lines: int | None
    summary: str


class _Extraction(Struct, frozen=True):
    """The rules for one message, and the payloads taken from it so far."""

    threshold: int
    tools: Mapping[str, str]
    explore: Explore | None
    payloads: list[Payload] = field(default_factory=list)


class Cut(Struct, frozen=True):
    """A range of a text that is replaced by a reference."""

    start: int
    end: int
    payload: Payload
    words: str
    encoding: str


def has_large_content(message: Message, threshold: int) -> bool:
    """Return whether a piece of a message may be large: fast, since every message is checked, and never falsely False."""
    size = 0
    if message.extra:
        if not _OURS.isdisjoint(message.extra):
            return True
        size += _length(extra_strings(message.extra))
    for part in message.parts:
        if part.extra:
            if not _OURS.isdisjoint(part.extra):
                return True
            size += _length(extra_strings(part.extra))
        if isinstance(part, Text):
            text = part.text
            size += len(text)
            if len(text) >= _RUN and _has_long_word(text):
                return True
        elif isinstance(part, ToolResult):
            for inner in part.parts:
                if isinstance(inner, File) or (inner.extra and not _OURS.isdisjoint(inner.extra)):
                    return True
                size += _length(extra_strings(inner.extra)) if inner.extra else 0
                if isinstance(inner, Text):
                    size += len(inner.text)
                    if len(inner.text) >= _RUN and _has_long_word(inner.text):
                        return True
                else:
                    size += _length(strings(inner.data))
        elif isinstance(part, File):
            return True
        elif isinstance(part, Opaque):
            size += _length(strings(part.data))
    return 4 * size >= threshold  # no character costs more than its four bytes at the most


def _length(found: Iterable[RequestString]) -> int:
    return sum(len(each.text) for each in found)


def _has_long_word(text: str) -> bool:
    """Return whether a run of 256 characters has no space: it fills one of these halves completely."""
    find, half = text.find, _RUN // 2
    for at in range(0, len(text) - half + 1, half):
        if find(" ", at, at + half) < 0:
            return any(len(word) >= _RUN for word in text.split())
    return False


def extract(
    message: Message, threshold: int, tools: Mapping[str, str], explore: Explore | None = None
) -> tuple[Message, list[Payload]]:
    """Return the message as its row keeps it, and the payloads. `tools` names the tool of a call, where a result does not.

    `explore` describes a text; by default it is described without a model.
    """
    extraction = _Extraction(threshold, tools, explore)
    parts, extra = tuple(_escape(part) for part in message.parts), _escape_extra(message.extra)
    if fields := _large_fields(parts, extra, extraction):
        parts = tuple(_without_fields(part, (at,), message.role, fields, extraction) for at, part in enumerate(parts))
        extra = _extract_fields({"extra": extra}, fields.get((), []), _raw_label(message.role), extraction)["extra"]
    parts = tuple(_extract_from_part(part, message.role, extraction) for part in parts)
    if not any(isinstance(part, (ToolCall, Reasoning)) for part in parts):
        parts = _extract_raw(parts, message.role, extraction)
    return structs.replace(message, parts=parts, extra=extra), extraction.payloads


def file_id(digest: str) -> str:
    """Return the id of a payload, from the SHA-256 of its bytes."""
    return f"file_{digest[:ID_DIGITS]}"


def _escape(part: P) -> P:
    """Return the part with a host's key of our name renamed, so that it is not taken for our mark."""
    if isinstance(part, ToolResult):
        part = structs.replace(part, parts=tuple(_escape(each) for each in part.parts))
    return part if _OURS.isdisjoint(part.extra) else structs.replace(part, extra=_escape_extra(part.extra))


def _escape_extra(extra: Extra) -> Extra:
    if _OURS.isdisjoint(extra):
        return extra
    aside = {key: value for key, value in extra.items() if key in _OURS}
    return {**{key: value for key, value in extra.items() if key not in _OURS}, _ASIDE: aside}


def _unescape(part: P) -> P:
    return structs.replace(part, extra=_restore_extra(part.extra)) if _ASIDE in part.extra else part


def _restore_extra(extra: Extra) -> Extra:
    return {**{key: value for key, value in extra.items() if key != _ASIDE}, **extra[_ASIDE]}


def _large_fields(parts: tuple[Part, ...], extra: Extra, extraction: _Extraction) -> dict[_Place, list[StringPath]]:
    """Return the largest strings sent beside texts, by their owner, until the rest is below the threshold."""
    found = [
        (len(each.text), place, each)
        for place, values in _holders(parts, extra, extraction)
        for each in _strings(values)
        if each.kind == "words" and len(each.path) <= _DEEPEST
    ]
    if 4 * sum(length for length, *_ in found) < extraction.threshold:
        return {}
    costs = sorted(((estimate(each.text), place, each.path) for _, place, each in found), key=lambda one: -one[0])
    total, chosen = sum(cost for cost, *_ in costs), dict[_Place, list[StringPath]]()
    for cost, place, path in costs:
        if total < extraction.threshold or cost < _WORTH_IT:
            break
        chosen.setdefault(place, []).append(path)
        total -= cost
    return chosen


def _holders(parts: Iterable[Part], extra: Extra, extraction: _Extraction) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """Yield what may contain such strings, with its place: the message, its parts, the parts of results."""
    yield (), {"extra": extra}
    for at, part in enumerate(parts):
        if isinstance(part, Reasoning) or (isinstance(part, ToolResult) and _is_own(part, extraction)):
            continue
        yield (at,), _fields_of(part)
        if isinstance(part, ToolResult):
            yield from (((at, n), _fields_of(inner)) for n, inner in enumerate(part.parts))


def _fields_of(part: Part) -> dict[str, Any]:
    return {"extra": part.extra, "data": part.data} if isinstance(part, Opaque) else {"extra": part.extra}


def _strings(values: dict[str, Any]) -> Iterator[RequestString]:
    if values["extra"]:
        yield from (each._replace(path=("extra", *each.path)) for each in extra_strings(values["extra"]))
    if "data" in values:
        yield from strings(values["data"], ("data",))


def _without_fields(
    part: P, place: _Place, role: str, fields: dict[_Place, list[StringPath]], extraction: _Extraction, tool: str = ""
) -> P:
    """Return the part with references in place of its large strings."""
    if isinstance(part, ToolResult):
        tool = _tool(part, extraction)
        inner = tuple(
            _without_fields(each, (*place, n), role, fields, extraction, tool) for n, each in enumerate(part.parts)
        )
        part = structs.replace(part, parts=inner)
    if place not in fields:
        return part
    named = (part.name, part.mime) if isinstance(part, File) else (None, None)
    label: _Label
    if isinstance(part, File):
        label = _file_label
    elif tool or (isinstance(part, Opaque) and part.kind.endswith(("result", "output", "call"))):
        label = _tool_label(tool or (part.kind if isinstance(part, Opaque) else ""))
    else:
        label = _raw_label(role)
    return structs.replace(part, **_extract_fields(_fields_of(part), fields[place], label, extraction, *named))


def _extract_fields(
    values: dict[str, Any],
    paths: Iterable[StringPath],
    label: _Label,
    extraction: _Extraction,
    name: str | None = None,
    mime: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a part without the strings at some paths, and with the mark of their positions."""
    changes, places = dict[StringPath, str](), list[list[Any]]()
    texts = {each.path: each.text for each in _strings(values)}
    for path in paths:
        text = texts[path]
        payload = _payload(text.encode("utf-8", "surrogatepass"), name, mime, extraction, text=text)
        extraction.payloads.append(payload)
        changes[path] = _with_summary(label(payload), payload)
        places.append([list(path), payload.id])
    if not places:
        return values
    lighter: dict[str, Any] = replace_at(values, changes)
    return {**lighter, "extra": {**lighter["extra"], _MARK: {"fields": places}}}


def _extract_from_part(part: Part, role: str, extraction: _Extraction) -> Part:
    match part:
        case File(data=str(data)) if data:
            return _file_reference(part, role, extraction)
        case Text():
            return _without_base64(_without_files(part, extraction) if role == "user" else part, role, extraction)
        case ToolResult() if not _is_own(part, extraction):
            return _extract_from_result(part, _tool(part, extraction), extraction)
        case _:
            return part


def _tool(part: ToolResult, extraction: _Extraction) -> str:
    return part.name or extraction.tools.get(part.call_id, "")


def _is_own(part: ToolResult, extraction: _Extraction) -> bool:
    return _tool(part, extraction).startswith(_OWN_TOOLS)


def _file_reference(part: File, role: str, extraction: _Extraction) -> Text:
    """Return the reference to an inline file, which says whether it is an image, a sound, or text."""
    data, encoding = _decoded(part.data or "")
    is_media = (part.mime or "").startswith(("image/", "audio/", "video/")) and not is_text_type(part.mime)
    text = decode_text(data, part.mime) if encoding == "base64" and not is_media else None
    payload = _payload(data, part.name, part.mime, extraction, text=text, binary=encoding == "base64" and text is None)
    extraction.payloads.append(payload)
    who = role.capitalize() if role in ("user", "assistant", "system", "tool") else "Attached"
    words = f"[{who} {_medium(payload)}: {_printable(part.name)} ({_printable(part.mime)}, {_size(payload)}) | LCM file: {payload.id}]"
    beside = [_with_summary(words, payload) if text is not None else words, *visible_texts(extra_strings(part.extra))]
    rest = {"mime": part.mime, "name": part.name, "url": part.url, "extra": part.extra}
    return Text("\n".join(beside), {_MARK: {"file": payload.id, "encoding": encoding, "part": rest}})


def _medium(payload: Payload) -> str:
    from lossless.engine.ingest.explore import medium

    return medium(payload.data, payload.mime)


def _size(payload: Payload) -> str:
    size = f"{len(payload.data):,} bytes"
    return size if payload.lines is None else f"{size}, {payload.lines:,} line{'s' * (payload.lines != 1)}"


def _extract_from_result(part: ToolResult, tool: str, extraction: _Extraction) -> ToolResult:
    inner = tuple(_extract_from_part(each, "tool", extraction) for each in part.parts)
    chosen = _largest([each for each in inner if isinstance(each, Text)], extraction.threshold)
    label = _tool_label(tool)
    swapped = tuple(
        _replace_text(each, label, extraction) if isinstance(each, Text) and id(each) in chosen else each
        for each in inner
    )
    return structs.replace(part, parts=swapped)


def _extract_raw(parts: tuple[Part, ...], role: str, extraction: _Extraction) -> tuple[Part, ...]:
    chosen = _largest([part for part in parts if isinstance(part, Text)], extraction.threshold)
    label = _raw_label(role)
    return tuple(_replace_text(p, label, extraction) if isinstance(p, Text) and id(p) in chosen else p for p in parts)


def _tool_label(tool: str) -> _Label:
    return lambda payload: f"[LCM Tool Output: {payload.id} | tool={_printable(tool)} | {len(payload.data):,} bytes]"


def _raw_label(role: str) -> _Label:
    reason = f"role={_printable(role)} | reason=large_raw_message"
    return lambda payload: f"[LCM Raw Payload: {payload.id} | {reason} | {len(payload.data):,} bytes]"


def _file_label(payload: Payload) -> str:
    return f"[LCM File: {payload.id} | {_printable(payload.name)} | {_printable(payload.mime)} | {len(payload.data):,} bytes]"


def _with_summary(header: str, payload: Payload) -> str:
    hint = f'Read it with lcm_describe(id="{payload.id}").'
    return f"{header}\n\nExploration Summary:\n{payload.summary}\n{hint}"


def _largest(texts: list[Text], threshold: int) -> set[int]:
    """Return the largest texts, until the rest is below the threshold."""
    costs = sorted(((estimate(text.text), id(text)) for text in texts if not _is_reference(text)), reverse=True)
    total, chosen = sum(cost for cost, _ in costs), set()
    for cost, which in costs:
        if total < threshold or cost < _WORTH_IT:
            break
        chosen.add(which)
        total -= cost
    return chosen


def _is_reference(text: Text) -> bool:
    """Return whether a piece of the text was replaced already."""
    return not {"part", "cuts"}.isdisjoint(text.extra.get(_MARK, ()))


def _replace_text(part: Text, label: _Label, extraction: _Extraction) -> Text:
    payload = _payload(part.text.encode("utf-8", "surrogatepass"), None, None, extraction, text=part.text)
    return _apply_cuts(
        part,
        [
            Cut(
                start=0,
                end=len(part.text),
                payload=payload,
                words=_with_summary(label(payload), payload),
                encoding="text",
            )
        ],
        extraction,
    )


def _without_files(part: Text, extraction: _Extraction) -> Text:
    """Replace a user's `<file ...>...</file>` blocks, each on its own."""
    if "</file>" not in part.text:
        return part
    cuts = [cut for start, end in _file_blocks(part.text) if (cut := _file_cut(part.text, start, end, extraction))]
    return _apply_cuts(part, cuts, extraction)


def _file_blocks(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while (start := text.find("<file", at)) >= 0 and (end := text.find("</file>", start)) >= 0:
        at = end + len("</file>")
        if text[start + 5] in " \t\n>":
            yield start, at


def _file_cut(text: str, start: int, end: int, extraction: _Extraction) -> Cut | None:
    block = text[start:end]
    opened = block.find(">")
    content = block[opened + 1 : -len("</file>")]
    if estimate(content) < extraction.threshold:
        return None
    found = _FILE_ATTRIBUTE.findall(block[: min(opened, _MOST_TAG)])
    attributes = {key.lower(): double or single or bare for key, double, single, bare in found}
    name, mime = attributes.get("name"), attributes.get("mime") or attributes.get("type")
    payload = _payload(content.encode("utf-8", "surrogatepass"), name, mime, extraction, text=content)
    inside = start + opened + 1
    return Cut(
        start=inside,
        end=inside + len(content),
        payload=payload,
        words=_with_summary(_file_label(payload), payload),
        encoding="text",
    )


def _without_base64(part: Text, role: str, extraction: _Extraction) -> Text:
    """Replace images and other base64 in running text."""
    if _is_reference(part) or len(part.text) < _RUN or not _has_long_word(part.text):
        return part
    cuts = [cut for found in _BASE64.finditer(part.text) if (cut := _base64_cut(part.text, found, role, extraction))]
    return _apply_cuts(part, cuts, extraction)


def _base64_cut(text: str, found: re.Match[str], role: str, extraction: _Extraction) -> Cut | None:
    run, before = found[0], _DATA_URL.search(text[max(0, found.start() - 200) : found.start()])
    if not before and not run.startswith(_MAGIC) and not _looks_like_base64(run):
        return None
    data, encoding = _decoded(run)
    if encoding != "base64":
        return None
    mime = before[1] if before else None
    words = decode_text(data, mime)
    payload = _payload(data, None, mime, extraction, text=words, binary=words is None)
    what = _medium(payload)
    who = what.capitalize() if role in ("user", "system") or what == "file" else role.capitalize()
    header = f"[{who}: {_printable(mime)}, {_size(payload)} | LCM file: {payload.id}]"
    return Cut(start=found.start(), end=found.end(), payload=payload, words=header, encoding="base64")


def _looks_like_base64(run: str) -> bool:
    """Return whether a run looks like base64 rather than a hash, a path or a very long word."""
    return len(run) >= 1024 and any(map(str.isupper, run)) and any(map(str.islower, run)) and any(map(str.isdigit, run))


def _decoded(text: str) -> tuple[bytes, str]:
    """Return the decoded bytes if encoding them again gives the same text, else the text's own bytes."""
    data = decode_base64(text)
    return (text.encode("utf-8", "surrogatepass"), "text") if data is None else (data, "base64")


def _apply_cuts(part: Text, cuts: list[Cut], extraction: _Extraction) -> Text:
    if not cuts:
        return part
    pieces, places, at, length = [], [], 0, 0
    for cut in cuts:
        kept = part.text[at : cut.start]
        pieces += [kept, cut.words]
        places.append([length + len(kept), len(cut.words), cut.payload.id, cut.encoding])
        length += len(kept) + len(cut.words)
        at = cut.end
        extraction.payloads.append(cut.payload)
    pieces.append(part.text[at:])
    return Text("".join(pieces), {**part.extra, _MARK: {**part.extra.get(_MARK, {}), "cuts": places}})


def _payload(
    data: bytes,
    name: str | None,
    mime: str | None,
    extraction: _Extraction,
    *,
    text: str | None = None,
    binary: bool = False,
) -> Payload:
    from lossless.engine.ingest import explore as explorers  # loaded for large content only

    explore = extraction.explore or explorers.explore
    digest = sha256(data).hexdigest()
    words = data.decode("utf-8", "surrogatepass") if text is None and not binary else text
    if words is None:
        summary = explorers.describe_bytes(data, name=name, mime=mime, explore=explore)
    else:
        summary = explore(words, name, mime)
    lines = None if words is None else data.count(b"\n") + (not data.endswith(b"\n"))
    return Payload(id=file_id(digest), sha256=digest, data=data, name=name, mime=mime, lines=lines, summary=summary)


def _printable(name: str | None) -> str:
    """Return a name from a host or a file, safe for one line of a reference."""
    clean = "".join(c for c in (name or "")[:120] if c.isprintable() and c not in "[]|")
    return clean.encode("utf-8", "ignore").decode() or "unknown"


class Piece(Struct, frozen=True):
    """A piece that left a message, as one of its parts."""

    files: tuple[str, ...]
    is_picture: bool


def pieces(message: Message) -> list[Piece]:
    """Return the pieces that left a message, in order."""
    found: list[Extra] = []
    for part in message.parts:
        found += [each.extra for each in part.parts] if isinstance(part, ToolResult) else []
        found.append(part.extra)
    return [_piece(extra[_MARK]) for extra in (*found, message.extra) if _MARK in extra]


def _piece(mark: dict[str, Any]) -> Piece:
    if "part" in mark:
        return Piece((mark["file"],), True)
    return Piece(
        tuple(cut[2] for cut in mark.get("cuts", ())) + tuple(each[1] for each in mark.get("fields", ())), False
    )


def restore_pieces(message: Message, read: Callable[[str], bytes], chosen: Collection[int]) -> Message:
    """Return the message with some of its `pieces` put back, by their indexes."""
    if not chosen:
        return message
    places = count()

    def is_chosen(extra: Extra) -> bool:
        return _MARK in extra and next(places) in chosen

    def put_back(part: P) -> P | File:
        if not isinstance(part, ToolResult):
            return _restore_part(part, read) if is_chosen(part.extra) else part
        part = structs.replace(part, parts=tuple(put_back(each) for each in part.parts))
        return (
            _unescape(structs.replace(part, **_restore_fields(_fields_of(part), read)))
            if is_chosen(part.extra)
            else part
        )

    message = structs.replace(message, parts=tuple(put_back(part) for part in message.parts))
    if is_chosen(message.extra):
        extra = _restore_fields({"extra": message.extra}, read)["extra"]
        message = structs.replace(message, extra=_restore_extra(extra) if _ASIDE in extra else extra)
    return message


def restore(message: Message, read: Callable[[str], bytes]) -> Message:
    """Return the message as it was before anything left it; `read` returns the bytes of a file id."""
    if message.extra and not _OURS.isdisjoint(message.extra):
        extra = _restore_fields({"extra": message.extra}, read)["extra"]
        message = structs.replace(message, extra=_restore_extra(extra) if _ASIDE in extra else extra)
    if not any(_has_mark(part) for part in message.parts):
        return message
    return structs.replace(message, parts=tuple(_restore_part(part, read) for part in message.parts))


def _has_mark(part: Part) -> bool:
    return not _OURS.isdisjoint(part.extra) or (
        isinstance(part, ToolResult) and any(_has_mark(each) for each in part.parts)
    )


def _restore_part(part: P, read: Callable[[str], bytes]) -> P | File:
    match part:
        case ToolResult(parts=inner):
            part = structs.replace(part, parts=tuple(_restore_part(each, read) for each in inner))
        case Text(extra={"lossless": {"part": rest} as mark}):
            data = _encoded(read(mark["file"]), mark["encoding"])
            return _restore_part(
                File(mime=rest["mime"], name=rest["name"], data=data, url=rest["url"], extra=rest["extra"]), read
            )
        case Text(text, extra={"lossless": {"cuts": cuts}}):
            part = structs.replace(part, text=_fill_cuts(text, cuts, read))
        case _:
            pass
    return _unescape(structs.replace(part, **_restore_fields(_fields_of(part), read)) if _MARK in part.extra else part)


def _restore_fields(values: dict[str, Any], read: Callable[[str], bytes]) -> dict[str, Any]:
    """Return the fields of a part with their strings put back, and without the mark."""
    match values["extra"].get(_MARK):
        case {"fields": places}:
            values = replace_at(values, {tuple(path): _encoded(read(file_id), "text") for path, file_id in places})
        case {"cuts": _}:
            pass
        case _:
            return values
    return {**values, "extra": {key: value for key, value in values["extra"].items() if key != _MARK}}


def _fill_cuts(text: str, cuts: list[list[Any]], read: Callable[[str], bytes]) -> str:
    pieces, at = [], 0
    for start, length, file_id, encoding in cuts:
        pieces += [text[at:start], _encoded(read(file_id), encoding)]
        at = start + length
    return "".join([*pieces, text[at:]])


def _encoded(data: bytes, encoding: str) -> str:
    return base64.b64encode(data).decode() if encoding == "base64" else data.decode("utf-8", "surrogatepass")
