"""What every match of a pattern holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from lossless.search import regex
from lossless.search.regex.literals import required_literals
from tests.patterns import patterns, texts


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("deploy key", [("deploy key",)]),
        (r"ERR_\d+: timeout", [(": timeout",), ("ERR_",)]),
        ("foo|barbaz", [("foo", "barbaz")]),
        ("foo|b.", []),
        ("fo+bar", [("obar",), ("fo",)]),
        ("colou?r", [("colo",)]),
        ("a{2,3}bc", [("abc",)]),
        ("x{0,3}abc", [("abc",)]),
        ("(abc|def)+ghi", [("ghi",), ("abc", "def")]),
        ("(abc|def)*ghi", [("ghi",)]),
        (r"\bfoo\b\.py", [("foo.py",)]),
        (r"\Qa.b\E", [("a.b",)]),
        (r"\x41\102c", [("ABc",)]),
        ("(?i)DEPLOY key", [("deploy ",), ("ey",)]),
        ("(?i:Abc)D(?-i)ef", [("abc",), ("ef",)]),
        ("[abc]d", []),
        ("数", [("数",)]),
        ("a", []),
        (r"ab\x00cd", [("ab",), ("cd",)]),
        (r"\x{d800}+ab", [("ab",)]),
    ],
)
def test_the_literals_of_a_pattern_the_most_telling_first(pattern: str, literals: list[tuple[str, ...]]) -> None:
    assert [need.any_of for need in required_literals(pattern)] == literals


@settings(max_examples=300)
@given(patterns, texts)
def test_no_text_that_matches_lacks_them(pattern: str, text: str) -> None:
    if regex.compile(pattern).search(text):
        assert all(need.is_in(text) for need in required_literals(pattern))
