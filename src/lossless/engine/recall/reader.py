"""Reading old history: who may see what, and how it is shown.

A `Reader` sees some conversations of one owner. Whatever lies outside of them does not exist for it: the answer is the
same as for an id that nobody ever had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct, structs

from lossless import sent
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
from lossless.patterns import is_scheduled
from lossless.store import jsontext
from lossless.store.base import SPAN, ConversationRow, FileRow, MessageRow, SummaryRow
from lossless.store.rows import message_of, moment
from lossless.store.store import Store
from lossless.tokens import estimate

_ELSEWHERE = "It may belong to another conversation: allConversations looks in all of them."


class Reader(Struct, frozen=True):
    """What somebody may read: `scope` holds the ids of conversations."""

    store: Store
    files: Files
    settings: Settings
    scope: tuple[int, ...]

    def named(self, id: str | int, *kinds: Literal["summary", "message", "file"]) -> Reference:
        """What an id names, if it is of one of these kinds."""
        found = parse(id)
        if kinds and found.kind not in kinds:
            raise InvalidInput(f"{found.id} is a {found.kind}.", hint=f"Give the id of a {' or a '.join(kinds)}.")
        return found

    def summary(self, reference: Reference) -> tuple[int, SummaryRow]:
        """A summary and its conversation."""
        found = self.store.summaries.named(reference.id)
        if found is None or found[0] not in self.scope:
            raise self._absent(reference)
        return found

    def message(self, reference: Reference) -> tuple[int, MessageRow]:
        """A message and its conversation."""
        conversation, seq = divmod(reference.number, SPAN)
        rows = self.store.messages.at(conversation, [seq]) if conversation in self.scope else []
        if not rows:
            raise self._absent(reference)
        return conversation, rows[0]

    def _absent(self, reference: Reference) -> NotFound:
        elsewhere = set(everything(self.store)) - set(self.scope)
        return NotFound(reference.kind, reference.id, hint=_ELSEWHERE if elsewhere else "")

    def file(self, reference: Reference) -> tuple[int, FileRow]:
        """A file and the first conversation in scope that has it."""
        for conversation in self.scope:
            if row := self.store.files.get(conversation, reference.id):
                return conversation, row
        raise self._absent(reference)

    def exact(self, conversation: int, row: MessageRow) -> Message:
        """A message as it came in. What cannot be read any more stays a reference."""
        return self.restored(conversation, row)[0]

    def restored(self, conversation: int, row: MessageRow) -> tuple[Message, tuple[str, ...]]:
        """A message as it came in; or as it is stored, and the ids of the files that are lost."""
        from lossless.engine.ingest import large_content

        message, lost = message_of(row), list[str]()

        def read(file_id: str) -> bytes:
            found = self.store.files.get(conversation, file_id)
            with suppress(FileUnavailable):
                if found is not None:
                    return self.files.whole(found.sha256)
            lost.append(file_id)
            return b""

        whole = large_content.restore(message, read)
        return (message, tuple(dict.fromkeys(lost))) if lost else (whole, ())


def family(store: Store, key: str, session: str | None = None) -> tuple[int, ...]:
    """The conversations a key stands for: those that were ever under it, and those of their sub-agents.

    One run of a scheduled job is on its own: that of the session, or the newest.
    """
    rows = store.conversations.family(key)
    if not is_scheduled(key):
        return tuple(row.id for row in rows)
    run = current(store, key, session) or (rows[0] if rows and session is None else None)
    return () if run is None else tuple(_descendants(run.id, rows))


def granted(store: Store, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the conversations that a grant for these covers now: each with all that belong to its key, or to its run."""
    covered = set(ids)
    for row in filter(None, map(store.conversations.get, ids)):
        rows = store.conversations.family(row.key)
        if is_scheduled(row.key):
            covered |= set(_descendants(row.id, rows))
        else:
            covered |= {each.id for each in rows}
    return tuple(sorted(covered))


def _descendants(id: int, rows: Sequence[ConversationRow]) -> list[int]:
    """A conversation and those of its sub-agents, however deep."""
    ids = [id]
    for parent in ids:  # it grows meanwhile
        ids += [row.id for row in rows if row.parent == parent and row.id not in ids]
    return ids


def everything(store: Store) -> tuple[int, ...]:
    """All conversations of the owner."""
    return tuple(row.id for row in store.conversations.of_owner())


def only(store: Store, conversation: int) -> tuple[int, ...]:
    """One conversation of the owner."""
    if conversation not in everything(store):
        raise NotFound("conversation", conversation, hint="lcm_grep names the conversation of every hit.")
    return (conversation,)


def of_message(conversation: int, row: MessageRow, message: Message | None = None, above: str | None = None) -> Excerpt:
    """A message as an excerpt."""
    return priced(
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
    """A summary as an excerpt."""
    at = row.created_at if row.latest_at is None else row.latest_at
    return priced(
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
    """Some of an excerpt: `text`, which stands `start` characters into it."""
    return priced(structs.replace(excerpt, text=text, start=start))


def priced(excerpt: Excerpt) -> Excerpt:
    """The excerpt with what it costs a model to read."""
    return structs.replace(excerpt, tokens=estimate(shown(excerpt)))


def shown(excerpt: Excerpt) -> str:
    """An excerpt as a model reads it: data from the past, marked so, that cannot close its own tag."""
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
    """Everything a message says to others: text, calls, results, and what is sent beside them. A model's thinking is not history."""
    said = [words for part in message.parts if (words := _words(part))]
    return "\n".join([*said, *_beside(message.extra)] if message.extra else said)


def _beside(extra: Extra) -> Iterator[str]:
    """What a format sends beside a text, less thinking, sealed text and encoded bytes."""
    for note in sent.notes(extra):
        found = list(sent.strings(note.value, key=note.key))
        if any(sent.words(found)):
            hidden = {each.path: "" for each in found if each.kind not in ("words", "frame")}
            value = sent.changed(note.value, hidden)
            yield f"[{note.key}] {value if isinstance(value, str) else jsontext.dumps(value)}"


def _words(part: Part) -> str:
    said = _said(part)
    if not part.extra or isinstance(part, Reasoning):
        return said
    return "\n".join([*([said] if said else []), *_beside(part.extra)])


def _said(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case ToolCall(call_id, name, arguments):
            return f"[call {call_id} of {name}] {arguments}"
        case ToolResult(call_id, inner, name, is_error):
            said = "\n".join(filter(None, map(_words, inner)))
            return f"[{'error' if is_error else 'result'} of {name or 'the call'} {call_id}] {said}"
        case File(mime, name, data, url):
            where = url if url and not url.startswith("data:") else f"{len(data or '') * 3 // 4:,} bytes"
            return f"[file {name or 'without a name'}, {mime or 'of unknown type'}, {where}]"
        case Opaque(kind, data):
            return f"[{kind}] {jsontext.dumps(data)}"
        case Reasoning():
            return ""


def stamp(at: datetime | None) -> str:
    """A moment as programs and models read it; empty if there is none."""
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
