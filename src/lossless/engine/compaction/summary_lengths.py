"""The length of a summary: target, hard limit, and the limit of a completion.

Pure. All figures are tokens. `target` is what the model is asked for; the hard cap and the warning are measured
against the configured target instead, so that a short source does not make an ordinary summary look too long.
"""

from __future__ import annotations

from math import ceil

from lossless.config import Settings

LEAST_LEAF = 192
LEAST_AGGRESSIVE_LEAF = 96
LEAST_CONDENSED = 512
"""The shortest length that a setting can request; a short source gets less."""
MOST_CONDENSED = 40
"""The most percent of its sources that a condensed summary may have."""
LEAST_SOURCE = 24
"""The tokens of messages in place of which no summary would be shorter: a sentence and the last line have as many."""
LEAST_SUMMARY = 12
"""The fewest tokens of a summary of summaries; shorter ones are not condensed if 40 % of them are fewer."""


def target(depth: int, source_tokens: int, settings: Settings, *, aggressive: bool = False) -> int:
    """Return the length to request for a summary of that depth."""
    if depth > 0:
        return condensed_target(source_tokens, settings.condensed_target_tokens, aggressive=aggressive)
    return leaf_target(source_tokens, settings.leaf_target_tokens, aggressive=aggressive)


def can_shrink(depth: int, source_tokens: int) -> bool:
    """Return True if a source is long enough for a summary that is shorter."""
    return most_condensed(source_tokens) > LEAST_SUMMARY if depth else source_tokens > LEAST_SOURCE


def configured(depth: int, settings: Settings) -> int:
    """Return the configured target for that depth."""
    return settings.condensed_target_tokens if depth > 0 else settings.leaf_target_tokens


def leaf_target(source_tokens: int, wanted: int, *, aggressive: bool = False) -> int:
    """Return about a third of a short source, a fifth if aggressive; at most `wanted`, or 55 % of it."""
    # In whole numbers: 0.55 * 2400 is a little more than 1320 for a float.
    if aggressive:
        most = max(LEAST_AGGRESSIVE_LEAF, wanted * 55 // 100)
        return max(LEAST_AGGRESSIVE_LEAF, min(most, source_tokens // 5))
    return max(LEAST_LEAF, min(max(LEAST_LEAF, wanted), source_tokens * 35 // 100))


def condensed_target(source_tokens: int, wanted: int, *, aggressive: bool = False) -> int:
    """Return `wanted`, but at most 40 % of the source; 55 % of that if aggressive."""
    asked = max(1, min(max(LEAST_CONDENSED, wanted), most_condensed(source_tokens)))
    return max(1, asked * 55 // 100) if aggressive else asked


def most_condensed(source_tokens: int) -> int:
    """Return the most tokens of a summary of summaries: 40 % of them."""
    return source_tokens * MOST_CONDENSED // 100


def words(target_tokens: int) -> int:
    """Return a length in words, which models keep to better than to tokens: about two thirds as many, rounded."""
    count = target_tokens * 2 // 3
    step = 50 if count >= 500 else 10 if count >= 100 else 5
    return max(step, count // step * step)


def completion_limit(target_tokens: int) -> int:
    """Return the completion limit: 1.5 times the target, so that a little more is not cut off."""
    return (3 * target_tokens + 1) // 2


def hard_cap(wanted: int, factor: float) -> int:
    """Return the length beyond which a summary is cut."""
    return ceil(round(wanted * factor, 6))  # 1000 * 1.1 is 1100.0000000000002, and one token too many


def warn_above(wanted: int) -> int:
    """Return the length beyond which a summary is reported as too long."""
    return (3 * wanted + 1) // 2
