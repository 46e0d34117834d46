"""Which entries of a tree lead to its newest one.

A file of millions of entries is looked through at a few bytes each: an id is its hash, and only this process sees it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable


class Path:
    """A set of entries."""

    def __init__(self, hashes: Iterable[int]) -> None:
        self._hashes = array("q", sorted(hashes))

    def __contains__(self, entry_id: object) -> bool:
        return self.holds(hash(entry_id))

    def holds(self, hashed: int) -> bool:
        place = bisect_left(self._hashes, hashed)
        return place < len(self._hashes) and self._hashes[place] == hashed


class Tree:
    """Entries in the order of their file, each with the one it hangs from."""

    def __init__(self) -> None:
        self.ids = array("q")
        self.parents = array("q")

    def add(self, entry_id: str, parent: str | None) -> None:
        self.ids.append(hash(entry_id))
        self.parents.append(hash(parent) if parent else 0)

    def up(self, leaf: int) -> bytearray | None:
        """A mark for each entry from the leaf's place up to a root; None if the way breaks off.

        Files are only appended to, so what an entry hangs from stands before it: one look backwards finds the whole way and
        runs in no circle. Of an id that stands there twice, the newer is meant.
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
        return Path(hashed for hashed, marked in zip(self.ids, marks, strict=True) if marked)
