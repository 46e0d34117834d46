"""Memory for AI agents that loses nothing.

from lossless import Lossless, Message

with Lossless.open("agent.db") as lcm:
    chat = lcm.conversation("agent:main:main")
    chat.ingest([Message.user("Where did we put the deploy key?", event_id="m1")])
    print(chat.messages()[-1].text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.version import __version__

if TYPE_CHECKING:
    from lossless.aio import AsyncConversation, AsyncLossless
    from lossless.client import Conversation, Lossless
    from lossless.config import Settings
    from lossless.engine.import_history.watch import Watch
    from lossless.engine.worker import Worker
    from lossless.errors import (
        ConfigError,
        ContextMoved,
        FileUnavailable,
        GrantRefused,
        InstallRefused,
        InvalidInput,
        LosslessError,
        NotFound,
        StoreError,
        SummarizerError,
    )
    from lossless.events import Event
    from lossless.model import (
        Answer,
        Backfill,
        Backup,
        Bootstrapped,
        Brief,
        Cleaning,
        Compaction,
        Comparison,
        Context,
        ConversationStatus,
        Cue,
        Description,
        Detached,
        Expansion,
        Explanation,
        Exported,
        File,
        Finding,
        Fix,
        Forgotten,
        Garbage,
        Health,
        Hit,
        Hits,
        ImportReport,
        Ingested,
        ListedConversation,
        ListedMessage,
        ListedSummary,
        Listing,
        Message,
        MessageTail,
        Migration,
        Nearest,
        Neighbours,
        Opaque,
        Operation,
        Outcome,
        Pin,
        Plan,
        Proof,
        Pruning,
        Reasoning,
        Rejection,
        Renewed,
        Restored,
        Revision,
        ShownConversation,
        ShownFile,
        ShownMessage,
        ShownSummary,
        Stats,
        Status,
        Step,
        StoredFile,
        StoredMessage,
        Summary,
        SummaryRequest,
        Text,
        ToolCall,
        ToolResult,
        Transplant,
        Tree,
    )

__all__ = [
    "Answer",
    "AsyncConversation",
    "AsyncLossless",
    "Backfill",
    "Backup",
    "Bootstrapped",
    "Brief",
    "Cleaning",
    "Compaction",
    "Comparison",
    "ConfigError",
    "Context",
    "ContextMoved",
    "Conversation",
    "ConversationStatus",
    "Cue",
    "Description",
    "Detached",
    "Event",
    "Expansion",
    "Explanation",
    "Exported",
    "File",
    "FileUnavailable",
    "Finding",
    "Fix",
    "Forgotten",
    "Garbage",
    "GrantRefused",
    "Health",
    "Hit",
    "Hits",
    "ImportReport",
    "Ingested",
    "InstallRefused",
    "InvalidInput",
    "ListedConversation",
    "ListedMessage",
    "ListedSummary",
    "Listing",
    "Lossless",
    "LosslessError",
    "Message",
    "MessageTail",
    "Migration",
    "Nearest",
    "Neighbours",
    "NotFound",
    "Opaque",
    "Operation",
    "Outcome",
    "Pin",
    "Plan",
    "Proof",
    "Pruning",
    "Reasoning",
    "Rejection",
    "Renewed",
    "Restored",
    "Revision",
    "Settings",
    "ShownConversation",
    "ShownFile",
    "ShownMessage",
    "ShownSummary",
    "Stats",
    "Status",
    "Step",
    "StoreError",
    "StoredFile",
    "StoredMessage",
    "SummarizerError",
    "Summary",
    "SummaryRequest",
    "Text",
    "ToolCall",
    "ToolResult",
    "Transplant",
    "Tree",
    "Watch",
    "Worker",
    "__version__",
]

# `import lossless` loads none of these modules: each is imported when one of its names is first used.
_MODULES = {
    "aio": (
        "AsyncConversation",
        "AsyncLossless",
    ),
    "client": (
        "Conversation",
        "Lossless",
    ),
    "config": ("Settings",),
    "engine.import_history.watch": ("Watch",),
    "engine.worker": ("Worker",),
    "errors": (
        "ConfigError",
        "ContextMoved",
        "FileUnavailable",
        "GrantRefused",
        "InstallRefused",
        "InvalidInput",
        "LosslessError",
        "NotFound",
        "StoreError",
        "SummarizerError",
    ),
    "events": ("Event",),
}
_HOMES = dict.fromkeys(__all__, "model") | {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a type checker reads the imports above instead, and so notices a name that does not exist

    def __getattr__(name: str) -> object:
        """Import a public name from its module when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module 'lossless' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"lossless.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        """List the public names, also those that are not imported yet."""
        return sorted({*globals(), *__all__})
