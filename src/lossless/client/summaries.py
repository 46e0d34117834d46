"""List the summaries of a conversation, and show one with its sources, its tree and its revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.client.arguments import checks_arguments
from lossless.engine.inspect import summaries
from lossless.engine.inspect.summaries import Kind
from lossless.engine.inspect.tree import tree
from lossless.engine.shared.defaults import TREE_LINES
from lossless.errors import NotFound
from lossless.model import Comparison, ListedSummary, Listing, Revision, ShownSummary, SummaryRequest, Tree
from lossless.times import Time

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless


@checks_arguments
class Summaries:
    """The summaries of any conversation: called, it lists them."""

    def __init__(self, lcm: Lossless) -> None:
        self._lcm = lcm

    def __call__(
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

        >>> leaves = lcm.summaries("agent:main:main", depth=0)
        """
        row = self._lcm._resolved(conversation).row
        times, now = self._lcm._times(since, until)
        return summaries.page(
            self._lcm._store,
            row,
            times,
            depth=depth,
            kind=kind,
            now=now,
            limit=limit,
            cursor=cursor,
            content=include_content,
        )

    def show(self, id: str) -> ShownSummary:
        """Show everything about a summary: its text, its sources, the summaries made from it, and its place.

        >>> lcm.summaries.show(summary).key
        'agent:main:main'
        """
        return summaries.show(self._lcm._store, *summaries.named(self._lcm._store, id))

    def request(self, id: str, *, prompt_dir: str | None = None) -> SummaryRequest:
        """Return the request that a summary was made with, in today's form: its sources, its depth, its previous context.

        `prompt_dir` is a directory of prompts instead of the configured one.

        >>> lcm.summaries.request(summary).depth
        0
        """
        from lossless.engine.compaction.prompts import Templates
        from lossless.engine.compaction.resummarize import request_of

        settings, store = self._lcm.settings, self._lcm._store
        row, summary = summaries.named(store, id)
        return request_of(store, row, summary, settings, Templates.load(prompt_dir or settings.prompt_dir))

    def tree(
        self,
        conversation: str | int | None = None,
        *,
        root: str | None = None,
        depth: int | None = None,
        everything: bool = False,
        limit: int = TREE_LINES,
    ) -> Tree:
        """Return the context of a conversation in order, or the summary `root`, with the sources below each summary.

        `depth` is the number of levels below, `limit` about the number of entries; `hidden` of an entry counts the summaries below
        it that are not listed. With `everything`, what left the context is included.

        >>> tree = lcm.summaries.tree("agent:main:main", depth=1)
        """
        row = None if conversation is None else self._lcm._resolved(conversation).row
        if root is not None:
            home, summary = summaries.named(self._lcm._store, root)
            if row is not None and row.id != home.id:
                raise NotFound("summary", root, hint=f"It belongs to {home.key}.")
            return tree(self._lcm._store, home, root=summary.id, depth=depth, limit=limit)
        if row is None:
            raise NotFound("conversation", "without a name", hint="Give its key, or the root of a tree.")
        return tree(self._lcm._store, row, depth=depth, everything=everything, limit=limit)

    def revisions(self, id: str) -> tuple[Revision, ...]:
        """Return the texts that a summary has had, the current one first, and the operations that wrote them.

        >>> len(lcm.summaries.revisions(summary))
        1
        """
        return summaries.revisions(self._lcm._store, *summaries.named(self._lcm._store, id))

    def compare(self, id: str, old: int | None = None, new: int | None = None) -> Comparison:
        """Compare two texts of a summary, by their numbers: by default the current one and the one before.

        >>> print(lcm.summaries.compare(summary).diff)
        <BLANKLINE>
        """
        return summaries.compare(id, self.revisions(id), old, new)
