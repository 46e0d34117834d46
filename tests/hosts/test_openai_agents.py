"""The OpenAI Agents SDK, the real one, with memory."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.frameworks import needs

needs("openai_agents", "agents")

from agents import (
    Agent,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.run_config import CallModelData, ModelInputData
from openai import AsyncOpenAI

from lossless import Lossless
from lossless.engine.shared import host_activity
from lossless.events import Event
from lossless.hosts.openai_agents import LosslessSession, recall_tools
from tests.hosts import frameworks
from tests.hosts.frameworks import WINDOW, opened, said
from tests.provider import Play, Provider, Use

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


@pytest.fixture(autouse=True)
def no_tracing() -> None:
    set_tracing_disabled(True)


@pytest.fixture
def lcm(tmp_path: Path) -> Iterator[Lossless]:
    with opened(tmp_path) as lcm:
        yield lcm


def model(provider: Provider, wire: str = "responses") -> Model:
    return MODELS[wire]("stand-in", AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="sk-test", max_retries=0))


def agent(provider: Provider, wire: str = "responses", **options: Any) -> Agent[None]:
    options = {"tools": [function_tool(frameworks.look), *recall_tools()], **options}
    return Agent(name="keeper", instructions="You keep the harbour.", model=model(provider, wire), **options)


async def run(agent: Agent[None], prompt: str, session: LosslessSession, *, streamed: bool = False) -> str:
    config = session.run_config()
    if streamed:
        result = Runner.run_streamed(agent, prompt, session=session, run_config=config, max_turns=100)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)
    done = await Runner.run(agent, prompt, session=session, run_config=config, max_turns=100)
    return str(done.final_output)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", MODELS)
def test_a_long_conversation_is_stored_once_and_shown_bounded(
    wire: str, streamed: bool, provider: Provider, lcm: Lossless
) -> None:
    thought = "Let me think." if wire == "responses" else ""
    session = LosslessSession("user-42", lcm, window=WINDOW)

    async def talk() -> None:
        keeper = agent(provider, wire)
        for number, prompt in enumerate(frameworks.prompts()):
            provider.script(frameworks.answer(number, reasoning=thought))
            await run(keeper, prompt, session, streamed=streamed)
        provider.script(*frameworks.loop_plays(reasoning=thought))
        await run(keeper, "Look everything up.", session, streamed=streamed)
        provider.script(*frameworks.recall_plays())
        assert await run(keeper, "What is the code?", session, streamed=streamed) == "It is 4711-blue."

    asyncio.run(talk())
    frameworks.assert_stored_once(session.conversation)
    frameworks.assert_compacted(lcm, session.conversation)
    frameworks.assert_requests(provider)
    if wire == "responses":
        assert frameworks.reasoning_kept(provider.requests[-3].body) >= 3


@pytest.mark.usefixtures("own_loop")
def test_the_synchronous_runner_works_and_a_new_process_continues(provider: Provider, lcm: Lossless) -> None:
    provider.script(Play("Hello, Ines.", used=0))
    first = LosslessSession("user-42", lcm, window=WINDOW)
    Runner.run_sync(agent(provider), "I am Ines.", session=first, run_config=first.run_config())

    again = LosslessSession("user-42", lcm, window=WINDOW)
    asyncio.run(run(agent(provider), "Who am I?", again))
    assert "I am Ines." in said(provider.requests[-1].body)
    assert [each.text for each in again.conversation.messages()] == [
        "I am Ines.",
        "Hello, Ines.",
        "Who am I?",
        "Hello, Ines.",
    ]


def test_an_item_that_is_popped_leaves_the_context_and_stays_stored(provider: Provider, lcm: Lossless) -> None:
    session = LosslessSession("user-42", lcm, window=WINDOW)

    async def talk() -> None:
        provider.script(Play("First answer.", used=0))
        await run(agent(provider), "First question.", session)
        assert "First answer." in json.dumps(await session.get_items(limit=1))
        popped = [await session.pop_item(), await session.pop_item()]
        assert ["First answer." in json.dumps(popped[0]), "First question." in json.dumps(popped[1])] == [True, True]
        assert await session.pop_item() is None
        provider.script(Play("Second answer.", used=0))
        await run(agent(provider), "Second question.", session)

    asyncio.run(talk())
    assert "First" not in said(provider.requests[-1].body)
    assert [each.text for each in session.conversation.messages()] == [
        "First question.",
        "First answer.",
        "Second question.",
        "Second answer.",
    ]
    assert [each.cause for each in session.conversation.detached()] == ["withdrawn", "withdrawn"]
    assert session.conversation.grep("First question").total == 1
    assert lcm.doctor().findings == ()


def test_popping_one_item_of_a_reply_keeps_the_others(lcm: Lossless) -> None:
    session = LosslessSession("user-42", lcm, window=WINDOW)
    one: Any = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    two: Any = {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"}

    async def talk() -> None:
        await session.add_items([{"role": "user", "content": "Look."}, one, two])
        assert await session.pop_item() == two
        assert await session.get_items(limit=9) == [{"role": "user", "content": "Look."}, one]
        await session.clear_session()
        assert await session.get_items() == []

    asyncio.run(talk())
    assert session.conversation.messages() == []
    assert session.conversation.grep("Look").total == 1


def test_a_nested_agent_and_a_handoff_see_their_own_messages(provider: Provider, lcm: Lossless) -> None:
    session = LosslessSession("user-42", lcm, window=WINDOW)
    expert = agent(provider, handoff_description="Knows tides.")
    helper = agent(provider).as_tool("ask_helper", "Ask a helper.")
    keeper = agent(provider, tools=[helper], handoffs=[expert])

    async def talk() -> None:
        provider.script(Play("Noted.", used=0))
        await run(keeper, "The tide turns at six.", session)
        provider.script(
            Play("", uses=(Use("call_1", "ask_helper", {"input": "Is it noon?"}),), used=0),
            Play("No.", used=0),
            Play("", uses=(Use("call_2", "transfer_to_keeper", {}),), used=0),
            Play("At six.", used=0),
        )
        assert await run(keeper, "When does the tide turn?", session) == "At six."

    asyncio.run(talk())
    nested, handed = provider.requests[2].body, provider.requests[4].body
    assert "Is it noon?" in said(nested)
    assert "tide" not in said(nested)
    assert "The tide turns at six." in said(handed)
    assert "transfer_to_keeper" in said(handed)
    assert [each.role for each in session.conversation.messages()][2:] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant")
    ]


def test_conversations_at_the_same_time_do_not_mix(provider: Provider, lcm: Lossless) -> None:
    keeper = agent(provider)
    names = [f"user-{number}" for number in range(5)]

    async def talk(name: str) -> LosslessSession:
        session = LosslessSession(name, lcm, window=WINDOW)
        for turn in range(3):
            await run(keeper, f"{name} says {turn}.", session)
        return session

    async def all_at_once() -> list[LosslessSession]:
        return await asyncio.gather(*map(talk, names))

    provider.script(Play("Yes.", used=0))
    for name, session in zip(names, asyncio.run(all_at_once()), strict=True):
        spoken = [each.text for each in session.conversation.messages() if each.role == "user"]
        assert spoken == [f"{name} says {turn}." for turn in range(3)]
    for call in provider.requests:
        assert sum(name in said(call.body) for name in names) == 1


def test_a_database_that_fails_breaks_no_run_and_loses_no_turn(provider: Provider, tmp_path: Path) -> None:
    events: list[Event] = []
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive", on_event=events.append) as lcm:
        session = LosslessSession("user-42", lcm, window=WINDOW)
        provider.script(Play("Yes.", used=0))

        async def talk() -> None:
            await run(agent(provider), "One.", session)
            with sqlite3.connect(tmp_path / "lcm.db") as other:
                other.execute("ALTER TABLE message RENAME TO elsewhere")
            assert await run(agent(provider), "Two.", session) == "Yes."
            with sqlite3.connect(tmp_path / "lcm.db") as other:
                other.execute("ALTER TABLE elsewhere RENAME TO message")
            await run(agent(provider), "Three.", session)

        asyncio.run(talk())
        assert [word in said(provider.requests[1].body) for word in ("One.", "Two.")] == [True, True]
        assert [each.text for each in session.conversation.messages() if each.role == "user"] == [
            "One.",
            "Two.",
            "Three.",
        ]
    assert "host.failed" in [event.name for event in events if event.level == "error"]
    (seen,) = [each for each in host_activity.read_all() if each.host == "openai-agents"]
    assert seen.last_error
    assert (seen.failures, seen.version) == (0, "0.24.0")


def test_a_deleted_database_is_made_again_and_the_run_is_stored_there(provider: Provider, tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive", on_event=lambda event: None) as lcm:
        session = LosslessSession("user-42", lcm, window=WINDOW)
        provider.script(Play("Yes.", used=0))

        async def talk() -> None:
            await run(agent(provider), "One.", session)
            for path in tmp_path.glob("lcm.db*"):
                path.unlink()
            assert await run(agent(provider), "Two.", session) == "Yes."
            await run(agent(provider), "Three.", session)

        asyncio.run(talk())
        stored = [(each.role, each.text) for each in session.conversation.messages()]
    yes = ("assistant", "Yes.")
    assert stored == [("user", "Two."), yes, ("user", "Three."), yes]


@pytest.mark.usefixtures("own_loop")
def test_a_filter_of_the_application_runs_first(provider: Provider, lcm: Lossless) -> None:
    def shout(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input, instructions="Shout.")

    session = LosslessSession("user-42", lcm, window={"stand-in": WINDOW})
    config = session.run_config(RunConfig(call_model_input_filter=shout))
    provider.script(Play("YES.", used=0))
    Runner.run_sync(agent(provider), "Hello.", session=session, run_config=config)
    assert provider.requests[-1].body["instructions"].startswith("Shout.")


@pytest.mark.usefixtures("own_loop")
def test_a_run_without_a_session_is_told_that_there_is_no_memory(provider: Provider) -> None:
    provider.script(Play("", uses=(Use("call_1", "lcm_grep", {"pattern": "x"}),), used=0), Play("None.", used=0))
    Runner.run_sync(agent(provider), "Hello.")
    assert "There is no memory" in said(provider.requests[-1].body)
