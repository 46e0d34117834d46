"""The proof that nothing is lost: where every message of a conversation is, and that what was summarised is unchanged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from lossless.engine.doctor import summaries
from lossless.engine.doctor.examination import Ward
from lossless.model import Proof
from lossless.store.base import ConversationRow, LedgerRow


def prove(ward: Ward) -> tuple[Proof, ...]:
    changed, known = defaultdict[int | None, list[str]](list), Counter[int]()
    for fault in summaries.witnesses(ward):
        if fault.severity is None:  # the others were not recorded
            changed[fault.conversation].append(fault.what)
    nodes = Counter(node.conversation_id for node in ward.graph.nodes.values())
    known.update(node.conversation_id for node in ward.graph.nodes.values() if node.source_hash is not None)
    ledgers = defaultdict[int, list[LedgerRow]](list)
    for each in ward.store.ledger(ward.ids):
        ledgers[each.conversation_id].append(each)
    return tuple(
        _proof(ward, row, ledgers[row.id], nodes[row.id], known[row.id], tuple(changed[row.id])) for row in ward.rows
    )


def _proof(
    ward: Ward, row: ConversationRow, ledger: Sequence[LedgerRow], nodes: int, known: int, changed: tuple[str, ...]
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
        broken=tuple(flaw.name for flaw in ward.flaws[row.id]),
        summaries=nodes,
        witnessed=known - len(changed),
        changed=changed,
    )


def _sum(ledger: Iterable[LedgerRow], way: str) -> int:
    return sum(each.messages for each in ledger if each.way == way)


def _by_reason(ledger: Iterable[LedgerRow], way: str) -> dict[str, int]:
    return {each.why or "": each.messages for each in sorted(ledger, key=lambda e: e.why or "") if each.way == way}
