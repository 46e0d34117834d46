"""Redact a source while it is read, so that an import stores placeholders only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, TypeVar

from msgspec import structs

from lossless.engine.ingest import large_content
from lossless.engine.ingest.message_digest import Canonicalize, digest
from lossless.engine.ingest.secrets import Redactor
from lossless.errors import FileUnavailable
from lossless.imports.base import History, PastCopy, PastFile, PastMessage, PastSummary, Source
from lossless.model import Message, Part, Text, ToolResult

_MARK = "lossless"

P = TypeVar("P", bound=Part)


class RedactedSource:
    """A source whose titles, pins, messages, summaries and files contain no secrets."""

    def __init__(self, source: Source, redact: Redactor, canonicalize: Canonicalize) -> None:
        self._source, self._redact, self._canonicalize = source, redact, canonicalize
        self.system, self.version, self.identity = source.system, source.version, source.identity
        self.unmapped = source.unmapped
        self.items, self.close = source.items, source.close

    def histories(self) -> list[History]:
        return [self._history(each) for each in self._source.histories()]

    def _history(self, history: History) -> History:
        pins = tuple(structs.replace(pin, text=self._redact.text(pin.text)) for pin in history.pins)
        sessions = tuple(structs.replace(each, id=self._redact.identifier(each.id)) for each in history.sessions)
        return structs.replace(
            history,
            key=self._redact.identifier(history.key),
            session=None if history.session is None else self._redact.identifier(history.session),
            sessions=sessions,
            title=self._maybe(history.title),
            pins=pins,
        )

    def _maybe(self, text: str | None) -> str | None:
        return self._redact.text(text) if text else text

    def messages(self, history: History, *, after: str | None = None) -> Iterator[PastMessage]:
        contents: dict[str, bytes | None] = {}
        if history.exact and history.files:
            contents = {file.ref: file.data for file in self._source.files(history)}
        for past in self._source.messages(history, after=after):
            copies = tuple(structs.replace(each, **self._redact_message(each, contents)) for each in past.copies)
            redacted = self._redact_message(past, contents)
            aliases = tuple(map(self._redact.identifier, past.aliases))
            is_renamed = redacted["message"].event_id != past.message.event_id
            event_key = None if is_renamed or past.event_key is None else self._redact.identifier(past.event_key)
            yield structs.replace(past, **redacted, copies=copies, aliases=aliases, event_key=event_key)

    def _redact_message(self, past: PastMessage | PastCopy, contents: Mapping[str, bytes | None]) -> dict[str, Any]:
        """Return the redacted message, and the digest of its complete redacted content."""

        def read(file_id: str) -> bytes:
            data = contents.get(file_id)
            if data is None:
                raise FileUnavailable(f"{file_id} is not there.")
            return data

        stored_digest = past.digest
        if stored_digest is not None:
            with suppress(FileUnavailable):  # then only its event id identifies it
                whole, count = self._redact(large_content.restore(past.message, read))
                stored_digest = digest(whole, self._canonicalize) if count else stored_digest
        return {"message": self._message(past.message), "digest": stored_digest}

    def _message(self, message: Message) -> Message:
        parts = tuple(self._around_files(part) for part in message.parts)
        if any(one is not other for one, other in zip(parts, message.parts, strict=True)):
            message = structs.replace(message, parts=parts)
        return self._redact(message)[0]

    def _around_files(self, part: P) -> P:
        """Return the redacted part, with the positions of its file references updated."""
        if isinstance(part, ToolResult):
            inner = tuple(self._around_files(each) for each in part.parts)
            return part if inner == part.parts else structs.replace(part, parts=inner)
        cuts, pieces, moved, at = _cuts(part), list[str](), list[list[Any]](), 0
        if not isinstance(part, Text) or not cuts:
            return part
        for start, length, *rest in cuts:
            before, words = (
                self._redact.text(each) for each in (part.text[at:start], part.text[start : start + length])
            )
            moved.append([sum(map(len, pieces)) + len(before), len(words), *rest])
            pieces += [before, words]
            at = start + length
        text = "".join([*pieces, self._redact.text(part.text[at:])])
        if text == part.text:
            return part
        return structs.replace(part, text=text, extra={**part.extra, _MARK: {**part.extra[_MARK], "cuts": moved}})

    def summaries(self, history: History) -> Iterator[PastSummary]:
        for past in self._source.summaries(history):
            text = self._redact.text(past.text)
            earlier = tuple(structs.replace(each, text=self._redact.text(each.text)) for each in past.earlier)
            yield (
                past
                if (text, earlier) == (past.text, past.earlier)
                else structs.replace(past, text=text, earlier=earlier)
            )

    def files(self, history: History) -> Iterator[PastFile]:
        for file in self._source.files(history):
            data = None if file.data is None else self._redact.data(file.data)
            redacted = structs.replace(file, name=self._maybe(file.name), summary=self._redact.text(file.summary))
            if data is None or data == file.data:
                yield redacted
            else:
                yield structs.replace(redacted, data=data, size=len(data), sha256=sha256(data).hexdigest())


def _cuts(part: Part) -> list[list[Any]]:
    """Return the file references in a stored text: start, length, id, encoding."""
    mark = part.extra.get(_MARK) if isinstance(part, Text) else None
    cuts = mark.get("cuts") if isinstance(mark, dict) else None
    return cuts if isinstance(cuts, list) else []
