"""Find the entries of a tree that lead to its newest one.

A file of millions of entries takes a few bytes for each: an id is stored as its hash, valid in this process only.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable


class Path:
    """A set of entry ids, as hashes."""

    def __init__(self, hashes: Iterable[int]) -> None:
        self._hashes = array("q", sorted(hashes))

    def __contains__(self, entry_id: object) -> bool:
        return self.holds(hash(entry_id))

    def holds(self, hashed: int) -> bool:
        """Return whether the set contains a hashed id."""
        place = bisect_left(self._hashes, hashed)
        return place < len(self._hashes) and self._hashes[place] == hashed


class Tree:
    """Entries in file order, each with its parent."""

    def __init__(self) -> None:
        self.ids = array("q")
        self.parents = array("q")

    def add(self, entry_id: str, parent: str | None) -> None:
        self.ids.append(hash(entry_id))
        self.parents.append(hash(parent) if parent else 0)

    def up(self, leaf: int) -> bytearray | None:
        """Return a mark for each entry from a leaf up to a root; None if a parent is missing.

        Files are only appended to, so a parent is before its children: one pass backwards finds the whole path and cannot loop. Of a
        repeated id, the newer entry counts.
        """
        marks = bytearray(len(self.ids))
        wanted = self.ids[leaf]
        for place in range(leaf, -1, -1):
            if self.ids[place] == wanted:
                marks[place] = 1
                wanted = self.parents[place]
                if not wanted:
                    return marks
        return None

    def path(self, marks: bytearray) -> Path:
        """Return the marked entries."""
        return Path(hashed for hashed, marked in zip(self.ids, marks, strict=True) if marked)
