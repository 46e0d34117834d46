"""Summarizers: they take a request and return a text.

A summarizer is named `anthropic/MODEL`, `openai/MODEL`, `provider/model` (any server with the OpenAI chat completions
API, at its address in `[providers.NAME]` or `summary_base_url`), `command:PROGRAM ARGUMENTS` or `extractive`, or it is
a user's own function. No SDK is imported before its first use.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from importlib.util import find_spec
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

from msgspec import structs

from lossless.config.providers import KNOWN
from lossless.errors import InvalidInput
from lossless.events import Event, Hook, log
from lossless.summarizers.base import (
    AsyncSummarizer,
    CountedSummarizer,
    Function,
    FunctionSummarizer,
    Reply,
    Summarizer,
)
from lossless.summarizers.chain import Chain
from lossless.summarizers.credentials import Access

if TYPE_CHECKING:
    from lossless.config import Settings

__all__ = [
    "AsyncSummarizer",
    "Chain",
    "Function",
    "Reply",
    "Summarizer",
    "accesses",
    "build_chain",
    "chain_names",
    "resolve",
]


def resolve(name: str | Function | Summarizer, settings: Settings, *, on_event: Hook = log) -> Summarizer:
    """Return the summarizer of that name; raise `InvalidInput` for a wrong name or a missing SDK."""
    if not isinstance(name, str):
        if isinstance(name, Summarizer):
            return name if getattr(name, "counts", False) else CountedSummarizer(name)
        if is_async(name):
            raise InvalidInput("An async summarizer needs an event loop.", hint="Give it to AsyncLossless.open.")
        return FunctionSummarizer(name, function_name(name))
    if name == "extractive":
        from lossless.summarizers.extractive import summarize

        return FunctionSummarizer(summarize, name, plain=True)
    if name.startswith("command:"):
        from lossless.summarizers.command import Command

        return Command.parse(name.removeprefix("command:"), settings.summary_timeout_ms / 1000)
    named = _complete(name, settings.summary_provider)
    if not _is_complete(named):
        named = f"{_guess(named, settings)}/{named}"
        message = f"{name} names no provider; {named} is tried. Write the summary model as provider/model."
        on_event(Event("summarizer.provider_guessed", message, "warning"))
    return _hosted(named, settings)


def is_async(function: object) -> bool:
    """Return whether a function or callable object is async."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - the kind of the method matters, not whether it exists


def function_name(function: object) -> str:
    """Return the name of a user's own summarizer."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def chain_names(settings: Settings, host_model: str | None = None) -> list[str]:
    """Return the names of the summarizers to try: the summary model, the host's own model, the fallbacks.

    A summary model without a provider takes the host's. If nothing is configured, it is `extractive`.
    """
    names = [host_model or "", *settings.fallback_providers]
    if settings.summary_model:
        hosts = host_model.partition("/")[0] if host_model and _is_complete(host_model) else None
        names.insert(0, _complete(settings.summary_model, settings.summary_provider or hosts))
    return list(dict.fromkeys(_tidy(name) for name in names if name.strip())) or ["extractive"]


def build_chain(
    settings: Settings,
    host_model: str | None = None,
    *,
    on_event: Hook = log,
    clock: Callable[[], float] = time.time,
) -> Chain:
    """Return the configured chain of summarizers. A host's model that is not reachable is skipped with an event."""
    candidates: list[Summarizer] = []
    names, required = chain_names(settings, host_model), chain_names(settings)
    # The address belongs to the summary model; without one it is not used, in particular not for the host's model.
    of_summary_model = {"summary_model": names[0]} if settings.summary_model else {"summary_base_url": None}
    for name in names:
        try:
            candidates.append(resolve(name, structs.replace(settings, **of_summary_model), on_event=on_event))
        except InvalidInput as error:
            if name != _tidy(host_model or "") or name in required:
                raise
            on_event(Event("summarizer.host_model_skipped", str(error), "warning"))
    return Chain(candidates or [resolve("extractive", settings)], clock=clock)


def _is_complete(name: str) -> bool:
    return name == "extractive" or name.startswith("command:") or "/" in name


def _complete(name: str, provider: str | None) -> str:
    return name if _is_complete(name) or not provider else f"{provider}/{name}"


def _tidy(name: str) -> str:
    if name.startswith("command:") or "/" not in name:
        return name.strip()
    provider, _, model = name.strip().partition("/")
    return f"{provider.strip().lower()}/{model.strip()}"


def _guess(model: str, settings: Settings) -> str:
    if re.match("claude", model, re.IGNORECASE):
        return "anthropic"
    if settings.summary_base_url or re.match(r"(?:chat)?gpt-|o\d", model, re.IGNORECASE):
        return "openai"
    raise InvalidInput(
        f'"{model}" is not a summarizer.',
        hint="Name it provider/model, command:PROGRAM or extractive.",
    )


def _hosted(name: str, settings: Settings) -> Summarizer:
    provider, _, model = _tidy(name).partition("/")
    address, table = _address(provider, settings), settings.provider(provider)
    timeout = settings.summary_timeout_ms / 1000
    if not (provider and model):
        raise InvalidInput(f'"{name}" is not of the form provider/model.')
    access = Access(provider, address, table)
    if not (address or (table and (table.base_url or table.api_key_openclaw)) or provider in KNOWN):
        hint = f"Set summary_base_url to that of its API, or base_url under [providers.{provider}]."
        raise InvalidInput(f"{name} has no address.", hint=hint)
    if access.api == "anthropic":
        _require("anthropic")
        from lossless.summarizers.anthropic import Anthropic

        return Anthropic(model=model, provider=provider, base_url=address, timeout=timeout, table=table)
    _require("openai")
    from lossless.summarizers.openai import OpenAI

    return OpenAI(model=model, provider=provider, base_url=address, timeout=timeout, table=table)


def accesses(summarizer: Summarizer) -> list[tuple[str, Access]]:
    """Return the models that a summarizer may call, each with the access to its provider."""
    found = [each for part in getattr(summarizer, "candidates", ()) for each in accesses(part)]
    access = getattr(summarizer, "access", None)
    return [(summarizer.name, access), *found] if isinstance(access, Access) else found


def _address(provider: str, settings: Settings) -> str | None:
    """Return the configured address of a provider.

    `summary_base_url` belongs to the summary model: the key of no other provider may be sent there.
    """
    if settings.summary_base_url is None:
        return None
    primary = _complete(settings.summary_model or f"{provider}/", settings.summary_provider)
    owner = primary if "/" in primary else f"{_guess(primary, settings)}/"
    return settings.summary_base_url if _tidy(owner).startswith(f"{provider}/") else None


def _require(package: str) -> None:
    # An SDK without httpx2 is too old.
    if find_spec(package) is None or find_spec("httpx2") is None:
        raise InvalidInput(
            f"The {package} package is not installed, or too old.", hint=f"pip install 'lossless[{package}]'"
        )
