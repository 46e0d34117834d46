"""The bridge without a host: a process that is sent lines, and what it answers and stores."""

from __future__ import annotations

import os
import queue
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lossless import Lossless
from lossless.engine.shared import host_activity
from tests.hosts.bridge_process import (
    CHAT,
    PATIENCE,
    SMALL,
    SUMMARY,
    WINDOW,
    BridgeProcess,
    commit,
    facts,
    summarised,
    texts,
    turn,
)

# the beginning and the end


def test_initialize_reports_versions_database_and_tools(bridge: BridgeProcess, database: Path) -> None:
    begun = bridge.begin(settings=SMALL)
    assert (begun["protocol"], begun["server"]["name"], begun["database"]) == (1, "lossless", str(database))
    assert [tool["name"] for tool in begun["tools"]] == ["lcm_grep", "lcm_describe", "lcm_expand_query", "lcm_expand"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in begun["tools"])
    assert bridge.refused("initialize", protocols=[1], host={"name": "x"})["data"]["code"] == "ALREADY_INITIALIZED"


def test_the_highest_common_version_of_the_protocol_is_used(bridge: BridgeProcess) -> None:
    error = bridge.refused("initialize", protocols=[7, 8], host={"name": "newer"})
    assert (error["data"]["code"], error["data"]["protocols"]) == ("PROTOCOL_UNSUPPORTED", [1])
    assert bridge.begin(protocols=[1, 7])["protocol"] == 1


def test_nothing_is_answered_before_initialize(bridge: BridgeProcess) -> None:
    assert bridge.refused("assemble", conversation=CHAT, messages=[])["data"]["code"] == "NOT_INITIALIZED"


def test_a_database_that_cannot_be_opened_is_an_error_and_the_host_may_try_again(tmp_path: Path, state: Path) -> None:
    broken = tmp_path / "lcm.db"
    broken.write_text("This is not a database, whatever its name says. " * 100)
    with BridgeProcess(broken) as bridge:
        error = bridge.refused("initialize", protocols=[1], host={"name": "testhost"})
        assert error["data"]["code"] in ("STORE_CORRUPT", "NOT_OUR_DATABASE")
        (activity,) = host_activity.read_all()
        assert (activity.host, activity.failures) == ("testhost", 1)
        broken.unlink()
        assert bridge.begin()["database"] == str(broken)


@pytest.mark.parametrize("how", ["close", "shutdown", "SIGTERM"])
def test_it_ends_and_keeps_what_it_acknowledged(database: Path, state: Path, how: str) -> None:
    with BridgeProcess(database) as bridge:
        bridge.begin()
        commit(bridge, 0)
        if how == "shutdown":
            assert bridge.call("shutdown") == {}
        elif how == "SIGTERM":
            bridge.process.send_signal(signal.SIGTERM)
            bridge.process.wait(PATIENCE)
    assert bridge.process.returncode == 0
    assert texts(database) == facts(1)


def test_it_ends_while_a_model_is_asked_and_leaves_no_work_claimed(database: Path, state: Path) -> None:
    with BridgeProcess(database) as bridge:
        bridge.begin(settings=SMALL, lends="host/model")
        for number in range(20):
            commit(bridge, number)
        bridge.send("maintain", {"conversation": CHAT, "lends": True})
        bridge.asked.get(timeout=PATIENCE)  # and no answer
    assert bridge.process.returncode == 0
    assert texts(database) == facts(20)
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM debt WHERE worker IS NOT NULL").fetchall() == [(0,)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux reports the end of a parent")
def test_it_ends_with_its_parent_even_if_another_process_holds_its_streams(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    script = (
        f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-m', 'lossless', 'bridge'], stdin={reads})\n"
        "sys.stdin.readline()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(reads,),
        cwd=tmp_path,
    )
    os.close(reads)
    os.write(writes, b'{"jsonrpc":"2.0","id":1,"method":"status"}\n')
    assert parent.stdin
    assert parent.stdout
    with parent.stdin, parent.stdout:
        assert b"NOT_INITIALIZED" in parent.stdout.readline()  # it runs, and reads from us
        parent.stdin.close()
        parent.wait(PATIENCE)
        # Only the bridge could still hold this end of the pipe.
        assert parent.stdout.read() == b""
    os.close(writes)


# requests


def test_wrong_lines_and_wrong_requests_are_answered(bridge: BridgeProcess) -> None:
    for line, code in ((b"{nope", -32700), (b"[1]", -32600), (b'{"id": true, "method": "status"}', -32600)):
        bridge.write(line)
        assert bridge.answer(None)["error"]["code"] == code
    bridge.begin()
    assert bridge.refused("fly")["code"] == -32601
    assert bridge.refused("ingest", conversation=CHAT)["code"] == -32602
    assert bridge.refused("ingest", conversation=CHAT, messages=[], ids=["a"])["data"]["code"] == "INVALID_INPUT"


def test_what_a_host_sends_by_mistake_is_refused_and_never_quoted(bridge: BridgeProcess, database: Path) -> None:
    secret = "sk-live-1234567890abcdef"  # noqa: S105 - nobody's
    error = bridge.refused("initialize", protocols=[1], host={"name": "h"}, settings={"apiKey": secret})
    assert error["data"]["code"] == "CONFIG_INVALID"
    assert secret not in str(error)
    nested = {"providers": {"openai": {"api_key": secret}}}
    assert secret not in str(bridge.refused("initialize", protocols=[1], host={"name": "h"}, settings=nested))
    bridge.begin()
    error = bridge.refused("assemble", conversation=CHAT, messages=[], runtimeContext={"config": secret})
    assert "runtimeContext" in error["message"]
    assert secret not in str(error)
    assert secret.encode() not in database.read_bytes()


def test_a_setting_that_does_not_exist_is_named_with_the_nearest(bridge: BridgeProcess) -> None:
    error = bridge.refused("initialize", protocols=[1], host={"name": "claw"}, settings={"freshTialCount": 3})
    assert "claw: freshTialCount is not a setting" in error["message"]
    assert "fresh_tail_count" in error["message"]


def test_the_environment_wins_over_the_plugin(database: Path, state: Path) -> None:
    environment = {"LCM_IGNORE_SESSION_PATTERNS": "agent:secret:*"}
    with BridgeProcess(database, environment=environment) as bridge:
        bridge.begin(settings={"ignoreSessionPatterns": ["agent:main:*"]})
        assert commit(bridge, 0)["stored"] == 2
        assert commit(bridge, 1, conversation={"key": "agent:secret:main"})["stored"] == 0
    assert texts(database) == facts(1)


# turns


def test_a_turn_is_stored_once_however_often_it_comes(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin()
    assert commit(bridge, 0)["status"] == "committed"
    assert commit(bridge, 0)["status"] == "duplicate"
    assert commit(bridge, 1)["status"] == "committed"
    # Other words for the same turn: kept beside the first, and never a second turn.
    assert commit(bridge, 0, messages=turn(0, words=3))["status"] == "duplicate"
    assert texts(database) == facts(2)


def test_the_same_words_in_another_turn_are_another_turn(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin()
    bare = [{"role": "user", "content": "yes"}, {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}]
    for key in ("a", "b"):
        assert commit(bridge, 0, messages=bare, advancementKey=key)["stored"] == 2
    assert texts(database) == ["yes", "ok", "yes", "ok"]


def test_a_turn_survives_a_bridge_that_is_killed(database: Path, state: Path) -> None:
    with BridgeProcess(database) as bridge:
        bridge.begin()
        commit(bridge, 0)
        bridge.send("commitTurn", {"conversation": CHAT, "messages": turn(1), "advancementKey": "turn-1"})
        bridge.process.kill()
        bridge.process.wait(PATIENCE)
    with BridgeProcess(database) as bridge:
        bridge.begin()
        assert commit(bridge, 0)["status"] == "duplicate"
        commit(bridge, 1)
    assert texts(database) == facts(2)


def test_turns_and_the_record_of_the_host_are_one_history(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin()
    record = [
        {"id": f"entry-{number}-{place}", "message": message}
        for number in range(4)
        for place, message in enumerate(turn(number))
    ]
    assert bridge.call("bootstrap", conversation=CHAT, entries=record[:2])["stored"] == 2
    commit(bridge, 1)
    commit(bridge, 2)
    # The host repeats its record from the start, and a turn it was not sure of.
    done = bridge.call("bootstrap", conversation=CHAT, entries=record)
    assert (done["stored"], done["known"]) == (2, 6)
    assert commit(bridge, 3)["status"] == "duplicate"
    assert bridge.call("bootstrap", conversation=CHAT, entries=record)["stored"] == 0
    commit(bridge, 4)
    assert texts(database) == facts(5)


def test_two_conversations_share_one_process(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin()
    other = {"key": "agent:main:other"}
    numbers = [
        bridge.send("commitTurn", {"conversation": chat, "messages": turn(number), "advancementKey": f"t{number}"})
        for number in range(10)
        for chat in (CHAT, other)
    ]
    assert all(bridge.answer(number)["result"]["status"] == "committed" for number in numbers)
    assert texts(database) == texts(database, "agent:main:other") == facts(10)


def test_deliveries_are_recorded_for_lcm_hosts(bridge: BridgeProcess) -> None:
    bridge.begin()
    commit(bridge, 0)
    (activity,) = host_activity.read_all()
    assert (activity.host, activity.version, activity.delivered) == ("testhost", "1", 2)
    assert (activity.last_event, activity.failures) == ("commitTurn", 0)


# the context


def compacted(bridge: BridgeProcess, turns: int = 20) -> None:
    bridge.begin(settings=SMALL, lends="host/model")
    for number in range(turns):
        commit(bridge, number)
    bridge.lend = summarised
    assert bridge.call("maintain", conversation=CHAT, lends=True)["steps"] >= 1


def test_the_host_lends_its_model_while_it_maintains(bridge: BridgeProcess, database: Path) -> None:
    compacted(bridge)
    asked = bridge.asked.get_nowait()
    assert asked["method"] == "model/complete"
    assert "Fact 0 is delta" in asked["params"]["prompt"]
    assert asked["params"]["maxTokens"] > 0
    with Lossless.open(database) as lcm:
        assert {each.model for each in lcm.conversation(CHAT["key"]).summaries()} == {"host/small"}


def test_assemble_recognises_its_own_output(bridge: BridgeProcess, database: Path) -> None:
    compacted(bridge)
    first = bridge.call("assemble", conversation=CHAT, messages=[], window=WINDOW, promptFollows=True, guidance="short")
    shown = [
        message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]
        for message in first["messages"]
    ]
    assert shown[0].startswith('<summary id="sum_')
    assert not any("Fact 0 is delta" in text for text in shown)
    assert "Fact 19 is delta" in shown[-2]
    assert "lcm_grep" in first["system"]
    again = bridge.call("assemble", conversation=CHAT, messages=first["messages"], window=WINDOW, promptFollows=True)
    assert again["messages"] == first["messages"]
    live = [{"role": "user", "content": "And what was fact 3?", "timestamp": 1_790_000_900_000}]
    third = bridge.call("assemble", conversation=CHAT, messages=[*first["messages"], *live], window=WINDOW)
    assert third["messages"] == [*first["messages"], *live]
    # What came back was not stored.
    assert texts(database) == facts(20)


def test_assemble_answers_while_a_summary_is_written(bridge: BridgeProcess) -> None:
    bridge.begin(settings=SMALL, lends="host/model")
    for number in range(20):
        commit(bridge, number)
    running = bridge.send("maintain", {"conversation": CHAT, "lends": True})
    request = bridge.asked.get(timeout=PATIENCE)
    shown = bridge.call("assemble", conversation=CHAT, messages=[], window=WINDOW, promptFollows=True)
    assert shown["messages"]
    assert commit(bridge, 20)["status"] == "committed"
    bridge.lend = lambda params: SUMMARY
    bridge.write({"id": request["id"], **SUMMARY})
    assert bridge.answer(running)["result"]["steps"] >= 1


def test_a_cancelled_request_ends_and_withdraws_its_call_of_the_model(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin(settings=SMALL, lends="host/model")
    for number in range(20):
        commit(bridge, number)
    running = bridge.send("compact", {"conversation": CHAT, "window": WINDOW, "lends": True})
    request = bridge.asked.get(timeout=PATIENCE)
    bridge.write({"method": "cancel", "params": {"id": running}})
    assert bridge.answer(running)["error"]["data"]["code"] == "CANCELLED"
    notes = [bridge.notes.get(timeout=PATIENCE)]
    while notes[-1]["method"] != "cancel":
        notes.append(bridge.notes.get(timeout=PATIENCE))
    assert notes[-1]["params"] == {"id": request["id"]}
    with Lossless.open(database) as lcm:
        assert lcm.conversation(CHAT["key"]).summaries() == []
    bridge.lend = lambda params: SUMMARY
    assert bridge.call("compact", conversation=CHAT, window=WINDOW, lends=True)["compacted"]


def test_a_model_that_fails_is_replaced_and_asked_again_later(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin(settings=SMALL, lends="host/model")
    for number in range(20):
        commit(bridge, number)
    bridge.lend = lambda params: {"error": {"code": -32000, "message": "overloaded", "data": {"status": 529}}}
    done = bridge.call("compact", conversation=CHAT, window=WINDOW, lends=True)
    assert (done["compacted"], done["withoutModel"]) == (True, "unavailable")
    assert texts(database) == facts(20)
    event = next(note for note in iter(lambda: bridge.notes.get(timeout=PATIENCE), None) if "replaced" in str(note))
    assert event["params"]["level"] == "warning"


def test_without_a_lent_model_no_request_reaches_the_host(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin(settings=SMALL)
    for number in range(20):
        commit(bridge, number)
    bridge.call("compact", conversation=CHAT, window=WINDOW)  # unless the bridge's own thread was faster
    with Lossless.open(database) as lcm:
        assert lcm.conversation(CHAT["key"]).summaries()
    with pytest.raises(queue.Empty):
        bridge.asked.get_nowait()


# sessions, sub-agents, tools and commands


def test_new_reset_and_end_are_the_verbs_of_a_conversation(bridge: BridgeProcess) -> None:
    compacted(bridge)
    assert bridge.call("new", conversation=CHAT)["tokensAfter"] < 1000
    assert bridge.call("reset", conversation=CHAT) == {"archived": True}
    assert bridge.call("end", conversation=CHAT, reason="shutdown") == {"archived": False}
    found = bridge.call("tool/call", conversation=CHAT, name="lcm_grep", arguments={"pattern": "Fact 3 is"})
    assert "Fact 3 is delta" in found["text"]


def test_a_sub_agent_reads_its_parent_until_its_grant_ends(bridge: BridgeProcess) -> None:
    bridge.begin()
    commit(bridge, 3)
    child = {"key": "agent:main:subagent:1", "parent": CHAT["key"]}
    grant = bridge.call("subagent/start", conversation=CHAT, child=child)["grant"]
    commit(bridge, 50, conversation=child)
    ask = {"conversation": child, "name": "lcm_grep", "arguments": {"pattern": "Fact 3 is"}}
    assert "Fact 3 is delta" not in bridge.call("tool/call", **ask)["text"]
    assert "Fact 3 is delta" in bridge.call("tool/call", **ask, grant=grant)["text"]
    assert bridge.call("subagent/end", child=child, grant=grant)["revoked"]
    assert bridge.call("tool/call", **ask, grant=grant)["isError"]


def test_commands_of_a_chat_are_answered_in_plain_text(bridge: BridgeProcess) -> None:
    bridge.begin()
    assert "nothing stored yet" in bridge.call("command/run", conversation=CHAT, text="status")["text"]
    commit(bridge, 0)
    assert "this conversation: 2 messages" in bridge.call("command/run", conversation=CHAT)["text"]
    assert "checks passed" in bridge.call("command/run", conversation=CHAT, text="doctor")["text"]
    assert "Nothing was compacted" in bridge.call("command/run", conversation=CHAT, text="compact")["text"]
    assert "/lcm status" in bridge.call("command/run", conversation=CHAT, text="fly")["text"]
    assert bridge.call("status", conversation=CHAT)["messages"] == 2


def test_a_list_that_is_sent_again_is_shown_as_it_is_now(bridge: BridgeProcess) -> None:
    bridge.begin()
    first = [*turn(0), *turn(1), turn(2)[0]]
    changed = [*turn(0), *turn(1), turn(2)[0] | {"content": "Fact 2 was wrong."}]
    half = [turn(3)[0] | {"content": "half \ud83d"}]
    for sent in (first, first, changed, half, half, first[-1:]):
        shown = bridge.call("assemble", conversation=CHAT, messages=sent, window=100_000)["messages"]
        expected = [each["content"] for each in sent] if sent is not half else ["half ?"]
        assert [each["content"] for each in shown] == expected
    assert "messages[1]" in bridge.refused("assemble", conversation=CHAT, messages=[first[0], 7])["message"]
