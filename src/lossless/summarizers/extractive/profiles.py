"""The weights of the built-in summariser, by kind of source.

They were found by search on `bench/summaries.py` (seeds 61 and 62 and its lists); other seeds were used to check them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Profile:
    """The weights for one kind of source."""

    figure: float = 2.66
    time_word: float = 0.73
    identifier: float = 1.67
    capitals: float = 1.4
    name: float = 1.3
    plain: float = 0.35
    short: float = 0.25
    quoted: float = 1.37
    """The least weight of a word in quotation marks."""
    rarity: float = 0.62
    """The part of a word's weight that depends on its rarity in the source."""
    user: float = 1.62
    assistant: float = 1.0
    output: float = 0.14
    alarm: float = 0.81
    asked: float = 1.02
    """The factors of a line of a tool, of an important one, and of one that the user asked for."""
    dated: float = 1.09
    """The factor of a passage with a date."""
    without_value: float = 0.7
    """The factor of a passage without figures, dates, identifiers and names."""
    recap: float = 6.09
    """The gain of a reply that repeats what the other speaker just said."""
    echo: float = 2.5
    """The factor of a fact that another speaker repeats."""
    boilerplate: float = 0.5
    """The loss of a passage in words that many turns repeat."""
    subject: float = 0.92
    attribute: float = 0.4
    """The exponents for the two words of a passage that the conversation comes back to most."""
    saturation: float = 8.0
    """The number of turns with a word from which on it counts no more."""
    question: float = 0.99
    open: float = 1.45
    rule: float = 2.14
    answer: float = 1.12
    """The factors of an answered question, an open one, a standing rule, and a short answer with its question."""
    gain: float = 0.89
    cost: float = 1.6
    """The exponents of the facts and of the length of a passage."""
    days: float = 0.33
    """The share of the length for one passage of every day."""
    even: float = 0.3
    """The share of the length that is divided evenly among the stretches; the rest depends on their facts."""
    rules: float = 0.0
    opened: float = 0.02
    """The shares of the length for standing rules and open questions, before anything else."""
    tokens_of_open: int = 500
    """The length of a summary for each question that it may list as open."""
    said_tokens: float = 337.32
    output_tokens: float = 98.1
    """The tokens of one turn, and of one tool's output, after which others are preferred."""
    footer: float = 0.05
    cues: Mapping[str, float] = field(
        default_factory=lambda: {
            "rule": 0.84,
            "decision": 0.47,
            "reason": 0,
            "change": 1.1,
            "result": 0.27,
            "pending": 0.79,
            "fact": 0.06,
        }
    )


WORK = Profile()
"""Messages of an agent that uses tools."""
CHAT = Profile(
    figure=1.1,
    time_word=0.91,
    identifier=0.7,
    capitals=2.3,
    name=0.96,
    plain=0.33,
    short=0.14,
    quoted=0.82,
    rarity=1.0,
    user=1.2,
    assistant=1.65,
    output=0.66,
    alarm=0.7,
    asked=1.09,
    dated=1.0,
    without_value=0.53,
    recap=0.7,
    echo=1.0,
    boilerplate=0.7,
    subject=0.7,
    attribute=0.37,
    saturation=6.12,
    question=0.45,
    open=0.24,
    rule=0.98,
    answer=1.7,
    gain=1.36,
    cost=0.73,
    days=0.28,
    even=0.0,
    rules=0.0,
    opened=0.0,
    said_tokens=359.0,
    output_tokens=81.13,
    footer=0.02,
    cues={"rule": 0.45, "decision": 0.67, "reason": 0.47, "change": 0.21, "result": 0.4, "pending": 1.39, "fact": 0.24},
)
"""Messages of people who only talk: what matters is said in plain words."""
SUMMARIES = Profile(
    even=0.28,
    capitals=0.95,
    said_tokens=392.76,
    dated=1.39,
    user=1.6,
    output=1.49,
    asked=1.2,
    alarm=0.7,
    subject=2.8,
    attribute=2.3,
    without_value=0.25,
    name=1.0,
    figure=1.93,
    time_word=1.6,
    identifier=2.0,
    plain=0.4,
    quoted=1.5,
    footer=0.2,
    cost=1.4,
    days=0.0,
    tokens_of_open=150,
    rules=0.22,
    opened=0.1,
    rule=3.0,
    open=1.3,
    echo=1.0,
    gain=0.34,
    recap=5.6,
    question=0.34,
    cues={"rule": 0.7, "decision": 1.11, "reason": 0.1, "change": 1.4, "result": 0.55, "pending": 0.9, "fact": 0.15},
)
"""Older summaries of either."""
