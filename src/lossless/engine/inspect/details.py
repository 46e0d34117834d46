"""Show one conversation, message or file in full, and the messages around one."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.engine.compaction.plan import Limits
from lossless.engine.compaction.summary_source import file_ids
from lossless.engine.compaction.tail import tail_start
from lossless.engine.inspect.lists import list_message_rows, listed, locate, moment_of, stored_file
from lossless.engine.inspect.status import debt_of
from lossless.engine.recall.reader import Reader
from lossless.engine.shared.file_store import Files
from lossless.engine.sync.read_marks import PREFIX, load_mark
from lossless.errors import InvalidInput, NotFound
from lossless.ids import message_id, parse
from lossless.model import (
    ContextFigures,
    DepthFigures,
    Message,
    MessageTail,
    Neighbours,
    Pin,
    Relative,
    ShownConversation,
    ShownFile,
    ShownMessage,
    StoredMessage,
    TranscriptPosition,
)
from lossless.store.rows.codec import decode, message_of, moment
from lossless.store.rows.types import SPAN, ConversationRow, CopyRow, FileRow, ItemRow, MessageRow
from lossless.store.store import Store

MOST = 500
_FIRST, _MORE = 512, 8
_MOST_REFERENCES = 100


def conversation(store: Store, row: ConversationRow, limits: Limits, now: int) -> ShownConversation:
    """Return everything about a conversation except the text of its messages."""
    figures = store.lists.figures([row.id])[row.id]
    tail, debt = fresh_tail(store, row.id, limits), store.debts.get(row.id)
    files, file_bytes = store.lists.file_totals(row.id)
    parent = None if row.parent is None else store.conversations.get(row.parent)
    return ShownConversation(
        conversation=listed(row, figures, store.lists.openings([row.id], PREFIX)[row.id]),
        sessions=tuple(store.conversations.sessions(row.id)),
        renewed_at=moment_of(row.renewed_at),
        context=ContextFigures(
            messages=figures.items - figures.summaries_shown,
            message_tokens=figures.raw_tokens,
            summaries=figures.summaries_shown,
            summary_tokens=row.context_tokens - figures.raw_tokens,
            tail_messages=len(tail),
            tail_tokens=sum(item.tokens for item in tail),
        ),
        depths=tuple(DepthFigures(*each) for each in store.lists.depths(row.id)),
        detached=store.lists.departed(row.id),
        debt=None if debt is None else debt_of(debt, row.context_tokens, now),
        transcripts=_followed(store, row.id),
        files=files,
        file_bytes=file_bytes,
        pins=tuple(
            Pin(id=pin.id, text=pin.text, tokens=pin.tokens, message=pin.message_id)
            for pin in store.manifests.key_pins(row.key)
        ),
        family=tuple(_relative(each) for each in store.conversations.under_key(row.key) if each.id != row.id),
        continues=row.continues,
        parent=None if parent is None else _relative(parent),
        sub_agents=tuple(map(_relative, store.lists.sub_agents(row.id))),
    )


def _followed(store: Store, conversation_id: int) -> tuple[TranscriptPosition, ...]:
    marks = [load_mark(state) for _, _, state in store.state.cursors(PREFIX, conversation_id)]
    return tuple(
        TranscriptPosition(
            path=mark.path,
            format=mark.format,
            session=mark.session,
            offset=mark.offset,
            size=None if mark.size < 0 else mark.size,
            read_at=moment(mark.read_at) if mark.read_at else None,
        )
        for mark in marks
    )


def _relative(row: ConversationRow) -> Relative:
    return Relative(
        id=row.id,
        key=row.key,
        active=row.active,
        archive_cause=row.archive_cause,
        messages=row.messages,
        updated_at=moment(row.updated_at),
    )


def fresh_tail(store: Store, conversation_id: int, limits: Limits) -> list[ItemRow]:
    """Return the newest messages of a context, which are never summarised."""
    items = _newest(store, conversation_id, limits.tail_count + 1)
    start = tail_start(store, conversation_id, items, limits)
    return [item for item in items[start:] if item.is_message]


def _newest(store: Store, conversation_id: int, least: int) -> list[ItemRow]:
    """Return the newest items: at least so many messages and a complete user turn, if they exist."""
    count = max(_FIRST, 2 * least)
    items = store.context.newest(conversation_id, count)
    while len(items) == count and (
        sum(item.is_message for item in items) < least or not any(item.is_user for item in items)
    ):
        count *= _MORE
        items = store.context.newest(conversation_id, count)
    return items


def newest(items: Sequence[ItemRow], count: int, max_tokens: int | None) -> list[ItemRow]:
    """Return the newest messages among items: at most `count`, within `max_tokens`, at least one."""
    selected: list[ItemRow] = []
    tokens = 0
    for item in reversed([each for each in items if each.is_message]):
        tokens += item.tokens
        if len(selected) == count or (selected and max_tokens is not None and tokens > max_tokens):
            break
        selected.append(item)
    return selected[::-1]


def tail(store: Store, row: ConversationRow, limits: Limits, count: int | None) -> MessageTail:
    """Return the newest messages of the context: `count` of them, or the fresh tail."""
    if count is not None and not 1 <= count <= MOST:
        raise InvalidInput(f"count={count} is out of range.", hint=f"Give 1 to {MOST}.")
    if count is None:
        items = fresh_tail(store, row.id, limits)
    else:
        items = newest(_newest(store, row.id, count), count, limits.tail_tokens)
    rows = store.messages.at(row.id, [item.ordinal for item in items]) if items else []
    return MessageTail(
        conversation=row.id,
        key=row.key,
        count=limits.tail_count if count is None else count,
        max_tokens=limits.tail_tokens,
        messages=tuple(list_message_rows(store, row.id, rows, content=True)),
        tokens=sum(item.tokens for item in items),
        stored_messages=row.messages,
        context_tokens=row.context_tokens,
    )


def find_message(store: Store, id: str | int, row: ConversationRow | None) -> tuple[ConversationRow, int]:
    """Return the conversation and seq of a message, given its id or its seq in a conversation."""
    found = parse(id)
    if found.kind != "message":
        raise InvalidInput(f"{found.id} is a {found.kind}.", hint="Give the id of a message: msg#...")
    home, seq = divmod(found.number, SPAN)
    if home:
        holder = store.conversations.get(home)
        row = holder if row is None or (holder and holder.key == row.key) else None
    elif row is None:
        raise InvalidInput(
            f"{seq} is a number within a conversation.", hint="Name the conversation, or give an id: msg#..."
        )
    if row is None or not 0 < seq < row.next_seq:
        raise NotFound("message", found.id if home else seq, hint="`lcm messages list` lists them.")
    return row, seq


def message(reader: Reader, id: str | int, conversation: ConversationRow | None, *, whole: bool) -> ShownMessage:
    """Return a message with all its parts; with `whole`, large contents instead of references."""
    store = reader.store
    row, seq = find_message(store, id, conversation)
    found = _row(store, row, seq)
    restored, lost = reader.restored(row.id, found) if whole else (message_of(found), ())
    stored = StoredMessage(
        id=row.id * SPAN + seq,
        seq=seq,
        tokens=found.tokens,
        digest=found.digest,
        created_at=moment(found.created_at),
        message=restored,
        outside=found.outside,
    )
    return ShownMessage(
        id=message_id(stored.id),
        conversation=row.id,
        key=row.key,
        stored=stored,
        where=locate(store, row.id, [found])[seq],
        files=file_ids([found.text]),
        aliases=tuple(store.lists.aliases(row.id, seq)),
        copies=tuple(_copy(found, each) for each in store.lists.other_texts(row.id, seq)),
        lost_files=lost,
    )


def _row(store: Store, row: ConversationRow, seq: int) -> MessageRow:
    found = store.messages.at(row.id, [seq])
    if not found:
        raise NotFound("message", message_id(row.id * SPAN + seq), hint="It is missing: run `lcm doctor`.")
    return found[0]


def _copy(message: MessageRow, other: CopyRow) -> Message:
    return decode(message.role, other.text, other.parts, other.meta, other.at, message.event_id)


def around(store: Store, id: str | int, conversation: ConversationRow | None, *, before: int, after: int) -> Neighbours:
    """Return a message and its neighbours by seq."""
    if not (0 <= before <= MOST and 0 <= after <= MOST):
        raise InvalidInput(f"{before} before and {after} after is out of range.", hint=f"Give 0 to {MOST} of each.")
    row, seq = find_message(store, id, conversation)
    first = max(1, seq - before)
    rows = store.messages.read(row.id, after=first - 1, limit=seq - first + 1 + after)
    found = tuple(list_message_rows(store, row.id, rows, content=True))
    return Neighbours(id=message_id(row.id * SPAN + seq), conversation=row.id, key=row.key, messages=found)


def holders(store: Store, id: str, conversation: ConversationRow | None) -> list[tuple[int, FileRow]]:
    """Return the conversations that have a file, within the family of the given one, and their rows of it."""
    reference = parse(id)
    if reference.kind != "file":
        raise InvalidInput(f"{reference.id} is a {reference.kind}.", hint="Give the id of a file: file_...")
    found = store.lists.files_named(reference.id)
    if conversation is not None:
        family = {row.id for row in store.conversations.under_key(conversation.key)}
        found = [each for each in found if each[0] in family]
    if not found:
        raise NotFound("file", reference.id, hint="`lcm files list` lists the files of a conversation.")
    return found


def file(store: Store, files: Files, id: str, conversation: ConversationRow | None) -> ShownFile:
    """Return a file, the conversations that have it and the messages that refer to it."""
    found = holders(store, id, conversation)
    row = found[0][1]
    rows = [each for holder, _ in found if (each := store.conversations.get(holder))]
    messages = store.search(
        f'"{row.id}"', conversation_ids=[each.id for each in rows], limit=_MOST_REFERENCES + 1, include_recall=True
    )
    ids = sorted(each.conversation_id * SPAN + each.seq for each in messages[:_MOST_REFERENCES])
    return ShownFile(
        file=stored_file(row),
        conversations=tuple(map(_relative, rows)),
        messages=tuple(map(message_id, ids)),
        more=len(messages) > _MOST_REFERENCES,
        available=files.exists(row.sha256),
    )


def content(
    files: Files, row: FileRow, lines: tuple[int, int | None] | None, span: tuple[int, int | None] | None
) -> bytes:
    """Return the bytes of a file: all (verified by their hash), some lines, or a byte range."""
    if lines is not None and span is not None:
        raise InvalidInput("lines and span exclude each other.", hint="Give one of them.")
    if lines is not None:
        return files.lines(row.sha256, *lines)
    return files.read_all(row.sha256) if span is None else files.read(row.sha256, *span)
