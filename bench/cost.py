"""What summaries cost in tokens and in money, for a history of a million tokens.

The messages are those of the compaction benchmark (the demo, repeated), all settings at their defaults. The summariser
stands in for a model and counts what one would read (system prompt and prompt) and write (its summary, of about the
length asked for). Prices are the list prices in `lossless.summarizers.prices`.

    python bench/cost.py                        # a window of 200,000 tokens
    python bench/cost.py --window 128000
"""

from __future__ import annotations

import argparse

from compaction import DELIVERY, made
from lossless import Lossless, Settings, SummaryRequest
from lossless.model import Step
from lossless.summarizers.prices import cost
from lossless.tokens import estimate, message_tokens

MODELS = ("claude-haiku-4-5", "gpt-5-mini", "gpt-5-nano")
HISTORY = 1_000_000


class Counting:
    """A summariser that quotes the beginning of its source at the length asked for, and counts."""

    def __init__(self) -> None:
        self.calls = self.read = self.written = 0

    def __call__(self, request: SummaryRequest) -> str:
        lines: list[str] = []
        left = request.target_tokens
        for line in request.source.splitlines():
            left -= estimate(line)
            if left < 0:
                break
            lines.append(line)
        text = "\n".join([*lines, "Expand for details about: what came after"])
        self.calls += 1
        self.read += estimate(request.system) + estimate(request.prompt)
        self.written += estimate(text)
        return text


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--window", type=int, default=200_000, metavar="TOKENS")
    given = options.parse_args()
    counting, said = Counting(), 0
    settings = Settings(timezone="UTC", summary_max_calls_per_window=100_000)
    with Lossless.open(":memory:", settings=settings, summarizer=counting, on_event=lambda event: None) as lcm:
        chat = lcm.conversation("bench")
        messages = list(made(10_000))
        for start in range(0, len(messages), DELIVERY):
            turn = messages[start : start + DELIVERY]
            chat.ingest(turn)
            chat.compact(given.window)
            said += sum(map(message_tokens, turn))
            if said >= HISTORY:
                break
    scale = HISTORY / said
    print(f"window {given.window:,}; for {HISTORY:,} tokens of history:")
    print(
        f"  {counting.calls * scale:.0f} calls, {counting.read * scale:,.0f} tokens read, {counting.written * scale:,.0f} written"
    )
    for model in MODELS:
        step = Step(id="", depth=0, sources=0, tokens=0, input_tokens=counting.read, output_tokens=counting.written)
        price = cost(model, (step,))
        print(f"  {model:<20} ${(price or 0) * scale:.2f}")


if __name__ == "__main__":
    main()
