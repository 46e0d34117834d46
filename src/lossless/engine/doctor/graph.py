"""Compute the values that summaries should store, from their links and messages. Pure functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from lossless.store.rows.types import LeafRow, NodeRow


class Computed(Struct, frozen=True):
    """The values of a summary that follow from its sources."""

    depth: int
    earliest_at: int | None
    latest_at: int | None
    descendants: int
    source_tokens: int


class Graph(Struct, frozen=True):
    """Summaries, their sources, and the totals of their leaves."""

    nodes: Mapping[int, NodeRow]
    sources: Mapping[int, Sequence[int]]
    leaves: Mapping[int, LeafRow]
    computed: Mapping[int, Computed]
    """Without summaries in a cycle, and those above them."""

    @property
    def endless(self) -> list[int]:
        """The summaries in a cycle, and those above them."""
        return [each for each in self.nodes if each not in self.computed and self.sources.get(each)]

    def uphill(self) -> Iterator[tuple[int, int]]:
        """Yield the links in cycles to a later summary: a summary is newer than all its sources."""
        lost = set(self.endless)
        for summary in lost:
            yield from ((summary, each) for each in self.sources[summary] if each in lost and each >= summary)

    def consumed(self) -> set[int]:
        """Return the summaries that are sources of others."""
        return {source for sources in self.sources.values() for source in sources}

    def entangled(self) -> set[int]:
        """Return conversations in which a summary is a source twice, or a source is missing, foreign or not shallower."""
        seen, found = set[int](), set[int]()
        for summary, sources in self.sources.items():
            above = self.nodes[summary]
            for source in sources:
                below = self.nodes.get(source)
                downwards = below and below.conversation_id == above.conversation_id and below.depth < above.depth
                if source in seen or not downwards:
                    found.add(above.conversation_id)
                seen.add(source)
        return found

    def below(self, roots: Iterable[int]) -> set[int]:
        """Return these summaries and all below them."""
        waiting, seen = list(roots), set[int]()
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += self.sources.get(each, ())
        return seen


def build_graph(nodes: Iterable[NodeRow], edges: Iterable[tuple[int, int, int]], leaves: Iterable[LeafRow]) -> Graph:
    """Return the graph of these summaries, links and leaves."""
    sources: dict[int, list[int]] = {}
    for summary, source, _ in edges:
        sources.setdefault(summary, []).append(source)
    known = {node.id: node for node in nodes}
    sums = {leaf.summary_id: leaf for leaf in leaves}
    return Graph(
        nodes=known,
        sources=sources,
        leaves=sums,
        computed=_compute(known, sources, sums),
    )


def _compute(
    nodes: Mapping[int, NodeRow], sources: Mapping[int, Sequence[int]], leaves: Mapping[int, LeafRow]
) -> dict[int, Computed]:
    """Compute each summary after all its sources."""
    above: dict[int, list[int]] = {}
    open_ = {each: len(sources.get(each, ())) for each in nodes}
    for summary, made_from in sources.items():
        for source in made_from:
            above.setdefault(source, []).append(summary)
    ready, computed = deque(each for each, left in open_.items() if not left), dict[int, Computed]()
    while ready:
        each = ready.popleft()
        computed[each] = _combine([computed[source] for source in sources.get(each, ())], leaves.get(each))
        for consumer in above.get(each, ()):
            if consumer in open_:
                open_[consumer] -= 1
                if not open_[consumer]:
                    ready.append(consumer)
    return computed


def _combine(below: Sequence[Computed], leaf: LeafRow | None) -> Computed:
    starts = [each.earliest_at for each in below if each.earliest_at is not None]
    ends = [each.latest_at for each in below if each.latest_at is not None]
    return Computed(
        depth=1 + max((each.depth for each in below), default=-1),
        earliest_at=min([*starts, *([leaf.earliest_at] if leaf else [])], default=None),
        latest_at=max([*ends, *([leaf.latest_at] if leaf else [])], default=None),
        descendants=sum(each.descendants + 1 for each in below),
        source_tokens=sum(each.source_tokens for each in below) + (leaf.tokens if leaf else 0),
    )
