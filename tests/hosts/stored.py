"""What a conversation holds, for comparison with what a program's model said and was told."""

from __future__ import annotations

from lossless import Conversation
from lossless.model import Part, Reasoning, Text, ToolCall, ToolResult


def parts(chat: Conversation) -> list[Part]:
    return [part for stored in chat.messages() for part in stored.message.parts]


def spoken(chat: Conversation) -> list[tuple[str, str]]:
    """Who said what, tools aside: two of them at a time answer in the order in which they are done."""
    return [(stored.role, stored.text) for stored in chat.messages() if stored.role != "tool"]


def thoughts(chat: Conversation) -> list[str]:
    return [part.text for part in parts(chat) if isinstance(part, Reasoning)]


def calls(chat: Conversation) -> list[str]:
    return [part.call_id for part in parts(chat) if isinstance(part, ToolCall)]


def results(chat: Conversation) -> dict[str, str]:
    """What the tools answered, by the call's id; an answer stored twice fails."""
    found = [part for part in parts(chat) if isinstance(part, ToolResult)]
    answers = {part.call_id: "\n".join(inner.text for inner in part.parts if isinstance(inner, Text)) for part in found}
    assert len(answers) == len(found)
    return answers
