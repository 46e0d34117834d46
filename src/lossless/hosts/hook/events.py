"""The events of Claude Code and Codex, and the answers they understand. Pure."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from lossless.errors import InvalidInput

CAPTURED = (
    *("SessionEnd", "SubagentStart", "SubagentStop", "PostCompact", "StopFailure"),
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "Notification"),
)
"""Events that have no answer: the transcript is read, and that is all."""
KNOWN = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", *CAPTURED)
ENDS = ("Stop", "StopFailure", "SessionEnd")
"""Events after which the conversation may be idle, so that it can be compacted."""
_BLOCKED = "lossless keeps this conversation and writes its summaries (setting hook_block_compaction)."


class HookEvent(Struct, frozen=True):
    """One event of a host. Fields that a host leaves out are empty, and unknown ones are ignored."""

    hook_event_name: str
    session_id: str = ""
    transcript_path: str | None = None
    agent_transcript_path: str | None = None
    cwd: str = ""
    source: str = ""
    prompt: str = ""

    @property
    def is_known(self) -> bool:
        return self.hook_event_name in KNOWN


def decode(data: bytes) -> HookEvent:
    """Read an event; raise `InvalidInput` for anything else."""
    try:
        return msgspec.json.decode(data, type=HookEvent)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The event cannot be read: {error}.", hint="Hosts call `lcm hook` themselves.") from error


def added_context(event: HookEvent, text: str) -> bytes:
    """Return the answer that adds a text to the host's context; empty without a text."""
    if not text:
        return b""
    output = {"hookEventName": event.hook_event_name, "additionalContext": text}
    return msgspec.json.encode({"hookSpecificOutput": output})


def blocked_compaction() -> bytes:
    """Return the answer that keeps a host from compacting."""
    return msgspec.json.encode({"decision": "block", "reason": _BLOCKED})
