"""Invented conversations of any length with facts at known places, and a scorer that needs no judge."""

from conversations.conversation import FULL, Conversation, generate
from conversations.facts import KINDS, Fact, Retelling
from conversations.scoring import STATES, State, View, fold, is_open, open_lines
from conversations.texts import language, pairs

__all__ = [
    "FULL",
    "KINDS",
    "STATES",
    "Conversation",
    "Fact",
    "Retelling",
    "State",
    "View",
    "fold",
    "generate",
    "is_open",
    "language",
    "open_lines",
    "pairs",
]
