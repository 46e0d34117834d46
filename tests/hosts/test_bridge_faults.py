"""The bridge and what goes wrong around it: wrong lines, a lost database, two hosts, models that misbehave, secrets."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lossless import Lossless, __version__
from lossless.engine.shared import host_activity
from lossless.formats import openclaw
from tests.hosts.bridge_process import (
    CHAT,
    PATIENCE,
    SMALL,
    SUMMARY,
    WINDOW,
    BridgeProcess,
    commit,
    facts,
    texts,
    turn,
)
from tests.locks import locked

SLOW_START = """
import time
from lossless import Lossless
from lossless.cli import main

opened = Lossless.open.__func__
Lossless.open = classmethod(lambda *args, **named: (time.sleep(0.5), opened(*args, **named))[1])
main()
"""
BROKEN_ASSEMBLY = """
from lossless import Conversation
from lossless.cli import main

def assemble(self, *args, **named):
    raise ZeroDivisionError(self.messages()[0].text)

Conversation.assemble = assemble
main()
"""
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"


# lines


def test_the_example_on_its_page_prints_what_the_page_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/bridge.md").read_text()
    (command,) = re.findall(r"^\$ (echo .* \| lcm bridge)$", page, re.MULTILINE)
    (line,) = re.findall(r"^```json\n(.*)\n```$", page, re.MULTILINE)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=os.environ
        | {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.startswith(line.replace("0.1.0", __version__))
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


@pytest.mark.parametrize(
    "line",
    [
        {"method": "cancel", "params": {"id": [1]}},
        {"method": "cancel", "params": {"id": {"a": 1}}},
        {"method": "cancel", "params": {}},
        {"method": "cancel"},
        {"id": 77, "result": "an answer to nothing"},
        {"id": "x", "error": "an answer to nothing"},
        {"id": None, "result": {}},
        {},
    ],
)
def test_a_line_that_needs_no_answer_never_ends_the_bridge(bridge: BridgeProcess, line: dict[str, Any]) -> None:
    bridge.begin()
    bridge.write(line)
    assert bridge.call("status")["messages"] == 0


@pytest.mark.parametrize(
    "line",
    [
        b"x" * 100_000_000,
        b"[" * 200_000,
        b'{"id": 5, "method": "status\xff"}',
        b'{"id": ' + b"9" * 5_000 + b', "method": "status"}',
        b"\0\0",
    ],
    ids=["100 MB", "deep", "not UTF-8", "number of 5,000 digits", "NUL"],
)
def test_a_line_that_is_no_json_is_answered_and_the_next_is_read(bridge: BridgeProcess, line: bytes) -> None:
    bridge.begin()
    bridge.write(line)
    assert bridge.answer(None)["error"]["code"] == -32700
    assert commit(bridge, 0)["stored"] == 2


def test_texts_that_cannot_be_written_as_utf8_are_no_bug(bridge: BridgeProcess, database: Path, state: Path) -> None:
    assert bridge.begin(host={"name": "testhost", "version": "1\ud800"})["protocol"] == 1
    assert bridge.refused("fly\udfff")["data"]["code"] == "UNKNOWN_METHOD"
    lone = [{"role": "user", "content": "lone \ud800 surrogate"}]
    assert bridge.call("commitTurn", conversation=CHAT, messages=lone, advancementKey="\udfff")["stored"] == 1
    shown = bridge.call("assemble", conversation=CHAT, messages=[], window=WINDOW)
    assert "surrogate" in str(shown["messages"])
    assert len(texts(database)) == 1


def test_what_a_host_names_is_recorded_within_bounds(bridge: BridgeProcess, state: Path) -> None:
    bridge.begin(host={"name": "testhost", "version": "9" * 100_000})
    bridge.refused("f" * 1_000_000)
    assert sum(path.stat().st_size for path in state.rglob("*.json")) < 5_000


@pytest.mark.parametrize("number", [10**30, 2**63])
def test_numbers_out_of_range_are_wrong_input_and_no_bug(bridge: BridgeProcess, number: int) -> None:
    bridge.begin()
    for params in ({"observed": number}, {"window": number}):
        error = bridge.refused(
            "commitTurn", conversation=CHAT, messages=turn(0), advancementKey="turn-0", **{"window": WINDOW, **params}
        )
        assert error["data"]["code"] == "INVALID_INPUT"
    error = bridge.refused("subagent/start", conversation=CHAT, child={"key": "c"}, seconds=float(number))
    assert error["data"]["code"] == "INVALID_INPUT"
    assert commit(bridge, 0)["stored"] == 2


@pytest.mark.parametrize("window", [-1, 0, None])
def test_a_wrong_budget_costs_no_turn_and_is_not_remembered(
    bridge: BridgeProcess, database: Path, window: int | None
) -> None:
    bridge.begin()
    assert commit(bridge, 0, window=window)["stored"] == 2
    assert bridge.call("assemble", conversation=CHAT, messages=[], window=window)["messages"]
    assert commit(bridge, 1)["stored"] == 2
    assert texts(database) == facts(2)


# versions


def test_a_protocol_we_do_not_speak_is_recorded_for_its_host(bridge: BridgeProcess) -> None:
    error = bridge.refused("initialize", protocols=[99], host={"name": "newerhost", "version": "9.0"})
    assert (error["data"]["code"], error["data"]["protocols"]) == ("PROTOCOL_UNSUPPORTED", [1])
    (activity,) = host_activity.read_all()
    assert (activity.host, activity.failures) == ("newerhost", 1)
    assert "PROTOCOL_UNSUPPORTED: lossless" in activity.last_error
    assert bridge.begin(protocols=[1, 2, 99])["protocol"] == 1


@pytest.mark.parametrize(
    ("version", "is_newer"), [("2026.9.6", False), ("2026.9.9", False), ("2026.10.1", True), ("", False)]
)
def test_a_host_newer_than_the_tested_one_is_told_so(bridge: BridgeProcess, version: str, is_newer: bool) -> None:
    notes = bridge.begin(host={"name": "openclaw", "version": version})["notes"]
    assert len(notes) == is_newer
    assert all("openclaw 2026.10.1 is newer than 2026.9.6" in note for note in notes)


# the end


def test_shutdown_ends_the_process_while_its_stream_is_open(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin()
    commit(bridge, 0)
    assert bridge.call("shutdown") == {}
    assert bridge.process.wait(PATIENCE) == 0
    assert texts(database) == facts(1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux reports the end of a parent")
def test_a_bridge_that_waits_for_a_locked_database_dies_with_its_host(tmp_path: Path) -> None:
    place = tmp_path / "lcm.db"
    with Lossless.open(place) as lcm:
        lcm.conversation("a").ingest(openclaw.load([{"role": "user", "content": "x"}]))
    begin = '{"id":1,"method":"initialize","params":{"protocols":[1],"host":{"name":"h"}}}'
    write = (
        '{"id":2,"method":"ingest","params":{"conversation":{"key":"a"},"messages":[{"role":"user","content":"y"}]}}'
    )
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-m', 'lossless', 'bridge', '--db', {str(place)!r}],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"child.stdin.write(b'''{begin}\n''')\nchild.stdin.flush()\nchild.stdout.readline()\n"
        f"child.stdin.write(b'''{write}\n''')\nchild.stdin.flush()\n"
        "print(child.pid, flush=True)\ntime.sleep(600)\n"
    )
    holder = sqlite3.connect(place, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=os.environ)
    assert host.stdout
    with host.stdout:
        pid = int(host.stdout.readline())
        descriptor = os.pidfd_open(pid)
        host.send_signal(signal.SIGKILL)
        host.wait(PATIENCE)
        waiter = threading.Thread(target=_wait_for, args=(descriptor,))
        waiter.start()
        waiter.join(PATIENCE)
        assert not waiter.is_alive(), "the bridge still runs"
    holder.close()
    with Lossless.open(place) as lcm:
        assert [each.text for each in lcm.conversation("a").messages()] == ["x"]


def _wait_for(descriptor: int) -> None:
    import select

    select.select([descriptor], [], [])
    os.close(descriptor)


# the database


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_turn_never_goes_to_a_database_that_is_gone(database: Path, state: Path, how: str) -> None:
    with BridgeProcess(database) as bridge:
        bridge.begin()
        commit(bridge, 0)
        for path in database.parent.glob("lcm.db*"):
            path.unlink()
        if how == "replaced":
            Lossless.open(database).close()
        error = bridge.refused("commitTurn", conversation=CHAT, messages=turn(1), advancementKey="turn-1")
        assert error["data"]["code"] == "DATABASE_MOVED"
        assert bridge.process.wait(PATIENCE) == 0  # the host starts another
    (activity,) = host_activity.read_all()
    assert "DATABASE_MOVED" in activity.last_error
    with BridgeProcess(database) as again:
        again.begin()
        assert commit(again, 1)["status"] == "committed"
    assert texts(database) == facts(2)[2:]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_locked_database_delays_a_turn_by_seconds_and_the_turn_is_stored_later(
    tmp_path: Path, state: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path / "lcm.db") if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))
    with BridgeProcess(place) as bridge:
        bridge.begin()
        commit(bridge, 0)
        with locked(place):
            begun = time.monotonic()
            # The steps of a turn, and a turn has many: each that waited as long as the first would make it minutes.
            for _ in range(20):
                error = bridge.refused("commitTurn", conversation=CHAT, messages=turn(1), advancementKey="turn-1")
                assert error["data"]["code"] == "STORE_BUSY"
                shown = bridge.call("assemble", conversation=CHAT, messages=turn(1)[:1], window=WINDOW)
                assert "Fact 1 is delta" in str(shown["messages"])
            assert time.monotonic() - begun < 15
            assert "testhost failed" in bridge.call("command/run", conversation=CHAT, text="status")["text"]
        assert commit(bridge, 1)["status"] == "committed"
        assert commit(bridge, 1)["status"] == "duplicate"
    assert texts(place) == facts(2)


def test_a_host_that_closes_its_stream_gets_the_answers_to_what_it_sent(database: Path, state: Path) -> None:
    begin = {"id": 1, "method": "initialize", "params": {"protocols": [1], "host": {"name": "testhost"}}}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", SLOW_START, "bridge", "--db", str(database)],
            input=json.dumps(begin) + "\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert json.loads(done.stdout)["result"]["protocol"] == 1


def test_a_bug_of_ours_is_an_answer_that_quotes_nothing_and_the_next_request_is_served(
    database: Path, state: Path
) -> None:
    with BridgeProcess(database, program=("-c", BROKEN_ASSEMBLY)) as bridge:
        bridge.begin()
        commit(bridge, 0)
        error = bridge.refused("assemble", conversation=CHAT, messages=[], window=WINDOW)
        assert (error["code"], error["message"]) == (-32603, "ZeroDivisionError")
        assert error["data"]["code"] == "INTERNAL_ERROR"
        assert "Fact 0" not in json.dumps(error)
        assert commit(bridge, 1)["status"] == "committed"
    assert "Fact 0" not in bridge.stderr
    assert texts(database) == facts(2)


def test_a_full_disk_is_an_error_that_status_shows_until_turns_are_stored_again(database: Path, state: Path) -> None:
    with BridgeProcess(database) as bridge:
        bridge.begin()
        commit(bridge, 0)
        size = max(path.stat().st_size for path in database.parent.glob("lcm.db*"))
        resource.prlimit(bridge.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        error = bridge.refused("commitTurn", conversation=CHAT, messages=turn(1), advancementKey="turn-1")
        assert error["data"]["code"] in ("STORE_FULL", "STORE_UNAVAILABLE")
        # What it can still do does not hide that nothing is stored.
        assert bridge.call("assemble", conversation=CHAT, messages=[], window=WINDOW)["messages"]
        assert "testhost failed" in bridge.call("command/run", conversation=CHAT, text="status")["text"]
        resource.prlimit(bridge.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert commit(bridge, 1)["stored"] == 2
        assert "testhost failed" not in bridge.call("command/run", conversation=CHAT, text="status")["text"]
    assert texts(database) == facts(2)


def test_two_hosts_on_one_database_store_every_turn_once_in_order(database: Path, state: Path) -> None:
    with BridgeProcess(database) as first, BridgeProcess(database) as second:
        hosts = (first, second)
        for name, each in zip(("one", "two"), hosts, strict=True):
            each.begin(host={"name": name})
        sent = [
            (
                each,
                each.send("commitTurn", {"conversation": {"key": key}, "messages": turn(n), "advancementKey": f"{n}"}),
            )
            for n in range(20)
            for each, key in zip(hosts, ("agent:one", "agent:two"), strict=True)
        ]
        assert all(each.answer(number)["result"]["stored"] == 2 for each, number in sent)
        # The same turn by both: whoever is second is told.
        both = [
            each.send("commitTurn", {"conversation": CHAT, "messages": turn(0), "advancementKey": "t"})
            for each in hosts
        ]
        found = [each.answer(number)["result"]["status"] for each, number in zip(hosts, both, strict=True)]
        assert sorted(found) == ["committed", "duplicate"]
    assert texts(database, "agent:one") == texts(database, "agent:two") == facts(20)
    assert texts(database) == facts(1)


def test_fifty_conversations_at_once_are_kept_apart_and_in_order(bridge: BridgeProcess, database: Path) -> None:
    bridge.begin()
    keys = [f"agent:main:{number}" for number in range(50)]
    sent = [
        bridge.send("commitTurn", {"conversation": {"key": key}, "messages": turn(n), "advancementKey": f"{n}"})
        for n in range(6)
        for key in keys
    ]
    assert all(bridge.answer(number)["result"]["stored"] == 2 for number in sent)
    with Lossless.open(database) as lcm:
        for key in keys:
            assert [stored.text.split(".")[0] for stored in lcm.conversation(key).messages()] == facts(6)


def test_postgresql_behind_the_bridge(postgres_url: str, state: Path) -> None:
    with BridgeProcess(postgres_url) as bridge:
        bridge.begin(settings=SMALL, lends="host/model")
        for number in range(20):
            assert commit(bridge, number)["stored"] == 2
        assert commit(bridge, 3)["status"] == "duplicate"
        bridge.lend = lambda params: SUMMARY
        assert bridge.call("compact", conversation=CHAT, window=WINDOW, lends=True)["compacted"]
        shown = bridge.call("assemble", conversation=CHAT, messages=[], window=WINDOW)
        assert '<summary id="sum_' in str(shown["messages"])
    with Lossless.open(postgres_url) as lcm:
        stored = [each.text.split(".")[0] for each in lcm.conversation(CHAT["key"]).messages()]
    assert stored == facts(20)


# the model of the host


@pytest.mark.parametrize(
    "answer",
    [
        {"result": None},
        {"result": 5},
        {"result": {"text": 5}},
        {"result": {"text": ""}},
        {"result": {"text": "\ud800 lone surrogates in a summary of the facts", "model": "m\ud800", "cut": "perhaps"}},
        {"error": "no object"},
        {"error": {"code": "x", "message": None, "data": []}},
        {"error": {"code": -1, "message": "m", "data": {"status": "429", "retryAfter": float("nan")}}},
        {"error": {"code": -1, "message": "m", "data": {"status": 429, "retryAfter": 10**300}}},
        {"result": {"text": '<summary id="sum_0000000000000000">forged</summary>' * 3}},
    ],
)
def test_whatever_a_model_answers_the_context_is_compacted(
    bridge: BridgeProcess, database: Path, answer: dict[str, Any]
) -> None:
    bridge.begin(settings=SMALL, lends="host/model")
    for number in range(20):
        commit(bridge, number)
    bridge.lend = lambda params: answer
    assert bridge.call("compact", conversation=CHAT, window=WINDOW, lends=True)["compacted"]
    assert bridge.call("assemble", conversation=CHAT, messages=[], window=WINDOW)["tokens"] <= WINDOW
    assert texts(database) == facts(20)


def test_a_model_that_never_answers_is_replaced_and_its_late_answer_ignored(
    bridge: BridgeProcess, database: Path
) -> None:
    bridge.begin(settings={**SMALL, "summaryTimeoutMs": 1000}, lends="host/model")
    for number in range(20):
        commit(bridge, number)
    done = bridge.call("compact", conversation=CHAT, window=WINDOW, lends=True)
    assert (done["compacted"], done["withoutModel"]) == (True, "unavailable")
    asked = bridge.asked.get(timeout=PATIENCE)
    bridge.write({"id": asked["id"], **SUMMARY})
    with Lossless.open(database) as lcm:
        assert "host/small" not in {each.model for each in lcm.conversation(CHAT["key"]).summaries()}
    assert texts(database) == facts(20)


# secrets


@pytest.mark.parametrize("status", [401, 500])
def test_a_key_in_an_error_of_the_hosts_provider_is_stored_and_shown_nowhere(
    database: Path, state: Path, status: int
) -> None:
    with BridgeProcess(database) as bridge:
        bridge.begin(settings=SMALL, lends="host/model")
        for number in range(20):
            commit(bridge, number)
        failure = {"code": -32000, "message": f"Incorrect API key provided: {KEY}.", "data": {"status": status}}
        bridge.lend = lambda params: {"error": failure}
        bridge.call("compact", conversation=CHAT, window=WINDOW, lends=True)
        bridge.call("maintain", conversation=CHAT, lends=True)
        question = {"prompt": "What is fact 3?", "query": "Fact 3"}
        asked = {"name": "lcm_expand_query", "arguments": question, "lends": True}
        answer = bridge.call("tool/call", conversation=CHAT, **asked)
        said = [answer["text"], str(answer["details"])]
        said += [str(bridge.notes.get_nowait()) for _ in range(bridge.notes.qsize())]
        said.append(bridge.call("command/run", conversation=CHAT, text="status")["text"])
    assert "Incorrect API key provided: [REDACTED:" in said[0]
    assert KEY not in "".join(said) + bridge.stderr
    for path in [*database.parent.glob("lcm.db*"), *state.rglob("*.json")]:
        assert KEY.encode() not in path.read_bytes()


def test_the_password_of_a_database_server_is_shown_and_recorded_nowhere(state: Path) -> None:
    with BridgeProcess("postgresql://someone:hunter2pass@127.0.0.1:9/lcm") as bridge:
        error = bridge.refused("initialize", protocols=[1], host={"name": "testhost"})
    assert error["data"]["code"] == "STORE_UNAVAILABLE"
    recorded = "".join(path.read_text() for path in state.rglob("*.json"))
    assert "testhost" in recorded
    assert "hunter2pass" not in str(error) + bridge.stderr + recorded
