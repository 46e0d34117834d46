"""The tools of the server: those of `lossless.tools`, the state of the memory, and on request those that write."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from lossless import Conversation, Lossless, Message
from lossless.engine.shared import host_activity
from lossless.errors import InvalidInput, LosslessError, NotFound, StoreError
from lossless.mcp import schemas
from lossless.mcp.current import Place, find_current
from lossless.mcp.memory import Memory
from lossless.mcp.requests import Request, clean
from lossless.model import Compaction, Health, Ingested, Status
from lossless.tools import tools
from lossless.tools.arguments import READING, TOOLS, converted, nearest_name, offered, parameters, schema
from lossless.tools.outcomes import ToolOutcome, refusal

_READS: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_ADDS: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_TITLES: Final = {
    "lcm_grep": "Search memory",
    "lcm_describe": "Show a summary, message or file",
    "lcm_expand_query": "Answer a question from memory",
    "lcm_expand": "Read below summaries",
    "lcm_focus": "Keep a brief for a task",
}
_PATIENCE: Final = 2.0
"""Seconds that a cancelled question gets to end."""
_WITH_TEXT: Final = ("lcm_describe", "lcm_expand")
"""Tools whose details do not contain the text they return."""

_ConversationId = Annotated[
    int | None,
    Meta(description="One conversation, by the number that lcm_grep shows for it (default: the current one)."),
]
_Name = Annotated[str, Meta(description="Key of the conversation; a new key starts a new one.", min_length=1)]


class _Own(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of a tool that only this server has."""


class StatusArguments(_Own, frozen=True, kw_only=True):
    """Show how much is stored, how fresh it is, what is pending and what fails. Changes nothing."""

    conversation_id: _ConversationId = None


class DoctorArguments(_Own, frozen=True, kw_only=True):
    """Check the database for damage and inconsistencies. Changes nothing."""

    conversation_id: Annotated[int | None, Meta(description="Check one conversation (default: everything).")] = None
    checks: Annotated[tuple[str, ...], Meta(description="Only these checks, by id such as X01.")] = ()


class IngestedMessage(_Own, frozen=True, kw_only=True):
    """One message."""

    role: Literal["user", "assistant", "system"]
    text: str
    id: Annotated[str | None, Meta(description="Your id of the message: sent again, it is stored once.")] = None


class IngestArguments(_Own, frozen=True, kw_only=True):
    """Store messages of a conversation, word for word, in order. Give each an id: a repeated call then changes nothing."""

    conversation: _Name
    messages: Annotated[tuple[IngestedMessage, ...], Meta(description="The new messages, oldest first.", min_length=1)]


class CompactArguments(_Own, frozen=True, kw_only=True):
    """Replace old messages of a context with summaries, as far as the window needs it. Nothing is lost, and `lcm undo` reverts it."""

    conversation_id: _ConversationId = None
    window: Annotated[int | None, Meta(description="Context window in tokens.", extra_json_schema={"minimum": 1})] = (
        None
    )
    force: Annotated[bool, Meta(description="Also below the threshold.")] = False


class Tool(Struct, frozen=True):
    """One tool as clients see it, and whether it writes."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    annotations: dict[str, bool]

    def listed(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": {"title": self.title, **self.annotations},
        }


class _OwnTool(Struct, frozen=True):
    title: str
    arguments: type[_Own]
    result: type[Struct]
    writes: bool = False


class Toolbox:
    """The tools of one server."""

    own: ClassVar[dict[str, _OwnTool]] = {
        "lcm_status": _OwnTool("State of the memory", StatusArguments, Status),
        "lcm_doctor": _OwnTool("Check the memory", DoctorArguments, Health),
        "lcm_ingest": _OwnTool("Store messages", IngestArguments, Ingested, writes=True),
        "lcm_compact": _OwnTool("Compact a context", CompactArguments, Compaction, writes=True),
    }

    def __init__(self, memory: Memory, place: Place, *, allow_write: bool = False, grant: str | None = None) -> None:
        self._memory, self._place, self._grant = memory, place, grant
        self._asking, self._asked = threading.Condition(), list[Request]()
        # A delegate reads under its grant, and nothing else.
        own = [] if grant else [name for name, tool in self.own.items() if allow_write or not tool.writes]
        self.names = (*offered(delegate=grant is not None, focus=allow_write), *own)

    def list(self) -> list[dict[str, Any]]:
        """Return the tools as `tools/list` shows them."""
        return [self._tool(name).listed() for name in self.names]

    def _tool(self, name: str) -> Tool:
        if name in TOOLS:
            taken = schema("mcp", name)
            title, annotations = _TITLES[name], _READS if name in READING else _ADDS
            result = schemas.RECALL.get(name, schemas.ANY)
            return Tool(name, title, taken["description"], taken["inputSchema"], result, annotations)
        own = self.own[name]
        taken = parameters(own.arguments)
        about = taken.pop("description")
        taken.pop("title", None)
        annotations = _ADDS if own.writes else _READS
        return Tool(name, own.title, about, taken, schemas.of(own.result), annotations)

    def call(self, name: str, arguments: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """Call a tool and return its result; what goes wrong is a result as well, which says what to change."""
        try:
            if name not in self.names:
                raise self._unknown(name)
            outcome = self._recall(name, arguments, request) if name in TOOLS else self._own(name, arguments, request)
        except LosslessError as error:
            if isinstance(error, StoreError):
                host_activity.record("mcp", name, error=error.message)
            outcome = refusal(error)
        return _result(outcome)

    def _unknown(self, name: str) -> InvalidInput:
        if name in self.own and self.own[name].writes:
            return InvalidInput(f"{name} writes, and this server only reads.", hint="Start it with --allow-write.")
        close = nearest_name(name, self.names)
        hint = f"Did you mean {close}? " if close else ""
        return InvalidInput(f"There is no tool {name[:80]!r}.", hint=f"{hint}There are {', '.join(self.names)}.")

    def _recall(self, name: str, arguments: Mapping[str, Any], request: Request) -> ToolOutcome:
        lcm = self._memory()
        kit = tools(self._conversation(lcm, arguments, request), self._grant, focus="lcm_focus" in self.names)

        def report(number: int) -> None:
            request.progress(number, f"Asking the model ({number})")

        with self._question(request) if name == "lcm_expand_query" else nullcontext():
            request.progress(0, "Reading history")
            outcome = kit.call(name, arguments, progress=report, cancellation=request.cancellation)
        if outcome.is_error:
            return outcome
        text = {"text": outcome.text} if name in _WITH_TEXT else {}
        return ToolOutcome(outcome.text, {"trust": "untrusted", **outcome.details, **text})

    @contextmanager
    def _question(self, request: Request) -> Iterator[None]:
        """Register a question. One that was cancelled a moment ago ends first: it would make this one be refused."""
        with self._asking:
            self._asking.wait_for(lambda: not any(each.cancellation.is_cancelled for each in self._asked), _PATIENCE)
            self._asked.append(request)
        try:
            yield
        finally:
            with self._asking:
                self._asked.remove(request)
                self._asking.notify_all()

    def _conversation(self, lcm: Lossless, arguments: Mapping[str, Any], request: Request) -> Conversation:
        """Return the conversation of a call; any, if its arguments say where to look."""
        named = arguments.get("conversationId")
        if isinstance(named, int) and not isinstance(named, bool) and 0 < named < 2**63:
            row = lcm._store.conversations.get(named)
            return lcm.conversation(row.key if row else "mcp")
        if named is not None or arguments.get("allConversations") is True or self._grant:
            return lcm.conversation("mcp")
        return find_current(lcm, self._place, request.meta)

    def _own(self, name: str, arguments: Mapping[str, Any], request: Request) -> ToolOutcome:
        taken = converted(self.own[name].arguments, arguments)
        match taken:
            case StatusArguments():
                found: Struct = self._status(taken, request)
            case DoctorArguments():
                found = self._memory().doctor(taken.conversation_id, list(taken.checks) or None)
            case IngestArguments():
                found = self._ingest(taken)
            case CompactArguments():
                found = self._compact(taken, request)
        details = msgspec.to_builtins(found, str_keys=True)
        return ToolOutcome(json.dumps(details, indent=2, ensure_ascii=False), details)

    def _status(self, taken: StatusArguments, request: Request) -> Status:
        lcm = self._memory()
        if taken.conversation_id is not None:
            return lcm.status(taken.conversation_id)
        try:
            return lcm.status(find_current(lcm, self._place, request.meta).key)
        except NotFound:  # then the figures of all
            return lcm.status()

    def _ingest(self, taken: IngestArguments) -> Ingested:
        makers = {"user": Message.user, "assistant": Message.assistant, "system": Message.system}
        messages = [makers[each.role](each.text, event_id=each.id) for each in taken.messages]
        lcm, began = self._memory(), time.monotonic()
        done = lcm.conversation(taken.conversation).ingest(messages)
        seconds, count = time.monotonic() - began, len(done.stored)
        host_activity.record("mcp", "lcm_ingest", seconds=seconds, delivered=count, database=lcm.location)
        return done

    def _compact(self, taken: CompactArguments, request: Request) -> Compaction:
        lcm = self._memory()
        if taken.conversation_id is None:
            chat = find_current(lcm, self._place, request.meta, guess=False)
        else:
            chat = lcm.find(taken.conversation_id)
        return chat.compact(taken.window, force=taken.force)


def _result(outcome: ToolOutcome) -> dict[str, Any]:
    content = [{"type": "text", "text": clean(outcome.text)}]
    if outcome.is_error:
        return {"content": content, "isError": True}
    return {"content": content, "structuredContent": clean(outcome.details), "isError": False}
