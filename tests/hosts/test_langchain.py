"""LangChain and LangGraph, the real ones, with memory."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.frameworks import needs

needs("langchain", "langchain", "langgraph", "langchain_openai", "langchain_anthropic")

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from lossless import AsyncLossless, Lossless
from lossless.engine.shared import host_activity
from lossless.errors import InvalidInput
from lossless.events import Event
from lossless.hosts.langchain import LosslessMiddleware
from lossless.hosts.langgraph_store import LosslessStore
from tests.hosts import frameworks
from tests.hosts.frameworks import WINDOW, opened, said
from tests.provider import Play, Provider, Use

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

WAYS = [
    ("chat", "invoke"),
    ("chat", "stream"),
    ("responses", "ainvoke"),
    ("responses", "stream"),
    ("anthropic", "invoke"),
    ("anthropic", "astream"),
]
THREAD: RunnableConfig = {"configurable": {"thread_id": "user-42"}, "recursion_limit": 300}


@pytest.fixture(autouse=True)
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


@pytest.fixture
def lcm(tmp_path: Path) -> Iterator[Lossless]:
    with opened(tmp_path) as lcm:
        yield lcm


def model(provider: Provider, wire: str = "chat") -> BaseChatModel:
    options: dict[str, Any] = {"api_key": "sk-test", "max_retries": 0}
    if wire == "anthropic":
        return ChatAnthropic(model_name="claude-stand-in", base_url=provider.url, **options)
    if wire == "responses":
        options |= {"use_responses_api": True, "output_version": "responses/v1"}
    return ChatOpenAI(model="stand-in", base_url=f"{provider.url}/v1", **options)


def agent(provider: Provider, memory: LosslessMiddleware, wire: str = "chat", **options: Any) -> Any:
    options = {"tools": [tool(frameworks.look)], "checkpointer": InMemorySaver(), **options}
    return create_agent(model(provider, wire), system_prompt="You keep the harbour.", middleware=[memory], **options)


def say(agent: Any, prompt: str, way: str = "invoke", thread: RunnableConfig = THREAD) -> str:
    given = {"messages": [HumanMessage(prompt)]}

    async def streamed() -> None:
        async for _ in agent.astream(given, thread, stream_mode="messages"):
            pass

    match way:
        case "invoke":
            agent.invoke(given, thread)
        case "ainvoke":
            asyncio.run(agent.ainvoke(given, thread))
        case "stream":
            for _ in agent.stream(given, thread, stream_mode="messages"):
                pass
        case _:
            asyncio.run(streamed())
    return str(agent.get_state(thread).values["messages"][-1].text)


@pytest.mark.parametrize(("wire", "way"), WAYS)
def test_a_long_conversation_is_stored_once_and_shown_bounded(
    wire: str, way: str, provider: Provider, lcm: Lossless
) -> None:
    thought = "" if wire == "chat" else "Let me think."
    memory = LosslessMiddleware(lcm, window=WINDOW)
    keeper = agent(provider, memory, wire)
    for number, prompt in enumerate(frameworks.prompts()):
        provider.script(frameworks.answer(number, reasoning=thought))
        say(keeper, prompt, way)
    provider.script(*frameworks.loop_plays(reasoning=thought))
    say(keeper, "Look everything up.", way)
    provider.script(*frameworks.recall_plays())
    assert say(keeper, "What is the code?", way) == "It is 4711-blue."

    chat = memory.conversation("user-42")
    assert len(keeper.get_state(THREAD).values["messages"]) == len(chat.messages())
    frameworks.assert_stored_once(chat)
    frameworks.assert_compacted(lcm, chat)
    frameworks.assert_requests(provider)
    if wire == "responses":
        assert frameworks.reasoning_kept(provider.requests[-3].body) >= 3


@pytest.mark.parametrize("wire", ["responses", "anthropic"])
def test_a_thread_continues_when_its_checkpoint_is_gone(wire: str, provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMiddleware(lcm, window=WINDOW)
    provider.script(Play("Hello, Ines.", "She says her name.", used=0))
    say(agent(provider, memory, wire), "I am Ines.")
    say(agent(provider, memory, wire), "Who am I?")
    body = provider.requests[-1].body
    assert "I am Ines." in said(body)
    assert "She says her name." in said(body)
    assert ("c2ln" in said(body)) is True
    assert [each.role for each in memory.conversation("user-42").messages()] == ["user", "assistant"] * 2


def test_messages_that_are_removed_from_the_state_leave_the_context(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMiddleware(lcm, window=WINDOW)
    keeper = agent(provider, memory)
    provider.script(Play("Yes.", used=0))
    say(keeper, "One.")
    before = keeper.get_state(THREAD).config
    say(keeper, "Two.")
    after = keeper.get_state(THREAD).config
    removed = keeper.get_state(THREAD).values["messages"][-2:]
    keeper.update_state(THREAD, {"messages": [RemoveMessage(id=each.id) for each in removed]})
    say(keeper, "Instead of two.")
    assert [word in said(provider.requests[-1].body) for word in ("One.", "Two.")] == [True, False]
    say(keeper, "Another branch.", thread=before)
    assert [word in said(provider.requests[-1].body) for word in ("One.", "Instead")] == [True, False]
    say(keeper, "Back again.", thread=after)
    assert [word in said(provider.requests[-1].body) for word in ("Two.", "Another")] == [True, False]
    spoken = [each.text for each in memory.conversation("user-42").messages() if each.role == "user"]
    assert spoken == ["One.", "Two.", "Instead of two.", "Another branch.", "Back again."]
    assert lcm.doctor().findings == ()


def test_without_a_checkpointer_a_list_that_is_sent_again_is_stored_once(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMiddleware(lcm, window=WINDOW, thread="the only one")
    keeper = agent(provider, memory, checkpointer=None)
    provider.script(Play("Yes.", used=0))
    held: list[tuple[str, str]] = []
    for prompt in ("One.", "Two.", "Three."):
        held.append(("user", prompt))
        keeper.invoke({"messages": held})
        held.append(("assistant", "Yes."))
    texts = [each.text for each in memory.conversation("the only one").messages()]
    assert texts == ["One.", "Yes.", "Two.", "Yes.", "Three.", "Yes."]


def test_a_sub_agent_and_a_subgraph_have_conversations_of_their_own(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMiddleware(lcm, window=WINDOW)
    helper = agent(provider, memory, checkpointer=None)

    @tool
    def ask_helper(question: str) -> str:
        """Ask a helper."""
        return str(helper.invoke({"messages": [HumanMessage(question)]})["messages"][-1].text)

    provider.script(
        Play("", uses=(Use("call_1", "ask_helper", {"question": "Is it noon?"}),), used=0),
        Play("No.", used=0),
        Play("It is not.", used=0),
    )
    say(agent(provider, memory, tools=[ask_helper]), "Ask about it.")
    assert "Ask about it." not in said(provider.requests[1].body)
    main = memory.conversation("user-42")
    assert [each.role for each in main.messages()] == ["user", "assistant", "tool", "assistant"]
    (below,) = [each.key for each in lcm.conversations() if each.key != main.key]
    assert below.startswith("langchain:user-42/tools:")
    assert [each.text for each in lcm.conversation(below).messages()] == ["Is it noon?", "No."]
    assert main.grep("Is it noon").total >= 1


def test_an_agent_that_is_a_node_of_a_graph_remembers_from_turn_to_turn(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMiddleware(lcm, window=WINDOW)
    graph = StateGraph(MessagesState)
    graph.add_node("keeper", agent(provider, memory, checkpointer=None))
    graph.add_edge(START, "keeper")
    graph.add_edge("keeper", END)
    whole = graph.compile(checkpointer=InMemorySaver())
    provider.script(Play("Yes.", used=0))
    say(whole, "One.")
    say(whole, "Two.")
    texts = [each.text for each in memory.conversation("user-42/keeper").messages()]
    assert texts == ["One.", "Yes.", "Two.", "Yes."]


def test_threads_at_the_same_time_do_not_mix(provider: Provider, tmp_path: Path) -> None:
    names = [f"user-{number}" for number in range(5)]

    async def all_at_once() -> None:
        async with AsyncLossless.open(tmp_path / "lcm.db", summarizer="extractive") as lcm:
            memory = LosslessMiddleware(lcm, window=WINDOW)
            keeper = agent(provider, memory)

            async def talk(name: str) -> None:
                for turn in range(3):
                    given = {"messages": [HumanMessage(f"{name} says {turn}.")]}
                    await keeper.ainvoke(given, {"configurable": {"thread_id": name}})

            await asyncio.gather(*map(talk, names))
            for name in names:
                spoken = [each.text for each in memory.conversation(name).messages() if each.role == "user"]
                assert spoken == [f"{name} says {turn}." for turn in range(3)]

    provider.script(Play("Yes.", used=0))
    asyncio.run(all_at_once())
    for call in provider.requests:
        assert sum(name in said(call.body) for name in names) == 1


def test_a_database_that_fails_breaks_no_run_and_loses_no_turn(provider: Provider, tmp_path: Path) -> None:
    events: list[Event] = []
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive", on_event=events.append) as lcm:
        memory = LosslessMiddleware(lcm, window={"stand-in": WINDOW})
        keeper = agent(provider, memory)
        provider.script(Play("Yes.", used=0))
        say(keeper, "One.")
        with sqlite3.connect(tmp_path / "lcm.db") as other:
            other.execute("ALTER TABLE message RENAME TO elsewhere")
        assert say(keeper, "Two.") == "Yes."
        with sqlite3.connect(tmp_path / "lcm.db") as other:
            other.execute("ALTER TABLE elsewhere RENAME TO message")
        say(keeper, "Three.")
        assert [word in said(provider.requests[1].body) for word in ("One.", "Two.")] == [True, True]
        stored = memory.conversation("user-42").messages()
        assert [each.text for each in stored if each.role == "user"] == ["One.", "Two.", "Three."]
    assert "host.failed" in [event.name for event in events if event.level == "error"]
    (seen,) = [each for each in host_activity.read_all() if each.host == "langchain"]
    assert seen.last_error
    assert (seen.failures, seen.version) == (0, "1.4.7")


def test_a_deleted_database_is_made_again_with_what_the_thread_holds(provider: Provider, tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive", on_event=lambda event: None) as lcm:
        memory = LosslessMiddleware(lcm, window=WINDOW)
        keeper = agent(provider, memory)
        provider.script(Play("Yes.", used=0))
        say(keeper, "One.")
        for path in tmp_path.glob("lcm.db*"):
            path.unlink()
        assert say(keeper, "Two.") == "Yes."
        stored = [(each.role, each.text) for each in memory.conversation("user-42").messages()]
    yes = ("assistant", "Yes.")
    assert stored == [("user", "One."), yes, ("user", "Two."), yes]


def test_a_run_without_a_thread_is_reported_and_works(provider: Provider, tmp_path: Path) -> None:
    events: list[Event] = []
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive", on_event=events.append) as lcm:
        keeper = agent(provider, LosslessMiddleware(lcm, window=WINDOW), checkpointer=None)
        provider.script(Play("Yes.", used=0))
        assert keeper.invoke({"messages": [HumanMessage("Hello.")]})["messages"][-1].text == "Yes."
        assert list(lcm.conversations()) == []
    assert [event.name for event in events] == ["host.failed"]
    assert "thread_id" in events[0].message


def test_the_store_finds_what_was_said_and_refuses_to_be_written(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMiddleware(lcm, window=WINDOW)
    provider.script(Play("Noted.", used=0))
    say(agent(provider, memory), frameworks.FACT)
    store = LosslessStore(lcm)
    key = memory.conversation("user-42").key
    (found,) = store.search(("conversations",), query="harbour gate")
    assert (found.namespace, found.value["role"]) == (("conversations", key), "user")
    read = asyncio.run(store.aget(found.namespace, found.key))
    assert read is not None
    assert read.value["text"] == frameworks.FACT
    assert store.get(("conversations", key), "msg#7") is None
    assert store.search(("memories", "user-42"), query="harbour") == []
    assert store.list_namespaces() == [("conversations", key)]
    assert store.list_namespaces(prefix=("conversations",), max_depth=1) == [("conversations",)]
    with pytest.raises(InvalidInput, match="cannot be written"):
        store.put(("memories",), "a", {"text": "b"})
