"""The verbs of somebody who looks at what is stored: lists page by page, and one thing in full. They only read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lossless.config import Settings
from lossless.times import Time

if TYPE_CHECKING:
    from lossless.engine.compaction.plan import Limits
    from lossless.engine.ingest.secrets import Redactor
    from lossless.engine.inspect import lists
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
        since: Time = None,
        until: Time = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[ListedConversation]:
        """List conversations by newest activity: the active ones, the archived ones (False) or all (None).

        Times are from `since` on and before `until`: a time, a date or an age such as "90d". `limit` is 1 to 500;
        `next_cursor` of a page, given as `cursor`, continues after it. The other lists take the same arguments.
        """
        from lossless.engine.inspect import lists

        times, now = self._times(since, until)
        with self._store.snapshot():
            return lists.conversations(self._store, times, active=active, now=now, limit=limit, cursor=cursor)

    def show_conversation(self, conversation: str | int) -> ShownConversation:
        """All there is to know about a conversation, but its words."""
        from lossless.client.resolve import resolve
        from lossless.engine.inspect import details

        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return details.conversation(self._store, row, self._tail_limits(row), int(self._clock() * 1_000_000))

    def list_messages(
        self,
        conversation: str | int,
        *,
        roles: Iterable[str] = (),
        since: Time = None,
        until: Time = None,
        oldest_first: bool = False,
        include_content: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[ListedMessage]:
        """List the messages of a conversation, newest first, with the location and the beginning of each."""
        from lossless.client.resolve import resolve
        from lossless.engine.inspect import lists

        times, now = self._times(since, until)
        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return lists.messages(
                self._store,
                row,
                times,
                roles=roles,
                oldest_first=oldest_first,
                now=now,
                limit=limit,
                cursor=cursor,
                content=include_content,
            )

    def show_message(
        self, id: str | int, conversation: str | int | None = None, *, whole: bool = False
    ) -> ShownMessage:
        """A message with all its parts, by its id (`msg#...`), or by its seq in a conversation.

        References stand for large content, unless `whole` puts it back.
        """
        from lossless.engine.inspect import details
        from lossless.engine.recall.reader import Reader

        reader = Reader(self._store, self._files, self.settings, ())
        with self._store.snapshot():
            return details.message(reader, id, self._row_of(conversation), whole=whole)

    def tail_messages(self, conversation: str | int, count: int | None = None) -> MessageTail:
        """The newest messages that stand in a context themselves, in order: the fresh tail, or `count` (1 to 500).

        `fresh_tail_max_tokens` of the settings bounds either, and the newest message is always there.
        """
        from lossless.client.resolve import resolve
        from lossless.engine.inspect import details

        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return details.tail(self._store, row, self._tail_limits(row), count)

    def messages_around(
        self, id: str | int, conversation: str | int | None = None, *, before: int = 5, after: int = 5
    ) -> Neighbours:
        """A message, as many before it and as many after it, in order."""
        from lossless.engine.inspect import details

        with self._store.snapshot():
            return details.around(self._store, id, self._row_of(conversation), before=before, after=after)

    def list_files(
        self,
        conversation: str | int,
        *,
        since: Time = None,
        until: Time = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[StoredFile]:
        """List the large contents of a conversation by the time they were stored, newest first."""
        from lossless.client.resolve import resolve
        from lossless.engine.inspect import lists

        times, now = self._times(since, until)
        with self._store.snapshot():
            row = resolve(self._store, conversation, self._redact).row
            return lists.files(self._store, row, times, now=now, limit=limit, cursor=cursor)

    def show_file(self, id: str, conversation: str | int | None = None) -> ShownFile:
        """What is known of a file, which conversations have it, and which messages refer to it."""
        from lossless.engine.inspect import details

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
        from lossless.engine.inspect import details

        row = details.holders(self._store, id, self._row_of(conversation))[0][1]
        return details.content(self._files, row, lines, span)

    def _times(self, since: Time, until: Time) -> tuple[lists.TimeRange, int]:
        """Return the times of a list, and the current time from which ages count."""
        from lossless.engine.inspect import lists

        now = self._clock()
        return lists.read_range(since, until, self.settings.zone, now), int(now * 1_000_000)

    def _row_of(self, name: str | int | None) -> ConversationRow | None:
        """Return the row of a conversation that may be named."""
        from lossless.client.resolve import resolve

        return None if name is None else resolve(self._store, name, self._redact).row

    def _tail_limits(self, row: ConversationRow) -> Limits:
        from lossless.engine.compaction import plan

        return plan.limits(self.settings, _WINDOW, key=row.key)
