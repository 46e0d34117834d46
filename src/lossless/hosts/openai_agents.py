"""Memory for agents of the OpenAI Agents SDK: a session, a filter of each model call, and recall tools.

    session = LosslessSession("user-42", lcm, window=200_000)
    agent = Agent(name="assistant", tools=recall_tools())
    await Runner.run(agent, "Hello", session=session, run_config=session.run_config())

The session stores every item and returns summaries with the newest items. The filter does the same before each model call,
so that a long turn of tool calls stays within the window. Nothing that the SDK holds is changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from agents import Agent, FunctionTool, RunConfig
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.run_config import CallModelData, ModelInputData
from agents.tool_context import ToolContext

from lossless.aio import AsyncLossless
from lossless.client import Conversation, Lossless
from lossless.client.host_access import HostAccess
from lossless.engine import sessions
from lossless.errors import InvalidInput
from lossless.formats import openai_responses
from lossless.hosts.frameworks import GUIDANCE, Memory, Window, in_thread, recall, tool_schemas
from lossless.model import Context, Message, StoredMessage
from lossless.store import jsontext

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

__all__ = ["LosslessSession", "recall_tools"]

HOST = "openai-agents"
_PAGE = 64
_HEADS = 8
_active: ContextVar[LosslessSession | None] = ContextVar("lossless_session", default=None)


class LosslessSession:
    """One conversation as a session of the SDK.

    `window` is the model's context window in tokens, or a window by model name; `reserve` is kept for instructions, tool
    schemas and the reply (by default an eighth of the window). `parent` is the session of the agent that called this one.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        lcm: Lossless | AsyncLossless,
        *,
        window: Window = None,
        reserve: int | None = None,
        model: str | None = None,
        parent: LosslessSession | None = None,
    ) -> None:
        self.session_id = session_id
        self._memory = Memory(HOST, lcm, package=HOST, window=window, reserve=reserve)
        self._model = model
        self._chat = self._memory.chat(session_id, parent.session_id if parent else None)
        self._unsaved: list[TResponseInputItem] = []
        """Items that could not be stored; they are stored with the next ones."""
        self._held: list[TResponseInputItem] = []
        """The last view and the items since: what is used while the memory does not answer."""
        self._heads: deque[str] = deque(maxlen=_HEADS)
        """How the lists begin that belong to this session: a nested run inherits the filter, but not the list."""

    @property
    def conversation(self) -> Conversation:
        """The conversation with its verbs: messages, grep, compact, pin and the others."""
        return self._chat

    def run_config(self, config: RunConfig | None = None) -> RunConfig:
        """Return a run configuration with the filter of this session; a filter that it has already runs first."""
        config = config or RunConfig()
        return replace(config, call_model_input_filter=partial(self._filter_after, config.call_model_input_filter))

    # The protocol of sessions

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the view of the conversation; with a `limit`, the newest items exactly as they were added."""
        _active.set(self)
        if limit is not None:
            newest = await in_thread(self._memory.attempt, "get_items", self._newest, limit)
            found = [*(self._held if newest is None else newest), *self._unsaved]
            return found[-limit:] if limit > 0 else []
        context = await in_thread(self._memory.attempt, "get_items", self._view)
        if context is not None:
            self._held = [*_sendable(openai_responses.dump(context, model=self._model)), *self._unsaved]
        self._heads.append(_mark(self._held[0]) if self._held else "")
        return list(self._held)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store the items of a turn."""
        if not items:
            return
        self._held += items
        waiting = [*self._unsaved, *items]
        stored = await in_thread(self._memory.attempt, "store", self._store, waiting)
        self._unsaved = waiting if stored is None else []

    async def pop_item(self) -> TResponseInputItem | None:
        """Withdraw the newest item and return it. It leaves the context, and stays stored."""
        if self._held:
            self._held.pop()
        if self._unsaved:
            return self._unsaved.pop()
        return await in_thread(self._memory.attempt, "pop_item", self._withdraw)

    async def clear_session(self) -> None:
        """Archive the conversation and start a fresh one. Recall still reaches what was archived."""
        self._held, self._unsaved = [], []
        await in_thread(self._memory.attempt, "clear_session", self._chat.reset)

    # The filter

    async def filter(self, data: CallModelData[Any]) -> ModelInputData:
        """Return what the model is shown: for `RunConfig(call_model_input_filter=session.filter)`."""
        _active.set(self)
        given = data.model_data
        model = _model_name(data.agent) or self._model
        is_own = self._is_own(given.input)
        shown = await in_thread(self._memory.attempt, "filter", self._shown, given, model, is_own)
        return shown or given

    async def _filter_after(self, first: Any, data: CallModelData[Any]) -> ModelInputData:
        if first is not None:
            found = first(data)
            changed = await found if hasattr(found, "__await__") else found
            data = replace(data, model_data=changed)
        return await self.filter(data)

    def _is_own(self, items: list[TResponseInputItem]) -> bool:
        """Return whether a list continues a view of this session.

        Others are lists of nested agents, which inherit the filter, and lists that a handoff or a callback rewrote.
        """
        if not items:
            return False
        head = _mark(items[0])
        if head not in self._heads and (not self._heads or "" in self._heads):
            # The first call of a run whose session was empty: what it begins with is known only now.
            self._heads = deque([each for each in self._heads if each] + [head], maxlen=_HEADS)
        return head in self._heads

    # On a worker thread

    def _shown(self, given: ModelInputData, model: str | None, is_own: bool) -> ModelInputData | None:
        live = openai_responses.load(given.input)
        context: Context | None
        if is_own:
            context = self._memory.view(self._chat, live, model=model)
        else:
            context = self._memory.bounded(live, model=model)
        if context is None:
            return None
        system = "\n\n".join([*([given.instructions] if given.instructions else []), *([GUIDANCE] if is_own else [])])
        request = openai_responses.dump(context, system=system or None, model=model)
        return ModelInputData(input=_sendable(request), instructions=request.get("instructions"))

    def _view(self) -> Context:
        window, reserve = self._memory.window(self._model), self._memory.reserve(self._model)
        if not HostAccess(self._chat).has_messages:
            return Context((), 0)
        return self._chat.assemble(window, reserve=reserve, prompt_follows=True, model=self._model)

    def _store(self, items: list[TResponseInputItem]) -> int:
        return self._memory.store(self._chat, openai_responses.load(items), model=self._model)

    def _newest(self, count: int) -> list[TResponseInputItem]:
        found: list[TResponseInputItem] = []
        for stored in self._stored_backwards():
            found[:0] = _items(stored.message)
            if len(found) >= count:
                break
        return found[-count:] if count else []

    def _withdraw(self) -> TResponseInputItem | None:
        stored = next(self._stored_backwards(), None)
        if stored is None:
            return None
        if not HostAccess(self._chat).withdraw([stored.seq]):
            raise InvalidInput("The newest item is part of a summary and cannot be withdrawn.")
        *rest, last = _items(stored.message)
        if rest:
            # The other items of that reply stay in the conversation.
            self._chat.ingest(openai_responses.load(rest))
        return last

    def _stored_backwards(self) -> Iterator[StoredMessage]:
        """Yield the stored messages that were not withdrawn, newest first."""
        row = self._chat._row()
        if row is None:
            return
        gone = {each.id for each in self._chat.detached() if each.cause == sessions.WITHDRAWN}
        end = row.next_seq - 1
        while end > 0:
            start = max(0, end - _PAGE)
            page = self._chat.messages(after=start, limit=end - start)
            yield from (each for each in reversed(page) if f"msg#{each.id}" not in gone)
            end = start


def recall_tools(session: LosslessSession | None = None) -> list[FunctionTool]:
    """Return the recall tools for an agent: of a session, or of the session of whichever run calls them."""

    def tool(name: str, description: str, schema: dict[str, Any]) -> FunctionTool:
        async def call(context: ToolContext[Any], arguments: str) -> str:
            used = session or _active.get()
            if used is None:
                return "There is no memory: this run has no LosslessSession."
            return await in_thread(recall, used._memory, used._chat, name, arguments)

        return FunctionTool(name, description, schema, call, strict_json_schema=False)

    return [tool(*each) for each in tool_schemas()]


def _sendable(request: dict[str, Any]) -> list[TResponseInputItem]:
    """Return the items of a request, each in a form that every model of the SDK takes.

    Its chat models know a reply by its id. The SDK itself writes a placeholder where there is none, and never sends it.
    """
    items: list[Any] = [
        item | {"type": "message", "id": FAKE_RESPONSES_ID}
        if item.get("role") == "assistant" and isinstance(item.get("content"), list) and "id" not in item
        else item
        for item in request["input"]
    ]
    return items


def _items(message: Message) -> list[TResponseInputItem]:
    return cast("list[TResponseInputItem]", openai_responses.dump_items(message))


def _mark(item: TResponseInputItem) -> str:
    """Return a digest of what an item says; its id and status may be dropped on the way."""
    record = cast("dict[str, Any]", item)
    said = {key: value for key, value in record.items() if key not in ("id", "status", "type") and value is not None}
    return sha256(jsontext.dumps(said).encode("utf-8", "surrogatepass")).hexdigest()


def _model_name(agent: Agent[Any]) -> str | None:
    model = agent.model
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) else None
