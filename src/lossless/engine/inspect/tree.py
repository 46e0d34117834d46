"""Show a context as a tree: its items, and below each summary its sources, as many levels as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from lossless.engine.inspect.lists import READ
from lossless.engine.inspect.summaries import listed
from lossless.engine.shared.defaults import TREE_LINES
from lossless.errors import InvalidInput
from lossless.ids import message_id
from lossless.model import MessageRun, Tree, TreeEntry
from lossless.store.rows.codec import moment
from lossless.store.rows.types import SPAN, Aside, ConversationRow, PlacedSummary, Run
from lossless.store.store import Store

MOST = 10_000


class _Branches(Struct):
    """Summaries by id, and the sources of the opened ones, in order."""

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
    """Return a context or one summary as a tree of at most `depth` levels and about `limit` lines.

    Levels are opened from the top; of a level that does not fit, the newest part is opened. With `everything`, items that
    left the context are included.
    """
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit={limit} is out of range.", hint=f"Give 1 to {MOST:,}.")
    if depth is not None and depth < 0:
        raise InvalidInput(f"depth={depth} is not a number of levels.", hint="Give 0, for the context alone, or more.")
    runs = store.details.runs(row.id) if root is None else [Run(summary_id=root, first=0, last=0, count=1, tokens=0)]
    aside = store.details.aside(row.id) if everything and root is None else []
    tops = [each.summary_id for each in (*runs, *aside) if each.summary_id is not None]
    branches = _Branches(store.details.placed(row.id, tops, READ))
    shown, shown_aside = runs[-limit:], aside[-limit:]
    opened = [each.summary_id for each in (*shown_aside, *shown) if each.summary_id is not None]
    _open_levels(store, row.id, branches, opened, limit - len(shown) - len(shown_aside), depth)
    seen = set[int]()
    entries = tuple(_entries(row.id, shown, branches, seen, _times(store, row.id, shown)))
    left = tuple(_entries(row.id, shown_aside, branches, seen, _times(store, row.id, shown_aside)))
    return Tree(row.key, *_sums(runs, branches), entries, left, len(runs) - len(shown))


def _open_levels(
    store: Store, conversation_id: int, branches: _Branches, level: Sequence[int], space_left: int, depth: int | None
) -> None:
    """Open summaries level by level, one query each, while their sources fit."""
    step = 0
    while depth is None or step < depth:
        selected = _fitting([branches.known[each] for each in level if each in branches.known], space_left)
        if not selected:
            return
        links, found = store.details.level_below(conversation_id, selected, READ)
        level = [source for _, source in links if source in found and source not in branches.known]
        branches.known.update(found)
        for each in selected:
            branches.below[each] = []
        for consumer, source in links:
            if source in found:
                branches.below[consumer].append(source)
        space_left, step = space_left - len(links), step + 1


def _fitting(level: Sequence[PlacedSummary], space_left: int) -> list[int]:
    """Return the newest summaries of a level that can be opened within so many lines."""
    selected: dict[int, None] = {}
    for each in reversed(level):
        if each.depth > 0 and each.id not in selected:
            space_left -= each.sources
            if space_left < 0:
                break
            selected[each.id] = None
    return list(selected)


def _entries(
    conversation_id: int, runs: Sequence[Run], branches: _Branches, seen: set[int], times: dict[int, int]
) -> Iterator[TreeEntry]:
    for run in runs:
        cause = run.cause if isinstance(run, Aside) else ""
        if run.summary_id is None:
            yield TreeEntry(steps=0, above=None, messages=_messages(conversation_id, run, times), cause=cause)
        elif run.summary_id in branches.known:
            yield from _walk(conversation_id, run.summary_id, branches, seen, cause)


def _walk(conversation_id: int, root: int, branches: _Branches, seen: set[int], cause: str) -> Iterator[TreeEntry]:
    waiting: list[tuple[int, int, str | None]] = [(root, 0, None)]
    while waiting:
        at, steps, above = waiting.pop()
        row, repeated = branches.known[at], at in seen
        seen.add(at)
        below = [] if repeated else branches.below.get(at, [])
        hidden = 0 if repeated or at in branches.below else row.descendants
        entry = listed(conversation_id, row)
        yield TreeEntry(
            steps=steps,
            above=above,
            summary=entry,
            messages=None,
            cause="" if steps else cause,
            repeated=repeated,
            hidden=hidden,
        )
        waiting += [(each, steps + 1, row.public_id) for each in reversed(below)]


def _messages(conversation_id: int, run: Run, times: dict[int, int]) -> MessageRun:
    first, last = (message_id(conversation_id * SPAN + seq) for seq in (run.first, run.last))
    ends = [moment(times[seq]) if seq in times else None for seq in (run.first, run.last)]
    return MessageRun(first, last, run.count, run.tokens, *ends)


def _times(store: Store, conversation_id: int, runs: Sequence[Run]) -> dict[int, int]:
    ends = [seq for run in runs if run.summary_id is None for seq in (run.first, run.last)]
    return store.details.message_times(conversation_id, ends) if ends else {}


def _sums(runs: Sequence[Run], branches: _Branches) -> tuple[int, int, int, int]:
    """Return the tokens of a context, those of its sources, and its numbers of summaries and messages."""
    tops = [branches.known[run.summary_id] for run in runs if run.summary_id in branches.known]
    messages = [run for run in runs if run.summary_id is None]
    raw = sum(run.tokens for run in messages)
    tokens, below = sum(each.tokens for each in tops), sum(each.source_tokens for each in tops)
    return tokens + raw, below + raw, len(tops), sum(run.count for run in messages)
