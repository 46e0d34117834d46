"""Other lists of facts: the demo's questions, the facts planted in two conversations, and LoCoMo's evidence.

The planted facts are those of `tests/summarizers/test_extractive_recall.py`. LoCoMo may not be shipped: its file is named by
the environment variable LCM_BENCH_LOCOMO.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from conversations.compaction import Compacted, compact, leaves
from conversations.scoring import fold
from lossless import Message
from lossless.demo import conversation as demo
from lossless.formats import openclaw
from lossless.summarizers import Summarizer
from memory import questions
from recall import samples

CASES = Path(__file__).parents[2] / "tests" / "cases" / "extractive"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_CHUNK = 6_000


def demo_questions(inner: Summarizer) -> tuple[Compacted, list[int], int]:
    """Return the compacted demo, the questions that each depth answers, and their number."""
    compacted, asked = compact(demo(), inner, chunk=_CHUNK), questions()
    texts = ["\n".join(compacted.texts(depth)) for depth in compacted.views]
    return compacted, [sum(each.is_answered_by(text) for each in asked) for text in texts], len(asked)


def planted(inner: Summarizer, name: str, ratio: int) -> tuple[int, int]:
    """Return how many of the facts planted in a conversation its leaves keep, and their number."""
    items = [each for each in json.loads((CASES / "planted.json").read_text("utf-8")) if each["conversation"] == name]
    text = fold("\n".join(leaves(_messages(name), inner, ratio=ratio)))
    return sum(any(fold(words) in text for words in item["must_contain"]) for item in items), len(items)


def _messages(name: str) -> list[Message]:
    if name == "demo":
        return demo()
    records: list[dict[str, Any]] = [
        json.loads(line) for line in (CASES / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    return [openclaw.load(record["message"]) for record in records if record["type"] == "message"]


def evidence(inner: Summarizer, path: Path, ratio: int) -> tuple[float, int]:
    """Return the share of the text of turns with evidence that leaves quote, and the number of these turns."""
    shares: list[float] = []
    for sample in samples(path):
        text = fold("\n".join(leaves(sample.messages, inner, ratio=ratio)))
        wanted = sorted({seq for asked in sample.asked for seq in asked.evidence})
        shares += [_quoted(sample.messages[seq - 1].text, text) for seq in wanted]
    return sum(shares) / max(1, len(shares)), len(shares)


def _quoted(turn: str, text: str) -> float:
    """Return the share of a turn's characters that are in sentences of the text."""
    sentences = [fold(each) for each in _SENTENCE.split(turn) if each.strip()]
    return sum(len(each) for each in sentences if each in text) / max(1, sum(map(len, sentences)))
