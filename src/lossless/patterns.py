"""Patterns over conversation keys: which ones to ignore, which to read without writing.

A key is segments joined by `:`, as in `agent:main:cron:nightly`. In a pattern `*` stands for any
run of characters within one segment, `**` for anything at all, and every other character for
itself. The whole key has to match, and case counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


def any_match(patterns: Iterable[str], key: str) -> bool:
    """Whether at least one of the patterns matches the whole key."""
    return any(matches(pattern, key) for pattern in patterns)


def matches(pattern: str, key: str) -> bool:
    """Whether the pattern matches the whole key.

    One pass over the key, whatever the pattern: nothing is tried twice, so a hostile pattern or key
    costs no more than a friendly one of its length.
    """
    steps = _compile(pattern)
    wild = steps.within | steps.across
    # Bit n is set while the first n steps of the pattern can account for all of the key read so far.
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
    """Whether a key is a scheduled job's, each of whose runs stands alone: `agent:NAME:cron:JOB`."""
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
    # A whole run of stars is one step, so two wildcards never stand side by side.
    for step in re.findall(r"\*+|[^*]", pattern):
        bit = 1 << count
        if step == "*":
            within |= bit
        elif step.startswith("**"):
            across |= bit
        else:
            literal[step] = literal.get(step, 0) | bit
        count += 1
    return _Steps(count, literal, within, across)
