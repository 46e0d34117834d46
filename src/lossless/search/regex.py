"""Patterns from users and models, in time linear in the text however evil they are (RE2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.errors import InvalidInput

if TYPE_CHECKING:
    import re2

_MAX_LENGTH = 500
_LOOK_AROUND = ("(?=", "(?!", "(?<=", "(?<!")


def compile(pattern: str) -> re2.Pattern:
    """The pattern, ready to search a text; raises `InvalidInput` with what is wrong with it."""
    import re2

    if len(pattern) > _MAX_LENGTH:
        raise InvalidInput(f"The pattern has {len(pattern)} characters.", hint=f"The most is {_MAX_LENGTH}.")
    for construct in _LOOK_AROUND:
        if construct in pattern:
            raise InvalidInput(
                f"{construct}...) is look-around, which linear-time patterns do not have.", hint="Match the whole."
            )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise InvalidInput(
            f"{pattern!r} is not a pattern: {reason}.", hint="Use RE2 syntax, without back-references."
        ) from error
