"""What has gone wrong elsewhere with sessions, one test each, by the names of the incident list.

What a transcript brings along (IC57, and the second half of IC53) is told where transcripts are.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lossless import Conversation, Lossless, Message, Summary
from lossless.errors import StoreUnavailable
from tests.engine.compaction.test_compaction import WINDOW, assert_promise, open_small, short, turns

JOB = "agent:main:cron:nightly"


def said(chat: Conversation) -> list[str]:
    return [each.text for each in chat.messages()]


def test_ic52_a_new_session_id_goes_on_with_the_conversation(lcm: Lossless) -> None:
    """A host that restarts under another id finds the conversation of its key, and both ids are remembered."""
    lcm.conversation("k", "first-run").ingest([Message.user("one")])
    lcm.conversation("k", "second-run").ingest([Message.user("two")])
    chat = lcm.conversation("k")
    assert said(chat) == ["one", "two"]
    assert len(lcm.conversations()) == 1
    assert lcm._store.conversations.sessions(chat.status().id) == ["first-run", "second-run"]


def test_ic53_new_prunes_the_context_and_nothing_else(database: str) -> None:
    """After /new the conversation is the same one, with every message and every summary; only the view is smaller."""
    with open_small(database, short) as lcm:
        chat = lcm.conversation("k", "before")
        chat.ingest(turns(40))
        chat.compact(WINDOW)
        conversation, messages, summaries = chat.status().id, chat.messages(), chat.summaries()
        chat.new(1)
        after = lcm.conversation("k", "after")
        after.ingest([Message.user("hello again")])
        assert after.status().id == conversation
        assert after.messages()[:-1] == messages
        assert after.summaries() == summaries
        *kept, newest = after.context().items
        assert all(isinstance(item, Summary) and item.depth >= 1 for item in kept)
        assert newest == after.messages()[-1]
        assert_promise(after)


def test_ic54_a_reset_starts_clean_and_says_that_it_was_meant(lcm: Lossless, chat: Conversation) -> None:
    """What was archived on purpose carries that cause, so that nobody who repairs a database brings it back."""
    chat.ingest([Message.user("to be left behind")])
    old = chat.status().id
    chat.reset()
    chat.ingest([Message.user("clean")])
    assert [message.text for message in chat.assemble(10_000).messages] == ["clean"]
    row = lcm._store.conversations.get(old)
    assert row is not None
    assert (row.active, row.archive_cause, row.archived_at is not None) == (False, "manual-reset", True)


@pytest.mark.parametrize("reason", ["restart", "shutdown"])
def test_ic55_a_host_that_goes_down_and_comes_back_goes_on(database: str, reason: str) -> None:
    """The end of a process is not the end of a conversation."""
    with Lossless.open(database) as lcm:
        chat = lcm.conversation("k", "s1")
        chat.ingest([Message.user("one")])
        assert not chat.end(reason)
    with Lossless.open(database) as lcm:
        lcm.conversation("k", "s2").ingest([Message.user("two")])
        assert said(lcm.conversation("k")) == ["one", "two"]


@pytest.mark.parametrize(
    "verb",
    [
        lambda chat: chat.ingest([Message.user("late")]),
        lambda chat: chat.after_turn([Message.user("late")], window=WINDOW),
        lambda chat: chat.compact(WINDOW),
        lambda chat: chat.assemble(WINDOW),
        lambda chat: chat.new(),
        lambda chat: chat.reset(),
        lambda chat: chat.end("deleted"),
    ],
    ids=["ingest", "after_turn", "compact", "assemble", "new", "reset", "end"],
)
def test_ic55_a_word_after_the_end_is_refused_and_changes_nothing(
    database: str, verb: Callable[[Conversation], object]
) -> None:
    """A hook that comes after the database was closed gets a plain answer, opens nothing and writes nothing."""
    lcm = Lossless.open(database)
    chat = lcm.conversation("k")
    chat.ingest([Message.user("one")])
    chat.assemble(WINDOW)
    lcm.close()
    with pytest.raises(StoreUnavailable, match="was closed"):
        verb(chat)
    assert not chat.end("shutdown")
    with Lossless.open(database) as again:
        assert said(again.conversation("k")) == ["one"]
        assert [each.active for each in again.conversations()] == [True]


def test_ic56_runs_of_a_job_are_apart_and_a_late_word_takes_nothing_over(lcm: Lossless) -> None:
    """A job's key is used again by every run; what an old run still says belongs to that run and to no other."""
    first, second = lcm.conversation(JOB, "run-1"), lcm.conversation(JOB, "run-2")
    first.ingest([Message.user("run one")])
    second.ingest([Message.user("run two")])
    first.after_turn([Message.assistant("run one, late")], window=WINDOW)
    second.ingest([Message.assistant("run two goes on")])
    assert said(second) == ["run two", "run two goes on"]
    assert said(first) == ["run one", "run one, late"]
    active = lcm._store.conversations.active(JOB)
    assert active is not None
    assert active.session == "run-2"
    assert [message.text for message in second.assemble(10_000).messages] == ["run two", "run two goes on"]


@pytest.mark.parametrize("whole", [False, True], ids=["by turns", "everything again"])
def test_ic58_the_same_words_after_a_reset_are_stored_again(chat: Conversation, whole: bool) -> None:
    """A host that says nothing but "ping" before and after a reset is heard both times, and goes on being heard."""
    for _ in range(3):
        chat.ingest([Message.user("ping")], whole=whole)
        chat.ingest([Message.user("ping"), Message.assistant("pong")][not whole :], whole=whole)
        assert said(chat) == ["ping", "pong"]
        assert chat.assemble(10_000).messages
        assert chat.reset()


def test_ic58_the_same_words_after_new_are_stored_again(chat: Conversation) -> None:
    """Nor does /new make a conversation deaf."""
    for turn in range(1, 4):
        chat.ingest([Message.user("ping"), Message.assistant("pong")])
        assert len(said(chat)) == 2 * turn
        assert [message.text for message in chat.assemble(10_000, prompt_follows=True).messages] == ["ping", "pong"]
        chat.new()


def test_ic58_a_host_that_sends_everything_again_is_heard_after_new(chat: Conversation) -> None:
    """Its list begins like the one before, and is another; one that goes on is the same, and nothing of it comes twice."""
    turn = [Message.user("ping"), Message.assistant("pong")]
    for number in range(1, 4):
        chat.ingest(turn[:1], whole=True)
        chat.ingest(turn, whole=True)
        chat.ingest(turn, whole=True)
        assert said(chat) == ["ping", "pong"] * number
        chat.new()
    chat.ingest(turn, whole=True)
    chat.ingest([*turn, Message.user("and now?")], whole=True)
    assert said(chat) == [*["ping", "pong"] * 3, "and now?"]


def test_ic59_a_key_means_its_active_conversation_only(lcm: Lossless, chat: Conversation) -> None:
    """However many were archived under a key, every verb is about the one that is not."""
    for number in range(3):
        chat.ingest([Message.user(f"number {number}", event_id="the same")])
        chat.reset()
    chat.ingest([Message.user("the present one")])
    assert said(chat) == ["the present one"]
    assert chat.status().active
    assert sum(each.active for each in lcm.conversations()) == 1
    chat.end("deleted")
    assert said(chat) == []
    chat.ingest([Message.user("another")])
    assert said(chat) == ["another"]


def test_ic60_recall_spans_everything_that_was_ever_under_a_key(lcm: Lossless, chat: Conversation) -> None:
    """A conversation in several pieces is one memory: what stands in an archived piece is found from the newest."""
    ids = []
    for number in range(3):
        chat.ingest([Message.user(f"pineapple number {number}")])
        ids.append(chat.messages()[0].id)
        chat.reset()
    lcm.conversation("somebody else").ingest([Message.user("pineapple elsewhere")])
    assert len(chat.grep("pineapple")) == 3
    assert "number 0" in chat.expand(ids[0]).text
    assert len({each.conversation for each in chat.ask("Which pineapple numbers were there?").evidence}) == 3
