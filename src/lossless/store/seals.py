"""Compute a hash of the words below a summary (a seal). Pure.

A leaf's is the hash of what its messages say, as their columns hold it and in their order; a condensed summary's is the hash of
its sources'. So it depends on everything below, down to the words, and a rewritten summary keeps it. It does not depend on
ids, which differ in a copy: what is copied keeps its seal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import msgpack

if TYPE_CHECKING:
    from hashlib import _Hash

WORDS = ("role", "text", "parts", "at")
"""The columns of a message that are witnessed."""
_encode = msgpack.Encoder().encode


def of_messages(rows: Iterable[Sequence[Any]]) -> str:
    """Return the seal of a leaf, from the `WORDS` of its messages."""
    return sha256(b"".join(map(_encode, rows))).hexdigest()


def of_sources(seals: Iterable[str | None]) -> str | None:
    """Return the seal of a condensed summary; None if one of its sources has none."""
    found = list(seals)
    return sha256("".join(each for each in found if each).encode()).hexdigest() if found and all(found) else None


class Sealing:
    """Computes the seals of many leaves at once, from their messages in order."""

    def __init__(self) -> None:
        self._open: dict[int, _Hash] = {}

    def add(self, leaf: int, words: tuple[Any, ...]) -> None:
        self._open.setdefault(leaf, sha256()).update(_encode(words))

    def all(self, sources: Mapping[int, Sequence[int]]) -> dict[int, str]:
        """Return the seal of each leaf, and of each summary whose sources lead down to leaves only."""
        found = {leaf: seal.hexdigest() for leaf, seal in self._open.items()}
        waiting = [summary for summary in sources if summary not in found]
        while waiting:
            left = []
            for summary in waiting:
                seal = of_sources(found.get(each) for each in sources[summary])
                if seal is None:
                    left.append(summary)
                else:
                    found[summary] = seal
            if len(left) == len(waiting):
                break
            waiting = left
        return found
