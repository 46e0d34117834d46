"""What to compact, by reading: the tables of the contract, and what must hold for any view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.config import Settings, ThresholdRule
from lossless.engine.compaction.plan import (
    Run,
    answers_earlier,
    closed_run,
    condensed_run,
    is_due,
    leaf_run,
    limits,
    matching_rule,
    mixed_run,
    narrowed,
    prefix_tokens,
    protected_ordinals,
    raw_tokens,
    scaled,
    stranded_run,
    tail_start,
)
from lossless.store.rows.types import MESSAGE, USER_MESSAGE, ItemRow, Links


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
        ("u a u a", 1, None, 1),
        ("u a t a t a", 2, None, 2),
        ("u a u:500", 5, 100, 1),
        ("u a u a", 3, 25, 2),
        ("S S u a", 1, None, 1),
        ("u S S S a t", 10, None, 2),  # what lies before a summary is not fresh
        ("a S", 10, None, 2),  # unless nothing else is
        ("a a a", 2, None, 2),
        ("u a u a", 0, None, 0),
        ("S S S", 5, None, 0),
        ("", 5, None, 0),
        ("u a t a", 10, 0, 1),
    ],
)
def test_the_fresh_tail(text: str, count: int, max_tokens: int | None, protected: int) -> None:
    items = view(text)
    assert len(items) - tail_start(items, count, max_tokens) == protected


@pytest.mark.parametrize(
    ("pairs", "count", "max_tokens", "protected"),
    [
        ([(4, 5)], 1, None, 2),  # the newest round is whole
        ([(4, 5)], 5, 0, 2),
        ([(2, 3), (4, 5)], 3, None, 4),  # the round that reaches the count is whole
        ([(2, 3), (4, 5)], 4, 35, 2),  # one that does not fit stays outside, both halves of it
        ([(1, 4), (2, 3)], 2, None, 5),  # interleaved
        ([(0, 5)], 1, 30, 1),  # so late that no tail could hold both: the result is on its own
        ([(1, 3), (1, 4), (1, 5)], 2, None, 5),  # one message, three calls
    ],
)
def test_the_tail_is_cut_between_tool_rounds(
    pairs: list[tuple[int, int]], count: int, max_tokens: int | None, protected: int
) -> None:
    items = view("u a a a a a")
    assert len(items) - tail_start(items, count, max_tokens, linked(pairs)) == protected


def linked(pairs: list[tuple[int, int]]) -> dict[int, Links]:
    """Links from pairs of ordinals: of a call and of its result."""
    found: dict[int, tuple[list[str], list[str]]] = {}
    for at, (call, result) in enumerate(pairs):
        found.setdefault(call, ([], []))[0].append(f"c{at}")
        found.setdefault(result, ([], []))[1].append(f"c{at}")
    return dict(found)


@pytest.mark.parametrize(
    ("pairs", "ordinals"),
    [
        ([(0, 1), (2, 3), (4, 5)], [0, 1, 2, 3]),
        ([(0, 1), (2, 4)], [0, 1]),  # back to before the round
        ([(0, 4)], [0, 1, 2, 3, 4]),  # forward to its last result
        ([(0, 4), (3, 6)], [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_run_ends_between_tool_rounds(pairs: list[tuple[int, int]], ordinals: list[int]) -> None:
    items = view("a a a a a a a a")
    run = closed_run(Run(tuple(items[:4])), items[4:], linked(pairs), 40)
    assert [item.ordinal for item in run.items] == ordinals


def test_a_round_longer_than_two_runs_is_cut_inside() -> None:
    items = view("a " * 12)
    assert len(closed_run(Run(tuple(items[:4])), items[4:], linked([(0, 11)]), 40).items) == 4


def test_the_newest_words_of_the_user_are_in_no_run() -> None:
    items = view("a:20 a:20 u:20 a:20 a:20 a:20 a")
    keep = protected_ordinals(items, 6, 1)
    assert keep == {2}
    first = leaf_run(items, 6, 100, keep=keep)
    assert first is not None
    assert [item.ordinal for item in first.items] == [0, 1]
    second = leaf_run(items, 6, 100, after=1, keep=keep)
    assert second is not None
    assert [item.ordinal for item in second.items] == [3, 4, 5]
    assert protected_ordinals(items, 6, 0) == protected_ordinals(items, 2, 1) == frozenset()


def test_messages_alone_between_summaries_are_found() -> None:
    found = stranded_run(view("S u S a a S u S a a"), 9, 15)
    assert found is not None
    assert [item.ordinal for item in found.items] == [1]
    assert stranded_run(view("u S a a"), 3, 15) is None
    assert stranded_run(view("S u a"), 2, 15) is None


def test_summaries_of_any_depth_are_joined_when_nothing_else_is_left() -> None:
    small = limits(Settings(leaf_chunk_tokens=100), 200_000)
    found = mixed_run(view("3:40 2:40 1:30 S:30 S:30 S:30 u"), 6, small)
    assert found is not None
    assert [item.ordinal for item in found.items] == [3, 4, 5]
    assert found.depth == 1
    found = mixed_run(view("3:40 u 2:40 1:40 u"), 4, small)
    assert found is not None
    assert [item.ordinal for item in found.items] == [2, 3]
    assert found.depth == 3
    assert mixed_run(view("3 u 2 u"), 3, small) is None


def test_summaries_are_shorter_for_a_small_window() -> None:
    small = scaled(Settings(), limits(Settings(), 8_000))
    assert (small.leaf_target_tokens, small.condensed_target_tokens) == (500, 1_000)
    assert scaled(Settings(), limits(Settings(), 32_000)) == Settings()


def test_the_tail_takes_half_of_the_room_at_most() -> None:
    assert limits(Settings(), 8_000).protected_tokens == 4_000
    assert limits(Settings(fresh_tail_max_tokens=1_000), 8_000).protected_tokens == 1_000
    assert narrowed(limits(Settings(), 8_000), 4_000).protected_tokens == 2_000
    assert narrowed(limits(Settings(), 8_000), 90_000).protected_tokens == 500


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
        found = condensed_run(items, len(items), limits(CONDENSING, 200_000), CONDENSING, hard=pressed)
        ordinals = [item.ordinal for item in found.items] if found else None
        assert ordinals == (None if wanted is None else list(range(*wanted)))


def test_condensation_goes_no_deeper_than_it_may() -> None:
    items = view("1 1 1 1", tokens=2000)
    held_to = limits(CONDENSING, 200_000)
    assert condensed_run(items, 4, held_to, CONDENSING, max_depth=1) is None
    assert condensed_run(items, 4, held_to, CONDENSING, max_depth=2) is not None
    assert condensed_run(items, 4, held_to, CONDENSING, max_depth=0) is None


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
    for chunk, is_enough in ((80_000, False), (20_000, True)):
        settings = Settings(leaf_chunk_tokens=chunk)
        assert (condensed_run(items, 8, limits(settings, 200_000), settings) is not None) == is_enough


CLAUDE = ThresholdRule(model="claude-*", context_threshold=0.1)
NIGHTLY = ThresholdRule(session_pattern="agent:*:cron:**", context_threshold=0.2)
LARGE = ThresholdRule(window_min=200_000, context_threshold=0.3)
SMALL = ThresholdRule(window_max=200_000, context_threshold=0.4)
EXACT = ThresholdRule(window_min=200_000, window_max=200_000, context_threshold=0.5)
CLAUDE_LARGE = ThresholdRule(model="claude-*", window_min=200_000, context_threshold=0.6)
NIGHTLY_EXACT = ThresholdRule(session_pattern="agent:**", window_min=200_000, window_max=200_000, context_threshold=0.7)
ELSEWHERE = ThresholdRule(
    session_pattern="agent:*:cron:**", window_min=300_000, window_max=400_000, context_threshold=1
)


@pytest.mark.parametrize(
    ("rules", "winner"),
    [
        ([], None),
        ([SMALL, LARGE, EXACT, NIGHTLY, CLAUDE, CLAUDE_LARGE], CLAUDE_LARGE),  # 20, 20, 40, 50, 100, 120
        ([SMALL, LARGE, EXACT, NIGHTLY, CLAUDE], CLAUDE),
        ([NIGHTLY_EXACT, CLAUDE], CLAUDE),  # 90, 100
        ([NIGHTLY, NIGHTLY_EXACT], NIGHTLY_EXACT),
        ([SMALL, LARGE, EXACT, NIGHTLY], NIGHTLY),
        ([SMALL, LARGE, EXACT], EXACT),
        ([SMALL, LARGE], SMALL),
        ([LARGE, SMALL], LARGE),
        ([ELSEWHERE, SMALL], SMALL),  # 90, but not for this window
        ([ELSEWHERE], None),
    ],
)
def test_the_most_specific_rule_counts_and_the_first_of_equals(
    rules: list[ThresholdRule], winner: ThresholdRule | None
) -> None:
    settings = Settings(context_threshold_overrides=tuple(rules))
    assert matching_rule(settings, 200_000, "agent:main:cron:nightly", "anthropic/claude-opus") == winner


@pytest.mark.parametrize(
    ("rule", "window", "key", "model", "is_met"),
    [
        (CLAUDE, 1, "", "claude-opus", True),
        (CLAUDE, 1, "", "Anthropic/Claude-Opus", True),
        (CLAUDE, 1, "", "openrouter/anthropic/claude-opus", False),
        (CLAUDE, 1, "", "gpt-5", False),
        (CLAUDE, 1, "", "", False),
        (CLAUDE, 1, "", None, False),
        (ThresholdRule(model="ANTHROPIC/claude-opus", context_threshold=1), 1, "", "anthropic/Claude-opus", True),
        (ThresholdRule(model="anthropic/claude-opus", context_threshold=1), 1, "", "claude-opus", False),
        (ThresholdRule(model="anthropic/*", context_threshold=1), 1, "", "openai/gpt-5", False),
        (ThresholdRule(model="claude", context_threshold=1), 1, "", "claude-opus", False),
        (ThresholdRule(model="llama*", context_threshold=1), 1, "", "ollama/llama3:8b", False),
        (ThresholdRule(model="llama**", context_threshold=1), 1, "", "ollama/llama3:8b", True),
        (NIGHTLY, 1, "agent:main:cron:a:b", None, True),
        (NIGHTLY, 1, "Agent:main:cron:a", None, False),
        (NIGHTLY, 1, "", None, False),
        (LARGE, 200_000, "", None, True),
        (LARGE, 199_999, "", None, False),
        (SMALL, 200_000, "", None, True),
        (SMALL, 200_001, "", None, False),
        (CLAUDE_LARGE, 200_000, "", "claude-opus", True),
        (CLAUDE_LARGE, 199_999, "", "claude-opus", False),
        (CLAUDE_LARGE, 200_000, "", "gpt-5", False),
    ],
)
def test_every_matcher_of_a_rule_has_to_be_met(
    rule: ThresholdRule, window: int, key: str, model: str | None, is_met: bool
) -> None:
    settings = Settings(context_threshold_overrides=(rule,))
    assert (matching_rule(settings, window, key, model) is not None) == is_met


def test_a_rule_sets_the_limits_of_what_it_matches_and_of_nothing_else() -> None:
    rule = ThresholdRule(model="gpt-*", context_threshold=0.5, fresh_tail_count=8, leaf_chunk_tokens=6_000)
    settings = Settings(context_threshold_overrides=(rule,))
    assert limits(settings, 100_000, model="gpt-5") == (100_000, 50_000, 8, None, 6_000, 6_000, 50_000)
    assert limits(settings, 100_000, model="claude-opus") == limits(Settings(), 100_000)


def test_what_a_rule_leaves_open_stays_as_it_is_set() -> None:
    settings = Settings(context_threshold_overrides=(NIGHTLY,), fresh_tail_count=5, leaf_chunk_tokens=7_000)
    assert limits(settings, 100_000, key="agent:main:cron:nightly") == (100_000, 20_000, 5, None, 7_000, 7_000, 50_000)


def test_a_rule_looks_at_the_window_and_not_at_the_budget() -> None:
    settings = Settings(context_threshold_overrides=(LARGE,), max_assembly_token_budget=10_000)
    assert limits(settings, 200_000).threshold == 3_000


def test_the_chunk_of_a_rule_counts_for_condensation_too() -> None:
    items = view("S:900 " * 8)
    rule = ThresholdRule(model="gpt-*", context_threshold=1, leaf_chunk_tokens=80_000)
    settings = Settings(context_threshold_overrides=(rule,))
    assert condensed_run(items, 8, limits(settings, 200_000, model="gpt-5"), settings) is None
    assert condensed_run(items, 8, limits(settings, 200_000, model="claude-opus"), settings) is not None


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


@given(
    items_strategy,
    st.integers(0, 10),
    st.none() | st.integers(0, 2000),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 59)), max_size=20),
)
def test_no_tail_parts_a_call_from_a_result_that_both_fit(
    items: list[ItemRow], count: int, max_tokens: int | None, pairs: list[tuple[int, int]]
) -> None:
    raw = [item.ordinal for item in items if item.is_message]
    pairs = [(call, result) for call, result in pairs if call < result and call in raw and result in raw]
    start = tail_start(items, count, max_tokens, linked(pairs))
    if raw and count:
        assert start <= raw[-1]
        for call, result in pairs:
            apart = sum(item.tokens for item in items[call : result + 1] if item.is_message)
            assert not call < start <= result or (max_tokens is not None and apart > max_tokens)
            assert not (call + 1 == result == start)
    else:
        assert start == len(items)


@given(
    items_strategy,
    st.integers(0, 10),
    st.none() | st.integers(0, 2000),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 9), st.booleans()), max_size=30),
)
def test_items_that_answer_no_earlier_call_can_be_cut_off(
    items: list[ItemRow], count: int, max_tokens: int | None, ties: list[tuple[int, int, bool]]
) -> None:
    links: dict[int, tuple[list[str], list[str]]] = {}
    for ordinal, name, is_result in ties:
        links.setdefault(ordinal, ([], []))[is_result].append(f"c{name}")
    start = tail_start(items, count, max_tokens)
    if not answers_earlier(items[start:], links):
        assert tail_start(items, count, max_tokens, links) == start
    raw = [item for item in items if item.is_message]
    for at in range(1, len(raw)):
        if not answers_earlier(raw[at:], links):
            assert len(closed_run(Run(tuple(raw[:at])), raw[at:], links, 100).items) == at


@given(items_strategy, st.integers(1, 10))
def test_runs_are_contiguous_of_one_depth_and_outside_the_tail(items: list[ItemRow], count: int) -> None:
    boundary = tail_start(items, count, None)
    small = Settings(leaf_min_fanout=2, condensed_min_fanout=2, leaf_chunk_tokens=1000, condensed_target_tokens=100)
    for run in (leaf_run(items, boundary, 1000), condensed_run(items, boundary, limits(small, 200_000), small)):
        if run:
            ordinals = [item.ordinal for item in run.items]
            assert ordinals == list(range(ordinals[0], ordinals[-1] + 1))
            assert ordinals[-1] < boundary
            assert len({max(item.depth, MESSAGE) for item in run.items}) == 1
            assert run.depth == max(run.items[0].depth, -1) + 1
            assert len(run.items) == 1 or run.tokens <= 1000
    assert prefix_tokens(items, boundary) + raw_tokens(items, boundary) == sum(i.tokens for i in items[:boundary])
