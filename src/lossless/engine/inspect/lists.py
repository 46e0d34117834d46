"""Conversations, messages and files for somebody who looks through them: page by page, and where each message is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo

from msgspec import Struct
from msgspec.structs import astuple

from lossless.engine.compaction.summary_source import file_ids
from lossless.engine.inspect.titles import title_of
from lossless.engine.recall.reader import words
from lossless.engine.shared import cursor as cursors
from lossless.engine.shared.cursor import Number
from lossless.engine.sync.read_marks import PREFIX, load_mark
from lossless.errors import InvalidInput, InvalidTimeFilter
from lossless.ids import message_id
from lossless.model import ListedConversation, ListedMessage, Listing, StoredFile, Whereabouts
from lossless.store.base import (
    BURIED,
    SPAN,
    ConversationRow,
    Figures,
    FileRow,
    MessageRow,
    OpeningRow,
    PlaceRow,
)
from lossless.store.rows import message_of, micros, moment
from lossless.store.store import Store
from lossless.times import Time, find_age, read_age, read_time

MOST = 500
READ = 1_024
"""How much of a text is read for its beginning."""
_SHOWN = 240
_MICROSECOND = timedelta(microseconds=1)
_LONG_AGO = -(2**62)


class Wanted(Struct, frozen=True):
    """The messages to list, by role and time. Times and ages are microseconds; an age counts back from now."""

    roles: tuple[str, ...] = ()
    after: int | None = None
    before: int | None = None
    recency: int | None = None
    """The age from which on messages are listed, in place of `after`."""
    before_age: int | None = None
    """The age up to which messages are listed, in place of `before`."""
    oldest_first: bool = False

    def bounds(self, now: int) -> tuple[int | None, int | None]:
        """Return the first time to list and the time before which to stop."""
        since = self.after if self.recency is None else max(_LONG_AGO, now - self.recency)
        before = self.before if self.before_age is None else max(_LONG_AGO, now - self.before_age)
        if since is not None and before is not None and since >= before:
            raise InvalidTimeFilter("The first time is not before the last.", hint="Ask for other times.")
        return since, before


def wanted(
    roles: Iterable[str],
    after: Time,
    before: Time,
    recency: timedelta | str | None,
    oldest_first: bool,
    zone: tzinfo,
    now: float | None = None,
) -> Wanted:
    """Check and read the filters of a list."""
    if after is not None and recency is not None:
        raise InvalidTimeFilter("after and recency both set the first time.", hint="Give one of them.")
    age = find_age("after", after) if recency is None else read_age("recency", recency)
    before_age = find_age("before", before)
    first = None if age is not None else read_time("after", after, zone, now)
    last = None if before_age is not None else read_time("before", before, zone, now)
    return Wanted(
        roles=tuple(sorted({roles} if isinstance(roles, str) else set(roles))),
        after=None if first is None else micros(first),
        before=None if last is None else micros(last),
        recency=None if age is None else age // _MICROSECOND,
        before_age=None if before_age is None else before_age // _MICROSECOND,
        oldest_first=oldest_first,
    )


def conversations(
    store: Store, wanted: Wanted, *, now: int, active: bool | None, limit: int, cursor: str | None
) -> Listing[ListedConversation]:
    """List conversations, the newest activity first. Ages count back from the time of the first page."""
    _refuse(limit)
    below, filters = None, [active, *astuple(wanted)]
    if cursor is None:
        since, before = wanted.bounds(now)
    else:
        at, id, since, before = cursors.key_of(
            cursor, "conversations", filters, tuple[Number, Number, Number | None, Number | None]
        )
        below = (at, id)
    rows = store.lists.conversation_page(active=active, below=below, limit=limit + 1, since=since, before=before)
    page = rows[:limit]
    last = (page[-1].updated_at, page[-1].id, since, before) if len(rows) > limit else None
    return Listing(list_rows(store, page), cursors.after("conversations", filters, last) if last else None)


def list_rows(store: Store, rows: Sequence[ConversationRow]) -> list[ListedConversation]:
    """Return conversations with their titles, times and figures; the same few queries for any number."""
    if not rows:
        return []
    ids = [row.id for row in rows]
    figures, openings = store.lists.figures(ids), store.lists.openings(ids, PREFIX)
    return [listed(row, figures[row.id], openings.get(row.id, OpeningRow())) for row in rows]


def listed(row: ConversationRow, figures: Figures, opening: OpeningRow) -> ListedConversation:
    """Return the list entry of a conversation."""
    directory = None if opening.mark is None else load_mark(opening.mark).directory or None
    return ListedConversation(
        id=row.id,
        key=row.key,
        session=row.session,
        title=row.title or title_of(opening.texts, directory),
        directory=directory,
        active=row.active,
        archived_at=moment_of(row.archived_at),
        archive_cause=row.archive_cause,
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
        first_message_at=moment_of(opening.first_at),
        last_message_at=moment_of(opening.last_at),
        messages=row.messages,
        message_tokens=figures.message_tokens,
        summaries=figures.summaries,
        max_depth=figures.max_depth,
        context_items=figures.items,
        context_tokens=row.context_tokens,
    )


def moment_of(at: int | None) -> datetime | None:
    return None if at is None else moment(at)


def messages(
    store: Store,
    row: ConversationRow,
    wanted: Wanted,
    *,
    now: int,
    limit: int,
    cursor: str | None,
    content: bool,
) -> Listing[ListedMessage]:
    """Messages in the order they came in, or the newest first.

    An age counts back from the time of the first page, also on the pages after it.
    """
    _refuse(limit)
    asked = [row.id, *astuple(wanted)]
    if cursor is None:
        beyond, (since, before) = None, wanted.bounds(now)
    else:
        key = cursors.key_of(cursor, "messages", asked, tuple[Number, Number | None, Number | None])
        beyond, since, before = key
    rows = store.lists.message_page(
        row.id,
        beyond=beyond,
        newest_first=not wanted.oldest_first,
        roles=wanted.roles,
        since=since,
        before=before,
        limit=limit + 1,
    )
    page = rows[:limit]
    more = cursors.after("messages", asked, (page[-1].seq, since, before)) if len(rows) > limit else None
    return Listing(told(store, row.id, page, content=content), more)


def told(store: Store, conversation_id: int, rows: Sequence[MessageRow], *, content: bool) -> list[ListedMessage]:
    """These messages as they are listed, and where each of them is."""
    where = places(store, conversation_id, rows)
    return [_told(conversation_id, row, where[row.seq], content) for row in rows]


def _told(conversation_id: int, row: MessageRow, where: Whereabouts, content: bool) -> ListedMessage:
    message = message_of(row)
    said = words(message)
    return ListedMessage(
        message_id(conversation_id * SPAN + row.seq),
        row.seq,
        message.role,
        row.tokens,
        moment(row.created_at if row.at is None else row.at),
        where,
        file_ids([row.text]),
        preview(said),
        said if content else None,
    )


def preview(text: str) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(text[:READ].split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"


def places(store: Store, conversation_id: int, rows: Sequence[MessageRow]) -> dict[int, Whereabouts]:
    """Where these messages are, by seq."""
    found: defaultdict[int, list[PlaceRow]] = defaultdict(list)
    for place in store.lists.stand(conversation_id, [row.seq for row in rows]) if rows else ():
        found[place.seq].append(place)
    return {row.seq: whereabouts(row.outside, found[row.seq]) for row in rows}


def whereabouts(outside: str | None, places: Sequence[PlaceRow]) -> Whereabouts:
    """Where a message is, given why it is kept out of the context and where it, or what tells it, stands."""
    if outside is not None:
        return Whereabouts("tombstone" if outside in BURIED else "outside", outside)
    # What gave way to its sources tells nothing any more.
    standing = [place for place in places if place.cause != "dissolved"]
    chain = tuple(place.summary for place in standing if place.summary is not None)
    if any(place.shown for place in standing):
        return Whereabouts("summarised" if chain else "context", summaries=chain)
    cause = next((place.cause for place in standing if place.cause), None)
    return Whereabouts("nowhere", summaries=chain) if cause is None else Whereabouts("detached", cause, chain)


def files(
    store: Store, row: ConversationRow, wanted: Wanted, *, now: int, limit: int, cursor: str | None
) -> Listing[StoredFile]:
    """List the files of a conversation, the newest first. Ages count back from the time of the first page."""
    _refuse(limit)
    below, filters = None, [row.id, *astuple(wanted)]
    if cursor is None:
        since, before = wanted.bounds(now)
    else:
        at, id, since, before = cursors.key_of(
            cursor, "files", filters, tuple[Number, str, Number | None, Number | None]
        )
        below = (at, id)
    rows = store.lists.file_page(row.id, below=below, limit=limit + 1, since=since, before=before)
    page = rows[:limit]
    last = (page[-1].created_at, page[-1].id, since, before) if len(rows) > limit else None
    return Listing(map(stored_file, page), cursors.after("files", filters, last) if last else None)


def stored_file(row: FileRow) -> StoredFile:
    return StoredFile(row.id, row.name, row.mime, row.bytes, row.lines, row.sha256, row.summary, moment(row.created_at))


def _refuse(limit: int) -> None:
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit={limit} is out of range.", hint=f"Give 1 to {MOST}; a cursor goes on.")
