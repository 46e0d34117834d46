"""Assembly: the newest kept, the newest words and the newest round always, valid, bounded, told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import Message, Opaque, Reasoning, StoredMessage, Text, ToolCall, ToolResult
from lossless.engine.context.fit_budget import Assembly, ViewEntry, assemble, is_from_user
from lossless.engine.context.tool_pairing import MISSING, pair_tool_calls
from lossless.formats import openai_responses
from lossless.model import Context
from lossless.tokens import message_tokens
from tests import strategies


def entry(message: Message, seq: int, tokens: int | None = None) -> ViewEntry:
    from datetime import UTC, datetime

    cost = message_tokens(message) if tokens is None else tokens
    stored = StoredMessage(1_000_000_000 + seq, seq, cost, b"", datetime(2026, 1, 1, tzinfo=UTC), message)
    return ViewEntry(stored, message, cost, None, seq)


def entries(*messages: Message) -> list[ViewEntry]:
    return [entry(message, seq) for seq, message in enumerate(messages, 1)]


def words(count: int) -> str:
    return "word " * count


def seqs(shown: Context) -> list[int]:
    return [item.seq for item in shown.items if isinstance(item, StoredMessage)]


def show(body: list[ViewEntry], budget: int, fresh: int = 0) -> Assembly:
    return assemble((), body, fresh=fresh, budget=budget)


def test_what_fits_is_shown_whole_and_as_it_is() -> None:
    body = entries(Message.user("a"), Message.assistant("b"), Message.user("c"))
    shown = show(body, 1000).context
    assert shown.messages == tuple(each.message for each in body)
    assert (shown.left_out, shown.over_budget) == ((), False)
    assert shown.tokens == sum(each.tokens for each in body)


def test_the_oldest_leave_first_and_are_told() -> None:
    body = entries(*(Message.user(words(50)) for _ in range(10)))
    shown = show(body, 300, fresh=8).context
    assert seqs(shown) == list(range(11 - len(shown.items), 11))
    assert 0 < shown.tokens <= 300
    assert [left.reason for left in shown.left_out] == ["budget"] * (10 - len(shown.items))
    assert shown.left_out[0].id == "msg#1000000001"


def test_a_tail_that_is_too_large_gives_up_its_oldest_tool_results_first() -> None:
    call = Message("assistant", (ToolCall("c1", "read"),))
    result = Message("tool", (ToolResult("c1", (Text(words(500)),)),))
    body = entries(Message.user("look"), call, result, Message.assistant("seen"), Message.user("now"))
    shown = show(body, 200).context
    assert shown.tokens <= 200
    assert seqs(shown) == [1, 2, 3, 4, 5]
    assert "msg#1000000003" in shown.messages[2].text
    assert [left.reason for left in shown.left_out] == ["tool result"]


def test_then_its_oldest_rounds_leave() -> None:
    body = entries(*(m for n in range(6) for m in (Message.user(f"{n} {words(40)}"), Message.assistant(words(40)))))
    budget = sum(each.tokens for each in body[-4:]) + 5
    shown = show(body, budget).context
    assert shown.tokens <= budget
    assert seqs(shown) == [9, 10, 11, 12]
    assert {left.reason for left in shown.left_out} == {"tail over budget"}


def test_the_newest_words_and_the_newest_round_alone_may_exceed_the_budget_and_say_so() -> None:
    big = Message("tool", (ToolResult("c", (Text(words(500)),)),))
    body = entries(Message.user(words(50)), Message.user("now"), Message("assistant", (ToolCall("c", "x"),)), big)
    shown = show(body, 100).context
    assert shown.over_budget
    assert seqs(shown) == [2, 3, 4]
    assert shown.messages[2] is big


def test_a_call_in_flight_gets_a_stand_in_within_the_budget() -> None:
    body = entries(Message.user(words(20)), Message.user("now"), Message("assistant", (ToolCall("c", "x"),)))
    whole = show(body, 1000).context
    assert whole.messages[-1].text == MISSING
    tight = show(body, sum(each.tokens for each in body)).context
    assert seqs(tight) == [2, 3]
    assert tight.tokens <= sum(each.tokens for each in body)


def test_the_head_always_stays() -> None:
    head = [ViewEntry(None, Message.system("instructions"), 10)]
    shown = assemble(head, entries(Message.user(words(100)), Message.user("now")), fresh=0, budget=40).context
    assert shown.messages[0].text == "instructions"
    assert shown.messages[-1].text == "now"
    assert shown.tokens <= 40


def test_thinking_from_before_the_newest_summary_is_left_out_except_in_the_running_turn() -> None:
    def thought(text: str) -> Message:
        return Message("assistant", (Reasoning("hm"), Text(text)))

    summary = ViewEntry(None, Message.user("<summary/>"), 5, (1, 1), at=10)
    old = [entry(Message.user("q"), 2), entry(thought("old"), 3)]
    new = [entry(Message.user("q2"), 11), entry(thought("new"), 12), entry(Message.user("q3"), 13)]
    running = entry(thought("running"), 9)
    shown = show([summary, *old, *new, running], 1000).context
    kinds = {message.text: [type(part).__name__ for part in message.parts] for message in shown.messages}
    assert kinds["old"] == ["Text"]
    assert kinds["new"] == kinds["running"] == ["Reasoning", "Text"]


def test_items_whose_reasoning_is_left_out_are_sent_without_their_ids() -> None:
    """The responses API refuses an item whose reasoning is missing, and knows it by its id."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    (asked,) = openai_responses.load([thought, call])
    result = Message.tool("fine", call_id="c1")
    summary = ViewEntry(None, Message.user("<summary/>"), 5, (1, 1), at=10)
    old = [entry(Message.user("q"), 2), entry(asked, 3), entry(result, 4)]
    shown = show([summary, *old, entry(Message.user("q2"), 11)], 1000).context
    assert [item.get("id") for item in openai_responses.dump(shown)["input"]] == [None] * 5


@given(
    st.lists(strategies.messages, max_size=14),
    st.integers(1, 600),
    st.integers(0, 14),
)
def test_any_history_fits_its_budget_or_is_the_newest_words_and_the_newest_round(
    messages: list[Message], budget: int, fresh: int
) -> None:
    body = entries(*messages)
    made = show(body, budget, min(fresh, len(body)))
    shown = made.context
    assert shown.tokens == sum(map(message_tokens, shown.messages))
    assert shown.over_budget == (shown.tokens > budget)
    if shown.over_budget:
        users = [at for at, each in enumerate(body) if is_from_user(each)]
        calls = {part.call_id for each in made.kept for part in each.message.parts if isinstance(part, ToolCall)}
        newest = body[users[-1]] if users else body[-1]
        others = [each for each in made.kept if each.item != newest.item]
        assert sum(any(isinstance(part, ToolCall) for part in each.message.parts) for each in others) <= 1
        for each in others:
            results = {part.call_id for part in each.message.parts if isinstance(part, ToolResult)}
            asks = any(isinstance(part, (ToolCall, Opaque)) for part in each.message.parts)
            assert asks or results & calls
    kept = seqs(shown)
    assert kept == sorted(kept)
    told = ("tool result", "picture", "no call", "empty")  # still among the items
    gone = {int(left.id.removeprefix("msg#")) % 1000 for left in shown.left_out if left.reason not in told}
    assert sorted([*kept, *gone]) == list(range(1, len(body) + 1))
    assert show(body, budget, min(fresh, len(body))).context == shown
    assert pair_tool_calls(shown.messages, fresh=made.fresh) == shown.messages


@pytest.mark.parametrize("budget", [1, 50, 10_000])
def test_nothing_is_shown_of_nothing(budget: int) -> None:
    assert show([], budget).context == Context((), 0)
