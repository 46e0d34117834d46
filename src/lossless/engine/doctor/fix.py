"""Put faults right: a plan row by row, a copy first, one transaction, and everything looked at again before it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from lossless.engine.doctor.catalogue import CHECKS
from lossless.engine.doctor.examination import Fault, Ward
from lossless.engine.doctor.examine import examine
from lossless.errors import InvalidInput, LosslessError
from lossless.model import Fix, FixStep
from lossless.store.base import Step

# What is put right in one place may have to be put right in what follows from it.
_FOLLOWS = {
    "D02": ("S05", "C08"),
    "M02": ("S08", "C08"),
    "M03": ("S08", "C08"),
    "S02": ("C08",),
    "S03": ("S02", "S05", "S06", "S07", "S08", "C08"),
    "S05": (),
    "S14": ("C08",),
    "C02": ("C08",),
    "C04": ("C08",),
    "C05": ("C08",),
    "C07": ("C08",),
}
_WATCHED = (
    *("D02", "M01", "S01", "S02", "S03", "S04", "S05", "S06", "S07", "S08", "S14", "S15"),
    *("C02", "C04", "C05", "C07", "C08", "X03"),
)
"""What no fix may make worse, besides what it is for."""

Admit = Callable[[], Ward]
"""The same conversations, to be examined anew."""


class _Worse(LosslessError):
    """A fix did harm: nothing of it stays."""


def plan(admit: Admit, checks: Sequence[str]) -> Fix:
    """What a fix would change; nothing is written."""
    wanted = _with_following(checks)
    ward = admit()
    faults = [fault for check in wanted for fault in examine(ward, [check])]
    return Fix(tuple(wanted), tuple(map(_told, _fixable(faults))), before=_counted(faults))


def apply(admit: Admit, checks: Sequence[str], name: str) -> Fix:
    """Do it, or nothing at all: if anything is worse afterwards, all of it is taken back."""
    wanted = _with_following(checks)
    ward = admit()
    store, watched = ward.store, list(dict.fromkeys([*wanted, *_WATCHED]))
    planned = _fixable([fault for check in wanted for fault in examine(ward, [check])])
    if not planned:
        return Fix(tuple(wanted), ())
    snapshot = store.keep(name, _steps(planned))
    done: list[Fault] = []
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    try:
        with store.transaction():
            before = _counted(examine(admit(), watched))
            for check in wanted:
                done += _put_right(admit(), check, name)
            after = _counted(examine(admit(), watched))
            if worse := [check for check in watched if after[check] > before[check]]:
                raise _Worse(f"{', '.join(worse)} would be worse than before.")
    except _Worse as error:
        return Fix(tuple(wanted), (), False, snapshot, before, after, error.message)
    for fault in done:
        if fault.step and fault.step.action == "erase":
            _erase(ward, fault.step)
    return Fix(tuple(wanted), tuple(map(_told, done)), True, snapshot, before, after)


def _with_following(checks: Sequence[str]) -> list[str]:
    for check in checks:
        if not CHECKS[check].fix:
            raise InvalidInput(f"{check} cannot be fixed.", hint=CHECKS[check].told.format(count="Some"))
    return list(dict.fromkeys([*checks, *(each for check in checks for each in _FOLLOWS.get(check, ()))]))


def _fixable(faults: Sequence[Fault]) -> list[Fault]:
    """Those that something can be done about; what helps several at once, once."""
    found: dict[str, Fault] = {}
    for fault in faults:
        if fault.step is not None:
            found.setdefault(repr(fault.step), fault)
    return list(found.values())


def _steps(faults: Sequence[Fault]) -> list[Step]:
    return [fault.step for fault in faults if fault.step is not None]


def _put_right(ward: Ward, check: str, name: str) -> list[Fault]:
    faults = _fixable(list(examine(ward, [check])))
    steps = [step for step in _steps(faults) if step.action != "erase"]
    ward.store.keep(name, steps)
    for step in steps:
        ward.store.mend(step)
    for conversation in {step.key["conversation_id"] for step in steps if step.table == "item"}:
        ward.store.mend(Step("recount", "conversation", {"id": conversation}))
    return faults


def _erase(ward: Ward, step: Step) -> None:
    path = ward.files.root / step.key["name"]
    with ward.store.transaction():
        ward.store.hold_files(alone=True)
        if not ward.store.file_is_used(path.name):
            path.unlink(missing_ok=True)


def _counted(faults: Sequence[Fault]) -> Counter[str]:
    return Counter(fault.check for fault in faults)


def _told(fault: Fault) -> FixStep:
    step = fault.step
    assert step is not None
    key = ", ".join(f"{name} {value}" for name, value in step.key.items())
    changes = "" if step.action == "make" else ", ".join(f"{name} = {value}" for name, value in step.values.items())
    return FixStep(fault.check, step.action, step.table, key, changes, fault.what)
