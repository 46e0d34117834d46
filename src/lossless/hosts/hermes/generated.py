"""Recognise the summaries and pins that we wrote into Hermes's list. Pure functions.

Hermes joins prompts that follow each other, so that a summary and a prompt of the user may become one message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

IsOurs = Callable[[str], bool]
"""Whether an id is that of a summary or pin of the conversation: a user may write the same text."""

_BLOCK = re.compile(
    r'\s*(?:<summary id="(sum_[0-9a-f]+)" kind="[^<>]*>.*?</summary>'
    r'|<tool_result id="(msg#[0-9]{1,19})"[^<>]*>\n[^<]*\n</tool_result>'
    r'|<(?P<tag>pinned(?:-\d+)?) id="(pin_[0-9a-f]+)" trust="\w+">\n.*?\n</(?P=tag)>)\s*',
    re.DOTALL,
)


def without_generated(text: str, is_ours: IsOurs) -> str:
    """Return a text without the summaries and pins at its beginning."""
    at = 0
    while text.startswith("<", at) and (found := _BLOCK.match(text, at)) and is_ours(found[1] or found[2] or found[4]):
        at = found.end()
    return text[at:]


def shortened(content: Any, is_ours: IsOurs) -> Any:
    """Return the content of a message without what we wrote; None if nothing else is in it."""
    if isinstance(content, str):
        return without_generated(content, is_ours) or None if content.startswith("<") else content
    if not isinstance(content, list) or not content or not isinstance(content[0], dict):
        return content
    text = content[0].get("text")
    if not isinstance(text, str) or not text.startswith("<"):
        return content
    rest = without_generated(text, is_ours)
    if rest == text:
        return content
    return ([content[0] | {"text": rest}, *content[1:]] if rest else shortened(content[1:], is_ours)) or None
