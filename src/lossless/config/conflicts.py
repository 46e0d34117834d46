"""Check settings against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from lossless.config.settings import Settings

Check: TypeAlias = Callable[[Settings], Iterable[tuple[str, str]]]
"""Yields the names of settings that do not work, each with the reason."""


def adaptations(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings that conflict with others, and what is done instead."""
    chunk, condensed = settings.leaf_chunk_tokens, settings.condensed_target_tokens
    least = settings.least_condensation_tokens
    if chunk < min(settings.fanout_tokens, least):
        yield (
            "leaf_chunk_tokens",
            f"{chunk:,} tokens hold too few summaries for the fan-outs and targets that are set; a condensed summary is"
            f" made from up to {least:,} tokens.",
        )
    fanouts = {name: getattr(settings, name) for name in ("leaf_min_fanout", "condensed_min_fanout")}
    name, fanout = min(fanouts.items(), key=lambda each: each[1])
    if settings.condensed_min_fanout_hard > fanout:
        hard = settings.condensed_min_fanout_hard
        yield "condensed_min_fanout_hard", f"{hard} is more than {name} ({fanout}); {fanout} is used."
    budget = settings.max_assembly_token_budget
    if budget is None:
        return
    threshold = int(settings.context_threshold * budget)
    within = f"within max_assembly_token_budget ({budget:,})"
    if 4 * condensed > threshold:
        yield (
            "condensed_target_tokens",
            f"summaries of {condensed:,} tokens are too long to fit several {within}; shorter ones are requested.",
        )
    tail = settings.fresh_tail_max_tokens
    if tail is not None and tail > threshold:
        yield (
            "fresh_tail_max_tokens",
            f"a fresh tail of {tail:,} tokens is over context_threshold {within}; assembly shows less of it.",
        )
    if settings.large_file_token_threshold > threshold:
        yield (
            "large_file_token_threshold",
            f"content of {settings.large_file_token_threshold:,} tokens does not fit {within}; set it lower.",
        )
