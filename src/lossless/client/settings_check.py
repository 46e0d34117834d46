"""Find settings that can be read and do not work: patterns, models, prompts."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from lossless import summarizers
from lossless.client.file_describer import full_name
from lossless.config import Settings, redact_url
from lossless.engine.compaction.prompts import Templates
from lossless.errors import InvalidInput, SummarizerAuth

_INSTALL = "pip install"
"""How the hint of a model begins whose package is missing: that is no mistake of a setting."""


def wrong(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each setting that does not work, and the reason: patterns, models, prompts."""
    yield from _patterns(settings)
    yield from _models(settings)
    yield from (("prompt_dir", problem) for problem in Templates.load(settings.prompt_dir).problems)


def _patterns(settings: Settings) -> Iterator[tuple[str, str]]:
    from lossless.engine.ingest.secrets import ON
    from lossless.search import regex

    for pattern in settings.redact:
        try:
            if pattern != ON:
                regex.compile(pattern)
        except InvalidInput as error:
            yield "redact", error.message


def _models(settings: Settings) -> Iterator[tuple[str, str]]:
    for setting, name in _named(settings):
        # The address is that of the summary model; without one it is nobody's.
        within = settings if settings.summary_model else structs.replace(settings, summary_base_url=None)
        try:
            summarizers.resolve(name, within, on_event=lambda event: None)
        except InvalidInput as error:
            if not error.hint.startswith(_INSTALL):
                yield setting, str(error)


def credentials(settings: Settings) -> Iterator[tuple[str, str, str, str]]:
    """Yield setting, model, where its key comes from and where it goes, for each model that the settings name."""
    for setting, name in _named(settings):
        within = settings if settings.summary_model else structs.replace(settings, summary_base_url=None)
        try:
            found = summarizers.accesses(summarizers.resolve(name, within, on_event=lambda event: None))
        except InvalidInput:
            continue
        for model, access in found:
            try:
                yield setting, model, access.source, redact_url(access.address)
            except SummarizerAuth as error:  # a file of another program's that cannot be read
                yield setting, model, error.message, ""


def _named(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.summary_model:
        yield "summary_model", settings.summary_model
    yield from (("fallback_providers", name) for name in settings.fallback_providers)
    if settings.expansion_model:
        yield "expansion_model", full_name(settings)
    if settings.large_file_summary_provider and settings.large_file_summary_model:
        yield (
            "large_file_summary_model",
            f"{settings.large_file_summary_provider}/{settings.large_file_summary_model}",
        )
