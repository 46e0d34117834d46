"""Write a message into the columns of a row, and read it back.

Its words are stored once, in `text`, where searches read them. `parts` is NULL for one plain text; else
it is JSON in which each piece says where its words stand (`span`: start and length in characters). Behind them stand,
for searches only, the words that are sent beside the texts: who speaks, the names of tools and files, what a format keeps
in `extra` (`lossless.request_strings`). Words that a text column cannot hold (NUL, lone surrogates) are written whole into `parts` instead,
escaped, and `text` gets a cleaned copy.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from msgspec import DecodeError, Struct, convert, json

from lossless import request_strings
from lossless.model import Extra, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.store import jsontext
from lossless.store.rows.types import Links, MessageRow, NewMessage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_MOMENT = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_MOMENT = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_MAX_EVENT_ID = 200
_COMMON_ROLES = frozenset({"user", "assistant", "tool", "system"})


class Words(NamedTuple):
    """The three columns with the content of a message."""

    text: str
    parts: str | None
    meta: str | None


def micros(moment: datetime) -> int:
    """Return microseconds since 1970. The few times whose year in UTC has no number move to the nearest that has."""
    return min(max((moment - _EPOCH) // _MICROSECOND, _FIRST_MOMENT), _LAST_MOMENT)


def moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _is_beyond(moment: datetime) -> bool:
    """Tell whether a time lies before the year 1 or after the year 9999 in UTC."""
    return (
        moment.tzinfo is not None
        and moment.year in (1, 9999)
        and moment != _EPOCH + timedelta(microseconds=micros(moment))
    )


def event_key(event_id: str | None) -> str | None:
    """Return the event id as the index stores it: itself, or its hash if it is too long. An empty one is none."""
    if not event_id:
        return None
    if len(event_id) <= _MAX_EVENT_ID and jsontext.is_clean(event_id):
        return event_id
    import hashlib

    return "sha256:" + hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()


def encode(message: Message, key: str | None = None) -> Words:
    """Return the columns of a message. `decode` returns an equal message. `key` is the event id as its column stores it."""
    meta = None
    known = (
        (message.at is not None and _is_beyond(message.at))
        or message.name is not None
        or message.stop is not None
        or message.extra
        or key != message.event_id
    )
    if known or not (message.role in _COMMON_ROLES or jsontext.is_clean(message.role)):
        meta = jsontext.dumps(_meta(message, key))
    parts = message.parts
    beside = _beside(message) if known else []
    if len(parts) == 1 and not beside:
        only = parts[0]
        if type(only) is Text and not only.extra and jsontext.is_clean(only.text):
            return Words(only.text, None, meta)
    writer = _Writer()
    pieces = [writer.piece(part) for part in parts]
    text = "\n".join([*writer.words, *writer.beside, *beside])
    if not jsontext.is_clean(text):
        writer = _Writer(whole=True)
        pieces = [writer.piece(part) for part in parts]
        text = jsontext.cleaned(text)
    dumps = jsontext.dumps if writer.free else jsontext.dumps_plain
    return Words(text, dumps(pieces), meta)


def _beside(message: Message) -> list[str]:
    """Return the text of a message beside its parts, for searches."""
    named = [message.name] if message.name else []
    return (
        [*named, *request_strings.visible_texts(request_strings.extra_strings(message.extra))]
        if message.extra
        else named
    )


def _meta(message: Message, key: str | None) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if message.at is not None and _is_beyond(message.at):
        meta["at"] = message.at.isoformat()
    if message.name is not None:
        meta["name"] = message.name
    if message.stop is not None:
        meta["stop"] = message.stop
    if message.extra:
        meta["extra"] = message.extra
    if key != message.event_id:
        meta["event_id"] = message.event_id
    if not jsontext.is_clean(message.role):
        meta["role"] = message.role
    return meta


class _Writer:
    """Collects the text of the parts and what the row must remember of each."""

    def __init__(self, *, whole: bool = False) -> None:
        self.words: list[str] = []
        self.beside: list[str] = []
        self.free = whole
        self._whole = whole
        self._at = 0

    def piece(self, part: Part) -> dict[str, Any]:
        piece = self._result(part) if isinstance(part, ToolResult) else self._bare(part)
        if part.extra:
            self.free = True
            piece["extra"] = part.extra
            self.beside += request_strings.visible_texts(
                request_strings.extra_strings(part.extra, thought=isinstance(part, Reasoning))
            )
        return piece

    def _bare(self, part: Text | Reasoning | ToolCall | File | Opaque) -> dict[str, Any]:
        match part:
            case Text(text):
                return self._span({"type": "text"}, "text", text)
            case ToolCall(call_id, name, arguments):
                self.beside += [name] if name else []
                return self._span({"type": "tool_call", "call_id": call_id, "name": name}, "arguments", arguments)
            case Reasoning(text, signature):
                return {"type": "reasoning", "text": text, "signature": signature}
            case File(mime, name, data, url):
                self.beside += [name] if name else []
                self.beside += [url] if url and not url.startswith("data:") else []
                return {"type": "file", "mime": mime, "name": name, "data": data, "url": url}
            case Opaque(kind, data):
                self.free = True
                self._add("\n".join(request_strings.visible_texts(request_strings.strings(data))))
                return {"type": "opaque", "kind": kind, "data": data}

    def _result(self, part: ToolResult) -> dict[str, Any]:
        piece: dict[str, Any] = {"type": "tool_result", "call_id": part.call_id}
        if part.name is not None:
            piece["name"] = part.name
        if part.is_error:
            piece["is_error"] = True
        inner = part.parts
        if len(inner) == 1 and type(inner[0]) is Text and not inner[0].extra:
            return self._span(piece, "text", inner[0].text)
        start = self._at
        piece["parts"] = [self.piece(each) for each in inner]
        piece["span"] = [start, max(0, self._at - 1 - start)]
        return piece

    def _span(self, piece: dict[str, Any], name: str, words: str) -> dict[str, Any]:
        if self._whole and _PAIR.search(words):
            # JSON would join the two halves of a character that this text holds apart.
            piece[f"{name}_hex"] = words.encode("utf-8", "surrogatepass").hex()
        elif self._whole:
            piece[name] = words
        else:
            piece["span"] = [self._at, len(words)]
        self._add(words)
        return piece

    def _add(self, words: str) -> None:
        self.words.append(words)
        self._at += len(words) + 1


def decode(role: str, text: str, parts: str | None, meta: str | None, at: int | None, event_id: str | None) -> Message:
    """Return the message that `encode` put into these columns."""
    found = (Text(text),) if parts is None else tuple([_part(piece, text) for piece in jsontext.stored(parts)])
    when = None if at is None else moment(at)
    if meta is None:
        return Message(role, found, when, None, event_id)
    more = jsontext.stored(meta)
    return Message(
        more.get("role", role),
        found,
        datetime.fromisoformat(more["at"]) if "at" in more else when,
        more.get("name"),
        more.get("event_id", event_id),
        more.get("stop"),
        more.get("extra", {}),
    )


def message_of(row: MessageRow) -> Message:
    """Return the message of a row, as its row stores it."""
    return decode(row.role, row.text, row.parts, row.meta, row.at, row.event_id)


def spoken_by(row: MessageRow) -> tuple[str, str | None, Extra]:
    """Return the role, the name and the `extra` of the message in a row."""
    if row.meta is None:
        return row.role, None, {}
    more = jsontext.stored(row.meta)
    return more.get("role", row.role), more.get("name"), more.get("extra", {})


def said_in(row: MessageRow) -> list[str | Part]:
    """Return the parts of a row's message, plain texts as bare strings."""
    if row.parts is None:
        return [row.text]
    said: list[str | Part] = []
    text = row.text
    for piece in jsontext.stored(row.parts):
        if piece["type"] != "text" or "extra" in piece:
            said.append(_part(piece, text))
        elif span := piece.get("span"):
            said.append(text[span[0] : span[0] + span[1]])
        else:
            said.append(_words(piece, "text", text))
    return said


def is_from_user(row: NewMessage) -> bool:
    """Tell whether a message contains words of the user, and not only tool results."""
    if row.role != "user" or row.parts is None or '"tool_result"' not in row.parts:
        return row.role == "user"
    return any(piece["type"] != "tool_result" for piece in jsontext.stored(row.parts))


def links_in(parts: str) -> Links:
    """Return the ids of the calls that a row's parts make, and of those they bring the results of."""
    try:
        ties = _decode_ties(parts)
    except (DecodeError, UnicodeEncodeError):
        ties = convert(jsontext.stored(parts), list[_Tie])
    asked = [tie.call_id for tie in ties if tie.type == "tool_call"]
    if '"opaque"' in parts:
        asked += [tie.data["call_id"] for tie in ties if tie.type == "opaque" and _calls(tie.kind, tie.data)]
    return asked, [tie.call_id for tie in ties if tie.type == "tool_result"]


class _Tie(Struct, gc=False):
    """The fields of a stored part that link calls and results."""

    type: str
    call_id: str = ""
    kind: str = ""
    data: Any = None


_decode_ties = json.Decoder(list[_Tie]).decode


def _calls(kind: str, data: Any) -> bool:
    """Tell whether an opaque part is a call of a tool that we do not model."""
    return kind.endswith("_call") and isinstance(data, dict) and isinstance(data.get("call_id"), str)


def _part(piece: dict[str, Any], text: str) -> Part:
    extra = piece.get("extra", {})
    match piece["type"]:
        case "text":
            return Text(_words(piece, "text", text), extra)
        case "tool_result":
            return ToolResult(
                piece["call_id"], _inner(piece, text), piece.get("name"), piece.get("is_error", False), extra
            )
        case "tool_call":
            return ToolCall(piece["call_id"], piece["name"], _words(piece, "arguments", text), extra)
        case "reasoning":
            return Reasoning(piece["text"], piece["signature"], extra)
        case "file":
            return File(piece["mime"], piece["name"], piece["data"], piece["url"], extra)
        case "opaque":
            return Opaque(piece["kind"], piece["data"], extra)
        case unknown:
            # A newer version wrote it; the schema check refuses such a database, so this is damage worth showing.
            return Opaque(str(unknown), piece)


def _inner(piece: dict[str, Any], text: str) -> tuple[Text | File | Opaque, ...]:
    if "parts" in piece:
        return cast(tuple[Text | File | Opaque, ...], tuple(_part(each, text) for each in piece["parts"]))
    return (Text(_words(piece, "text", text)),)


def _words(piece: dict[str, Any], name: str, text: str) -> str:
    span = piece.get("span")
    if span is None:
        whole = piece.get(name)
        return (
            bytes.fromhex(piece[f"{name}_hex"]).decode("utf-8", "surrogatepass") if whole is None else cast(str, whole)
        )
    start, length = span
    return text[start : start + length]
