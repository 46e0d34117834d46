"""OpenClaw 2026.9.6 with our plugin: what is stored, what its model is sent, and what a killed bridge costs."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lossless import Lossless, StoredMessage
from lossless.model import Summary, ToolCall, ToolResult
from tests.hosts.connecting import install
from tests.hosts.openclaw import KEY, OpenClaw
from tests.hosts.plugins import wait_until
from tests.locks import locked
from tests.provider import Call, Play, Provider, Use

pytestmark = pytest.mark.hosts

SMALL = {"freshTailCount": 6, "contextThreshold": 0.08, "leafChunkTokens": 3000, "leafMinFanout": 8}
TOOL_TURN, KILLED_BEFORE, KILLED_WITHIN, LAST = 5, 9, 10, 12
SPAWNS, AFTER_NEW, AFTER_RESET = 13, 14, 15
CALLS, AT_ONCE = 40, 5
PATIENCE = 60.0
ROOT = Path(__file__).parents[2]


def said(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content or ())


def summary_of(prompt: str) -> str:
    """Quote the newest lines of a source: a copy of the summary before would be refused."""
    (source,) = re.findall(r"^<conversation_\w+>$(.*)^</conversation_\w+>$", prompt, re.S | re.M)
    lines = [line for line in source.splitlines() if line.strip() and not line.startswith("[")]
    quoted = "\n".join(line[:60] for line in lines[-3:])
    return f"{quoted}\nExpand for details about: the code words"


class Model:
    """The stand-in's part: it answers turns, calls tools where a turn asks for it, and writes summaries."""

    def __init__(self) -> None:
        self.turns: dict[int, list[Call]] = {}
        self.summaries: list[Call] = []
        self.child: list[Call] = []
        self.during: dict[int, Callable[[], None]] = {}
        """By turn: called once while the model is asked."""

    def __call__(self, call: Call) -> Play:
        messages = call.body["messages"]
        prompts = [(at, found) for at, each in enumerate(messages) if (found := _turn(each)) is not None]
        if not call.body.get("tools") or not prompts:
            self.summaries.append(call)
            return Play(summary_of(said(messages[-1])))
        if any("[Subagent Context]" in said(message) for message in messages):
            self.child.append(call)
            return Play("The child's answer.")
        place, turn = prompts[-1]
        self.turns.setdefault(turn, []).append(call)
        if turn in self.during:
            self.during.pop(turn)()
        results = sum(each["role"] == "tool" for each in messages[place:])
        if turn == TOOL_TURN and results < CALLS:
            numbers = range(results, results + AT_ONCE)
            return Play("", uses=tuple(Use(f"call_ls{number:012}", "ls", {"path": "."}) for number in numbers))
        if turn == LAST and not results:
            return Play("", uses=(Use("call_grep00000000", "lcm_grep", {"pattern": "zebra0\\b"}),))
        if turn == SPAWNS and not results:
            task = {"id": "sessions_spawn", "args": {"task": "Say what you know.", "context": "fork"}}
            return Play("", uses=(Use("call_spawn0000000", "tool_call", task),))
        return Play(f"Noted {turn}. " + "omega " * 400)


def _turn(message: dict[str, Any]) -> int | None:
    """The number of the turn whose prompt a message is."""
    found = re.search(r"Turn (\d+): the code word", said(message)) if message["role"] == "user" else None
    return int(found[1]) if found and "<summary" not in said(message) else None


class Story:
    """A conversation of thirteen turns, in which the bridge is killed twice; then a sub-agent, /new, /reset, and the end."""

    def __init__(self, home: Path, provider: Provider) -> None:
        self.model = provider.choose = Model()
        self.host = OpenClaw(home, provider, settings=SMALL)
        self.replies: dict[int, str] = {}
        with self.host:
            for turn in range(LAST + 1):
                if turn == KILLED_BEFORE:
                    self.kill()
                if turn == KILLED_WITHIN:
                    self.model.during[turn] = self.kill
                self.say(turn)
            with Lossless.open(self.host.database) as lcm:
                chat = lcm.conversation(KEY)
                self.stored: list[StoredMessage] = chat.messages()
                self.summaries: list[Summary] = chat.summaries()
                self.proof = lcm.doctor.prove(KEY)
            self.go_on()
            self.bridge = self.host.bridges()
        self.log = self.host.log()

    def go_on(self) -> None:
        self.say(SPAWNS)
        self.wait_for(lambda: bool(self.model.child))
        self.host.call("chat.send", sessionKey=KEY, message="/lcm status", idempotencyKey="status")
        self.host.call("sessions.reset", key=KEY, reason="new")
        self.say(AFTER_NEW)
        self.host.call("sessions.reset", key=KEY, reason="reset")
        self.say(AFTER_RESET)

    def say(self, turn: int) -> None:
        self.replies[turn] = self.host.say(f"Turn {turn}: the code word is zebra{turn}. " + "alpha beta " * 300)
        self.wait_for_maintenance()

    def wait_for(self, happened: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < until, self.host.log()[-3000:]
            time.sleep(0.05)  # another process does it

    def kill(self) -> None:
        (bridge,) = self.host.bridges()
        os.kill(bridge, signal.SIGKILL)

    def wait_for_maintenance(self) -> None:
        """Wait until pending summaries are written: the host does it after the reply, in a process of its own."""
        with Lossless.open(self.host.database, read_only=True) as lcm:
            self.wait_for(lambda: (found := lcm.status()).pending + found.running == 0)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with Provider() as provider:
        yield Story(tmp_path_factory.mktemp("openclaw"), provider)


def test_our_engine_is_selected_and_never_degraded(story: Story) -> None:
    assert 'context engine "lossless" owns compaction' in story.log
    assert not re.search("degraded to|quarantin", story.log)


def test_every_message_is_stored_once_and_in_order(story: Story) -> None:
    users = [each.text.partition(".")[0] for each in story.stored if each.role == "user"]
    assert users == [f"Turn {turn}: the code word is zebra{turn}" for turn in range(LAST + 1)]
    replies = [each.text for each in story.stored if each.role == "assistant" and each.text]
    assert [text.partition(".")[0] for text in replies] == [f"Noted {turn}" for turn in range(LAST + 1)]
    assert [text.strip() for text in replies] == [story.replies[turn].strip() for turn in range(LAST + 1)]
    assert all(proof.holds for proof in story.proof)


def test_a_turn_with_forty_tool_calls_is_stored_with_every_result(story: Story) -> None:
    parts = [part for each in story.stored for part in each.message.parts]
    calls = [part.call_id for part in parts if isinstance(part, ToolCall) and part.name == "ls"]
    results = [part.call_id for part in parts if isinstance(part, ToolResult) and part.name == "ls"]
    assert len(set(calls)) == CALLS
    assert calls == results


def test_summaries_are_written_by_the_model_of_the_host(story: Story) -> None:
    assert len(story.model.summaries) >= 2
    assert {each.model for each in story.summaries} <= {"fake/stand-in", "verbatim"}
    assert any(each.model == "fake/stand-in" for each in story.summaries)


def test_the_model_is_sent_summaries_in_place_of_old_messages(story: Story) -> None:
    for turn in (TOOL_TURN + 1, KILLED_WITHIN + 1):
        texts = [said(message) for message in story.model.turns[turn][0].body["messages"]]
        assert any(text.startswith('<summary id="sum_') for text in texts)
        assert not any("the code word is zebra0." in text for text in texts)
        prompts = [number for message in story.model.turns[turn][0].body["messages"] if (number := _turn(message))]
        assert prompts == sorted(set(prompts)), "each message once, in order"
        assert prompts[-1] == turn
    earlier, later = (_ids(story.model.turns[turn][0]) for turn in (TOOL_TURN + 1, KILLED_WITHIN + 1))
    assert later - earlier, "the second compaction wrote new summaries"


def _ids(call: Call) -> set[str]:
    return {name for message in call.body["messages"] for name in re.findall(r'<summary id="(sum_\w+)"', said(message))}


def test_requests_stay_bounded_while_the_history_grows(story: Story) -> None:
    def size(turn: int) -> int:
        messages = story.model.turns[turn][0].body["messages"]
        return sum(len(json.dumps(message)) for message in messages if message["role"] != "system")

    assert size(LAST) < size(TOOL_TURN) * 1.5, [size(turn) for turn in range(LAST + 1)]
    # Every request was valid, or the stand-in would have answered 400, and the turn would have no reply.
    assert set(story.replies) == set(range(AFTER_RESET + 1))


def test_a_fact_of_the_first_turn_is_found_by_the_tool_in_the_last(story: Story) -> None:
    final = story.model.turns[LAST][-1].body
    (found,) = [
        said(message) for message in final["messages"] if message.get("tool_call_id", "").startswith("callgrep")
    ]
    assert "zebra0" in found
    assert "msg#1000000001" in found
    names = {tool["function"]["name"] for tool in final["tools"]}
    assert {"lcm_grep", "lcm_describe", "lcm_expand_query"} <= names
    assert "lcm_expand" not in names  # only for sub-agents with a grant
    assert "lcm_grep" in said(final["messages"][0])  # the system prompt explains recall


def test_a_killed_bridge_costs_no_turn_and_leaves_an_error_people_can_see(story: Story) -> None:
    assert story.log.count("the bridge ended (SIGKILL)") == 2
    assert story.replies[KILLED_BEFORE].startswith(f"Noted {KILLED_BEFORE}.")
    assert story.replies[KILLED_WITHIN].startswith(f"Noted {KILLED_WITHIN}.")


def test_the_bridge_ends_with_the_gateway(story: Story) -> None:
    (bridge,) = story.bridge
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{bridge}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)  # it is not our child


def texts(call: Call) -> str:
    return "\n".join(said(message) for message in call.body["messages"] if message["role"] != "system")


def test_the_command_answers_in_the_chat(story: Story) -> None:
    with Lossless.open(story.host.database) as lcm:
        (answer,) = [
            hit for hit in lcm.conversation(KEY).grep("this conversation: [0-9]+ messages") if hit.role == "assistant"
        ]
    assert answer.snippet


def test_new_empties_the_context_and_recall_still_reaches_it(story: Story) -> None:
    shown = texts(story.model.turns[AFTER_NEW][0])
    assert f"zebra{AFTER_NEW}" in shown
    assert "zebra12" not in shown
    with Lossless.open(story.host.database) as lcm:
        assert lcm.conversation(KEY).grep("zebra12")


def test_reset_starts_a_fresh_conversation_that_stores_nothing_twice(story: Story) -> None:
    shown = texts(story.model.turns[AFTER_RESET][0])
    assert f"zebra{AFTER_RESET}" in shown
    assert f"zebra{AFTER_NEW}" not in shown
    assert "<summary" not in shown
    with Lossless.open(story.host.database) as lcm:
        fresh, old = sorted(lcm.conversations(), key=lambda each: not each.active)[:1], lcm.conversations(active=False)
        assert [(each.key, each.archive_cause) for each in old] == [(KEY, "manual-reset")]
        assert [each.text.partition(".")[0] for each in lcm.conversation(KEY).messages()] == [
            f"Turn {AFTER_RESET}: the code word is zebra{AFTER_RESET}",
            f"Noted {AFTER_RESET}",
        ]
        assert fresh


def test_a_sub_agent_is_below_its_parent_and_reads_it_with_a_grant(story: Story) -> None:
    with Lossless.open(story.host.database) as lcm:
        (child,) = [each for each in lcm.conversations() if ":subagent:" in each.key]
        parent = lcm.conversations.show(child.id).parent
    assert parent is not None
    assert parent.key == KEY
    names = {tool["function"]["name"] for tool in story.model.child[0].body["tools"]}
    assert "lcm_expand" in names
    assert "lcm_expand_query" not in names


def test_keys_of_the_host_reach_neither_log_nor_database(story: Story) -> None:
    assert "sk-openclaw-secret" not in story.log
    assert b"sk-openclaw-secret" not in story.host.database.read_bytes()


def test_a_killed_gateway_a_locked_and_a_deleted_database_cost_no_turn(tmp_path: Path, provider: Provider) -> None:
    model = provider.choose = Model()
    host = OpenClaw(tmp_path, provider, settings=SMALL)

    def prompt(turn: int) -> str:
        return f"Turn {turn}: the code word is zebra{turn}. " + "alpha beta " * 50

    def stored() -> list[str]:
        with Lossless.open(host.database, read_only=True) as lcm:
            found = lcm.conversation(KEY).messages()
        return [each.text.partition(".")[0] for each in found if each.text.startswith(("Turn ", "Noted "))]

    def kept(*turns: int) -> list[str]:
        return [text for turn in turns for text in (prompt(turn).partition(".")[0], f"Noted {turn}")]

    with host:
        host.say(prompt(0))
        bridges = host.bridges()
        model.during[1] = host.kill
        with pytest.raises(ConnectionError):
            host.say(prompt(1))
        wait_until(lambda: not any(Path(f"/proc/{bridge}").exists() for bridge in bridges))
        assert stored()[:2] == kept(0)
        host.start()
        host.say(prompt(2))
        found = stored()
        assert found[:2] == kept(0)
        assert (found.count(kept(1)[0]), found.count(kept(2)[0])) == (1, 1)  # the prompt whose reply was never written
        host.say(prompt(3))
        begun = time.monotonic()
        host.say(prompt(4))
        usual = time.monotonic() - begun
        with locked(host.database):
            begun = time.monotonic()
            assert host.say(prompt(TOOL_TURN)).startswith(f"Noted {TOOL_TURN}.")  # with forty calls of tools
            assert time.monotonic() - begun < usual + 20  # two waits of 30 seconds would be far more
            assert "was held by another process for too long" in host.log()
            assert stored()[-2:] == kept(4)
        host.say(prompt(6))
        wait_until(lambda: stored()[-6:] == kept(4, TOOL_TURN, 6))
        for path in tmp_path.glob("lcm.db*"):
            path.unlink()
        host.say(prompt(7))
        assert "was deleted, moved or replaced meanwhile" in host.log()
        # The host's own record restored what it still shows: it compacts, too.
        assert stored()[-4:] == kept(6, 7)
        (bridge,) = host.bridges()
    wait_until(lambda: not Path(f"/proc/{bridge}").exists())


def test_openclaw_itself_installs_the_plugin_from_its_directory(tmp_path: Path, provider: Provider) -> None:
    host = OpenClaw(tmp_path, provider)
    install("openclaw", host.environment, "--remove")
    config = tmp_path / ".openclaw" / "openclaw.json"
    assert "lossless" not in config.read_text()
    page = (ROOT / "docs" / "hosts" / "openclaw.md").read_text()
    (command,) = re.findall(r"`openclaw (plugins install [^`]*) integrations/openclaw`", page)
    host.run(*command.split(), str(ROOT / "integrations" / "openclaw"))
    plugins = json.loads(config.read_text())["plugins"]
    assert plugins["entries"]["lossless"]["enabled"] is True
    assert plugins["slots"]["contextEngine"] == "lossless"
    assert (config.parent / "extensions" / "lossless" / "skills" / "lossless" / "SKILL.md").is_file()
    (row,) = [line for line in host.run("plugins", "list").splitlines() if "lossless/index.js" in line]
    assert "enabled" in row
