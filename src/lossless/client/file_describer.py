"""The model that describes large files, where one is set."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from lossless import summarizers
from lossless.config import Settings
from lossless.engine.shared.call_limits import Guards
from lossless.model import SummaryRequest

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless
    from lossless.engine.ingest.explore import Explore


def explorer(lcm: Lossless, key: str) -> Callable[[], Explore] | None:
    """Return a factory of explorers, one for each delivery, if the settings name a model for large prose.

    However many large texts it brings, a delivery waits for `summary_timeout_ms` in all.
    """
    settings = lcm.settings
    provider, model = settings.large_file_summary_provider, settings.large_file_summary_model
    if not (provider and model):
        return None
    from lossless.engine.ingest.explore.with_model import ModelExplorer
    from lossless.summarizers.anthropic import Anthropic
    from lossless.summarizers.openai import OpenAI

    name, within = f"{provider}/{model}", reach(lcm)

    def ask(request: SummaryRequest, seconds: float) -> str:
        bounded = structs.replace(within, summary_timeout_ms=max(1, int(seconds * 1000)))
        found = summarizers.resolve(name, bounded, on_event=lcm._on_event)
        if not isinstance(found, Anthropic | OpenAI):
            return found.ask(request).text
        # Not `ask`, which tries again for an empty or unfinished text: a delivery waits for this one.
        answer = found._send(request, request.max_tokens)
        return "" if answer.cut else answer.reply.text

    guards = Guards(lcm._store, settings, f"large-file:{key}", name, lcm._clock)
    patience = settings.summary_timeout_ms / 1000
    return lambda: ModelExplorer(name, ask, guards, settings, lcm._on_event, time.monotonic() + patience)


def reach(lcm: Lossless) -> Settings:
    """Return the settings for another model than that of the summaries."""
    writer = lcm.settings.summary_model or (lcm._models.name)
    # The address is that of the summary model; without one it is nobody's.
    return structs.replace(lcm.settings, **({"summary_model": writer} if writer else {"summary_base_url": None}))


def full_name(settings: Settings) -> str:
    """Return the expansion model with its provider."""
    model, provider = settings.expansion_model or "", settings.expansion_provider
    complete = "/" in model or model.startswith("command:") or model == "extractive"
    return model if complete or not provider else f"{provider}/{model}"
