"""Each provider has its own key and its own address, and neither goes anywhere else."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lossless import Lossless, Message, Settings
from lossless.config import collect
from lossless.errors import ConfigError, SummarizerAuth, SummarizerUnavailable
from lossless.events import Event
from lossless.summarizers import build_chain, resolve
from lossless.summarizers.credentials import _KEYS
from tests.conftest import KEY
from tests.provider import SUMMARY, Play, Provider
from tests.summarizers.conftest import asking

OTHER = "sk-other-0987654321"


def described(providers: Any, **others: Any) -> Settings:
    """Settings with these tables of providers, as a file has them."""
    return Settings(providers=providers, **others)


@pytest.fixture
def second() -> Iterator[Provider]:
    with Provider() as started:
        yield started


def sent(provider: Provider) -> list[dict[str, str]]:
    """The headers of each request that could hold a secret."""
    plain = ("accept", "connection", "content", "host", "user-agent", "x-stainless", "anthropic-version")
    return [
        {name.lower(): value for name, value in call.headers.items() if not name.lower().startswith(plain)}
        for call in provider.requests
    ]


def test_the_key_of_openai_is_not_sent_to_openrouter(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", OTHER)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: secret")
    settings = Settings(summary_model="openrouter/org/model", summary_base_url=provider.url)
    assert build_chain(settings).ask(asking()).text == SUMMARY
    assert sent(provider) == [{"authorization": f"Bearer {OTHER}"}]


@pytest.mark.parametrize("name", ["ollama", "gateway"])
def test_a_server_without_a_key_of_its_own_gets_nobody_else_s(provider: Provider, name: str) -> None:
    assert resolve(f"{name}/m", Settings(summary_base_url=provider.url)).ask(asking()).text == SUMMARY
    assert sent(provider) == [{}]


def test_a_server_that_speaks_messages_gets_no_token_of_anthropic_s(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-ant-oat-secret")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Gateway: secret")
    settings = described({"mine": {"base_url": provider.url, "api": "anthropic"}})
    assert resolve("mine/m", settings).ask(asking()).model == "mine/m-2026-01-01"
    assert sent(provider) == [{}]


def test_several_providers_at_once_each_with_its_own_key(
    provider: Provider, second: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_ONE", "one")
    settings = described(
        {
            "first": {"base_url": provider.url, "api_key_env": "KEY_ONE", "headers": {"X-Team": "a"}},
            "second": {"base_url": second.url, "api": "anthropic", "api_key_cmd": "printf ' two\\n'"},
        },
        summary_model="first/m",
        fallback_providers=("second/m",),
    )
    provider.script("500")
    assert build_chain(settings).ask(asking()).model == "second/m-2026-01-01"
    assert sent(provider) == [{"authorization": "Bearer one", "x-team": "a"}]
    assert sent(second) == [{"x-api-key": "two"}]


def test_openai_s_address_in_a_variable_is_for_the_key_in_its_variable_only(
    provider: Provider, second: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    resolve("openai/m", Settings()).ask(asking())
    assert sent(provider) == [{"authorization": f"Bearer {KEY}"}]
    monkeypatch.setenv("MINE", OTHER)
    own = resolve("openai/m", described({"openai": {"api_key_env": "MINE"}}))
    assert own.access.address == "https://api.openai.com/v1"  # type: ignore[attr-defined]  # a hosted one has it
    router = resolve("openrouter/m", Settings())
    assert router.access.address == "https://openrouter.ai/api/v1"  # type: ignore[attr-defined]  # a hosted one has it


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_redirect_to_another_server_carries_no_key_there(provider: Provider, second: Provider, kind: str) -> None:
    provider.script(Play(status=307, headers={"Location": f"{second.url}/v1/chat/completions"}))
    settings = Settings(summary_model=f"{kind}/m", summary_base_url=provider.url)
    with pytest.raises(SummarizerUnavailable, match="base_url to its final address"):
        build_chain(settings).ask(asking())
    assert (provider.calls, second.calls) == (1, 0)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("false --token sk-hidden", "ended with status 1"),
        ("true", "printed no key"),
        ("printf 'two words'", "printed no key"),
        ("/nowhere/at-all sk-hidden", "cannot be run"),
        ("'", "cannot be run"),
        (f"{shlex.quote(sys.executable)} -c 'import sys; sys.exit(\"sk-hidden\")'", "ended with status 1"),
    ],
)
def test_a_command_that_gives_no_key_is_named_and_nothing_of_it_is_shown(
    provider: Provider, command: str, why: str
) -> None:
    settings = described({"p": {"base_url": provider.url, "api_key_cmd": command}})
    with pytest.raises(SummarizerAuth, match=why) as raised:
        resolve("p/m", settings).ask(asking())
    assert raised.value.missing
    assert "sk-hidden" not in str(raised.value)
    assert provider.calls == 0


def test_a_command_is_asked_again_once_its_key_was_refused(provider: Provider, tmp_path: Path) -> None:
    _KEYS.clear()
    count = tmp_path / "count"
    script = tmp_path / "key.sh"
    script.write_text(f"echo x >> {count}\nprintf key-$(wc -l < {count} | tr -d ' ')\n")
    settings = described({"p": {"base_url": provider.url, "api_key_cmd": f"sh {script}"}})
    model = resolve("p/m", settings)
    provider.script("ok", "401", "ok")
    model.ask(asking())
    with pytest.raises(SummarizerAuth) as raised:
        model.ask(asking())
    assert not raised.value.missing
    model.ask(asking())
    assert [each["authorization"] for each in sent(provider)] == ["Bearer key-1", "Bearer key-1", "Bearer key-2"]


PROFILES: dict[str, Any] = {
    "version": 1,
    "profiles": {
        "anthropic:old": {"type": "token", "provider": "anthropic", "token": "expired", "expires": 1},
        "anthropic:me": {"type": "oauth", "provider": "anthropic", "access": "a", "refresh": "r", "expires": 1},
        "anthropic:key": {"type": "api_key", "provider": "anthropic", "key": "from-profile"},
        "anthropic:first": {"type": "token", "provider": "anthropic", "token": "a-token"},
        "openai:key": {"type": "api_key", "provider": "openai", "key": "not-this"},
    },
}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ({}, {"x-api-key": "from-profile"}),
        (
            {"order": {"anthropic": ["anthropic:first"]}},
            {"authorization": "Bearer a-token", "anthropic-beta": "oauth-2025-04-20"},
        ),
    ],
)
def test_openclaw_s_profiles_serve_when_they_are_named(
    provider: Provider, tmp_path: Path, order: dict[str, Any], expected: dict[str, str]
) -> None:
    file = tmp_path / "auth-profiles.json"
    file.write_text(json.dumps(PROFILES | order))
    table = {"base_url": provider.url, "api_key_openclaw": str(file)}
    resolve("anthropic/m", described({"anthropic": table})).ask(asking())
    assert sent(provider) == [expected]


def test_openclaw_s_models_give_the_address_with_the_key(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"providers": {"mine": {"baseUrl": provider.url, "apiKey": "from-models"}}}))
    settings = described({"mine": {"api_key_openclaw": str(file)}})
    assert resolve("mine/m", settings).ask(asking()).text == SUMMARY
    assert sent(provider) == [{"authorization": "Bearer from-models"}]
    with pytest.raises(SummarizerAuth, match="cannot be read"):
        resolve("mine/m", described({"mine": {"api_key_openclaw": str(tmp_path / "none")}})).ask(asking())


def test_a_header_the_server_repeats_is_not_told_on(provider: Provider) -> None:
    settings = described({"p": {"base_url": provider.url, "headers": {"X-Gateway-Key": "gw-secret"}}})
    provider.script(Play(status=400, text="gw-secret may not use this model"))
    with pytest.raises(SummarizerUnavailable, match=r"\*\*\* may not use this model") as raised:
        resolve("p/m", settings).ask(asking())
    assert "gw-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            {"p": {"api_key": "sk-1"}},
            "providers.p.api_key is not part of a provider: a key does not belong in a file.",
        ),
        ({"p": {"api_key_evn": "X"}}, "Did you mean api_key_env?"),
        ({"p": {"base_url": "ftp://x"}}, 'providers.p.base_url: "ftp://x" is not an http or https address.'),
        ({"p": {"api_key_env": "A", "api_key_cmd": "b"}}, "api_key_env and api_key_cmd exclude one another"),
        ({"p": {"headers": {"X": "a\nb"}}}, "'X' is not a header with a printable text"),
        ({"P Q": {}}, "is not the name of a provider"),
        ({"p": 1}, "providers.p is not a table."),
    ],
)
def test_a_mistake_in_a_table_is_named_by_its_place(table: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        described(table)
    assert told in str(raised.value)
    assert "sk-1" not in str(raised.value)


def test_a_table_in_lcm_toml_is_read_and_its_headers_are_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "lcm.toml"
    file.write_text('[providers.router]\nbase_url = "http://127.0.0.1:1/v1"\nheaders = { X-Key = "hush" }\n')
    loaded = collect(file=file, environment={})
    assert loaded.settings.provider("router") is not None
    assert loaded.problems == ()
    assert "hush" not in repr(loaded.settings)
    assert "hush" not in repr(loaded.sources["providers"])


def test_a_missing_key_is_reported_at_open_with_its_variable_and_the_setting(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    events: list[Event] = []
    settings = Settings(fresh_tail_count=1, leaf_chunk_tokens=300)
    with Lossless.open(database, settings=settings, summarizer="openai/gpt-5-mini", on_event=events.append) as lcm:
        (told,) = (event for event in events if event.name.startswith("summarizer."))
        assert (told.name, told.level) == ("summarizer.no_key", "warning")
        assert "OPENAI_API_KEY" in told.message
        assert "[providers.openai]" in told.message
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"turn {n} " + "with some words in it " * 12) for n in range(20)])
        done = chat.compact(500)
        assert (done.without_model, len(done.summaries) > 0) == ("auth", True)
        shown = lcm.status()
        assert shown.verdict == "degraded"
        assert any("OPENAI_API_KEY is not set" in reason.text for reason in shown.reasons)
        assert shown.calls.today == 0
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Lossless.open(database, settings=settings, summarizer="openai/gpt-5-mini") as lcm:
        assert not any("OPENAI_API_KEY" in reason.text for reason in lcm.status().reasons)


def test_a_model_out_of_reach_is_reported_at_open_and_leaves_no_hole_in_the_background(database: str) -> None:
    events: list[Event] = []
    settings = Settings(summary_model="nobody/m", fresh_tail_count=1, leaf_chunk_tokens=300)
    with Lossless.open(database, settings=settings, on_event=events.append) as lcm:
        assert [event.name for event in events if event.name.startswith("summarizer.")] == ["summarizer.unusable"]
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # drained here
        chat = lcm.conversation("k")
        chat.after_turn([Message.user(f"turn {n} " + "with some words in it " * 12) for n in range(20)], 500)
        lcm.drain()
        assert {summary.level for summary in chat.summaries()} == {"extractive"}
