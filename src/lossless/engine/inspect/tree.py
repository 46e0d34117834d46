"""The context as a tree: what stands in it, and below each summary what it was made from, level by level as far as there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from lossless.engine.inspect.lists import READ
from lossless.engine.inspect.summaries import listed
from lossless.engine.shared.defaults import TREE_LINES
from lossless.errors import InvalidInput
from lossless.ids import message_id
from lossless.model import MessageRun, Tree, TreeEntry
from lossless.store.base import SPAN, Aside, ConversationRow, PlacedSummary, Run
from lossless.store.rows import moment
from lossless.store.store import Store

MOST = 10_000


class Grown(Struct):
    """What was read of a graph: summaries by id, and the sources of those that were opened, in order."""

    known: dict[int, PlacedSummary]
    below: dict[int, list[int]] = field(default_factory=dict)


def tree(
    store: Store,
    row: ConversationRow,
    *,
    root: int | None = None,
    depth: int | None = None,
    everything: bool = False,
    limit: int = TREE_LINES,
) -> Tree:
    """A context in order, or one summary, and what lies below: `depth` levels of it, and about `limit` lines.

    Levels are opened from above; of one that does not fit, the newest part is. With `everything`, what left the context is
    told too.
    """
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit={limit} is out of range.", hint=f"Give 1 to {MOST:,}.")
    if depth is not None and depth < 0:
        raise InvalidInput(f"depth={depth} is not a number of levels.", hint="Give 0, for the context alone, or more.")
    runs = store.details.runs(row.id) if root is None else [Run(root, 0, 0, 1, 0)]
    aside = store.details.aside(row.id) if everything and root is None else []
    tops = [each.summary_id for each in (*runs, *aside) if each.summary_id is not None]
    grown = Grown(store.details.placed(row.id, tops, READ))
    told, beside = runs[-limit:], aside[-limit:]
    opened = [each.summary_id for each in (*beside, *told) if each.summary_id is not None]
    _grow(store, row.id, grown, opened, limit - len(told) - len(beside), depth)
    seen = set[int]()
    entries = tuple(_entries(row.id, told, grown, seen, _times(store, row.id, told)))
    left = tuple(_entries(row.id, beside, grown, seen, _times(store, row.id, beside)))
    return Tree(row.key, *_sums(runs, grown), entries, left, len(runs) - len(told))


def _grow(store: Store, conversation_id: int, grown: Grown, level: Sequence[int], room: int, depth: int | None) -> None:
    """Open summaries level by level, one reading each, as long as what they were made from fits."""
    step = 0
    while depth is None or step < depth:
        chosen = _fitting([grown.known[each] for each in level if each in grown.known], room)
        if not chosen:
            return
        links, found = store.details.level_below(conversation_id, chosen, READ)
        level = [source for _, source in links if source in found and source not in grown.known]
        grown.known.update(found)
        for each in chosen:
            grown.below[each] = []
        for consumer, source in links:
            if source in found:
                grown.below[consumer].append(source)
        room, step = room - len(links), step + 1


def _fitting(level: Sequence[PlacedSummary], room: int) -> list[int]:
    """Of a level, the newest that can be opened within so many lines."""
    chosen: dict[int, None] = {}
    for each in reversed(level):
        if each.depth > 0 and each.id not in chosen:
            room -= each.sources
            if room < 0:
                break
            chosen[each.id] = None
    return list(chosen)


def _entries(
    conversation_id: int, runs: Sequence[Run], grown: Grown, seen: set[int], times: dict[int, int]
) -> Iterator[TreeEntry]:
    for run in runs:
        cause = run.cause if isinstance(run, Aside) else ""
        if run.summary_id is None:
            yield TreeEntry(0, None, messages=_messages(conversation_id, run, times), cause=cause)
        elif run.summary_id in grown.known:
            yield from _branches(conversation_id, run.summary_id, grown, seen, cause)


def _branches(conversation_id: int, root: int, grown: Grown, seen: set[int], cause: str) -> Iterator[TreeEntry]:
    waiting: list[tuple[int, int, str | None]] = [(root, 0, None)]
    while waiting:
        at, steps, above = waiting.pop()
        row, repeated = grown.known[at], at in seen
        seen.add(at)
        below = [] if repeated else grown.below.get(at, [])
        hidden = 0 if repeated or at in grown.below else row.descendants
        told = listed(conversation_id, row)
        yield TreeEntry(steps, above, told, None, "" if steps else cause, repeated, hidden)
        waiting += [(each, steps + 1, row.public_id) for each in reversed(below)]


def _messages(conversation_id: int, run: Run, times: dict[int, int]) -> MessageRun:
    first, last = (message_id(conversation_id * SPAN + seq) for seq in (run.first, run.last))
    said = [moment(times[seq]) if seq in times else None for seq in (run.first, run.last)]
    return MessageRun(first, last, run.count, run.tokens, *said)


def _times(store: Store, conversation_id: int, runs: Sequence[Run]) -> dict[int, int]:
    ends = [seq for run in runs if run.summary_id is None for seq in (run.first, run.last)]
    return store.details.message_times(conversation_id, ends) if ends else {}


def _sums(runs: Sequence[Run], grown: Grown) -> tuple[int, int, int, int]:
    """What a context costs, what lies below it, and how many summaries and messages stand in it."""
    tops = [grown.known[run.summary_id] for run in runs if run.summary_id in grown.known]
    messages = [run for run in runs if run.summary_id is None]
    said = sum(run.tokens for run in messages)
    tokens, below = sum(each.tokens for each in tops), sum(each.source_tokens for each in tops)
    return tokens + said, below + said, len(tops), sum(run.count for run in messages)
