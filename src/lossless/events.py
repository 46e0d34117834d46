"""Events: everything worth reporting, as one value for one hook.

lossless never prints, and logs only through events: it emits `Event`s. By default they go to the standard logger named
`lossless`; a caller that passes `on_event` gets them as values instead. `docs/reference/errors.md` explains each name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
EventName: TypeAlias = Literal[
    "assemble.live",
    "compaction.exhausted",
    "compaction.failed",
    "config.adapted",
    "config.ignored",
    "context.rejected",
    "context.uncovered",
    "file.model_failed",
    "file.repaired",
    "file.unavailable",
    "host.failed",
    "ingest.collisions",
    "ingest.copies",
    "ingest.disabled",
    "ingest.invalid",
    "prompts.refused",
    "semantic.unavailable",
    "session.disabled",
    "store.copied",
    "store.mended",
    "store.waiting",
    "store.without_log",
    "summarizer.back",
    "summarizer.host_model_skipped",
    "summarizer.no_key",
    "summarizer.provider_guessed",
    "summarizer.replaced",
    "summarizer.unusable",
    "summary.too_long",
    "transcript.separate",
    "transcript.unavailable",
    "transcript.unreadable",
    "usage.lost",
    "usage.unknown",
    "window.assumed",
    "worker.failed",
    "worker.paid",
]
"""Every event name; mypy refuses any other."""


class Event(Struct, frozen=True):
    """Something that happened: a dotted `name` for programs, a `message` for people, and the facts."""

    name: EventName
    message: str
    level: Level = "info"
    facts: dict[str, Any] = field(default_factory=dict)


Hook: TypeAlias = Callable[[Event], None]


def guarded(hook: Hook) -> Hook:
    """Return a hook that logs its own failures, so that they do not fail a call that succeeded."""

    def emit(event: Event) -> None:
        try:
            hook(event)
        except Exception:
            import logging

            logging.getLogger("lossless").exception("the on_event hook failed on %s", event.name)

    return emit


def ignore(event: Event) -> None:
    """Discard an event."""


def log(event: Event) -> None:
    """Log an event with the standard logger `lossless`; its facts are the record's `lossless` attribute."""
    import logging

    level = logging.getLevelNamesMapping()[event.level.upper()]
    logging.getLogger("lossless").log(level, "%s: %s", event.name, event.message, extra={"lossless": event.facts})
