from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import InvalidInput
from lossless.search import regex
from lossless.search.words import segment, terms


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("what is it", ["what", "is", "it"]),
        ('"red car" fast', ["red car", "fast"]),
        ('say "hi', ["say", "hi"]),
        ("a a a", ["a"]),
        ("数据库", ["数  据  库"]),
        ("? ! - *", []),
        ('""', []),
        ("x\0y", ["x", "y"]),
        ("don't", ["don't"]),
    ],
)
def test_the_terms_of_a_question(question: str, wanted: list[str]) -> None:
    assert [term.words for term in terms(question)] == wanted


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_question_has_terms_that_a_database_takes(question: str) -> None:
    for term in terms(question):
        assert '"' not in term.words
        assert "\0" not in term.words
        term.words.encode()


def test_only_cjk_is_set_apart() -> None:
    for text in ("plain words", "добрый день", "naïve café", "🙂 ok"):
        assert segment(text) is text
    assert segment("用Python写").split() == ["用", "Python", "写"]


@pytest.mark.parametrize(
    ("pattern", "reason"), [("(a", "missing"), ("(?=x)", "look-around"), (r"(a)\1", "escape"), ("x" * 501, "501")]
)
def test_a_pattern_that_is_none_is_refused_with_its_reason(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        regex.compile(pattern)


def test_a_pattern_finds() -> None:
    found = regex.compile(r"sum_[0-9a-f]{4}").search("see sum_01ab there")
    assert found is not None
    assert found.span() == (4, 12)
