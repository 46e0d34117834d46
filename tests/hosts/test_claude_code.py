"""Claude Code, the real one, and the transcript it writes."""

from __future__ import annotations

import pytest

from lossless import Conversation, Lossless
from lossless.formats import anthropic
from tests.hosts.connecting import connected
from tests.hosts.hooking import wait_until
from tests.hosts.programs import FULL, ClaudeCode
from tests.hosts.stored import calls, results, spoken, thoughts
from tests.provider import Play, Use
from tests.validators import violations

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]


def bash(call: str, command: str) -> Use:
    return Use(call, "Bash", {"command": command, "description": "Look"})


def test_what_claude_code_writes_is_stored_once_and_whole(
    lcm: Lossless, chat: Conversation, claude: ClaudeCode
) -> None:
    claude.say("Who runs the harbour?", Play("I do not know yet."))
    assert chat.bootstrap(claude.transcript).imported == 2

    both = (bash("toolu_1", "head -n 1 notes.txt"), bash("toolu_2", "tail -n 1 notes.txt"))
    claude.say(
        "Look it up.", Play("I look twice.", "It is in the notes.", both), Play("Ines.", "So it is Ines.", used=FULL)
    )
    assert chat.bootstrap(claude.transcript).imported == 5
    assert chat.bootstrap(claude.transcript).imported == 0

    summary = Play("<summary>They talked about the harbour.</summary>")
    missing = Use("toolu_3", "Read", {"file_path": str(claude.work / "missing.txt")})
    claude.say("And the other notes?", summary, Play("", uses=(missing,)), Play("There are none."))
    assert chat.bootstrap(claude.transcript).imported == 4

    assert spoken(chat) == [
        ("user", "Who runs the harbour?"),
        ("assistant", "I do not know yet."),
        ("user", "Look it up."),
        ("assistant", "I look twice."),
        ("assistant", "Ines."),
        ("user", "And the other notes?"),
        ("assistant", ""),
        ("assistant", "There are none."),
    ]
    assert thoughts(chat) == ["It is in the notes.", "So it is Ines."]
    assert calls(chat) == ["toolu_1", "toolu_2", "toolu_3"]
    assert results(chat) == claude.received()
    assert violations("anthropic", anthropic.dump(chat.assemble(window=200_000))) == []

    at_once = lcm.conversation("at once")
    assert at_once.bootstrap(claude.transcript).imported == 11
    assert [each.message for each in at_once.messages()] == [each.message for each in chat.messages()]


def test_a_command_to_compact_is_kept_and_its_summary_is_not(chat: Conversation, claude: ClaudeCode) -> None:
    claude.say("Who runs the harbour?", Play("I do not know yet."))
    claude.say("/compact", Play("<summary>They talked about the harbour.</summary>"))
    claude.say("Go on.", Play("I go on."))
    assert chat.bootstrap(claude.transcript).imported == 7

    question, answer, *command, go, on = (text for _, text in spoken(chat))
    assert [question, answer, go, on] == ["Who runs the harbour?", "I do not know yet.", "Go on.", "I go on."]
    assert "/compact" in command[1]
    assert set(command) < claude.told()


def test_whom_claude_code_sends_has_a_conversation_apart(lcm: Lossless, chat: Conversation, claude: ClaudeCode) -> None:
    errand = {"description": "Ask", "prompt": "Who?", "subagent_type": "general-purpose", "run_in_background": False}
    claude.say(
        "Ask somebody.",
        Play("I send somebody.", uses=(Use("toolu_1", "Agent", errand),)),
        Play("", uses=(bash("toolu_2", "cat notes.txt"),)),
        Play("The notes say Ines."),
        Play("It is Ines."),
    )
    assert chat.bootstrap(claude.transcript).imported == 4
    (sent,) = claude.sent
    apart = lcm.conversation("apart")
    assert apart.bootstrap(sent).imported == 4

    assert spoken(chat) == [("user", "Ask somebody."), ("assistant", "I send somebody."), ("assistant", "It is Ines.")]
    assert spoken(apart) == [("user", "Who?"), ("assistant", ""), ("assistant", "The notes say Ines.")]
    assert results(chat) | results(apart) == claude.received()
    assert "The notes say Ines." in results(chat)["toolu_1"]


def test_hooks_capture_claude_code_and_give_back_what_its_compactions_remove(claude: ClaudeCode) -> None:
    said = []

    def say(prompt: str, *plays: Play, compacts: bool = False) -> None:
        claude.say(prompt, *plays)
        answers = plays[1:] if compacts else plays
        said.extend([("user", prompt), *(("assistant", play.text) for play in answers)])

    summary = Play("<summary>They talked about the harbour.</summary>")
    with connected(claude, "claude-code", fresh_tail_count=4, leaf_chunk_tokens=600) as home:
        say("The code word is Kittiwake. " + "Remember it well. " * 60, Play("I will."))
        rounds = [Play("", uses=(bash(f"toolu_{n}a", "cat notes.txt"), bash(f"toolu_{n}b", "pwd"))) for n in range(20)]
        say("Look forty times.", *rounds, Play("I looked.", used=FULL))
        before = len(claude.asked())
        say("Go on.", summary, Play("I go on.", used=FULL), compacts=True)
        say("And on.", summary, Play("Still here.", used=18), compacts=True)
        recall = Use("toolu_recall", "mcp__lcm__lcm_grep", {"pattern": "code word", "mode": "full_text"})
        say("What did we decide about the code word?", Play("", uses=(recall,)), Play("Kittiwake."))
        _, compaction, first, again, second, resumed, _ = claude.asked()[before - 1 :]
        assert "The code word is Kittiwake" in claude.received()["toolu_recall"]
        with home.open() as lcm:
            chat = lcm.conversation(f"claude-code:{claude.session}")
            wait_until(lambda: len(spoken(chat)) == len(said))
            assert spoken(chat) == said
            assert len(calls(chat)) == 41
            assert results(chat) == claude.received()
            at_once = lcm.conversation("at once")
            at_once.bootstrap(claude.transcript)
            assert [each.message for each in at_once.messages()] == [each.message for each in chat.messages()]
            assert [each.key for each in lcm.conversations() if each.key.startswith("claude-code")] == [chat.key]
        assert home.activity("claude-code").failures == 0
        assert home.activity("claude-code").delivered == len(said) + 41
        assert len(home.services()) == 1
    for request in (first, second, resumed):
        block = request.rpartition("<lossless_history trust=")[2].partition("</lossless_history>")[0]
        assert '<summary id=\\"sum_' in block
        assert "Kittiwake" in block
        assert "Kittiwake" not in request.replace(block, "")
    assert "<lossless_history" not in compaction
    assert "seems to refer to earlier work" in resumed
    assert not any("seems to refer" in request for request in (first, again, second))


def test_a_resumed_session_is_given_its_summaries_once(claude: ClaudeCode) -> None:
    with connected(claude, "claude-code", hook_startup_note=False) as home:
        for number in range(4):
            claude.say(f"Question {number}? " + "The harbour has ferries. " * 40, Play("Yes. " * 60))
        assert not any("<lossless_history" in request for request in claude.asked())
        with home.open(fresh_tail_count=2, leaf_chunk_tokens=400) as lcm:
            chat = lcm.conversation(f"claude-code:{claude.session}")
            assert chat.compact(128_000, force=True).summaries
        claude.say("Go on.", Play("I go on."))
        claude.say("And on.", Play("And on."))
        first, second = claude.asked()[-2:]
        assert first.count("<lossless_history trust=") == 1
        assert second.count("<lossless_history trust=") == 1
        assert '<summary id=\\"sum_' in first


def test_the_sub_agents_of_claude_code_are_captured_below_it(claude: ClaudeCode) -> None:
    errand = {"description": "Ask", "prompt": "Who?", "subagent_type": "general-purpose", "run_in_background": False}
    with connected(claude, "claude-code") as home:
        claude.say(
            "Ask somebody.",
            Play("I send somebody.", uses=(Use("toolu_1", "Agent", errand),)),
            Play("", uses=(bash("toolu_2", "cat notes.txt"),)),
            Play("The notes say Ines."),
            Play("It is Ines."),
        )
        with home.open() as lcm:
            (sent,) = claude.sent
            apart = lcm.conversation(f"claude-code:{sent.stem.removeprefix('agent-')}")
            wait_until(lambda: len(apart.messages()) == 4)
            assert spoken(apart) == [("user", "Who?"), ("assistant", ""), ("assistant", "The notes say Ines.")]
            row = lcm._store.conversations.active(apart.key)
            parent = lcm._store.conversations.active(f"claude-code:{claude.session}")
            assert row is not None
            assert parent is not None
            assert row.parent == parent.id


def test_a_setting_keeps_claude_code_from_compacting(claude: ClaudeCode) -> None:
    with connected(claude, "claude-code", hook_block_compaction=True):
        claude.say("Who runs the harbour?", Play("Ines.", used=FULL))
        claude.say("Go on.", Play("I go on."))
