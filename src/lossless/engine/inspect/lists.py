"""List conversations, messages and files page by page, with the location of each message."""

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
from lossless.store.rows.codec import message_of, micros, moment
from lossless.store.rows.types import (
    BURIED,
    SPAN,
    ConversationRow,
    Figures,
    FileRow,
    MessageRow,
    OpeningRow,
    PlaceRow,
)
from lossless.store.store import Store
from lossless.times import Time, find_age, read_time

MOST = 500
READ = 1_024
"""Characters that are read of a text for its preview."""
_SHOWN = 240
_MICROSECOND = timedelta(microseconds=1)
_LONG_AGO = -(2**62)


class TimeRange(Struct, frozen=True):
    """The times of a list: from `since` on and before `until`, in microseconds; an age counts back from now."""

    since: int | None = None
    until: int | None = None
    since_age: int | None = None
    until_age: int | None = None

    def bounds(self, now: int) -> tuple[int | None, int | None]:
        """Return the first time to list and the time before which to stop."""
        since = self.since if self.since_age is None else max(_LONG_AGO, now - self.since_age)
        until = self.until if self.until_age is None else max(_LONG_AGO, now - self.until_age)
        if since is not None and until is not None and since >= until:
            raise InvalidTimeFilter("since is not before until.", hint="Swap them, or leave one out.")
        return since, until


def read_range(since: Time, until: Time, zone: tzinfo, now: float) -> TimeRange:
    """Read the times of a list; raise `InvalidTimeFilter` for anything else."""
    since_age, until_age = find_age("since", since), find_age("until", until)
    first = None if since_age is not None else read_time("since", since, zone, now)
    last = None if until_age is not None else read_time("until", until, zone, now)
    return TimeRange(
        since=None if first is None else micros(first),
        until=None if last is None else micros(last),
        since_age=None if since_age is None else since_age // _MICROSECOND,
        until_age=None if until_age is None else until_age // _MICROSECOND,
    )


def conversations(
    store: Store, times: TimeRange, *, active: bool | None, now: int, limit: int, cursor: str | None
) -> Listing[ListedConversation]:
    """List conversations by their newest activity, newest first."""
    _check_limit(limit)
    filters = [active, *astuple(times)]
    if cursor is None:
        below, (since, until) = None, times.bounds(now)
    else:
        key = cursors.decode_page(cursor, "conversations", filters, tuple[Number, Number, Number | None, Number | None])
        below, since, until = key[:2], key[2], key[3]
    rows = store.lists.conversation_page(active=active, since=since, before=until, below=below, limit=limit + 1)
    page = rows[:limit]
    last = (page[-1].updated_at, page[-1].id, since, until) if len(rows) > limit else None
    return Listing(list_rows(store, page), cursors.encode_page("conversations", filters, last) if last else None)


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
    """Return a stored time as a datetime; None stays None."""
    return None if at is None else moment(at)


def messages(
    store: Store,
    row: ConversationRow,
    times: TimeRange,
    *,
    roles: Iterable[str],
    oldest_first: bool,
    now: int,
    limit: int,
    cursor: str | None,
    content: bool,
) -> Listing[ListedMessage]:
    """List messages in the order they were stored, or newest first.

    An age counts back from the time of the first page, also on the pages after it.
    """
    _check_limit(limit)
    selected = tuple(sorted({roles} if isinstance(roles, str) else set(roles)))
    filters = [row.id, selected, *astuple(times), oldest_first]
    if cursor is None:
        beyond, (since, until) = None, times.bounds(now)
    else:
        key = cursors.decode_page(cursor, "messages", filters, tuple[Number, Number | None, Number | None])
        beyond, since, until = key
    rows = store.lists.message_page(
        row.id,
        beyond=beyond,
        newest_first=not oldest_first,
        roles=selected,
        since=since,
        before=until,
        limit=limit + 1,
    )
    page = rows[:limit]
    more = cursors.encode_page("messages", filters, (page[-1].seq, since, until)) if len(rows) > limit else None
    return Listing(list_message_rows(store, row.id, page, content=content), more)


def list_message_rows(
    store: Store, conversation_id: int, rows: Sequence[MessageRow], *, content: bool
) -> list[ListedMessage]:
    """Return the list entries of messages, with the location of each."""
    where = locate(store, conversation_id, rows)
    return [_listed_message(conversation_id, row, where[row.seq], content) for row in rows]


def _listed_message(conversation_id: int, row: MessageRow, where: Whereabouts, content: bool) -> ListedMessage:
    message = message_of(row)
    text = words(message)
    return ListedMessage(
        id=message_id(conversation_id * SPAN + row.seq),
        seq=row.seq,
        role=message.role,
        tokens=row.tokens,
        at=moment(row.created_at if row.at is None else row.at),
        where=where,
        files=file_ids([row.text]),
        preview=preview(text),
        content=text if content else None,
    )


def preview(text: str) -> str:
    """Return the beginning of a text on one line."""
    flat = " ".join(text[:READ].split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"


def locate(store: Store, conversation_id: int, rows: Sequence[MessageRow]) -> dict[int, Whereabouts]:
    """Return the location of each of these messages, by seq."""
    found: defaultdict[int, list[PlaceRow]] = defaultdict(list)
    for place in store.lists.stand(conversation_id, [row.seq for row in rows]) if rows else ():
        found[place.seq].append(place)
    return {row.seq: whereabouts(row.outside, found[row.seq]) for row in rows}


def whereabouts(outside: str | None, places: Sequence[PlaceRow]) -> Whereabouts:
    """Return the location of a message, from its reason to be outside and its places and those of its summaries."""
    if outside is not None:
        return Whereabouts("tombstone" if outside in BURIED else "outside", outside)
    # A dissolved summary no longer covers its sources.
    current = [place for place in places if place.cause != "dissolved"]
    chain = tuple(place.summary for place in current if place.summary is not None)
    if any(place.shown for place in current):
        return Whereabouts("summarised" if chain else "context", summaries=chain)
    cause = next((place.cause for place in current if place.cause), None)
    return Whereabouts("nowhere", summaries=chain) if cause is None else Whereabouts("detached", cause, chain)


def files(
    store: Store, row: ConversationRow, times: TimeRange, *, now: int, limit: int, cursor: str | None
) -> Listing[StoredFile]:
    """List the files of a conversation, newest first."""
    _check_limit(limit)
    filters = [row.id, *astuple(times)]
    if cursor is None:
        below, (since, until) = None, times.bounds(now)
    else:
        key = cursors.decode_page(cursor, "files", filters, tuple[Number, str, Number | None, Number | None])
        below, since, until = key[:2], key[2], key[3]
    rows = store.lists.file_page(row.id, since=since, before=until, below=below, limit=limit + 1)
    page = rows[:limit]
    last = (page[-1].created_at, page[-1].id, since, until) if len(rows) > limit else None
    return Listing(map(stored_file, page), cursors.encode_page("files", filters, last) if last else None)


def stored_file(row: FileRow) -> StoredFile:
    """Return the list entry of a file."""
    return StoredFile(
        id=row.id,
        name=row.name,
        mime=row.mime,
        bytes=row.bytes,
        lines=row.lines,
        sha256=row.sha256,
        summary=row.summary,
        created_at=moment(row.created_at),
    )


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit={limit} is out of range.", hint=f"Give 1 to {MOST}; a cursor continues the list.")
