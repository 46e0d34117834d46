"""Recognise standing instructions and preferences: what a user wants from now on."""

from __future__ import annotations

import re

LONGEST = 600
"""Characters of a text that may be an instruction; in a longer one such words stand by chance."""
_DIRECTIVE = re.compile(
    r"\bfrom now on\b|\bgoing forward\b|\bin (?:the )?future\b.{0,40}\b(?:please|always|never|use|do)\b"
    r"|\b(?:always|never)\b.{1,120}\bwhen(?:ever)? (?:i|we|you)\b|\bwhen(?:ever)? (?:i|we) (?:ask|say|want|request)\b"
    r"|(?:^|[.!?:;]\s+|\bplease )(?:always|never)\b|\b(?:you (?:should|must)|make sure (?:to|you)) (?:always|never)\b"
    r"|\bi(?:'d| would)? (?:really |strongly |generally |usually )?(?:prefer|rather you)\b|\bmy preference (?:is|for)\b"
    r"|\bi (?:don't|do not) (?:like|want) (?:it when|you to)\b|\bremember (?:that|to)\b.{0,60}\b(?:always|never|prefer)\b",
    re.IGNORECASE,
)
_WORDS = ("always", "never", "prefer", "now on", "forward", "future", "when", "rather you", "want you", "it when")
"""A text without any of these needs no slower look."""


def is_directive(text: str) -> bool:
    """Return whether a text of a user tells what to do from now on, or what the user prefers."""
    if len(text) > LONGEST:
        return False
    lower = text.lower().replace("’", "'")
    return any(word in lower for word in _WORDS) and _DIRECTIVE.search(lower) is not None
