"""What a summary without a model keeps: planted facts of two conversations, at a tenth of their length."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lossless.config import Settings
from lossless.formats import openclaw
from lossless.model import StoredMessage, SummaryRequest
from lossless.summarizers.extractive import summarize
from lossless.tokens import estimate, message_tokens
from tests.sources import leaf_source

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases" / "extractive"
CONVERSATIONS = {"demo": ROOT / "src/lossless/demo/conversation.jsonl", "household": CASES / "household.jsonl"}
WANTED = 0.6


def stored(path: Path) -> list[StoredMessage]:
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    messages = [openclaw.load(record["message"]) for record in records if record["type"] == "message"]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return [StoredMessage(n, n, message_tokens(each), b"", now, each) for n, each in enumerate(messages, 1)]


def runs(messages: list[StoredMessage], limit: int) -> Iterator[list[StoredMessage]]:
    """As compaction cuts them: up to the limit."""
    run: list[StoredMessage] = []
    for message in messages:
        if run and sum(each.tokens for each in run) + message.tokens > limit:
            yield run
            run = []
        run.append(message)
    yield run


def summaries(conversation: str, ratio: int) -> Iterator[str]:
    for run in runs(stored(CONVERSATIONS[conversation]), Settings().leaf_chunk_tokens):
        source = leaf_source(run, UTC, ())
        target = estimate(source) // ratio
        text = summarize(SummaryRequest("", "", source, 0, target, target))
        assert estimate(text) <= target
        yield text


def survivors(conversation: str, ratio: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The planted items of a conversation, and those of them that its summaries still tell."""
    planted = json.loads((CASES / "planted.json").read_text(encoding="utf-8"))
    items = [item for item in planted if item["conversation"] == conversation]
    text = folded(" ".join(summaries(conversation, ratio)))
    return items, [item for item in items if any(folded(words) in text for words in item["must_contain"])]


def folded(text: str) -> str:
    return " ".join(text.split()).casefold()


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_most_of_what_matters_survives_at_a_tenth_of_the_length(conversation: str) -> None:
    items, kept = survivors(conversation, 10)
    of_kind, kept_of_kind = (Counter(item["kind"] for item in each) for each in (items, kept))
    told = ", ".join(f"{kind} {kept_of_kind[kind]}/{count}" for kind, count in of_kind.most_common())
    print(f"{conversation}: {len(kept)}/{len(items)} = {len(kept) / len(items):.0%} ({told})")  # noqa: T201
    assert len(kept) >= WANTED * len(items), told
