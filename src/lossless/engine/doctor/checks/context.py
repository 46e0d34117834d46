"""Checks of contexts: every message is reachable once, items are in order, and token counts are correct."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, check, to_faults
from lossless.engine.recall.brief import are_current, listed_sources
from lossless.engine.sessions import begun_after
from lossless.engine.shared.calibration import budgets
from lossless.store.rows.types import MESSAGE, SPAN, USER_MESSAGE, ConversationRow, Step

CAUSE = "doctor"


@check(
    "S14",
    "critical",
    "Every message is in the context, below it, detached from it, or kept out for a reason.",
    "{count} [message is|messages are] neither in the context nor below, detached or kept out.",
    fix="Returns what follows the last summary to the context, and lists the rest as detached.",
    also_fix=("C08",),
    guarded=True,
)
def find_unreachable(examination: Examination) -> Iterator[Fault]:
    for row in examination.rows:
        if _has_flaw(examination, row.id, "missing"):
            yield from _restore_messages(examination, row)


def _has_flaw(examination: Examination, conversation: int, *names: str) -> bool:
    return any(flaw.name in names for flaw in examination.flaws[conversation])


def _restore_messages(examination: Examination, row: ConversationRow) -> Iterator[Fault]:
    """Restore summaries that lost their place, then messages: at the end of the context, or detached."""
    store = examination.store
    missing = store.integrity.missing(row.id)
    spans = store.integrity.spans(row.id)
    taken = {ordinal for ordinal, _, _, _ in spans}
    # What a /new or a branch removed stays out: only what follows it, and follows the last summary, is shown again.
    behind = max([begun_after(store, row), *(last for _, root, _, last in spans if root is not None)])
    detached = {item.ordinal for item, _, _ in store.context.detached(row.id) if item.summary_id is None}
    covered: set[int] = set()
    for summary, seqs in _lost_summaries(examination, row, missing):
        node = examination.graph.nodes[summary]
        covered.update(seqs)
        values = {"summary_id": summary, "tokens": node.tokens, "depth": node.depth}
        first, last = min(seqs), max(seqs)
        shown = first > behind and not any(first <= each <= last for each in taken)
        step = _add_item(examination, row, first, values, shown)
        yield from (Fault(row.id, f"msg#{row.id * SPAN + seq}", step if seq == first else None) for seq in seqs)
    for seq in missing:
        if seq not in covered:
            (message,) = store.messages.at(row.id, [seq])
            depth = USER_MESSAGE if message.role == "user" else MESSAGE
            place: dict[str, int | None] = {"summary_id": None, "tokens": message.tokens, "depth": depth}
            shown = seq > behind and seq not in taken
            back = None if seq in detached else _add_item(examination, row, seq, place, shown)
            yield Fault(row.id, f"msg#{row.id * SPAN + seq}", back)


def _add_item(
    examination: Examination, row: ConversationRow, ordinal: int, values: Mapping[str, int | None], shown: bool
) -> Step:
    key = {"conversation_id": row.id, "ordinal": ordinal}
    if shown:
        return Step("add", "item", key, dict(values))
    return Step("add", "detached", key, {**values, "cause": CAUSE, "at": examination.now})


def _lost_summaries(
    examination: Examination, row: ConversationRow, missing: Sequence[int]
) -> Iterator[tuple[int, list[int]]]:
    """Yield summaries without a place that cover missing messages only, with these; each message once."""
    graph, lost = examination.graph, set(missing)
    leaves: dict[int, list[int]] = {}
    for leaf, seq in examination.store.integrity.leaves_below(row.id, missing):
        leaves.setdefault(leaf, []).append(seq)
    consumed = graph.consumed()
    roots = [
        node
        for node in graph.nodes.values()
        if node.conversation_id == row.id and not node.placed and node.id not in consumed and node.id in graph.computed
    ]
    for node in sorted(roots, key=lambda each: -each.depth):
        below = [each for each in graph.below([node.id]) if each in graph.leaves]
        seqs = sorted(seq for leaf in below for seq in leaves.get(leaf, ()))
        if seqs and len(seqs) == sum(graph.leaves[leaf].count for leaf in below) and lost.issuperset(seqs):
            lost.difference_update(seqs)
            yield node.id, seqs


@check(
    "S15",
    "error",
    "No message is reachable twice.",
    "{count} [message is|messages are] reachable more than once.",
    fix="Removes detached items that are also in the context.",
    guarded=True,
)
def find_reachable_twice(examination: Examination) -> Iterator[Fault]:
    both = examination.query("both")
    yield from to_faults(both)
    for row in examination.rows:
        for flaw in examination.flaws[row.id]:
            if flaw.name in ("twice", "again") and not any(fault.conversation == row.id for fault in both):
                yield from _unnamed_faults(row.id, flaw.count, flaw.first, flaw.last)


def _unnamed_faults(conversation: int, count: int, first: str | None, last: str | None) -> Iterator[Fault]:
    """Yield `count` faults of which only the first and the last are known by name."""
    known = [each for each in dict.fromkeys((first, last)) if each is not None]
    for number in range(count):
        yield Fault(conversation, known[number] if number < len(known) else "")


@check(
    "C02",
    "critical",
    "Every context item refers to an existing message, or to a summary with messages.",
    "{count} context [item refers|items refer] to nothing.",
    fix="Removes the items.",
    also_fix=("C08",),
    guarded=True,
)
def find_empty_items(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("dangling items", "dangling detached"))
    for row in examination.rows:
        if _has_flaw(examination, row.id, "empty"):
            full = {ordinal for ordinal, _, _, _ in examination.store.integrity.spans(row.id)}
            for item in examination.store.context.items(row.id):
                if item.summary_id in examination.graph.nodes and item.ordinal not in full:
                    yield _item_fault(row.id, item.ordinal)


def _item_fault(conversation: int, ordinal: int) -> Fault:
    """Return the fault of an item whose fix is to remove it."""
    key = {"conversation_id": conversation, "ordinal": ordinal}
    return Fault(conversation, f"item {ordinal}", Step("remove", "item", key))


@check(
    "C04",
    "warn",
    "The items of a context are in the order of their messages.",
    "{count} context [item is|items are] out of order.",
    fix="Moves each item to the place of the first message below it.",
    also_fix=("C08",),
    guarded=True,
)
def find_misplaced_items(examination: Examination) -> Iterator[Fault]:
    for row in examination.rows:
        if _has_flaw(examination, row.id, "order"):
            yield from _misplaced_items(examination, row.id)


def _misplaced_items(examination: Examination, conversation: int) -> Iterator[Fault]:
    reached = None
    spans = examination.store.integrity.spans(conversation)
    ordinals = {span[0] for span in spans}
    for ordinal, group in groupby(spans, key=lambda span: span[0]):
        _, root, first, last = next(group)
        if first < ordinal or (reached is not None and reached >= ordinal):
            key = {"conversation_id": conversation, "ordinal": ordinal}
            movable = first not in ordinals and root is not None
            step = Step("change", "item", key, {"ordinal": first}) if movable else None
            yield Fault(conversation, f"item {ordinal}", step)
        reached = last if reached is None else max(reached, last)


@check(
    "C05",
    "error",
    "No context item is also covered by a summary in the same context.",
    "{count} context [item is|items are] also covered by a summary in the context.",
    fix="Removes the items; the summary stays.",
    also_fix=("C08",),
    guarded=True,
)
def find_covered_items(examination: Examination) -> Iterator[Fault]:
    for row in examination.rows:
        if not _has_flaw(examination, row.id, "twice", "again"):
            continue
        items = examination.store.context.items(row.id)
        roots = [item.summary_id for item in items if item.summary_id is not None]
        below = {each for root in roots for each in examination.graph.below([root]) - {root}}
        shown = examination.graph.below(roots)
        seqs = [item.ordinal for item in items if item.is_message]
        covered = {seq for leaf, seq in examination.store.integrity.leaves_below(row.id, seqs) if leaf in shown}
        for item in items:
            if item.summary_id in below or (item.is_message and item.ordinal in covered):
                yield _item_fault(row.id, item.ordinal)


@check(
    "C06",
    "warn",
    "A context fits the window that its host reported last, or 128,000 tokens.",
    "The context is larger than its window.",
)
def find_long_contexts(examination: Examination) -> Iterator[Fault]:
    windows = budgets(examination.store, examination.rows, None)
    for row in examination.rows:
        window = windows[row.id].tokens
        if row.active and row.context_tokens > window:
            text = f"The context is larger than its window of {window:,} tokens: lcm compact {shlex.quote(row.key)}"
            yield Fault(row.id, f"{row.context_tokens:,} tokens", text=text)


@check(
    "C07",
    "error",
    "Messages that are kept out of the context are not in it.",
    "{count} [message is|messages are] in the context and should be kept out.",
    fix="Removes them from the context; they stay stored.",
    also_fix=("C08",),
    guarded=True,
)
def find_outside_messages(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("outside"))


@check(
    "C08",
    "warn",
    "Stored token counts of context items, and their sums, are correct.",
    "{count} stored token [count is|counts are] wrong.",
    fix="Counts them again.",
    guarded=True,
)
def find_wrong_item_tokens(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("costs", "sums"))


@check(
    "C09",
    "warn",
    "Every text that a brief was made from is still there, unchanged.",
    "{count} [brief quotes|briefs quote] texts that changed or are gone: lcm focus --refresh",
    fix="Removes the briefs; `lcm focus` writes new ones.",
)
def find_outdated_briefs(examination: Examination) -> Iterator[Fault]:
    for brief in examination.store.briefs.of_owner():
        if brief.conversation_id in examination.ids and not are_current(examination.store, listed_sources(brief)):
            key = {"conversation_id": brief.conversation_id, "id": brief.id}
            yield Fault(brief.conversation_id, brief.id, Step("remove", "brief", key))
