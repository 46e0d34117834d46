"""Decide without a judge whether a summary keeps a fact.

A fact is kept if each of its values is there, near the topic or near another of its values. A value without its topic
is no use to a reader, and neither is a topic without its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, TypeAlias

from conversations.facts import Fact

State: TypeAlias = Literal["kept", "cued", "stale", "half", "lost"]
STATES: tuple[State, ...] = ("kept", "cued", "stale", "half", "lost")
_FOOTER = re.compile(r"^[ \t*_-]*expand for details about:.*$", re.I | re.M)
_OPEN = re.compile(r"^[ \t*_-]*open:(.*)$", re.I | re.M)
_NEAR, _NEAR_WIDE = 160, 60
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def fold(text: str) -> str:
    """Leave out differences of case, spaces and quoting."""
    return " ".join(text.replace("`", "").replace("*", "").casefold().split())


class View:
    """Summaries that a model sees at the same time."""

    def __init__(self, summaries: Sequence[str]) -> None:
        self._bodies = [fold(_FOOTER.sub("", text)) for text in summaries]
        self._footers = [fold(line) for text in summaries for line in _FOOTER.findall(text)]

    def state(self, fact: Fact) -> State:
        """Return what the summaries say about a fact."""
        is_topic_near = any(_is_near(group, fact.topic, body) for group in fact.values for body in self._bodies)
        about = fact.kind == "error" or is_topic_near
        if about and all(self._shows(fact, nth) for nth in range(len(fact.values))):
            return "kept"
        if any(_is_near(old, fact.topic, body) for old in fact.old for body in self._bodies):
            return "stale"
        if self.cues(fact):
            return "cued"
        mentioned = any(_mentions(body, group) for group in fact.values for body in self._bodies)
        return "half" if about and mentioned else "lost"

    def cues(self, fact: Fact) -> bool:
        """Return whether a footer names the topic of the fact."""
        return any(all(_mentions(line, (word,)) for word in fact.topic) for line in self._footers)

    def _shows(self, fact: Fact, nth: int) -> bool:
        value, others = fact.values[nth], [group for at, group in enumerate(fact.values) if at != nth]
        return any(
            _is_near(value, fact.topic, body) or any(_are_near(value, other, body) for other in others)
            for body in self._bodies
        )


def open_lines(summary: str) -> list[str]:
    """Return the questions and tasks that a summary lists as open."""
    return [line.strip() for line in _OPEN.findall(summary)]


def is_open(line: str, facts: Sequence[Fact]) -> bool:
    """Return whether a line is one of the questions that are open, or a contradiction that nobody resolved."""
    text = fold(line)
    return any(
        all(_mentions(text, group) for group in fact.values)
        if fact.question
        else fact.kind == "contradiction" and any(_is_near(group, fact.topic, text) for group in fact.values)
        for fact in facts
    )


def _is_near(value: Sequence[str], topic: Sequence[str], text: str) -> bool:
    return any(all(_mentions(window, (word,)) for word in topic) for window in _windows(value, text))


def _are_near(value: Sequence[str], other: Sequence[str], text: str) -> bool:
    return any(_mentions(window, other) for window in _windows(value, text))


def _windows(value: Sequence[str], text: str) -> Iterator[str]:
    """Yield the surroundings of each mention."""
    for spelling in value:
        for found in pattern(spelling).finditer(text):
            near = _NEAR_WIDE if _WIDE.search(text, max(0, found.start() - 40), found.end() + 40) else _NEAR
            yield text[max(0, found.start() - near) : found.end() + near]


def _mentions(text: str, value: Sequence[str]) -> bool:
    return any(pattern(spelling).search(text) for spelling in value)


@cache
def pattern(spelling: str) -> re.Pattern[str]:
    """Return a pattern for a spelling that does not match inside a longer number or word."""
    text = fold(spelling)
    before = r"(?<![0-9a-z])" if text[:1].isascii() and text[:1].isalnum() else ""
    # A number is not the first part of a longer one, but a plural or a case ending may follow a word.
    after = r"(?![0-9]|[.,][0-9])" if text[-1:].isdigit() else ""
    return re.compile(before + re.escape(text) + after)
