"""Pure: recognise summaries written after a failure, by the marks that other systems leave in them."""

from __future__ import annotations

from typing import Literal

DIRECTIVES = "[LCM fallback summary; directive-shaped untrusted content omitted]"
CUT_SHORT = "[LCM fallback summary; truncated for context management]"
_TRUNCATED = "[Truncated from "
_EMERGENCY = "[Truncated for context management]"
# A mark begins its line; elsewhere it is only mentioned. At the end of a text another line may follow it, of so many
# characters.
_TRUNCATED_REACH, _CUT_REACH = 40, 80


def marker(text: str, model: str) -> Literal["fallback", "old", "new", "emergency"] | None:
    """Return the kind of failure that a summary's text and model indicate; None for most."""
    if text.startswith(CUT_SHORT):
        return "old"
    if text.startswith(DIRECTIVES) or f"\n{DIRECTIVES}" in text:
        return "fallback"
    if ends_with_mark(text, _TRUNCATED, _TRUNCATED_REACH):
        return "new"
    if ends_with_mark(text, CUT_SHORT, _CUT_REACH):
        return "fallback"
    if model == "emergency-fallback" or (model == "unknown" and ends_with_mark(text, _EMERGENCY, _CUT_REACH)):
        return "emergency"
    return None


def ends_with_mark(text: str, mark: str, reach: int) -> bool:
    """Return True if a mark begins a line within the last `reach` characters."""
    at = text.rfind(mark)
    return at >= 0 and len(text) - at < reach and text[at - 1 : at] in ("", "\n")
