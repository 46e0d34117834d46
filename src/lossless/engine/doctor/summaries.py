"""Summaries: what they were made from, what follows from that, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lossless.engine.doctor.examination import Fault, Step, Ward
from lossless.model import Severity
from lossless.store.base import NodeRow


def kinds(ward: Ward) -> Iterator[Fault]:
    graph, consumed = ward.graph, ward.graph.consumed()
    for node in graph.nodes.values():
        made = (node.id in graph.leaves) + (node.id in graph.sources)
        # One of another system may have lost what it was made from. It is kept for recall, and stands for nothing.
        if made > 1 or (not made and (node.placed or node.id in consumed)):
            yield Fault("S01", node.conversation_id, node.public_id)


def depths(ward: Ward) -> Iterator[Fault]:
    yield from _miscounted(ward, "S02", "depth")


def circles(ward: Ward) -> Iterator[Fault]:
    cut = list(ward.graph.uphill())
    places = {(summary, source): ordinal for summary, source, ordinal in ward.store.edges(ward.ids)} if cut else {}
    for summary, source in cut:
        node = ward.graph.nodes[summary]
        key = {"summary_id": summary, "ordinal": places[summary, source]}
        yield Fault("S03", node.conversation_id, node.public_id, Step("remove", "summary_source", key))


def strays(ward: Ward) -> Iterator[Fault]:
    graph = ward.graph
    for node in graph.nodes.values():
        leaf = graph.leaves.get(node.id)
        sources = [graph.nodes.get(each) for each in graph.sources.get(node.id, ())]
        abroad = any(each is None or each.conversation_id != node.conversation_id for each in sources)
        if abroad or (leaf and leaf.strays):
            yield Fault("S04", node.conversation_id, node.public_id)


def places(ward: Ward) -> Iterator[Fault]:
    expected = at = 0
    for summary, _, ordinal in ward.store.edges(ward.ids):
        expected = expected + 1 if summary == at else 0
        at = summary
        if ordinal != expected:
            node = ward.graph.nodes[summary]
            key = {"summary_id": summary, "ordinal": ordinal}
            yield Fault(
                "S05",
                node.conversation_id,
                node.public_id,
                Step("change", "summary_source", key, {"ordinal": expected}),
            )


def times(ward: Ward) -> Iterator[Fault]:
    yield from _miscounted(ward, "S06", "earliest_at", "latest_at")


def descendants(ward: Ward) -> Iterator[Fault]:
    yield from _miscounted(ward, "S07", "descendants")


def costs(ward: Ward) -> Iterator[Fault]:
    yield from _miscounted(ward, "S08", "source_tokens")


def _miscounted(ward: Ward, check: str, *names: str) -> Iterator[Fault]:
    graph = ward.graph
    for node in graph.nodes.values():
        counted = graph.counted.get(node.id)
        if counted is None or not (node.id in graph.leaves or node.id in graph.sources):
            continue
        wrong = {name: getattr(counted, name) for name in names if getattr(counted, name) != getattr(node, name)}
        if wrong:
            yield Fault(check, node.conversation_id, node.public_id, _change(node.id, wrong))


def _change(summary_id: int, values: dict[str, Any]) -> Step:
    return Step("change", "summary", {"id": summary_id}, values)


def quality(ward: Ward) -> Iterator[Fault]:
    again = {"level": "cut", "tries": 0}
    found = ward.read
    yield from _texts("S09", found.empty, again, "error", "{count} summaries are empty.")
    yield from _texts("S09", found.failed, again, "warn", "{count} summaries were left behind by a failure.")
    yield from _texts("S09", found.longer, None, "info", "{count} summaries are longer than what they were made from.")


def writers_missing(ward: Ward) -> Iterator[Fault]:
    yield from _texts("S17", ward.read.cut, told="{count} summaries were cut short: `lcm repair` rewrites them.")
    if ward.has_model:
        yield from _texts("S17", ward.read.provisional)


def orders(ward: Ward) -> Iterator[Fault]:
    yield from _texts("S10", ward.read.ordering, {"stale": 1, "tries": 0})


def suspects(ward: Ward) -> Iterator[Fault]:
    yield from _texts("S18", ward.read.suspected, {"stale": 1, "tries": 0})


def _texts(
    check: str,
    found: Iterable[tuple[int, int, str]],
    values: dict[str, Any] | None = None,
    severity: Severity | None = None,
    told: str = "",
) -> Iterator[Fault]:
    for identity, conversation, public_id in found:
        step = None if values is None else _change(identity, values)
        yield Fault(check, conversation, public_id, step, severity, told)


def orphans(ward: Ward) -> Iterator[Fault]:
    consumed = ward.graph.consumed()
    for node in ward.graph.nodes.values():
        if not node.placed and node.id not in consumed:
            yield Fault("S11", node.conversation_id, node.public_id)


def writers(ward: Ward) -> Iterator[Fault]:
    yield from _texts("S12", ward.read.unknown)


def repetitions(ward: Ward) -> Iterator[Fault]:
    yield from _texts("S13", ward.read.repeated)


def witnesses(ward: Ward) -> Iterator[Fault]:
    for node in ward.graph.nodes.values():
        seal = ward.heard.seals.get(node.id)
        if node.source_hash is None and seal is not None:
            step = _change(node.id, {"source_hash": seal})
            told = "What lies below {count} summaries was not recorded when they were made."
            yield Fault("S16", node.conversation_id, node.public_id, step, "info", told)
        elif node.source_hash != seal and not _stands_for_nothing(ward, node):
            yield Fault("S16", node.conversation_id, node.public_id)


def _stands_for_nothing(ward: Ward, node: NodeRow) -> bool:
    return node.source_hash is None and node.id not in ward.graph.leaves and node.id not in ward.graph.sources
