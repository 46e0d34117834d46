"""What providers' own counts say about our estimates: kept by model, applied to budgets."""

from __future__ import annotations

from msgspec import Struct, convert, field, to_builtins

from lossless.store.base import Store
from lossless.tokens import Calibration


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
    return f"tokens:model {model}" if model else f"tokens:conversation {key}"


def read(store: Store, name: str, *, hold: bool = False) -> Kept:
    """Return what is known under a name."""
    state = store.guard(name, hold=hold)
    return Kept() if state is None else convert(state, Kept)


def observe(store: Store, name: str, estimated: int, reported: int, now: int) -> Kept:
    """Remember what a provider counted for a prompt of that estimate."""
    with store.transaction():
        kept = read(store, name, hold=True).observe(estimated, reported)
        store.set_guard(name, to_builtins(kept), now)
    return kept
