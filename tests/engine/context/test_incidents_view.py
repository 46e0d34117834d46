"""Incidents of what a model is shown, each by its number. IC113, IC114, IC116 and IC118 are in tests/engine/context/test_context.py."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lossless import Conversation, File, Message, Opaque, Reasoning, Summary, Text, ToolCall, ToolResult
from lossless.engine.context.summary_xml import as_message
from lossless.engine.context.tool_pairing import MISSING, pair_tool_calls
from lossless.formats import anthropic, openai_chat, openai_responses
from lossless.model import Context
from tests.engine.compaction.test_compaction import WINDOW, open_small, short, turns


def call(*ids: str, text: str = "", stop: str | None = None) -> Message:
    said = (Text(text),) if text else ()
    return Message("assistant", (*said, *(ToolCall(each, "read", "{}") for each in ids)), stop=stop)


def result(call_id: str, text: str = "done") -> Message:
    return Message("tool", (ToolResult(call_id, (Text(text),)),))


def test_ic103_a_budget_smaller_than_the_tail(chat: Conversation) -> None:
    chat.ingest([Message.user("old"), call("c1"), result("c1", "line " * 400), Message.user("now")])
    shown = chat.assemble(120)
    assert not shown.over_budget
    assert shown.tokens <= 120
    assert shown.messages[-1].text == "now"
    assert [left.reason for left in shown.left_out] == ["tool result"]
    tiny = chat.assemble(20)
    assert [message.text for message in tiny.messages] == ["now"]
    assert {left.reason for left in tiny.left_out} == {"tool result", "tail over budget"}


def test_ic104_appended_messages_change_nothing_before_them(database: str) -> None:
    with open_small(database, short) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(40))
        chat.compact(WINDOW)
        before = openai_chat.dump(chat.assemble(10 * WINDOW))["messages"]
        for n in range(100, 110):
            chat.ingest(turns(1, n))
            after = openai_chat.dump(chat.assemble(10 * WINDOW))["messages"]
            assert after[: len(before)] == before
            before = after


def test_ic105_a_call_without_its_result() -> None:
    evicted = [Message.user("a"), call("c1", text="I look."), Message.user("b")]
    assert pair_tool_calls(evicted, fresh=2)[1] == Message("assistant", (Text("I look."),))
    in_flight = pair_tool_calls([Message.user("a"), call("c1")], fresh=0)
    assert in_flight[-1].text == MISSING
    assert in_flight[-1].parts[0].call_id == "c1"  # type: ignore[union-attr]  # a result


def test_ic106_the_real_result_comes_back_to_its_call() -> None:
    said = [call("c1"), result("c1", MISSING), Message.assistant("hm"), result("c1", "real")]
    assert [message.text for message in pair_tool_calls(said)] == ["", "real", "hm"]
    displaced = pair_tool_calls([call("c1"), call("c2"), result("c2"), result("c1", "late")])
    assert [message.text for message in displaced] == ["", "late", "", "done"]


def test_ic107_an_id_belongs_to_the_first_that_has_it_and_never_to_a_failed_turn() -> None:
    twice = pair_tool_calls([call("c1"), result("c1", "first"), call("c1"), result("c1", "second")])
    assert [message.text for message in twice] == ["", "first"]
    aborted = pair_tool_calls([call("c1", stop="aborted", text="tried"), call("c1"), result("c1")])
    assert [len(message.parts) for message in aborted] == [1, 1, 1]
    assert aborted[0].text == "tried"


def test_ic108_a_result_before_its_call_and_one_that_nobody_asked_for(chat: Conversation) -> None:
    early = pair_tool_calls([Message.user("go"), result("c1"), call("c1")])
    assert [message.role for message in early] == ["user", "assistant", "tool"]
    chat.ingest([Message.user("go"), result("never"), Message.user("on")])
    shown = chat.assemble(1000).messages
    assert [message.role for message in shown] == ["user", "user", "user"]
    assert shown[1].text == f'<tool_result id="msg#{chat.messages()[1].id}" trust="untrusted">\ndone\n</tool_result>'
    assert chat.ingest([shown[1]]).stored == ()
    assert len(chat.messages()) == 3


@pytest.mark.parametrize(
    "nothing",
    [
        Message("user", ()),
        Message.user(""),
        Message.user(" \n"),
        Message.assistant("  "),
        Message("assistant", (Reasoning("hm", "signature"),)),
        Message("tool", ()),
    ],
)
def test_ic109_what_says_nothing_is_not_sent(chat: Conversation, nothing: Message) -> None:
    chat.ingest([Message.user("hello"), nothing, Message.user("again")])
    shown = chat.assemble(1000)
    assert [message.text for message in shown.messages] == ["hello", "again"]
    for dump in (anthropic.dump, openai_chat.dump, openai_responses.dump):
        assert "hello" in str(dump(shown))


def test_ic110_a_result_without_an_id_becomes_an_assistants_text() -> None:
    shown = pair_tool_calls([Message.user("go"), result("", "what came out"), Message.user("on")])
    assert shown[1] == Message("assistant", (Text("what came out"),))


def test_ic111_arguments_go_out_as_each_provider_has_them() -> None:
    said = Context(
        (), 0, (Message.user("go"), Message("assistant", (ToolCall("c1", "read", '{"path": "a"}'),)), result("c1"))
    )
    assert anthropic.dump(said)["messages"][1]["content"][0]["input"] == {"path": "a"}
    chat = openai_chat.dump(said)["messages"][1]["tool_calls"][0]["function"]
    assert chat["arguments"] == '{"path": "a"}'
    items = openai_responses.dump(said)["input"]
    assert next(item for item in items if item.get("type") == "function_call")["arguments"] == '{"path": "a"}'


def test_ic112_thinking_of_another_provider_is_left_out_and_ones_own_kept() -> None:
    own = anthropic.load(
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a"}],
        }
    )
    said = Context((), 0, (Message.user("q"), own, Message.user("q2")))
    assert anthropic.dump(said)["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert "signature" not in str(openai_chat.dump(said)) + str(openai_responses.dump(said))
    unsigned = Message("assistant", (Reasoning("foreign"), Text("a")))
    assert "foreign" not in str(anthropic.dump(Context((), 0, (Message.user("q"), unsigned, Message.user("q2")))))


def test_ic115_structured_payloads_count_as_what_is_sent(chat: Conversation) -> None:
    rows = Opaque("table", {"rows": [{"id": n, "name": f"row {n}", "ok": True} for n in range(200)]})
    chat.ingest([Message("assistant", (Text("here"), rows)), Message("user", (Text("thanks"), File(None, "a.txt")))])
    stored = chat.messages()[0]
    assert stored.tokens > 1_500
    assert chat.assemble(500).tokens <= 500


def test_ic119_a_summarys_text_cannot_close_its_tag() -> None:
    at = datetime(2026, 2, 17, 7, 37, tzinfo=UTC)
    leaf = Summary("sum_0123456789abcdef", 0, 'a<b & "c"', 5, at, at.replace(hour=8, minute=23), 0, 10, "m", "normal")
    message, _ = as_message(leaf, UTC)
    assert message.text == (
        '<summary id="sum_0123456789abcdef" kind="leaf" depth="0" descendant_count="0" trust="untrusted" level="normal"'
        ' earliest_at="2026-02-17T07:37:00Z" latest_at="2026-02-17T08:23:00Z">\n'
        '  <content>\na&lt;b &amp; "c"\n  </content>\n</summary>'
    )
