"""A message comes out of its columns as it went in."""

from __future__ import annotations

import pytest
from hypothesis import given

from lossless.model import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.store import jsontext
from lossless.store.rows import codec
from tests import strategies


def round_trip(message: Message) -> Message:
    key = codec.event_key(message.event_id)
    text, parts, meta = codec.encode(message, key)
    for column in (text, parts or "", meta or "", key or ""):
        assert jsontext.is_clean(column)
    at = None if message.at is None else codec.micros(message.at)
    return codec.decode(jsontext.cleaned(message.role), text, parts, meta, at, key)


@given(strategies.messages)
def test_any_message_comes_back_equal(message: Message) -> None:
    assert round_trip(message) == message


@pytest.mark.parametrize("event_id", ["m1", "", "x" * 5000, "a\0b", "\ud800", "id#1", "sha256:1"])
def test_any_event_id_comes_back(event_id: str) -> None:
    assert round_trip(Message.user("hi", event_id=event_id)).event_id == event_id


def test_a_plain_text_is_stored_once() -> None:
    assert codec.encode(Message.user("hello", event_id="e"), "e") == ("hello", None, None)


def test_the_words_of_a_tool_result_are_stored_once() -> None:
    text, parts, meta = codec.encode(Message.tool("the output", call_id="c1", name="read"), None)
    assert text == "the output"
    assert parts == '[{"type":"tool_result","call_id":"c1","name":"read","span":[0,10]}]'
    assert meta is None


def test_what_a_search_reads_has_the_calls_and_results_but_not_the_thinking() -> None:
    message = Message(
        "assistant",
        (
            Reasoning("secret thought"),
            Text("I look"),
            ToolCall("c", "grep", '{"q":"needle"}'),
            ToolResult("c", (Text("found"),)),
        ),
    )
    assert codec.encode(message, None).text == 'I look\n{"q":"needle"}\nfound\ngrep'


def test_nan_survives() -> None:
    back = round_trip(Message("user", (Opaque("k", {"x": float("nan"), "y": float("-inf")}),)))
    assert isinstance(back.parts[0], Opaque)
    assert back.parts[0].data["x"] != back.parts[0].data["x"]
    assert back.parts[0].data["y"] == float("-inf")


def test_ten_thousand_parts_survive() -> None:
    message = Message("user", tuple(Text(f"part {n}") for n in range(10_000)))
    assert round_trip(message) == message


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("plain", "plain"),
        ({"text": "first", "content": "second"}, "first\nsecond"),
        ({"segments": [{"text": "a"}, {"text": "b"}]}, "a\nb"),
        ({"payload": {"data": {"value": "deep"}}}, "deep"),
        ({"command": "ls -l", "output": "total 0"}, "ls -l\ntotal 0"),
        ([{"text": "one"}, 7, None, ["two"]], "one\ntwo"),
        ({"a": {"b": 1}}, ""),
        ({"type": "reasoning", "text": "a thought"}, ""),
        ({"id": "call_1", "encrypted_content": "gAAAA" * 60, "title": "kiln"}, "kiln"),
        ({"content": {"content": {"content": {"content": {"content": {"content": {"content": "deep"}}}}}}}, "deep"),
        (None, ""),
    ],
)
def test_every_word_of_an_unknown_shape_is_found(data: object, text: str) -> None:
    assert codec.encode(Message("user", (Opaque("new", data),)), None).text == text


def test_who_speaks_and_what_a_file_is_called_are_found() -> None:
    file = File("image/png", "kiln.png", None, "https://example.com/kiln.png")
    message = Message("user", (Text("look"), file), name="ana")
    assert codec.encode(message, None).text == "look\nkiln.png\nhttps://example.com/kiln.png\nana"
    assert round_trip(message) == message
    assert round_trip(Message.user("look", name="ana")) == Message.user("look", name="ana")


def test_files_keep_every_field() -> None:
    message = Message(
        "user", (File("image/png", "a.png", "QUJD", "https://example.com/a.png", {"openclaw": {"k": 1}}),)
    )
    assert round_trip(message) == message
