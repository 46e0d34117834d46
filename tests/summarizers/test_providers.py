"""What a provider may do to us, and what comes of it: each behaviour, on both SDKs, with its calls counted."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from msgspec import structs

from lossless.errors import SummarizerAuth, SummarizerError, SummarizerUnavailable
from lossless.summarizers.anthropic import Anthropic
from lossless.summarizers.openai import OpenAI
from tests.conftest import KEY
from tests.provider import PLAYS, SUMMARY, Play, Provider
from tests.summarizers.conftest import Model, asking

HALF = "Anna moved the"


class Case(NamedTuple):
    script: tuple[str, ...]
    outcome: str | type[SummarizerError]
    calls: int
    retry_after: float | None = None


CASES = [
    Case(("ok",), SUMMARY, 1),
    Case(("empty",), "", 2),
    Case(("blank", "ok"), SUMMARY, 2),
    Case(("echo",), asking().prompt, 1),
    Case(("only reasoning",), "", 2),
    Case(("only reasoning", "ok"), SUMMARY, 2),
    Case(("reasoning and text",), SUMMARY, 1),
    Case(("only tagged reasoning",), "", 2),
    Case(("tagged reasoning and text",), SUMMARY, 1),
    Case(("12,000 tokens",), ("word " * 12_000).strip(), 1),
    Case(("invalid UTF-8",), SummarizerUnavailable, 1),
    Case(("lone surrogate",), "half \ufffd, NUL \ufffd", 1),
    Case(("another language",), PLAYS["another language"].text, 1),
    Case(("hostile instructions",), PLAYS["hostile instructions"].text, 1),
    Case(("talks about 401",), PLAYS["talks about 401"].text, 1),
    Case(("cut in the middle",), SummarizerUnavailable, 1),
    Case(("web page",), SummarizerUnavailable, 1),
    Case(("not JSON",), SummarizerUnavailable, 1),
    Case(("error in a success",), SummarizerUnavailable, 1),
    Case(("401 in a success",), SummarizerAuth, 1),
    Case(("refusal",), SummarizerUnavailable, 1),
    Case(("400",), SummarizerUnavailable, 1),
    Case(("401",), SummarizerAuth, 1),
    Case(("403",), SummarizerAuth, 1),
    Case(("404",), SummarizerUnavailable, 1),
    Case(("429",), SummarizerUnavailable, 1, 7.0),
    Case(("429 in milliseconds",), SummarizerUnavailable, 1, 0.25),
    Case(("429 until a date",), SummarizerUnavailable, 1, 30.0),
    Case(("429 for decades",), SummarizerUnavailable, 1, 3600.0),
    Case(("429 until a far date",), SummarizerUnavailable, 1, 3600.0),
    Case(("429 until the past",), SummarizerUnavailable, 1, 0.0),
    Case(("429 for no number",), SummarizerUnavailable, 1),
    Case(("500", "ok"), SummarizerUnavailable, 1),
    Case(("503",), SummarizerUnavailable, 1, 1.5),
    Case(("529",), SummarizerUnavailable, 1),
    Case(("cut by the limit",), HALF, 2),
    Case(("cut by the limit", "ok"), SUMMARY, 2),
    Case(("cut by the limit", "empty"), HALF, 2),
    Case(("cut by the limit", "only reasoning"), HALF, 2),
    Case(("cut by the limit", "429"), HALF, 2),
    Case(("cut by the limit", "401"), HALF, 2),
    Case(("limit spent on reasoning", "ok"), SUMMARY, 2),
    Case(("empty", "500"), SummarizerUnavailable, 2),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: ", ".join(case.script))
def test_a_behaviour_and_what_it_leads_to(provider: Provider, model: Model, case: Case) -> None:
    provider.script(*case.script)
    if isinstance(case.outcome, str):
        assert model().ask(asking()).text == case.outcome
    else:
        with pytest.raises(case.outcome) as raised:
            model().ask(asking())
        assert type(raised.value) is case.outcome
        assert getattr(raised.value, "retry_after", None) == case.retry_after
        assert KEY not in str(raised.value)
    assert provider.calls == case.calls


@pytest.mark.parametrize("behaviour", ["hang", "drip"])
def test_a_provider_that_does_not_come_to_an_end_is_given_up(provider: Provider, model: Model, behaviour: str) -> None:
    provider.script(behaviour)
    with pytest.raises(SummarizerUnavailable, match="did not answer in time"):
        model(timeout=0.3).ask(asking())
    assert provider.calls == 1


def test_half_a_text_is_kept_when_the_second_call_hangs(provider: Provider, model: Model) -> None:
    provider.script("cut by the limit", "hang")
    assert model(timeout=0.3).ask(asking()).text == HALF
    assert provider.calls == 2


def test_a_server_that_is_not_there_is_unavailable(provider: Provider, model: Model) -> None:
    provider.close()
    with pytest.raises(SummarizerUnavailable, match="could not be reached"):
        model().ask(asking())


def test_the_model_that_really_answered_is_told(model: Model) -> None:
    assert model().ask(asking()).model in ("anthropic/stand-in-2026-01-01", "openai/stand-in-2026-01-01")


def test_a_request_is_the_prompt_and_nothing_else(provider: Provider, model: Model) -> None:
    model().ask(asking("What was decided?"))
    body = provider.requests[0].body
    said = str(body)
    assert "You write summaries." in said
    assert body["messages"][-1] == {"role": "user", "content": "What was decided?"}
    assert {"temperature", "top_p", "stream", "tools"}.isdisjoint(body)


def test_a_prompt_of_broken_characters_can_be_sent(provider: Provider, model: Model) -> None:
    provider.script("echo")
    assert model().ask(asking("half \ud83d of it")).text == "half \ufffd of it"


@pytest.mark.parametrize(
    ("named", "first", "second"),
    [
        ("claude-haiku-4-5", 1200, 2400),
        ("claude-opus-4-1-20250805", 1200, 2400),
        ("claude-haiku-5-5", 3248, 6496),
        ("gpt-4.1-mini", 1200, 2400),
        ("gpt-5-mini", 3248, 6496),
        ("qwen3:8b", 3248, 6496),
    ],
)
def test_a_model_that_may_think_has_room_for_it(
    provider: Provider, model: Model, named: str, first: int, second: int
) -> None:
    provider.script("cut by the limit")
    model(named=named).ask(asking())
    assert [call.limit for call in provider.requests] == [first, second]


def test_the_second_limit_is_at_least_the_target(provider: Provider, model: Model) -> None:
    provider.script("cut by the limit")
    model(named="claude-haiku-4-5").ask(asking(max_tokens=100, target_tokens=900))
    assert [call.limit for call in provider.requests] == [100, 900]


def test_a_model_that_spent_the_limit_on_thinking_gets_room_for_it(provider: Provider, model: Model) -> None:
    provider.script("limit spent on reasoning", "ok")
    assert model(named="gpt-4-that-thinks").ask(asking(max_tokens=200)).text == SUMMARY
    assert [call.limit for call in provider.requests] == [200, 1200 + 2048]


def test_an_empty_reply_is_asked_for_again_with_the_same_limit(provider: Provider, model: Model) -> None:
    provider.script("empty", "ok")
    model(named="gpt-4o").ask(asking())
    assert [call.limit for call in provider.requests] == [1200, 1200]


def test_the_next_request_after_a_failure_is_served(provider: Provider, model: Model) -> None:
    provider.script("500", "ok")
    with pytest.raises(SummarizerUnavailable, match="HTTP 500: scripted 500"):
        model().ask(asking())
    assert model().ask(asking()).text == SUMMARY


def test_a_key_that_the_server_repeats_is_not_told_on(provider: Provider, model: Model) -> None:
    provider.script(Play(status=400, text=f"the key {KEY} may not use this model"))
    with pytest.raises(SummarizerUnavailable, match=r"HTTP 400: the key \*\*\* may not use this model") as raised:
        model().ask(asking())
    assert KEY not in str(raised.value)
    assert KEY in str(provider.requests[0].headers)


def test_without_credentials_nothing_is_sent(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    for summarizer in (Anthropic("stand-in", provider.url), OpenAI("gpt-5-mini")):
        with pytest.raises(SummarizerAuth, match=r"Check (ANTHROPIC|OPENAI)_API_KEY"):
            summarizer.ask(asking())
    assert provider.calls == 0


def test_a_server_of_ones_own_needs_no_key(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    reply = OpenAI("qwen3", "ollama", provider.url).ask(asking())
    assert reply.model == "ollama/qwen3-2026-01-01"


@pytest.mark.parametrize(
    ("name", "named", "limits"),
    [
        ("openai", "gpt-5-mini", ["max_completion_tokens"]),
        ("openai", "llama3", ["max_completion_tokens"]),
        ("ollama", "llama3", ["max_tokens"]),
        ("gateway", "gpt-5-mini", ["max_tokens", "max_completion_tokens"]),
    ],
)
def test_the_limit_has_the_name_the_server_takes(provider: Provider, name: str, named: str, limits: list[str]) -> None:
    assert OpenAI(named, name, provider.url).ask(asking()).text == SUMMARY
    assert [key for call in provider.requests for key in call.body if key.startswith("max_")] == limits


def test_a_temperature_is_sent_if_there_is_one(provider: Provider, model: Model) -> None:
    warm = structs.replace(asking(), temperature=0.2)
    model().ask(warm)
    assert provider.requests[-1].body["temperature"] == 0.2


def test_a_model_that_takes_no_temperature_is_asked_without_it(provider: Provider) -> None:
    error = {"error": {"message": "Unsupported value", "param": "temperature", "type": "invalid_request_error"}}
    provider.script(Play(status=400, body=json.dumps(error).encode()), "ok")
    warm = structs.replace(asking(), temperature=0.2)
    assert OpenAI("gpt-5-mini", "openai", provider.url).ask(warm).text == SUMMARY
    assert ["temperature" in call.body for call in provider.requests] == [True, False]
