"""Titles and times of conversations in lists: taken from the first user words, cheaply, on both databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lossless import Lossless, Message, Text, ToolCall, ToolResult
from lossless.engine.inspect.titles import LONGEST, title_of
from lossless.store.rows.types import SPAN
from tests.histories import opened

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SUMMARY = '<summary id="sum_0123456789abcdef" kind="leaf" depth="0" descendant_count="0" trust="untrusted">\n</summary>'
PIN = '<pinned id="pin_01234567" trust="operator">\nNever deploy on Fridays.\n</pinned>'


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    with opened(database, tmp_path / "lcm-files") as lcm:
        yield lcm


def title(lcm: Lossless, key: str) -> str | None:
    (listed,) = [each for each in lcm.conversations(active=True, limit=500) if each.key == key]
    assert lcm.conversations.show(key).conversation == listed
    return listed.title


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix the login page", "Fix the login page"),
        ("  Fix\n\n the\tlogin   page \r\n", "Fix the login page"),
        ("\x1b[1;31mred\x1b[0m alert", "red alert"),
        ("\x1b]0;stolen title\x07Fix it", "Fix it"),
        ("\x9b31mFix\x00 it\u202e now\u2028please", "Fix it now please"),
        ("\ufeffFix\u200b it", "Fix it"),
        ("word " * 40, ("word " * 15 + "word…")),
        ("x" * 200, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_a_title_is_one_safe_line(text: str, expected: str) -> None:
    assert title_of([text], None) == expected
    assert len(expected) <= LONGEST


@pytest.mark.parametrize(
    "text",
    [
        SUMMARY,
        PIN,
        " \n",
        "\x1b[0m",
        "[OpenClaw heartbeat poll]",
        "Read HEARTBEAT.md if it exists.",
        "<command-message>init is analyzing your codebase…</command-message>",
        "<environment_context>\n<cwd>/home/me</cwd>\n</environment_context>",
        "[LCM File: file_0123456789abcdef | paste.txt | text/plain | 12 bytes]",
    ],
)
def test_text_that_no_user_wrote_is_no_title(text: str) -> None:
    assert title_of([text], None) is None
    assert title_of([text, "Fix the login page"], None) == "Fix the login page"


@pytest.mark.parametrize(
    ("directory", "expected"),
    [("/home/me/shop", "shop"), ("C:\\work\\shop\\", "shop"), ("/", "/"), ("/a/\x1b[2Jshop", "shop"), ("", None)],
)
def test_without_words_the_project_directory_is_the_title(directory: str, expected: str | None) -> None:
    assert title_of([], directory) == expected
    assert title_of(["Hello"], directory) == "Hello"


def test_the_first_words_of_the_user_are_the_title(lcm: Lossless) -> None:
    lcm.conversation("k").ingest(
        [
            Message.system("You are an agent."),
            Message.user(SUMMARY),
            Message.assistant("Ready."),
            Message.user("Why is the \x1b[31mlogin\x1b[0m page blank?\nIt worked yesterday."),
            Message.user("And the cart?"),
        ]
    )
    assert title(lcm, "k") == "Why is the login page blank? It worked yesterday."


def test_tool_results_and_idle_heartbeats_are_no_titles(lcm: Lossless) -> None:
    chat = lcm.conversation("k")
    chat.after_turn([Message.user("Look into HEARTBEAT.md."), Message.assistant("HEARTBEAT_OK")])
    chat.ingest(
        [
            Message("assistant", (ToolCall("c1", "ls", "{}"),)),
            Message("user", (ToolResult("c1", (Text("a.txt b.txt"),)),)),
        ]
    )
    assert title(lcm, "k") is None
    chat.ingest([Message.user("Delete a.txt")])
    assert title(lcm, "k") == "Delete a.txt"


def test_a_title_that_was_set_wins(lcm: Lossless) -> None:
    lcm.conversation("k").ingest([Message.user("hello")])
    with lcm._store.transaction():
        lcm._store.conversations.set_title(1, "Greetings")
    assert title(lcm, "k") == "Greetings"


def test_a_forgotten_message_leaves_the_title(lcm: Lossless) -> None:
    chat = lcm.conversation("k")
    chat.ingest([Message.user("My password is swordfish"), Message.user("Fix the login page")])
    assert title(lcm, "k") == "My password is swordfish"
    chat.forget(f"msg#{SPAN + 1}", apply=True)
    assert title(lcm, "k") == "Fix the login page"


def test_a_conversation_has_the_times_of_its_first_and_last_message(lcm: Lossless) -> None:
    lcm.conversation("k").ingest([Message.user(f"{n}", at=NOON + timedelta(hours=n)) for n in range(5)])
    (listed,) = lcm.conversations(active=True)
    assert (listed.first_message_at, listed.last_message_at) == (NOON, NOON + timedelta(hours=4))
    lcm.conversation("k").reset()
    (listed,) = lcm.conversations(active=True)
    assert (listed.title, listed.first_message_at, listed.last_message_at) == (None, None, None)


def test_a_transcript_gives_the_directory(lcm: Lossless, tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": NOON.isoformat(), "cwd": "/home/me/shop"},
        {
            "type": "message",
            "id": "e1",
            "parentId": None,
            "timestamp": NOON.isoformat(),
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello."}], "stopReason": "stop"},
        },
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lcm.conversation("k").bootstrap(path)
    (listed,) = lcm.conversations(active=True)
    assert (listed.title, listed.directory) == ("shop", "/home/me/shop")
    more = {**lines[1], "id": "e2", "parentId": "e1", "message": {"role": "user", "content": "Open the shop"}}
    with path.open("a") as file:
        file.write(json.dumps(more) + "\n")
    lcm.conversation("k").bootstrap(path)
    (listed,) = lcm.conversations(active=True)
    assert (listed.title, listed.directory) == ("Open the shop", "/home/me/shop")


def test_a_page_takes_the_same_queries_for_one_conversation_and_for_a_hundred(lcm: Lossless) -> None:
    for number in range(100):
        lcm.conversation(f"k{number}").ingest([Message.user(f"Question {number}"), Message.assistant("Answer")])
    store: Any = lcm._store
    queries = list[str]()
    run = store.all

    def count(sql: str, **parameters: Any) -> Any:
        queries.append(sql)
        return run(sql, **parameters)

    store.all = count
    lcm.conversations(active=True, limit=1)
    one = len(queries)
    listed = lcm.conversations(active=True, limit=100)
    assert len(queries) == 2 * one
    assert {each.title for each in listed} == {f"Question {number}" for number in range(100)}


def test_a_page_reads_single_rows_of_long_conversations(tmp_path: Path) -> None:
    with opened(tmp_path / "lcm.db", tmp_path / "lcm-files") as lcm:
        lcm.conversation("k").ingest([Message.user("hello"), *(Message.assistant(f"{n}") for n in range(500))])
        store: Any = lcm._store
        plan = list[str]()
        run = store.all

        def explain(sql: str, **parameters: Any) -> Any:
            if "OFFSET" in sql:
                plan.extend(row[3] for row in run("EXPLAIN QUERY PLAN " + sql, **parameters))
            return run(sql, **parameters)

        store.all = explain
        lcm.conversations(active=True)
        steps = [step for step in plan if " m " in f"{step} "]
        assert len(steps) == 5
        assert not [step for step in steps if step.startswith("SCAN")]
        assert sum("rowid>? AND rowid<?" in step for step in steps) == 3
