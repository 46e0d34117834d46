"""The values of lossless, e.g. messages, summaries, contexts and reports.

Every name can be imported from here; its module is loaded when it is first used.
Values are frozen and compare by value. Only stored ones (`StoredMessage`, `Summary`) have an id.
They cannot form cycles, so the garbage collector need not walk them (`gc=False`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.model.context import *
    from lossless.model.erase import *
    from lossless.model.health import *
    from lossless.model.lists import *
    from lossless.model.messages import *
    from lossless.model.recall import *
    from lossless.model.sessions import *
    from lossless.model.status import *
    from lossless.model.summaries import *
    from lossless.model.surgery import *
    from lossless.model.transfer import *

_NAMES = {
    "context": "Item LeftOut Context Rejection Detached Explanation Pin Brief",
    "erase": "OldConversation Pruning Garbage Forgotten",
    "health": "Severity Finding Health Proof FixStep Fix Junk Cleaning",
    "lists": "Listing ListedConversation Relative TranscriptPosition ContextFigures ShownConversation Whereabouts ListedMessage ShownMessage MessageTail Neighbours ShownFile Nearest",
    "messages": "Extra INSTRUCTIONS Text Reasoning ToolCall File Opaque ToolResult Part Message When instant StoredMessage StoredFile",
    "recall": "NearMessage Hit Hits Branch TextPage Description Excerpt Cue Skipped Expansion Evidence Share Answer",
    "sessions": "Ingested Bootstrapped Renewed",
    "status": "ConversationStatus DepthFigures SummaryHealth Holdings LaggingTranscript TranscriptLag Debt Hold Calls Volume Verdict Reason ConversationFigures FullContext Uncovered HostFigures Status RoleFigures DayFigures ModelFigures Turns Stats",
    "summaries": "LEFT_OUT Summary statements_removed suspicion SummaryRequest ModelBlock CompactionStop DebtStop Compaction ListedSummary SummarySource ShownSummary MessageRun TreeEntry Tree Revision Comparison",
    "surgery": "Transplant Step Plan Outcome Operation",
    "transfer": "MovedTable Migration Exported Backup Restored Estimate Backfill PlannedHistory ImportPlan ImportedHistory Imported ImportedSource ImportReport",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # else mypy would accept every name

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'lossless.model' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"lossless.model.{_MODULES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted(_MODULES)
