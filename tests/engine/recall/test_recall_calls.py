"""Recall leaves out the agent's own lookups: calls of the lcm_* tools and their results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from lossless import AsyncLossless, Conversation, Lossless, Message, Opaque, Settings, Text, ToolCall, ToolResult
from lossless.engine.recall.search_request import Mode
from lossless.store.migrate import until
from lossless.store.recall_calls import is_recall_tool
from lossless.store.sqlite.store import SQLiteStore
from lossless.tools import tools

FACT = "The vault password rotates every ninety days."
LOOKUPS = 60


@pytest.fixture
def lcm(database: str) -> Iterator[Lossless]:
    with Lossless.open(database, settings=Settings(), summarizer="extractive") as opened:
        yield opened


@pytest.fixture
def chat(lcm: Lossless) -> Conversation:
    return lcm.conversation("agent:main")


def call(number: int, name: str = "lcm_grep", words: str = "vault password rotates") -> Message:
    return Message("assistant", (ToolCall(f"call-{number}", name, f'{{"pattern": "{words}"}}'),))


def result(number: int, text: str = f"1 hit: {FACT}", name: str | None = None) -> Message:
    return Message("tool", (ToolResult(f"call-{number}", (Text(text),), name),))


def look_up(chat: Conversation, times: int = LOOKUPS, name: str = "lcm_grep") -> None:
    for number in range(times):
        # In two deliveries, as a host does that delivers every message at once.
        chat.ingest([call(number, name)])
        chat.ingest([result(number)])


def healthy(lcm: Lossless) -> bool:
    return not lcm._store.check_search() and not lcm._store.integrity.unsearchable()


@pytest.mark.parametrize("name", ["lcm_grep", "mcp__lossless__lcm_expand_query"])
@pytest.mark.parametrize(
    "how",
    [
        {"mode": "full_text", "pattern": "vault password rotates"},
        {"mode": "full_text", "pattern": "How often is the vault password rotated?"},
        {"mode": "full_text", "pattern": "vault", "sort": "recency"},
        {"mode": "regex", "pattern": "vault password"},
    ],
)
def test_a_fact_is_the_first_hit_after_many_lookups(chat: Conversation, how: dict[str, Any], name: str) -> None:
    chat.ingest([Message.user("Note this."), Message.user(FACT), Message.assistant("I will remember it.")])
    look_up(chat, name=name)
    hits = chat.grep(limit=5, **how)
    assert hits[0].seq == 2
    assert not [hit for hit in hits if hit.seq is not None and hit.seq > 3]
    beside = 2 if how["pattern"].endswith("?") else 0  # a sentence also finds the turns beside an answer
    assert hits.total == len(hits) == 1 + beside
    shown = chat.grep(limit=200, include_recall=True, **how)
    assert shown.total == 1 + beside + 2 * LOOKUPS


def test_a_question_is_answered_from_what_was_said_and_not_from_lookups(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest([Message.user(FACT)])
    look_up(chat)
    assert [each.seq for each in chat.ask("How often is the vault password rotated?").evidence] == [1]
    found = tools(chat).call("lcm_grep", {"pattern": "vault password", "mode": "full_text"})
    assert found.details["totalMatches"] == 1
    found = tools(chat).call("lcm_grep", {"pattern": "vault password", "mode": "full_text", "includeRecall": True})
    assert found.details["totalMatches"] == 1 + 2 * LOOKUPS
    assert lcm.grep("vault password").total == 1
    assert healthy(lcm)


def test_a_message_with_other_words_is_found_by_them_alone(lcm: Lossless, chat: Conversation) -> None:
    parts = (
        Text("Let me check our notes."),
        ToolCall("a", "lcm_grep", '{"pattern": "zebra"}'),
        ToolCall("b", "ls", "{}"),
    )
    answers = (ToolResult("a", (Text("zebra: striped"),)), ToolResult("b", (Text("giraffe.txt"),)))
    chat.ingest([Message("assistant", parts), Message("user", answers)])
    modes: tuple[Mode, ...] = ("regex", "full_text")
    for mode in modes:
        assert [hit.seq for hit in chat.grep("notes", mode)] == [1]
        assert [hit.seq for hit in chat.grep("giraffe", mode)] == [2]
        assert not chat.grep("zebra", mode)
        shown = chat.grep("zebra", mode, include_recall=True)
        assert sorted(hit.seq or 0 for hit in shown) == [1, 2]
        assert shown.total == 2
    assert "zebra" not in chat.grep("notes")[0].snippet
    assert len(chat.grep('"zebra striped" giraffe', "full_text", include_recall=True)) == 1
    assert healthy(lcm)


def test_a_call_id_that_is_used_again_means_the_newest_call(chat: Conversation) -> None:
    chat.ingest([call(1)])
    chat.ingest([result(1)])
    chat.ingest([call(1, "read_file", "notes.txt")])
    chat.ingest([result(1, "The vault is in the cellar.")])
    assert [hit.seq for hit in chat.grep("cellar")] == [4]
    assert [hit.seq for hit in chat.grep("cellar", "full_text")] == [4]
    chat.ingest([call(1)])
    chat.ingest([result(1, "msg#1: in the cellar")])
    assert [hit.seq for hit in chat.grep("cellar")] == [4]


def test_calls_that_a_provider_makes_by_itself_are_lookups_too(chat: Conversation) -> None:
    data = {"type": "mcp_call", "id": "m1", "name": "lcm_describe", "arguments": "{}", "output": FACT}
    chat.ingest([Message("assistant", (Opaque("mcp_call", data),)), Message.user("the vault")])
    assert [hit.seq for hit in chat.grep("vault")] == [2]
    assert [hit.seq for hit in chat.grep("vault", "full_text")] == [2]


def test_forgotten_and_rebuilt_lookups_leave_a_consistent_index(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest([Message.user(FACT)])
    look_up(chat, 3)
    lcm._store.rebuild_search()
    assert healthy(lcm)
    assert chat.grep("vault password").total == 1
    with lcm._store.transaction():
        lcm._store.context.bury(chat.status().id, [2, 3], "forgotten", 0)
    assert healthy(lcm)
    assert chat.grep("vault password", include_recall=True).total == 5
    assert chat.grep("vault password", "full_text", include_recall=True).total == 5


@pytest.mark.parametrize(
    "name", ["lcm_grep", "mcp__lossless__lcm_grep", "lossless.lcm_expand", "lossless_lcm_describe"]
)
def test_our_tools_are_known_by_their_names(name: str) -> None:
    assert is_recall_tool(name)


@pytest.mark.parametrize("name", ["grep", "balcm_grep", "lcm", "lcm_", "lcm_grep_files.py", None])
def test_other_tools_are_not_ours(name: str | None) -> None:
    assert not is_recall_tool(name)


def test_an_existing_database_is_marked_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with Lossless.open(path, settings=Settings()) as lcm:
        chat = lcm.conversation("agent:main")
        chat.ingest([Message.user(FACT)])
        look_up(chat, 5)
    _as_version_13(path)
    with Lossless.open(path, settings=Settings(), read_only=True) as lcm:
        # Nothing is written to it, so nothing can be told apart yet.
        assert lcm.grep("vault password").total == 11
        assert lcm.grep("vault password", "full_text").total == 11
    with Lossless.open(path, settings=Settings()) as lcm:
        assert lcm.grep("vault password").total == 1
        assert lcm.grep("vault password", "full_text").total == 1
        assert lcm.grep("vault password", "full_text", include_recall=True).total == 11
        assert healthy(lcm)
    again = apsw.Connection(str(path))
    again.execute("DROP TABLE recall_call")
    again.close()
    with Lossless.open(path, settings=Settings()) as lcm:
        assert lcm.grep("vault password").total == 1


def _as_version_13(path: Path) -> None:
    """Make of a database what the version before had: one row of the index for each message, with all of its words."""
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE recall_call; PRAGMA user_version = 13")
    connection.close()
    store = SQLiteStore(path, scripts=until("sqlite", 13))
    try:
        store.rebuild_search()
    finally:
        store.close()


def test_lookups_are_left_out_of_async_searches_and_shown_on_request(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        async with AsyncLossless.open(tmp_path / "lcm.db", settings=Settings()) as lcm:
            chat = lcm.conversation("agent:main")
            await chat.ingest([Message.user(FACT), call(1), result(1)])
            return (await chat.grep("vault")).total, (await lcm.grep("vault", include_recall=True)).total

    assert anyio.run(main) == (1, 3)
