"""Read old history: the conversations in scope, and the texts as a model sees them.

A `Reader` sees some conversations of one owner. An id outside of them gets the same error as an unknown id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct, structs

from lossless import request_strings
from lossless.config import Settings
from lossless.engine.sessions import current
from lossless.engine.shared.file_store import Files
from lossless.errors import FileUnavailable, InvalidInput, NotFound
from lossless.ids import Reference, message_id, parse
from lossless.model import (
    Excerpt,
    Extra,
    File,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    suspicion,
)
from lossless.session_patterns import is_scheduled
from lossless.store import jsontext
from lossless.store.rows.codec import message_of, moment
from lossless.store.rows.types import SPAN, ConversationRow, FileRow, MessageRow, SummaryRow
from lossless.store.store import Store
from lossless.tokens import estimate

_ELSEWHERE = "It may belong to another conversation: allConversations looks in all of them."


class Reader(Struct, frozen=True):
    """Access to the conversations in `scope`, all of one owner."""

    store: Store
    files: Files
    settings: Settings
    scope: tuple[int, ...]

    def named(self, id: str | int, *kinds: Literal["summary", "message", "file"]) -> Reference:
        """Parse an id; raise `InvalidInput` if it is not of one of these kinds."""
        found = parse(id)
        if kinds and found.kind not in kinds:
            raise InvalidInput(f"{found.id} is a {found.kind}.", hint=f"Give the id of a {' or a '.join(kinds)}.")
        return found

    def summary(self, reference: Reference) -> tuple[int, SummaryRow]:
        """Return a summary and its conversation."""
        found = self.store.summaries.named(reference.id)
        if found is None or found[0] not in self.scope:
            raise self._absent(reference)
        return found

    def message(self, reference: Reference) -> tuple[int, MessageRow]:
        """Return a message and its conversation."""
        conversation, seq = divmod(reference.number, SPAN)
        rows = self.store.messages.at(conversation, [seq]) if conversation in self.scope else []
        if not rows:
            raise self._absent(reference)
        return conversation, rows[0]

    def _absent(self, reference: Reference) -> NotFound:
        elsewhere = set(everything(self.store)) - set(self.scope)
        return NotFound(reference.kind, reference.id, hint=_ELSEWHERE if elsewhere else "")

    def file(self, reference: Reference) -> tuple[int, FileRow]:
        """Return a file and the first conversation in scope that has it."""
        for conversation in self.scope:
            if row := self.store.files.get(conversation, reference.id):
                return conversation, row
        raise self._absent(reference)

    def exact(self, conversation: int, row: MessageRow) -> Message:
        """Return a message as it was received. Contents that cannot be read stay references."""
        return self.restored(conversation, row)[0]

    def restored(self, conversation: int, row: MessageRow) -> tuple[Message, tuple[str, ...]]:
        """Return a message as it was received; if files are missing, as stored, with their ids."""
        from lossless.engine.ingest import large_content

        message, lost = message_of(row), list[str]()

        def read(file_id: str) -> bytes:
            found = self.store.files.get(conversation, file_id)
            with suppress(FileUnavailable):
                if found is not None:
                    return self.files.read_all(found.sha256)
            lost.append(file_id)
            return b""

        whole = large_content.restore(message, read)
        return (message, tuple(dict.fromkeys(lost))) if lost else (whole, ())


def family(store: Store, key: str, session: str | None = None) -> tuple[int, ...]:
    """Return the conversations of a key, archived ones and sub-agents included.

    Each run of a scheduled job stands alone: that of the session, or the newest.
    """
    rows = store.conversations.family(key)
    if not is_scheduled(key):
        return tuple(row.id for row in rows)
    run = current(store, key, session) or (rows[0] if rows and session is None else None)
    return () if run is None else tuple(_descendants(run.id, rows))


def granted(store: Store, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the conversations that a grant for these covers now, with their families."""
    covered = set(ids)
    for row in filter(None, map(store.conversations.get, ids)):
        rows = store.conversations.family(row.key)
        if is_scheduled(row.key):
            covered |= set(_descendants(row.id, rows))
        else:
            covered |= {each.id for each in rows}
    return tuple(sorted(covered))


def _descendants(id: int, rows: Sequence[ConversationRow]) -> list[int]:
    """Return a conversation and those of its sub-agents at any depth."""
    ids = [id]
    for parent in ids:  # the list grows during the loop
        ids += [row.id for row in rows if row.parent == parent and row.id not in ids]
    return ids


def everything(store: Store) -> tuple[int, ...]:
    """Return all conversations of the owner."""
    return tuple(row.id for row in store.conversations.of_owner())


def only(store: Store, conversation: int) -> tuple[int, ...]:
    """Return one conversation as a scope; raise `NotFound` if the owner has no such conversation."""
    if conversation not in everything(store):
        raise NotFound("conversation", conversation, hint="lcm_grep names the conversation of every hit.")
    return (conversation,)


def of_message(conversation: int, row: MessageRow, message: Message | None = None, above: str | None = None) -> Excerpt:
    """Return a message as an excerpt."""
    return with_tokens(
        Excerpt(
            message_id(conversation * SPAN + row.seq),
            "message",
            conversation,
            words(message or message_of(row)),
            0,
            moment(row.created_at if row.at is None else row.at),
            row.seq,
            row.role,
            above=above,
        )
    )


def of_summary(conversation: int, row: SummaryRow, above: str | None = None) -> Excerpt:
    """Return a summary as an excerpt."""
    at = row.created_at if row.latest_at is None else row.latest_at
    return with_tokens(
        Excerpt(
            row.public_id,
            "summary",
            conversation,
            row.text,
            0,
            moment(at),
            depth=row.depth,
            above=above,
            level=row.level,
            suspected=suspicion(row.faithful),
        )
    )


def cut(excerpt: Excerpt, start: int, text: str) -> Excerpt:
    """Return a part of an excerpt: `text`, which begins `start` characters into it."""
    return with_tokens(structs.replace(excerpt, text=text, start=start))


def with_tokens(excerpt: Excerpt) -> Excerpt:
    """Return the excerpt with what it costs a model to read."""
    return structs.replace(excerpt, tokens=estimate(render_excerpt(excerpt)))


def render_excerpt(excerpt: Excerpt) -> str:
    """Return an excerpt as a model reads it: data from the past, marked so, that cannot close its own tag."""
    facts = {
        "id": excerpt.id,
        "role": excerpt.role,
        "depth": excerpt.depth,
        "at": stamp(excerpt.at),
        "from_character": excerpt.start or None,
        "level": excerpt.level,
        "suspected": excerpt.suspected,
    }
    head = "".join(f" {name}={quoteattr(str(value))}" for name, value in facts.items() if value not in (None, ""))
    return f'<{excerpt.kind}{head} trust="untrusted">\n{escape(excerpt.text)}\n</{excerpt.kind}>'


def words(message: Message) -> str:
    """Return the text of a message: texts, calls, results and fields sent with them, without reasoning."""
    text = [words for part in message.parts if (words := _words(part))]
    return "\n".join([*text, *_beside(message.extra)] if message.extra else text)


def _beside(extra: Extra) -> Iterator[str]:
    """Yield the fields sent beside a text, without reasoning, encrypted text and encoded bytes."""
    for note in request_strings.notes(extra):
        found = list(request_strings.strings(note.value, key=note.key))
        if any(request_strings.visible_texts(found)):
            hidden = {each.path: "" for each in found if each.kind not in ("words", "frame")}
            value = request_strings.replace_at(note.value, hidden)
            yield f"[{note.key}] {value if isinstance(value, str) else jsontext.dumps(value)}"


def _words(part: Part) -> str:
    text = _part_text(part)
    if not part.extra or isinstance(part, Reasoning):
        return text
    return "\n".join([*([text] if text else []), *_beside(part.extra)])


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case ToolCall(call_id, name, arguments):
            return f"[call {call_id} of {name}] {arguments}"
        case ToolResult(call_id, inner, name, is_error):
            text = "\n".join(filter(None, map(_words, inner)))
            return f"[{'error' if is_error else 'result'} of {name or 'the call'} {call_id}] {text}"
        case File(mime, name, data, url):
            where = url if url and not url.startswith("data:") else f"{len(data or '') * 3 // 4:,} bytes"
            return f"[file {name or 'without a name'}, {mime or 'of unknown type'}, {where}]"
        case Opaque(kind, data):
            return f"[{kind}] {jsontext.dumps(data)}"
        case Reasoning():
            return ""


def stamp(at: datetime | None) -> str:
    """Format a time in ISO 8601; empty for None."""
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
