"""A long conversation that every framework is led through, and what must hold after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lossless import Conversation, Lossless, Settings
from lossless.tokens import estimate
from tests.hosts.chosen import chosen
from tests.hosts.stored import calls, results
from tests.provider import Play, Provider, Use

WINDOW = 3_000
TURNS = 7
CALLS = 42
FACT = "The code of the harbour gate is 4711-blue."
LOOKUP = Use("call_recall", "lcm_grep", {"pattern": "harbour gate", "mode": "full_text"})


def needs(host: str, *modules: str) -> None:
    """Skip a test, or all of a module, if a framework is missing; fail in CI if LCM_TEST_HOSTS names it."""
    missing = [module for module in modules if find_spec(module) is None]
    if not missing:
        return
    reason = f"NO FRAMEWORK: {', '.join(missing)}; pip install -c constraints.txt -e '.[frameworks]'"
    if os.environ.get("CI") and chosen(Path(f"test_{host}.py")):
        raise LookupError(reason)
    pytest.skip(reason, allow_module_level=True)


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[Lossless]:
    """A database that compacts within the turn, so that a test need not wait for the background."""
    chosen = Settings(proactive_threshold_compaction_mode="inline", fresh_tail_count=6, **settings)
    with Lossless.open(folder / "lcm.db", summarizer="extractive", settings=chosen) as lcm:
        yield lcm


def look(number: int) -> str:
    """Look up a number."""
    return f"Result {number}: " + "word " * 60


def prompts() -> list[str]:
    first = [FACT + " Remember it."]
    return first + [f"Question {number}: " + "filler " * 80 for number in range(1, TURNS)]


def answer(number: int, *, reasoning: str = "") -> Play:
    return Play(f"Answer {number}: " + "sentence " * 80, reasoning=reasoning, used=0)


def loop_plays(*, reasoning: str = "") -> list[Play]:
    """A turn in which the model calls a tool again and again."""
    asked = [
        Play("", reasoning=reasoning, uses=(Use(f"call_{number}", "look", {"number": number}),), used=0)
        for number in range(CALLS)
    ]
    return [*asked, Play("I looked everything up.", used=0)]


def recall_plays() -> list[Play]:
    return [Play("", uses=(LOOKUP,), used=0), Play("It is 4711-blue.", used=0)]


def assert_stored_once(chat: Conversation) -> None:
    """Every message of the conversation is there, once, in the order in which it was said."""
    told = [(stored.role, stored.text.strip()) for stored in chat.messages()]
    expected = [
        pair
        for number, prompt in enumerate(prompts())
        for pair in (("user", prompt.strip()), ("assistant", answer(number).text.strip()))
    ]
    expected.append(("user", "Look everything up."))
    for number in range(CALLS):
        expected += [("assistant", ""), ("tool", look(number).strip())]
    expected += [("assistant", "I looked everything up."), ("user", "What is the code?"), ("assistant", "")]
    wrong = [pair for pair in zip(told, expected, strict=False) if pair[0] != pair[1]]
    assert not wrong, wrong[0]
    assert [role for role, _ in told[len(expected) :]] == ["tool", "assistant"]
    assert calls(chat) == [f"call_{number}" for number in range(CALLS)] + ["call_recall"]
    assert "4711-blue" in results(chat)["call_recall"]
    assert told[-1] == ("assistant", "It is 4711-blue.")


def assert_compacted(lcm: Lossless, chat: Conversation) -> None:
    """It was compacted more than once, nothing is wrong with it, and no message was taken back."""
    assert len(chat.summaries()) >= 2
    # S09: in a window as small as this one a summary may be longer than its few sources.
    findings = [(each.check, each.text) for each in lcm.doctor().findings if each.check != "S09"]
    assert findings == [], findings
    assert chat.detached() == ()


def assert_requests(provider: Provider) -> None:
    """What the model was shown: bounded, with summaries, without the old text, and the fact from the tool alone.

    That calls and results are paired is checked by the stand-in itself: it refuses a request in which they are not.
    """
    bodies = [call.body for call in provider.requests]
    assert len(bodies) == TURNS + CALLS + 1 + 2
    largest = max(estimate(words(json.loads(said(body)))) for body in bodies)
    assert largest <= WINDOW, largest
    for body in bodies[TURNS + 10 :]:
        assert '<summary id=\\"sum_' in said(body)
        assert "Question 1:" + " filler" * 80 not in said(body)
    assert "4711-blue" not in said(bodies[-2]).split("</summary>")[-1]
    assert "4711-blue" in said(bodies[-1])
    names = {tool.get("name") or tool["function"]["name"] for tool in bodies[-1]["tools"]}
    assert names == {"look", "lcm_grep", "lcm_describe", "lcm_expand_query"}
    assert "lcm_expand_query what needs several texts" in json.dumps(bodies[-1])


def said(body: dict[str, Any]) -> str:
    """The conversation in a request, without its instructions and tools."""
    messages: Sequence[dict[str, Any]] = body.get("messages") or body["input"]
    return json.dumps([each for each in messages if each.get("role") not in ("system", "developer")])


def words(value: Any) -> str:
    """Every text in a part of a request, without the keys, ids and types around it."""
    if isinstance(value, list):
        return "\n".join(map(words, value))
    if isinstance(value, dict):
        return "\n".join(words(inner) for key, inner in value.items() if key not in _AROUND)
    return value if isinstance(value, str) else ""


_AROUND = (
    "type",
    "role",
    "id",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "status",
    "name",
    "signature",
    "encrypted_content",
)


def reasoning_kept(body: dict[str, Any]) -> int:
    """How many encrypted thoughts stand directly before what they led to."""
    items: Sequence[dict[str, Any]] = body["input"]
    return sum(
        one.get("encrypted_content") == "c2ln" and other.get("type") == "function_call"
        for one, other in pairwise(items)
        if one.get("type") == "reasoning"
    )
