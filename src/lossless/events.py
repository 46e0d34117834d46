"""One value for everything worth telling, one hook to hear it.

lossless never prints and never logs by itself at a higher level than it must: it emits `Event`s.
By default they go to the standard `logging` logger named `lossless`; whoever passes `on_event`
gets them as values instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

Level: TypeAlias = Literal["debug", "info", "warning", "error"]


class Event(Struct, frozen=True):
    """Something that happened: a dotted `name` for programs, a `message` for people, and the facts."""

    name: str
    message: str
    level: Level = "info"
    facts: dict[str, Any] = field(default_factory=dict)


Hook: TypeAlias = Callable[[Event], None]


def guarded(hook: Hook) -> Hook:
    """The hook, its own failures logged instead of raised: telling must not make a call fail that has succeeded."""

    def tell(event: Event) -> None:
        try:
            hook(event)
        except Exception:
            import logging

            logging.getLogger("lossless").exception("the on_event hook failed on %s", event.name)

    return tell


def ignore(event: Event) -> None:
    """Report an event to nobody."""


def log(event: Event) -> None:
    """The default hook: the standard logger `lossless`, the facts in the record's `lossless` attribute."""
    import logging

    level = logging.getLevelNamesMapping()[event.level.upper()]
    logging.getLogger("lossless").log(level, "%s: %s", event.name, event.message, extra={"lossless": event.facts})
