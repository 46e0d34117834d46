"""Heartbeat turns: a poll, and the answer that there is nothing."""

from __future__ import annotations

import pytest

from lossless import Message
from lossless.engine.heartbeats import beats, without_beats
from lossless.model import ToolCall
from lossless.transcripts.base import Entry

POLL, ACK = Message.user("Read HEARTBEAT.md if it exists."), Message.assistant(" heartbeat_ok\n")
LOOK = Message("assistant", (ToolCall("c1", "read", '{"path": "HEARTBEAT.md"}'),))


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([POLL, ACK], {0, 1}),
        ([Message.user("[OpenClaw heartbeat poll]"), ACK], {0, 1}),
        ([Message.user("hello"), ACK], set()),
        ([Message.user("wake up"), LOOK, Message.tool("empty", call_id="c1"), ACK], {0, 1, 2, 3}),
        ([POLL, Message.assistant("HEARTBEAT_OK but the disk is full")], set()),
        ([POLL, Message.assistant("no"), Message.user("and now?"), ACK], set()),
        ([Message.user("real"), Message.assistant("yes"), POLL, ACK, Message.user("more")], {2, 3}),
        ([POLL], set()),
        ([ACK], set()),
        ([], set()),
    ],
)
def test_only_whole_turns_that_say_nothing_are_heartbeats(messages: list[Message], found: set[int]) -> None:
    assert beats(messages) == found
    entries = [Entry(str(at), None, at, at, message) for at, message in enumerate(messages)]
    given = list(without_beats(entries))
    assert [entry.id for entry in given] == [entry.id for entry in entries], "their places stay"
    assert {at for at, entry in enumerate(given) if entry.message is None} == found


def test_a_poll_that_is_not_answered_yet_counts_as_said() -> None:
    entries = [Entry("1", None, 1, 1, Message.user("hi")), Entry("2", "1", 2, 2, POLL)]
    assert list(without_beats(entries)) == entries
