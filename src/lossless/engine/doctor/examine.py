"""Run checks, and tell what they found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from lossless.engine.doctor import context, conversations, database, index, messages, payloads, settings, summaries
from lossless.engine.doctor.catalogue import CHECKS
from lossless.engine.doctor.examination import Fault, Ward
from lossless.errors import StoreCorrupt, StoreError
from lossless.model import Finding, Health

SAMPLES = 20
LOOK: dict[str, Callable[[Ward], Iterable[Fault]]] = {
    "D01": database.damage,
    "D02": database.references,
    "D03": database.schema,
    "D04": database.room,
    "M01": messages.numbers,
    "M02": messages.costless,
    "M03": messages.costs,
    "M04": messages.parts,
    "M05": messages.events,
    "M06": messages.times,
    "M07": messages.calls,
    "S01": summaries.kinds,
    "S02": summaries.depths,
    "S03": summaries.circles,
    "S04": summaries.strays,
    "S05": summaries.places,
    "S06": summaries.times,
    "S07": summaries.descendants,
    "S08": summaries.costs,
    "S09": summaries.quality,
    "S10": summaries.orders,
    "S11": summaries.orphans,
    "S12": summaries.writers,
    "S13": summaries.repetitions,
    "S14": context.nowhere,
    "S15": context.twice,
    "S16": summaries.witnesses,
    "S17": summaries.writers_missing,
    "S18": summaries.suspects,
    "C02": context.nothing,
    "C04": context.order,
    "C05": context.beneath,
    "C06": context.length,
    "C07": context.outside,
    "C08": context.costs,
    "F01": payloads.kept,
    "F02": payloads.unowned,
    "F03": payloads.named,
    "X01": index.search,
    "X03": index.events,
    "V01": conversations.activity,
    "V03": conversations.leftovers,
    "J01": conversations.leases,
    "J02": conversations.debts,
    "G01": conversations.grants,
    "K01": settings.settings,
}

_FILES = "F01"


def examine(ward: Ward, checks: Sequence[str]) -> list[Fault]:
    """Every fault that these checks find. What the database cannot answer is one too."""
    found: list[Fault] = []
    for check in checks:
        try:
            found += LOOK[check](ward)
        except StoreError as error:
            if type(error) not in (StoreCorrupt, StoreError):
                raise  # it is busy, or gone: that says nothing about its health
            found.append(Fault("D01" if type(error) is StoreCorrupt else "D03", None, f"{check}: {error.message}"))
    return found


def health(
    ward: Callable[[], Ward], checks: Sequence[str], snapshot: Callable[[], AbstractContextManager[None]]
) -> Health:
    """What is wrong, as one finding for each check and conversation."""
    began = time.monotonic()
    with snapshot():
        found = examine(ward(), checks)
    if any(fault.check == _FILES for fault in found):
        # Files are no part of a snapshot: one that was forgotten meanwhile is missing while its row is still seen.
        with snapshot():
            again = {(fault.conversation, fault.what) for fault in examine(ward(), [_FILES])}
        found = [each for each in found if each.check != _FILES or (each.conversation, each.what) in again]
    return Health(tuple(findings_of(found)), tuple(checks), time.monotonic() - began)


def findings_of(faults: Iterable[Fault]) -> list[Finding]:
    together: dict[tuple[str, int | None, str, str], list[Fault]] = {}
    for fault in faults:
        key = (fault.check, fault.conversation, fault.severity or "", fault.told)
        together.setdefault(key, []).append(fault)
    return [_finding(found) for found in together.values()]


def _finding(faults: Sequence[Fault]) -> Finding:
    first = faults[0]
    check = CHECKS[first.check]
    fixable = any(fault.step for fault in faults)
    return Finding(
        check=check.id,
        severity=first.severity or check.severity,
        conversation=first.conversation,
        count=len(faults),
        samples=tuple(dict.fromkeys(fault.what for fault in faults if fault.what))[:SAMPLES],
        text=(first.told or check.told).format(count=f"{len(faults):,}"),
        fixable=fixable,
        fix=f"lcm doctor fix {check.id}" if fixable else "",
    )
