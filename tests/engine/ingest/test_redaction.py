"""With `redact` on, no secret is stored: whatever way it comes, however often, in whatever shape."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from msgspec import structs

from lossless import Conversation, Lossless, Message, Settings, Text, ToolCall
from lossless.engine.ingest.secrets import Redactor
from lossless.engine.shared.promise import promise_violations
from lossless.errors import ConfigError
from lossless.model import File, Opaque, Part, Reasoning, ToolResult
from tests import secrets
from tests.engine.compaction.test_compaction import SMALL, WINDOW, assert_promise
from tests.engine.erase.test_forget import raw_bytes
from tests.imports.databases import CLAW_06, OldClaw
from tests.secrets import (
    ANTHROPIC,
    AWS_ID,
    AWS_SECRET,
    BEARER,
    GITHUB,
    GOOGLE,
    JWT,
    OAUTH,
    OPENAI,
    PASSWORD,
    PAT,
    PRIVATE_KEY,
    SLACK,
    WEBHOOK,
    made,
)
from tests.transcripts.files import pi, pi_session, put

PLANTED = (
    ANTHROPIC,
    OPENAI,
    GITHUB,
    OAUTH,
    PAT,
    AWS_ID,
    AWS_SECRET,
    SLACK,
    WEBHOOK[-24:],
    GOOGLE,
    BEARER,
    PASSWORD,
    JWT,
)


def opened(database: str, tmp_path: Path, **changes: object) -> Lossless:
    settings = structs.replace(
        SMALL, redact=("on",), large_file_token_threshold=1_000, large_files_dir=str(tmp_path / "files"), **changes
    )
    return Lossless.open(database, settings=settings, summarizer="extractive")


def history() -> list[Message]:
    """Secrets of every kind, in every place that a message has for words."""
    log = "\n".join(f"line {n} of a long log, nothing to see" for n in range(300))
    said: list[tuple[str, tuple[Part, ...]]] = [
        ("user", (Text(f"Use {ANTHROPIC} and {AWS_ID} with {AWS_SECRET}."),)),
        (
            "assistant",
            (Reasoning(f"The key is {OPENAI}."), ToolCall("c1", "login", json.dumps({"password": PASSWORD}))),
        ),
        ("tool", (ToolResult("c1", (Text(f"{log}\ntoken: {GITHUB}\n{PRIVATE_KEY}\n"),)),)),
        ("user", (File("text/plain", f"{OAUTH}.txt", base64.b64encode(f"{log}\n{SLACK}".encode()).decode()),)),
        ("assistant", (Opaque("patch", {"curl": f"-H 'Authorization: Bearer {BEARER}'", "hook": WEBHOOK}),)),
        (
            "user",
            (Text(f"And split: {PAT[:20]}"), Text(f"{PAT[20:]} in two."), Text(GOOGLE, {"anthropic": {"x": JWT}})),
        ),
    ]
    return [Message(role, parts, event_id=f"e{at}") for at, (role, parts) in enumerate(said)]


def assert_no_secret(tmp_path: Path, database: str) -> None:
    lines = (*PLANTED, PRIVATE_KEY.splitlines()[1], PAT[20:], PAT[:20])
    for name, data in raw_bytes(tmp_path, database):
        for secret in lines:
            assert secret.encode() not in data, (secret, name)
            assert secret.lower().encode() not in data, (secret, name)


def test_no_planted_secret_is_anywhere(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        done = chat.ingest(history())
        assert (len(done.stored), done.redacted) == (6, 14)
        chat.ingest(
            [Message.user(f"Question {n}? " + "Some words about it. " * 12, event_id=f"q{n}") for n in range(60)]
        )
        chat.compact(WINDOW)
        assert chat.summaries()
        assert "[REDACTED:anthropic-key:" in chat.messages()[0].text
        assert "[REDACTED:private-key:" in chat.messages()[2].text
        chat.pin(f"Mind {GITHUB}")
        assert len(chat.grep(r"\[REDACTED:github-token:[0-9a-f]{8}\]")) > 0
        assert not chat.grep(GITHUB)
        assert not chat.grep(GITHUB, scope="files")
        assert_promise(chat)
        lcm.export(tmp_path / "archive.zip")
    assert_no_secret(tmp_path, database)


def test_a_message_sent_again_is_the_same_message(database: str, tmp_path: Path) -> None:
    for _ in range(2):  # the second time in another process, as it were
        with opened(database, tmp_path) as lcm:
            chat = lcm.conversation("k")
            done = chat.ingest(history())
            nameless = [structs.replace(each, event_id=None) for each in history()]
            whole = lcm.conversation("whole").ingest(nameless, whole=True)
    assert (done.stored, done.known, done.copies, done.redacted) == ((), 6, 0, 0)
    assert (whole.stored, whole.known) == ((), 6)
    assert_no_secret(tmp_path, database)


def test_the_placeholder_is_the_same_all_over_a_database_and_another_elsewhere(tmp_path: Path) -> None:
    def told(name: str, key: str) -> str:
        with opened(str(tmp_path / name), tmp_path) as lcm:
            chat = lcm.conversation(key)
            chat.ingest([Message.user(f"key {GITHUB}", event_id="a")])
            return chat.messages()[0].text

    assert told("a.db", "one") == told("a.db", "two")
    assert told("a.db", "three") != told("b.db", "one")


def test_what_a_model_is_shown_of_live_messages_is_what_will_be_stored(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        live = [Message.user(f"Use {GITHUB}."), Message.assistant("Yes."), Message.user("Go on.")]
        chat.ingest(live[:2])
        shown = [message.text for message in chat.assemble(WINDOW, live=live).messages]
        assert len(shown) == 3
        assert GITHUB not in " ".join(shown)


def test_a_transcript_is_read_without_its_secrets(database: str, tmp_path: Path) -> None:
    lines = [pi("a", None, f"Use {GITHUB}"), pi("b", "a", f"{OPENAI} and {JWT}", "assistant"), pi("c", "b", "Go on.")]
    path = put(tmp_path / "outside" / "session.jsonl", pi_session(), *lines)
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"Use {GITHUB}")])
        assert chat.bootstrap(path).imported == 2  # the first one the host had told itself
        assert [each.text[:4] for each in chat.messages()] == ["Use ", "[RED", "Go o"]
        assert chat.bootstrap(path).imported == 0
    path.unlink()
    assert_no_secret(tmp_path, database)


def test_ids_of_entries_in_a_transcript_are_stored_without_their_secrets(database: str, tmp_path: Path) -> None:
    first, second, other = (f"{name}-{GITHUB}" for name in "abc")
    lines = [pi(first, None, "root"), pi(second, first, "left", "assistant")]
    path = put(tmp_path / "outside" / "session.jsonl", pi_session(), *lines)
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        assert chat.bootstrap(path).imported == 2
        lines.append(pi("d", second, "goes on"))
        put(path, pi_session(), *lines)
        assert chat.bootstrap(path).imported == 1
        assert [each.text for each in chat.context().messages] == ["root", "left", "goes on"]
        lines.append(pi(other, first, "right", "assistant"))
        put(path, pi_session(), *lines)
        assert chat.bootstrap(path).imported == 1
        assert [each.text for each in chat.context().messages] == ["root", "right"]
        again = lcm.conversation("again")
        again.bootstrap(path)
        assert [each.text for each in again.context().messages] == ["root", "right"]
    path.unlink()
    assert_no_secret(tmp_path, database)


def test_an_archive_comes_in_without_its_secrets_and_whole(tmp_path: Path) -> None:
    with Lossless.open(
        tmp_path / "open" / "lcm.db",
        settings=structs.replace(SMALL, large_file_token_threshold=1_000),
        summarizer=lambda request: f"It says {GITHUB}.",
    ) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(history())
        big = "\n".join(f"line {n} of another log" for n in range(500))
        chat.ingest(
            [Message.user(f"{GOOGLE} <file name='{SLACK}'>{big}\n{OPENAI}</file> and {GITHUB}", event_id="file")]
        )
        chat.ingest(
            [Message.user(f"Question {n}? " + "Some words about it. " * 12, event_id=f"q{n}") for n in range(60)]
        )
        chat.compact(WINDOW)
        assert any(GITHUB in each.text for each in chat.summaries())
        lcm.export(tmp_path / "open" / "archive.zip")
    database = str(tmp_path / "clean" / "lcm.db")
    with Lossless.open(database, settings=structs.replace(SMALL, redact=("on",))) as lcm:
        report = lcm.import_(tmp_path / "open" / "archive.zip", apply=True)
        assert report.errors == ()
        chat = lcm.conversation("k")
        assert promise_violations(lcm._store, chat.status().id) == []
        text = chat.messages()[6].text
        assert text.startswith("[REDACTED:google-key:")
        assert "line 499 of another log\n[REDACTED:api-key:" in text  # put back out of its file, where it stood
        again = chat.ingest([*history()])
        assert (again.stored, again.copies) == ((), 0)
    assert_no_secret(tmp_path / "clean", database)


def test_a_database_of_another_system_comes_in_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old = OldClaw(tmp_path / "old" / "lcm.db", CLAW_06)
    conversation = old.conversation("s", session_key="agent:main:main", title=f"About {SLACK}")
    said = old.say(conversation, f"Use {GITHUB}", f"and {OPENAI}", "Go on.")
    old.leaf(conversation, "sum_0123456789abcdef", said[:2], content=f"The key is {GITHUB}.")
    old.show(conversation, "sum_0123456789abcdef", said[2])
    old.close()
    database = str(tmp_path / "new" / "lcm.db")
    with Lossless.open(database, settings=Settings(redact=("on",))) as lcm:
        report = lcm.import_(old.path, apply=True)
        assert report.errors == ()
        assert report.messages == 3
    assert_no_secret(tmp_path / "new", database)


def test_off_nothing_is_changed(chat: Conversation) -> None:
    assert chat.ingest(history()).redacted == 0
    assert [each.message for each in chat.messages()] == history()


def test_patterns_of_ones_own_and_what_is_none(tmp_path: Path) -> None:
    own = Settings(redact=(r"corp-[0-9]{4}",))
    with Lossless.open(tmp_path / "lcm.db", settings=own) as lcm:
        chat = lcm.conversation("k")
        assert chat.ingest([Message.user(f"corp-1234 and {GITHUB}", event_id="a")]).redacted == 2
        assert chat.messages()[0].text.startswith("[REDACTED:custom:")
    with pytest.raises(ConfigError, match=r"redact: .*look-around"):
        Lossless.open(tmp_path / "lcm.db", settings=Settings(redact=("(?=a)b",)))


def test_made_up_secrets_are_of_the_shape_of_real_ones() -> None:
    redact = Redactor(["on"], lambda: b"key")
    for secret in PLANTED[:6]:
        assert redact.text(secret).startswith("[REDACTED:")
    assert len(made(100)) == 100
    assert secrets.jwt("other") != JWT
