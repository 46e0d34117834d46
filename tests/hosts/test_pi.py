"""pi, the real one, with our extension: what it stores, what its model is sent, and what happens when something fails."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lossless import Conversation, Lossless
from tests.hosts import npm
from tests.hosts.pi import WINDOW, Pi
from tests.hosts.plugins import OURS, SETTINGS, AgentProvider, bridges, connect, kill_bridge, said, texts, wait_until
from tests.provider import Play, Use

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

LONG = "and the ferry was late again " * 300


def shell(call: str, command: str = "cat notes.txt") -> Use:
    return Use(call, "bash", {"command": command})


@pytest.fixture
def agents() -> Iterator[AgentProvider]:
    with AgentProvider() as started:
        yield started


@pytest.fixture
def pi(agents: AgentProvider, tmp_path: Path) -> Iterator[Pi]:
    try:
        node = npm.node()
        path = "@earendil-works/pi-coding-agent/dist/cli.js"
        program = npm.program("@earendil-works/pi-coding-agent", "0.87.1", path, on=node)
    except LookupError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO HOST PROGRAM: {reason}")
    started = Pi(node, program, tmp_path / "home", agents)
    connect("pi", started.home, started.extension, SETTINGS)
    yield started
    started.stop()


def conversation(lcm: Lossless, pi: Pi) -> Conversation:
    return lcm.conversation(f"openclaw:{pi.entries()[0]['id']}")


def spoken_entries(pi: Pi) -> list[dict[str, Any]]:
    return [entry for entry in pi.entries() if entry["type"] == "message"]


def assert_stored(pi: Pi) -> None:
    """Every message of pi's own session is stored once, in order, under its entry id."""
    with Lossless.open(pi.database) as lcm:
        stored = [each.event_id for each in conversation(lcm, pi).messages()]
        assert stored == [entry["id"] for entry in spoken_entries(pi)]
        assert len(lcm.conversations()) == 1


def test_a_long_session_is_stored_once_compacted_and_recalled(pi: Pi, agents: AgentProvider) -> None:
    pi.start()
    pi.say("The code word is HERON.", Play("I will remember it."))
    for turn in range(6):
        pi.say(f"Turn {turn}: {LONG}", Play("I look.", uses=(shell(f"call_{turn}"),)), Play(f"At noon, {turn}."))
    many = tuple(shell(f"many_{number}", f"echo {number} {'x' * 300}") for number in range(40))
    pi.say("Count to forty.", *(Play("", uses=(use,)) for use in many), Play("Done."))
    pi.say(f"Rest: {LONG}", Play("Yes."))
    found = Use("recall", "lcm_grep", {"pattern": "code word"})
    pi.say("What was the code word?", Play("", uses=(found,)), Play("HERON."))
    pi.stop()

    activity = json.loads((pi.home / ".local/state/lossless/hosts/pi.json").read_text())
    assert (activity["version"], activity["failures"]) == ("0.87.1", 0)
    assert_stored(pi)
    with Lossless.open(pi.database) as lcm:
        chat = conversation(lcm, pi)
        written = chat.summaries()
        assert len(written) >= 2
        # A run of messages shorter than a summary is kept word for word, without a model.
        assert {each.model for each in written} - {"verbatim"} == {"stand-in/stand-in"}
        spoken = [text for role, text in said(chat) if role == "user"]
        assert [text[:7] for text in spoken[:3]] == ["The cod", "Turn 0:", "Turn 1:"]
    last = agents.turns[-1]
    assert any(OURS in text for text in texts(last))
    assert [text[:300] for text in texts(last)[:-1] if "Turn 0" in text and OURS not in text] == []
    assert "The code word is HERON" in texts(last)[-1]
    assert all(sum(map(len, texts(call))) < WINDOW * 4 for call in agents.turns)
    assert max(sum(map(len, texts(call))) for call in agents.turns) > WINDOW
    # The stand-in reports no usage, so pi counts its own list, finds it too long, and asks us.
    answered = [entry for entry in pi.entries() if entry["type"] == "compaction"]
    assert all(entry["fromHook"] and OURS in entry["summary"] for entry in answered)
    assert pi.notes == []


def test_an_imported_session_continues_without_a_second_copy(pi: Pi, agents: AgentProvider) -> None:
    pi.start()
    pi.say("Who runs the harbour?", Play("I do not know yet."))
    pi.stop()
    with Lossless.open(pi.database) as lcm:
        (source,) = lcm.import_([pi.agent / "sessions"], apply=True).sources
        assert source.messages == 0, source
    pi.start("-c")
    pi.say("Look it up.", Play("I look.", uses=(shell("call_1"), shell("call_2"))), Play("Ines."))
    pi.stop()
    assert_stored(pi)
    with Lossless.open(pi.database) as lcm:
        assert said(conversation(lcm, pi)) == [
            ("user", "Who runs the harbour?"),
            ("assistant", "I do not know yet."),
            ("user", "Look it up."),
            ("assistant", "I look."),
            ("tool", "The ferry leaves at noon.\n"),
            ("tool", "The ferry leaves at noon.\n"),
            ("assistant", "Ines."),
        ]


def test_failed_and_aborted_requests_leave_every_message_stored_once(pi: Pi, agents: AgentProvider) -> None:
    pi.start()
    pi.say("Try.", Play(status=500), Play("It works now."))
    before = len(agents.turns)
    pi.begin("Think for long.", Play(pause="hang"))
    wait_until(lambda: len(agents.turns) > before)
    pi.ask(type="abort")
    pi.say("Go on.", Play("I go on."))
    pi.stop()
    assert_stored(pi)
    assert [text for text in texts(agents.turns[-1]) if "Go on." in text]


def test_a_killed_bridge_is_started_again_and_no_turn_is_lost(pi: Pi, agents: AgentProvider) -> None:
    pi.start()
    pi.say("One.", Play("First."))
    killed = kill_bridge(pi.pid)
    pi.say("Two.", Play("", uses=(shell("call_1"),)), Play("Second."))
    assert bridges(pi.pid) not in ([], [killed])
    assert any("the bridge ended" in note for note in pi.notes)
    left = bridges(pi.pid)
    pi.stop()
    wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in left))
    assert_stored(pi)


def test_without_lossless_pi_goes_on_and_says_so(pi: Pi, agents: AgentProvider) -> None:
    connect("pi", pi.home, pi.extension, {}, command=["/nowhere/python", "-m", "lossless"])
    pi.start()
    pi.say("One.", Play("First."))
    pi.say("Two.", Play("Second."))
    assert [text for text in texts(agents.turns[-1]) if "One." in text]
    assert any("/nowhere/python cannot be started" in note for note in pi.notes)


def test_a_compaction_that_the_user_asks_for_is_answered_with_our_summaries(pi: Pi, agents: AgentProvider) -> None:
    pi.start()
    for turn in range(7):
        pi.say(f"Turn {turn}. {LONG[:900]}", Play(f"Noted {turn}."))
    (pi.agent / "settings.json").write_text('{"compaction": {"keepRecentTokens": 100}}')
    pi.stop()
    pi.start("-c")
    pi.ask(type="compact")
    pi.say("Go on.", Play("I go on."))
    pi.stop()
    (compaction,) = [entry for entry in pi.entries() if entry["type"] == "compaction"]
    assert compaction["fromHook"]
    assert OURS in compaction["summary"]
    assert_stored(pi)
    assert "Go on." in texts(agents.turns[-1])[-1]


def test_a_branch_that_was_left_is_kept_and_not_shown(pi: Pi, agents: AgentProvider) -> None:
    pi.start()
    pi.say("Root.", Play("Rooted."))
    pi.say("The wrong way.", Play("Wrong."))
    target = next(entry["id"] for entry in spoken_entries(pi) if "Rooted." in str(entry["message"]))
    pi.ask(type="prompt", message=f"/jump {target}")
    pi.say("The right way.", Play("Right."))
    pi.stop()
    assert_stored(pi)
    shown = "".join(texts(agents.turns[-1]))
    assert "Rooted." in shown
    assert "The right way." in shown
    assert "The wrong way." not in shown
