"""Transcripts read into conversations: what is new of them, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lossless import Conversation, Lossless, Message
from lossless.errors import InvalidInput
from tests.transcribing import Session, assistant, result, user


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "s1.jsonl")


def texts(chat: Conversation) -> list[str]:
    return [each.text for each in chat.messages()]


def shown(chat: Conversation) -> list[str]:
    return [item.text for item in chat.context().items]


def test_a_transcript_is_read_once_and_then_only_what_is_new(chat: Conversation, session: Session) -> None:
    session.says(user("one"), assistant("two"))
    first = chat.bootstrap(session.path)
    assert (first.reason, first.imported) == ("bootstrapped", 2)
    assert chat.bootstrap(session.path).reason == "already bootstrapped"
    session.says(user("three"))
    second = chat.bootstrap(session.path)
    assert (second.reason, second.imported, second.known) == ("reconciled missing session messages", 1, 0)
    assert texts(chat) == ["one", "two", "three"]


def test_what_the_host_delivered_is_recognised_in_its_transcript(chat: Conversation, session: Session) -> None:
    chat.bootstrap(session.path)
    lines = [session.entry(user("hi")), session.entry(assistant("hello"))]
    chat.ingest(session.live())
    session.write(lines)
    done = chat.bootstrap(session.path)
    assert (done.imported, done.known) == (0, 2)
    assert texts(chat) == ["hi", "hello"]


def test_what_the_transcript_told_is_recognised_when_the_host_delivers_it(chat: Conversation, session: Session) -> None:
    turn = session.says(user("hi"), assistant("hello"))
    chat.bootstrap(session.path)
    assert chat.after_turn(turn, window=100_000).known == 2
    turn = session.says(user("hi"), assistant("hello"))
    assert chat.after_turn(turn, window=100_000).known == 2, "the turn before it reads the transcript first"
    assert texts(chat) == ["hi", "hello", "hi", "hello"]


def test_messages_without_a_time_are_told_by_their_place(chat: Conversation, session: Session) -> None:
    for _ in range(3):
        session.says(user("again"), assistant("ok"))
        chat.after_turn([Message.user("again"), Message.assistant("ok")], window=100_000)
    chat.bootstrap(session.path)
    assert texts(chat) == ["again", "ok"] * 3


def test_a_host_that_uses_ids_of_its_own_is_known_by_both(chat: Conversation, session: Session) -> None:
    session.says(user("hi"))
    chat.bootstrap(session.path)
    own = [Message.user("hi", event_id="m1")]
    assert chat.after_turn(own, window=100_000).known == 1
    assert chat.ingest(own).known == 1, "the second name is remembered"
    assert texts(chat) == ["hi"]


def test_another_branch_becomes_the_context_and_the_first_stays_recallable(
    chat: Conversation, session: Session
) -> None:
    session.says(user("root"), assistant("answer"))
    fork = session.leaf
    session.says(user("left"), assistant("left answer"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["root", "answer", "left", "left answer"]
    session.leaf = fork
    session.says(user("right"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["root", "answer", "right"]
    assert [hit.snippet for hit in chat.grep("left answer")] == ["left answer"]
    session.leaf = "s1-4"
    session.says(user("left again"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["root", "answer", "left", "left answer", "left again"]


def test_an_abandoned_branch_is_never_shown_when_a_file_is_first_read(chat: Conversation, session: Session) -> None:
    session.says(user("root"))
    session.says(user("left"))
    session.leaf = "s1-1"
    session.says(user("right"))
    done = chat.bootstrap(session.path)
    assert (done.imported, done.outside) == (3, 1)
    assert shown(chat) == ["root", "right"]
    session.leaf = "s1-2"
    session.says(user("left again"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["root", "left", "left again"]


def test_results_of_parallel_calls_are_no_branches(chat: Conversation, session: Session) -> None:
    calls = [{"type": "toolCall", "id": f"c{n}", "name": "read", "arguments": {}} for n in (1, 2)]
    session.says(user("read both"), {"role": "assistant", "content": calls, "stopReason": "toolUse"})
    reply = session.leaf
    chat.bootstrap(session.path)
    session.says(result("c1", "first"))
    session.leaf = reply
    session.says(result("c2", "second"), assistant("done"))
    chat.bootstrap(session.path)
    assert shown(chat)[-3:] == ["first", "second", "done"]


def test_a_half_written_line_is_left_for_the_next_time(chat: Conversation, session: Session) -> None:
    session.says(user("one"))
    with session.path.open("a") as file:
        file.write('{"type":"message","id":"s1-2","par')
    assert chat.bootstrap(session.path).imported == 1
    with session.path.open("a") as file:
        file.write('entId":"s1-1","message":{"role":"user","content":"two"}}\n')
    assert chat.bootstrap(session.path).imported == 1
    assert texts(chat) == ["one", "two"]


def test_a_directory_or_a_picture_is_no_transcript(chat: Conversation, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a file"):
        chat.bootstrap(tmp_path)
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(InvalidInput, match=r"cat\.png"):
        chat.bootstrap(picture)


def test_every_conversation_of_an_excluded_key_stays_untouched(lcm: Lossless, session: Session) -> None:
    from msgspec.structs import replace

    session.says(user("one"))
    lcm.settings = replace(lcm.settings, ignore_session_patterns=("agent:*:private",))
    chat = lcm.conversation("agent:main:private")
    assert chat.bootstrap(session.path).reason == "session excluded by pattern"
    assert list(lcm.conversations()) == []


@pytest.mark.parametrize("path", ["a\0b", "\ud800.jsonl", "~nobody-of-this-name/x.jsonl", 5, None, b"x.jsonl"])
def test_an_impossible_path_is_refused_by_name(chat: Conversation, lcm: Lossless, path: Any) -> None:
    for verb in (chat.bootstrap, lcm.import_, lcm.watch, lcm.backfill):
        with pytest.raises(InvalidInput, match="is not a path"):
            verb(path)
