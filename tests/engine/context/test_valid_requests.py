"""Whatever a history holds, the request made of it is taken by every provider: hostile histories, invented by the thousand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import anthropic as claude
import openai as gpt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lossless.engine.context.fit_budget import ViewEntry, assemble
from lossless.engine.context.tool_pairing import pair_tool_calls
from lossless.formats import anthropic, openai_chat, openai_responses, openclaw
from lossless.model import Context, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.tokens import message_tokens
from tests.engine.context.test_fit_budget import entry
from tests.provider import Provider
from tests.validators import violations

FORMATS: dict[str, Any] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "openclaw": openclaw,
}
_SUMMARY = Message.user('<summary id="sum_0123456789abcdef">what was said before</summary>')
SUMMARY = ViewEntry(None, _SUMMARY, message_tokens(_SUMMARY), (1, 1), 1)
IDS = ["1", "2", "3", "call_1|fc_1", "functions.bash:0", "x" * 70, "", " ", "é\ud800"]
NAMES = ["run", "fs.read", "", "n" * 80, "mcp__server__tool"]
WORDS = ["yes", "", " \n", "trailing \n", "half \ud83d", "数据库", "<summary>", "a\0b"]
STOPS = [None, None, None, "end_turn", "tool_use", "stop", "aborted", "error", "refusal", "completed", "length"]
ROLES = ["user", "user", "assistant", "assistant", "tool", "system", "developer", "narrator", "branchSummary"]
FILES = [
    File("image/png", data="iVBO"),
    File("image/svg+xml", data="PHN2"),
    File("application/pdf", "a.pdf", "JVBE"),
    File("text/csv", "a.csv", "YSxi"),
    File("audio/wav", data="UklG"),
    File("audio/ogg", data="T2dn"),
    File(url="https://example.org/cat"),
    File(url="data:text/plain,hi"),
    File(data="AAAA"),
    File(),
]
ARGUMENTS = ["{}", '{"a": 1}', "", '{"a":', "[1]", "ls -l", '{"a": NaN}', '{"half": "\\ud83d"}']
THOUGHTS = [
    Reasoning("hm", "claude-sig", {"anthropic": {}}),
    Reasoning("hm", None, {"anthropic": {}}),
    Reasoning(extra={"anthropic": {"$type": "redacted_thinking", "data": "Em"}}),
    Reasoning("hm", None, {"openai_chat": {"$field": "reasoning_content"}}),
    Reasoning("hm", "pi-sig", {"openclaw": {}}),
    Reasoning("hm", "gpt-sig", {"openai_responses": {"summary": []}}),
    Reasoning("hm", "gpt-sig", {"openai_responses": {"id": "rs_old", "summary": []}}),
    Reasoning("hm", "gpt-sig"),
]
SEARCH: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "bees"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
OPAQUES: list[tuple[Part, ...]] = [
    (Opaque("patch", {"type": "patch"}),),
    (Opaque("unknown", 5, {"openai_chat": {}}),),
    tuple(Opaque(block["type"], block, {"anthropic": {}}) for block in SEARCH),
    (Opaque("computer_call", {"type": "computer_call", "id": "cu", "call_id": "2"}, {"openai_responses": {}}),),
    (Opaque("function", {"id": "odd"}, {"openai_chat": {"$field": "tool_calls"}}),),
]
BASH = openclaw.load({"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0})
GO_ON = Message.user("Go on.")


class Histories:
    """Invents histories: turns as hosts store them, then spoilt as hosts and crashes spoil them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def some(self, pool: Sequence[Any], most: int) -> list[Any]:
        return [self.random.choice(pool) for _ in range(self.random.randint(0, most))]

    def id(self) -> str:
        self.count += 1
        return f"call_{self.count}" if self.often(0.5) else str(self.random.choice(IDS))

    def call(self) -> ToolCall:
        return ToolCall(self.id(), self.random.choice(NAMES), self.random.choice(ARGUMENTS))

    def result(self, call_id: str) -> ToolResult:
        parts: list[Text | File | Opaque] = [Text(self.random.choice(WORDS)), self.random.choice(FILES)]
        parts.append(Opaque("x", {"type": "x"}))
        held = tuple(self.random.sample(parts, self.random.randint(0, 2)))
        return ToolResult(call_id, held, self.random.choice(["run", None]), self.often(0.2))

    def answer(self) -> Message:
        """An assistant's turn, or what OpenAI's responses API would call one."""
        stop = self.random.choice(STOPS)
        if self.often(0.3):
            return replace(self.response(), stop=stop)
        parts: list[Part] = [*self.some(THOUGHTS, 2), *map(Text, self.some(WORDS, 2))]
        parts += [self.call() for _ in range(self.random.randint(0, 3))]
        parts += [part for parts in self.some(OPAQUES, 1) for part in parts]
        if self.often(0.1):
            self.random.shuffle(parts)
        return Message("assistant", tuple(parts), stop=stop)

    def response(self) -> Message:
        self.count += 1
        rs = f"rs_{self.count if self.often(0.8) else 'again'}"
        output: list[dict[str, Any]] = [{"type": "reasoning", "id": rs, "summary": []}]
        if self.often(0.5):
            text = {"type": "output_text", "text": self.random.choice(WORDS), "annotations": []}
            output.append(
                {"type": "message", "id": f"msg_{self.count}_of_{rs}", "role": "assistant", "content": [text]}
            )
        for number in range(self.random.randint(0, 2)):
            kind, key = self.random.choice([("function_call", "arguments"), ("custom_tool_call", "input")])
            call = {"type": kind, "id": f"fc_{self.count}{number}_of_{rs}", "call_id": self.id() or "7"}
            output.append(call | {"name": "run", key: "{}"})
        return openai_responses.load({"object": "response", "output": output})

    def turn(self) -> list[Message]:
        said = [Message("user", (Text(self.random.choice(WORDS)), *self.some(FILES, 1)))]
        for _ in range(self.random.randint(0, 3)):
            answer = self.answer()
            ids = [part.call_id for part in answer.parts if isinstance(part, ToolCall)]
            ids += [
                part.data["call_id"]
                for part in answer.parts
                if isinstance(part, Opaque) and part.kind == "computer_call"
            ]
            said += [answer, *self.results([call_id for call_id in ids if self.often(0.9)])]
        return said

    def results(self, ids: list[str]) -> list[Message]:
        results = [self.result(call_id) for call_id in ids]
        if self.often(0.2):
            self.random.shuffle(results)
        match self.random.randint(0, 3):
            case 0 if results:
                return [Message("tool", tuple(results))]
            case 1 if results:
                return [Message("user", (*results, Text("and?")))]
            case _:
                return [Message("tool", (result,)) for result in results]

    def noise(self) -> Message:
        parts: list[Part] = [Text(self.random.choice(WORDS)), self.call(), self.result(self.id())]
        parts += [self.random.choice(FILES), self.random.choice(THOUGHTS), *self.random.choice(OPAQUES)]
        held = tuple(self.random.sample(parts, self.random.randint(0, 3)))
        return Message(self.random.choice(ROLES), held, stop=self.random.choice(STOPS))

    def history(self) -> list[Message]:
        said = [message for _ in range(self.random.randint(0, 4)) for message in self.turn()]
        for _ in range(self.random.randint(0, 3) if self.often(0.7) else 0):
            said.insert(self.random.randint(0, len(said)), BASH if self.often(0.1) else self.noise())
        for _ in range(self.random.randint(0, 3) if said and self.often(0.6) else 0):
            moved = self.random.choice(said) if self.often(0.3) else said.pop(self.random.randrange(len(said)))
            said.insert(self.random.randint(0, len(said)), moved)
        first, last = sorted(self.random.randint(0, len(said)) for _ in range(2))
        return said[first:last] if self.often(0.4) else said

    def view(self) -> tuple[list[Message], int]:
        """A history, and where its fresh tail starts."""
        said = self.history()
        return said, self.random.randint(0, len(said))


def faults(said: Sequence[Message], fresh: int) -> dict[str, Any]:
    """Everything that is wrong with what becomes of a history."""
    shown = pair_tool_calls(said, fresh=fresh)
    found: dict[str, Any] = {}
    for name, module in FORMATS.items():
        request = module.dump(shown)
        if wrong := violations(name, request):
            found[name] = (wrong, request)
        elif json.dumps(module.dump(module.load_request(request))) != json.dumps(request):
            found[name] = ("not the same when it is read and written again", request)
    again = pair_tool_calls(shown, fresh=fresh)
    if len(again) != len(shown) or any(new is not old for new, old in zip(again, shown, strict=True)):
        found["paired"] = ("not in order after the first time", shown, again)
    return found


SLOW = os.environ.get("LCM_TEST_PROFILE") == "slow"
THOUSANDS = range(10 if SLOW else 1)
"""Of invented histories; all ten in `make slow`."""


@pytest.mark.parametrize("thousand", THOUSANDS)
def test_any_history_becomes_a_request_every_provider_takes(thousand: int) -> None:
    for seed in range(thousand * 1000, thousand * 1000 + 1000):
        said, fresh = Histories(Random(seed)).view()
        assert not (found := faults(said, fresh)), (seed, found)


BUDGETS = (0.3, 0.7, 1.5)
"""As shares of what a history costs: most of it leaves, some of it, nothing."""


def assembled(seed: int, share: float) -> Context:
    """What is shown of an invented history under a budget, a summary before it as often as not."""
    random = Random(seed)
    said, fresh = Histories(random).view()
    body = [entry(message, seq) for seq, message in enumerate(said, 2)]
    if random.random() < 0.5:
        body, fresh = [SUMMARY, *body], fresh + 1
    budget = max(1, int(share * sum(each.tokens for each in body)))
    return assemble((), body, fresh=fresh, budget=budget).context


@pytest.mark.parametrize("thousand", THOUSANDS)
def test_under_any_budget_it_is_still_one(thousand: int) -> None:
    for seed in range(thousand * 1000, thousand * 1000 + 1000):
        before: Context | None = None
        for context in (assembled(seed, share) for share in BUDGETS):
            if before is not None and context.messages == before.messages:
                continue
            before = context
            for name, module in FORMATS.items():
                request = module.dump(context)
                assert not (wrong := violations(name, request)), (seed, name, wrong, request)


@given(st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_no_history_hypothesis_can_find_is_refused(random: Random) -> None:
    said, fresh = Histories(random).view()
    assert not faults(said, fresh)


def test_the_histories_are_as_hostile_as_they_should_be() -> None:
    """Most of them would be refused as they are."""
    refused = dict.fromkeys(FORMATS, 0)
    for seed in range(300):
        said = Histories(Random(seed)).history()
        for name, module in FORMATS.items():
            refused[name] += bool(violations(name, module.dump(said)))
    assert all(count > 100 for count in refused.values()), refused


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    # Loopback needs no certificates, and to load them takes long.
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with Provider() as started:
        yield started


def test_the_official_sdks_send_them_and_none_is_refused(provider: Provider) -> None:
    with (
        claude.Anthropic(api_key="sk-test", base_url=provider.url, max_retries=0) as messages,
        gpt.OpenAI(api_key="sk-test", base_url=provider.url, max_retries=0) as completions,
    ):
        for seed in range(seeds := 300 if SLOW else 100):
            said, fresh = Histories(Random(seed)).view()
            shown = pair_tool_calls([*said, GO_ON], fresh=fresh)
            messages.messages.create(model="m", max_tokens=10, **anthropic.dump(shown))
            completions.chat.completions.create(model="m", **openai_chat.dump(shown))
            completions.responses.create(model="m", **openai_responses.dump(shown))
    assert provider.calls == 3 * seeds
