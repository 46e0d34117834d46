"""Check the arguments of public verbs against their annotations before anything else is done.

A wrong argument is refused with `InvalidInput` that names the nearest right one, and never by an error from further down.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from lossless.config import Settings
from lossless.errors import InvalidInput
from lossless.session_patterns import any_match
from lossless.store import jsontext

T = TypeVar("T")

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "None": (type(None),),
    "Path": (os.PathLike,),
    "datetime": (datetime, int, float),
    "timedelta": (timedelta,),
    "Time": (datetime, date, timedelta, str, int, float, type(None)),
    "Guidance": (str,),
}
_LISTS = ("Sequence[", "Iterable[str]")
_UNION = re.compile(r" \| (?![^\[]*\])")
_CHOICES = {"Guidance": ("none", "short", "full")}

_TOKENS = {"window", "target", "tokens", "max_tokens", "token_cap", "reserve", "observed"}
_LEAST = {
    **dict.fromkeys(("window", "target", "max_tokens", "token_cap", "batch", "count", "first", "last"), 1),
    **dict.fromkeys(("reserve", "observed", "limit", "before", "keep_copies", "start", "offset", "tail"), 0),
    "seconds": 0,
    "retain_depth": -1,
}
_MOST = 2**53
"""More tokens or seconds have no exact form in JSON, and none in a database."""
_OWN = {"key", "session", "owner", "database", "conversation", "conversations", "name"}
"""Arguments with a check of their own, which says more."""
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}
_WRITTEN = re.compile(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([km]?)(?:\s*tokens?)?\s*", re.ASCII | re.IGNORECASE)
_ROLES = ("user", "assistant", "system", "developer", "tool")


def checks_arguments(kind: type[T]) -> type[T]:
    """Have every public verb of a class check its arguments."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, classmethod):
            setattr(kind, name, classmethod(_checking(member.__func__)))
        elif isinstance(member, FunctionType):
            setattr(kind, name, _checking(member))
    return kind


def _checking(verb: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(verb).parameters.values())
    known = [(at, each.name, _UNION.split(str(each.annotation))) for at, each in enumerate(parameters)]
    rules = [
        rule
        for rule in known
        if rule[1] not in _OWN and all(each in _TYPES or each.startswith(_LISTS) for each in rule[2])
    ]
    if not rules:
        return verb

    @wraps(verb)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for at, name, types in rules:
            if at < len(args):
                check(name, args[at], types)
            elif name in kwargs:
                check(name, kwargs[name], types)
        return verb(*args, **kwargs)

    if prepare := vars(verb).get("prepare"):
        vars(checked)["prepare"] = _checking(prepare)
    return checked


def check(name: str, value: object, types: Sequence[str]) -> None:
    """Refuse a value that is of none of some types, out of range or not one of the choices."""
    if not any(_is_one(value, each) for each in types):
        raise InvalidInput(f"{name}={_shown(value)} is not {_noun(name, types)}.", hint=_nearest(name, value, types))
    if isinstance(value, int | float) and not isinstance(value, bool) and value < _LEAST.get(name, value):
        raise InvalidInput(f"{name}={value} is not {_noun(name, types)}.", hint=f"Give {_LEAST[name]} or more.")
    if (name in _TOKENS or name == "seconds") and isinstance(value, int | float) and value > _MOST:
        raise InvalidInput(f"{name}={_shown(value)} is too large.", hint=f"Give {_MOST:,} or less.")
    for each in types:
        if each in _CHOICES and value is not None:
            choose(name, value, _CHOICES[each])


def choose(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices, and name the nearest of them."""
    if value not in choices:
        close = get_close_matches(str(value).lower(), choices, 1, 0.4)
        guess = f"Did you mean {close[0]!r}? " if close else ""
        raise InvalidInput(
            f"{name}={_shown(value)} is not a choice.", hint=f"{guess}Give one of {', '.join(map(repr, choices))}."
        )


def check_roles(roles: Iterable[object]) -> None:
    """Refuse a role that is almost one that messages have; hosts may have roles of their own."""
    for role in [roles] if isinstance(roles, str) else roles:
        close = get_close_matches(str(role).lower(), _ROLES, 1, 0.7)
        if not isinstance(role, str) or not role or (role not in _ROLES and close):
            choose("role", role, _ROLES)


def _is_one(value: object, type_name: str) -> bool:
    if type_name.startswith(_LISTS):
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)
    if isinstance(value, bool):
        return type_name == "bool"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _TYPES[type_name])


def _noun(name: str, types: Sequence[str]) -> str:
    if name in _TOKENS and "int" in types:
        return "a number of tokens"
    first = types[0]
    if first.startswith(_LISTS):
        return "a list"
    nouns = {
        "int": "a whole number",
        "float": "a number",
        "bool": "True or False",
        "datetime": "a time",
        "Time": "a time",
    }
    return nouns.get(first, "a path" if "Path" in types else "a text")


def _nearest(name: str, value: object, types: Sequence[str]) -> str:
    least = f", {_LEAST[name]} or more" if name in _LEAST else ""
    if "int" in types:
        meant = _number(value)
        return f"Did you mean {name}={meant}?" if meant is not None else f"Give a whole number{least}."
    if "bool" in types:
        return "Give True or False."
    if types[0].startswith(_LISTS):
        return f"Did you mean {name}=[{value!r}]?" if isinstance(value, str) else f"Give a list for {name}."
    if "Time" in types or "datetime" in types:
        return "Write a date (2026-08-01), a time (2026-08-01T09:00Z) or an age (90d)."
    return f"Give {_noun(name, types)}."


def _number(value: object) -> int | None:
    """Return the whole number that is probably meant: 200000 for "200k"."""
    if isinstance(value, float) and math.isfinite(value):
        return round(value)
    found = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    return round(float(found[1].replace(",", "").replace("_", "")) * _SCALES[found[2].lower()])


def _shown(value: object) -> str:
    return repr(value)[:80]


# Keys, sessions, owners and paths, and the patterns that exclude a conversation.
_MOST_BYTES = {"key": 1000, "session": 1000, "owner": 200}


def checked_path(path: object) -> Path:
    """Return a path, its home directory filled in; `InvalidInput` for what cannot be one."""
    try:
        found = Path(path).expanduser()  # type: ignore[arg-type]  # what is no path is refused below
        if b"\0" in os.fsencode(found):
            raise ValueError("it contains a NUL")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"{repr(path)[:200]} is not a path: {error}.", hint="Give the path of a file or a directory."
        ) from error
    return found


def checked(what: str, value: object) -> str:
    most = _MOST_BYTES[what]
    if not isinstance(value, str) or not value.strip() or not jsontext.is_clean(value) or len(value.encode()) > most:
        shown = repr(value)[:80]
        raise InvalidInput(
            f"{shown} cannot be the {what}.",
            hint=f"Give a text of 1 to {most} bytes without NUL or lone surrogates.",
        )
    return value


def hidden(settings: Settings, key: str) -> str:
    """Return the reason for which a conversation is neither written nor shown, or an empty text."""
    if not settings.enabled:
        return "LCM_ENABLED is false"
    if any_match(settings.ignore_session_patterns, key):
        return f"{key} matches ignore_session_patterns"
    return ""


def stateless(settings: Settings, key: str) -> str:
    """Return the reason for which a conversation is not written, or an empty text."""
    if settings.skip_stateless_sessions and any_match(settings.stateless_session_patterns, key):
        return f"{key} matches stateless_session_patterns"
    return ""
