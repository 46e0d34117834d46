"""The context of a conversation: that every message is reached once, in order, and what the items cost."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from lossless.engine.doctor.examination import Fault, Step, Ward
from lossless.engine.sessions import begun_after
from lossless.engine.shared.calibration import budgets
from lossless.store.base import MESSAGE, SPAN, USER_MESSAGE, ConversationRow

CAUSE = "doctor"


def nowhere(ward: Ward) -> Iterator[Fault]:
    for row in ward.rows:
        if any(flaw.name == "missing" for flaw in ward.flaws[row.id]):
            yield from _brought_back(ward, row)


def _brought_back(ward: Ward, row: ConversationRow) -> Iterator[Fault]:
    """Whole summaries that lost their place, then messages: into the context behind everything, or listed beside it."""
    missing = ward.store.missing(row.id)
    spans = ward.store.spans(row.id)
    taken = {ordinal for ordinal, _, _, _ in spans}
    # What a /new or a branch took out stays out: only what came after the last summary, and after them, is shown again.
    behind = max([begun_after(ward.store, row), *(last for _, root, _, last in spans if root is not None)])
    held = {
        ordinal for item, _, _ in ward.store.detached(row.id) if item.summary_id is None for ordinal in [item.ordinal]
    }
    covered: set[int] = set()
    for summary, seqs in _orphans(ward, row, missing):
        node = ward.graph.nodes[summary]
        covered.update(seqs)
        values = {"summary_id": summary, "tokens": node.tokens, "depth": node.depth}
        shown = (
            min(seqs) > behind and min(seqs) not in taken and not any(min(seqs) <= each <= max(seqs) for each in taken)
        )
        step = _place(ward, row, min(seqs), values, shown)
        yield from (
            Fault("S14", row.id, f"msg#{row.id * SPAN + seq}", step if seq == min(seqs) else None) for seq in seqs
        )
    for seq in missing:
        if seq not in covered:
            (message,) = ward.store.messages_at(row.id, [seq])
            depth = USER_MESSAGE if message.role == "user" else MESSAGE
            place: dict[str, int | None] = {"summary_id": None, "tokens": message.tokens, "depth": depth}
            shown = seq > behind and seq not in taken
            back = None if seq in held else _place(ward, row, seq, place, shown)
            yield Fault("S14", row.id, f"msg#{row.id * SPAN + seq}", back)


def _place(ward: Ward, row: ConversationRow, ordinal: int, values: Mapping[str, int | None], shown: bool) -> Step:
    key = {"conversation_id": row.id, "ordinal": ordinal}
    if shown:
        return Step("add", "item", key, dict(values))
    return Step("add", "detached", key, {**values, "cause": CAUSE, "at": ward.now})


def _orphans(ward: Ward, row: ConversationRow, missing: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """The summaries that are nowhere and stand for missing messages only, with those, each message once."""
    graph, lost = ward.graph, set(missing)
    leaves: dict[int, list[int]] = {}
    for leaf, seq in ward.store.leaves_below(row.id, missing):
        leaves.setdefault(leaf, []).append(seq)
    consumed = graph.consumed()
    roots = [
        each
        for each in graph.nodes.values()
        if not each.placed and each.id not in consumed and each.id in graph.counted
    ]
    for node in sorted((each for each in roots if each.conversation_id == row.id), key=lambda each: -each.depth):
        below = [each for each in graph.below([node.id]) if each in graph.leaves]
        seqs = sorted(seq for leaf in below for seq in leaves.get(leaf, ()))
        if seqs and len(seqs) == sum(graph.leaves[leaf].count for leaf in below) and lost.issuperset(seqs):
            lost.difference_update(seqs)
            yield node.id, seqs


def twice(ward: Ward) -> Iterator[Fault]:
    both = ward.found("S15", "both")
    yield from both
    for row in ward.rows:
        for flaw in ward.flaws[row.id]:
            if flaw.name in ("twice", "again") and not any(fault.conversation == row.id for fault in both):
                yield from _ranged("S15", row.id, flaw.count, flaw.first, flaw.last)


def _ranged(check: str, conversation: int, count: int, first: str | None, last: str | None) -> Iterator[Fault]:
    """As many faults as there are, of which the first and the last are known."""
    known = [each for each in dict.fromkeys((first, last)) if each is not None]
    for at in range(count):
        yield Fault(check, conversation, known[at] if at < len(known) else "")


def nothing(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("C02", "dangling items", "dangling detached")
    for row in ward.rows:
        if any(flaw.name == "empty" for flaw in ward.flaws[row.id]):
            full = {ordinal for ordinal, _, _, _ in ward.store.spans(row.id)}
            for item in ward.store.items(row.id):
                if item.summary_id in ward.graph.nodes and item.ordinal not in full:
                    key = {"conversation_id": row.id, "ordinal": item.ordinal}
                    yield Fault("C02", row.id, f"item {item.ordinal}", Step("remove", "item", key))


def order(ward: Ward) -> Iterator[Fault]:
    for row in ward.rows:
        if any(flaw.name == "order" for flaw in ward.flaws[row.id]):
            yield from _misplaced(ward, row.id)


def _misplaced(ward: Ward, conversation: int) -> Iterator[Fault]:
    reached = None
    spans = ward.store.spans(conversation)
    for ordinal, group in groupby(spans, key=lambda span: span[0]):
        _, root, first, last = next(group)
        if first < ordinal or (reached is not None and reached >= ordinal):
            key = {"conversation_id": conversation, "ordinal": ordinal}
            free = first not in {each[0] for each in spans}
            step = Step("change", "item", key, {"ordinal": first}) if free and root is not None else None
            yield Fault("C04", conversation, f"item {ordinal}", step)
        reached = last if reached is None else max(reached, last)


def beneath(ward: Ward) -> Iterator[Fault]:
    """Items that lie below another item, by the summaries in the context."""
    for row in ward.rows:
        if not any(flaw.name in ("twice", "again") for flaw in ward.flaws[row.id]):
            continue
        items = ward.store.items(row.id)
        roots = [item.summary_id for item in items if item.summary_id is not None]
        below = {each for root in roots for each in ward.graph.below([root]) - {root}}
        shown = ward.graph.below(roots)
        seqs = [item.ordinal for item in items if item.is_message]
        covered = {seq for leaf, seq in ward.store.leaves_below(row.id, seqs) if leaf in shown}
        for item in items:
            if item.summary_id in below or (item.is_message and item.ordinal in covered):
                key = {"conversation_id": row.id, "ordinal": item.ordinal}
                yield Fault("C05", row.id, f"item {item.ordinal}", Step("remove", "item", key))


def length(ward: Ward) -> Iterator[Fault]:
    found = budgets(ward.store, ward.rows, None)
    for row in ward.rows:
        window = found[row.id].tokens
        if row.active and row.context_tokens > window:
            told = f"The context is longer than a window of {window:,} tokens: lcm compact {shlex.quote(row.key)}"
            yield Fault(
                "C06", row.id, f"{row.context_tokens:,} tokens", told=told.replace("{", "{{").replace("}", "}}")
            )


def outside(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("C07", "outside")


def costs(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("C08", "costs", "sums")
