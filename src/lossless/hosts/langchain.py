"""Memory for LangChain agents: one middleware that stores, shows summaries and brings recall tools.

    memory = LosslessMiddleware(lcm, window=200_000)
    agent = create_agent("openai:gpt-5.4", middleware=[memory], checkpointer=checkpointer)
    agent.invoke({"messages": [("user", "Hello")]}, {"configurable": {"thread_id": "user-42"}})

Each message of the state is stored, by its id, in the conversation of its thread. Around each model call the middleware
replaces the messages of that request, and only those: the state and its checkpoints stay complete.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config
from langgraph.runtime import Runtime

from lossless.aio import AsyncLossless
from lossless.client import Conversation, Lossless
from lossless.hosts.frameworks import GUIDANCE, Memory, OpenRuns, Window, in_thread, recall, tool_schemas
from lossless.model import Context, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

__all__ = ["LosslessMiddleware"]

HOST = "langchain"
_CALLED = "tools"
"""The node that runs tools: a graph below it is a sub-agent, and each call of it a conversation of its own."""
_CALLS = ("tool_use", "tool_call", "function_call")
"""Blocks that repeat what `tool_calls` says."""
_FILES = ("image", "audio", "video", "file")


class Thread(NamedTuple):
    """The conversation of a model call, and whether a checkpointer keeps its messages and their ids."""

    chat: Conversation
    is_kept: bool


class Pair(NamedTuple):
    """A message of ours, and the framework's that it was made from."""

    message: Message
    theirs: AnyMessage


class LosslessMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """The memory of an agent, for `create_agent(middleware=[LosslessMiddleware(lcm)])`. One serves any number of threads.

    `window` is the model's context window in tokens, or a window by model name; `reserve` is kept for the system prompt, tool
    schemas and the reply (by default an eighth of the window). `thread` names the conversation where runs have no `thread_id`.
    """

    def __init__(
        self,
        lcm: Lossless | AsyncLossless,
        *,
        window: Window = None,
        reserve: int | None = None,
        thread: str | None = None,
    ) -> None:
        super().__init__()
        self._memory = Memory(HOST, lcm, package="langchain", window=window, reserve=reserve)
        self._thread = thread
        self._runs: OpenRuns[list[Pair]] = OpenRuns()
        self.tools: Sequence[BaseTool] = [self._tool(*each) for each in tool_schemas()]

    def conversation(self, thread_id: str) -> Conversation:
        """Return the conversation of a thread, with its verbs: messages, grep, compact, pin and the others."""
        return self._memory.chat(thread_id)

    def _tool(self, name: str, description: str, schema: dict[str, Any]) -> BaseTool:
        def call(config: RunnableConfig, **arguments: Any) -> str:
            found = self._found(config)
            if found is None:
                return "There is no memory: this run has no thread_id."
            return recall(self._memory, found.chat, name, arguments)

        async def acall(config: RunnableConfig, **arguments: Any) -> str:
            return await in_thread(call, config, **arguments)

        return StructuredTool.from_function(
            call, acall, name, description, args_schema=schema, infer_schema=False, parse_docstring=False
        )

    # The hooks

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Store what is new in the state, and show the model the view of the conversation."""
        return handler(self._prepared(request, get_config()))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Do the same without holding the event loop."""
        return await handler(await in_thread(self._prepared, request, get_config()))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Store the last reply of a run."""
        self._keep(state, get_config())

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do the same without holding the event loop."""
        await in_thread(self._keep, state, get_config())

    # What they do

    def _prepared(self, request: ModelRequest[Any], config: RunnableConfig) -> ModelRequest[Any]:
        found = self._found(config)
        if found is None:
            self._memory.report(
                "thread", "There is no thread_id in the configuration of the run, and nothing is stored."
            )
            return request
        model = _model_name(request.model)
        self._memory.attempt("store", self._store, found, request.state["messages"], model)
        shown = self._memory.attempt("assemble", self._shown, found, request.messages, model)
        return request if shown is None else request.override(messages=shown, system_message=_guided(request))

    def _keep(self, state: AgentState[Any], config: RunnableConfig) -> None:
        found = self._found(config)
        if found is not None:
            self._memory.attempt("store", self._store, found, state["messages"], None)

    def _store(self, thread: Thread, messages: Sequence[AnyMessage], model: str | None) -> int:
        """Store a state: known by ids if a checkpointer keeps them, else by place, as each run makes new ids."""
        held = pairs(messages, thread.is_kept, self._runs.end(thread.chat.key))
        if model:
            self._runs.keep(thread.chat.key, held)
        # Each count is used once: by the model call after it, which knows the name that the model is asked by.
        usage = _usage(messages) if model else None
        ours, kept = [message for message, _ in held], thread.is_kept
        return self._memory.store_list(thread.chat, ours, model=model, whole=not kept, follow=kept, usage=usage)

    def _shown(self, thread: Thread, messages: Sequence[AnyMessage], model: str | None) -> list[AnyMessage]:
        held = pairs(messages, thread.is_kept, self._runs.get(thread.chat.key))
        context = self._memory.view(thread.chat, [message for message, _ in held], model=model)
        return wire(context, held)

    def _found(self, config: RunnableConfig) -> Thread | None:
        """Return the conversation of a run: of its thread, or of the sub-agent's call within it."""
        given = config.get("configurable", {})
        thread = given.get("thread_id") or self._thread
        if thread is None:
            return None
        below = "/".join(_graphs_above(str(given.get("checkpoint_ns") or "")))
        is_kept = given.get("__pregel_checkpointer") is not None
        chat = self._memory.chat(f"{thread}/{below}", str(thread)) if below else self._memory.chat(str(thread))
        return Thread(chat, is_kept)


def _graphs_above(namespace: str) -> Iterator[str]:
    """Yield the graphs around the one that runs, by node; a tool call also by its id, since each is a task of its own."""
    for step in namespace.split("|")[:-1]:
        node, _, task = step.partition(":")
        yield step if node == _CALLED else node or task


def _model_name(model: object) -> str | None:
    for name in ("model_name", "model"):
        found = getattr(model, name, None)
        if isinstance(found, str):
            return found
    return None


def _guided(request: ModelRequest[Any]) -> SystemMessage:
    """Return the system message with the text about summaries and recall tools after it."""
    system = request.system_message
    if system is None:
        return SystemMessage(GUIDANCE)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{GUIDANCE}"})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": GUIDANCE}]})


def _usage(messages: Sequence[AnyMessage]) -> dict[str, int] | None:
    """Return what the newest reply reports of its request."""
    last = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
    used = last.usage_metadata if last else None
    return {"input_tokens": used["input_tokens"]} if used and used["input_tokens"] else None


# From their messages to ours


def pairs(messages: Sequence[AnyMessage], named: bool, read: Sequence[Pair] | None = None) -> list[Pair]:
    """Return our messages with those they were made from; what is among the pairs of `read` is not read again."""
    known = {id(theirs): message for message, theirs in read or ()}
    found = ((known.get(id(each)) or to_ours(each, named=named), each) for each in messages)
    return [Pair(message, theirs) for message, theirs in found if message is not None]


def to_ours(message: BaseMessage, *, named: bool = True) -> Message | None:
    """Return a message as ours; None for one that only instructs the graph."""
    name = message.id if named else None
    match message:
        case HumanMessage():
            return Message("user", tuple(_blocks(message.content)), name=message.name, event_id=name)
        case AIMessage():
            parts = (*_blocks(message.content), *_calls(message))
            return Message("assistant", parts, event_id=name, extra=_exact(message))
        case ToolMessage():
            inner = tuple(part for part in _blocks(message.content) if isinstance(part, (Text, File, Opaque)))
            failed = message.status == "error"
            result = ToolResult(message.tool_call_id, inner, message.name, is_error=failed)
            return Message("tool", (result,), event_id=name)
        case SystemMessage():
            return Message("system", tuple(_blocks(message.content)), event_id=name)
        case ChatMessage():
            return Message(message.role, tuple(_blocks(message.content)), event_id=name)
        case _:
            return None


def _blocks(content: str | list[str | dict[str, Any]]) -> Iterator[Part]:
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str):
            if block:
                yield Text(block)
            continue
        kind = str(block.get("type"))
        if kind == "text":
            yield Text(str(block.get("text", "")))
        elif kind in ("thinking", "reasoning"):
            yield Reasoning(_thought(block), block.get("signature") or block.get("encrypted_content"))
        elif kind not in _CALLS:
            yield _file(kind, block)


def _thought(block: dict[str, Any]) -> str:
    summary = block.get("summary")
    if isinstance(summary, list):
        return "\n".join(str(each.get("text", "")) for each in summary if isinstance(each, dict))
    return str(block.get("thinking") or block.get("reasoning") or "")


def _file(kind: str, block: dict[str, Any]) -> Part:
    if kind in _FILES and isinstance(block.get("base64"), str):
        return File(block.get("mime_type"), None, block["base64"])
    url = block.get("url") if kind in _FILES else None
    if kind == "image_url":
        inner = block.get("image_url")
        url = inner.get("url") if isinstance(inner, dict) else inner
    if isinstance(url, str):
        head, _, data = url.partition(";base64,")
        return File(head.removeprefix("data:"), None, data) if data else File("image/*", url=url)
    return Opaque(kind, block)


def _calls(message: AIMessage) -> Iterator[Part]:
    for call in message.tool_calls:
        yield ToolCall(call["id"] or "", call["name"], json.dumps(call["args"], ensure_ascii=False))
    for wrong in message.invalid_tool_calls:
        yield ToolCall(wrong["id"] or "", wrong["name"] or "", wrong["args"] or "")


def _exact(message: AIMessage) -> dict[str, Any]:
    """Return a copy of what our values cannot express, for a thread whose checkpoint is gone."""
    if isinstance(message.content, str) and not message.additional_kwargs:
        return {}
    data = message_to_dict(message)
    data["data"].pop("usage_metadata", None)
    return {"langchain": data}


# From our context to theirs


def wire(context: Context, held: Sequence[Pair]) -> list[AnyMessage]:
    """Return a context as messages of the framework: its own wherever they are shown unchanged."""
    known: dict[str | None, Pair] = {pair.message.event_id: pair for pair in held if pair.message.event_id}
    nameless = [pair for pair in held if not pair.message.event_id]
    return [_theirs(message, known, nameless) for message in context.messages]


def _theirs(message: Message, known: dict[str | None, Pair], nameless: Sequence[Pair]) -> AnyMessage:
    same = [known[message.event_id]] if message.event_id in known else nameless
    for ours, theirs in same:
        if ours.role == message.role and ours.parts == message.parts:
            return theirs
    return _exact_again(message) or _made(message)


def _exact_again(message: Message) -> AnyMessage | None:
    stored = message.extra.get("langchain")
    if stored is None:
        return None
    exact = messages_from_dict([stored])[0]
    ours = to_ours(exact)
    return exact if isinstance(exact, AIMessage) and ours is not None and ours.parts == message.parts else None


def _made(message: Message) -> AnyMessage:
    """Return a message that the framework does not hold, or that is shown in part."""
    if message.role == "assistant":
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        made = [
            {"id": call.call_id, "name": call.name, "args": _arguments(call), "type": "tool_call"} for call in calls
        ]
        return AIMessage(message.text, tool_calls=made)
    if message.role == "tool":
        result = next(part for part in message.parts if isinstance(part, ToolResult))
        status: Any = "error" if result.is_error else "success"
        return ToolMessage(_content(result.parts), tool_call_id=result.call_id, name=result.name, status=status)
    if message.role in ("system", "developer"):
        return SystemMessage(message.text)
    return HumanMessage(_content(message.parts), name=message.name)


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        found = json.loads(call.arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _content(parts: Sequence[Part]) -> Any:
    texts = [part.text for part in parts if isinstance(part, Text)]
    files = [block for part in parts if isinstance(part, File) and (block := _block(part)) is not None]
    if not files:
        return "\n".join(texts)
    return [*({"type": "text", "text": text} for text in texts), *files]


def _block(file: File) -> dict[str, Any] | None:
    kind = (file.mime or "").partition("/")[0]
    kind = kind if kind in _FILES else "file"
    if file.data is not None:
        return {"type": kind, "base64": file.data, "mime_type": file.mime}
    return {"type": kind, "url": file.url} if file.url else None
