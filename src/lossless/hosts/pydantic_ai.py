"""Memory for agents of pydantic-ai: one capability that stores, shows summaries and brings recall tools.

    memory = LosslessMemory(lcm, window=200_000)
    agent = Agent("openai:gpt-5.4", capabilities=[memory])
    agent.run_sync("Hello", conversation_id="user-42")

Each message of a run is stored, by its conversation id. Before each attempt at a model request the capability replaces the
messages of that request, and only those: the history that a run returns stays complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_ai import RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    CompactionPart,
    FilePart,
    FileUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.toolsets import FunctionToolset

from lossless.aio import AsyncLossless
from lossless.client import Conversation, Lossless
from lossless.engine.ingest.message_digest import digest
from lossless.hosts.frameworks import GUIDANCE, Memory, OpenRuns, Window, in_thread, is_summary, recall, tool_schemas
from lossless.model import Context, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

__all__ = ["LosslessMemory"]

HOST = "pydantic-ai"
_PLAIN = ("text", "tool-call")
"""The parts of a reply that our own values can express in full."""
_SAID = (SystemPromptPart, UserPromptPart, ToolReturnPart, RetryFeedbackPart)


class Piece(NamedTuple):
    """One message of ours, and what it was made from: a part of a request, or a whole response."""

    message: Message
    source: ModelMessage
    part: Any


class LosslessMemory(AbstractCapability[Any]):
    """The memory of an agent, for `Agent(capabilities=[LosslessMemory(lcm)])`. One serves any number of conversations.

    `window` is the model's context window in tokens, or a window by model name; `reserve` is kept for instructions, tool
    schemas and the reply (by default an eighth of the window). `parent` is the conversation id of the agent that calls this one.
    """

    def __init__(
        self,
        lcm: Lossless | AsyncLossless,
        *,
        window: Window = None,
        reserve: int | None = None,
        parent: str | None = None,
    ) -> None:
        super().__init__()
        self._memory = Memory(HOST, lcm, package="pydantic-ai-slim", window=window, reserve=reserve)
        self._parent = parent
        self._runs: OpenRuns[list[Piece]] = OpenRuns()

    def conversation(self, conversation_id: str) -> Conversation:
        """Return the conversation of an id, with its verbs: messages, grep, compact, pin and the others."""
        parent = self._parent if self._parent != conversation_id else None
        return self._memory.chat(conversation_id, parent)

    def get_instructions(self) -> str:
        """Explain summaries and the recall tools to the model."""
        return GUIDANCE

    def get_toolset(self) -> FunctionToolset[Any]:
        """Return the recall tools, which read the conversation of the run that calls them."""
        return FunctionToolset([self._tool(*each) for each in tool_schemas()])

    def _tool(self, name: str, description: str, schema: dict[str, Any]) -> Tool[Any]:
        async def call(ctx: RunContext[Any], **arguments: Any) -> str:
            return await in_thread(recall, self._memory, self._chat(ctx), name, arguments)

        return Tool.from_schema(call, name, description, schema, takes_ctx=True)

    def _chat(self, ctx: RunContext[Any]) -> Conversation:
        return self.conversation(ctx.conversation_id or ctx.run_id or "unnamed")

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Store what is new, and replace the messages of this request with the view of the conversation."""
        model = request_context.model.model_name
        chat, memory = self._chat(ctx), self._memory
        held = pieces(ctx.messages, self._runs.end(ctx.run_id or ""))
        self._runs.keep(ctx.run_id or "", held)
        await in_thread(memory.attempt, "store", self._store, chat, held, model)
        shown = await in_thread(memory.attempt, "assemble", self._shown, chat, request_context.messages, held, model)
        return request_context if shown is None else replace(request_context, messages=shown)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Store the reply as soon as it is complete: a tool that fails next must not lose it."""
        model, used = request_context.model.model_name, response.usage.input_tokens
        usage = {"input_tokens": used} if used else None
        piece = Piece(_reply(response, ours=True), response, None)
        await in_thread(self._memory.attempt, "store", self._store, self._chat(ctx), [piece], model, usage, ended=False)
        return response

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Store what the run added after its last model request."""
        model = ctx.model.model_name
        held = pieces(result.all_messages(), self._runs.end(ctx.run_id or ""))
        await in_thread(self._memory.attempt, "store", self._store, self._chat(ctx), held, model)
        return result

    # On a worker thread

    def _store(
        self,
        chat: Conversation,
        held: Sequence[Piece],
        model: str,
        usage: dict[str, int] | None = None,
        *,
        ended: bool = True,
    ) -> int:
        messages = [piece.message for piece in held]
        if ended:
            return self._memory.store_list(chat, messages, model=model, whole=True, follow=True, usage=usage)
        return self._memory.store(chat, messages, model=model, usage=usage)

    def _shown(
        self, chat: Conversation, messages: Sequence[ModelMessage], stored: Sequence[Piece], model: str
    ) -> list[ModelMessage]:
        held = pieces(messages, stored)
        context = self._memory.view(chat, [piece.message for piece in held], model=model)
        return wire(context, held, messages)


# From their messages to ours


def pieces(messages: Sequence[ModelMessage], read: Sequence[Piece] | None = None) -> list[Piece]:
    """Return the messages of a history as ours: one for each reply, and for each part of a request.

    `read` are pieces of the same run: what they were made from is not read again.
    """
    known: dict[int, list[Piece]] = {}
    for piece in read or ():
        known.setdefault(id(piece.source), []).append(piece)
    return [piece for each in messages for piece in known.get(id(each)) or _pieces(each)]


def _pieces(message: ModelMessage) -> Iterator[Piece]:
    if isinstance(message, ModelResponse):
        yield Piece(_reply(message, ours=message.run_id is not None), message, None)
        return
    for part in message.parts:
        # A message without a run was written by the application, perhaps again each time: its place identifies it.
        name = _name(part) if message.run_id is not None else None
        said = _asked(part, name)
        if said is not None:
            yield Piece(said, message, part)


def _name(part: Any) -> str:
    """Return an id that a part keeps for good: it has none, but its time is exact and stored with it."""
    at = getattr(part, "timestamp", None)
    return f"{part.part_kind}:{'' if at is None else at.isoformat()}:{getattr(part, 'tool_call_id', '')}"


def _asked(part: Any, name: str | None) -> Message | None:
    """Return a part of a request; None for the bookkeeping of the framework, which is no part of a conversation."""
    if not _is_said(part):
        return None
    at = getattr(part, "timestamp", None)
    match part:
        case SystemPromptPart():
            return Message("system", (Text(part.content),), at=at, event_id=name)
        case ToolReturnPart():
            return Message("tool", (_result(part),), at=at, event_id=name)
        case UserPromptPart():
            content = [part.content] if isinstance(part.content, str) else part.content
            return Message("user", tuple(_content(each) for each in content), at=at, event_id=name)
        case RetryFeedbackPart():
            return Message("user", (Text(part.model_response()),), at=at, event_id=name)
        case _:
            return Message("user", (Text(part.content),), event_id=name)


def _is_said(part: Any) -> bool:
    """Return whether a part of a request belongs to the conversation."""
    return bool(part.content) if isinstance(part, CompactionPart) else isinstance(part, _SAID)


def _content(content: Any) -> Part:
    match content:
        case str():
            return Text(content)
        case TextContent():
            return Text(content.content)
        case BinaryContent():
            return File(content.media_type, None, content.base64)
        case FileUrl():
            kind = "image/*" if isinstance(content, ImageUrl) else None
            return File(kind, url=content.url)
        case _:
            return Opaque(getattr(content, "kind", "content"), _json(UserPromptPart([content]))["content"][0])


def _result(part: ToolReturnPart) -> ToolResult:
    failed = part.outcome not in ("success", None)
    return ToolResult(part.tool_call_id, (Text(part.model_response_str()),), part.tool_name, is_error=failed)


def _json(part: Any) -> dict[str, Any]:
    (request,) = ModelMessagesTypeAdapter.dump_python([ModelRequest([part])], mode="json")
    found: dict[str, Any] = request["parts"][0]
    return found


def _reply(response: ModelResponse, *, ours: bool) -> Message:
    """Return a response as a message. What our values cannot express is kept beside them, for the same model."""
    extra = {}
    if any(part.part_kind not in _PLAIN for part in response.parts):
        (extra["pydantic_ai"],) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
        extra["pydantic_ai"].pop("usage", None)
    name = f"response:{response.timestamp.isoformat()}" if ours else None
    parts = tuple(part for each in response.parts if (part := _said(each)) is not None)
    return Message("assistant", parts, at=response.timestamp, event_id=name, extra=extra)


def _said(part: Any) -> Part | None:
    match part:
        case TextPart():
            return Text(part.content) if part.content else None
        case ThinkingPart():
            return Reasoning(part.content, part.signature)
        case ToolCallPart():
            return ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str())
        case FilePart():
            return File(part.content.media_type, None, part.content.base64)
        case _:
            return Opaque(part.part_kind)


# From our context to theirs


def wire(context: Context, held: Sequence[Piece], messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return a context as messages of the framework: its own wherever they are shown unchanged."""
    known = {_identity(piece.message): piece for piece in held}
    shown: list[ModelMessage] = []
    for is_reply, run in groupby(context.messages, lambda message: message.role == "assistant"):
        found = [(message, _unchanged(message, known)) for message in run]
        if is_reply:
            shown += [piece.source if piece else _response(message) for message, piece in found]
        else:
            shown.append(_request(found))
    return _with_bookkeeping(shown, messages)


def _identity(message: Message) -> str | bytes:
    return message.event_id or digest(message, lambda role, text: text)


def _unchanged(message: Message, known: dict[str | bytes, Piece]) -> Piece | None:
    piece = known.get(_identity(message))
    return piece if piece is not None and piece.message.parts == message.parts else None


def _response(message: Message) -> ModelResponse:
    """Return a reply that the framework does not hold, or that is shown in part."""
    stored = message.extra.get("pydantic_ai")
    if stored is not None:
        (exact,) = ModelMessagesTypeAdapter.validate_python([stored])
        if isinstance(exact, ModelResponse) and _reply(exact, ours=True).parts == message.parts:
            return exact
    parts: list[Any] = []
    for part in message.parts:
        match part:
            case Text(text):
                parts.append(TextPart(text))
            case ToolCall(call_id, name, arguments):
                parts.append(ToolCallPart(name, arguments, tool_call_id=call_id))
            case _:
                pass  # reasoning and native parts are of use only as the provider wrote them
    return ModelResponse(parts or [TextPart("(left out)")])


def _request(found: Sequence[tuple[Message, Piece | None]]) -> ModelRequest:
    """Return neighbouring messages as one request: providers want no two of a user in a row."""
    sources = [piece.source for _, piece in found if piece is not None]
    only = sources[0] if sources and all(each is sources[0] for each in sources) else None
    if isinstance(only, ModelRequest) and len(sources) == len(found) == sum(_is_said(each) for each in only.parts):
        return only
    parts = [part for message, piece in found for part in ([piece.part] if piece else _parts(message))]
    parts.sort(key=lambda part: not isinstance(part, ToolReturnPart))
    last = sources[-1] if sources else None
    return replace(last, parts=parts) if isinstance(last, ModelRequest) else ModelRequest(parts)


def _parts(message: Message) -> Iterator[Any]:
    if is_summary(message):
        yield CompactionPart(message.text, metadata={"lossless": True})
        return
    if message.role in ("system", "developer"):
        yield SystemPromptPart(message.text)
        return
    for part in message.parts:
        if isinstance(part, ToolResult):
            text = "\n".join(each.text for each in part.parts if isinstance(each, Text))
            outcome: Any = "failed" if part.is_error else "success"
            yield ToolReturnPart(part.name or "tool", text, part.call_id, outcome=outcome)
    content = [each for part in message.parts if (each := _shown_content(part)) is not None]
    if content:
        yield UserPromptPart(content[0] if len(content) == 1 and isinstance(content[0], str) else content)


def _shown_content(part: Part) -> Any:
    match part:
        case Text(text):
            return text
        case File(mime, _, data, _) if data is not None and mime:
            return BinaryContent.from_data_uri(f"data:{mime};base64,{data}")
        case File(_, _, _, url) if url:
            return ImageUrl(url)
        case _:
            return None


def _with_bookkeeping(shown: list[ModelMessage], messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with the framework's bookkeeping of requests that are not shown: it stays in force."""
    there = {id(part) for each in shown if isinstance(each, ModelRequest) for part in each.parts}
    kept = [
        part
        for each in messages
        if isinstance(each, ModelRequest)
        for part in each.parts
        if not _is_said(part) and id(part) not in there
    ]
    if not kept or not shown or not isinstance(shown[0], ModelRequest):
        return shown
    return [replace(shown[0], parts=[*kept, *shown[0].parts]), *shown[1:]]
