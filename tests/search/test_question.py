from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.search.query.irregular_words import word_forms
from lossless.search.query.question import MOST_TERMS, Question, analyse


def words(question: Question) -> list[str]:
    return [term.forms[0] for term in question.terms]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("What did Anna say about the harbour?", ["anna", "say", "harbour"]),
        ("what is it", ["what", "is", "it"]),
        ('"red car" fast', ["red car", "fast"]),
        ('say "hi', ["say", "hi"]),
        ("cat cat cat", ["cat"]),
        ("? ! - *", []),
        ('""', []),
        ("x\0y", ["x", "y"]),
        ("Anna's boat doesn't float", ["anna", "boat", "float"]),
        ("docker-compose", ["docker compose", "docker", "compose"]),
        ("src/store.py", ["src store py", "src", "store", "py"]),
        ("memory:safe", ["memory safe", "memory", "safe"]),
        ("20.04", ["20 04", "20", "04"]),
        ("snake_case", ["snake case", "snake", "case"]),
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("数据库", ["数 据 库"]),
        ("库m", ["库 m"]),
        ("昨天做了什么", ["昨 天", "天 做", "做 了", "了 什", "什 么"]),
        ("NEAR(alpha beta) OR gamma*", ["near alpha", "near", "alpha", "beta", "gamma"]),
    ],
)
def test_the_terms_of_a_question(asked: str, wanted: list[str]) -> None:
    assert words(analyse(asked)) == wanted


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_question_has_terms_that_a_database_takes(asked: str) -> None:
    question = analyse(asked)
    assert len(question.terms) <= MOST_TERMS
    for term in (*question.terms, *question.fillers):
        for form in term.forms:
            assert form.strip()
            assert '"' not in form
            assert "\0" not in form
            form.encode()
    assert all(one < len(question.terms) > other for one, other in question.pairs)


def test_a_pasted_page_is_asked_by_its_beginning() -> None:
    question = analyse(" ".join(f"w{n}" for n in range(100_000)))
    assert words(question) == [f"w{n}" for n in range(MOST_TERMS)]


def test_words_that_stand_together_are_a_pair() -> None:
    question = analyse("Which support group of the city met in spring?")
    assert words(question) == ["support", "group", "city", "met", "spring"]
    assert question.pairs == ((0, 1), (2, 3), (3, 4))


def test_an_answer_may_lie_beside_the_words_of_a_sentence_but_not_of_a_search() -> None:
    assert analyse("where is the boat").reach == 2
    assert analyse("昨天我们做了什么").reach == 2
    assert analyse("red boat").reach == 0
    assert analyse('"the red boat"').reach == 0


def test_terms_that_nobody_said_leave_with_their_pairs() -> None:
    question = analyse("blue boat harbour").keep_terms([True, False, True])
    assert words(question) == ["blue", "harbour"]
    assert question.pairs == ()


@pytest.mark.parametrize("word", ["go", "goes", "going", "went", "gone"])
def test_irregular_forms_are_one_term(word: str) -> None:
    assert word_forms(word)[0] == word
    assert {"go", "went", "gone"} <= {word, *word_forms(word)}


def test_a_regular_word_has_only_itself() -> None:
    assert word_forms("boat") == ("boat",)
    assert word_forms("making") == ("making", "make", "made")
    assert word_forms("running") == ("running", "run", "ran")


@pytest.mark.parametrize(
    ("asked", "side"),
    [
        ("Where did I put my keys?", "user"),
        ("What did you tell me about the keys?", "assistant"),
        ("Which port did you suggest for my server?", "assistant"),
        ("What did I tell you about my sister?", "user"),
        ("Where did Anna put it?", None),
    ],
)
def test_the_person_of_a_question_is_a_side_of_the_dialogue(asked: str, side: str | None) -> None:
    assert analyse(asked).side == side


@pytest.mark.parametrize(
    "asked", ["How many trips did I take?", "List all the tools we use", "In what order did we go?"]
)
def test_a_question_about_many_messages_is_recognised(asked: str) -> None:
    assert analyse(asked).is_aggregating
    assert not analyse("Where did we go on the trip?").is_aggregating
