"""Pure: summaries that were written because something failed, by the marks that other systems leave in them."""

from __future__ import annotations

from typing import Literal

DIRECTIVES = "[LCM fallback summary; directive-shaped untrusted content omitted]"
CUT_SHORT = "[LCM fallback summary; truncated for context management]"
_TRUNCATED = "[Truncated from "
_EMERGENCY = "[Truncated for context management]"
# At the end of a text a mark is a mark; before more words, somebody talks about it.
_TRUNCATED_REACH, _CUT_REACH = 40, 80


def marker(text: str, model: str) -> Literal["fallback", "old", "new", "emergency"] | None:
    """The kind of failure that a summary's text and model tell of; None for most."""
    if text.startswith(DIRECTIVES):
        return "fallback"
    if text.startswith(CUT_SHORT):
        return "old"
    if DIRECTIVES in text:
        return "fallback"
    if _ends_with(text, _TRUNCATED, _TRUNCATED_REACH):
        return "new"
    if _ends_with(text, CUT_SHORT, _CUT_REACH):
        return "fallback"
    if model == "emergency-fallback" or (model == "unknown" and _EMERGENCY in text):
        return "emergency"
    return None


def _ends_with(text: str, mark: str, reach: int) -> bool:
    at = text.rfind(mark)
    return at >= 0 and len(text) - at < reach
