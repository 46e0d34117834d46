"""Match session patterns against conversation keys, in linear time.

A key is segments joined by `:`, as in `agent:main:cron:nightly`. In a pattern `*` matches any characters within one
segment, `**` any characters, and every other character itself. The complete key must match, including case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


def any_match(patterns: Iterable[str], key: str) -> bool:
    """Return whether at least one of the patterns matches the complete key."""
    return any(matches(pattern, key) for pattern in patterns)


def matches(pattern: str, key: str) -> bool:
    """Return whether the pattern matches the complete key.

    One pass over the key without backtracking, so the cost depends only on the lengths of pattern and key.
    """
    steps = _compile(pattern)
    wild = steps.within | steps.across
    # Bit n is set if the first n steps of the pattern match the key read so far.
    reached = 1
    reached |= (reached & wild) << 1
    for character in key:
        stay = steps.across if character == ":" else wild
        reached = (reached & stay) | (reached & steps.literal.get(character, 0)) << 1
        reached |= (reached & wild) << 1
        if not reached:
            return False
    return bool(reached >> steps.length)


def is_scheduled(key: str) -> bool:
    """Return whether a key belongs to a scheduled job with independent runs: `agent:NAME:cron:JOB`."""
    parts = key.split(":")
    return len(parts) >= 4 and parts[0] == "agent" and parts[2] == "cron"


class _Steps(NamedTuple):
    """A pattern as sets of its step numbers, one bit each."""

    length: int
    literal: dict[str, int]
    within: int
    across: int


@lru_cache(maxsize=256)
def _compile(pattern: str) -> _Steps:
    literal: dict[str, int] = {}
    within = across = count = 0
    # A run of stars is one step, so two wildcards are never adjacent.
    for step in re.findall(r"\*+|[^*]", pattern):
        bit = 1 << count
        if step == "*":
            within |= bit
        elif step.startswith("**"):
            across |= bit
        else:
            literal[step] = literal.get(step, 0) | bit
        count += 1
    return _Steps(length=count, literal=literal, within=within, across=across)
