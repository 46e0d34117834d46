"""Whatever changes a context can be undone: compaction, /new, /reset, transplants."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from lossless import Conversation, Lossless, Message, Settings, SummaryRequest
from lossless.errors import ContextMoved, InvalidInput

SMALL = Settings(fresh_tail_count=4, leaf_chunk_tokens=400, leaf_target_tokens=80, condensed_target_tokens=120)


def first_words(request: SummaryRequest) -> str:
    return " ".join(request.source.split()[: 8 + next(_numbers) % 7])


_numbers = count(1)


@pytest.fixture
def chat(database: str) -> Iterator[Conversation]:
    with Lossless.open(database, settings=SMALL, summarizer=first_words) as lcm:
        yield lcm.conversation("k")


def say(chat: Conversation, first: int, count: int = 1) -> None:
    chat.ingest([Message.user(f"turn {n} " + "words " * 30, event_id=str(n)) for n in range(first, first + count)])


def shown(chat: Conversation) -> list[str]:
    return [message.text for message in chat.context().messages]


def newest(chat: Conversation, kind: str) -> str:
    return next(each.id for each in chat.history() if each.kind == kind and each.status == "applied")


def holds(chat: Conversation) -> bool:
    return all(proof.holds for proof in chat._lcm.doctor.prove())


def test_undoing_a_compaction_gives_back_the_context_before_it_and_what_came_since(chat: Conversation) -> None:
    say(chat, 0, 60)
    before = shown(chat)
    assert len(chat.compact(500).summaries) > 3
    say(chat, 60, 2)
    chat._lcm.undo(newest(chat, "compact"))
    assert shown(chat)[:60] == before
    assert [text.split()[1] for text in shown(chat)[60:]] == ["60", "61"]
    assert chat.summaries() == []
    assert holds(chat)
    assert chat.compact(500).summaries, "and it can be compacted again"
    assert holds(chat)


def test_compactions_are_undone_one_by_one_the_newest_first(chat: Conversation) -> None:
    say(chat, 0, 40)
    chat.compact(4_000, force=True)
    first, after_first = newest(chat, "compact"), shown(chat)
    say(chat, 40, 40)
    with_more = shown(chat)
    chat.compact(500, force=True)
    second = newest(chat, "compact")
    assert any(summary.depth for summary in chat.summaries())
    with pytest.raises(ContextMoved, match=f"Undo {second} first"):
        chat._lcm.undo(first)
    chat._lcm.undo(second)
    assert shown(chat) == with_more
    assert with_more[: len(after_first)] == after_first
    chat._lcm.undo(first)
    assert [text.split()[1] for text in shown(chat)] == [str(n) for n in range(80)]
    with pytest.raises(InvalidInput, match="already undone"):
        chat._lcm.undo(first)
    assert holds(chat)


def test_a_compaction_is_not_undone_under_a_rewrite(chat: Conversation) -> None:
    say(chat, 0, 40)
    chat.compact(4_000, force=True)
    compacted = newest(chat, "compact")
    rewritten = chat.rewrite(chat.summaries()[0].id, apply=True).operation
    assert rewritten
    with pytest.raises(ContextMoved, match=f"Undo {rewritten} first"):
        chat._lcm.undo(compacted)
    chat._lcm.undo(rewritten)
    chat._lcm.undo(compacted)
    assert chat.summaries() == []
    assert holds(chat)


def test_what_was_shown_at_a_past_turn_says_that_summaries_were_removed(chat: Conversation) -> None:
    say(chat, 0, 60)
    chat.compact(2_000)
    chat.assemble(2_000)
    say(chat, 60)
    assert "removed" not in chat.context(at=1).reason
    chat._lcm.undo(newest(chat, "compact"))
    assert "summaries shown then were removed since" in chat.context(at=1).reason


def test_undoing_a_new_puts_everything_back_before_what_came_since(chat: Conversation) -> None:
    say(chat, 0, 30)
    chat.compact(2_000, force=True)
    before = shown(chat)
    chat.new(2)
    say(chat, 30, 2)
    assert len(shown(chat)) == 2
    chat._lcm.undo(newest(chat, "new"))
    assert shown(chat)[: len(before)] == before
    assert len(shown(chat)) == len(before) + 2
    assert chat.detached() == ()
    assert holds(chat)


def test_undoing_a_reset_makes_the_conversation_active_again(chat: Conversation) -> None:
    say(chat, 0, 3)
    row = chat.status()
    chat.reset()
    say(chat, 3)
    assert len(shown(chat)) == 1
    chat._lcm.undo(newest(chat, "reset"))
    assert chat.status().id == row.id
    assert len(shown(chat)) == 3
    assert [hit.snippet.split()[1] for hit in chat.grep("turn 3 ")] == ["3"], "what came since is still found"
    assert holds(chat)


def test_undoing_a_transplant_takes_all_of_it_out_again(chat: Conversation) -> None:
    lcm, other = chat._lcm, chat._lcm.conversation("other")
    say(chat, 0, 30)
    chat.compact(2_000, force=True)
    say(other, 0, 2)
    before = shown(other)
    lcm.transplant("k", "other", apply=True)
    assert len(shown(other)) > 2
    lcm.undo(newest(other, "transplant"))
    assert shown(other) == before
    assert other.status().messages == 2
    assert other.summaries() == []
    assert holds(other)
