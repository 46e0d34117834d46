"""List the conversations of a database and show one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.client.arguments import checks_arguments
from lossless.client.messages import tail_limits
from lossless.engine.inspect import details, lists
from lossless.model import ListedConversation, Listing, ShownConversation
from lossless.times import Time

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless


@checks_arguments
class Conversations:
    """The conversations of a database: called, it lists them."""

    def __init__(self, lcm: Lossless) -> None:
        self._lcm = lcm

    def __call__(
        self,
        *,
        active: bool | None = None,
        since: Time = None,
        until: Time = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Listing[ListedConversation]:
        """List conversations by newest activity: all, the active ones (True) or the archived ones (False).

        Times are from `since` on and before `until`: a time, a date or an age such as "90d". `limit` is 1 to 500, or None
        for all; `next_cursor` of a page, given as `cursor`, continues after it. The other lists take the same arguments.

        >>> [each.key for each in lcm.conversations(active=True, limit=50)]
        ['other', 'agent:main:main']
        """
        times, now = self._lcm._times(since, until)
        store = self._lcm._store

        def page(limit: int, cursor: str | None) -> Listing[ListedConversation]:
            return lists.conversations(store, times, active=active, now=now, limit=limit, cursor=cursor)

        with store.snapshot():
            if limit is not None:
                return page(limit, cursor)
            part = page(lists.MOST, cursor)
            found = list(part)
            while part.next_cursor is not None:
                part = page(lists.MOST, part.next_cursor)
                found += part
            return Listing(found)

    def show(self, conversation: str | int) -> ShownConversation:
        """Show everything about a conversation except its text.

        >>> lcm.conversations.show("#1").conversation.key
        'agent:main:main'
        """
        with self._lcm._store.snapshot():
            row = self._lcm._resolved(conversation).row
            return details.conversation(
                self._lcm._store, row, tail_limits(self._lcm, row), int(self._lcm._clock() * 1_000_000)
            )
