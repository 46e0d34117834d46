"""The words of a reply, without the thinking."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.summarizers.reply_text import extract, summary_of, well_formed, without_reasoning

REPLIES: list[tuple[str, Any, str]] = [
    ("a text", "done", "done"),
    ("nothing", None, ""),
    ("a number", 7, ""),
    ("Anthropic", {"content": [{"type": "text", "text": "done"}]}, "done"),
    ("thinking block", {"content": [{"type": "thinking", "thinking": "hm", "text": "hm"}]}, ""),
    ("redacted thinking", {"content": [{"type": "redacted_thinking", "text": "hm"}, {"text": "done"}]}, "done"),
    ("chat", {"choices": [{"message": {"content": "done", "reasoning_content": "hm", "reasoning": "hm"}}]}, "done"),
    ("chat in parts", {"choices": [{"message": {"content": [{"type": "text", "text": "done"}]}}]}, "done"),
    ("chat delta", {"choices": [{"delta": {"content": "done"}}]}, "done"),
    ("a refusal", {"choices": [{"message": {"content": None, "refusal": "I will not"}}]}, ""),
    (
        "responses",
        {
            "reasoning": {"effort": "high", "summary": "hm"},
            "text": {"format": {"type": "text"}},
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "message", "content": [{"type": "output_text", "text": "done"}]},
            ],
        },
        "done",
    ),
    ("twice the same", {"output_text": "done", "output": [{"content": [{"text": "done "}]}]}, "done"),
    ("two blocks", {"content": [{"text": "one"}, {"text": "two"}]}, "one\ntwo"),
    ("Gemini", {"content": [{"text": "hm", "thought": True}, {"text": "done"}]}, "done"),
    ("Ollama", {"message": {"content": "done", "thinking": "hm"}}, "done"),
    ("envelope", {"response": "done"}, "done"),
    ("an object", SimpleNamespace(content=[SimpleNamespace(type="text", text="done")]), "done"),
    ("an object that thinks", SimpleNamespace(content=[SimpleNamespace(type="Thinking", text="hm")]), ""),
    ("other keys", {"id": "x", "usage": {"text": 3}, "instructions": "hm"}, ""),
]


@pytest.mark.parametrize(("reply", "words"), [row[1:] for row in REPLIES], ids=[row[0] for row in REPLIES])
def test_the_words_of_a_reply(reply: Any, words: str) -> None:
    assert extract(reply).strip() == words


def test_a_bottomless_reply_ends() -> None:
    nested: dict[str, Any] = {"text": "deep"}
    for _ in range(10_000):
        nested = {"content": nested}
    assert extract(nested) == ""


STRIPPED = [
    ("<think>hm</think>done", "done"),
    ("<think>\nhm\n</think>\n\ndone", "done"),
    ("  <THINKING>hm</THINKING>\ndone", "done"),
    ("<reasoning>hm</reasoning>done", "done"),
    ("<think>a</think> <think>b</think>done", "done"),
    ('<think time="3s">hm</think>done', "done"),
    ("<think></think>done", "done"),
    ("first\n<think>\nhm\n</think>\nthen", "first\n\nthen"),
    ("first\n<think>hm</think>\nthen", "first\n\nthen"),
    ("<think>hm", ""),
    ("first\n<think>\nhm, and the limit", "first"),
    ("first\n<think>Hm, and the limit", "first"),
    ("<|think|>hm<|/think|>done", "done"),
    ("<|think|>hm", ""),
    ("[thinking]hm[/thinking]done", "done"),
    ("[THINK]hm[/THINK]done", "done"),
    ("first\n[thinking]\nhm", "first"),
    ("Thinking Process:\n1. hm", ""),
    ("**Thinking Process:**\n1. hm", ""),
    ("## Thinking process:\nhm\n</think>\ndone", "done"),
    ("Chain of thought: hm", ""),
    ("first\nThinking Process:\nhm", "first"),
    ("hm, the prompt opened the tag\n</think>\n\ndone", "done"),
    ("<think>\nI strip </think> tags\n</think>\ndone", "done"),
    ("<think>\nI strip <think> tags\n</think>\ndone", "done"),
]
KEPT = [
    "done",
    "",
    "The parser now removes <think> tags.",
    "The parser removes <think> and </think>, also <reasoning>.",
    "Decided:\n- `<think>` blocks are removed\n- </think> ends one",
    "Decided:\n<think> tags are removed",
    "Decided:\n<think>...</think> blocks are removed",
    "They discussed the thinking process: slow.",
    "Decided:\nThinking process: slow",
    "Decided:\n[thinking] mode is on",
    "<thinker>hm</thinker>",
    "a < think > b",
    "<thing>x</thing>",
]


@pytest.mark.parametrize(("text", "left"), STRIPPED)
def test_thinking_is_left_out(text: str, left: str) -> None:
    assert without_reasoning(text) == left


@pytest.mark.parametrize("text", KEPT)
def test_who_writes_about_tags_keeps_them(text: str) -> None:
    assert without_reasoning(text) == text


@given(st.lists(st.sampled_from(["<think>", "</think>", "word", " ", "\n", "[thinking]", "Thinking Process:"])))
def test_what_is_left_was_there_and_stays(pieces: list[str]) -> None:
    text = "".join(pieces)
    left = without_reasoning(text)
    assert all(line in text for line in left.splitlines())
    assert len(without_reasoning(left)) <= len(left)


@given(st.text(alphabet="abc \n", max_size=40), st.text(alphabet="abc \n", max_size=40))
def test_a_leading_block_never_comes_through(secret: str, words: str) -> None:
    assert without_reasoning(f"<think>SECRET{secret}</think>{words}") == words.strip()


@pytest.mark.parametrize(
    "unit",
    [
        "<think>",
        "</think>",
        "\n</think>\n",
        "x <think> ",
        "<think> a\n",
        "a\n<think>\nb\n</think>\n",
        "<think>x</think> b\n",
        "<think ",
        "#",
        " ",
        "\n ",
        "[thinking] ",
        "thinking process:",
    ],
)
def test_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    def cost(size: int) -> float:
        text = unit * (size // len(unit))
        spent = []
        for _ in range(3):  # the least of three: other work on the machine only adds
            began = time.process_time()
            without_reasoning(text)
            spent.append(time.process_time() - began)
        return min(spent)

    # Sixteen times the text; quadratic would be 256 times the cost.
    assert cost(400_000) < 64 * max(cost(25_000), 0.003)


def test_what_no_text_column_takes_is_replaced() -> None:
    assert well_formed("a\0b\ud83dc😀") == "a\ufffdb\ufffdc😀"
    assert summary_of({"content": "<think>\ud83d</think>\ud83d"}) == "\ufffd"
