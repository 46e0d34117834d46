"""Repair faults in derived data: plan row by row, keep a copy, apply in one transaction, check again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from lossless.engine.doctor.checks import CHECKS
from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, count_text
from lossless.engine.doctor.run_checks import run_checks
from lossless.errors import InvalidInput, LosslessError
from lossless.model import Fix, FixStep
from lossless.store.rows.types import Step

OpenExamination = Callable[[], Examination]
"""Returns a new examination of the same conversations."""


class _Worse(LosslessError):
    """A fix that added faults and is rolled back."""


def plan(open_examination: OpenExamination, ids: Sequence[str]) -> Fix:
    """Return the changes that a fix would make; write nothing."""
    checks = _with_dependent(ids)
    faults = run_checks(open_examination(), checks)
    return Fix(tuple(checks), tuple(map(_fix_step, _fixable(faults))), before=_count_by_check(faults))


def apply(open_examination: OpenExamination, ids: Sequence[str], name: str) -> Fix:
    """Apply the fix, or nothing: roll back if any guarded check has more faults afterwards."""
    checks = _with_dependent(ids)
    examination = open_examination()
    store = examination.store
    compared = list(dict.fromkeys([*checks, *(check.id for check in CHECKS.values() if check.guarded)]))
    planned = _fixable(run_checks(examination, checks))
    if not planned:
        return Fix(tuple(checks), ())
    snapshot = store.keep(name, _steps(planned))
    applied: list[Fault] = []
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    try:
        with store.transaction():
            before = _count_by_check(run_checks(open_examination(), compared))
            for check in checks:
                applied += _repair(open_examination(), check, name)
            after = _count_by_check(run_checks(open_examination(), compared))
            if worse := [check for check in compared if after[check] > before[check]]:
                raise _Worse(f"{', '.join(worse)} would have more faults than before.")
    except _Worse as error:
        return Fix(checks=tuple(checks), steps=(), snapshot=snapshot, before=before, after=after, refused=error.message)
    for fault in applied:
        if fault.step and fault.step.action == "erase":
            _remove_file(examination, fault.step)
    return Fix(
        checks=tuple(checks),
        steps=tuple(map(_fix_step, applied)),
        applied=True,
        snapshot=snapshot,
        before=before,
        after=after,
    )


def _with_dependent(ids: Sequence[str]) -> list[str]:
    """Return these checks and those whose values depend on their fixes."""
    for each in ids:
        if not CHECKS[each].fix:
            problem = CHECKS[each].problem.replace("{count}", "Some")
            raise InvalidInput(f"{each} cannot be fixed.", hint=count_text(problem, 2))
    return list(dict.fromkeys([*ids, *(other for each in ids for other in CHECKS[each].also_fix)]))


def _fixable(faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults with a step; a step that repairs several faults occurs once."""
    by_step: dict[str, Fault] = {}
    for fault in faults:
        if fault.step is not None:
            by_step.setdefault(repr(fault.step), fault)
    return list(by_step.values())


def _steps(faults: Sequence[Fault]) -> list[Step]:
    return [fault.step for fault in faults if fault.step is not None]


def _repair(examination: Examination, check: str, name: str) -> list[Fault]:
    store = examination.store
    faults = _fixable(run_checks(examination, [check]))
    steps = [step for step in _steps(faults) if step.action != "erase"]
    store.keep(name, steps)
    for step in steps:
        store.integrity.fix(step)
    for conversation in {step.key["conversation_id"] for step in steps if step.table == "item"}:
        store.integrity.fix(Step("recount", "conversation", {"id": conversation}))
    return faults


def _remove_file(examination: Examination, step: Step) -> None:
    path = examination.files.root / step.key["name"]
    with examination.store.transaction():
        examination.store.hold_files(alone=True)
        if not examination.store.files.is_used(path.name):
            path.unlink(missing_ok=True)


def _count_by_check(faults: Sequence[Fault]) -> Counter[str]:
    return Counter(fault.check for fault in faults)


def _fix_step(fault: Fault) -> FixStep:
    step = fault.step
    assert step is not None
    key = ", ".join(f"{name} {value}" for name, value in step.key.items())
    changes = "" if step.action == "make" else ", ".join(f"{name} = {value}" for name, value in step.values.items())
    return FixStep(check=fault.check, action=step.action, table=step.table, key=key, values=changes, what=fault.sample)
