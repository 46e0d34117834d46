"""Heartbeat turns: a poll, and the answer that there is nothing."""

from __future__ import annotations

import pytest

from lossless import Message
from lossless.engine.ingest.heartbeats import idle_messages, mark_idle
from lossless.model import ToolCall
from lossless.transcripts.base import TranscriptEntry

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
        ([POLL, Message.assistant("I mailed the invoice 4711 to Ana"), ACK], set()),
        (
            [
                POLL,
                Message("assistant", (ToolCall("c2", "mail", '{"to": "Ana"}'),)),
                Message.tool("sent", call_id="c2"),
                ACK,
            ],
            set(),
        ),
        ([POLL, LOOK, Message.tool("pay Ana", call_id="c1"), Message.assistant("Paid."), ACK], set()),
        ([POLL], set()),
        ([ACK], set()),
        ([], set()),
    ],
)
def test_only_whole_turns_in_which_nothing_was_done_are_idle(messages: list[Message], found: set[int]) -> None:
    assert idle_messages(messages) == found
    entries = [TranscriptEntry(str(at), None, at, at, message) for at, message in enumerate(messages)]
    given = list(mark_idle(entries))
    assert [entry.message for entry in given] == messages, "nothing is taken out"
    assert {at for at, entry in enumerate(given) if entry.is_idle} == found


def test_a_poll_that_is_not_answered_yet_counts_as_said() -> None:
    entries = [TranscriptEntry("1", None, 1, 1, Message.user("hi")), TranscriptEntry("2", "1", 2, 2, POLL)]
    assert list(mark_idle(entries)) == entries
