"""Compact a conversation with the library, and return the summaries that are in view at each depth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

from msgspec import structs

from lossless import Lossless, Message, Settings, Summary, SummaryRequest
from lossless.summarizers import Reply, Summarizer, resolve
from lossless.summarizers.base import FunctionSummarizer
from lossless.tokens import estimate

DEPTHS = (0, 1, 2)
_WINDOW = 2_000_000
_LEAVES, _PARTS = 5, 2
"""The number of leaves in a summary of depth 1, and of these in one of depth 2."""


def summarizer(name: str) -> Summarizer:
    """Return a summariser: `extractive`, `provider/model`, `command:PROGRAM`, or `module:function` that quotes its source."""
    module, colon, function = name.partition(":")
    if colon and module != "command":
        # Its name exempts it from the check of its claims, as the built-in one is.
        return FunctionSummarizer(getattr(import_module(module), function), "extractive", plain=True)
    return resolve(name, Settings(timezone="UTC"))


@dataclass
class Counting:
    """Pass requests on, and count them; with a ratio, ask for that part of the source's length."""

    inner: Summarizer
    ratio: int | None = None
    calls: int = 0
    read: int = 0
    written: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.inner.name

    def ask(self, request: SummaryRequest) -> Reply:
        if self.ratio:
            target = estimate(request.source) // self.ratio
            request = structs.replace(request, target_tokens=target, max_tokens=2 * target, previous=None)
        started = time.process_time()
        reply = self.inner.ask(request)
        self.seconds += time.process_time() - started
        self.calls += 1
        self.read += estimate(request.system) + estimate(request.prompt)
        self.written += estimate(reply.text)
        return reply


@dataclass
class Compacted:
    """The summaries of a conversation and their cost."""

    summaries: list[Summary]
    counted: Counting
    source_tokens: int = 0
    """The tokens of the messages below the summaries."""
    views: dict[int, list[Summary]] = field(default_factory=dict)
    """The summaries in view at each depth."""

    def texts(self, depth: int) -> list[str]:
        return [each.text for each in self.views[depth]]

    def ratio(self, depth: int) -> float:
        """Return the tokens of messages for each token of the summaries in view."""
        return self.source_tokens / max(1, sum(each.tokens for each in self.views[depth]))


def compact(messages: Sequence[Message], inner: Summarizer, *, chunk: int, ratio: int = 10) -> Compacted:
    """Write ten leaves of up to `chunk` tokens, two summaries of five leaves each, and one of these two."""
    settings = Settings(
        timezone="UTC",
        fresh_tail_count=1,
        compaction_trigger="leaf",
        leaf_chunk_tokens=chunk,
        leaf_target_tokens=chunk // ratio,
        leaf_min_fanout=_LEAVES,
        condensed_min_fanout=_PARTS,
        condensed_target_tokens=512,
        incremental_max_depth=max(DEPTHS),
        summary_max_calls_per_window=1_000_000,
    )
    counted = Counting(inner)
    with Lossless.open(":memory:", settings=settings, summarizer=counted, on_event=lambda event: None) as lcm:
        chat = lcm.conversation("bench")
        chat.ingest(messages)
        # Each call writes one leaf, as after a turn of an agent.
        while sum(each.depth == 0 for each in chat.summaries()) < _LEAVES * _PARTS and chat.compact(_WINDOW).summaries:
            pass
        return _viewed(chat.summaries(), counted)


def leaves(messages: Sequence[Message], inner: Summarizer, *, ratio: int) -> list[str]:
    """Return leaf summaries of the whole conversation, each a certain part of its source."""
    settings = Settings(timezone="UTC", fresh_tail_count=1, incremental_max_depth=0, compaction_trigger="leaf")
    with Lossless.open(
        ":memory:", settings=settings, summarizer=Counting(inner, ratio), on_event=lambda event: None
    ) as lcm:
        chat = lcm.conversation("bench")
        chat.ingest(messages)
        while chat.compact(_WINDOW).summaries:
            pass
        chat.compact(_WINDOW, force=True)
        return [each.text for each in chat.summaries() if each.depth == 0]


def _viewed(summaries: list[Summary], counted: Counting) -> Compacted:
    tokens = sum(each.source_tokens for each in summaries if each.depth == 0)
    result = Compacted(summaries, counted, tokens)
    for depth in DEPTHS:
        known = [each for each in summaries if each.depth <= depth]
        result.views[depth] = [each for each in known if not any(_covers(other, each) for other in known)]
    return result


def _covers(other: Summary, summary: Summary) -> bool:
    if other.depth <= summary.depth:
        return False
    times = (other.earliest_at, summary.earliest_at, summary.latest_at, other.latest_at)
    known = [each for each in times if each is not None]
    return len(known) == len(times) and known == sorted(known)
