"""The verbs of somebody who looks at what is stored: lists page by page, and one thing in full. They only read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from lossless.client.resolve import resolve
from lossless.config import Settings
from lossless.engine.compaction import plan
from lossless.engine.compaction.plan import Limits
from lossless.engine.ingest.secrets import Redactor
from lossless.engine.inspect import details, lists
from lossless.engine.recall.reader import Reader
from lossless.engine.shared.file_store import Files
from lossless.model import (
    ListedConversation,
    ListedMessage,
    Listing,
    MessageTail,
    Neighbours,
    ShownConversation,
    ShownFile,
    ShownMessage,
    StoredFile,
)
from lossless.store.base import ConversationRow
from lossless.store.store import Store

_WINDOW = 128_000


class Looking:
    """The half of `Lossless` that lists and shows, each answer of one moment.

    A conversation is named by its key, or by its id (12 or "#12"), which also finds an archived one.
    """

    settings: Settings
    _store: Store
    _redact: Redactor | None
    _files: Files
    _clock: Callable[[], float]

    def list_conversations(
        self,
        *,
        active: bool | None = True,
        after: datetime | str | None = None,
        before: datetime | str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[ListedConversation]:
        """List conversations with their figures, the newest activity first: active, archived (False) or all (None).

        `after` and `before` limit the time of the last activity. `limit` is 1 to 500; `next_cursor` of a page, given as
        `cursor`, continues behind it. So in the other lists.
        """
        wanted = lists.wanted((), after, before, None, False, self.settings.zone, self._clock())
        now = int(self._clock() * 1_000_000)
        with self._store.snapshot():
            return lists.conversations(self._store, wanted, now=now, active=active, limit=limit, cursor=cursor)

    def _time_bounds(
        self, after: datetime | str | None, before: datetime | str | None
    ) -> tuple[int | None, int | None]:
        """Return the first time to list and the time before which to stop."""
        wanted = lists.wanted((), after, before, None, False, self.settings.zone, self._clock())
        return wanted.bounds(int(self._clock() * 1_000_000))

    def show_conversation(self, conversation: str | int) -> ShownConversation:
        """All there is to know about a conversation, but its words."""
        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return details.conversation(self._store, row, self._tail_limits(row), int(self._clock() * 1_000_000))

    def list_messages(
        self,
        conversation: str | int,
        *,
        roles: Iterable[str] = (),
        after: datetime | str | None = None,
        before: datetime | str | None = None,
        recency: timedelta | None = None,
        oldest_first: bool = False,
        include_content: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[ListedMessage]:
        """Messages of a conversation in the order they came in, the newest first; where each is, and how it begins.

        Times are from `after` on, or of the last `recency`, and before `before`.
        """
        wanted = lists.wanted(roles, after, before, recency, oldest_first, self.settings.zone, self._clock())
        now = int(self._clock() * 1_000_000)
        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return lists.messages(
                self._store, row, wanted, now=now, limit=limit, cursor=cursor, content=include_content
            )

    def show_message(
        self, id: str | int, conversation: str | int | None = None, *, whole: bool = False
    ) -> ShownMessage:
        """A message with all its parts, by its id (`msg#...`), or by its seq in a conversation.

        References stand for large content, unless `whole` puts it back.
        """
        reader = Reader(self._store, self._files, self.settings, ())
        with self._store.snapshot():
            return details.message(reader, id, self._row_of(conversation), whole=whole)

    def tail_messages(self, conversation: str | int, count: int | None = None) -> MessageTail:
        """The newest messages that stand in a context themselves, in order: the fresh tail, or `count` (1 to 500).

        `fresh_tail_max_tokens` of the settings bounds either, and the newest message is always there.
        """
        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return details.tail(self._store, row, self._tail_limits(row), count)

    def messages_around(
        self, id: str | int, conversation: str | int | None = None, *, before: int = 5, after: int = 5
    ) -> Neighbours:
        """A message, as many before it and as many after it, in order."""
        with self._store.snapshot():
            return details.around(self._store, id, self._row_of(conversation), before=before, after=after)

    def list_files(
        self,
        conversation: str | int,
        *,
        after: datetime | str | None = None,
        before: datetime | str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[StoredFile]:
        """List the large contents of a conversation, the newest first."""
        wanted = lists.wanted((), after, before, None, False, self.settings.zone, self._clock())
        now = int(self._clock() * 1_000_000)
        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return lists.files(self._store, row, wanted, now=now, limit=limit, cursor=cursor)

    def show_file(self, id: str, conversation: str | int | None = None) -> ShownFile:
        """What is known of a file, which conversations have it, and which messages refer to it."""
        with self._store.snapshot():
            return details.file(self._store, self._files, id, self._row_of(conversation))

    def file_bytes(
        self,
        id: str,
        conversation: str | int | None = None,
        *,
        lines: tuple[int, int | None] | None = None,
        span: tuple[int, int | None] | None = None,
    ) -> bytes:
        """The exact bytes of a file: all, some lines (counted from 1, the last included), or from one byte up to another.

        `FileUnavailable` if they are not where they were put, or not what they were.
        """
        row = details.holders(self._store, id, self._row_of(conversation))[0][1]
        return details.content(self._files, row, lines, span)

    def _row_of(self, name: str | int | None) -> ConversationRow | None:
        """Return the row of a conversation that may be named."""
        return None if name is None else resolve(self._store, name, self._redact).row

    def _tail_limits(self, row: ConversationRow) -> Limits:
        return plan.limits(self.settings, _WINDOW, key=row.key)
