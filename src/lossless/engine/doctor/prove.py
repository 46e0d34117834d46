"""Prove that nothing is lost: locate every message, and compare summarised messages with their hashes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from lossless.engine.doctor.checks.summaries import find_changed_sources
from lossless.engine.doctor.examination import Examination
from lossless.model import Proof
from lossless.store.rows.types import ConversationRow, LedgerRow


def prove(examination: Examination) -> tuple[Proof, ...]:
    """Return the proof of each examined conversation."""
    changed, known = defaultdict[int | None, list[str]](list), Counter[int]()
    for fault in find_changed_sources(examination):
        if fault.severity is None:  # info: a hash was never recorded
            changed[fault.conversation].append(fault.sample)
    nodes = Counter(node.conversation_id for node in examination.graph.nodes.values())
    known.update(node.conversation_id for node in examination.graph.nodes.values() if node.source_hash is not None)
    ledgers = defaultdict[int, list[LedgerRow]](list)
    for each in examination.store.integrity.ledger(examination.ids):
        ledgers[each.conversation_id].append(each)
    return tuple(
        _proof(examination, row, ledgers[row.id], nodes[row.id], known[row.id], tuple(changed[row.id]))
        for row in examination.rows
    )


def _proof(
    examination: Examination,
    row: ConversationRow,
    ledger: Sequence[LedgerRow],
    nodes: int,
    known: int,
    changed: tuple[str, ...],
) -> Proof:
    return Proof(
        conversation=row.id,
        key=row.key,
        messages=row.messages,
        items=_sum(ledger, "item"),
        context=_sum(ledger, "context"),
        below=_sum(ledger, "below"),
        detached=_by_reason(ledger, "detached"),
        outside=_by_reason(ledger, "outside"),
        tombstones=_by_reason(ledger, "tombstone"),
        missing=_sum(ledger, "missing"),
        repeated=sum(each.times - each.messages for each in ledger if each.times > each.messages),
        broken=tuple(flaw.name for flaw in examination.flaws[row.id]),
        summaries=nodes,
        witnessed=known - len(changed),
        changed=changed,
    )


def _sum(ledger: Iterable[LedgerRow], way: str) -> int:
    return sum(each.messages for each in ledger if each.way == way)


def _by_reason(ledger: Iterable[LedgerRow], way: str) -> dict[str, int]:
    return {each.why or "": each.messages for each in sorted(ledger, key=lambda e: e.why or "") if each.way == way}
