"""OpenCode, the real one, with our plugin: what it stores, what its model is sent, and what happens when something fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lossless import Conversation, Lossless
from tests.hosts import npm
from tests.hosts.opencode import WINDOW, OpenCode
from tests.hosts.plugins import OURS, SETTINGS, AgentProvider, bridges, connect, kill_bridge, said, texts, wait_until
from tests.provider import Play, Use

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

LONG = "and the ferry was late again " * 300


def shell(call: str, command: str = "cat notes.txt") -> Use:
    return Use(call, "bash", {"command": command, "description": "Look"})


@pytest.fixture
def agents() -> Iterator[AgentProvider]:
    with AgentProvider() as started:
        yield started


@pytest.fixture
def opencode(agents: AgentProvider, tmp_path: Path) -> Iterator[OpenCode]:
    try:
        program = npm.program("opencode-ai", "1.18.33", "opencode-linux-*/bin/opencode")
        types = npm.program("@opencode-ai/plugin", "1.18.33", "@opencode-ai/plugin/package.json", on=npm.node())
    except LookupError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO HOST PROGRAM: {reason}")
    started = OpenCode(program, types.parents[2], tmp_path / "home", agents)
    connect("opencode", started.home, started.plugins, SETTINGS)
    yield started
    started.stop()


def conversation(lcm: Lossless, opencode: OpenCode) -> Conversation:
    return lcm.conversation(f"opencode:{opencode.session}")


def assert_stored(opencode: OpenCode) -> None:
    """Every message of OpenCode's own session is stored once, in order, and so is every result of a tool."""
    expected = []
    for message in opencode.messages():
        name = message["info"]["id"]
        expected.append(name)
        expected += [f"{name}:{part['callID']}" for part in message["parts"] if part["type"] == "tool"]

    def stored() -> list[str | None]:
        with Lossless.open(opencode.database) as lcm:
            return [each.event_id for each in conversation(lcm, opencode).messages()]

    wait_until(lambda: len(stored()) >= len(expected))
    assert stored() == expected


def test_a_long_session_is_stored_once_compacted_and_recalled(opencode: OpenCode, agents: AgentProvider) -> None:
    opencode.start()
    opencode.say("The code word is HERON.", Play("I will remember it."))
    for turn in range(6):
        opencode.say(f"Turn {turn}: {LONG}", Play("I look.", uses=(shell(f"call_{turn}"),)), Play(f"At noon, {turn}."))
    many = tuple(shell(f"many_{number}", f"echo {number} {'x' * 300}") for number in range(40))
    opencode.say("Count to forty.", *(Play("", uses=(use,)) for use in many), Play("Done."))
    opencode.say(f"Rest: {LONG}", Play("Yes."))
    found = Use("recall", "lcm_grep", {"pattern": "code word"})
    opencode.say("What was the code word?", Play("", uses=(found,)), Play("HERON."))

    assert_stored(opencode)
    with Lossless.open(opencode.database) as lcm:
        chat = conversation(lcm, opencode)
        assert len(chat.summaries()) >= 2
        spoken = [text for role, text in said(chat) if role == "user"]
        assert [text[:7] for text in spoken[:3]] == ["The cod", "Turn 0:", "Turn 1:"]
        assert len(lcm.conversations()) == 1
    last = agents.turns[-1]
    assert any(OURS in text for text in texts(last))
    assert [text[:300] for text in texts(last)[:-1] if "Turn 0" in text and OURS not in text] == []
    assert "The code word is HERON" in texts(last)[-1]
    assert all(sum(map(len, texts(call))) < WINDOW * 4 for call in agents.turns)
    assert max(sum(map(len, texts(call))) for call in agents.turns) > WINDOW
    assert not any(part["type"] == "compaction" for message in opencode.messages() for part in message["parts"])
    assert not any(line.startswith("lossless") for line in opencode.lines), opencode.lines


def test_a_server_that_starts_again_continues_the_conversation(opencode: OpenCode, agents: AgentProvider) -> None:
    opencode.start()
    opencode.say("Who runs the harbour?", Play("I do not know yet."))
    opencode.stop()
    opencode.start()
    opencode.say("Look it up.", Play("I look.", "It is in the notes.", (shell("one"), shell("two"))), Play("Ines."))
    assert_stored(opencode)
    with Lossless.open(opencode.database) as lcm:
        assert said(conversation(lcm, opencode)) == [
            ("user", "Who runs the harbour?"),
            ("assistant", "I do not know yet."),
            ("user", "Look it up."),
            ("assistant", "I look."),
            ("tool", "The ferry leaves at noon.\n"),
            ("tool", "The ferry leaves at noon.\n"),
            ("assistant", "Ines."),
        ]


def test_aborted_and_undone_messages_are_kept_and_undone_ones_not_shown(
    opencode: OpenCode, agents: AgentProvider
) -> None:
    opencode.start()
    opencode.say("One.", Play("First."))
    agents.script(Play(pause="hang"))
    before = len(agents.turns)
    thinking = threading.Thread(target=opencode.prompt, args=("The wrong way.",))
    thinking.start()
    wait_until(lambda: len(agents.turns) > before)
    opencode.post("abort", {})
    thinking.join()
    assert_stored(opencode)
    undone = next(each["info"]["id"] for each in opencode.messages() if "The wrong way." in str(each["parts"]))
    opencode.post("revert", {"messageID": undone})
    opencode.say("The right way.", Play("Right."))
    shown = "".join(texts(agents.turns[-1]))
    assert "First." in shown
    assert "The right way." in shown
    assert "The wrong way." not in shown
    with Lossless.open(opencode.database) as lcm:
        wait_until(lambda: said(conversation(lcm, opencode))[-1] == ("assistant", "Right."))
        assert ("user", "The wrong way.") in said(conversation(lcm, opencode))


def test_a_killed_bridge_is_started_again_and_no_turn_is_lost(opencode: OpenCode, agents: AgentProvider) -> None:
    opencode.start()
    opencode.say("One.", Play("First."))
    assert_stored(opencode)
    assert opencode.process is not None
    killed = kill_bridge(opencode.process.pid)
    opencode.say("Two.", Play("", uses=(shell("call_1"),)), Play("Second."))
    assert_stored(opencode)
    left = bridges(opencode.process.pid)
    assert left not in ([], [killed])
    assert any("the bridge ended" in line for line in opencode.lines)
    opencode.stop()
    wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in left))


def test_without_lossless_opencode_goes_on_and_says_so(opencode: OpenCode, agents: AgentProvider) -> None:
    connect("opencode", opencode.home, opencode.plugins, {}, command=["/nowhere/python", "-m", "lossless"])
    opencode.start()
    opencode.say("One.", Play("First."))
    opencode.say("Two.", Play("Second."))
    assert any("One." in text for text in texts(agents.turns[-1]))
    assert any("/nowhere/python cannot be started" in line for line in opencode.lines)


def test_a_sub_agent_has_a_conversation_of_its_own(opencode: OpenCode, agents: AgentProvider) -> None:
    opencode.start()
    errand = {"description": "Ask", "prompt": "Who runs the harbour?", "subagent_type": "general"}
    send = Play("I send somebody.", uses=(Use("call_1", "task", errand),))
    opencode.say("Ask somebody.", send, Play("Ines runs it."), Play("It is Ines."))
    assert_stored(opencode)
    with Lossless.open(opencode.database) as lcm:
        keys = {each.key for each in lcm.conversations()}
        (child,) = keys - {f"opencode:{opencode.session}"}
        assert said(lcm.conversation(child)) == [("user", "Who runs the harbour?"), ("assistant", "Ines runs it.")]
        parent = lcm.conversations.show(child).parent
        assert parent is not None
        assert opencode.session in str(parent)
