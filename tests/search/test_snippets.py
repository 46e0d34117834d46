"""A match as a person reads it."""

from __future__ import annotations

from lossless.search.query.question import analyse
from lossless.search.snippets import TermFinder, printable, snippet


def test_eighty_characters_on_either_side_on_one_line() -> None:
    text = "x" * 100 + "\n\tkey\n" + "y" * 100
    shown = snippet(text, 102, 105)
    assert shown == "..." + "x" * 78 + " key " + "y" * 79 + "..."
    assert snippet("the key", 4, 7) == "the key"


def test_a_long_match_is_cut() -> None:
    assert len(snippet("a" * 10_000, 0, 10_000)) == 200 + 80 + 3


def test_a_terminal_has_nothing_to_obey() -> None:
    assert snippet("\x1b[2Jgone \u202edrow", 0, 3) == r"\x1b[2Jgone \u202edrow"
    assert printable("a\0\x07\x9b\ud800") == r"a\x00\x07\x9b\ud800"


def test_words_are_found_where_most_of_them_stand_together() -> None:
    text = "A key here. " + "Nothing at all. " * 20 + "We deployed with the key of ops."
    found = TermFinder(analyse("Which key did we deploy with?")).search(text)
    assert found is not None
    assert text[slice(*found)] == "deployed"


def test_words_of_other_scripts_are_found_inside_a_sentence() -> None:
    assert TermFinder(analyse("数据库")).search("我们的数据库迁移") == (3, 6)
    assert TermFinder(analyse("monkey")).search("the key") is None
