"""Which summarisers are tried, and what each name stands for."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from lossless.config import Settings
from lossless.errors import InvalidInput, SummarizerAuth, SummarizerUnavailable
from lossless.events import Event
from lossless.model import SummaryRequest
from lossless.summarizers import Reply, Summarizer, build_chain, chain_names, resolve
from lossless.summarizers.anthropic import Anthropic
from lossless.summarizers.command import Command
from lossless.summarizers.openai import OpenAI
from tests.provider import SUMMARY, Provider
from tests.summarizers.conftest import asking

LOCAL = "http://127.0.0.1:11434/v1"
ORDERS: list[tuple[dict[str, Any], str | None, list[str]]] = [
    ({}, None, ["extractive"]),
    ({"summary_provider": "anthropic"}, None, ["extractive"]),
    ({"summary_model": "anthropic/claude-haiku-4-5"}, None, ["anthropic/claude-haiku-4-5"]),
    ({"summary_model": "claude-haiku-4-5", "summary_provider": "anthropic"}, None, ["anthropic/claude-haiku-4-5"]),
    ({"summary_model": "openai/gpt-5-mini", "summary_provider": "anthropic"}, None, ["openai/gpt-5-mini"]),
    ({"summary_model": "gpt-5-mini"}, None, ["gpt-5-mini"]),
    ({"summary_model": "gpt-5-mini"}, "openai/gpt-5", ["openai/gpt-5-mini", "openai/gpt-5"]),
    ({"summary_model": "x", "summary_provider": "a"}, "b/y", ["a/x", "b/y"]),
    ({}, "anthropic/claude-opus-5", ["anthropic/claude-opus-5"]),
    ({"fallback_providers": ["a/x", "b/y"]}, None, ["a/x", "b/y"]),
    ({"summary_model": "a/x", "fallback_providers": ["b/y", "a/x", "c/z", "b/y"]}, "h/m", ["a/x", "h/m", "b/y", "c/z"]),
    ({"summary_model": "a/x"}, "A/x", ["a/x"]),
    ({"summary_model": "a/org/x"}, None, ["a/org/x"]),
    ({"summary_model": "extractive", "summary_provider": "a"}, None, ["extractive"]),
    ({"summary_model": "command:llm -m x/y", "summary_provider": "a"}, None, ["command:llm -m x/y"]),
]


@pytest.mark.parametrize(("settings", "host_model", "names"), ORDERS)
def test_the_order_in_which_summarisers_are_tried(
    settings: dict[str, Any], host_model: str | None, names: list[str]
) -> None:
    assert chain_names(Settings(**settings), host_model) == names


NAMES: list[tuple[str, dict[str, Any], Summarizer]] = [
    ("anthropic/claude-haiku-4-5", {}, Anthropic("claude-haiku-4-5")),
    ("Anthropic/claude-haiku-4-5", {"summary_timeout_ms": 500}, Anthropic("claude-haiku-4-5", None, 0.5)),
    ("openai/gpt-5-mini", {}, OpenAI("gpt-5-mini")),
    ("ollama/qwen3:8b", {"summary_base_url": LOCAL}, OpenAI("qwen3:8b", "ollama", LOCAL)),
    ("router/org/model", {"summary_base_url": LOCAL}, OpenAI("org/model", "router", LOCAL)),
    ("gpt-5-mini", {"summary_provider": "openai"}, OpenAI("gpt-5-mini")),
    ("command:llm -m 'a b'", {}, Command(("llm", "-m", "a b"))),
    # The address is the summary model's, so that nobody else's key goes there.
    ("anthropic/x", {"summary_base_url": LOCAL, "summary_model": "ollama/q"}, Anthropic("x")),
    ("anthropic/x", {"summary_base_url": LOCAL, "summary_model": "anthropic/y"}, Anthropic("x", LOCAL)),
    ("ollama/x", {"summary_base_url": LOCAL, "summary_model": "ollama/y"}, OpenAI("x", "ollama", LOCAL)),
    ("openai/x", {"summary_base_url": LOCAL, "summary_model": "extractive"}, OpenAI("x", "openai", LOCAL)),
]


@pytest.mark.parametrize(("name", "settings", "meant"), NAMES)
def test_a_name_and_what_it_stands_for(name: str, settings: dict[str, Any], meant: Summarizer) -> None:
    assert resolve(name, Settings(**settings)) == meant


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("claude-haiku-4-5", {}, "anthropic/claude-haiku-4-5"),
        ("gpt-5-mini", {}, "openai/gpt-5-mini"),
        ("o4-mini", {}, "openai/o4-mini"),
        ("qwen3", {"summary_base_url": LOCAL}, "openai/qwen3"),
    ],
)
def test_a_bare_model_is_tried_with_a_warning(name: str, settings: dict[str, Any], told: str) -> None:
    events: list[Event] = []
    assert resolve(name, Settings(**settings), on_event=events.append).name == told
    assert [(event.level, told in event.message) for event in events] == [("warning", True)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("qwen3", "is not a summarizer"),
        ("", "is not a summarizer"),
        ("anthropic/", "provider/model"),
        ("/model", "provider/model"),
        ("ollama/qwen3", "Set summary_base_url"),
        ("command:", "names no program"),
        ("command:llm 'x", "No closing quotation"),
    ],
)
def test_a_name_that_means_nothing_is_refused(name: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        resolve(name, Settings())


@pytest.mark.parametrize("package", ["anthropic", "openai"])
def test_a_missing_sdk_is_told_with_its_cure(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInput, match=rf"pip install 'lossless\[{package}\]'"):
        resolve(f"{package}/model", Settings())


def test_no_sdk_is_imported_before_its_first_use() -> None:
    code = (
        "import sys; from lossless.summarizers import resolve; from lossless.config import Settings;"
        "resolve('anthropic/x', Settings()); resolve('openai/x', Settings());"
        "print([m for m in ('anthropic', 'openai', 'httpx2', 'pydantic') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_function_is_a_summariser() -> None:
    def mine(request: SummaryRequest) -> str:
        return f"<think>hm</think>{request.source}"

    reply = resolve(mine, Settings()).ask(asking())
    assert reply == Reply("Anna moved the launch.", mine.__qualname__)


def test_a_function_may_name_its_model_or_give_a_whole_response() -> None:
    named = resolve(lambda _: Reply("done", "mine/v2"), Settings())
    assert named.ask(asking()) == Reply("done", "mine/v2")
    whole = resolve(lambda _: {"choices": [{"message": {"content": "done"}}]}, Settings())
    assert whole.ask(asking()).text == "done"
    assert resolve(named, Settings()) is named


def test_a_function_that_fails_is_a_summariser_that_fails() -> None:
    class Refused(Exception):
        status_code = 401

    def fails(error: Exception) -> Summarizer:
        def function(_: SummaryRequest) -> str:
            raise error

        return resolve(function, Settings())

    with pytest.raises(SummarizerAuth):
        fails(Refused()).ask(asking())
    for error in (OSError("secret"), SummarizerUnavailable("down")):
        with pytest.raises(SummarizerUnavailable) as raised:
            fails(error).ask(asking())
        assert "secret" not in str(raised.value)


def test_without_a_model_the_sources_are_cut_down() -> None:
    reply = build_chain(Settings()).ask(asking())
    assert reply.model == "extractive"
    assert reply.text


def test_settings_make_a_chain_that_answers(provider: Provider) -> None:
    settings = Settings(
        summary_model="local/one", summary_base_url=provider.url, fallback_providers=("local/two", "local/three")
    )
    provider.script("500", "empty", "empty", "ok")
    assert build_chain(settings).ask(asking()) == Reply(SUMMARY, "local/three-2026-01-01")
    assert [call.body["model"] for call in provider.requests] == ["one", "two", "two", "three"]


def test_the_host_s_model_never_gets_the_summary_model_s_address() -> None:
    (candidate,) = build_chain(Settings(summary_base_url=LOCAL), "anthropic/claude-opus-5").candidates
    assert candidate == Anthropic("claude-opus-5")
    first, second = build_chain(Settings(summary_base_url=LOCAL, summary_model="q"), "ollama/x").candidates
    assert (first, second) == (OpenAI("q", "ollama", LOCAL), OpenAI("x", "ollama", LOCAL))


def test_a_host_s_model_out_of_reach_is_passed_over_a_configured_one_is_not() -> None:
    events: list[Event] = []
    made = build_chain(Settings(summary_model="openai/gpt-5-mini"), "copilot/some-model", on_event=events.append)
    assert made.name == "openai/gpt-5-mini"
    assert [event.name for event in events] == ["summarizer.host_model_skipped"]
    with pytest.raises(InvalidInput, match="Set summary_base_url"):
        build_chain(Settings(fallback_providers=("copilot/some-model",)), "copilot/some-model")
