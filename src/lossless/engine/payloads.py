"""Which pieces of a message leave the row, what stands in their place, and how they come back.

Pure. Images and base64 always leave; files, tool results and raw text do from a number of tokens on. The
text that stays names the file and says what is in it; `extra["lossless"]` remembers where the piece was,
so that `restore` gives the very message back.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field, structs

from lossless.model import File, Message, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.tokens import estimate

if TYPE_CHECKING:
    from lossless.engine.explore import Explore

ID_DIGITS = 24
"""Of the content's hash: so many that nobody can make two payloads that share an id."""
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

P = TypeVar("P", bound=Part)


class Payload(Struct, frozen=True):
    """Bytes that leave a row."""

    id: str
    sha256: str
    data: bytes
    name: str | None
    mime: str | None
    lines: int | None
    summary: str


class _Leaving(Struct, frozen=True):
    """What leaves one message, and by which rules."""

    threshold: int
    tools: Mapping[str, str]
    explore: Explore | None
    taken: list[Payload] = field(default_factory=list)


class Cut(Struct, frozen=True):
    """A stretch of a text that leaves it, and the words that take its place."""

    start: int
    end: int
    payload: Payload
    words: str
    encoding: str


def is_heavy(message: Message, threshold: int) -> bool:
    """Whether anything of a message could leave the row. Quick, since it is asked of every message; never wrongly no."""
    size = 0
    for part in message.parts:
        if part.extra and not _OURS.isdisjoint(part.extra):
            return True
        if isinstance(part, Text):
            text = part.text
            size += len(text)
            if len(text) >= _RUN and _has_long_word(text):
                return True
        elif isinstance(part, ToolResult):
            for inner in part.parts:
                if isinstance(inner, File) or (inner.extra and not _OURS.isdisjoint(inner.extra)):
                    return True
                if isinstance(inner, Text):
                    size += len(inner.text)
                    if len(inner.text) >= _RUN and _has_long_word(inner.text):
                        return True
        elif isinstance(part, File):
            return True
    return 4 * size >= threshold  # no character costs more than its four bytes at the most


def _has_long_word(text: str) -> bool:
    """Whether some stretch of 256 characters has no space in it: it would fill one of these halves whole."""
    find, half = text.find, _RUN // 2
    for at in range(0, len(text) - half + 1, half):
        if find(" ", at, at + half) < 0:
            return any(len(word) >= _RUN for word in text.split())
    return False


def leave(
    message: Message, threshold: int, tools: Mapping[str, str], explore: Explore | None = None
) -> tuple[Message, list[Payload]]:
    """The message as its row keeps it, and what left it. `tools` names the tool of a call, where a result does not.

    `explore` tells what is in a text; if nobody does, it is told without a model.
    """
    leaving = _Leaving(threshold, tools, explore)
    parts = tuple(_lighter(_escaped(part), message.role, leaving) for part in message.parts)
    if not any(isinstance(part, (ToolCall, Reasoning)) for part in parts):
        parts = _raw(parts, message.role, leaving)
    return structs.replace(message, parts=parts), leaving.taken


def file_id(digest: str) -> str:
    """The id of a payload, from the SHA-256 of its bytes."""
    return f"file_{digest[:ID_DIGITS]}"


def _escaped(part: P) -> P:
    """The part with a host's own key of our name put aside, so that it is not taken for our mark."""
    if isinstance(part, ToolResult):
        part = structs.replace(part, parts=tuple(_escaped(each) for each in part.parts))
    if _OURS.isdisjoint(part.extra):
        return part
    aside = {key: value for key, value in part.extra.items() if key in _OURS}
    return structs.replace(part, extra={**{k: v for k, v in part.extra.items() if k not in _OURS}, _ASIDE: aside})


def _unescaped(part: P) -> P:
    if _ASIDE not in part.extra:
        return part
    return structs.replace(part, extra={**{k: v for k, v in part.extra.items() if k != _ASIDE}, **part.extra[_ASIDE]})


def _lighter(part: Part, role: str, leaving: _Leaving) -> Part:
    match part:
        case File(data=str()):
            return _image(part, role, leaving)
        case Text():
            return _without_base64(_without_files(part, leaving) if role == "user" else part, role, leaving)
        case ToolResult(id_, name=name) if not (tool := name or leaving.tools.get(id_, "")).startswith(_OWN_TOOLS):
            return _lighter_result(part, tool, leaving)
        case _:
            return part


def _image(part: File, role: str, leaving: _Leaving) -> Text:
    data, encoding = _decoded(part.data or "")
    payload = _payload(data, part.name, part.mime, leaving, binary=encoding == "base64")
    leaving.taken.append(payload)
    who = role.capitalize() if role in ("user", "assistant", "system", "tool") else "Attached"
    words = f"[{who} image: {_named(part.name)} ({_named(part.mime)}, {len(data):,} bytes) | LCM file: {payload.id}]"
    rest = {"mime": part.mime, "name": part.name, "url": part.url, "extra": part.extra}
    return Text(words, {_MARK: {"file": payload.id, "encoding": encoding, "part": rest}})


def _lighter_result(part: ToolResult, tool: str, leaving: _Leaving) -> ToolResult:
    inner = tuple(_lighter(each, "tool", leaving) for each in part.parts)
    chosen = _largest([each for each in inner if isinstance(each, Text)], leaving.threshold)

    def label(payload: Payload) -> str:
        return f"[LCM Tool Output: {payload.id} | tool={_named(tool)} | {len(payload.data):,} bytes]"

    swapped = tuple(
        _whole(each, label, leaving) if isinstance(each, Text) and id(each) in chosen else each for each in inner
    )
    return structs.replace(part, parts=swapped)


def _raw(parts: tuple[Part, ...], role: str, leaving: _Leaving) -> tuple[Part, ...]:
    chosen = _largest([part for part in parts if isinstance(part, Text)], leaving.threshold)

    def label(payload: Payload) -> str:
        size = f"{len(payload.data):,} bytes"
        return f"[LCM Raw Payload: {payload.id} | role={_named(role)} | reason=large_raw_message | {size}]"

    return tuple(_whole(p, label, leaving) if isinstance(p, Text) and id(p) in chosen else p for p in parts)


def _largest(texts: list[Text], threshold: int) -> set[int]:
    """The largest of the texts, until the rest is below the threshold."""
    costs = sorted(((estimate(text.text), id(text)) for text in texts if _MARK not in text.extra), reverse=True)
    total, chosen = sum(cost for cost, _ in costs), set()
    for cost, which in costs:
        if total < threshold or cost < _WORTH_IT:
            break
        chosen.add(which)
        total -= cost
    return chosen


def _whole(part: Text, label: Callable[[Payload], str], leaving: _Leaving) -> Text:
    payload = _payload(part.text.encode("utf-8", "surrogatepass"), None, None, leaving, text=part.text)
    words = f"{label(payload)}\n\nExploration Summary:\n{payload.summary}\n{_hint(payload)}"
    return _with_cuts(part, [Cut(0, len(part.text), payload, words, "text")], leaving)


def _without_files(part: Text, leaving: _Leaving) -> Text:
    """A user's `<file ...>...</file>` blocks, each on its own."""
    if "</file>" not in part.text:
        return part
    cuts = [cut for start, end in _file_blocks(part.text) if (cut := _file_cut(part.text, start, end, leaving))]
    return _with_cuts(part, cuts, leaving)


def _file_blocks(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while (start := text.find("<file", at)) >= 0 and (end := text.find("</file>", start)) >= 0:
        at = end + len("</file>")
        if text[start + 5] in " \t\n>":
            yield start, at


def _file_cut(text: str, start: int, end: int, leaving: _Leaving) -> Cut | None:
    block = text[start:end]
    opened = block.find(">")
    content = block[opened + 1 : -len("</file>")]
    if estimate(content) < leaving.threshold:
        return None
    found = _FILE_ATTRIBUTE.findall(block[: min(opened, _MOST_TAG)])
    attributes = {key.lower(): double or single or bare for key, double, single, bare in found}
    name, mime = attributes.get("name"), attributes.get("mime") or attributes.get("type")
    payload = _payload(content.encode("utf-8", "surrogatepass"), name, mime, leaving, text=content)
    header = f"[LCM File: {payload.id} | {_named(name)} | {_named(mime)} | {len(payload.data):,} bytes]"
    words = f"{header}\n\nExploration Summary:\n{payload.summary}\n{_hint(payload)}"
    inside = start + opened + 1
    return Cut(inside, inside + len(content), payload, words, "text")


def _without_base64(part: Text, role: str, leaving: _Leaving) -> Text:
    """Images and other base64 in running text."""
    if _MARK in part.extra or len(part.text) < _RUN or not _has_long_word(part.text):
        return part
    cuts = [cut for found in _BASE64.finditer(part.text) if (cut := _base64_cut(part.text, found, role, leaving))]
    return _with_cuts(part, cuts, leaving)


def _base64_cut(text: str, found: re.Match[str], role: str, leaving: _Leaving) -> Cut | None:
    run, before = found[0], _DATA_URL.search(text[max(0, found.start() - 200) : found.start()])
    if not before and not run.startswith(_MAGIC) and not _mixed(run):
        return None
    data, encoding = _decoded(run)
    if encoding != "base64":
        return None
    mime = before[1] if before else None
    payload = _payload(data, None, mime, leaving, binary=True)
    who = "Image" if role in ("user", "system") else role.capitalize()
    words = f"[{who}: {_named(mime)}, {len(data):,} bytes | LCM file: {payload.id}]"
    return Cut(found.start(), found.end(), payload, words, "base64")


def _mixed(run: str) -> bool:
    """Whether a run looks like base64 rather than a hash, a path or a very long word."""
    return len(run) >= 1024 and any(map(str.isupper, run)) and any(map(str.islower, run)) and any(map(str.isdigit, run))


def _decoded(text: str) -> tuple[bytes, str]:
    """The bytes behind base64 where encoding them again gives the same text, else the text's own."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if data and base64.b64encode(data).decode() == text:
        return data, "base64"
    return text.encode("utf-8", "surrogatepass"), "text"


def _with_cuts(part: Text, cuts: list[Cut], leaving: _Leaving) -> Text:
    if not cuts:
        return part
    pieces, places, at, length = [], [], 0, 0
    for cut in cuts:
        kept = part.text[at : cut.start]
        pieces += [kept, cut.words]
        places.append([length + len(kept), len(cut.words), cut.payload.id, cut.encoding])
        length += len(kept) + len(cut.words)
        at = cut.end
        leaving.taken.append(cut.payload)
    pieces.append(part.text[at:])
    return Text("".join(pieces), {**part.extra, _MARK: {"cuts": places}})


def _payload(
    data: bytes,
    name: str | None,
    mime: str | None,
    leaving: _Leaving,
    *,
    text: str | None = None,
    binary: bool = False,
) -> Payload:
    from lossless.engine import explore as room  # a room of its own, entered when something leaves

    explore = leaving.explore or room.explore
    digest = sha256(data).hexdigest()
    words = data.decode("utf-8", "surrogatepass") if text is None and not binary else text
    if words is None:
        summary = room.describe_bytes(data, name=name, mime=mime, explore=explore)
    else:
        summary = explore(words, name, mime)
    lines = None if words is None else words.count("\n") + (not words.endswith("\n"))
    return Payload(file_id(digest), digest, data, name, mime, lines, summary)


def _named(name: str | None) -> str:
    """A name a host or a file gave, fit to stand in one line of ours."""
    clean = "".join(c for c in (name or "")[:120] if c.isprintable() and c not in "[]|")
    return clean.encode("utf-8", "ignore").decode() or "unknown"


def _hint(payload: Payload) -> str:
    return f'Read it with lcm_describe(id="{payload.id}").'


def restore(message: Message, read: Callable[[str], bytes]) -> Message:
    """The message as it was before anything left it; `read` gives the bytes of a file id."""
    if not any(_left(part) for part in message.parts):
        return message
    return structs.replace(message, parts=tuple(_restored(part, read) for part in message.parts))


def _left(part: Part) -> bool:
    return not _OURS.isdisjoint(part.extra) or (
        isinstance(part, ToolResult) and any(_left(each) for each in part.parts)
    )


def _restored(part: Part, read: Callable[[str], bytes]) -> Part:
    match part:
        case ToolResult(parts=inner):
            whole = structs.replace(part, parts=tuple(_restored(each, read) for each in inner))
            return _unescaped(whole)
        case Text(extra={"lossless": {"part": rest} as mark}):
            data = _encoded(read(mark["file"]), mark["encoding"])
            return _unescaped(File(rest["mime"], rest["name"], data, rest["url"], rest["extra"]))
        case Text(text, extra={"lossless": {"cuts": cuts}}):
            extra = {key: value for key, value in part.extra.items() if key != _MARK}
            return _unescaped(Text(_filled(text, cuts, read), extra))
        case _:
            return _unescaped(part)


def _filled(text: str, cuts: list[list[Any]], read: Callable[[str], bytes]) -> str:
    pieces, at = [], 0
    for start, length, file_id, encoding in cuts:
        pieces += [text[at:start], _encoded(read(file_id), encoding)]
        at = start + length
    return "".join([*pieces, text[at:]])


def _encoded(data: bytes, encoding: str) -> str:
    return base64.b64encode(data).decode() if encoding == "base64" else data.decode("utf-8", "surrogatepass")
