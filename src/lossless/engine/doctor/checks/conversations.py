"""Checks of conversations, their pending work and their grants."""

from __future__ import annotations

from collections.abc import Iterator

from lossless.engine.doctor.clean_conversations import RULES, matching_conversations
from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, check, to_faults


@check(
    "V01",
    "error",
    "A conversation is either active or archived.",
    "{count} [conversation is|conversations are] both active and archived, or neither.",
)
def find_contradictory_states(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("activity"))


@check(
    "V03",
    "info",
    "No conversations are left over from scheduled jobs or sub-agents.",
    "{count} [conversation|conversations] can be removed: lcm doctor clean",
)
def find_leftovers(examination: Examination) -> Iterator[Fault]:
    for rule in RULES.values():
        problem = f"{{count}} [conversation|conversations] can be removed: lcm doctor clean {rule.name}"
        for row in matching_conversations(examination.store, rule, examination.rows):
            yield Fault(None, row.key, problem=problem)


@check(
    "J01",
    "warn",
    "Every lease is held by a running worker.",
    "{count} [conversation is|conversations are] leased by a worker that no longer runs.",
    fix="Releases the leases.",
)
def find_abandoned_leases(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("leases"))


@check(
    "J02",
    "info",
    "Archived conversations have no pending work.",
    "{count} archived [conversation has|conversations have] pending work.",
    fix="Cancels the pending work.",
)
def find_pending_work_of_archived(examination: Examination) -> Iterator[Fault]:
    yield from to_faults(examination.query("idle debts"))


@check(
    "G01",
    "info",
    "Expired grants are removed.",
    "{count} [grant has|grants have] expired.",
    fix="Removes expired grants with their ledgers.",
)
def find_expired_grants(examination: Examination) -> Iterator[Fault]:
    if examination.whole_database:
        yield from to_faults(examination.query("grants"))
