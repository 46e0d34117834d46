"""Find the new part of a conversation that a host without event ids sends again. Pure functions.

An id decides, a digest only supports it. A message that might be new is stored, because a duplicate can be repaired and a
dropped message cannot.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile


def new_part(known: Sequence[bytes], incoming: Sequence[bytes]) -> list[int]:
    """Return which incoming messages (by index) are new, when a host sends its whole conversation.

    Not new are the shared start, and runs of two or more after it, in the same order, around what was edited, dropped or
    inserted. Single messages count as known when nearly everything around them is: alone they may be repetitions, and a message
    stored twice can be repaired, a dropped one cannot.
    """
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(known, incoming, strict=False)))
    tail, rest = known[shared:], incoming[shared:]
    pairs = _in_order(tail, rest)
    matched = {at for _, at in pairs}
    if len(matched) < 2 or 4 * len(matched) < 3 * (max(matched) + 1):
        matched = {at for block in _blocks(pairs) if len(block) > 1 for _, at in block}
        if 2 * len(matched) < min(len(tail), len(rest)):
            matched = set()
    return [shared + at for at in range(len(rest)) if at not in matched]


def continues(old: Sequence[bytes], incoming: Sequence[bytes]) -> bool:
    """Return whether a list continues an older one, rather than only starting like it.

    It is at least as long, contains most of the older one (two messages or more) and its last message.
    """
    if len(incoming) < len(old):
        return False
    matched = sorted(set(range(len(incoming))) - set(new_part(old, incoming)))
    return len(matched) >= 2 and 2 * len(matched) > len(old) and incoming[matched[-1]] == old[-1]


def _in_order(tail: Sequence[bytes], rest: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return pairs of equal messages in the same order: around unique ones, and at the end of the tail."""
    start, length = _run(tail, rest)
    end, before = len(tail) - length, rest[:start] if length else rest
    pairs = [(end + at, start + at) for at in range(length)]
    anchors = _rising(_once(tail[:end], before))
    bounds = [(-1, -1), *anchors, (end, len(before))]
    for (low_a, low_b), (at_a, at_b), (high_a, high_b) in zip(bounds, bounds[1:], bounds[2:], strict=False):
        pairs += _around(tail, before, (low_a, low_b), (at_a, at_b), (high_a, high_b))
    return sorted(set(pairs))


def _around(
    tail: Sequence[bytes], rest: Sequence[bytes], low: tuple[int, int], at: tuple[int, int], high: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return an anchor and the equal messages on both sides of it, up to its neighbours."""
    first, last = at, at
    while first[0] - 1 > low[0] and first[1] - 1 > low[1] and tail[first[0] - 1] == rest[first[1] - 1]:
        first = (first[0] - 1, first[1] - 1)
    while last[0] + 1 < high[0] and last[1] + 1 < high[1] and tail[last[0] + 1] == rest[last[1] + 1]:
        last = (last[0] + 1, last[1] + 1)
    return [(first[0] + n, first[1] + n) for n in range(last[0] - first[0] + 1)]


def _once(tail: Sequence[bytes], rest: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the positions of messages that occur once on each side."""
    places = {digest: at for at, digest in enumerate(tail)}
    counts, others = Counter(tail), Counter(rest)
    return [(places[digest], at) for at, digest in enumerate(rest) if counts[digest] == others[digest] == 1]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence that rises on both sides (patience sorting)."""
    tops: list[int] = []
    chain: list[tuple[tuple[int, int], int]] = []
    last: list[int] = []
    for pair in pairs:
        pile = bisect_left(tops, pair[0])
        chain.append((pair, last[pile - 1] if pile else -1))
        tops[pile : pile + 1] = [pair[0]]
        last[pile : pile + 1] = [len(chain) - 1]
    found, at = [], last[-1] if last else -1
    while at >= 0:
        pair, at = chain[at]
        found.append(pair)
    return found[::-1]


def _blocks(pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return the pairs in groups that are consecutive on both sides."""
    blocks: list[list[tuple[int, int]]] = []
    for pair in pairs:
        if blocks and (blocks[-1][-1][0] + 1, blocks[-1][-1][1] + 1) == pair:
            blocks[-1].append(pair)
        else:
            blocks.append([pair])
    return blocks


def _run(tail: Sequence[bytes], rest: Sequence[bytes]) -> tuple[int, int]:
    """Return the start and length of the longest run of `rest` that equals the end of `tail`."""
    if not tail or not rest:
        return 0, 0
    matches = _z([*reversed(tail), b"", *reversed(rest)])[len(tail) + 1 :]
    runs = [(len(rest) - back - length, length) for back, length in enumerate(matches) if length > 1]
    return max(runs, key=lambda run: (run[1], -run[0]), default=(0, 0))


def _z(sequence: Sequence[bytes]) -> list[int]:
    """Return the length of the run at each position that equals the start (the Z function, linear)."""
    lengths, left, right = [0] * len(sequence), 0, 0
    for at in range(1, len(sequence)):
        length = min(right - at, lengths[at - left]) if at < right else 0
        while at + length < len(sequence) and sequence[length] == sequence[at + length]:
            length += 1
        if at + length > right:
            left, right = at, at + length
        lengths[at] = length
    return lengths
