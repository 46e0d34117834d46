"""Run checks and report their findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from lossless.engine.doctor.checks import CHECKS
from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, count_text
from lossless.errors import StoreCorrupt, StoreError
from lossless.model import Finding, Health

SAMPLES = 20
_FILES = "F01"


def run_checks(examination: Examination, ids: Sequence[str]) -> list[Fault]:
    """Return every fault that these checks find; a query that the database cannot answer is a fault too."""
    faults: list[Fault] = []
    for each in ids:
        try:
            faults += (fault._replace(check=each) for fault in CHECKS[each].run(examination))
        except StoreError as error:
            if type(error) not in (StoreCorrupt, StoreError):
                raise  # busy or unreachable, which is not a fault of the data
            check = "D01" if type(error) is StoreCorrupt else "D03"
            faults.append(Fault(None, f"{each}: {error.message}", check=check))
    return faults


def examine(
    open_examination: Callable[[], Examination],
    ids: Sequence[str],
    snapshot: Callable[[], AbstractContextManager[None]],
) -> Health:
    """Run these checks; return one finding for each check and conversation."""
    start = time.monotonic()
    with snapshot():
        faults = run_checks(open_examination(), ids)
    if any(fault.check == _FILES for fault in faults):
        # Files are not part of a snapshot: a file that was just forgotten is missing while its row is still visible.
        with snapshot():
            again = {(fault.conversation, fault.sample) for fault in run_checks(open_examination(), [_FILES])}
        faults = [each for each in faults if each.check != _FILES or (each.conversation, each.sample) in again]
    return Health(tuple(findings_of(faults)), tuple(ids), time.monotonic() - start)


def findings_of(faults: Iterable[Fault]) -> list[Finding]:
    """Group faults by check, conversation, severity and text."""
    groups: dict[tuple[object, ...], list[Fault]] = {}
    for fault in faults:
        key = (fault.check, fault.conversation, fault.severity, fault.problem, fault.text)
        groups.setdefault(key, []).append(fault)
    return [_finding(group) for group in groups.values()]


def _finding(faults: Sequence[Fault]) -> Finding:
    first = faults[0]
    check = CHECKS[first.check]
    fixable = any(fault.step for fault in faults)
    return Finding(
        check=check.id,
        severity=first.severity or check.severity,
        conversation=first.conversation,
        count=len(faults),
        samples=tuple(dict.fromkeys(fault.sample for fault in faults if fault.sample))[:SAMPLES],
        text=first.text or count_text(first.problem or check.problem, len(faults)),
        fixable=fixable,
        fix=f"lcm doctor fix {check.id}" if fixable else "",
    )
