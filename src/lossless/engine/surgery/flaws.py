"""Find the flaw of a summary from its row: the reason to rewrite it. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.engine.compaction.failure_markers import ends_with_mark, marker
from lossless.engine.compaction.summarize import CUT, PROVISIONAL
from lossless.engine.shared.defaults import FLAW_KINDS
from lossless.errors import InvalidInput

_REACH = 80
"""Characters from the start of the mark to the end of the text: the line of a footer may follow it."""


def known_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of flaws; raise `InvalidInput` for any other name."""
    unknown = [each for each in kinds if each not in FLAW_KINDS]
    if unknown or not kinds or isinstance(kinds, str):
        raise InvalidInput(f"kinds={kinds!r} are not kinds of flaws.", hint=f"The kinds are {', '.join(FLAW_KINDS)}.")
    return tuple(kinds)


def flaw(text: str, level: str, model: str, faithful: float | None) -> str:
    """Return the flaw of a summary, one of `FLAW_KINDS`; empty if it has none."""
    if not text.strip():
        return "empty"
    if level in PROVISIONAL:
        return "provisional"
    mark = marker(text, model)
    if mark is not None and mark != "new":
        return "marked"
    if mark == "new" or ends_with_mark(text, CUT, _REACH):
        return "truncated"
    return "unfaithful" if faithful is not None and faithful < 1 else ""
