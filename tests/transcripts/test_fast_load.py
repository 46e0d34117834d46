"""The quick way gives what the formats give, to the letter, or leaves it to them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lossless.formats import anthropic, openai_chat, openai_responses, openclaw
from lossless.formats.wire import Record
from lossless.transcripts import fast_load

WORDS = st.text(max_size=5)
ODD: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-1, 3) | st.just([]) | st.just({"x": [1.5]}) | WORDS
)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, usual, usual, usual, ODD)


@st.composite
def record(draw: st.DrawFn, keys: dict[str, st.SearchStrategy[Any]], others: tuple[str, ...] = ()) -> Record:
    """Those keys, now and then one missing, one too many, one with an odd value, or in another order."""
    made = {key: draw(mostly(value)) for key, value in keys.items() if draw(st.integers(0, 11))}
    made |= {key: draw(ODD) for key in (*others, "$x", "zz") if not draw(st.integers(0, 11))}
    return dict(draw(st.permutations(list(made.items())))) if not draw(st.integers(0, 3)) else made


def kind(name: str) -> st.SearchStrategy[str]:
    return st.just(name)


ARGUMENTS = st.dictionaries(WORDS, ODD | st.floats(), max_size=2)
STAMP = st.integers(1, 2_000_000_000_000)

PI_TEXT = record({"type": kind("text"), "text": WORDS}, ("textSignature",))
PI_BLOCKS = (
    PI_TEXT
    | record({"type": kind("thinking"), "thinking": WORDS, "thinkingSignature": WORDS}, ("redacted",))
    | record({"type": kind("toolCall"), "id": WORDS, "name": WORDS, "arguments": ARGUMENTS}, ("thoughtSignature",))
)
STOP = st.sampled_from(["stop", "toolUse", "error", "aborted", "end_turn", ""])
PI = (
    record({"role": kind("user"), "content": st.lists(PI_BLOCKS, max_size=3), "timestamp": STAMP})
    | record(
        {"role": kind("assistant"), "content": st.lists(PI_BLOCKS, max_size=3), "api": WORDS, "usage": ODD}
        | {"stopReason": STOP, "timestamp": STAMP},
        ("errorMessage", "responseId"),
    )
    | record(
        {"role": kind("toolResult"), "toolCallId": WORDS, "toolName": WORDS, "content": st.lists(PI_TEXT, max_size=2)}
        | {"isError": st.booleans(), "timestamp": STAMP},
        ("details", "stopReason"),
    )
)

CLAUDE_TEXT = record({"type": kind("text"), "text": WORDS}, ("citations", "cache_control", "parsed"))
RESULT = record(
    {"tool_use_id": WORDS, "type": kind("tool_result"), "content": WORDS | st.lists(CLAUDE_TEXT, max_size=2)},
    ("is_error", "cache_control"),
)
REPLY_BLOCKS = (
    CLAUDE_TEXT
    | record({"type": kind("thinking"), "thinking": WORDS, "signature": WORDS})
    | record({"type": kind("tool_use"), "id": WORDS, "name": WORDS, "input": ARGUMENTS}, ("caller",))
)
ROLE = st.sampled_from(["user", "assistant", "system"])
CLAUDE = record({"role": ROLE, "content": WORDS | st.lists(CLAUDE_TEXT | RESULT, max_size=2)}) | record(
    {"id": WORDS, "type": kind("message"), "role": kind("assistant"), "content": st.lists(REPLY_BLOCKS, max_size=3)}
    | {"stop_reason": st.none() | WORDS, "stop_sequence": st.none(), "usage": ODD},
    ("model", "container"),
)

INPUT = record({"type": kind("input_text"), "text": WORDS})
OUTPUT = record({"type": kind("output_text"), "text": WORDS, "annotations": st.just([])}, ("logprobs",))
SUMMARY = st.lists(record({"type": kind("summary_text"), "text": WORDS}), max_size=2)
ITEM = (
    record({"type": kind("message"), "role": kind("user"), "content": st.lists(INPUT, max_size=2)}, ("id", "status"))
    | record(
        {"type": kind("message"), "id": WORDS, "role": kind("assistant"), "content": st.lists(OUTPUT, max_size=2)},
        ("phase",),
    )
    | record({"type": kind("function_call"), "id": WORDS, "name": WORDS, "arguments": WORDS, "call_id": WORDS})
    | record({"type": kind("function_call_output"), "call_id": WORDS, "output": WORDS}, ("id", "name"))
    | record(
        {
            "type": kind("reasoning"),
            "id": WORDS,
            "summary": SUMMARY,
            "content": st.none(),
            "encrypted_content": st.none() | WORDS,
        }
    )
)


def read(load: Any, value: Any) -> Any:
    try:
        return load(value)
    except ValueError:
        return None


@given(PI)
def test_pi_as_the_format_reads_it(message: Record) -> None:
    assert fast_load.openclaw(message) in (None, read(openclaw.load, message))


@given(CLAUDE)
def test_claude_as_the_format_reads_it(message: Record) -> None:
    assert fast_load.anthropic(message) in (None, read(anthropic.load, message))


@given(ITEM)
def test_items_as_the_format_reads_them(item: Record) -> None:
    assert fast_load.responses(item) in (None, (read(openai_responses.load, [item]) or [None])[0])


@given(record({"role": ROLE, "content": WORDS}, ("name",)))
def test_plain_chat_as_the_format_reads_it(message: Record) -> None:
    assert fast_load.chat(message) in (None, read(openai_chat.load, message))


def test_the_commonest_are_read_the_quick_way() -> None:
    words = [{"type": "text", "text": "x"}]
    about = {"api": "a", "provider": "p", "model": "m", "usage": {"input": 1}, "stopReason": "stop", "timestamp": 1}
    assert fast_load.openclaw({"role": "user", "content": words, "timestamp": 1})
    assert fast_load.openclaw({"role": "assistant", "content": words, **about})
    assert fast_load.openclaw(
        {"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": words, "isError": False, "timestamp": 1}
    )
    assert fast_load.anthropic({"role": "user", "content": "x"})
    assert fast_load.anthropic(
        {"role": "user", "content": [{"tool_use_id": "c", "type": "tool_result", "content": "x"}]}
    )
    assert fast_load.anthropic(
        {"id": "m", "type": "message", "role": "assistant", "content": words, "stop_reason": None}
    )
    assert fast_load.responses({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]})
    assert fast_load.responses(
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
    )
    assert fast_load.chat({"role": "user", "content": "x"})
