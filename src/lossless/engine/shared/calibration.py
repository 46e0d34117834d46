"""Correct token estimates by the counts that providers report, per model, and apply them to budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, convert, field, to_builtins

from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store
from lossless.tokens import Calibration

_PREFIX = "tokens:"
_ASSUMED = 128_000
"""The window if no host named one."""


class ModelCalibration(Struct, frozen=True):
    """The calibration of a model, and the factor that is applied."""

    calibration: Calibration = field(default_factory=Calibration)
    factor: float = 1.0

    def observe(self, estimated: int, reported: int) -> ModelCalibration:
        """Return the state after one more prompt; the factor moves in steps, not with every turn."""
        calibration = self.calibration.observe(estimated, reported)
        return ModelCalibration(calibration, calibration.factor(self.factor))


def name(model: str | None, key: str) -> str:
    """Return the name of a calibration: by model, or by conversation if the model is unknown."""
    return f"{_PREFIX}model {model}" if model else f"{_PREFIX}conversation {key}"


def read(store: Store, name: str, *, hold: bool = False) -> ModelCalibration:
    """Return the calibration under a name."""
    state = store.state.guard(name, hold=hold)
    return ModelCalibration() if state is None else convert(state, ModelCalibration)


def observe(store: Store, name: str, estimated: int, reported: int, now: int) -> ModelCalibration:
    """Store the tokens that a provider counted for a prompt of that estimate."""
    with store.transaction():
        kept = read(store, name, hold=True).observe(estimated, reported)
        store.state.set_guard(name, to_builtins(kept), now)
    return kept


class Budget(NamedTuple):
    """The size limit of a conversation's context, in our estimated tokens."""

    tokens: int
    assumed: bool
    """No host named a window."""


def budgets(store: Store, rows: Sequence[ConversationRow], most: int | None) -> dict[int, Budget]:
    """Return the budgets of conversations by id, corrected as `assemble` corrects them; `most` is a setting's bound."""
    named = store.figures.windows([row.id for row in rows])
    factors = {rest: convert(state, ModelCalibration).factor for rest, state in store.figures.guards(_PREFIX).items()}
    found = dict[int, Budget]()
    for row in rows:
        window, model = named.get(row.id, (_ASSUMED, None))
        factor = factors.get(name(model, row.key).removeprefix(_PREFIX), 1.0)
        found[row.id] = Budget(max(1, int(min(window, most or window) / factor)), row.id not in named)
    return found
