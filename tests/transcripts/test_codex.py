"""Rollouts of Codex, as version 0.166.0 and older ones write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lossless.formats import openai_responses
from lossless.model import Opaque, Reasoning, Text, ToolCall
from tests.transcripts.files import (
    DONE,
    SESSION,
    answered,
    asked,
    codex,
    codex_session,
    item,
    put,
    read,
    usage,
    words,
)

REASONING = item("reasoning", id="rs_2", summary=[{"type": "summary_text", "text": "Two."}], encrypted_content="c2ln")
DEVELOPER = item("message", role="developer", content=[{"type": "input_text", "text": "<skills_instructions>..."}])


def a_call(call_id: str) -> dict[str, Any]:
    return item("function_call", id=f"fc_{call_id}", name="exec_command", arguments='{"cmd": "ls"}', call_id=call_id)


def an_output(call_id: str, text: str) -> dict[str, Any]:
    return item("function_call_output", call_id=call_id, output=text)


def test_a_response_is_one_message_and_each_output_another(tmp_path: Path) -> None:
    path = put(
        tmp_path / "rollout.jsonl",
        codex_session(),
        codex("event_msg", type="task_started"),
        codex("turn_context", cwd="/home/dev"),
        asked("look at both"),
        REASONING,
        codex("event_msg", type="item_completed"),
        answered("I look at both."),
        a_call("c1"),
        a_call("c2"),
        usage("resp_2"),
        an_output("c1", "one"),
        an_output("c2", "two"),
        answered("Ines runs it."),
        usage("resp_3"),
        DONE,
    )
    entries, header, tally = read(path)
    assert words(entries) == [
        ("user", "look at both"),
        ("assistant", "I look at both."),
        ("tool", "one"),
        ("tool", "two"),
        ("assistant", "Ines runs it."),
    ]
    assert [each.id for each in entries] == [f"{SESSION}#{n}" for n in range(1, 6)]
    assert [each.parent for each in entries] == [None, *(f"{SESSION}#{n}" for n in range(1, 5))]
    assert entries[1].message
    assert [type(part) for part in entries[1].message.parts] == [Reasoning, Text, ToolCall, ToolCall]
    assert (header.key, header.directory, header.named) == (f"codex:{SESSION}", "/home/dev", False)
    assert (tally.links, tally.unknown, tally.end) == (7, {}, path.stat().st_size)
    assert not entries[-1].is_open


def test_a_response_at_the_end_is_open_until_the_turn_is_over(tmp_path: Path) -> None:
    lines = [codex_session(), asked("hello"), answered("Hel"), codex("event_msg", type="token_count")]
    entries, _, tally = read(put(tmp_path / "x.jsonl", *lines))
    assert [each.is_open for each in entries] == [False, True]
    assert tally.end == entries[0].end
    for ending in (DONE, codex("event_msg", type="turn_aborted"), asked("next")):
        entries, _, _ = read(put(tmp_path / "x.jsonl", *lines, ending))
        assert not entries[1].is_open


def compacted(**about: Any) -> dict[str, Any]:
    return codex("compacted", message="Here is the summary:\nThey talked.", replacement_history=[asked("x")], **about)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([answered("They talked.", compaction_output=True), usage("resp_8"), compacted()], id="marked"),
        pytest.param(
            [REASONING, answered("They talked.", compaction_output=True), DONE], id="marked, with its reasoning"
        ),
        pytest.param([answered("Words."), usage("resp_8"), compacted(compaction_response_id="resp_8")], id="by its id"),
        pytest.param([answered("They talked."), compacted()], id="by its words"),
    ],
)
def test_the_summary_that_codex_asked_for_is_no_message(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    begun = [codex_session(), asked("hello"), answered("Hello."), usage("resp_7")]
    entries, _, tally = read(put(tmp_path / "x.jsonl", *begun, *lines, asked("go on")))
    assert words(entries) == [("user", "hello"), ("assistant", "Hello."), ("user", "go on")]
    assert tally.boundaries in (1, 2)


def test_an_answer_before_a_compaction_stays_a_message(tmp_path: Path) -> None:
    lines = [codex_session(), asked("hello"), answered("Hello."), compacted(), asked("go on")]
    assert words(read(put(tmp_path / "x.jsonl", *lines))[0]) == [
        ("user", "hello"),
        ("assistant", "Hello."),
        ("user", "go on"),
    ]
    marked = [codex_session(), answered("Hello."), answered("They talked.", compaction_output=True), compacted()]
    assert words(read(put(tmp_path / "x.jsonl", *marked))[0]) == [("assistant", "Hello.")]


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", False),
        ("<user_instructions>be brief</user_instructions>", False),
        ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>", False),
        ("what is an <environment_context>?", True),
        ("<environment_context></environment_context> and now?", True),
    ],
)
def test_what_codex_tells_the_model_itself_is_no_message(tmp_path: Path, text: str, is_said: bool) -> None:
    entries, _, tally = read(put(tmp_path / "x.jsonl", codex_session(), DEVELOPER, asked(text)))
    assert bool(entries) is is_said
    assert tally.links == 3 - is_said


def test_what_nobody_models_is_kept_as_it_is(tmp_path: Path) -> None:
    shell = {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}
    patch = {"type": "custom_tool_call", "call_id": "d", "name": "apply_patch", "input": "*** Begin"}
    done = {"type": "custom_tool_call_output", "call_id": "d", "output": "ok"}
    search = {"type": "web_search_call", "id": "ws", "action": {"type": "search", "query": "x"}}
    lines = [codex("response_item", **each) for each in (shell, patch, done, search)]
    entries, _, _ = read(put(tmp_path / "x.jsonl", codex_session(), *lines, DONE))
    kept = [record for each in entries if each.message for record in openai_responses.dump_items(each.message)]
    assert kept == [shell, patch, done, search]
    assert entries[0].message
    assert isinstance(entries[0].message.parts[0], Opaque)


def test_codexs_own_bookkeeping_is_not_sent_back_to_an_api(tmp_path: Path) -> None:
    entries, _, _ = read(put(tmp_path / "x.jsonl", codex_session(), asked("hello")))
    assert entries[0].message
    assert openai_responses.dump([entries[0].message]) == {
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}]
    }


def test_snapshots_strange_lines_and_broken_items_are_counted(tmp_path: Path) -> None:
    lines = [item("ghost_snapshot", ghost_commit={}), item("compaction", encrypted_content="x"), codex("hologram")]
    broken = {"timestamp": "x", "type": "response_item", "payload": 7}
    _, _, tally = read(put(tmp_path / "x.jsonl", codex_session(), *lines, broken))
    assert (tally.links, tally.boundaries, tally.unknown, tally.malformed) == (2, 1, {"hologram": 1}, 1)


def test_forks_and_sub_agents_know_where_they_come_from(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "main", "depth": 1}}}
    path = put(tmp_path / "x.jsonl", codex_session(forked_from_id="older", source=source), asked("x"))
    _, header, _ = read(path)
    assert (header.parent_session, header.parent_key) == ("older", "codex:main")
