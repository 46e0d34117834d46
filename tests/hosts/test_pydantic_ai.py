"""pydantic-ai, the real one, with memory."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.frameworks import needs

needs("pydantic_ai", "pydantic_ai")

from pydantic_ai import Agent, ModelMessage, RunContext, UsageLimits
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from lossless import AsyncLossless, Lossless, Settings
from lossless.engine.shared import host_activity
from lossless.events import Event
from lossless.hosts.pydantic_ai import LosslessMemory
from lossless.model import SummaryRequest
from tests.hosts import frameworks
from tests.hosts.frameworks import WINDOW, opened, said
from tests.provider import Play, Provider, Use

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

WIRES = ("chat", "responses", "anthropic")
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


@pytest.fixture
def lcm(tmp_path: Path) -> Iterator[Lossless]:
    with opened(tmp_path) as lcm:
        yield lcm


def model(provider: Provider, wire: str) -> Model:
    if wire == "anthropic":
        return AnthropicModel("claude-stand-in", provider=AnthropicProvider(base_url=provider.url, api_key="sk-test"))
    openai = OpenAIProvider(base_url=f"{provider.url}/v1", api_key="sk-test")
    if wire == "chat":
        return OpenAIChatModel("stand-in", provider=openai)
    return OpenAIResponsesModel("gpt-5.4", provider=openai)  # a name for which the framework sends encrypted reasoning


def agent(provider: Provider, memory: LosslessMemory, wire: str = "chat", **options: Any) -> Agent[None, str]:
    tools = options.pop("tools", [frameworks.look])
    instructions = "You keep the harbour."
    return Agent(model(provider, wire), instructions=instructions, tools=tools, capabilities=[memory], **options)


async def run(
    agent: Agent[None, str], prompt: str, history: Sequence[ModelMessage], *, streamed: bool = False
) -> tuple[str, list[ModelMessage]]:
    limits = UsageLimits(request_limit=100)
    options: dict[str, Any] = {"message_history": history, "conversation_id": "user-42", "usage_limits": limits}
    if streamed:
        async with agent.run_stream(prompt, **options) as stream:
            return await stream.get_output(), stream.all_messages()
    done = await agent.run(prompt, **options)
    return done.output, done.all_messages()


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_long_conversation_is_stored_once_and_shown_bounded(
    wire: str, streamed: bool, provider: Provider, lcm: Lossless
) -> None:
    thought = "" if wire == "chat" else "Let me think."
    memory = LosslessMemory(lcm, window=WINDOW)
    history: list[ModelMessage] = []

    async def talk() -> list[ModelMessage]:
        nonlocal history
        keeper = agent(provider, memory, wire)
        for number, prompt in enumerate(frameworks.prompts()):
            provider.script(frameworks.answer(number, reasoning=thought))
            _, history = await run(keeper, prompt, history, streamed=streamed)
        # As an application keeps it between requests.
        history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
        provider.script(*frameworks.loop_plays(reasoning=thought))
        _, history = await run(keeper, "Look everything up.", history, streamed=streamed)
        provider.script(*frameworks.recall_plays())
        output, kept = await run(keeper, "What is the code?", history, streamed=streamed)
        assert output == "It is 4711-blue."
        return kept

    kept = asyncio.run(talk())
    chat = memory.conversation("user-42")
    assert len(kept) == len(chat.messages())
    frameworks.assert_stored_once(chat)
    frameworks.assert_compacted(lcm, chat)
    frameworks.assert_requests(provider)
    if wire == "responses":
        assert frameworks.reasoning_kept(provider.requests[-3].body) >= 3


@pytest.mark.usefixtures("own_loop")
def test_the_synchronous_run_works_and_needs_no_history(provider: Provider, lcm: Lossless) -> None:
    provider.script(Play("Hello, Ines.", "She says her name.", used=0))
    first = agent(provider, LosslessMemory(lcm, window=WINDOW), "responses")
    first.run_sync("I am Ines.", conversation_id="user-42")

    memory = LosslessMemory(lcm, window=WINDOW)
    agent(provider, memory, "responses").run_sync("Who am I?", conversation_id="user-42")
    body = provider.requests[-1].body
    assert "I am Ines." in said(body)
    thought, spoken = body["input"][1:3]
    assert (thought["type"], thought["encrypted_content"], spoken["type"]) == ("reasoning", "c2ln", "message")
    assert [each.role for each in memory.conversation("user-42").messages()] == ["user", "assistant"] * 2


def test_a_history_that_was_shortened_is_followed(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMemory(lcm, window=WINDOW)
    keeper = agent(provider, memory)

    async def talk() -> None:
        provider.script(Play("Yes.", used=0))
        _, one = await run(keeper, "One.", [])
        _, two = await run(keeper, "Two.", one)
        await run(keeper, "Instead of two.", one)
        assert "Two." not in said(provider.requests[-1].body)
        await run(keeper, "After two.", two)
        assert [word in said(provider.requests[-1].body) for word in ("Two.", "Instead")] == [True, False]
        await run(keeper, "Only the newest.", two[-2:])
        assert "One." in said(provider.requests[-1].body)

    asyncio.run(talk())
    spoken = [each.text for each in memory.conversation("user-42").messages() if each.role == "user"]
    assert spoken == ["One.", "Two.", "Instead of two.", "After two.", "Only the newest."]
    assert lcm.doctor().findings == ()


def test_a_history_that_the_application_writes_anew_is_stored_once(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMemory(lcm, window=WINDOW)
    keeper = agent(provider, memory)

    def rebuilt() -> list[ModelMessage]:
        return [ModelRequest([UserPromptPart("Before.")]), ModelResponse([TextPart("Indeed.")])]

    provider.script(Play("Yes.", used=0))
    for _ in range(3):
        asyncio.run(run(keeper, "And now?", rebuilt()))
    texts = [each.text for each in memory.conversation("user-42").messages()]
    assert texts[:2] == ["Before.", "Indeed."]
    assert texts.count("Before.") == 1


@pytest.mark.usefixtures("own_loop")
def test_a_tool_that_fails_loses_nothing(provider: Provider, lcm: Lossless) -> None:
    def burn() -> str:
        """Burn."""
        raise RuntimeError("fire")

    memory = LosslessMemory(lcm, window=WINDOW)
    provider.script(Play("I try.", uses=(Use("call_1", "burn", {}),), used=0), Play("It burnt.", used=0))
    keeper = agent(provider, memory, tools=[burn])
    with pytest.raises(RuntimeError, match="fire"):
        keeper.run_sync("Burn it.", conversation_id="user-42")
    assert keeper.run_sync("What happened?", conversation_id="user-42").output == "It burnt."
    assert [each.text for each in memory.conversation("user-42").messages()] == [
        "Burn it.",
        "I try.",
        "What happened?",
        "It burnt.",
    ]


@pytest.mark.usefixtures("own_loop")
def test_a_picture_reaches_the_model_and_later_a_reference_to_it(provider: Provider, lcm: Lossless) -> None:
    memory = LosslessMemory(lcm, window=WINDOW)
    provider.script(Play("A boat.", used=0))
    keeper = agent(provider, memory)
    keeper.run_sync(["What is it?", BinaryContent(PICTURE, media_type="image/png")], conversation_id="user-42")
    keeper.run_sync("Sure?", conversation_id="user-42")
    shown, later = (said(call.body) for call in provider.requests)
    assert "data:image/png;base64," in shown
    assert "LCM file: file_" in later


@pytest.mark.usefixtures("own_loop")
def test_an_agent_that_is_called_by_a_tool_has_a_conversation_of_its_own(provider: Provider, lcm: Lossless) -> None:
    helper = agent(provider, LosslessMemory(lcm, window=WINDOW, parent="user-42"))

    async def ask_helper(ctx: RunContext[None], question: str) -> str:
        """Ask a helper."""
        return (await helper.run(question, conversation_id="helper-1")).output

    memory = LosslessMemory(lcm, window=WINDOW)
    provider.script(
        Play("", uses=(Use("call_1", "ask_helper", {"question": "Is it noon?"}),), used=0),
        Play("No.", used=0),
        Play("It is not.", used=0),
    )
    agent(provider, memory, tools=[ask_helper]).run_sync("Ask about noon.", conversation_id="user-42")
    assert "Ask about noon." not in said(provider.requests[1].body)
    assert [each.text for each in memory.conversation("helper-1").messages()] == ["Is it noon?", "No."]
    assert memory.conversation("user-42").grep("Is it noon").total >= 1


def test_conversations_at_the_same_time_do_not_mix(provider: Provider, tmp_path: Path) -> None:
    names = [f"user-{number}" for number in range(5)]

    async def all_at_once() -> None:
        async with AsyncLossless.open(tmp_path / "lcm.db", summarizer="extractive") as lcm:
            memory = LosslessMemory(lcm, window=WINDOW)
            keeper = agent(provider, memory)

            async def talk(name: str) -> None:
                for turn in range(3):
                    await keeper.run(f"{name} says {turn}.", conversation_id=name)

            await asyncio.gather(*map(talk, names))
            for name in names:
                spoken = [each.text for each in memory.conversation(name).messages() if each.role == "user"]
                assert spoken == [f"{name} says {turn}." for turn in range(3)]

    provider.script(Play("Yes.", used=0))
    asyncio.run(all_at_once())
    for call in provider.requests:
        assert sum(name in said(call.body) for name in names) == 1


def test_summaries_are_written_by_the_configured_function(provider: Provider, tmp_path: Path) -> None:
    asked: list[SummaryRequest] = []

    async def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        await asyncio.sleep(0)
        return f"{frameworks.FACT} That was all.\nExpand for details about: the answers"

    async def talk() -> str:
        settings = Settings(proactive_threshold_compaction_mode="inline", fresh_tail_count=6)
        async with AsyncLossless.open(tmp_path / "lcm.db", summarizer=summarize, settings=settings) as lcm:
            keeper = agent(provider, LosslessMemory(lcm, window=WINDOW // 3), "anthropic")
            history: list[ModelMessage] = []
            for number, prompt in enumerate(frameworks.prompts()):
                provider.script(frameworks.answer(number))
                _, history = await run(keeper, prompt, history)
        return said(provider.requests[-1].body)

    assert f"{frameworks.FACT} That was all." in asyncio.run(talk())
    assert len(asked) >= 1


def test_a_database_that_fails_breaks_no_run_and_loses_no_turn(provider: Provider, tmp_path: Path) -> None:
    events: list[Event] = []
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive", on_event=events.append) as lcm:
        memory = LosslessMemory(lcm, window={"stand-in": WINDOW})
        keeper = agent(provider, memory)
        provider.script(Play("Yes.", used=0))

        async def talk() -> None:
            _, history = await run(keeper, "One.", [])
            with sqlite3.connect(tmp_path / "lcm.db") as other:
                other.execute("ALTER TABLE message RENAME TO elsewhere")
            output, history = await run(keeper, "Two.", history)
            assert output == "Yes."
            with sqlite3.connect(tmp_path / "lcm.db") as other:
                other.execute("ALTER TABLE elsewhere RENAME TO message")
            await run(keeper, "Three.", history)

        asyncio.run(talk())
        assert [word in said(provider.requests[1].body) for word in ("One.", "Two.")] == [True, True]
        stored = memory.conversation("user-42").messages()
        assert [each.text for each in stored if each.role == "user"] == ["One.", "Two.", "Three."]
    assert "host.failed" in [event.name for event in events if event.level == "error"]
    (seen,) = [each for each in host_activity.read_all() if each.host == "pydantic-ai"]
    assert seen.last_error
    assert (seen.failures, seen.version) == (0, "2.66.0")


def test_a_deleted_database_is_made_again_with_what_the_history_holds(provider: Provider, tmp_path: Path) -> None:
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive", on_event=lambda event: None) as lcm:
        memory = LosslessMemory(lcm, window=WINDOW)
        keeper = agent(provider, memory)
        provider.script(Play("Yes.", used=0))

        async def talk() -> None:
            _, history = await run(keeper, "One.", [])
            for path in tmp_path.glob("lcm.db*"):
                path.unlink()
            output, _ = await run(keeper, "Two.", history)
            assert output == "Yes."

        asyncio.run(talk())
        stored = [(each.role, each.text) for each in memory.conversation("user-42").messages()]
    yes = ("assistant", "Yes.")
    assert stored == [("user", "One."), yes, ("user", "Two."), yes]


def test_a_list_that_another_program_continued_is_compared_as_a_whole(provider: Provider, lcm: Lossless) -> None:
    memory, other = LosslessMemory(lcm, window=WINDOW), LosslessMemory(lcm, window=WINDOW)

    async def talk() -> None:
        first = await agent(provider, memory).run("One.", conversation_id="user-42")
        second = await agent(provider, memory).run(
            "Two.", message_history=first.all_messages(), conversation_id="user-42"
        )
        # The other goes back to the first reply, and so takes the second turn out of the context.
        await agent(provider, other).run("Other.", message_history=first.all_messages(), conversation_id="user-42")
        await agent(provider, memory).run("Three.", message_history=second.all_messages(), conversation_id="user-42")

    asyncio.run(talk())
    chat = memory.conversation("user-42")
    asked = [stored.text for stored in chat.messages() if stored.role == "user"]
    assert asked == ["One.", "Two.", "Other.", "Three."]
    shown = said(provider.requests[-1].body)
    assert [each for each in asked if f'"{each}"' in shown] == ["One.", "Two.", "Three."]


def test_a_database_that_stops_answering_leaves_the_whole_list(provider: Provider, tmp_path: Path) -> None:
    with opened(tmp_path) as lcm:
        memory = LosslessMemory(lcm, window=WINDOW)
        keeper = agent(provider, memory)

        async def talk() -> None:
            history = (await keeper.run("I am Ines.", conversation_id="user-42")).all_messages()
            history = (await keeper.run("Two.", message_history=history, conversation_id="user-42")).all_messages()
            with sqlite3.connect(tmp_path / "lcm.db") as other:
                other.execute("DROP TABLE item")
            await keeper.run("Three.", message_history=history, conversation_id="user-42")

        asyncio.run(talk())
    shown = said(provider.requests[-1].body)
    assert [each for each in ("I am Ines.", "Two.", "Three.") if each in shown] == ["I am Ines.", "Two.", "Three."]
