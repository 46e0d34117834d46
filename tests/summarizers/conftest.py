from __future__ import annotations

from collections.abc import Callable

import pytest

from lossless.model import SummaryRequest
from lossless.summarizers import Summarizer
from lossless.summarizers.anthropic import Anthropic
from lossless.summarizers.openai import OpenAI
from tests.provider import Provider

Model = Callable[..., Summarizer]


@pytest.fixture(autouse=True)
def _credentials(credentials: None) -> None:
    """Each of these tests speaks to the stand-in."""


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
