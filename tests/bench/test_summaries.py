"""The benchmark of summaries: its conversations are the same everywhere, and its scorer tells kept from lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
DIGEST = """
import hashlib, msgspec
from conversations import generate
made = generate("de", "clinic", 7, 4_000)
print(hashlib.sha256(msgspec.json.encode([made.messages, made.facts])).hexdigest())
"""


@pytest.fixture
def conversations(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the package beside the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCH))
    import conversations

    return conversations


def test_a_seed_gives_the_same_conversation_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(BENCH)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_every_fact_is_in_its_conversation_and_only_where_it_was_planted(conversations: Any) -> None:
    elsewhere = total = 0
    for code, domain in conversations.pairs():
        made = conversations.generate(code, domain, 5, 8_000)
        texts = [message.text for message in made.messages]
        whole = conversations.View(["\n".join(texts)])
        assert 29 <= len(made.facts) <= 32
        for nth, fact in enumerate(made.facts):
            assert whole.state(fact) == "kept", fact
            rest = [text for at, text in enumerate(texts) if at not in made.places[nth]]
            elsewhere += conversations.View(["\n".join(rest)]).state(fact) == "kept"
            total += 1
    assert elsewhere <= 0.01 * total


def test_the_scorer_tells_the_five_states_apart(conversations: Any) -> None:
    fact = conversations.Fact("changed", ("boiler", "upstairs"), (("1,284", "1284"), ("litres",)), (), old=(("40",),))
    states = {
        "kept": "The boiler upstairs takes 1284 litres.",
        "stale": "The boiler upstairs takes 40.",
        "cued": "Nothing.\nExpand for details about: the boiler upstairs",
        "half": "The boiler upstairs: 1,284.",
        "lost": "The boiler upstairs is fine. Somewhere far away there are 11284 things.",
    }
    assert {state: conversations.View([text]).state(fact) for state, text in states.items()} == {
        state: state for state in states
    }


def test_summaries_of_all_depths_are_scored(conversations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from conversations.compaction import DEPTHS, summarizer
    from summaries import measure

    figures, gate = measure(summarizer("extractive"), [1], [("en", "travel")], 12_000, ("facts", "gate"))
    assert figures.facts >= 20
    assert all(sum(figures.count(depth).values()) == figures.facts for depth in DEPTHS)
    assert figures.calls == figures.summaries == 13
    assert sum(gate.good.values()) > 50
    assert sum(gate.altered.values()) >= 3
