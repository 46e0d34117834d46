"""Which of the messages that one side tells are those the other side has told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import Message
from lossless.engine.ingest.match_host_and_transcript import Progress, SourceMessage, match_messages, provider_key
from lossless.formats import openclaw


def said(text: str, at: int | None = None, key: str | None = None) -> SourceMessage:
    return SourceMessage(text.encode(), at, key)


def words(line: str) -> list[SourceMessage]:
    return [said(word) for word in line.split()]


@pytest.mark.parametrize(
    ("incoming", "stored", "follows", "found"),
    [
        ("a b", "a b", False, {0: 0, 1: 1}),
        ("a b c", "a b", False, {0: 0, 1: 1}),
        ("b", "a b", False, {0: 1}),
        ("a", "a b", False, {}),
        ("a", "a b", True, {0: 0}),
        ("a c", "a b", True, {}),
        ("x", "a b", True, {}),
        ("ok", "ok ok", True, {0: 0}),
        ("ok", "ok ok", False, {0: 1}),
        ("", "a", False, {}),
        ("a", "", False, {}),
    ],
)
def test_equal_words_of_a_host_count_where_its_delivery_goes_on_or_ends(
    incoming: str, stored: str, follows: bool, found: dict[int, int]
) -> None:
    assert match_messages(words(incoming), words(stored), complete=False, follows=follows) == found


@pytest.mark.parametrize(
    ("incoming", "stored", "found"),
    [
        ("a b", "a b", {0: 0, 1: 1}),
        ("x a b", "a b", {1: 0, 2: 1}),
        ("a x b", "a b", {0: 0, 2: 1}),
        ("b a", "a b", {0: 1}),
        ("ok ok", "ok", {0: 0}),
    ],
)
def test_a_transcript_tells_everything_so_the_next_like_it_is_the_same(
    incoming: str, stored: str, found: dict[int, int]
) -> None:
    assert match_messages(words(incoming), words(stored), complete=True, follows=False) == found


def test_the_same_time_is_proof_and_another_one_is_to_the_contrary() -> None:
    stored = [said("ok", 1), said("ok", 2), said("no", 3)]
    assert match_messages([said("ok", 1)], stored, complete=False, follows=False) == {0: 0}
    assert match_messages([said("ok", 9)], stored[:2], complete=True, follows=False) == {}
    assert match_messages(
        [said("other dress", None, "reply:r1")], [said("x", 1, "reply:r1")], complete=True, follows=False
    ) == {0: 0}


def test_neighbours_of_what_is_sure_are_told_with_it() -> None:
    stored = [said("a"), said("b", 5), said("c"), said("d")]
    assert match_messages([said("a"), said("b", 5), said("c")], stored, complete=False, follows=False) == {
        0: 0,
        1: 1,
        2: 2,
    }


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8), st.booleans())
def test_each_is_told_of_one_and_in_order(incoming: list[str], stored: list[str], complete: bool) -> None:
    found = match_messages([said(w) for w in incoming], [said(w) for w in stored], complete=complete, follows=True)
    pairs = sorted(found.items())
    assert [place for _, place in pairs] == sorted({place for _, place in pairs})
    assert all(incoming[at] == stored[place] for at, place in pairs)


def test_only_names_that_a_provider_minted_tell_a_message() -> None:
    assert provider_key(Message.tool("x", call_id="toolu_0123456789ab")) == "result:toolu_0123456789ab"
    assert provider_key(Message.tool("x", call_id="exec:101")) is None
    assert provider_key(Message.user("x")) is None
    reply = openclaw.load({"role": "assistant", "content": [], "responseId": "r1", "timestamp": 1})
    assert provider_key(reply) == "reply:r1"


def test_a_transcript_that_is_behind_does_not_pass_over_what_the_host_told() -> None:
    progress = Progress()
    progress.add_stored("live", 1, 2, pending=False)
    progress.add_stored("transcript", 3, 3, pending=True)
    assert (progress.transcript, progress.is_own(3), progress.is_own(2)) == (0, True, False)
    progress.advance("transcript", 2)
    assert progress.is_own(3)
    progress.add_stored("transcript", 4, 5, pending=False)
    assert (progress.transcript, progress.own) == (5, [])
    assert Progress.load(progress.dump()) == Progress(live=2, transcript=5)
