"""Sessions of Claude Code, as version 2.1.325 and older ones write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossless.model import Reasoning, Text, ToolCall
from lossless.transcripts import reader
from tests.transcripts.files import (
    SESSION,
    Line,
    call,
    claude,
    prompt,
    put,
    read,
    reply,
    result,
    said,
    shown,
    text,
    thinking,
    words,
)


def test_a_reply_of_several_lines_is_one_message(tmp_path: Path) -> None:
    path = put(
        tmp_path / f"{SESSION}.jsonl",
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION},
        prompt("u", None, "look at both"),
        reply("a1", "u", "msg_2", thinking("Two will do."), stop="tool_use"),
        {"type": "cost-state", "sessionId": SESSION},
        reply("a2", "a1", "msg_2", text("I look."), stop="tool_use"),
        claude("attachment", "x", "a2", attachment={"type": "date"}),
        reply("a3", "x", "msg_2", call("toolu_1"), stop="tool_use"),
        result("r", "a3", "toolu_1", "Ines"),
    )
    entries, header, tally = read(path)
    assert words(entries) == [("user", "look at both"), ("assistant", "I look."), ("tool", "Ines")]
    assert [(each.id, each.parent) for each in entries] == [
        ("u", None),
        ("a1", "u"),
        ("a2", "a1"),
        ("x", "a2"),
        ("a3", "x"),
        ("r", "a3"),
    ]
    message = entries[1].message
    assert message
    assert [type(part) for part in message.parts] == [Reasoning, Text, ToolCall]
    assert (message.event_id, message.stop) == ("a1", "tool_use")
    assert message.extra["anthropic"]["$reply"]["id"] == "msg_2"
    assert len({each.end for each in entries[1:5]}) == 1  # nobody may go on in the middle of it
    assert (tally.links, tally.unknown) == (3, {})
    assert (header.key, header.directory) == (f"claude-code:{SESSION}", "/home/dev")


@pytest.mark.parametrize(
    ("block", "stop", "is_open"),
    [
        pytest.param(text("Done."), "end_turn", False, id="words that end the turn"),
        pytest.param(text("Done."), None, True, id="nobody said that it stopped"),
        pytest.param(text("I look."), "tool_use", True, id="a call must follow"),
        pytest.param(call("toolu_1"), "tool_use", True, id="another call may follow"),
        pytest.param(thinking("Hm."), "end_turn", True, id="words must follow"),
    ],
)
def test_a_reply_at_the_end_is_open_until_it_is_whole(
    tmp_path: Path, block: Line, stop: str | None, is_open: bool
) -> None:
    path = put(tmp_path / "x.jsonl", prompt("u", None, "hello"), reply("a", "u", "msg_1", block, stop=stop))
    entries, _, tally = read(path)
    assert entries[-1].is_open is is_open
    assert tally.end == (entries[0].end if is_open else path.stat().st_size)


def test_a_result_between_the_lines_of_a_reply_leaves_every_call_with_its_answer(tmp_path: Path) -> None:
    path = put(
        tmp_path / "x.jsonl",
        prompt("u", None, "slowly now"),
        reply("a1", "u", "msg_1", call("toolu_1"), stop="tool_use"),
        result("r1", "a1", "toolu_1", "one"),
        reply("a2", "r1", "msg_1", call("toolu_2"), stop="tool_use"),
        result("r2", "a2", "toolu_2", "two"),
        reply("b", "r2", "msg_2", text("Done.")),
    )
    entries, _, _ = read(path)
    assert [each.id for each in entries] == ["u", "a1", "r1", "a2", "r2", "b"]
    assert shown(path) == ["slowly now", "", "one", "", "two", "Done."]


def test_calls_that_ran_at_once_are_no_other_branch(tmp_path: Path) -> None:
    path = put(
        tmp_path / "x.jsonl",
        prompt("u", None, "look at both"),
        reply("a1", "u", "msg_2", call("toolu_1"), stop="tool_use"),
        reply("a2", "a1", "msg_2", call("toolu_2"), stop="tool_use"),
        result("r2", "a2", "toolu_2", "two"),
        result("r1", "a1", "toolu_1", "one"),
        reply("left", "r1", "msg_3", text("left behind")),
        prompt("left2", "left", "this was taken back"),
        reply("b", "r1", "msg_4", text("Ines runs it.")),
    )
    assert shown(path) == ["look at both", "", "two", "one", "Ines runs it."]


def test_compaction_is_a_boundary_that_the_branch_goes_through(tmp_path: Path) -> None:
    path = put(
        tmp_path / "x.jsonl",
        prompt("gone", None, "taken back"),
        prompt("u", None, "third"),
        claude(
            "system", "s", None, subtype="compact_boundary", logicalParentUuid="u", content="Conversation compacted"
        ),
        prompt("c", "s", "This session is being continued ...", isCompactSummary=True),
        prompt("m", "c", "<local-command-caveat>...", isMeta=True),
        reply("a", "m", "msg_4", text("three")),
    )
    entries, _, tally = read(path)
    assert [each.id for each in entries] == ["gone", "u", "s", "c", "m", "a"]
    assert entries[2].parent == "u"
    assert tally.boundaries == 2
    assert shown(path) == ["third", "<local-command-caveat>...", "three"]


def test_a_boundary_whose_other_side_is_in_another_file_makes_it_flat(tmp_path: Path) -> None:
    boundary = claude("system", "s", None, subtype="compact_boundary", logicalParentUuid="elsewhere")
    path = put(tmp_path / "x.jsonl", boundary, prompt("u", "s", "one"), prompt("v", "s", "two"))
    assert shown(path) == ["one", "two"]


def test_only_the_type_of_a_line_makes_it_a_message(tmp_path: Path) -> None:
    copy = {"type": "api-request-blob", "message": {"role": "user", "content": "hello"}, "sessionId": SESSION}
    strange = {"type": "hologram", "uuid": "h", "parentUuid": "u", "message": {"role": "user", "content": "hello"}}
    broken = claude("user", "b", "h")
    entries, _, tally = read(put(tmp_path / "x.jsonl", prompt("u", None, "hello"), copy, strange, broken))
    assert words(entries) == [("user", "hello")]
    assert [each.id for each in entries] == ["u", "h", "b"]
    assert (tally.links, tally.unknown, tally.malformed) == (1, {"hologram": 1}, 1)


def test_what_the_user_said_while_the_model_worked_is_a_message(tmp_path: Path) -> None:
    queued = {"type": "queued_command", "prompt": "and the other one", "commandMode": "prompt"}
    path = put(tmp_path / "x.jsonl", prompt("u", None, "do it"), claude("attachment", "q", "u", attachment=queued))
    assert words(read(path)[0]) == [("user", "do it"), ("user", "and the other one")]
    assert shown(path) == ["do it", "and the other one"]


def test_an_error_of_the_api_is_a_message_that_says_so(tmp_path: Path) -> None:
    error = reply("a", "u", "c4ee8e0a", text("API Error: 400"), stop="stop_sequence", isApiErrorMessage=True)
    entries, _, _ = read(put(tmp_path / "x.jsonl", prompt("u", None, "bad one"), error))
    assert entries[1].message
    assert entries[1].message.stop == "error"
    assert not entries[1].is_open


def test_a_sub_agents_file_is_a_conversation_that_hangs_from_the_main_one(tmp_path: Path) -> None:
    side: Line = {"isSidechain": True, "agentId": "aa9fc667286b8e12c"}
    lines = [prompt("u", None, "look", **side), reply("a", "u", "msg_1", text("Ines."), **side)]
    entries, header, _ = read(put(tmp_path / SESSION / "subagents" / "agent-aa9fc667286b8e12c.jsonl", *lines))
    assert (header.session, header.key) == ("aa9fc667286b8e12c", "claude-code:aa9fc667286b8e12c")
    assert header.parent_key == f"claude-code:{SESSION}"
    assert [each.thread for each in entries] == [None, None]


def test_sub_agents_in_the_main_file_are_threads_beside_the_branch(tmp_path: Path) -> None:
    lines = [
        prompt("u", None, "send somebody"),
        prompt("s1", None, "look", isSidechain=True),
        reply("s2", "s1", "msg_9", text("Ines."), isSidechain=True),
        prompt("t", None, "look", isSidechain=True, agentId="bee"),
        reply("a", "u", "msg_1", text("Back.")),
    ]
    path = put(tmp_path / "x.jsonl", *lines)
    entries, header, _ = read(path)
    assert [each.thread for each in entries] == [None, "s1", "s1", "bee", None]
    behind, _, _ = read(path, offset=entries[1].end, number=2, header=header)
    assert behind == entries[2:]
    assert shown(put(tmp_path / "y.jsonl", *lines, prompt("v", "u", "again"))) == ["send somebody", "again"]


def test_a_fork_knows_what_it_was_forked_from(tmp_path: Path) -> None:
    line = prompt("u", None, "x", forkedFrom={"sessionId": "older", "messageUuid": "y"})
    assert read(put(tmp_path / "x.jsonl", line))[1].parent_session == "older"


def test_the_newest_of_two_copies_of_a_line_counts(tmp_path: Path) -> None:
    lines = [prompt("u", None, "one"), prompt("v", "u", "two"), prompt("w", None, "three"), prompt("v", "w", "two")]
    path = put(tmp_path / "x.jsonl", *lines)
    assert len(said(read(path)[0])) == 4
    branch = reader("claude_code").branch(path, read(path)[1])
    assert branch is not None
    assert [name in branch for name in "uvw"] == [False, True, True]
