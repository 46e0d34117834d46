"""Suggest the nearest stored name for one that does not exist."""

from __future__ import annotations

import re

from lossless import Lossless
from lossless.errors import InvalidInput, LosslessError, NotFound
from lossless.model import Nearest

_NAMED = ("conversation", "message", "summary", "file", "operation")
_DIGITS = re.compile(r"'([0-9a-f]{4,32})' is not recognised as an id\.")
"""The message about an id without its prefix."""
_CREATED = "A conversation is created"
_LIST = "`lcm conversations` lists them."


def add_nearest(error: LosslessError, database: str | None = None) -> LosslessError:
    """Add the nearest stored names to the hint of an error, and return it."""
    if isinstance(error, NotFound) and error.what == "conversation" and "lcm conversations" in error.hint:
        return error  # the resolver has named the nearest already
    try:
        found = _found(error, database)
    except Exception:  # noqa: BLE001  # the first error is the one to report
        return error
    guess = f"Did you mean {' or '.join(found.names)}?" if found.names else ""
    is_listed = not (isinstance(error, NotFound) and error.what == "conversation") or "lcm conversations" in error.hint
    # With a similar name in sight, nobody needs to know how a conversation is created.
    hint = "" if found.names and error.hint.startswith(_CREATED) else error.hint
    error.hint = " ".join(filter(None, (guess, found.note, hint, "" if is_listed else _LIST)))
    return error


def _found(error: LosslessError, database: str | None) -> Nearest:
    digits = _DIGITS.match(error.message) if isinstance(error, InvalidInput) else None
    if digits is None and not (isinstance(error, NotFound) and error.what in _NAMED):
        return Nearest()
    with Lossless.open(database, read_only=True, on_event=lambda event: None) as lcm:
        if isinstance(error, NotFound):
            return lcm._nearest(error.what, error.which)
        return lcm._nearest("id", digits[1]) if digits else Nearest()
