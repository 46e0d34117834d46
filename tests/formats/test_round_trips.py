"""What goes in comes out: every format, every case, and whatever Hypothesis makes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lossless.errors import InvalidInput
from lossless.model import Context, Message
from tests.formats.samples import DUMPS, FORMATS, back, cases, everything, kinds

GOLDEN = [(name, case) for name in FORMATS for case in cases(name)]
each_case = pytest.mark.parametrize(("name", "case"), GOLDEN, ids=[f"{name}: {case['name']}" for name, case in GOLDEN])
each_format = pytest.mark.parametrize("name", FORMATS)


@each_case
def test_a_case_comes_out_as_it_went_in(name: str, case: dict[str, Any]) -> None:
    again = back(name, FORMATS[name].load(case["wire"]))
    assert again == case["wire"]
    assert json.dumps(again) == json.dumps(case["wire"])


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, case in GOLDEN if case.get("plain")])
def test_an_ordinary_case_is_sent_as_it_came(name: str, case: dict[str, Any]) -> None:
    # The responses API takes no sounds, whoever writes them.
    wire = [item for item in case["wire"] if name != "openai_responses" or "input_audio" not in str(item)]
    (sent,) = DUMPS[name](FORMATS[name].load(wire)).values()
    assert json.dumps(sent) == json.dumps(wire)


@each_case
def test_a_case_is_understood(name: str, case: dict[str, Any]) -> None:
    assert [[message.role, kinds(message)] for message in FORMATS[name].load(case["wire"])] == case["expect"]


@each_case
def test_only_what_is_unusual_needs_a_note(name: str, case: dict[str, Any]) -> None:
    messages = FORMATS[name].load(case["wire"])
    noted = [value for message in messages for value in everything(message) if value.extra]
    assert bool(noted) != case.get("plain", False)


@each_case
def test_a_case_survives_the_store(name: str, case: dict[str, Any]) -> None:
    """The values are of the types the model promises, and JSON all the way down."""
    messages = FORMATS[name].load(case["wire"])
    stored = json.loads(json.dumps([msgspec.to_builtins(message) for message in messages]))
    restored = msgspec.convert(stored, list[Message])
    assert restored == messages
    assert json.dumps(back(name, restored)) == json.dumps(case["wire"])


@each_case
def test_no_other_format_stumbles_over_a_case(name: str, case: dict[str, Any]) -> None:
    messages = FORMATS[name].load(case["wire"])
    for other in FORMATS.keys() - {name}:
        written = json.dumps(FORMATS[other].dump(messages))
        assert "$" not in written.replace("$order", "").replace("$$", "")
        assert "cache_control" not in written


@each_case
def test_nobody_can_reach_into_a_message(name: str, case: dict[str, Any]) -> None:
    given_ = json.loads(json.dumps(case["wire"]))
    messages = FORMATS[name].load(given_)
    _spoil(given_)
    _spoil(back(name, messages))
    assert json.dumps(back(name, messages)) == json.dumps(case["wire"])


def _spoil(value: Any) -> None:
    children = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    for child in children:
        _spoil(child)
    if isinstance(value, (dict, list)):
        value.clear()


@each_format
def test_numbers_and_letters_that_break_other_parsers_survive(name: str) -> None:
    hard = {"int": 10**300, "nan": float("nan"), "inf": float("-inf"), "lone": "\ud83d", "nul": "\0"}
    arguments = json.dumps(hard) if name.startswith("openai") else hard
    wire = {
        "anthropic": {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "n", "input": arguments}],
        },
        "openai_chat": {
            "role": "assistant",
            "content": "\ud83d",
            "tool_calls": [{"id": "t", "type": "function", "function": {"name": "n", "arguments": arguments}}],
            "usage": hard,
        },
        "openai_responses": {"type": "function_call", "call_id": "t", "name": "n", "arguments": arguments, "x": hard},
        "openclaw": {
            "role": "assistant",
            "content": [{"type": "toolCall", "id": "t", "name": "n", "arguments": arguments}],
            "usage": hard,
        },
    }[name]
    message = FORMATS[name].load(wire)
    assert "tool_call" in kinds(message)
    assert json.dumps(back(name, [message])) == json.dumps([wire])


@each_format
def test_what_is_nested_deeply_survives_and_what_is_nested_too_deeply_is_refused(name: str) -> None:
    record = {"role": "assistant", "content": [{"type": "new", "inside": _nested(300)}], "more": _nested(300)}
    assert json.dumps(back(name, [FORMATS[name].load(record)])) == json.dumps([record])
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        FORMATS[name].load({"role": "user", "content": _nested(100_000)})


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


class Older:
    """An SDK object of the days before pydantic."""

    def to_dict(self) -> dict[str, Any]:
        return {"role": "user", "content": "hi", "seen": datetime(2026, 1, 1, tzinfo=UTC)}


@each_format
@pytest.mark.parametrize("value", [Older(), MappingProxyType(Older().to_dict())], ids=["to_dict", "mapping"])
def test_other_objects_are_read_as_what_they_stand_for(name: str, value: Any) -> None:
    (record,) = back(name, [FORMATS[name].load(value)])
    assert record == {"role": "user", "content": "hi", "seen": "2026-01-01T00:00:00+00:00"}


@each_format
def test_a_context_is_written_like_its_messages(name: str) -> None:
    assert FORMATS[name].dump(Context((), 0)) == DUMPS[name]([])
    assert len(back(name, (Message.user("hi"), Message.assistant("hello")))) == 2


@each_format
def test_bad_input_is_named(name: str) -> None:
    module = FORMATS[name]
    spot = "input[1]" if name == "openai_responses" else "messages[1]"
    for wrong in ("text", 5, None, [], object(), b"bytes"):
        with pytest.raises(InvalidInput, match=r"dict|JSON") as refusal:
            module.load([{"role": "user", "content": "fine"}, wrong])
        assert refusal.value.message.startswith(spot)
    for wrong in ({"content": "nobody"}, {"role": None, "content": ""}, {"role": 5}):
        with pytest.raises(InvalidInput, match='no "role"') as refusal:
            module.load([{"role": "user", "content": "fine"}, wrong])
        assert refusal.value.message.startswith(spot)
    with pytest.raises(InvalidInput, match=r"holds a set"):
        module.load({"role": "user", "content": {"a", "set"}})
    with pytest.raises(InvalidInput, match="dict"):
        module.load("text")
    for wrong in ("text", {}, {"messages": 5, "input": 5}):
        with pytest.raises(InvalidInput, match=r'under "(messages|input)"'):
            module.load_request(wrong)
    for wrong in (Message.user("alone"), [{"role": "user"}], 5, iter(())):
        with pytest.raises(InvalidInput, match="sequence of Message"):
            module.dump(wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = [
    "role",
    "content",
    "type",
    "text",
    "id",
    "name",
    "$order",
    "$shape",
    "$in",
    "$$",
    "",
    "cache_control",
    "isError",
]


@st.composite
def bent(draw: st.DrawFn, value: Any) -> Any:
    """A wire value with some of it shuffled, dropped, renamed or replaced."""
    if isinstance(value, list):
        return [draw(bent(item)) for item in value]
    if not isinstance(value, dict):
        return draw(st.one_of(st.just(value), st.just(value), st.just(value), JSON))
    entries = [(key, draw(bent(item))) for key, item in value.items() if draw(st.integers(0, 9))]
    entries += draw(st.lists(st.tuples(st.sampled_from(KEYS), JSON), max_size=1))
    return dict(draw(st.permutations(entries)) if draw(st.booleans()) else entries)


@st.composite
def wires(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A message nearly like one of the cases, of a format that would take it for a message of a request."""
    name = draw(st.sampled_from(sorted(FORMATS)))
    message = draw(bent(draw(st.sampled_from([message for case in cases(name) for message in case["wire"]]))))
    if name != "openai_responses" or message.get("type", "message") in (None, "message"):
        message["role"] = draw(st.sampled_from(["user", "assistant", "system", "tool", "toolResult", "critic"]))
    return name, message


@given(wires())
def test_whatever_comes_in_goes_out(wire: tuple[str, dict[str, Any]]) -> None:
    name, record = wire
    assume(not (name == "anthropic" and record.get("type") == "message" and "id" in record))
    assume(not (name == "openai_responses" and record.get("type") is None and isinstance(record.get("output"), list)))
    message = FORMATS[name].load(record)
    assert json.dumps(back(name, [message])) == json.dumps([record])
    for value in everything(message):
        msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(value))), type(value))


@given(wires())
def test_other_formats_take_whatever_came_in(wire: tuple[str, dict[str, Any]]) -> None:
    name, record = wire
    message = FORMATS[name].load(record)
    for other in FORMATS:
        assert isinstance(json.dumps(FORMATS[other].dump([message])), str)
