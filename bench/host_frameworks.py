"""Turns of the three Python frameworks in this process, without and with us.

Without us a framework keeps the same history by its own means and sends the newest part of it that has as many tokens as
our context: a request of 10,000 messages would fit into no model.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from host_history import WINDOW, Contest, newest, opened, texts

INSTRUCTIONS = "You keep the harbour."
NAME = "user-42"
FILL = 100
EPOCH = datetime(2026, 11, 1, tzinfo=UTC)


@contextmanager
def openai_agents(folder: Path, url: str, count: int) -> Iterator[Contest]:
    """A session of the SDK in its own SQLite file, limited to the newest items, against our session."""
    from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, set_tracing_disabled
    from agents.memory import SessionSettings
    from openai import AsyncOpenAI

    from lossless.hosts.openai_agents import LosslessSession, recall_tools

    set_tracing_disabled(True)
    said = texts(count)
    items: list[Any] = [
        {"role": role, "content": text} for role, text in zip(("user", "assistant") * len(said), said, strict=False)
    ]
    with opened(folder / "openai-agents.db") as lcm, asyncio.Runner() as loop:
        ours = LosslessSession(NAME, lcm, window=WINDOW)
        for start in range(0, len(items), FILL):
            loop.run(ours.add_items(items[start : start + FILL]))
        theirs = SQLiteSession(NAME, folder / "sdk.db")
        loop.run(theirs.add_items(items))

        def fit(size: int) -> None:
            theirs.session_settings = SessionSettings(limit=len(newest(said, size)))

        model = OpenAIResponsesModel("stand-in", AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-test"))
        plain = Agent(name="keeper", instructions=INSTRUCTIONS, model=model)
        remembering = Agent(name="keeper", instructions=INSTRUCTIONS, model=model, tools=[*recall_tools()])
        yield Contest(
            "OpenAI Agents",
            lambda prompt: loop.run(Runner.run(plain, prompt, session=theirs)),
            lambda prompt: loop.run(Runner.run(remembering, prompt, session=ours, run_config=ours.run_config())),
            fit,
            lcm.drain,
        )
        theirs.close()


@contextmanager
def pydantic_ai(folder: Path, url: str, count: int) -> Iterator[Contest]:
    """An application that keeps the newest messages, against a conversation id and no messages at all."""
    with _pydantic_ai(folder, url, count) as sides:
        held = list(sides.history)

        def without(prompt: str) -> None:
            held.extend(sides.without(prompt, held[-sides.fits() :])[-2:])

        yield Contest(
            "pydantic-ai, by id", without, lambda prompt: sides.with_us(prompt, None), sides.fit, sides.settle
        )


@contextmanager
def pydantic_ai_list(folder: Path, url: str, count: int) -> Iterator[Contest]:
    """An application that hands over all messages in each turn: a processor of its own that cuts them, against us."""
    with _pydantic_ai(folder, url, count) as sides:
        lists = list(sides.history), list(sides.history)

        # A run returns what its processor left, so the application keeps the list itself.
        def without(prompt: str) -> None:
            lists[0].extend(sides.without(prompt, list(lists[0]))[-2:])

        def with_us(prompt: str) -> None:
            lists[1].extend(sides.with_us(prompt, list(lists[1]))[-2:])

        yield Contest("pydantic-ai, whole list", without, with_us, sides.fit, sides.settle)


class Sides(NamedTuple):
    """Both sides of pydantic-ai: each takes a prompt with the messages before it, and returns all of them."""

    without: Callable[[str, Any], list[Any]]
    with_us: Callable[[str, Any], list[Any]]
    history: list[Any]
    fit: Callable[[int], object]
    fits: Callable[[], int]
    settle: Callable[[], object]


@contextmanager
def _pydantic_ai(folder: Path, url: str, count: int) -> Iterator[Sides]:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from lossless.hosts.pydantic_ai import LosslessMemory

    said = texts(count)
    times = [EPOCH + timedelta(seconds=number) for number in range(len(said))]
    history: list[Any] = [
        ModelResponse([TextPart(text)], timestamp=at, run_id="earlier")
        if number % 2
        else ModelRequest([UserPromptPart(text, timestamp=at)], run_id="earlier")
        for number, (text, at) in enumerate(zip(said, times, strict=True))
    ]
    with opened(folder / "pydantic-ai.db") as lcm, asyncio.Runner() as loop:
        memory = LosslessMemory(lcm, window=WINDOW)
        model = OpenAIChatModel("stand-in", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="sk-test"))
        remembering = Agent(model, instructions=INSTRUCTIONS, capabilities=[memory])

        async def turn(agent: Any, prompt: str, held: Any) -> list[Any]:
            done = await agent.run(prompt, message_history=held, conversation_id=NAME)
            return list(done.all_messages())

        limit = len(said)

        def fit(size: int) -> None:
            nonlocal limit
            limit = len(newest(said, size))

        plain = Agent(
            model,
            instructions=INSTRUCTIONS,
            capabilities=[ProcessHistory(lambda messages: messages[-limit - 1 :])],
        )
        loop.run(turn(remembering, "Begin.", history))
        yield Sides(
            lambda prompt, held: loop.run(turn(plain, prompt, held)),
            lambda prompt, held: loop.run(turn(remembering, prompt, held)),
            history,
            fit,
            lambda: limit,
            lcm.drain,
        )


@contextmanager
def langchain(folder: Path, url: str, count: int) -> Iterator[Contest]:
    """An agent whose checkpointer keeps all messages: a middleware that cuts the request, against ours."""
    os.environ["LANGSMITH_TRACING"] = "false"
    from langchain.agents import create_agent
    from langchain.agents.middleware import wrap_model_call
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    from lossless.hosts.langchain import LosslessMiddleware

    said = texts(count)
    history = [(AIMessage if number % 2 else HumanMessage)(text, id=str(number)) for number, text in enumerate(said)]
    thread = {"configurable": {"thread_id": NAME}}
    with opened(folder / "langchain.db") as lcm:
        memory = LosslessMiddleware(lcm, window=WINDOW)
        model = ChatOpenAI(model="stand-in", base_url=f"{url}/v1", api_key=lambda: "sk-test")
        limit = len(said)

        def fit(size: int) -> None:
            nonlocal limit
            limit = len(newest(said, size))

        @wrap_model_call
        def cut(request: Any, handler: Any) -> Any:
            return handler(request.override(messages=request.messages[-limit - 1 :]))

        def agent(middleware: Any) -> tuple[Any, Any]:
            saver = InMemorySaver()
            made = create_agent(
                model, tools=[], system_prompt=INSTRUCTIONS, middleware=[middleware], checkpointer=saver
            )
            return made, saver

        plain, remembering = agent(cut), agent(memory)

        def turn(side: tuple[Any, Any], prompt: str, *before: Any) -> None:
            made, saver = side
            made.invoke({"messages": [*before, HumanMessage(prompt)]}, thread)
            # It keeps the whole list of each step: the old ones would fill the memory of this process.
            versions = sorted((each for each in saver.blobs if each[2] == "messages"), key=lambda each: str(each[3]))
            for each in versions[:-1]:
                del saver.blobs[each]

        plain[0].update_state(thread, {"messages": history}, as_node="model")
        turn(remembering, "Begin.", *history)
        yield Contest(
            "LangChain",
            lambda prompt: turn(plain, prompt),
            lambda prompt: turn(remembering, prompt),
            fit,
            lcm.drain,
        )


FRAMEWORKS = {
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
    "pydantic-ai-list": pydantic_ai_list,
    "langchain": langchain,
}
