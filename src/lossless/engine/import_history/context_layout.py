"""Pure: which place everything of another house takes here, so that the promise holds.

What its context showed stays in the context, as far as every message then comes exactly once and in order. A summary that
stands in the way of that steps aside and lets what it was made from show itself. What its context no longer showed is
listed beside ours: a summary, if it stands for such messages only, or the messages themselves.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

Entry: TypeAlias = int | str
"""A message by its seq, or a summary by its name."""


class Node(Struct, frozen=True):
    """What a summary was made from. Its sources stand before it, so that nothing leads back to itself."""

    seqs: tuple[int, ...]
    sources: tuple[str, ...]


class Place(Struct, frozen=True):
    """Something with all the messages it stands for, from `first` to `last`."""

    entry: Entry
    first: int
    last: int


class Layout(Struct, frozen=True):
    """Where everything is."""

    context: list[Place]
    aside: list[Place]
    """What is listed beside the context: the messages below come nowhere else."""
    changed: Counter[str]
    """What could not stay as it was, and how often."""


def layout(nodes: Mapping[str, Node], shown: Sequence[Entry], left: Sequence[Entry], seqs: Iterable[int]) -> Layout:
    """The places of `shown` (the context) and `left` (what left it), and of the rest of the messages `seqs`.

    `nodes` holds all summaries, sources first.
    """
    house = _House(nodes, frozenset(seqs))
    # A deeper summary before what may lie below it, and any summary before a message that it stands for too.
    house.put(sorted((each for each in shown if isinstance(each, str)), key=house.depth, reverse=True))
    house.put([each for each in shown if isinstance(each, int)])
    house.put_in_order()
    context = sorted(house.placed.values(), key=lambda place: place.first)
    wanted = dict.fromkeys(shown)
    house.changed["shown twice"] += len(shown) - len(wanted)
    if [p.entry for p in context if p.entry in wanted] != [each for each in wanted if each in house.placed]:
        house.changed["order"] += 1
    return Layout(context, house.rest(left), +house.changed)


class _House:
    """What is placed already, and what that leaves."""

    def __init__(self, nodes: Mapping[str, Node], seqs: frozenset[int]) -> None:
        self.placed: dict[Entry, Place] = {}
        self.changed: Counter[str] = Counter()
        self._nodes = nodes
        self._seqs = seqs
        self._taken: set[int] = set()
        self._done: set[str] = set()
        self._depths: dict[str, int] = {}
        for name, node in nodes.items():
            self._depths[name] = 1 + max((self._depths[each] for each in node.sources), default=-1)

    def depth(self, name: Entry) -> int:
        return self._depths[name] if isinstance(name, str) else -1

    def put(self, entries: Iterable[Entry]) -> None:
        """Each in its place, or what it was made from, where its messages have one already."""
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
                    waiting.extendleft(reversed(self._step_aside(entry)))

    def _put_message(self, seq: int) -> None:
        if seq not in self._seqs:
            self.changed["not shown here"] += 1
        elif seq in self._taken:
            self.changed["also below"] += 1
        else:
            self._taken.add(seq)
            self.placed[seq] = Place(seq, seq, seq)

    def _step_aside(self, name: str) -> list[Entry]:
        """What a summary was made from, to be shown in its stead."""
        node = self._nodes[name]
        return [*node.sources, *(seq for seq in node.seqs if seq in self._seqs and seq not in self._taken)]

    def _below(self, name: str) -> set[int] | None:
        """The messages a summary stands for; None if some come more than once."""
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

    def put_in_order(self) -> None:
        """Let those step aside whose messages have others between them, the widest first, until none is left."""
        while torn := self._torn():
            for name in torn:
                self._taken -= self._below(name) or set()
                del self.placed[name]
                self.changed["torn"] += 1
                self.put(self._step_aside(name))

    def _torn(self) -> list[str]:
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

    def rest(self, left: Sequence[Entry]) -> list[Place]:
        """What is listed beside the context: what had left it, then the deepest summaries of what remains, then messages."""
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
        waiting, seen = [name], set[str]()
        while waiting:
            fresh = set(self._nodes[waiting.pop()].sources) - seen
            seen |= fresh
            waiting += fresh
        return seen
