"""What has gone wrong elsewhere with recall, one test each: given X, must Y. The names are those of the incident list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from lossless import Conversation, Lossless, Message
from lossless.tools import tools
from tests.engine.compaction.test_compaction import SMALL, short
from tests.engine.recall.test_recall import grown, top


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    own = structs.replace(SMALL, large_files_dir=str(tmp_path / "files"), large_file_token_threshold=1_000)
    with Lossless.open(database, settings=own, summarizer=short) as lcm:
        yield lcm


@pytest.fixture
def chat(lcm: Lossless) -> Conversation:
    return grown(lcm.conversation("k"))


def test_ic101_an_expansion_of_a_condensed_summary_walks_to_its_sources(chat: Conversation) -> None:
    upper = top(chat)
    assert upper.depth == 2
    by_id = {summary.id: summary for summary in chat.summaries()}
    found = chat.expand(upper.id)
    assert {by_id[item.id].depth for item in found.items} == {1}
    assert sum(by_id[item.id].descendants + 1 for item in found.items) == upper.descendants
    all_the_way = chat.expand(upper.id, max_tokens=10**6, depth=3)
    said = [item.text for item in all_the_way.items if item.kind == "message"]
    assert said == [message.text for message in chat.messages()[: len(said)]]
    assert upper.id not in [item.id for item in all_the_way.items]


def test_ic102_a_delegate_reads_nothing_outside_its_grant_even_in_all_conversations(
    lcm: Lossless, chat: Conversation
) -> None:
    other = lcm.conversation("other")
    other.ingest([Message.user("the violet secret")])
    kit = tools(chat, chat.grant(max_tokens=10_000))
    everywhere = {"allConversations": True}
    assert kit.call("lcm_grep", {"pattern": "violet", **everywhere}).details["totalMatches"] == 0
    for arguments in ({"id": other.messages()[0].id, **everywhere}, {"id": other.messages()[0].id}):
        assert "violet" not in kit.call("lcm_describe", arguments).text
    outside = kit.call("lcm_grep", {"pattern": "violet", "conversationId": other.status().id})
    assert "outside the delegated scope" in outside.details["error"]
    assert tools(chat).call("lcm_grep", {"pattern": "violet", **everywhere}).details["totalMatches"] == 1


def test_ic120_a_payload_is_described_inline_and_only_from_under_the_root(chat: Conversation, tmp_path: Path) -> None:
    content = "".join(f"row {n}\n" for n in range(2_000))
    chat.ingest([Message.tool(content, call_id="c", name="exec")])
    id = chat.files()[0].id
    shown = chat.describe(id)
    assert shown.content.endswith(f"Content:\n{content}")
    assert "[LCM Tool Output:" not in shown.text
    assert content.strip() in tools(chat).call("lcm_describe", {"id": id}).text
    # A link that somebody plants in the directory leads nowhere.
    secret = tmp_path / "secret.txt"
    secret.write_text("outside the directory\n" * 1_000)
    stored = next(path for path in (tmp_path / "files").rglob("*") if path.is_file())
    stored.unlink()
    os.symlink(secret, stored)
    assert "outside the directory" not in chat.describe(id).text
    assert "nothing: " in chat.describe(id).head
