"""Claude Code, the real one, and the transcript it writes."""

from __future__ import annotations

import pytest

from lossless import Conversation, Lossless
from lossless.formats import anthropic
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
