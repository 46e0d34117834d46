"""`lcm mcp` with the official client: what it offers, answers, refuses and survives."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from lossless import Lossless, Message
from lossless.mcp import schemas
from tests.engine.recall.test_ask import FACT, QUESTION
from tests.hosts.mcp_process import ASKED, TRANSPORTS, Process, Transport, refusal, run, stored, summarised, text

jsonschema: Any = import_module("jsonschema")  # without types
READING = {"lcm_grep", "lcm_describe", "lcm_expand_query", "lcm_status", "lcm_doctor"}
WRITING = {"lcm_focus", "lcm_ingest", "lcm_compact"}


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return summarised(tmp_path)


# what it offers


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_sees_tools_resources_and_prompts(process: Process, transport: Transport) -> None:
    async def story(server: Client) -> None:
        assert server.protocol_version == ("2025-11-25" if transport == "handshake" else "2026-07-28")
        tools = (await server.list_tools()).tools
        assert {tool.name for tool in tools} == READING
        assert all(tool.output_schema and tool.input_schema["type"] == "object" for tool in tools)
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        templates = (await server.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "lcm://conversation/{id}",
            "lcm://context/{id}",
            "lcm://summary/{id}",
            "lcm://file/{id}{?lines}",
        ]
        uris = {str(each.uri) for each in (await server.list_resources()).resources}
        assert {"lcm://conversation/1", "lcm://skill/SKILL.md", "lcm://skill/references/recall-tools.md"} <= uris
        prompts = {each.name for each in (await server.list_prompts()).prompts}
        assert prompts == {"recall", "recall_full", "continue_from_memory", "lossless"}

    run(story, process, transport)


def test_tools_that_write_are_offered_only_if_asked_for(process: Process) -> None:
    before = len(stored(process).messages)
    new = {"conversation": "notes", "messages": [{"role": "user", "text": "Buy milk.", "id": "m1"}]}

    async def refused(server: Client) -> None:
        assert "--allow-write" in refusal(await server.call_tool("lcm_ingest", new))["hint"]
        assert "--allow-write" in refusal(await server.call_tool("lcm_compact", {"conversationId": 1}))["hint"]

    async def allowed(server: Client) -> None:
        tools = {tool.name: tool.annotations for tool in (await server.list_tools()).tools}
        assert set(tools) == READING | WRITING
        assert not any(hints.read_only_hint or hints.destructive_hint for name in WRITING if (hints := tools[name]))
        first = await server.call_tool("lcm_ingest", new)
        again = await server.call_tool("lcm_ingest", new)
        assert first.structured_content is not None
        assert again.structured_content is not None
        assert (first.structured_content["stored"], again.structured_content["known"]) == ([1], 1)
        done = await server.call_tool("lcm_compact", {"conversationId": 1, "window": 2_000, "force": True})
        assert done.structured_content is not None
        assert done.structured_content["stop"]

    run(refused, process)
    assert len(stored(process).messages) == before
    with Lossless.open(process.database, read_only=True) as lcm:
        assert [each.key for each in lcm.conversations()] == ["claude-code:s-1"]
    run(allowed, process.with_("--allow-write"))
    with Lossless.open(process.database, read_only=True) as lcm:
        assert [each.text for each in lcm.conversation("notes").messages()] == ["Buy milk."]


def test_nothing_is_compacted_that_nobody_named(process: Process) -> None:
    async def story(server: Client) -> None:
        assert "of this session" in refusal(await server.call_tool("lcm_compact", {}))["error"]

    run(story, process.with_("--allow-write"))


def test_a_delegate_reads_what_its_grant_allows(process: Process) -> None:
    with Lossless.open(process.database) as lcm:
        chat = lcm.find(1)
        grant, ids = chat.grant(max_tokens=20_000), [each.id for each in chat.summaries()]

    async def story(server: Client) -> None:
        assert {tool.name for tool in (await server.list_tools()).tools} == {"lcm_grep", "lcm_describe", "lcm_expand"}
        read = await server.call_tool("lcm_expand", {"summaryIds": ids, "includeMessages": True, "tokenCap": 8_000})
        assert read.structured_content is not None
        assert "in the blue safe" in read.structured_content["text"]
        spent = refusal(await server.call_tool("lcm_expand", {"summaryIds": ids, "conversationId": 77}))
        assert spent["error"]
        # Nothing else leads to what is stored.
        assert {str(each.uri).split("/")[2] for each in (await server.list_resources()).resources} == {"skill"}
        assert not (await server.list_resource_templates()).resource_templates
        assert "continue_from_memory" not in {each.name for each in (await server.list_prompts()).prompts}
        for address in ("lcm://conversation/1", "lcm://context/1", f"lcm://summary/{ids[0]}"):
            with pytest.raises(MCPError, match="under a grant"):
                await server.read_resource(address)
        with pytest.raises(MCPError, match="under a grant"):
            await server.get_prompt("continue_from_memory", {"conversation": "1"})

    async def without(server: Client) -> None:
        assert "lcm_expand_query" in refusal(await server.call_tool("lcm_expand", {"summaryIds": ids}))["hint"]

    run(story, process.with_("--grant", grant))
    run(without, process)


# results


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_results_are_structured_as_their_schema_says(process: Process, transport: Transport) -> None:
    summary = stored(process).summaries[0].id
    calls: list[tuple[str, dict[str, Any]]] = [
        ("lcm_grep", {"pattern": "deploy key", "mode": "full_text", "conversationId": 1}),
        ("lcm_grep", {"pattern": "nothing has this", "allConversations": True}),
        ("lcm_describe", {"id": summary, "conversationId": 1}),
        ("lcm_describe", {"id": "msg#1000000001", "allConversations": True}),
        ("lcm_expand_query", ASKED),
        ("lcm_status", {}),
        ("lcm_status", {"conversationId": 1}),
        ("lcm_doctor", {"checks": ["M01"]}),
    ]

    async def story(server: Client) -> None:
        found = {tool.name: tool.output_schema for tool in (await server.list_tools()).tools}
        for name, arguments in calls:
            result = await server.call_tool(name, arguments)
            assert not result.is_error, text(result)
            schema = found[name]
            assert schema is not None
            jsonschema.validate(result.structured_content, schema)
            assert set(result.structured_content or {}) <= set(schema["properties"]), name

    run(story, process, transport)


def test_every_recall_tool_has_a_schema_of_its_result() -> None:
    for schema in schemas.RECALL.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert "trust" in schema["required"]


def test_a_fact_of_the_first_turns_is_found_and_quoted(process: Process) -> None:
    async def story(server: Client) -> None:
        hits = await server.call_tool("lcm_grep", {"pattern": QUESTION, "mode": "full_text", "conversationId": 1})
        assert hits.structured_content is not None
        assert hits.structured_content["matches"][0]["snippet"] == FACT
        answer = await server.call_tool("lcm_expand_query", ASKED)
        assert answer.structured_content is not None
        assert answer.structured_content["evidence"][0]["quote"] == FACT

    run(story, process)


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("lcm_grep", {"patern": "x"}, "Did you mean pattern?"),
        ("lcm_grep", {"pattern": "x", "mode": "fulltext"}, "Did you mean full_text?"),
        ("lcm_grep", {"pattern": "x", "all_conversations": True}, "Did you mean allConversations?"),
        ("lcm_status", {"conversation": 1}, "Did you mean conversationId?"),
        ("lcm_doctor", {"checks": ["M99"]}, "M0"),
        ("lcm_gerp", {"pattern": "x"}, "Did you mean lcm_grep?"),
        ("lcm_describe", {"id": "sum_ffffffffffffffff", "conversationId": 1}, ""),
    ],
)
def test_a_wrong_argument_is_answered_with_the_nearest_right_one(
    process: Process, name: str, arguments: dict[str, Any], hint: str
) -> None:
    async def story(server: Client) -> None:
        wrong = refusal(await server.call_tool(name, arguments))
        assert wrong["error"]
        assert hint in wrong.get("hint", "")

    run(story, process.with_("-c", "claude-code:s-1"))


# the conversation of a call


def transcript(directory: Path, session: str, words: str) -> Path:
    """A session of Claude Code in a directory."""
    line: dict[str, object] = {
        "type": "user",
        "uuid": f"u-{session}",
        "parentUuid": None,
        "sessionId": session,
        "cwd": str(directory),
    }
    line |= {"timestamp": "2026-05-01T10:00:00Z", "message": {"role": "user", "content": words}}
    path = directory.parent / f"{session}.jsonl"
    path.write_text(json.dumps(line) + "\n")
    return path


def rollout(directory: Path, thread: str, words: str) -> Path:
    """A thread of Codex in a directory."""
    about = {"id": thread, "cwd": str(directory), "timestamp": "2026-05-01T10:00:00Z"}
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
    lines = [{"type": "session_meta", "payload": about}, {"type": "response_item", "payload": item}]
    path = directory.parent / f"rollout-2026-05-01T10-00-00-{thread}.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-05-01T10:00:00Z", **line}) + "\n" for line in lines))
    return path


async def seen(server: Client, meta: Any = None, **arguments: Any) -> str:
    """Which of the words a call finds."""
    found = await server.call_tool("lcm_grep", {"pattern": "word-[a-z]+", **arguments}, meta=meta)
    if found.is_error:
        return refusal(found)["error"]
    assert found.structured_content is not None
    (match,) = found.structured_content["matches"]
    snippet: str = match["snippet"]
    return snippet


def test_the_conversation_comes_from_argument_meta_environment_and_directory_in_that_order(
    process: Process, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    files = [
        transcript(process.directory, "11111111-1111-4111-8111-111111111111", "word-directory"),
        transcript(elsewhere, "22222222-2222-4222-8222-222222222222", "word-environment"),
        rollout(elsewhere, "33333333-3333-4333-8333-333333333333", "word-meta"),
    ]
    with Lossless.open(process.database) as lcm:
        lcm.import_(files, apply=True)
        lcm.conversation("argument").ingest([Message.user("word-argument")])
        number = lcm.find("argument").status().id
    codex = {"threadId": "33333333-3333-4333-8333-333333333333"}
    unknown = {"sessionId": "44444444-4444-4444-8444-444444444444"}

    async def with_session(server: Client) -> None:
        assert await seen(server, codex, conversationId=number) == "word-argument"
        assert await seen(server, codex) == "word-meta"
        assert await seen(server) == "word-environment"
        assert await seen(server, unknown) == "word-environment"
        turn = json.dumps({"cwd": str(process.directory)})
        assert await seen(server, {"x-codex-turn-metadata": turn}) == "word-environment"

    async def without_session(server: Client) -> None:
        assert await seen(server, codex) == "word-meta"
        assert await seen(server) == "word-directory"
        assert await seen(server, {"lossless/conversation": "argument"}) == "word-argument"

    async def nowhere(server: Client) -> None:
        assert "of this session" in await seen(server)
        wrong = refusal(await server.call_tool("lcm_grep", {"pattern": "word"}))
        assert "conversationId" in wrong["hint"]
        assert "allConversations" in wrong["hint"]

    run(with_session, process.with_(CLAUDE_CODE_SESSION_ID="22222222-2222-4222-8222-222222222222"))
    run(without_session, process)
    other = tmp_path / "other"
    other.mkdir()
    run(nowhere, process._replace(directory=other))
