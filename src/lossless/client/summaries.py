"""The verbs of somebody who looks at summaries: which there are, what each stands for, what has become of it. They only read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lossless.config import Settings
from lossless.engine.shared.defaults import TREE_LINES
from lossless.errors import NotFound
from lossless.times import Time

if TYPE_CHECKING:
    from lossless.engine.ingest.secrets import Redactor
    from lossless.engine.inspect.summaries import Kind
    from lossless.model import Comparison, ListedSummary, Listing, Nearest, Revision, ShownSummary, Tree
    from lossless.store.store import Store


class Tracing:
    """The half of `Lossless` that shows what stands for what."""

    settings: Settings
    _store: Store
    _redact: Redactor | None
    _clock: Callable[[], float]

    def list_summaries(
        self,
        conversation: str | int,
        *,
        depth: int | None = None,
        kind: Kind | None = None,
        since: Time = None,
        until: Time = None,
        include_content: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Listing[ListedSummary]:
        """List the summaries of a conversation by the time of their newest message, newest first.

        Times are from `since` on and before `until`.
        """
        from lossless.client.resolve import resolve
        from lossless.engine.inspect import lists, summaries

        row = resolve(self._store, conversation, self._redact).row
        now = self._clock()
        times = lists.read_range(since, until, self.settings.zone, now)
        return summaries.page(
            self._store,
            row,
            times,
            depth=depth,
            kind=kind,
            now=int(now * 1_000_000),
            limit=limit,
            cursor=cursor,
            content=include_content,
        )

    def show_summary(self, id: str) -> ShownSummary:
        """Everything about a summary: its text, what it was made from and what was made from it, and where it stands."""
        from lossless.engine.inspect import summaries

        return summaries.show(self._store, *summaries.named(self._store, id))

    def tree(
        self,
        conversation: str | int | None = None,
        *,
        root: str | None = None,
        depth: int | None = None,
        everything: bool = False,
        limit: int = TREE_LINES,
    ) -> Tree:
        """The context of a conversation in order, or the summary `root`, and below each summary what it was made from.

        `depth` is how many levels below are told, `limit` about how many entries; `hidden` of an entry is how many summaries
        below it are not. With `everything`, what left the context is told as well.
        """
        from lossless.client.resolve import resolve
        from lossless.engine.inspect import summaries
        from lossless.engine.inspect.tree import tree

        row = None if conversation is None else resolve(self._store, conversation, self._redact).row
        if root is not None:
            home, summary = summaries.named(self._store, root)
            if row is not None and row.id != home.id:
                raise NotFound("summary", root, hint=f"It belongs to {home.key}.")
            return tree(self._store, home, root=summary.id, depth=depth, limit=limit)
        if row is None:
            raise NotFound("conversation", "without a name", hint="Give its key, or the root of a tree.")
        return tree(self._store, row, depth=depth, everything=everything, limit=limit)

    def revisions(self, id: str) -> tuple[Revision, ...]:
        """The texts that a summary has had, the present one first, and the operations that wrote them."""
        from lossless.engine.inspect import summaries

        return summaries.revisions(self._store, *summaries.named(self._store, id))

    def compare(self, id: str, old: int | None = None, new: int | None = None) -> Comparison:
        """Two texts of a summary, by their numbers: the present one and the one before, if you do not say."""
        from lossless.engine.inspect import summaries

        return summaries.compare(id, self.revisions(id), old, new)

    def nearest(self, what: str, which: object) -> Nearest:
        """What somebody may have meant who named something that is not there.

        `what` is "conversation", "message", "summary", "file", "operation", or "id" for any of the last three.
        """
        from lossless.engine.inspect.suggestions import nearest

        return nearest(self._store, what, which)
