"""A new prompt is shown what it may be about, and nothing where nothing is near."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lossless import Conversation, Lossless, Message, Settings
from lossless.errors import InvalidInput

FACT = "The staging database listens on port 5544 of harbour-2."


@pytest.fixture
def chat(database: str) -> Iterator[Conversation]:
    with Lossless.open(database, settings=Settings(fresh_tail_count=4)) as lcm:
        chat = lcm.conversation("k")
        talk = [f"We spoke about {word} for a while." for word in ("ferries", "timetables", "invoices", "kiosks") * 5]
        chat.ingest([*map(Message.user, talk[:8]), Message.user(FACT), *map(Message.user, talk)])
        yield chat


def test_a_prompt_about_the_past_is_shown_it(chat: Conversation) -> None:
    cue = chat.cue("Which port does the staging database use?")
    assert FACT in [each.text for each in cue.excerpts]
    assert 'trust="untrusted"' in cue.text
    assert 0 < cue.tokens <= 600


@pytest.mark.parametrize(
    "prompt", ["Write a haiku about autumn leaves.", "Thanks, well done!", "", "   ", "\0\ud800", "?" * 9]
)
def test_a_prompt_about_something_else_is_shown_nothing(chat: Conversation, prompt: str) -> None:
    cue = chat.cue(prompt)
    assert not cue
    assert (cue.text, cue.tokens) == ("", 0)


def test_what_the_model_sees_anyway_is_left_out(chat: Conversation) -> None:
    chat.ingest([Message.user("The walrus password is kept in the attic.")])
    prompt = "Where is the walrus password kept?"
    assert not chat.cue(prompt)
    chat.ingest([Message.user(f"something else {n}") for n in range(4)])
    assert chat.cue(prompt)


def test_a_cue_fits_its_budget(chat: Conversation) -> None:
    chat.ingest([Message.user("The comet manual says: " + "turn the comet valve slowly. " * 400)])
    chat.ingest([Message.user(f"something else {n}") for n in range(4)])
    for budget in (60, 200, 600):
        assert chat.cue("How do I turn the comet valve?", max_tokens=budget).tokens <= budget
    with pytest.raises(InvalidInput, match="max_tokens=0"):
        chat.cue("comet valve", max_tokens=0)


def test_a_key_without_messages_has_no_cue(chat: Conversation) -> None:
    assert not chat._lcm.conversation("new").cue("Which port does the staging database use?")
