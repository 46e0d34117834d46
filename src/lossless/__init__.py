"""Memory for AI agents that loses nothing.

from lossless import Lossless, Message

with Lossless.open("agent.db") as lcm:
    chat = lcm.conversation("agent:main:main")
    chat.ingest([Message.user("Where did we put the deploy key?", event_id="m1")])
    print(chat.messages()[-1].text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.errors import LosslessError
from lossless.model import (
    Answer,
    Context,
    Description,
    Expansion,
    File,
    Hit,
    Hits,
    Ingested,
    Message,
    Opaque,
    Reasoning,
    StoredMessage,
    Summary,
    SummaryRequest,
    Text,
    ToolCall,
    ToolResult,
)
from lossless.version import __version__

if TYPE_CHECKING:
    from lossless.aio import AsyncConversation, AsyncLossless
    from lossless.client import Conversation, Lossless
    from lossless.config import Settings

__all__ = [
    "Answer",
    "AsyncConversation",
    "AsyncLossless",
    "Context",
    "Conversation",
    "Description",
    "Expansion",
    "File",
    "Hit",
    "Hits",
    "Ingested",
    "Lossless",
    "LosslessError",
    "Message",
    "Opaque",
    "Reasoning",
    "Settings",
    "StoredMessage",
    "Summary",
    "SummaryRequest",
    "Text",
    "ToolCall",
    "ToolResult",
    "__version__",
]

# Values are here at once; who opens a database loads the engine with it, and who awaits it loads anyio.
_LATER = {
    "AsyncConversation": "aio",
    "AsyncLossless": "aio",
    "Conversation": "client",
    "Lossless": "client",
    "Settings": "config",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'lossless' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"lossless.{_LATER[name]}"), name)
    return value
