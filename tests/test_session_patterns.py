"""Session patterns say which conversations are ignored or only read."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.session_patterns import any_match, matches


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("agent:*:cron:**", "agent:main:cron:nightly:run:1", True),
        ("agent:*:cron:**", "agent:main:cron", False),
        ("agent:*", "agent:main", True),
        ("agent:*", "agent:main:x", False),
        ("**", "", True),
        ("**", "agent:main", True),
        ("**", "two\nlines: \U0001f600", True),
        ("agent:main.x", "agent:main.x", True),
        ("agent:main.x", "agent:mainyx", False),
        ("*", "", True),
        ("*", "a:b", False),
        ("", "", True),
        ("", "a", False),
        ("Agent:*", "agent:main", False),
        ("agent:*", "my agent:main", False),
        ("agent", "agent:main", False),
        ("**:cron:*", "agent:a:cron:x", True),
        ("**:cron:*", "agent:a:cron:x:y", False),
        ("a*c*e", "abcde", True),
        ("***", "a:b", True),
        ("a(b|c)+[d]$", "a(b|c)+[d]$", True),
        ("a?", "ab", False),
    ],
)
def test_a_pattern_matches_whole_keys_segment_by_segment(pattern: str, key: str, expected: bool) -> None:
    assert matches(pattern, key) is expected


@given(st.text("ab:*", max_size=8), st.text("ab:", max_size=8))
def test_every_pattern_means_what_its_regular_expression_means(pattern: str, key: str) -> None:
    regex = re.sub(r"\*+", lambda stars: "[^:]*" if stars[0] == "*" else ".*", pattern)
    assert matches(pattern, key) is (re.fullmatch(regex, key) is not None)


@pytest.mark.parametrize("pattern", ["*a" * 2000 + "b", "**a" * 2000 + "b", "*:" * 2000 + "b", "**a*" * 1500 + "b"])
def test_a_hostile_pattern_costs_no_more_than_a_long_one(pattern: str) -> None:
    start = time.process_time()
    assert not matches(pattern, "a" * 5000)
    assert not matches(pattern, "a:" * 2500)
    assert time.process_time() - start < 2


def test_one_match_is_enough() -> None:
    assert any_match(["x", "agent:*"], "agent:main")
    assert not any_match(["x", "y"], "agent:main")
    assert not any_match([], "agent:main")
