"""Codex, the real one, and the rollout it writes."""

from __future__ import annotations

import pytest

from lossless import Conversation, Lossless
from lossless.formats import openai_responses
from tests.hosts.connecting import connected
from tests.hosts.hooking import wait_until
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


def test_hooks_capture_codex_and_give_back_what_its_compactions_remove(codex: Codex) -> None:
    said = []

    def say(prompt: str, *plays: Play, compacts: bool = False) -> None:
        codex.say(prompt, *plays)
        answers = plays[1:] if compacts else plays
        said.extend([("user", prompt), *(("assistant", play.text) for play in answers)])

    with connected(codex, "codex", fresh_tail_count=4, leaf_chunk_tokens=600) as home:
        say("The code word is Kittiwake. " + "Remember it well. " * 60, Play("I will."))
        rounds = [Play("", uses=(shell(f"call_{n}a", "cat notes.txt"), shell(f"call_{n}b", "pwd"))) for n in range(20)]
        say("Look forty times.", *rounds, Play("I looked.", used=FULL))
        before = len(codex.asked())
        say("Go on.", Play("A first summary."), Play("I go on.", used=FULL), compacts=True)
        say("And on.", Play("A second summary."), Play("Still here."), compacts=True)
        recall = Use("call_recall", "lcm_grep", {"pattern": "code word", "mode": "full_text"}, "mcp__lcm")
        say("What did we decide about the code word?", Play("", uses=(recall,)), Play("Kittiwake."))
        _, _, first, again, second, resumed, _ = codex.asked()[before - 1 :]
        assert "The code word is Kittiwake" in codex.received()["call_recall"]
        with home.open() as lcm:
            chat = lcm.conversation(f"codex:{codex.session}")
            wait_until(lambda: len(spoken(chat)) == len(said), 100)
            assert spoken(chat) == said
            assert len(calls(chat)) == 41
            stored, received = results(chat), codex.received()
            # Codex shortens long results of MCP tools for the model; its rollout has them in full.
            assert len(stored.pop("call_recall")) >= len(received.pop("call_recall"))
            assert stored == received
            at_once = lcm.conversation("at once")
            at_once.bootstrap(codex.transcript)
            assert [each.message.parts for each in at_once.messages()] == [
                each.message.parts for each in chat.messages()
            ]
            assert [each.key for each in lcm.conversations() if each.key.startswith("codex")] == [chat.key]
        assert home.activity("codex").failures == 0
        assert home.activity("codex").delivered == len(said) + 41
        assert len(home.services()) == 1
    for request in (first, second, resumed):
        block = request.rpartition("<lossless_history trust=")[2].partition("</lossless_history>")[0]
        assert '<summary id=\\"sum_' in block
        assert "Kittiwake" in block
    assert "seems to refer to earlier work" in resumed
    assert not any("seems to refer" in request for request in (first, again, second))
