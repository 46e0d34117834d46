"""What to compact, by reading: the tables of the contract, and what must hold for any view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.config import Settings
from lossless.engine.plan import condensed_run, is_due, leaf_run, limits, prefix_tokens, raw_tokens, tail_start
from lossless.store.base import MESSAGE, USER_MESSAGE, ItemRow


def view(text: str, tokens: int = 10) -> list[ItemRow]:
    """Items from letters: u user, a assistant, t tool, S leaf, 1.. condensed; `u:500` has 500 tokens."""
    depths = {"u": USER_MESSAGE, "a": MESSAGE, "t": MESSAGE, "S": 0}
    items = []
    for at, word in enumerate(text.split()):
        letter, _, size = word.partition(":")
        depth = depths[letter] if letter in depths else int(letter)
        items.append(ItemRow(at, None if depth < 0 else at, int(size or tokens), depth))
    return items


@pytest.mark.parametrize(
    ("text", "count", "max_tokens", "protected"),
    [
        ("u a u a", 2, None, 2),
        ("u a u a", 1, None, 2),
        ("u a t a t a", 2, None, 6),
        ("u a u:500", 5, 100, 1),
        ("u a u a", 3, 25, 2),
        ("S S u a", 1, None, 2),
        ("a a a", 2, None, 2),
        ("u a u a", 0, None, 0),
        ("S S S", 5, None, 0),
        ("", 5, None, 0),
        ("u a t a", 10, 0, 4),
    ],
)
def test_the_fresh_tail(text: str, count: int, max_tokens: int | None, protected: int) -> None:
    items = view(text)
    assert len(items) - tail_start(items, count, max_tokens) == protected


@pytest.mark.parametrize(
    ("text", "boundary", "run"),
    [
        ("a:40 a:40 a:40 u", 3, [40, 40]),
        ("a:150 a:10 u", 2, [150]),
        ("a:60 a:40 a:10 u", 3, [60, 40]),
        ("S a:30 a:30 S a:30 u", 5, [30, 30]),
        ("S a:30 S a:90 u", 4, [30]),
        ("u a", 0, []),
        ("S S u", 2, []),
    ],
)
def test_the_leaf_run(text: str, boundary: int, run: list[int]) -> None:
    found = leaf_run(view(text), boundary, 100)
    assert [item.tokens for item in found.items] if found else run == []
    assert (found is None) == (run == [])


def test_a_leaf_run_can_start_behind_one_that_proved_empty() -> None:
    found = leaf_run(view("a:40 a:40 a:40 a:40 u"), 4, 100, after=1)
    assert found is not None
    assert [item.ordinal for item in found.items] == [2, 3]


CONDENSING = Settings(leaf_min_fanout=8, condensed_min_fanout=4, condensed_min_fanout_hard=2)


@pytest.mark.parametrize(
    ("text", "normal", "hard"),
    [
        ("S " * 7, None, (0, 7)),
        ("S:200 " * 8, None, None),
        ("S:1000 " * 8, (0, 8), (0, 8)),
        ("S:2000 " * 12, (0, 10), (0, 10)),
        ("1 " * 4 + "S " * 8, (4, 12), (4, 12)),
        ("S S 1 " + "S " * 8, (3, 11), (0, 2)),  # the first eligible run, not merely the oldest
        ("1 1 1 1 S a", (0, 4), (0, 4)),
        ("1 1 1 S", None, (0, 3)),
        ("a a a", None, None),
    ],
)
def test_the_condensed_run(text: str, normal: tuple[int, int] | None, hard: tuple[int, int] | None) -> None:
    items = view(text, tokens=2000)
    for wanted, pressed in ((normal, False), (hard, True)):
        found = condensed_run(items, len(items), CONDENSING, hard=pressed)
        ordinals = [item.ordinal for item in found.items] if found else None
        assert ordinals == (None if wanted is None else list(range(*wanted)))


def test_condensation_goes_no_deeper_than_it_may() -> None:
    items = view("1 1 1 1", tokens=2000)
    assert condensed_run(items, 4, CONDENSING, max_depth=1) is None
    assert condensed_run(items, 4, CONDENSING, max_depth=2) is not None
    assert condensed_run(items, 4, CONDENSING, max_depth=0) is None


@pytest.mark.parametrize(
    ("budget", "threshold", "prefix"),
    [(8_000, 6_000, 3_000), (32_000, 24_000, 12_000), (128_000, 96_000, 20_000), (200_000, 150_000, 20_000)],
)
def test_thresholds(budget: int, threshold: int, prefix: int) -> None:
    found = limits(Settings(), budget)
    assert (found.threshold, found.prefix_target) == (threshold, prefix)
    assert not is_due(view(f"a:{threshold}"), found, Settings())
    assert is_due(view(f"a:{threshold + 1}"), found, Settings())
    assert is_due(view("a:1"), found, Settings(), observed=threshold + 1)


def test_a_cap_on_the_budget_counts() -> None:
    assert limits(Settings(max_assembly_token_budget=10_000), 200_000).threshold == 7_500


def test_the_minimum_of_a_condensation_grows_with_the_run() -> None:
    items = view("S:900 " * 8)
    assert condensed_run(items, 8, Settings(leaf_chunk_tokens=80_000)) is None
    assert condensed_run(items, 8, Settings(leaf_chunk_tokens=20_000)) is not None


def test_the_leaf_trigger_waits_for_enough_messages_outside_the_tail() -> None:
    settings = Settings(compaction_trigger="leaf", fresh_tail_count=1, leaf_chunk_tokens=1000)
    found = limits(settings, 200_000)
    assert is_due(view("a:200 " * 8 + "u"), found, settings)
    assert not is_due(view("a:500 " * 7 + "u"), found, settings)
    assert not is_due(view("a:100 " * 8 + "u"), found, settings)
    both = Settings(compaction_trigger="both", fresh_tail_count=1, leaf_chunk_tokens=1000)
    assert is_due(view("a:150001"), limits(both, 200_000), both)


items_strategy = st.lists(st.tuples(st.integers(-2, 3), st.integers(1, 500)), max_size=60).map(
    lambda pairs: [ItemRow(n, None if d < 0 else n, t, d) for n, (d, t) in enumerate(pairs)]
)


@given(items_strategy, st.integers(0, 10), st.none() | st.integers(0, 2000))
def test_the_tail_never_splits_the_newest_user_turn(items: list[ItemRow], count: int, max_tokens: int | None) -> None:
    start = tail_start(items, count, max_tokens)
    users = [at for at, item in enumerate(items) if item.is_user]
    if users and count:
        assert start <= users[-1]
    if any(item.is_message for item in items) and count:
        assert start <= max(at for at, item in enumerate(items) if item.is_message)


@given(items_strategy, st.integers(1, 10))
def test_runs_are_contiguous_of_one_depth_and_outside_the_tail(items: list[ItemRow], count: int) -> None:
    boundary = tail_start(items, count, None)
    small = Settings(leaf_min_fanout=2, condensed_min_fanout=2, leaf_chunk_tokens=1000, condensed_target_tokens=100)
    for run in (leaf_run(items, boundary, 1000), condensed_run(items, boundary, small)):
        if run:
            ordinals = [item.ordinal for item in run.items]
            assert ordinals == list(range(ordinals[0], ordinals[-1] + 1))
            assert ordinals[-1] < boundary
            assert len({max(item.depth, MESSAGE) for item in run.items}) == 1
            assert run.depth == max(run.items[0].depth, -1) + 1
            assert len(run.items) == 1 or run.tokens <= 1000
    assert prefix_tokens(items, boundary) + raw_tokens(items, boundary) == sum(i.tokens for i in items[:boundary])
