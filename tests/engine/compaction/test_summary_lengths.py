"""How long a summary should be, and what it may cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.config import Settings
from lossless.engine.compaction.summary_lengths import (
    can_shrink,
    completion_limit,
    condensed_target,
    configured,
    hard_cap,
    leaf_target,
    target,
    warn_above,
    words,
)


@pytest.mark.parametrize(
    ("source_tokens", "normal", "aggressive"),
    [(100, 192, 96), (1_000, 350, 200), (5_000, 1_750, 1_000), (6_858, 2_400, 1_320), (20_000, 2_400, 1_320)],
)
def test_a_leaf_is_asked_for_in_proportion_to_its_source(source_tokens: int, normal: int, aggressive: int) -> None:
    assert leaf_target(source_tokens, 2_400) == normal
    assert leaf_target(source_tokens, 2_400, aggressive=True) == aggressive


@pytest.mark.parametrize(("wanted", "normal", "aggressive"), [(1, 192, 96), (100, 192, 96), (200, 200, 110)])
def test_a_tiny_wish_still_leaves_room_for_a_summary(wanted: int, normal: int, aggressive: int) -> None:
    assert leaf_target(20_000, wanted) == normal
    assert leaf_target(20_000, wanted, aggressive=True) == aggressive


@pytest.mark.parametrize(("wanted", "asked"), [(1, 512), (512, 512), (900, 900), (2_000, 2_000)])
def test_a_condensed_summary_is_asked_for_at_its_configured_length(wanted: int, asked: int) -> None:
    assert condensed_target(20_000, wanted) == asked


@pytest.mark.parametrize(("wanted", "asked"), [(1, 281), (512, 281), (900, 495), (2_000, 1_100)])
def test_an_aggressive_condensed_summary_is_asked_for_in_fewer_words(wanted: int, asked: int) -> None:
    assert condensed_target(20_000, wanted, aggressive=True) == asked


@pytest.mark.parametrize(
    ("source_tokens", "asked", "aggressive"),
    [(5_000, 2_000, 1_100), (4_999, 1_999, 1_099), (1_024, 409, 224), (100, 40, 22), (1, 1, 1)],
)
def test_a_condensed_summary_is_asked_for_in_at_most_two_fifths_of_its_sources(
    source_tokens: int, asked: int, aggressive: int
) -> None:
    assert condensed_target(source_tokens, 2_000) == asked
    assert condensed_target(source_tokens, 2_000, aggressive=True) == aggressive


@pytest.mark.parametrize(
    ("depth", "source_tokens", "expected"),
    [(0, 24, False), (0, 25, True), (1, 32, False), (1, 33, True), (3, 33, True)],
)
def test_a_source_that_leaves_no_space_for_a_sentence_cannot_shrink(
    depth: int, source_tokens: int, expected: bool
) -> None:
    assert can_shrink(depth, source_tokens) == expected


@pytest.mark.parametrize(("tokens", "count"), [(2_000, 1_300), (1_200, 800), (512, 340), (192, 120), (96, 60), (1, 5)])
def test_a_length_is_put_into_words(tokens: int, count: int) -> None:
    assert words(tokens) == count


@pytest.mark.parametrize(("asked", "limit"), [(1_200, 1_800), (1_750, 2_625), (3, 5), (1, 2)])
def test_a_summary_a_little_longer_than_asked_for_is_not_cut_off(asked: int, limit: int) -> None:
    assert completion_limit(asked) == limit


@pytest.mark.parametrize(
    ("wanted", "factor", "cap", "warning"),
    [(2_400, 3.0, 7_200, 3_600), (2_000, 3.0, 6_000, 3_000), (1_000, 1.1, 1_100, 1_500), (5, 1.5, 8, 8), (1, 1, 1, 2)],
)
def test_where_a_summary_is_reported_and_where_it_is_cut(wanted: int, factor: float, cap: int, warning: int) -> None:
    assert (hard_cap(wanted, factor), warn_above(wanted)) == (cap, warning)


@pytest.mark.parametrize(
    ("depth", "aggressive", "asked", "wanted"),
    [(0, False, 1_200, 1_200), (0, True, 660, 1_200), (1, False, 2_000, 2_000), (4, True, 1_100, 2_000)],
)
def test_the_settings_are_what_counts(depth: int, aggressive: bool, asked: int, wanted: int) -> None:
    assert target(depth, 20_000, Settings(), aggressive=aggressive) == asked
    assert configured(depth, Settings()) == wanted


@given(st.integers(0, 10**7), st.integers(1, 10**6))
def test_aggressive_never_asks_for_more_than_normal(source_tokens: int, wanted: int) -> None:
    normal, aggressive = (leaf_target(source_tokens, wanted, aggressive=form) for form in (False, True))
    assert 96 <= aggressive <= normal <= max(192, wanted)
