"""One conversation, one message, one file: all there is to know about it, and what stands around it."""

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
    Followed,
    Message,
    MessageTail,
    Neighbours,
    Pin,
    Relative,
    ShownConversation,
    ShownFile,
    ShownMessage,
    StoredMessage,
)
from lossless.store.base import SPAN, ConversationRow, CopyRow, FileRow, ItemRow, MessageRow
from lossless.store.rows import decode, message_of, moment
from lossless.store.store import Store

MOST = 500
_FIRST, _MORE = 512, 8
_MOST_REFERENCES = 100


def conversation(store: Store, row: ConversationRow, limits: Limits, now: int) -> ShownConversation:
    """Everything about a conversation but its words."""
    figures = store.lists.figures([row.id])[row.id]
    tail, debt = fresh_tail(store, row.id, limits), store.debts.get(row.id)
    files, file_bytes = store.lists.file_totals(row.id)
    parent = None if row.parent is None else store.conversations.get(row.parent)
    return ShownConversation(
        listed(row, figures, store.lists.openings([row.id], PREFIX)[row.id]),
        tuple(store.conversations.sessions(row.id)),
        moment_of(row.renewed_at),
        ContextFigures(
            figures.items - figures.summaries_shown,
            figures.raw_tokens,
            figures.summaries_shown,
            row.context_tokens - figures.raw_tokens,
            len(tail),
            sum(item.tokens for item in tail),
        ),
        tuple(DepthFigures(*each) for each in store.lists.depths(row.id)),
        store.lists.departed(row.id),
        None if debt is None else debt_of(debt, row.context_tokens, now),
        _followed(store, row.id),
        files,
        file_bytes,
        tuple(Pin(pin.id, pin.text, pin.tokens, pin.message_id) for pin in store.manifests.key_pins(row.key)),
        tuple(_relative(each) for each in store.conversations.under_key(row.key) if each.id != row.id),
        row.continues,
        None if parent is None else _relative(parent),
        tuple(map(_relative, store.lists.sub_agents(row.id))),
    )


def _followed(store: Store, conversation_id: int) -> tuple[Followed, ...]:
    marks = [load_mark(state) for _, _, state in store.state.cursors(PREFIX, conversation_id)]
    return tuple(
        Followed(
            mark.path,
            mark.format,
            mark.session,
            mark.offset,
            None if mark.size < 0 else mark.size,
            moment(mark.read_at) if mark.read_at else None,
        )
        for mark in marks
    )


def _relative(row: ConversationRow) -> Relative:
    return Relative(row.id, row.key, row.active, row.archive_cause, row.messages, moment(row.updated_at))


def fresh_tail(store: Store, conversation_id: int, limits: Limits) -> list[ItemRow]:
    """The newest messages of a context that are never summarised."""
    items = _newest(store, conversation_id, limits.tail_count + 1)
    start = tail_start(store, conversation_id, items, limits)
    return [item for item in items[start:] if item.is_message]


def _newest(store: Store, conversation_id: int, least: int) -> list[ItemRow]:
    """The newest items: so many messages at least and a whole user's turn, if there are."""
    count = max(_FIRST, 2 * least)
    items = store.context.newest(conversation_id, count)
    while len(items) == count and (
        sum(item.is_message for item in items) < least or not any(item.is_user for item in items)
    ):
        count *= _MORE
        items = store.context.newest(conversation_id, count)
    return items


def newest(items: Sequence[ItemRow], count: int, max_tokens: int | None) -> list[ItemRow]:
    """The newest messages among some items: so many, within so many tokens, and always one."""
    chosen: list[ItemRow] = []
    tokens = 0
    for item in reversed([each for each in items if each.is_message]):
        tokens += item.tokens
        if len(chosen) == count or (chosen and max_tokens is not None and tokens > max_tokens):
            break
        chosen.append(item)
    return chosen[::-1]


def tail(store: Store, row: ConversationRow, limits: Limits, count: int | None) -> MessageTail:
    """The newest messages of the context: so many, or the fresh tail."""
    if count is not None and not 1 <= count <= MOST:
        raise InvalidInput(f"count={count} is out of range.", hint=f"Give 1 to {MOST}.")
    if count is None:
        items = fresh_tail(store, row.id, limits)
    else:
        items = newest(_newest(store, row.id, count), count, limits.tail_tokens)
    rows = store.messages.at(row.id, [item.ordinal for item in items]) if items else []
    return MessageTail(
        row.id,
        row.key,
        limits.tail_count if count is None else count,
        limits.tail_tokens,
        tuple(list_message_rows(store, row.id, rows, content=True)),
        sum(item.tokens for item in items),
        row.messages,
        row.context_tokens,
    )


def located(store: Store, id: str | int, row: ConversationRow | None) -> tuple[ConversationRow, int]:
    """The conversation and the seq of a message that is named by its id, or by its seq in a conversation."""
    found = parse(id)
    if found.kind != "message":
        raise InvalidInput(f"{found.id} is a {found.kind}.", hint="Give the id of a message: msg#...")
    home, seq = divmod(found.number, SPAN)
    if home:
        holder = store.conversations.get(home)
        row = holder if row is None or (holder and holder.key == row.key) else None
    elif row is None:
        raise InvalidInput(f"{seq} is a place in a conversation.", hint="Say in which, or give an id: msg#...")
    if row is None or not 0 < seq < row.next_seq:
        raise NotFound("message", found.id if home else seq, hint="`lcm messages list` shows which there are.")
    return row, seq


def message(reader: Reader, id: str | int, conversation: ConversationRow | None, *, whole: bool) -> ShownMessage:
    """A message with all its parts; with `whole`, what had left its row put back."""
    store = reader.store
    row, seq = located(store, id, conversation)
    found = _row(store, row, seq)
    said, lost = reader.restored(row.id, found) if whole else (message_of(found), ())
    stored = StoredMessage(
        row.id * SPAN + seq,
        seq,
        found.tokens,
        found.digest,
        moment(found.created_at),
        said,
        found.outside,
    )
    return ShownMessage(
        message_id(stored.id),
        row.id,
        row.key,
        stored,
        locate(store, row.id, [found])[seq],
        file_ids([found.text]),
        tuple(store.lists.aliases(row.id, seq)),
        tuple(_copy(found, each) for each in store.lists.other_texts(row.id, seq)),
        lost,
    )


def _row(store: Store, row: ConversationRow, seq: int) -> MessageRow:
    found = store.messages.at(row.id, [seq])
    if not found:
        raise NotFound("message", message_id(row.id * SPAN + seq), hint="It is lost: `lcm doctor` tells more.")
    return found[0]


def _copy(message: MessageRow, other: CopyRow) -> Message:
    return decode(message.role, other.text, other.parts, other.meta, other.at, message.event_id)


def around(store: Store, id: str | int, conversation: ConversationRow | None, *, before: int, after: int) -> Neighbours:
    """A message and its neighbours, by seq."""
    if not (0 <= before <= MOST and 0 <= after <= MOST):
        raise InvalidInput(f"{before} before and {after} after is out of range.", hint=f"Give 0 to {MOST} of each.")
    row, seq = located(store, id, conversation)
    first = max(1, seq - before)
    rows = store.messages.read(row.id, after=first - 1, limit=seq - first + 1 + after)
    found = tuple(list_message_rows(store, row.id, rows, content=True))
    return Neighbours(message_id(row.id * SPAN + seq), row.id, row.key, found)


def holders(store: Store, id: str, conversation: ConversationRow | None) -> list[tuple[int, FileRow]]:
    """The conversations that have a file, of those that may be meant, and their rows of it."""
    reference = parse(id)
    if reference.kind != "file":
        raise InvalidInput(f"{reference.id} is a {reference.kind}.", hint="Give the id of a file: file_...")
    found = store.lists.files_named(reference.id)
    if conversation is not None:
        family = {row.id for row in store.conversations.under_key(conversation.key)}
        found = [each for each in found if each[0] in family]
    if not found:
        raise NotFound("file", reference.id, hint="`lcm files list` shows those of a conversation.")
    return found


def file(store: Store, files: Files, id: str, conversation: ConversationRow | None) -> ShownFile:
    """What is known of a file, who has it, and which messages refer to it."""
    found = holders(store, id, conversation)
    row = found[0][1]
    rows = [each for holder, _ in found if (each := store.conversations.get(holder))]
    said = store.search(
        f'"{row.id}"', conversation_ids=[each.id for each in rows], limit=_MOST_REFERENCES + 1, include_recall=True
    )
    ids = sorted(each.conversation_id * SPAN + each.seq for each in said[:_MOST_REFERENCES])
    return ShownFile(
        stored_file(row),
        tuple(map(_relative, rows)),
        tuple(map(message_id, ids)),
        len(said) > _MOST_REFERENCES,
        files.exists(row.sha256),
    )


def content(
    files: Files, row: FileRow, lines: tuple[int, int | None] | None, span: tuple[int, int | None] | None
) -> bytes:
    """The bytes of a file: all of them, proved to be what came in, or some lines, or a stretch."""
    if lines is not None and span is not None:
        raise InvalidInput("Lines and bytes are two ways to count.", hint="Give one of them.")
    if lines is not None:
        return files.lines(row.sha256, *lines)
    return files.read_all(row.sha256) if span is None else files.read(row.sha256, *span)
