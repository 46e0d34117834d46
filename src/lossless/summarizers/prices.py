"""Estimate the cost of model calls by list prices, where they are known."""

from __future__ import annotations

from lossless.model import Step

# US dollars per million tokens read and written, by the longest matching prefix of a model's name.
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
    """Return the cost of the steps with the model of a summarizer; None if its price is not known."""
    name = model.partition(" -> ")[0].rpartition("/")[2]  # of a chain, the first one
    known = max((each for each in _PRICES if name.startswith(each)), key=len, default=None)
    if known is None:
        return None
    read, written = _PRICES[known]
    total = sum(step.input_tokens * read + step.output_tokens * written for step in steps)
    return round(total / 1_000_000, 6)
