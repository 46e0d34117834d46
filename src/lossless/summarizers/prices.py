"""Pure: what a model asks for its work, where it is known. List prices: an estimate to decide by, not a bill."""

from __future__ import annotations

from lossless.model import Step

# US dollars for a million tokens read, and written. The longest name that a model's begins with counts.
_PRICES = {
    "claude-3-5-haiku": (0.80, 4.00),
    "claude-haiku-4-5": (1.00, 5.00),
    "claude-sonnet-4": (3.00, 15.00),
    "claude-opus-4": (15.00, 75.00),
    "claude-opus-4-5": (5.00, 25.00),
    "gpt-4o": (2.50, 10.00),
    "gpt-4o-mini": (0.15, 0.60),
    "gpt-4.1": (2.00, 8.00),
    "gpt-4.1-mini": (0.40, 1.60),
    "gpt-4.1-nano": (0.10, 0.40),
    "gpt-5": (1.25, 10.00),
    "gpt-5-mini": (0.25, 2.00),
    "gpt-5-nano": (0.05, 0.40),
}


def cost(model: str, steps: tuple[Step, ...]) -> float | None:
    """What the steps cost with a model, named as its summariser is; None if its price is not known."""
    name = model.partition(" -> ")[0].rpartition("/")[2]  # of several in a row the first does the work
    known = max((each for each in _PRICES if name.startswith(each)), key=len, default=None)
    if known is None:
        return None
    read, written = _PRICES[known]
    total = sum(step.input_tokens * read + step.output_tokens * written for step in steps)
    return round(total / 1_000_000, 6)
