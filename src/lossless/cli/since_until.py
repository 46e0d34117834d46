"""The options that limit a list to a time: `--since` and `--until`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.decorators import FC
from msgspec import Struct

from lossless.errors import InvalidTimeFilter
from lossless.times import read_age

_STATE = "lossless.cli.times"


class Times(Struct, frozen=True):
    """A range of times: from `since` on and before `until`, as the user wrote them."""

    since: str | None = None
    until: str | None = None


def time_options(command: FC) -> FC:
    """Add the options that limit a list to a time; `chosen_times` reads them."""
    for names, metavar, read, help in (
        (("--recency",), "AGE", _age, ""),
        (("--between",), "A..B", _pair, ""),
        (("--until", "--before"), "TIME", str, "Only before this time."),
        (("--since", "--after"), "TIME", str, "Only from this time on: 2026-08-01, 90d, yesterday."),
    ):
        option = click.option(
            *names, metavar=metavar, expose_value=False, callback=_keep(names[0][2:], read), help=help, hidden=not help
        )
        command = option(command)
    return command


def _keep(name: str, read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.meta.setdefault(_STATE, {})[name] = read(value)

    return keep


def chosen_times() -> Times:
    """Return the times of the command line, if they can be combined."""
    given: dict[str, Any] = click.get_current_context().meta.get(_STATE, {})
    if "between" in given and len(given) > 1:
        raise InvalidTimeFilter("--between names both times.", hint="Leave --since, --until and --recency out.")
    if {"recency", "since"} <= given.keys():
        raise InvalidTimeFilter("--recency and --since both name the beginning.", hint="Give one of them.")
    since, until = given.get("between", (given.get("since"), given.get("until")))
    return Times(since=given.get("recency", since), until=until)


def _age(text: str) -> str:
    read_age("recency", text)
    return text


def _pair(text: str) -> tuple[str, str]:
    first, dots, last = text.partition("..")
    if not dots:
        raise InvalidTimeFilter(f"{text!r} is not a pair of times.", hint="Write A..B.")
    return first, last
