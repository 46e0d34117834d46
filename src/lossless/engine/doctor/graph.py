"""Pure: what the summaries of a database should say of themselves, from their links and their messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from lossless.store.base import LeafRow, NodeRow


class Counted(Struct, frozen=True):
    """What follows from all that lies below a summary."""

    depth: int
    earliest_at: int | None
    latest_at: int | None
    descendants: int
    source_tokens: int


class Graph(Struct, frozen=True):
    """Summaries, what each was made from, and what their leaves come to."""

    nodes: Mapping[int, NodeRow]
    sources: Mapping[int, Sequence[int]]
    leaves: Mapping[int, LeafRow]
    counted: Mapping[int, Counted]
    """Of those whose sources lead down to leaves; not of those that lead back to themselves."""

    @property
    def endless(self) -> list[int]:
        """The summaries that lead back to themselves, and those above them."""
        return [each for each in self.nodes if each not in self.counted and self.sources.get(each)]

    def uphill(self) -> Iterator[tuple[int, int]]:
        """Of those that lead back, the links to what came later: a summary is younger than all it was made from."""
        lost = set(self.endless)
        for summary in lost:
            yield from ((summary, each) for each in self.sources[summary] if each in lost and each >= summary)

    def consumed(self) -> set[int]:
        return {source for sources in self.sources.values() for source in sources}

    def entangled(self) -> set[int]:
        """The conversations in which a summary is a source twice, leads nowhere, or not downwards."""
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
        """These summaries, and all below them."""
        waiting, seen = list(roots), set[int]()
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += self.sources.get(each, ())
        return seen


def graph(nodes: Iterable[NodeRow], edges: Iterable[tuple[int, int, int]], leaves: Iterable[LeafRow]) -> Graph:
    sources: dict[int, list[int]] = {}
    for summary, source, _ in edges:
        sources.setdefault(summary, []).append(source)
    known = {node.id: node for node in nodes}
    sums = {leaf.summary_id: leaf for leaf in leaves}
    return Graph(known, sources, sums, _count(known, sources, sums))


def _count(
    nodes: Mapping[int, NodeRow], sources: Mapping[int, Sequence[int]], leaves: Mapping[int, LeafRow]
) -> dict[int, Counted]:
    """Each after all it was made from."""
    above: dict[int, list[int]] = {}
    open_ = {each: len(sources.get(each, ())) for each in nodes}
    for summary, made_from in sources.items():
        for source in made_from:
            above.setdefault(source, []).append(summary)
    ready, counted = deque(each for each, left in open_.items() if not left), dict[int, Counted]()
    while ready:
        each = ready.popleft()
        counted[each] = _counted([counted[source] for source in sources.get(each, ())], leaves.get(each))
        for consumer in above.get(each, ()):
            if consumer in open_:
                open_[consumer] -= 1
                if not open_[consumer]:
                    ready.append(consumer)
    return counted


def _counted(below: Sequence[Counted], leaf: LeafRow | None) -> Counted:
    starts = [each.earliest_at for each in below if each.earliest_at is not None]
    ends = [each.latest_at for each in below if each.latest_at is not None]
    return Counted(
        1 + max((each.depth for each in below), default=-1),
        min([*starts, *([leaf.earliest_at] if leaf else [])], default=None),
        max([*ends, *([leaf.latest_at] if leaf else [])], default=None),
        sum(each.descendants + 1 for each in below),
        sum(each.source_tokens for each in below) + (leaf.tokens if leaf else 0),
    )
