from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lossless.engine.context.tool_pairing import MISSING, pair_tool_calls
from lossless.formats import openai_responses
from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

U = Message.user("go on")
THOUGHT = Reasoning("hm", "sig", {"anthropic": {}})


def a(*said: str | Part, stop: str | None = None) -> Message:
    """An assistant's message; a bare word is the id of a call."""
    return Message("assistant", tuple(ToolCall(one, "run") if isinstance(one, str) else one for one in said), stop=stop)


def t(call_id: str, text: str = "done") -> Message:
    return Message.tool(text, call_id=call_id)


def missing(call_id: str) -> Message:
    return Message("tool", (ToolResult(call_id, (Text(MISSING),), "run", is_error=True),))


CASES: dict[str, tuple[list[Message], int, list[Message]]] = {
    "a pair is left alone": ([U, a("1"), t("1"), a(Text("x"))], 0, [U, a("1"), t("1"), a(Text("x"))]),
    "before the tail a call without a result leaves, its words stay": ([a(Text("x"), "1"), U], 1, [a(Text("x")), U]),
    "before the tail a call without a result and words leaves whole": ([a("1"), U], 1, [U]),
    "in the tail a call without a result gets an error": ([U, a("2")], 0, [U, a("2"), missing("2")]),
    "one of two is missing": ([U, a("1", "2"), t("2")], 0, [U, a("1", "2"), missing("1"), t("2")]),
    "a result of nothing is dropped": ([t("9")], 0, []),
    "a result comes before what the user said meanwhile": ([a("1"), U, t("1")], 0, [a("1"), t("1"), U]),
    "a copy of a call leaves with its result": ([a("1"), t("1"), a("1"), t("1", "'")], 0, [a("1"), t("1")]),
    "a copy without a result leaves as well": ([U, a("1"), a(Text("x"), "1"), t("1")], 0, [U, a("1"), t("1"), a(Text("x"))]),
    "an aborted turn claims no id": (
        [a(Text("x"), "1", stop="aborted"), a("1"), t("1")],
        0,
        [a(Text("x"), stop="aborted"), a("1"), t("1")],
    ),
    "results come in the order of the calls": ([a("1", "2"), t("2"), t("1")], 0, [a("1", "2"), t("1"), t("2")]),
    "a real result beats a stand-in": (
        [a("1"), missing("1"), a(Text("x")), t("1")],
        0,
        [a("1"), t("1"), a(Text("x"))],
    ),
    "a real result beats a host's stand-in that comes later": (
        [a("1"), t("1"), t("1", "[openclaw] missing tool result in session history; inserted ...")],
        0,
        [a("1"), t("1")],
    ),
    "a stand-in stays where nothing better is": ([a("1"), missing("1"), U], 2, [a("1"), missing("1"), U]),
    "a result is found behind later calls": (
        [a("1"), a("2"), t("2"), t("1")],
        0,
        [a("1"), t("1"), a("2"), t("2")],
    ),
    "a result is found before its call": ([t("1"), U, a("1")], 0, [U, a("1"), t("1")]),
    "the first of two results counts": ([a("1"), t("1"), t("1", "again"), U], 0, [a("1"), t("1"), U]),
    "several results in one message are sorted out": (
        [a("1", "2"), Message("tool", (ToolResult("2"), ToolResult("9"), ToolResult("1")))],
        0,
        [a("1", "2"), Message("tool", (ToolResult("1"),)), Message("tool", (ToolResult("2"),))],
    ),
    "what the user said beside the results comes after them": (
        [a("1"), Message("user", (Text("and?"), ToolResult("1")))],
        0,
        [a("1"), Message("tool", (ToolResult("1"),)), Message.user("and?")],
    ),
    "a result inside an answer follows it": (
        [a("1", ToolResult("1"), Text("x"))],
        0,
        [a("1", Text("x")), Message("tool", (ToolResult("1"),))],
    ),
    "a system message does not come between": (
        [a("1"), Message.system("s"), t("1")],
        0,
        [a("1"), t("1"), Message.system("s")],
    ),
    "a result that names no call is a text": ([U, t("")], 0, [U, Message.assistant("done")]),
    "a tool message without a result is a text": (
        [U, Message("tool", (Text("done"), Opaque("x", 1)))],
        0,
        [U, Message.assistant("done")],
    ),
    "a call without an id leaves": ([U, a(Text("x"), "")], 0, [U, a(Text("x"))]),
    "only an assistant calls": ([Message("user", (Text("x"), ToolCall("1", "run"))), t("1")], 0, [Message.user("x")]),
    "what says nothing leaves": (
        [Message("user"), Message.user(" \n"), a(THOUGHT), a(Text("")), Message.system(""), U, a(THOUGHT, Text(" "))],
        0,
        [U],
    ),
    "a thought stays with the words that follow it": ([a(THOUGHT), a(Text("x")), U], 0, [a(THOUGHT), a(Text("x")), U]),
    "a thought leaves with the call it led to": ([a(Text("x"), THOUGHT, "1"), U], 1, [a(Text("x")), U]),
    "a thought behind its only call goes before it": ([a("1", THOUGHT), t("1")], 0, [a(THOUGHT, "1"), t("1")]),
    "a file alone is something": ([Message("user", (File(url="https://e/x"),))], 0, [Message("user", (File(url="https://e/x"),))]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_messages_are_put_in_order(name: str) -> None:
    given, fresh, expected = CASES[name]
    assert list(pair_tool_calls(given, fresh=fresh)) == expected
    assert list(pair_tool_calls(expected)) == expected


def test_a_host_that_counts_its_calls_anew_keeps_all_of_them() -> None:
    said = [a("1"), t("1", "one"), U, a("1"), t("1", "two")]
    assert pair_tool_calls(said) == (a("1"), t("1", "one"), U, a("1_2"), t("1_2", "two"))


def test_a_new_id_is_one_that_nobody_has() -> None:
    said = [a("1"), t("1"), U, a("1_2"), t("1_2"), U, a("1"), t("1")]
    assert _ids(pair_tool_calls(said)) == ["1", "1", "1_2", "1_2", "1_3", "1_3"]


def test_another_call_under_the_same_id_is_not_a_copy() -> None:
    other = ToolCall("1", "run", '{"other": true}')
    assert _ids(pair_tool_calls([a("1"), t("1"), a(other), t("1")])) == ["1", "1", "1_2", "1_2"]
    assert _ids(pair_tool_calls([a("1", other), t("1"), t("1")])) == ["1", "1_2", "1", "1_2"]


def test_a_result_belongs_to_the_nearest_turn_that_asked() -> None:
    said = [a("1"), U, a("1"), t("1")]
    assert pair_tool_calls(said, fresh=1) == (U, a("1"), t("1"))
    assert pair_tool_calls(said) == (a("1"), missing("1"), U, a("1_2"), t("1_2"))


def _ids(messages: Sequence[Message]) -> list[str]:
    return [part.call_id for message in messages for part in message.parts if isinstance(part, (ToolCall, ToolResult))]


def test_what_is_in_order_is_the_same_object() -> None:
    said = [
        Message.system("s"),
        U,
        a(THOUGHT, Text(""), "1", "2"),
        Message("user", (ToolResult("1"), ToolResult("2"), Text("and?"))),
        a("3"),
        t("3"),
        a(Text("x")),
    ]
    assert all(new is old for new, old in zip(pair_tool_calls(said), said, strict=True))


def test_the_running_turn_stays_as_it_is_when_the_past_is_mended() -> None:
    running = [U, a(THOUGHT, "5", "6"), t("5"), t("6"), a(THOUGHT, "7"), t("7")]
    shown = pair_tool_calls([t("0"), a("1"), U, a("2"), U, a(Text("x"), "3"), t("2"), *running], fresh=6)
    assert all(new is old for new, old in zip(shown[-6:], running, strict=True))


SHELL: dict[str, Any] = {"type": "shell_call", "id": "sh_1", "call_id": "s", "action": {"commands": ["ls"]}}


def test_a_call_we_do_not_model_needs_its_result_too() -> None:
    answer, result = openai_responses.load([SHELL, {"type": "shell_call_output", "call_id": "s", "output": []}])
    assert pair_tool_calls([answer, result]) == (answer, result)
    assert pair_tool_calls([answer]) == pair_tool_calls([result]) == ()


def test_items_without_their_reasoning_lose_their_ids() -> None:
    answer = openai_responses.load(
        [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": "Looking."},
            {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "run", "arguments": "{}"},
            {"type": "function_call", "id": "fc_2", "call_id": "2", "name": "run", "arguments": "{}"},
        ]
    )[0]
    shown = pair_tool_calls([answer, t("2"), U], fresh=3)
    assert openai_responses.dump(shown)["input"] == [
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "2", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "2", "output": "done"},
        {"role": "user", "content": "go on"},
    ]
