from __future__ import annotations

import pytest

from lossless.search.query.directives import is_directive


@pytest.mark.parametrize(
    "text",
    [
        "Always format code in blocks when I ask about an implementation.",
        "From now on, answer in German.",
        "I prefer tabs to spaces.",
        "I’d prefer short answers.",
        "Please never push to main.",
        "Whenever I ask for a date, give it in ISO format.",
        "You should always run the linter first.",
        "I don't want you to use abbreviations.",
        "Good idea. Never mention the price.",
    ],
)
def test_what_a_user_wants_from_now_on_is_recognised(text: str) -> None:
    assert is_directive(text)


@pytest.mark.parametrize(
    "text",
    [
        "I have always lived here, and never by the sea.",
        "She never calls.",
        "What does the function return?",
        "The future of the project is open.",
        "From now on, answer in German. " + "And so on. " * 60,
        "",
    ],
)
def test_other_texts_are_none(text: str) -> None:
    assert not is_directive(text)
