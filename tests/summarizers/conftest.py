from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lossless.model import SummaryRequest
from lossless.summarizers import Summarizer
from lossless.summarizers.anthropic import Anthropic
from lossless.summarizers.openai import OpenAI
from tests.provider import Provider

KEY = "sk-test-1234567890"
Model = Callable[..., Summarizer]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as started:
        yield started


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ours, and nobody else's: neither the machine's keys nor its profiles and proxies."""
    for variable in [name for name in os.environ if name.startswith(("ANTHROPIC_", "OPENAI_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # Loopback needs no certificates, and to load them takes longer than most of these tests.
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


@pytest.fixture(params=["anthropic", "openai"])
def model(request: pytest.FixtureRequest, provider: Provider) -> Model:
    """A model of either provider: `model(timeout=0.3, named="claude-haiku-4-5")`."""

    def build(*, timeout: float = 10.0, named: str = "stand-in") -> Summarizer:
        if request.param == "anthropic":
            return Anthropic(named, provider.url, timeout)
        return OpenAI(named, "openai", provider.url, timeout)

    return build


def asking(
    prompt: str = "Summarise: Anna moved the launch to 3 May.", *, target_tokens: int = 1200, max_tokens: int = 1200
) -> SummaryRequest:
    return SummaryRequest("You write summaries.", prompt, "Anna moved the launch.", 0, target_tokens, max_tokens)
