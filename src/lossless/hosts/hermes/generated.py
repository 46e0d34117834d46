"""Recognise the summaries, briefs and pins that we wrote into Hermes's list. Pure functions.

Hermes joins prompts that follow each other, so that a summary and a prompt of the user may become one message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

IsOurs = Callable[[str], bool]
"""Whether an id is that of a summary, brief or pin of the conversation: a user may write the same text."""

_BLOCK = re.compile(
    r'\s*(?:<summary id="(?P<summary>sum_[0-9a-f]+)" kind="[^<>]*>.*?</summary>'
    r'|<focus_brief id="(?P<brief>brief_[0-9a-f]+)" [^<>]*>\n.*?\n</focus_brief>'
    r'|<tool_result id="(?P<result>msg#[0-9]{1,19})"[^<>]*>\n[^<]*\n</tool_result>'
    r'|<(?P<tag>pinned(?:-\d+)?) id="(?P<pin>pin_[0-9a-f]+)" trust="\w+">\n.*?\n</(?P=tag)>)\s*',
    re.DOTALL,
)


def without_generated(text: str, is_ours: IsOurs) -> str:
    """Return a text without the summaries, briefs and pins at its beginning."""
    at = 0
    while text.startswith("<", at) and (found := _BLOCK.match(text, at)):
        if not is_ours(found["summary"] or found["brief"] or found["result"] or found["pin"]):
            break
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
