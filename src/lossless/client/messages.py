"""List the messages of a conversation, show one, or show what surrounds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lossless.client.arguments import check_roles, checks_arguments
from lossless.engine.compaction import plan
from lossless.engine.compaction.plan import Limits
from lossless.engine.inspect import details, lists
from lossless.engine.recall.reader import Reader
from lossless.model import ListedMessage, Listing, MessageTail, Neighbours, ShownMessage
from lossless.store.rows.types import ConversationRow
from lossless.times import Time

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless

_WINDOW = 128_000


@checks_arguments
class Messages:
    """The messages of any conversation: called, it lists them."""

    def __init__(self, lcm: Lossless) -> None:
        self._lcm = lcm

    def __call__(
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
        """List the messages of a conversation, newest first, with the location and the beginning of each.

        Times are from `since` on and before `until`.

        >>> newest = lcm.messages("agent:main:main", roles=["user"], limit=5)
        """
        check_roles(roles)
        times, now = self._lcm._times(since, until)
        with self._lcm._store.snapshot():
            return lists.messages(
                self._lcm._store,
                self._lcm._resolved(conversation).row,
                times,
                roles=roles,
                oldest_first=oldest_first,
                now=now,
                limit=limit,
                cursor=cursor,
                content=include_content,
            )

    def show(self, id: str | int, conversation: str | int | None = None, *, whole: bool = False) -> ShownMessage:
        """Show a message with all its parts, by its id (`msg#...`), or by its place in a conversation.

        References stand for large content, unless `whole` restores it.

        >>> lcm.messages.show(1, "agent:main:main").stored.role
        'user'
        """
        reader = Reader(self._lcm._store, self._lcm._files, self._lcm.settings, ())
        with self._lcm._store.snapshot():
            return details.message(reader, id, self._lcm._row_of(conversation), whole=whole)

    def tail(self, conversation: str | int, count: int | None = None) -> MessageTail:
        """Return the newest messages of a context in order: the fresh tail, or `count` of them (1 to 500).

        `fresh_tail_max_tokens` of the settings bounds either, and the newest message is always included.

        >>> len(lcm.messages.tail("agent:main:main", 2).messages)
        2
        """
        with self._lcm._store.snapshot():
            row = self._lcm._resolved(conversation).row
            return details.tail(self._lcm._store, row, tail_limits(self._lcm, row), count)

    def around(
        self, id: str | int, conversation: str | int | None = None, *, before: int = 5, after: int = 5
    ) -> Neighbours:
        """Return a message with some messages before and after it, in order.

        >>> len(lcm.messages.around(message, before=0, after=2).messages)
        3
        """
        with self._lcm._store.snapshot():
            return details.around(self._lcm._store, id, self._lcm._row_of(conversation), before=before, after=after)


def tail_limits(lcm: Lossless, row: ConversationRow) -> Limits:
    """Return the limits that bound the fresh tail of a conversation."""
    return plan.limits(lcm.settings, _WINDOW, key=row.key)
