"""Which times a list is about: `--after`, `--before`, `--between` and `--recency`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click
from click.decorators import FC
from msgspec import Struct

from lossless.errors import InvalidTimeFilter
from lossless.times import read_age

_NOTE = "lossless.cli.times"


class Times(Struct, frozen=True):
    """From `after` on, or since so long ago; and before `before`."""

    after: str | None = None
    before: str | None = None
    recency: timedelta | None = None


def times(command: FC) -> FC:
    """The options that choose times; `chosen_times` reads them."""
    for name, metavar, read, help in (
        ("recency", "AGE", _age, "From so long ago on: 90s, 30min, 2h, 7d, 4w, 6mo or 1y."),
        ("between", "A..B", _pair, "From the time A on and before the time B."),
        ("before", "TIME", str, "Before this time."),
        ("after", "TIME", str, "From this time on: 2026-08-01, 2026-08-01T09:00Z, 90d, yesterday."),
    ):
        option = click.option(f"--{name}", metavar=metavar, expose_value=False, callback=_note(name, read), help=help)
        command = option(command)
    return command


def _note(name: str, read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def note(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.meta.setdefault(_NOTE, {})[name] = read(value)

    return note


def chosen_times() -> Times:
    """The times that the command line names, if they go together."""
    said: dict[str, Any] = click.get_current_context().meta.get(_NOTE, {})
    if "between" in said and len(said) > 1:
        raise InvalidTimeFilter("--between says both times.", hint="Leave --after, --before and --recency out.")
    if {"recency", "after"} <= said.keys():
        raise InvalidTimeFilter("--recency and --after both say from when on.", hint="Give one of them.")
    after, before = said.get("between", (said.get("after"), said.get("before")))
    return Times(after, before, said.get("recency"))


def _pair(text: str) -> tuple[str, str]:
    first, dots, last = text.partition("..")
    if not dots:
        raise InvalidTimeFilter(f"{text!r} is not a pair of times.", hint="Write A..B.")
    return first, last


def _age(text: str) -> timedelta | None:
    return read_age("recency", text)
