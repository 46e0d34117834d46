"""Checks of summaries: their sources, the values computed from these, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, check
from lossless.engine.doctor.text_scan import SummaryKey
from lossless.model import Severity
from lossless.store.rows.types import NodeRow, Step

_REWRITE = {"stale": 1, "tries": 0}


@check(
    "S01",
    "error",
    "A leaf summary has messages as sources, a condensed summary has summaries.",
    "{count} [summary has|summaries have] no sources, or both messages and summaries.",
    guarded=True,
)
def find_wrong_source_kinds(examination: Examination) -> Iterator[Fault]:
    graph, consumed = examination.graph, examination.graph.consumed()
    for node in graph.nodes.values():
        kinds = (node.id in graph.leaves) + (node.id in graph.sources)
        # A summary of another system may have lost its sources. It is kept for recall, outside any context.
        if kinds > 1 or (not kinds and (node.placed or node.id in consumed)):
            yield Fault(node.conversation_id, node.public_id)


@check(
    "S02",
    "error",
    "A summary is one level deeper than its deepest source.",
    "{count} [summary has|summaries have] the wrong depth.",
    fix="Computes the depths again.",
    also_fix=("C08",),
    guarded=True,
)
def find_wrong_depths(examination: Examination) -> Iterator[Fault]:
    yield from _compare_computed(examination, "depth")


@check(
    "S03",
    "critical",
    "No summary is a source of itself, directly or through others.",
    "{count} [summary is a source of itself|summaries are sources of themselves], through others.",
    fix="Removes the links to later summaries.",
    also_fix=("S02", "S05", "S06", "S07", "S08", "C08"),
    guarded=True,
)
def find_cycles(examination: Examination) -> Iterator[Fault]:
    links = list(examination.graph.uphill())
    ordinals = {}
    if links:
        edges = examination.store.integrity.edges(examination.ids)
        ordinals = {(summary, source): ordinal for summary, source, ordinal in edges}
    for summary, source in links:
        node = examination.graph.nodes[summary]
        key = {"summary_id": summary, "ordinal": ordinals[summary, source]}
        yield Fault(node.conversation_id, node.public_id, Step("remove", "summary_source", key))


@check(
    "S04",
    "error",
    "The sources of a summary belong to its conversation.",
    "{count} [summary has|summaries have] sources in another conversation.",
    guarded=True,
)
def find_foreign_sources(examination: Examination) -> Iterator[Fault]:
    graph = examination.graph
    for node in graph.nodes.values():
        leaf = graph.leaves.get(node.id)
        sources = [graph.nodes.get(each) for each in graph.sources.get(node.id, ())]
        foreign = any(each is None or each.conversation_id != node.conversation_id for each in sources)
        if foreign or (leaf and leaf.strays):
            yield Fault(node.conversation_id, node.public_id)


@check(
    "S05",
    "warn",
    "The sources of a summary are numbered from 0, without gaps.",
    "{count} [source of a summary has|sources of summaries have] the wrong number.",
    fix="Numbers the sources again, in their order.",
    guarded=True,
)
def find_source_gaps(examination: Examination) -> Iterator[Fault]:
    expected = current = 0
    for summary, _, ordinal in examination.store.integrity.edges(examination.ids):
        expected = expected + 1 if summary == current else 0
        current = summary
        if ordinal != expected:
            node = examination.graph.nodes[summary]
            key = {"summary_id": summary, "ordinal": ordinal}
            step = Step("change", "summary_source", key, {"ordinal": expected})
            yield Fault(node.conversation_id, node.public_id, step)


@check(
    "S06",
    "warn",
    "The time range of a summary is that of its messages.",
    "{count} [summary has|summaries have] the wrong time range.",
    fix="Computes the time ranges again.",
    guarded=True,
)
def find_wrong_times(examination: Examination) -> Iterator[Fault]:
    yield from _compare_computed(examination, "earliest_at", "latest_at")


@check(
    "S07",
    "warn",
    "The stored number of summaries below a summary is correct.",
    "{count} [summary has|summaries have] a wrong number of summaries below.",
    fix="Counts them again.",
    guarded=True,
)
def find_wrong_descendants(examination: Examination) -> Iterator[Fault]:
    yield from _compare_computed(examination, "descendants")


@check(
    "S08",
    "warn",
    "The stored token count of a summary's messages is correct.",
    "{count} [summary has|summaries have] a wrong token count of sources.",
    fix="Sums up the tokens again.",
    guarded=True,
)
def find_wrong_source_tokens(examination: Examination) -> Iterator[Fault]:
    yield from _compare_computed(examination, "source_tokens")


def _compare_computed(examination: Examination, *names: str) -> Iterator[Fault]:
    """Yield the summaries whose stored values differ from those computed from their sources."""
    graph = examination.graph
    for node in graph.nodes.values():
        computed = graph.computed.get(node.id)
        if computed is None or not (node.id in graph.leaves or node.id in graph.sources):
            continue
        wrong = {name: getattr(computed, name) for name in names if getattr(computed, name) != getattr(node, name)}
        if wrong:
            yield Fault(node.conversation_id, node.public_id, _change(node.id, wrong))


def _change(summary_id: int, values: dict[str, Any]) -> Step:
    return Step("change", "summary", {"id": summary_id}, values)


@check(
    "S09",
    "error",
    "A summary has text, no failure marker, and fewer tokens than its sources.",
    "{count} [summary is|summaries are] empty, failed, or longer than the sources.",
    fix="Marks them as provisional; they are rewritten when a model is available.",
)
def find_failed_summaries(examination: Examination) -> Iterator[Fault]:
    scan = examination.summary_scan
    provisional = {"level": "cut", "tries": 0}
    yield from _summary_faults(scan.empty, provisional, "error", "{count} [summary is|summaries are] empty.")
    failed = "{count} [summary contains|summaries contain] a failure marker."
    yield from _summary_faults(scan.failed, provisional, "warn", failed)
    longer = "{count} [summary is longer than its|summaries are longer than their] sources."
    yield from _summary_faults(scan.longer, None, "info", longer)


@check(
    "S10",
    "warn",
    "No summary gives instructions to its reader.",
    "{count} [summary gives|summaries give] instructions to the reader.",
    fix="Marks them to be rewritten.",
)
def find_instructions(examination: Examination) -> Iterator[Fault]:
    yield from _summary_faults(examination.summary_scan.instructions, _REWRITE)


@check(
    "S11",
    "info",
    "Every summary is in a context, detached from one, or a source of another summary.",
    "{count} [summary is|summaries are] available for recall only.",
)
def find_orphans(examination: Examination) -> Iterator[Fault]:
    consumed = examination.graph.consumed()
    for node in examination.graph.nodes.values():
        if not node.placed and node.id not in consumed:
            yield Fault(node.conversation_id, node.public_id)


@check(
    "S12",
    "info",
    "The author of every summary is known.",
    "{count} [summary has|summaries have] no known author.",
)
def find_unknown_authors(examination: Examination) -> Iterator[Fault]:
    yield from _summary_faults(examination.summary_scan.unknown)


@check(
    "S13",
    "info",
    "No two summaries of a conversation have the same text.",
    "{count} [summary has|summaries have] the same text as another.",
)
def find_repetitions(examination: Examination) -> Iterator[Fault]:
    yield from _summary_faults(examination.summary_scan.repeated)


@check(
    "S16",
    "error",
    "The messages below a summary are unchanged since it was written.",
    "The sources of {count} [summary|summaries] have changed since [it was|they were] written.",
    fix="Records missing source hashes. Changed sources cannot be restored.",
)
def find_changed_sources(examination: Examination) -> Iterator[Fault]:
    for node in examination.graph.nodes.values():
        seal = examination.message_scan.seals.get(node.id)
        if node.source_hash is None and seal is not None:
            step = _change(node.id, {"source_hash": seal})
            problem = "The source hash of {count} [summary|summaries] was not recorded."
            yield Fault(node.conversation_id, node.public_id, step, "info", problem)
        elif node.source_hash != seal and not _has_no_sources(examination, node):
            yield Fault(node.conversation_id, node.public_id)


def _has_no_sources(examination: Examination, node: NodeRow) -> bool:
    graph = examination.graph
    return node.source_hash is None and node.id not in graph.leaves and node.id not in graph.sources


@check(
    "S17",
    "warn",
    "Summaries are complete, and written by the configured model if there is one.",
    "{count} [summary|summaries] written without the configured model: `lcm repair` rewrites [it|them].",
)
def find_provisional_summaries(examination: Examination) -> Iterator[Fault]:
    cut = "{count} [summary was|summaries were] cut short: `lcm repair` rewrites [it|them]."
    yield from _summary_faults(examination.summary_scan.cut, problem=cut)
    if examination.has_model:
        yield from _summary_faults(examination.summary_scan.provisional)


@check(
    "S18",
    "warn",
    "Every claim of a summary is found in its sources.",
    "{count} [summary contains|summaries contain] claims not found in [its|their] sources.",
    fix="Marks them to be rewritten.",
)
def find_unsupported_claims(examination: Examination) -> Iterator[Fault]:
    yield from _summary_faults(examination.summary_scan.suspected, _REWRITE)


def _summary_faults(
    summaries: Iterable[SummaryKey],
    values: dict[str, Any] | None = None,
    severity: Severity | None = None,
    problem: str = "",
) -> Iterator[Fault]:
    for identity, conversation, public_id in summaries:
        step = None if values is None else _change(identity, values)
        yield Fault(conversation, public_id, step, severity, problem)
