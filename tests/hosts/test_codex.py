"""Codex, the real one, and the rollout it writes."""

from __future__ import annotations

import pytest

from lossless import Conversation, Lossless
from lossless.formats import openai_responses
from tests.hosts.programs import FULL, Codex
from tests.hosts.stored import calls, results, spoken, thoughts
from tests.provider import Play, Use
from tests.validators import violations

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]


def shell(call: str, command: str) -> Use:
    return Use(call, "exec_command", {"cmd": command})


def test_what_codex_writes_is_stored_once_and_whole(lcm: Lossless, chat: Conversation, codex: Codex) -> None:
    codex.say("Who runs the harbour?", Play("I do not know yet."))
    assert chat.bootstrap(codex.transcript).imported == 2

    both = (shell("call_1", "head -n 1 notes.txt"), shell("call_2", "tail -n 1 notes.txt"))
    codex.say(
        "Look it up.", Play("I look twice.", "It is in the notes.", both), Play("Ines.", "So it is Ines.", used=FULL)
    )
    assert chat.bootstrap(codex.transcript).imported == 5
    assert chat.bootstrap(codex.transcript).imported == 0

    codex.say("Go on.", Play("A summary before the turn."), Play("I go on."))
    assert chat.bootstrap(codex.transcript).imported == 2

    codex.say(
        "And the other notes?",
        Play("", uses=(shell("call_3", "cat missing.txt"),), used=FULL),
        Play("A summary within the turn."),
        Play("There are none."),
    )
    assert chat.bootstrap(codex.transcript).imported == 4

    assert spoken(chat) == [
        ("user", "Who runs the harbour?"),
        ("assistant", "I do not know yet."),
        ("user", "Look it up."),
        ("assistant", "I look twice."),
        ("assistant", "Ines."),
        ("user", "Go on."),
        ("assistant", "I go on."),
        ("user", "And the other notes?"),
        ("assistant", ""),
        ("assistant", "There are none."),
    ]
    assert thoughts(chat) == ["It is in the notes.", "So it is Ines."]
    assert calls(chat) == ["call_1", "call_2", "call_3"]
    assert results(chat) == codex.received()
    assert violations("openai_responses", openai_responses.dump(chat.assemble(window=200_000))) == []

    at_once = lcm.conversation("at once")
    assert at_once.bootstrap(codex.transcript).imported == 13
    assert [each.message for each in at_once.messages()] == [each.message for each in chat.messages()]
