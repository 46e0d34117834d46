"""The routing policy: every worked example, and every border."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lossless.engine.recall.routing import estimate, is_broad, route


@pytest.mark.parametrize(
    ("candidates", "asked", "tokens", "ratio", "action"),
    [
        (1, {"depth": 1, "cap": 4_000}, 220, 0.055, "answer_directly"),
        (4, {"depth": 3, "cap": 4_000}, 2_530, 0.6325, "expand_shallow"),
        (4, {"depth": 3, "cap": 3_600}, 2_530, 0.7028, "delegate_traversal"),
        (2, {"depth": 2, "messages": True, "cap": 4_000}, 1_380, 0.345, "expand_shallow"),
        (0, {"cap": 10}, 0, 0.0, "answer_directly"),
        (1, {"query": "the history of the parser", "cap": 1_000_000}, 854, 0.0009, "delegate_traversal"),
        (1, {"query": "the history of the parser", "depth": 1, "cap": 4_000}, 297, 0.0743, "expand_shallow"),
    ],
)
def test_the_worked_examples(candidates: int, asked: dict[str, Any], tokens: int, ratio: float, action: str) -> None:
    found = route("query_probe", candidates, **asked)
    assert (found.estimate, found.action) == (tokens, action)
    assert found.ratio == pytest.approx(ratio, abs=0.0001)


def test_an_explicit_expansion_of_anything_is_never_answered_directly() -> None:
    assert route("explicit_expand", 1, depth=1, cap=4_000).action == "expand_shallow"
    assert route("explicit_expand", 0, depth=1, cap=4_000).action == "answer_directly"


@pytest.mark.parametrize(
    ("cap", "level"), [(629, "low"), (628, "moderate"), (315, "moderate"), (314, "high"), (1, "high")]
)
def test_the_borders_of_risk_belong_to_the_higher_level(cap: int, level: str) -> None:
    assert route("query_probe", 1, depth=1, cap=cap).level == level
    assert (route("query_probe", 1, depth=1, cap=220 / 0.35).level) == "moderate"


def test_depth_or_number_alone_never_hand_it_on() -> None:
    assert route("query_probe", 1, depth=10, cap=1_000_000).action == "expand_shallow"
    assert route("query_probe", 50, depth=1, cap=1_000_000).action == "expand_shallow"


@pytest.mark.parametrize(("depth", "levels"), [(None, 3), (math.nan, 3), (0, 1), (-5, 1), (2.9, 2), (99, 10)])
def test_depth_is_whole_and_within_its_range(depth: float | None, levels: int) -> None:
    assert route("query_probe", 1, depth=depth, cap=100).depth == levels


def test_a_cap_is_whole_and_at_least_one() -> None:
    assert route("query_probe", 1, cap=0.2).cap == 1
    assert route("query_probe", 1, depth=1, cap=math.inf).level == "low"


@pytest.mark.parametrize(
    "query",
    [
        "what changed last month",
        "PAST QUARTERS",
        "over time",
        "throughout years",
        "the timeline of it",
        "a chronology",
        "long-term plans",
        "long term plans",
        "between the first deploy and the outage",
        "from 2021 to 2023",
    ],
)
def test_questions_about_a_long_time(query: str) -> None:
    assert is_broad(query)


@pytest.mark.parametrize(
    "query", ["last week", "the parser", "in 2024", "2022 or 2023", "between us", "historical", "lasting months ago"]
)
def test_questions_that_are_not(query: str) -> None:
    assert not is_broad(query)


@pytest.mark.parametrize(
    "query",
    ["root cause", "the causal chain", "a chain of events", "multi-hop", "cross-summary", "how did A lead to B"],
)
def test_questions_that_take_several_things_together(query: str) -> None:
    assert route("query_probe", 1, depth=1, cap=4_000, query=query).hops


def test_five_candidates_or_three_steps_are_several_things() -> None:
    assert not route("query_probe", 4, depth=2, cap=10**6).hops
    assert route("query_probe", 5, depth=2, cap=10**6).hops
    assert route("query_probe", 4, depth=3, cap=10**6).hops


def test_what_was_measured_decides_and_both_are_told() -> None:
    found = route("query_probe", 1, depth=1, cap=4_000, measured=3_000)
    assert (found.estimate, found.measured, found.level) == (220, 3_000, "high")
    assert found.action == "delegate_traversal"
    assert "0.75" in found.reasons[0]
    assert "0.70" in found.reasons[0]


def test_a_price_is_not_rounded_up_by_binary_fractions() -> None:
    assert estimate(2, 2, messages=False, broad=False, hops=False) == 726
