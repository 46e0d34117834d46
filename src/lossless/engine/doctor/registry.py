"""The registry of checks: each check is declared once, by the decorator above its function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from lossless.engine.doctor.examination import Examination
from lossless.model import Severity
from lossless.store.rows.types import FaultRow, Step

FAMILIES: Final = {
    "D": "database",
    "M": "messages",
    "S": "summaries",
    "C": "context",
    "F": "files",
    "X": "indexes",
    "V": "conversations",
    "J": "pending work",
    "G": "grants",
    "K": "settings",
}
"""The first letter of a check's id names its family; checks are listed in this order."""

_ALTERNATIVES = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


class Fault(NamedTuple):
    """One row, file or setting that fails a check."""

    conversation: int | None
    sample: str
    """The id or name of the object."""
    step: Step | None = None
    """The change that repairs it, if one can."""
    severity: Severity | None = None
    """Replaces the severity of the check."""
    problem: str = ""
    """Replaces the problem text of the check; a template like that."""
    text: str = ""
    """Replaces the problem text of the check; printed as it is."""
    check: str = ""
    """The id of the check; filled in when the check runs."""


Run = Callable[[Examination], Iterable[Fault]]


class Check(Struct, frozen=True):
    """One property of a healthy database, and the function that looks for faults."""

    id: str
    severity: Severity
    """The severity of a fault; a fault can name another."""
    title: str
    """The property, as a sentence that is true for a healthy database."""
    problem: str
    """The text of a finding, a template for `count_text`."""
    run: Run
    fix: str = ""
    """The effect of a fix; empty if there is none."""
    also_fix: tuple[str, ...] = ()
    """Checks whose values depend on what the fix changes; they are fixed with it."""
    guarded: bool = False
    """No fix, of this check or another, may add faults of this check."""

    @property
    def family(self) -> str:
        return FAMILIES[self.id[0]]


_registered: dict[str, Check] = {}


def check(
    id: str,
    severity: Severity,
    title: str,
    problem: str,
    *,
    fix: str = "",
    also_fix: Sequence[str] = (),
    guarded: bool = False,
) -> Callable[[Run], Run]:
    """Register the decorated function as the check `id`."""

    def register(run: Run) -> Run:
        if id in _registered:
            raise ValueError(f"check {id} is registered twice")
        _registered[id] = Check(
            id=id,
            severity=severity,
            title=title,
            problem=problem,
            run=run,
            fix=fix,
            also_fix=tuple(also_fix),
            guarded=guarded,
        )
        return run

    return register


def registered() -> dict[str, Check]:
    """Return the registered checks by id, family by family."""
    order = list(FAMILIES)
    return dict(sorted(_registered.items(), key=lambda entry: (order.index(entry[0][0]), entry[0])))


def count_text(template: str, count: int) -> str:
    """Fill in `{count}`, and choose the singular or plural of each `[singular|plural]`."""
    text = _ALTERNATIVES.sub(lambda found: found[1] if count == 1 else found[2], template)
    return text.replace("{count}", f"{count:,}")


def to_faults(rows: Iterable[FaultRow]) -> Iterator[Fault]:
    """Convert the rows of the store's integrity queries to faults."""
    return (Fault(row.conversation, row.what, row.step) for row in rows)
