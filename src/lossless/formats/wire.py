"""Shared by the wire formats: keep the unmodelled rest of a record as notes, and put it back.

A codec says how a value looks when there is nothing unusual about it: its bare form. What a record says
beyond that form is noted in `extra[format]` and put back on the way out, so ordinary values need no note:

    other keys   under their own name (one that starts with `$` gets a second one)
    `$order`     the keys in their order, where it is not the format's own, or where one was left out
    `$in`        the notes of records inside this one
    `$shape`     how the content was written (`text`, `list`, `null`, `absent`, `odd`), where that is unusual
    `$role`, `$type`, `$field`, `$whole`, ...   what else a codec needs to write it the same way again
    `$reply`     metadata of a reply (model, usage, ...): kept, never sent back

A record that even then would not come out as it went in is kept whole, as an `Opaque`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lossless.errors import InvalidInput
from lossless.model import Context, Extra, File, Message, Opaque, Part, StoredMessage, Text, ToolResult

Record: TypeAlias = dict[str, Any]
Kept = TypeVar("Kept", bound="Message | Part")

Readers: TypeAlias = Mapping[str, Callable[[Record], Part]]
"""How each type of block is read."""

ABSENT: Any = object()
"""Stands for what is not there, where None would be a null."""

PARSED = ("parsed", "parsed_arguments", "parsed_output")
"""What the SDKs add to a reply for their caller."""

# Not `mimetypes`: what it knows depends on the machine, and a file must be written the same on any.
ENDINGS = {
    "image": (".png", ".jpg", ".jpeg", ".gif", ".webp"),
    "audio": (".mp3", ".wav", ".ogg", ".flac", ".m4a"),
    "document": (".pdf", ".txt", ".md", ".csv", ".html", ".json", ".docx", ".xlsx", ".pptx"),
}


class SdkObject(Protocol):
    """A value of a provider's SDK that can dump itself."""

    def model_dump(self, *args: Any, **kwargs: Any) -> Any: ...


class Odd(Exception):
    """A known key has an unexpected value: the record is kept whole instead."""


class Content(Struct, frozen=True):
    """The way a format writes content where it has the choice: without parts, and with one plain text.

    `empty="none"` means there is no ordinary way to write it; then `void` stands for it.
    """

    empty: str = "none"
    single: str = "text"
    void: Any = None


class Wire(Struct, frozen=True):
    """One format: the name of its notes, and its keys in the order it writes them."""

    name: str
    order: str

    def notes(self, value: Message | Part) -> Extra:
        notes: Extra = value.extra.get(self.name, {})
        return notes

    def native(self, value: Message | Part) -> bool:
        """Tell whether the value was marked as one that came in through this format."""
        return self.name in value.extra

    def extra(self, **notes: Any) -> Extra:
        """Return an extra with these notes (`type="x"` for `$type`) and the name of the format."""
        return {self.name: {f"${key}": note for key, note in notes.items() if note is not None}}

    def opaque(self, data: Any, **notes: Any) -> Opaque:
        """Keep something this format does not model, verbatim."""
        kind = data.get("type") if isinstance(data, dict) else None
        return Opaque(kind if isinstance(kind, str) else "unknown", data, self.extra(**notes))

    def arrange(self, record: Record) -> Record:
        """Return the same record, its keys in the order of this format; unknown keys come last."""
        rank = _ranks(self.order)
        return {key: record[key] for key in sorted(record, key=lambda key: rank.get(key, len(rank)))}

    def tidy(self, record: Record) -> Record:
        """Return a record of an SDK without what the API would refuse, keys in order."""
        return self.arrange({key: value for key, value in record.items() if value is not None and key not in PARSED})

    def remember(self, record: Record, bare: Record) -> Extra:
        """Return what `record` contains beyond its bare form."""
        notes = {_escaped(key): value for key, value in record.items() if key not in bare}
        inner = {key: self._inside(record.get(key), value) for key, value in bare.items()}
        if inner := {key: inside for key, inside in inner.items() if inside}:
            notes["$in"] = inner
        if list(self.restore(bare, notes)) != list(record):
            notes["$order"] = list(record)
        return notes

    def restore(self, bare: Record, notes: Extra) -> Record:
        """Return the record those notes were made of. The value itself wins over an old note."""
        others = {key: clone(notes[note]) for note in notes if (key := _unescaped(note)) is not None}
        merged = bare | {key: value for key, value in others.items() if key not in bare}
        for key, inside in notes.get("$in", {}).items():
            if isinstance(merged.get(key), dict):
                merged[key] = self.restore(merged[key], inside)
        if "$order" not in notes:
            return self.arrange(merged)
        listed = {key: merged[key] for key in notes["$order"] if key in merged}
        # A key that was left out comes back only if it has something to say by now.
        return listed | {key: value for key, value in merged.items() if key not in listed and value}

    def settle(self, value: Kept, record: Record, bare: Callable[[Kept], Record | None]) -> Kept | None:
        """Return `value` with the notes it needs to become `record` again, or None if no note can do that."""
        if (plain := bare(value)) is None:
            return None
        notes = self.notes(value) | self.remember(record, plain)
        kept = replace(value, extra={self.name: notes} if notes or self.native(value) else {})
        again = bare(kept)
        return kept if again is not None and same(self.restore(again, notes), record) else None

    def part(self, block: Record, readers: Readers, bare: Callable[[Part], Record | None], **notes: Any) -> Part:
        """Return the part of a block; an Opaque if its type is unknown or its values are unusual."""
        kind = block.get("type", "")
        reader = readers.get(kind) if isinstance(kind, str) else None
        try:
            part = self.settle(reader(block), block, bare) if reader else None
        except Odd:
            part = None
        return part or self.opaque(block, **notes)

    def emit(self, part: Part, bare: Callable[[Part], Record | None]) -> Any:
        """Return the wire form of a part, or ABSENT if this format cannot express it."""
        if isinstance(part, Opaque):
            return clone(part.data) if self.native(part) else ABSENT
        plain = bare(part)
        return ABSENT if plain is None else self.restore(plain, self.notes(part))

    def unfold(
        self, content: Any, block: Callable[[Record], Part], text: Callable[[str], Part] = Text
    ) -> tuple[Part, ...]:
        """Return the parts of a content that may be a text, a list of blocks, null, or missing."""
        if content is None or content is ABSENT:
            return ()
        if isinstance(content, str):
            return (text(content),)
        if isinstance(content, list):
            return tuple(block(item) if isinstance(item, dict) else self.opaque(item) for item in content)
        return (self.opaque(content),)

    def fold(self, parts: Iterable[Part], emit: Callable[[Part], Any], how: Content, shape: str | None) -> Any:
        """Return the content those parts are written as; `shape` is how it was once, where that was unusual."""
        written = [(part, block) for part in parts if (block := emit(part)) is not ABSENT]
        sole = written[0][0] if len(written) == 1 else None
        match shape if self._fits(shape, sole, len(written)) else self._shape(sole, len(written), how):
            case "absent":
                return ABSENT
            case "null":
                return None
            case "none":
                return how.void
            case "text" if isinstance(sole, Text):
                return sole.text
            case "odd":
                return written[0][1]
            case _:
                return [block for _, block in written]

    def shape(self, content: Any, parts: Iterable[Part], emit: Callable[[Part], Any], how: Content) -> str | None:
        """Return how `content` was written, if `fold` would write its parts differently."""
        kept = [part for part in parts if emit(part) is not ABSENT]
        usual = self._shape(kept[0] if len(kept) == 1 else None, len(kept), how)
        return None if (found := _shape_of(content)) == usual else found

    def _shape(self, sole: Part | None, count: int, how: Content) -> str:
        if not count:
            return how.empty
        return how.single if isinstance(sole, Text) and not self.notes(sole) else "list"

    def _fits(self, shape: str | None, sole: Part | None, count: int) -> bool:
        match shape:
            case "text":
                return isinstance(sole, Text) and not self.notes(sole)
            case "odd":
                return isinstance(sole, Opaque)
            case "null" | "absent":
                return not count
            case _:
                return shape is not None

    def _inside(self, found: Any, bare: Any) -> Extra:
        if not (isinstance(found, dict) and isinstance(bare, dict)) or same(found, bare):
            return {}
        return self.remember(found, bare)


@cache
def _ranks(order: str) -> dict[str, int]:
    return {key: place for place, key in enumerate(order.split())}


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _unescaped(note: str) -> str | None:
    """Return the wire key of a note; None for a note of our own."""
    if not note.startswith("$"):
        return note
    return note[1:] if note.startswith("$$") else None


def _shape_of(content: Any) -> str:
    if content is ABSENT:
        return "absent"
    return {type(None): "null", str: "text", list: "list"}.get(type(content), "odd")


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are written alike: 1 is not 1.0, and the order of keys counts."""
    return json.dumps(one) == json.dumps(other)


def clone(value: Any) -> Any:
    """Return a copy that shares nothing with the original, so that nobody can change a frozen value."""
    return json.loads(json.dumps(value)) if isinstance(value, (dict, list)) else value


def read(value: Any, where: str, tidy: Callable[[Record], Record]) -> Any:
    """Return a copy of a caller's JSON value, SDK objects as tidied records."""

    def plain(thing: Any) -> Any:
        if callable(dump := getattr(thing, "model_dump", None)):
            # Only what the API said: a field it never sent would go back to it as a null and be refused.
            return tidy(dump(by_alias=True, exclude_unset=True, warnings=False))
        if callable(dump := getattr(thing, "to_dict", None)):
            return tidy(dump())
        if isinstance(thing, Mapping):
            return dict(thing)
        if callable(iso := getattr(thing, "isoformat", None)):
            return iso()
        raise InvalidInput(f"{where} holds a {type(thing).__name__}, where JSON or an SDK object was expected.")

    try:
        return json.loads(json.dumps(value, default=plain))
    except InvalidInput:
        raise
    except (ValueError, TypeError, RecursionError) as problem:
        raise InvalidInput(f"{where} cannot be written as JSON: {problem}.") from problem


def read_record(value: Any, where: str, tidy: Callable[[Record], Record]) -> Record:
    """Return a caller's record as a dict of ours."""
    record = read(value, where, tidy)
    if isinstance(record, dict):
        return record
    raise InvalidInput(f"{where} is a {type(value).__name__}, where a dict or an SDK object was expected.")


def role_in(record: Record, where: str) -> str:
    role = record.get("role")
    if isinstance(role, str):
        return role
    raise InvalidInput(f'{where} has no "role": a text such as "user" was expected.')


def asked(kwargs: Any, key: str, *kinds: type) -> Any:
    """Return the value of a request under that key, if it has one of those types."""
    value = kwargs.get(key) if isinstance(kwargs, Mapping) else None
    if isinstance(value, kinds):
        return value
    raise InvalidInput(f'A request is a dict with a {" or ".join(kind.__name__ for kind in kinds)} under "{key}".')


def messages_of(value: Any) -> Sequence[Message]:
    """Return the messages to write, of a context or of a sequence."""
    messages = value.messages if isinstance(value, Context) else value
    if isinstance(messages, (list, tuple)):
        messages = [each.message if isinstance(each, StoredMessage) else each for each in messages]
    if isinstance(messages, Sequence) and all(isinstance(message, Message) for message in messages):
        return messages
    raise InvalidInput("dump() takes a Context or a sequence of Message.", hint="load() makes them of wire messages.")


def text_in(record: Record, key: str, default: str | None = None) -> str:
    value = record.get(key, default)
    if isinstance(value, str):
        return value
    raise Odd(key)


def text_or_none(record: Record, key: str) -> str | None:
    return None if record.get(key) is None else text_in(record, key)


def known(value: Any) -> str | None:
    """Return the value if it is a text."""
    return value if isinstance(value, str) else None


def dict_in(record: Record, key: str) -> Record:
    value = record.get(key)
    if isinstance(value, dict):
        return value
    raise Odd(key)


def to_text(arguments: Any) -> str:
    """Return arguments as JSON text."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def to_object(arguments: str) -> Record:
    """Return arguments as the object a provider insists on.

    No text is no arguments; a text that is not a JSON object is handed on whole, as `{"raw": text}`.
    """
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {"raw": arguments}
    return value if isinstance(value, dict) else {"raw": arguments}


def split(message: Message) -> list[Message]:
    """Split a message into several, for formats where a tool's result is a message of its own.

    Results come before what else a user said, and after what an assistant said.
    """
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    others = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if not results or (len(results) == 1 and not others and message.role == "tool"):
        return [message]
    answers = [replace(message, role="tool", parts=(result,), extra={}) for result in results]
    if not others:
        return answers
    rest = replace(message, role="user" if message.role == "tool" else message.role, parts=others)
    return [rest, *answers] if rest.role == "assistant" else [*answers, rest]


def result_parts(parts: Iterable[Part]) -> tuple[Text | File | Opaque, ...]:
    """Return the parts that a tool's result can contain."""
    if all(isinstance(part, (Text, File, Opaque)) for part in parts):
        return tuple(part for part in parts if isinstance(part, (Text, File, Opaque)))
    raise Odd("content")


def media(file: File) -> str:
    """Return the kind of a file: image, audio or document. One that only has an address is taken for an image."""
    if file.mime is not None:
        kind = file.mime.partition("/")[0]
        return kind if kind in ("image", "audio") else "document"
    for where in (file.name, file.url):
        path = (where or "").lower().partition("?")[0]
        if kinds := [kind for kind, endings in ENDINGS.items() if path.endswith(endings)]:
            return kinds[0]
    return "image" if file.url else "document"


def to_data_url(mime: str | None, data: str) -> str:
    return f"data:{mime};base64,{data}" if mime else data


def from_data_url(url: str) -> tuple[str, str] | None:
    """Return the mime type and base64 data of a `data:` URL, if it is a plain one."""
    head, comma, data = url.partition(";base64,")
    mime = head.removeprefix("data:")
    return (mime, data) if comma and mime and mime != head and ";" not in mime else None


def sound_of(record: Record) -> File:
    """Return a sound as OpenAI writes it: base64 data and the name of its format."""
    sound = dict_in(record, "input_audio")
    kind = text_in(sound, "format")
    return File(f"audio/{'mpeg' if kind == 'mp3' else kind}", None, text_in(sound, "data"))


def sound_record(mime: str, data: str) -> Record:
    kind = mime.partition("/")[2]
    written = {"mpeg": "mp3", "x-wav": "wav"}.get(kind, kind)
    return {"type": "input_audio", "input_audio": {"data": data, "format": written}}


def unmarked(block: Any) -> Any:
    """Return content without its cache markers, also inside tool results and documents."""
    if isinstance(block, list):
        return [unmarked(item) for item in block]
    if not isinstance(block, dict):
        return block
    return {
        key: unmarked(value) if key in ("content", "source") else value
        for key, value in block.items()
        if key != "cache_control"
    }
