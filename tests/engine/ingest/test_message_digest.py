"""Where the new part of a resent conversation starts, and what counts as the same message."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.engine.ingest.message_digest import digest, without_tags
from lossless.engine.ingest.without_ids import new_part
from lossless.model import Message, Reasoning, Text, ToolCall, ToolResult
from tests import strategies


def letters(text: str) -> list[bytes]:
    return [letter.encode() for letter in text]


@pytest.mark.parametrize(
    ("stored", "incoming", "new"),
    [
        ("", "abc", "abc"),
        ("abc", "abc", ""),
        ("abc", "abcde", "de"),
        ("kk", "kkk", "k"),  # a repeated "ok" is one more message
        ("kkk", "kk", ""),
        ("abcdef", "defg", "g"),  # a host with a sliding window
        ("abcdef", "def", ""),
        ("abkk", "kkk", "k"),
        ("Sabcd", "Scde", "e"),  # ... that keeps its system prompt
        ("Sabc", "Tabcd", "Td"),  # a system prompt with another date
        ("abcde", "abXdef", "Xf"),  # a tool result cleared in place
        ("abcdef", "abXYefg", "XYg"),
        ("abc", "ab", ""),  # rewound
        ("abcde", "abx", "x"),  # rewound and gone on otherwise
        ("abkz", "abnk", "nk"),  # a coincidence behind a rewind is no reason to drop anything
        ("abc", "xby", "xby"),  # overlapping here and there: all of it is new
        ("abcdefgh", "xdy", "xdy"),
        ("abc", "Zabcd", "Zd"),  # a summary put in front
        ("abc", "xyz", "xyz"),
        ("sqd", "sQd", "Qd"),  # an edited question and a short, equal answer: it may well be a new answer
        ("abk", "kn", "kn"),
        ("a1b2c3d4", "X1Y2Z3W4", "X1Y2Z3W4"),  # every second one alike proves nothing
        ("b", "ab", "ab"),
        ("a", "a", ""),
        ("a", "b", "b"),
    ],
)
def test_where_the_new_part_starts(stored: str, incoming: str, new: str) -> None:
    fresh = new_part(letters(stored), letters(incoming))
    assert "".join(incoming[at] for at in fresh) == new


@given(st.lists(st.sampled_from(letters("abk")), max_size=30), st.lists(st.sampled_from(letters("abk")), max_size=8))
def test_what_is_appended_to_a_whole_conversation_is_what_is_new(stored: list[bytes], added: list[bytes]) -> None:
    assert new_part(stored, stored + added) == list(range(len(stored), len(stored) + len(added)))


@given(
    st.lists(st.sampled_from(letters("abk")), max_size=20), st.lists(st.sampled_from(letters("abkxyz")), max_size=20)
)
def test_what_was_never_stored_is_always_new(stored: list[bytes], incoming: list[bytes]) -> None:
    fresh = {incoming[at] for at in new_part(stored, incoming)}
    assert set(incoming) - set(stored) <= fresh


@given(
    st.lists(st.sampled_from(letters("abkxyz")), max_size=20), st.lists(st.sampled_from(letters("abkxyz")), max_size=20)
)
def test_no_more_is_known_than_was_stored(stored: list[bytes], incoming: list[bytes]) -> None:
    fresh = set(new_part(stored, incoming))
    known = [each for at, each in enumerate(incoming) if at not in fresh]
    assert all(known.count(each) <= stored.count(each) for each in known)


@pytest.mark.parametrize("edited", [[0], [0, 999], [0, 900], [0, 1, 2, 500, 501, 998], list(range(0, 1000, 50))])
def test_a_few_edits_in_a_long_conversation_flood_nothing(edited: list[int]) -> None:
    known = [str(n).encode() for n in range(1000)]
    incoming = [b"edited " + each if at in edited else each for at, each in enumerate(known)] + [b"new"]
    fresh = new_part(known, incoming)
    assert set(edited) <= set(fresh)
    assert fresh[-1] == 1000
    assert len(fresh) <= 2 * len(edited) + 2


def test_ten_thousand_equal_messages_are_aligned_at_once() -> None:
    start = time.process_time()
    assert new_part([b"ok"] * 10_000, [b"date"] + [b"ok"] * 10_001) == [0, 10_001]
    assert time.process_time() - start < 2


def identity(role: str, text: str) -> str:
    return text


@given(strategies.messages)
def test_the_digest_looks_at_what_is_said_and_nothing_else(message: Message) -> None:
    other = Message(message.role, message.parts, None, "someone", "another id", "stop", {"openclaw": 1})
    assert digest(message, identity) == digest(other, identity)


def test_a_reply_with_its_thinking_stripped_is_the_same_reply() -> None:
    said = Message("assistant", (Text("a"),))
    assert digest(said, identity) == digest(Message("assistant", (Reasoning("hm"), Text("a"))), identity)
    thoughts = [Message("assistant", (Reasoning(text),)) for text in ("one", "two")]
    assert digest(thoughts[0], identity) != digest(thoughts[1], identity)


def test_thinking_does_not_count_but_everything_else_does() -> None:
    said = Message("assistant", (Text("a"), ToolCall("c", "n", "{}")))
    assert digest(said, identity) == digest(Message("assistant", (Reasoning("hm"), *said.parts)), identity)
    others = [
        Message("user", said.parts),
        Message("assistant", (Text("b"), ToolCall("c", "n", "{}"))),
        Message("assistant", (Text("a"), ToolCall("d", "n", "{}"))),
        Message("assistant", (Text("a"), ToolCall("c", "m", "{}"))),
        Message("assistant", (Text("a"), ToolCall("c", "n", "{ }"))),
        Message("assistant", (Text("a"),)),
        Message("assistant", (Text("ac"), ToolCall("", "n", "{}"))),
    ]
    assert len({digest(each, identity) for each in [said, *others]}) == len(others) + 1


def test_an_error_and_a_success_of_a_tool_differ() -> None:
    results = [Message("tool", (ToolResult("c", (Text("x"),), None, failed),)) for failed in (True, False)]
    assert digest(results[0], identity) != digest(results[1], identity)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("hello", "hello"),
        ("<memories>x</memories>hello", "hello"),
        ("<memories>x</memories>\n\nhello", "hello"),
        ("hello <Memories kind='a'>\nx\n</MEMORIES>", "hello"),
        ("a <memories>x</memories> b <memories>y</memories> c", "a  b  c"),
        ("<memories>never closed </", "<memories>never closed </"),
        ("<memoriesque>x</memories>", "<memoriesque>x</memories>"),
        ("</memories> hello", "</memories> hello"),
        ("<other>x</other>", "<other>x</other>"),
        ("<memories>a</memories><memories>b</memories>hi", "hi"),
        ("İ <memories>a</memories>", "İ"),
    ],
)
def test_injected_blocks_are_looked_through(text: str, bare: str) -> None:
    canonicalize = without_tags(["memories"])
    assert canonicalize("user", text) == bare
    assert canonicalize("assistant", text) == text


def test_hostile_tags_cost_no_more_than_long_texts() -> None:
    start = time.process_time()
    without_tags(["memories"])("user", "<memoriesx" * 200_000 + "</memories>")
    without_tags(["memories"])("user", "<memories>" * 200_000)
    without_tags(["memories"])("user", "<memories></memories>" * 100_000)
    assert time.process_time() - start < 2
