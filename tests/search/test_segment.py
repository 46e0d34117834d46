from __future__ import annotations

import time

import pytest

from lossless.search.segment import find_emoji, segment


def test_only_cjk_and_camel_case_are_set_apart() -> None:
    for text in ("plain words", "добрый день", "naïve café", "snake_case docker-compose 20.04", "TVs, NASA"):
        assert segment(text) is text
    assert segment("用Python写").split() == ["用", "Python", "写"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("call getUserName now", "call getUserName get User Name now"),
        ("HTTPServer", "HTTPServer HTTP Server"),
        ("fooBar.bazQux", "fooBar foo Bar .bazQux baz Qux"),
        ("在getUser里", "在 getUser get User 里"),
        ("aB" * 30, "aB" * 30),
    ],
)
def test_a_name_in_camel_case_is_followed_by_its_parts(text: str, words: str) -> None:
    assert segment(text).split() == words.split()


def test_a_run_of_a_million_letters_takes_no_longer_than_its_length() -> None:
    start = time.process_time()
    segment("aB " + "x" * 1_000_000 + "aB" * 100_000)
    segment(r"a\nb " + "x" * 1_000_000 + r" c\u00e9" * 10_000)
    assert time.process_time() - start < 2


def test_an_emoji_is_a_word_that_tells_which_it_is() -> None:
    for emoji in ("🙂", "❤", "🇩🇪", "☕", "🫠"):
        (word,) = segment(f"x{emoji}").split()[1:]
        assert word.isalnum()
        assert find_emoji(word) == emoji
        assert segment(f"👍🏽{emoji}").split()[-1] == word
    assert find_emoji("emoji") is None
    assert segment("➀ 🄀 日本") == "➀ 🄀  日  本 "
