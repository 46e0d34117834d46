"""Find where the fresh tail of a context starts, with the tool calls and results that the store knows."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.engine.compaction import plan
from lossless.engine.compaction.plan import Limits
from lossless.store.rows.types import ItemRow
from lossless.store.store import Store

_FAR = 100_000


def tail_start(store: Store, conversation_id: int, items: Sequence[ItemRow], limits: Limits) -> int:
    """Return the index where the fresh tail starts, cut between tool rounds."""
    count, most = limits.tail_count, limits.protected_tokens
    start = plan.tail_start(items, count, most)
    if start == len(items):
        return start
    links = store.context.links(conversation_id, items[start].ordinal, items[-1].ordinal)
    if not plan.answers_earlier(items[start:], links):
        return start  # mostly at once: calls and results lie side by side
    # The tail never grows by more than it may hold, so a call that lies further back cannot join it.
    first, tokens = start, 0
    while first and tokens <= min(most, _FAR):
        first -= 1
        tokens += items[first].tokens if items[first].is_message else 0
    links |= store.context.links(conversation_id, items[first].ordinal, items[start].ordinal - 1)
    return first + plan.tail_start(items[first:], count, most, links)
