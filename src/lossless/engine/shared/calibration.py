"""What providers' own counts say about our estimates: kept by model, applied to budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, convert, field, to_builtins

from lossless.store.base import ConversationRow
from lossless.store.store import Store
from lossless.tokens import Calibration

_PREFIX = "tokens:"
_ASSUMED = 128_000
"""The window of a model of which no host said anything."""


class Kept(Struct, frozen=True):
    """The calibration of a model, and the factor that is applied because of it."""

    calibration: Calibration = field(default_factory=Calibration)
    factor: float = 1.0

    def observe(self, estimated: int, reported: int) -> Kept:
        """Return what is kept after one more prompt; the factor moves in steps and not with every turn."""
        calibration = self.calibration.observe(estimated, reported)
        return Kept(calibration, calibration.factor(self.factor))


def name(model: str | None, key: str) -> str:
    """Return the name a calibration is kept under: the model's, or else that of the conversation it is shown."""
    return f"{_PREFIX}model {model}" if model else f"{_PREFIX}conversation {key}"


def read(store: Store, name: str, *, hold: bool = False) -> Kept:
    """Return what is known under a name."""
    state = store.state.guard(name, hold=hold)
    return Kept() if state is None else convert(state, Kept)


def observe(store: Store, name: str, estimated: int, reported: int, now: int) -> Kept:
    """Remember what a provider counted for a prompt of that estimate."""
    with store.transaction():
        kept = read(store, name, hold=True).observe(estimated, reported)
        store.state.set_guard(name, to_builtins(kept), now)
    return kept


class Budget(NamedTuple):
    """What the context of a conversation may hold, in tokens as we estimate them."""

    tokens: int
    assumed: bool
    """Whether no host named a window."""


def budgets(store: Store, rows: Sequence[ConversationRow], most: int | None) -> dict[int, Budget]:
    """Return the budgets of conversations by id, corrected as `assemble` corrects them; `most` is a setting's bound."""
    named = store.figures.windows([row.id for row in rows])
    factors = {rest: convert(state, Kept).factor for rest, state in store.figures.guards(_PREFIX).items()}
    found = dict[int, Budget]()
    for row in rows:
        window, model = named.get(row.id, (_ASSUMED, None))
        factor = factors.get(name(model, row.key).removeprefix(_PREFIX), 1.0)
        found[row.id] = Budget(max(1, int(min(window, most or window) / factor)), row.id not in named)
    return found
