"""Conversations, what is owed to them, and who may read them."""

from __future__ import annotations

from collections.abc import Iterator

from lossless.engine.doctor.clean import RULES, junk
from lossless.engine.doctor.examination import Fault, Ward


def activity(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("V01", "activity")


def leftovers(ward: Ward) -> Iterator[Fault]:
    for rule in RULES.values():
        told = f"{{count}} conversations may be cleaned away: lcm doctor clean {rule.name}"
        yield from (Fault("V03", None, row.key, told=told) for row in junk(ward.store, rule, ward.rows))


def leases(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("J01", "leases")


def debts(ward: Ward) -> Iterator[Fault]:
    yield from ward.found("J02", "idle debts")


def grants(ward: Ward) -> Iterator[Fault]:
    if ward.everything:
        yield from ward.found("G01", "grants")
