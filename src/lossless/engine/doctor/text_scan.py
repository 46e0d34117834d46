"""Read all messages once and all summaries once, for checks that SQL cannot answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct, field

from lossless.engine.compaction.failure_markers import marker
from lossless.errors import StoreCorrupt
from lossless.store import jsontext
from lossless.store.rows import codec
from lossless.store.rows.types import SPAN
from lossless.store.seals import Sealing
from lossless.store.store import Store
from lossless.summarizers.injections import find_injections
from lossless.tokens import MESSAGE_TOKENS, PART_TOKENS, estimate, message_tokens

_NAMED = re.compile(r"LCM (?:File|file|Tool Output|Raw Payload): (file_[a-z0-9_-]{1,64})")
_SLACK = 16
_TOLERANCE = 3_600_000_000
# Every instruction contains one of these words, and searching for them is cheaper than the patterns.
_INSTRUCTION_WORDS = re.compile(
    r"ignor|disregard|forget|overrid|bypass|neglect|discard|you(?: are|['’]re)|pretend|act|behav|role-?play|jail|mode|DAN|prompt|message|instruction"
    r"|[^\x00-\x7f]",
    re.I,
)


SummaryKey = tuple[int, int, str]
"""A summary by its number, its conversation and its public id."""


class MessageScan(Struct):
    """Properties of messages that only their text shows; message ids unless noted."""

    costs: list[tuple[int, int, int]] = field(default_factory=list)
    """Messages whose token count is far off: id, stored tokens, estimated tokens."""
    unreadable: list[int] = field(default_factory=list)
    backwards: list[int] = field(default_factory=list)
    unpaired: list[tuple[int, str]] = field(default_factory=list)
    """Conversations and call ids without a result, or without a call."""
    named_files: list[tuple[int, str]] = field(default_factory=list)
    """Conversations and the files their messages name."""
    seals: dict[int, str] = field(default_factory=dict)
    """The source hash of each summary, computed from its messages."""


class SummaryScan(Struct):
    """Summaries by the properties that only their text shows."""

    empty: list[SummaryKey] = field(default_factory=list)
    failed: list[SummaryKey] = field(default_factory=list)
    cut: list[SummaryKey] = field(default_factory=list)
    provisional: list[SummaryKey] = field(default_factory=list)
    longer: list[SummaryKey] = field(default_factory=list)
    instructions: list[SummaryKey] = field(default_factory=list)
    suspected: list[SummaryKey] = field(default_factory=list)
    unknown: list[SummaryKey] = field(default_factory=list)
    repeated: list[SummaryKey] = field(default_factory=list)
    named_files: list[tuple[int, str]] = field(default_factory=list)


def scan_messages(store: Store, ids: Sequence[int], sources: Mapping[int, Sequence[int]]) -> MessageScan:
    """Read every message of these conversations once."""
    scan, sealing = MessageScan(), Sealing()
    previous = previous_time = conversation = 0
    calls: set[str] = set()
    results: set[str] = set()
    with closing(store.integrity.stream_messages(ids)) as messages:
        for identity, role, text, parts, meta, tokens, at, created_at, leaf in messages:
            if leaf is not None:
                sealing.add(leaf, (role, text, parts, at))
            if identity == previous:
                continue  # a source of two leaves: this is the second row
            previous, time = identity, created_at if at is None else at
            if identity // SPAN != conversation:
                scan.unpaired += [(conversation, each) for each in sorted(calls ^ results)]
                conversation, previous_time, calls, results = identity // SPAN, time, set(), set()
            if time < previous_time - _TOLERANCE:
                scan.backwards.append(identity)
            previous_time = time
            cost: int | None
            if parts is None:
                cost = MESSAGE_TOKENS + PART_TOKENS + estimate(text)
                if meta is not None:
                    cost = _cost(role, text, parts, meta)
            else:
                cost = _scan_parts(scan, identity, (role, text, parts, meta), calls, results)
            if cost is not None and abs(tokens - cost) > max(_SLACK, cost // 2):
                scan.costs.append((identity, tokens, cost))
            if "LCM " in text:
                scan.named_files += [(conversation, each) for each in _NAMED.findall(text)]
    scan.unpaired += [(conversation, each) for each in sorted(calls ^ results)]
    scan.seals = sealing.all(sources)
    return scan


def _scan_parts(
    scan: MessageScan, identity: int, row: tuple[str, str, str, str | None], calls: set[str], results: set[str]
) -> int | None:
    """Return the tokens of a message with parts, or None if it is unreadable; note its tool calls and results."""
    role, text, parts, meta = row
    try:
        pieces = jsontext.loads(parts)
        if not all(_lies_within(piece, len(text)) for piece in pieces):
            scan.unreadable.append(identity)
            return None
        for piece in pieces:
            if piece["type"] == "tool_call":
                calls.add(piece["call_id"])
            elif piece["type"] == "tool_result":
                results.add(piece["call_id"])
        return _cost(role, text, parts, meta)
    except (ValueError, TypeError, LookupError, AttributeError, StoreCorrupt):
        scan.unreadable.append(identity)
        return None


def _cost(role: str, text: str, parts: str | None, meta: str | None) -> int:
    return message_tokens(codec.decode(role, text, parts, meta, None, None))


def _lies_within(piece: dict[str, Any], size: int) -> bool:
    start, length = piece.get("span", (0, 0))
    return (
        start >= 0
        and length >= 0
        and start + length <= size
        and all(_lies_within(each, size) for each in piece.get("parts", ()))
    )


def scan_summaries(store: Store, ids: Sequence[int]) -> SummaryScan:
    """Read every summary of these conversations once."""
    scan, texts = SummaryScan(), set[tuple[int, int]]()
    with closing(store.integrity.stream_summaries(ids)) as summaries:
        for (
            identity,
            conversation,
            public_id,
            text,
            tokens,
            source_tokens,
            file_ids,
            model,
            level,
            stale,
            faithful,
        ) in summaries:
            summary = (identity, conversation, public_id)
            if not text.strip():
                scan.empty.append(summary)
            elif level not in ("extractive", "cut") and not stale and marker(text, model):
                scan.failed.append(summary)
            elif level == "cut":
                scan.cut.append(summary)
            elif level == "extractive":
                scan.provisional.append(summary)
            if tokens > source_tokens > 0:
                scan.longer.append(summary)
            if not stale and _INSTRUCTION_WORDS.search(text) and find_injections(text, by_user=True):
                scan.instructions.append(summary)
            if not stale and faithful is not None and faithful < 1:
                scan.suspected.append(summary)
            if model in ("", "unknown"):
                scan.unknown.append(summary)
            if (key := (conversation, hash(text))) in texts:
                scan.repeated.append(summary)
            texts.add(key)
            if file_ids != "[]":
                scan.named_files += [(conversation, each) for each in jsontext.stored(file_ids)]
    return scan
