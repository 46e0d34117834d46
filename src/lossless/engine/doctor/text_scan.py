"""One reading of all messages, and one of all summaries: what their words tell that no statement can ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct, field

from lossless.engine.compaction.failure_markers import marker
from lossless.errors import StoreCorrupt
from lossless.store import jsontext, rows
from lossless.store.base import SPAN, Store
from lossless.store.seals import Sealing
from lossless.summarizers.directives import orders
from lossless.tokens import MESSAGE_TOKENS, PART_TOKENS, estimate, message_tokens

_NAMED = re.compile(r"LCM (?:File|file|Tool Output|Raw Payload): (file_[a-z0-9_-]{1,64})")
_SLACK = 16
_TOLERANCE = 3_600_000_000
# Cheaper than the patterns, and every order holds one of them.
_ORDERLY = re.compile(
    r"ignor|disregard|forget|overrid|bypass|neglect|discard|you(?: are|['’]re)|pretend|act|behav|role-?play|jail|mode|DAN|prompt|message|instruction"
    r"|[^\x00-\x7f]",
    re.I,
)


class Heard(Struct):
    """What was found in the messages: seqs by conversation, unless it says otherwise."""

    costs: list[tuple[int, int, int]] = field(default_factory=list)
    """Messages whose tokens are far off: id, what they say, what they are."""
    unreadable: list[int] = field(default_factory=list)
    backwards: list[int] = field(default_factory=list)
    alone: list[tuple[int, str]] = field(default_factory=list)
    """Conversations and call ids without a result, or without a call."""
    named: list[tuple[int, str]] = field(default_factory=list)
    """Conversations and the files their messages name."""
    seals: dict[int, str] = field(default_factory=dict)
    """The witness of each summary, as its messages are now."""


class Read(Struct):
    """What was found in the texts of summaries: their ids, with the conversation and the public id."""

    empty: list[tuple[int, int, str]] = field(default_factory=list)
    failed: list[tuple[int, int, str]] = field(default_factory=list)
    cut: list[tuple[int, int, str]] = field(default_factory=list)
    provisional: list[tuple[int, int, str]] = field(default_factory=list)
    longer: list[tuple[int, int, str]] = field(default_factory=list)
    ordering: list[tuple[int, int, str]] = field(default_factory=list)
    suspected: list[tuple[int, int, str]] = field(default_factory=list)
    unknown: list[tuple[int, int, str]] = field(default_factory=list)
    repeated: list[tuple[int, int, str]] = field(default_factory=list)
    named: list[tuple[int, str]] = field(default_factory=list)


def hear(store: Store, ids: Sequence[int], sources: Mapping[int, Sequence[int]]) -> Heard:
    """Read every message once."""
    heard, sealing = Heard(), Sealing()
    last = before = conversation = 0
    calls: set[str] = set()
    results: set[str] = set()
    with closing(store.everything_said(ids)) as said:
        for identity, role, text, parts, meta, tokens, at, created_at, leaf in said:
            if leaf is not None:
                sealing.add(leaf, (role, text, parts, at))
            if identity == last:
                continue  # of two leaves: the second time
            last, when = identity, created_at if at is None else at
            if identity // SPAN != conversation:
                heard.alone += [(conversation, each) for each in sorted(calls ^ results)]
                conversation, before, calls, results = identity // SPAN, when, set(), set()
            if when < before - _TOLERANCE:
                heard.backwards.append(identity)
            before = when
            cost: int | None
            if parts is None:
                cost = MESSAGE_TOKENS + PART_TOKENS + estimate(text)
                if meta is not None:
                    cost = _cost(role, text, parts, meta)
            else:
                cost = _listen(heard, identity, (role, text, parts, meta), calls, results)
            if cost is not None and abs(tokens - cost) > max(_SLACK, cost // 2):
                heard.costs.append((identity, tokens, cost))
            if "LCM " in text:
                heard.named += [(conversation, each) for each in _NAMED.findall(text)]
    heard.alone += [(conversation, each) for each in sorted(calls ^ results)]
    heard.seals = sealing.all(sources)
    return heard


def _listen(
    heard: Heard, identity: int, row: tuple[str, str, str, str | None], calls: set[str], results: set[str]
) -> int | None:
    """What a message of several parts costs, None if it cannot be read; who calls and who answers in it."""
    role, text, parts, meta = row
    try:
        pieces = jsontext.loads(parts)
        if not all(_lies_within(piece, len(text)) for piece in pieces):
            heard.unreadable.append(identity)
            return None
        for piece in pieces:
            if piece["type"] == "tool_call":
                calls.add(piece["call_id"])
            elif piece["type"] == "tool_result":
                results.add(piece["call_id"])
        return _cost(role, text, parts, meta)
    except (ValueError, TypeError, LookupError, AttributeError, StoreCorrupt):
        heard.unreadable.append(identity)
        return None


def _cost(role: str, text: str, parts: str | None, meta: str | None) -> int:
    return message_tokens(rows.decode(role, text, parts, meta, None, None))


def _lies_within(piece: dict[str, Any], size: int) -> bool:
    start, length = piece.get("span", (0, 0))
    return (
        start >= 0
        and length >= 0
        and start + length <= size
        and all(_lies_within(each, size) for each in piece.get("parts", ()))
    )


def read(store: Store, ids: Sequence[int]) -> Read:
    """Read every summary once."""
    found, said = Read(), set[tuple[int, int]]()
    with closing(store.everything_told(ids)) as told:
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
        ) in told:
            this = (identity, conversation, public_id)
            if not text.strip():
                found.empty.append(this)
            elif level not in ("extractive", "cut") and not stale and marker(text, model):
                found.failed.append(this)
            elif level == "cut":
                found.cut.append(this)
            elif level == "extractive":
                found.provisional.append(this)
            if tokens > source_tokens > 0:
                found.longer.append(this)
            if not stale and _ORDERLY.search(text) and orders(text, by_user=True):
                found.ordering.append(this)
            if not stale and faithful is not None and faithful < 1:
                found.suspected.append(this)
            if model in ("", "unknown"):
                found.unknown.append(this)
            if (key := (conversation, hash(text))) in said:
                found.repeated.append(this)
            said.add(key)
            if file_ids != "[]":
                found.named += [(conversation, each) for each in jsontext.stored(file_ids)]
    return found
