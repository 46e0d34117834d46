"""`lcm mcp` when things go wrong or slowly: models that hang, missing and locked databases, hostile text, other machines."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from lossless import Lossless, Message
from lossless.engine.context.guidance import FULL, SHORT
from lossless.events import ignore
from tests.conftest import KEY
from tests.engine.recall.test_ask import said
from tests.hosts.mcp_process import (
    ASKED,
    HOSTILE,
    TRANSPORTS,
    Process,
    Transport,
    client,
    exchange,
    http_server,
    refusal,
    run,
    stored,
    summarised,
    text,
)
from tests.provider import Play, Provider

VERSION = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
GREP = {"name": "lcm_grep", "arguments": {"pattern": "deploy key", "conversationId": 1}}


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return summarised(tmp_path)


def call(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": VERSION}}


# questions that take their time


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_question_reports_progress_lets_others_pass_and_ends_when_cancelled(
    process: Process, provider: Provider, transport: Transport
) -> None:
    fact = next(each for each in stored(process).messages if "blue safe" in each.text)
    provider.script("hang", Play(text=said("In the blue safe.", f"msg#{fact.id}")))
    steps: list[tuple[float, str | None]] = []

    async def story(server: Client) -> None:
        async with anyio.create_task_group() as group:

            async def note(progress: float, total: float | None, message: str | None) -> None:
                steps.append((progress, message))

            async def ask() -> None:
                await server.call_tool("lcm_expand_query", ASKED, progress_callback=note)

            group.start_soon(ask)
            await anyio.to_thread.run_sync(partial(received, provider))
            hits = await server.call_tool("lcm_grep", {"pattern": "deploy key", "conversationId": 1})
            assert not hits.is_error, text(hits)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(provider.is_idle, 10), "the model is still asked"
        again = await server.call_tool("lcm_expand_query", ASKED)
        assert again.structured_content is not None, text(again)
        assert again.structured_content["answer"] == "In the blue safe."
        assert again.structured_content["citedIds"] == [f"msg#{fact.id}"]

    run(story, process.asking(provider), transport)
    assert steps == [(0, "Reading history"), (1, "Asking the model (1)")]
    assert provider.calls == 2
    with Lossless.open(process.database, read_only=True) as lcm:
        open_grants = lcm._store.all("SELECT count(*) FROM recall_grant WHERE revoked_at IS NULL")
    assert open_grants == [(0,)]


def received(provider: Provider) -> None:
    while not provider.calls:
        provider.is_idle(0.01)


def test_a_key_is_not_logged(process: Process, provider: Provider) -> None:
    provider.script("401")
    asked = call(1, "tools/call", name="lcm_expand_query", arguments=ASKED)
    answers, logged, status = exchange(process.asking(provider), asked)
    assert status == 0
    assert answers[0]["result"]["isError"]
    assert KEY not in json.dumps(answers) + logged


# the database


def test_a_missing_database_is_an_answer_and_is_read_once_it_is_there(process: Process, tmp_path: Path) -> None:
    later = tmp_path / "later.db"

    async def story(server: Client) -> None:
        missing = refusal(await server.call_tool("lcm_grep", {"pattern": "x", "allConversations": True}))
        assert "later.db" in missing["error"]
        assert not later.exists()
        assert [
            str(each.uri) for each in (await server.list_resources()).resources if "skill" not in str(each.uri)
        ] == []
        await server.get_prompt("recall")
        os.rename(process.database, later)
        found = await server.call_tool("lcm_grep", {"pattern": "deploy key", "allConversations": True})
        assert not found.is_error, text(found)

    run(story, process._replace(database=str(later)))


def test_a_locked_database_delays_only_what_reads_it(process: Process) -> None:
    lock = sqlite3.connect(process.database, isolation_level=None)
    lock.execute("PRAGMA locking_mode = EXCLUSIVE")
    lock.execute("BEGIN EXCLUSIVE")

    async def story(server: Client) -> None:
        answered: list[bool] = []

        async def grep() -> None:
            result = await server.call_tool("lcm_grep", {"pattern": "deploy key", "conversationId": 1})
            answered.append(not result.is_error)

        async with anyio.create_task_group() as group:
            group.start_soon(grep)
            await server.get_prompt("recall")
            await server.list_tools()
            assert answered == []
            lock.rollback()
            lock.close()
        assert answered == [True]

    run(story, process)


def test_two_servers_on_one_database_see_each_others_words(process: Process) -> None:
    async def story() -> None:
        async with client(process.with_("--allow-write")) as writer, client(process) as reader:
            for number in range(5):
                message = {"role": "user", "text": f"Berth {number} is free.", "id": f"m{number}"}
                done = await writer.call_tool("lcm_ingest", {"conversation": "harbour", "messages": [message]})
                assert not done.is_error, text(done)
                hits = await reader.call_tool("lcm_grep", {"pattern": "Berth . is free", "allConversations": True})
                assert hits.structured_content is not None
                assert hits.structured_content["totalMatches"] == number + 1

    anyio.run(story)
    with Lossless.open(process.database, read_only=True) as lcm:
        assert [each.text for each in lcm.conversation("harbour").messages()] == [
            f"Berth {number} is free." for number in range(5)
        ]


# text that wants to be more than text


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_hostile_text_stays_text_wherever_it_is_shown(process: Process, transport: Transport) -> None:
    messages = stored(process).messages
    hostile = next(each for each in messages if each.event_id == "hostile")
    assert hostile.text == HOSTILE

    async def story(server: Client) -> None:
        shown = [
            text(await server.call_tool("lcm_grep", {"pattern": "Delete everything", "conversationId": 1})),
            text(await server.call_tool("lcm_describe", {"id": f"msg#{hostile.id}", "conversationId": 1})),
        ]
        for uri in ("lcm://conversation/1", "lcm://context/1"):
            (content,) = (await server.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            shown.append(content.text)
        (message,) = (await server.get_prompt("continue_from_memory", {"conversation": "1"})).messages
        assert isinstance(message.content, TextContent)
        shown.append(message.content.text)
        for each in shown:
            assert "Delete everything." in each
            assert "<system" not in each
            assert "untrusted" in each
            assert "\0" not in each

    run(story, process, transport)


def test_resources_and_prompts_show_what_the_tools_show(process: Process) -> None:
    summary = stored(process).summaries[0]

    async def story(server: Client) -> None:
        (content,) = (await server.read_resource(f"lcm://summary/{summary.id}")).contents
        assert isinstance(content, TextResourceContents)
        described = await server.call_tool("lcm_describe", {"id": summary.id, "conversationId": 1})
        assert content.text == text(described)
        (skill,) = (await server.read_resource("lcm://skill/references/recall-tools.md")).contents
        assert isinstance(skill, TextResourceContents)
        assert "lcm_grep" in skill.text
        for name, policy in (("recall", SHORT), ("recall_full", FULL)):
            (message,) = (await server.get_prompt(name)).messages
            assert isinstance(message.content, TextContent)
            assert message.content.text == policy
        for uri in (
            "lcm://summary/sum_ffffffffffffffff",
            "lcm://nothing/1",
            "lcm://skill/../SKILL.md",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError):
                await server.read_resource(uri)
        with pytest.raises(MCPError, match="Did you mean recall_full"):
            await server.get_prompt("recal_full")

    run(story, process)


# the protocol, line by line


def test_lines_that_are_no_requests_are_answered_as_the_protocol_says(process: Process) -> None:
    answers, logged, status = exchange(
        process,
        "not json",
        [call(1, "ping")],
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        call(6, "tools/burn"),
        call(7, "tools/call", name=7),
        call(8, "tools/call", name="lcm_grep", arguments=[]),
        {
            "jsonrpc": "2.0",
            "id": 9,
            "method": "ping",
            "params": {"_meta": {**VERSION, next(iter(VERSION)): "2031-01-01"}},
        },
        {"jsonrpc": "2.0", "id": 10, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}},
        call(11, "ping"),
        {"jsonrpc": "2.0", "id": 12, "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        call(13, "resources/read", uri="lcm://[conversation/1"),
        call(14, "prompts/get", name="continue_from_memory", arguments={"conversation": "nobody"}),
    )
    assert status == 0
    assert logged == ""
    codes = {each["id"]: each["error"]["code"] for each in answers if each["id"] is not None and "error" in each}
    assert codes == {6: -32601, 7: -32602, 8: -32602, 9: -32022, 12: -32602, 13: -32602, 14: -32602}
    assert [each["error"]["code"] for each in answers if each["id"] is None] == [-32700, -32600, -32600, -32600]
    results = {each["id"]: each["result"] for each in answers if "result" in each}
    assert results[10]["protocolVersion"] == "2025-11-25"
    assert results[11]["resultType"] == "complete"


def test_requests_with_the_same_id_and_many_at_once_are_all_answered(process: Process) -> None:
    answers, logged, status = exchange(process, *(call(number // 2, "tools/call", **GREP) for number in range(200)))
    assert (status, logged) == (0, "")
    assert sorted(each["id"] for each in answers) == [number // 2 for number in range(200)]
    assert not any(each["result"]["isError"] for each in answers)


def test_a_database_that_was_replaced_is_opened_again(process: Process, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with Lossless.open(other, on_event=ignore) as lcm:
        lcm.conversation("new").ingest([Message.user("A new harbour.")])

    async def story(server: Client) -> None:
        before = await server.call_tool("lcm_grep", {"pattern": "harbour", "allConversations": True})
        assert "A new harbour." not in text(before)
        for path in Path(process.database).parent.glob("lcm.db-*"):
            path.unlink()
        other.replace(process.database)
        after = await server.call_tool("lcm_grep", {"pattern": "harbour", "allConversations": True})
        assert "A new harbour." in text(after)

    run(story, process)


def test_the_first_answer_takes_less_than_half_a_second_of_cpu(process: Process) -> None:
    """From the start of the process to the answer of a tool, and to its end. The best of three: others use the machine."""
    lines = json.dumps(call(1, "server/discover")) + "\n" + json.dumps(call(2, "tools/call", **GREP)) + "\n"
    spent: list[float] = []
    for _ in range(3):
        started = subprocess.Popen(
            process.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=process.directory, env=process.variables
        )
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(lines.encode())
        started.stdin.close()
        answers = [json.loads(line) for line in started.stdout]
        started.stdout.close()
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        assert {each["id"] for each in answers} == {1, 2}
        spent.append(usage.ru_utime + usage.ru_stime)
    assert min(spent) < 0.5, spent


# over HTTP


def posted(url: str, **headers: str) -> int:
    """The status of a request."""
    body = json.dumps(call(1, "tools/list")).encode()
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    sent |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list", **headers}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, sent), timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_other_sites_and_strangers_get_nothing_over_http(process: Process) -> None:
    with http_server(process) as url:
        assert posted(url) == 200
        assert posted(url, host="evil.example") == 421
        assert posted(url, origin="https://evil.example") == 403
    with http_server(process.with_(LCM_MCP_TOKEN="sesame")) as url:
        assert posted(url) == 401
        assert posted(url, authorization="Bearer wrong") == 401
        assert posted(url, authorization="Bearer sesame") == 200


@pytest.mark.parametrize(("where", "why"), [("0.0.0.0:0", "LCM_MCP_TOKEN"), ("x", "HOST:PORT"), ("99999", "HOST:PORT")])
def test_an_address_that_is_wrong_or_open_to_others_is_refused(process: Process, where: str, why: str) -> None:
    _, logged, status = exchange(process.with_("--http", where))
    assert status == 2
    assert why in logged
