"""Patterns from users and models."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given

from lossless.errors import InvalidInput
from lossless.search import regex
from tests.patterns import patterns, texts


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\bключ\b", "Где ключ?", "ключ"),
        (r"\bключ\b", "ключевой вопрос", None),
        (r"ключ\B", "ключевой вопрос", "ключ"),
        (r"\bкл\w+", "ой, ключик!", "ключик"),
        (r"\b数据库\b", "迁移 数据库 完成", "数据库"),
        (r"\b数据库\b", "“数据库”已迁移", "数据库"),
        (r"\b数据库\b", "我的数据库2", None),
        (r"^\w+$", "हिन्दी", "हिन्दी"),
        (r"\d{4}", "en ٢٠٢٦", "٢٠٢٦"),
        (r"[\w-]+@[\w.]+", "schreib an jörg-straße@büro.example!", "jörg-straße@büro.example"),
        (r"[^\W\d_]+", "_1é_", "é"),
        (r"a\sb", "a\u3000b", "a\u3000b"),
        (r"(?i)ЁЛКА", "ёлка", "ёлка"),
        (r"\bfoo.{3}bar\b", "ü foo - bar", "foo - bar"),
        (r"\bfoo.{3}bar\b", "ü foo bar", None),
        (r"(?s)é.b", "é\nb", "é\nb"),
        (r"\Q[a.b]\E\b?", "é [a.b]", "[a.b]"),
        (r"\x41\x{435}", "Aе", "Aе"),
        (r"[(?=]{3}", "a(?=b", "(?="),
        (r"\(?=", "x=1", "="),
        (r"\PL\b", "é 1", " "),
    ],
)
def test_letters_digits_and_words_are_those_of_every_script(pattern: str, text: str, found: str | None) -> None:
    span = regex.compile(pattern).search(text)
    assert (None if span is None else text[slice(*span)]) == found


@pytest.mark.parametrize("pattern", [r"(?:\b){2}", r"((?i:(?:\b){3}é))", r"(?:\B){2}x", r"(?:(?:\b){2}é ?){2}"])
@pytest.mark.parametrize("text", ["é", "é é", "éx", "x é"])
def test_a_repeated_boundary_is_one_boundary(pattern: str, text: str) -> None:
    assert bool(regex.compile(pattern).search(text)) == bool(re.search(pattern, text))


@given(patterns, texts)
def test_a_pattern_finds_what_pythons_own_engine_finds(pattern: str, text: str) -> None:
    assume(text)  # in an empty one Python sees no `\\B`
    assert bool(regex.compile(pattern).search(text)) == bool(re.search(pattern, text))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "look-around"),
        ("a(?!b)", "look-around"),
        ("(?<=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        (r"(a)\1", "back-reference"),
        ("(?P<x>a)(?P=x)", "back-reference"),
        ("(python", r"missing \)"),
        ("[a", "missing ]"),
        ("*", "repetition"),
        ("", "empty"),
        ("x" * 501, "501 characters"),
        (r"\w{1000}\b", "too large"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason_and_a_way_out(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as refused:
        regex.compile(pattern)
    assert refused.value.hint


def test_an_evil_pattern_takes_no_longer_than_the_text_is_long() -> None:
    started = time.process_time()
    for evil in (r"(a+)+$", r"(a|aa)+$", r"(.*a){20}$", r"\b(a+)+\b$", r"(\w+\s?)*\bb$"):
        regex.compile(evil).search("a" * 20_000 + "é!")
    assert time.process_time() - started < 5


def test_what_no_column_can_hold_is_found_by_what_stands_in_its_place() -> None:
    assert regex.compile("a\0b").search("a\ufffdb") == (0, 3)
    assert regex.compile("a[\ud800]b").search("a?b") == (0, 3)
