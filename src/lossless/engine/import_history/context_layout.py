"""Place an imported conversation's messages and summaries so that the promise holds. Pure functions.

What its context showed stays in the context, as long as every message occurs exactly once and in order. A summary that
conflicts with that is replaced by its sources. What its context no longer showed is listed beside ours: as a summary, if it
covers only such messages, or as the messages themselves.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

LayoutEntry: TypeAlias = int | str
"""The seq of a message, or the name of a summary."""


class Node(Struct, frozen=True):
    """The sources of a summary. They come before it, so that nothing leads back to itself."""

    seqs: tuple[int, ...]
    sources: tuple[str, ...]


class Place(Struct, frozen=True):
    """A message or a summary, with the range of messages it covers."""

    entry: LayoutEntry
    first: int
    last: int


class Layout(Struct, frozen=True):
    """The context, and what is listed beside it."""

    context: list[Place]
    aside: list[Place]
    """Listed beside the context: their messages occur nowhere else."""
    changed: Counter[str]
    """Counts of changes to the original layout, by kind."""


def layout(
    nodes: Mapping[str, Node], shown: Sequence[LayoutEntry], left: Sequence[LayoutEntry], seqs: Iterable[int]
) -> Layout:
    """Return the places of `shown` (the context), of `left` (what left it), and of the other messages in `seqs`.

    `nodes` contains all summaries, sources first.
    """
    builder = _LayoutBuilder(nodes, frozenset(seqs))
    # Deeper summaries before those below them, and any summary before a message that it covers.
    builder.put(sorted((each for each in shown if isinstance(each, str)), key=builder.depth, reverse=True))
    builder.put([each for each in shown if isinstance(each, int)])
    builder.separate()
    context = sorted(builder.placed.values(), key=lambda place: place.first)
    wanted = dict.fromkeys(shown)
    builder.changed["shown twice"] += len(shown) - len(wanted)
    if [p.entry for p in context if p.entry in wanted] != [each for each in wanted if each in builder.placed]:
        builder.changed["order"] += 1
    return Layout(context, builder.rest(left), +builder.changed)


class _LayoutBuilder:
    """The places assigned so far, and the messages that have one."""

    def __init__(self, nodes: Mapping[str, Node], seqs: frozenset[int]) -> None:
        self.placed: dict[LayoutEntry, Place] = {}
        self.changed: Counter[str] = Counter()
        self._nodes = nodes
        self._seqs = seqs
        self._taken: set[int] = set()
        self._done: set[str] = set()
        self._depths: dict[str, int] = {}
        for name, node in nodes.items():
            self._depths[name] = 1 + max((self._depths[each] for each in node.sources), default=-1)

    def depth(self, name: LayoutEntry) -> int:
        """Return the depth of a summary, or -1 for a message."""
        return self._depths[name] if isinstance(name, str) else -1

    def put(self, entries: Iterable[LayoutEntry]) -> None:
        """Place each entry, or its sources where its messages have a place already."""
        waiting = deque(entries)
        while waiting:
            entry = waiting.popleft()
            if isinstance(entry, int):
                self._put_message(entry)
            elif entry not in self._done:
                self._done.add(entry)
                below = self._below(entry)
                if below and self._taken.isdisjoint(below):
                    self._taken |= below
                    self.placed[entry] = Place(entry, min(below), max(below))
                else:
                    self.changed["shared" if below or below is None else "empty"] += 1
                    waiting.extendleft(reversed(self._replace_by_sources(entry)))

    def _put_message(self, seq: int) -> None:
        if seq not in self._seqs:
            self.changed["not shown here"] += 1
        elif seq in self._taken:
            self.changed["also below"] += 1
        else:
            self._taken.add(seq)
            self.placed[seq] = Place(seq, seq, seq)

    def _replace_by_sources(self, name: str) -> list[LayoutEntry]:
        """Return the sources of a summary that are shown instead of it."""
        node = self._nodes[name]
        return [*node.sources, *(seq for seq in node.seqs if seq in self._seqs and seq not in self._taken)]

    def _below(self, name: str) -> set[int] | None:
        """Return the messages a summary covers; None if one occurs twice."""
        waiting, seen, found = [name], {name}, set[int]()
        while waiting:
            node = self._nodes[waiting.pop()]
            fresh = set(node.sources) - seen
            if len(fresh) < len(node.sources) or not found.isdisjoint(node.seqs):
                return None
            seen |= fresh
            found.update(node.seqs)
            waiting += node.sources
        return found

    def separate(self) -> None:
        """Replace summaries that have other messages between theirs, the widest first, until none is left."""
        while torn := self._interleaved():
            for name in torn:
                self._taken -= self._below(name) or set()
                del self.placed[name]
                self.changed["torn"] += 1
                self.put(self._replace_by_sources(name))

    def _interleaved(self) -> list[str]:
        """Return the summaries whose range overlaps another place."""
        found: dict[str, None] = {}
        reaching: Place | None = None
        for place in sorted(self.placed.values(), key=lambda each: each.first):
            if reaching and place.first <= reaching.last:
                wider = max(reaching, place, key=lambda each: each.last - each.first)
                if isinstance(wider.entry, str):
                    found[wider.entry] = None
            if reaching is None or place.last > reaching.last:
                reaching = place
        return list(found)

    def rest(self, left: Sequence[LayoutEntry]) -> list[Place]:
        """Return the places beside the context: what left it, then the deepest other summaries, then messages."""
        before = set(self.placed)
        for name in before:
            self._done |= self._all_below(name) if isinstance(name, str) else set()
        order = sorted(self._nodes, key=self.depth, reverse=True)
        for name in [*(each for each in left if isinstance(each, str)), *order]:
            below = self._below(name) if name not in self._done else None
            if below and self._taken.isdisjoint(below):
                self._done |= {name} | self._all_below(name)
                self._taken |= below
                self.placed[name] = Place(name, min(below), max(below))
        self.put(sorted(self._seqs - self._taken))
        return sorted((self.placed[each] for each in self.placed.keys() - before), key=lambda place: place.first)

    def _all_below(self, name: str) -> set[str]:
        """Return all summaries below a summary."""
        waiting, seen = [name], set[str]()
        while waiting:
            fresh = set(self._nodes[waiting.pop()].sources) - seen
            seen |= fresh
            waiting += fresh
        return seen
