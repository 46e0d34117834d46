"""What hosts' transcripts have done to others, one test each. Nothing is ever refused: what cannot be placed gets a
conversation of its own in the family, out of the model's sight where it must be, and an event says so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

from lossless import Conversation, Lossless, Message, Settings
from lossless.engine.sync import store_entries
from lossless.events import Event
from tests.engine.sync.test_read import shown, texts
from tests.transcribing import Died, Session, assistant, dying, result, user


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "s1.jsonl")


def events(lcm: Lossless) -> list[Event]:
    """What is told from now on."""
    told: list[Event] = []
    lcm._on_event = told.append
    return told


def family(chat: Conversation) -> list[list[str]]:
    """The texts of every conversation of the family, the active one first."""
    store = chat._store
    return [[row.text for row in store.messages.read(each.id)] for each in store.conversations.family(chat.key)]


def test_ic29_an_unchanged_file_is_not_opened(
    chat: Conversation, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.says(user("one"))
    chat.bootstrap(session.path)
    os.chmod(session.path, 0)
    opened: list[str] = []
    monkeypatch.setattr(Path, "open", lambda self, *_: opened.append(str(self)))
    assert chat.bootstrap(session.path).reason == "already bootstrapped"
    assert opened == []


def test_ic30_a_file_that_maintenance_rewrote_brings_nothing_new(chat: Conversation, session: Session) -> None:
    session.says(*(user(f"m{n}") for n in range(20)))
    chat.bootstrap(session.path)
    lines = session.path.read_text().splitlines()
    session.write([json.loads(line) for line in [lines[0], *lines[-5:]]], "w")
    assert chat.bootstrap(session.path).imported == 0
    assert chat.bootstrap(session.path).reason == "already bootstrapped"
    session.says(user("new"))
    assert chat.bootstrap(session.path).imported == 1
    assert texts(chat) == [*(f"m{n}" for n in range(20)), "new"]


def test_ic31_a_backlog_without_lineage_becomes_a_conversation_of_its_own(
    lcm: Lossless, session: Session, tmp_path: Path
) -> None:
    told = events(lcm)
    chat = lcm.conversation("agent:main:main")
    session.says(user("ours"), assistant("our answer"))
    chat.bootstrap(session.path)
    stranger = Session(tmp_path / "other.jsonl", "s2")
    stranger.says(*(user(f"theirs {n}") for n in range(300)))
    done = chat.bootstrap(stranger.path)
    assert done.reason.startswith("new epoch")
    assert done.imported == 300
    assert family(chat) == [stranger.texts(), session.texts()]
    assert [event.name for event in told] == ["transcript.separate"]


def test_ic32_a_long_backlog_is_drained_oldest_first_and_its_mark_never_runs_ahead(
    lcm: Lossless, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = lcm.conversation("agent:main:main")
    session.says(user("m0"))
    chat.bootstrap(session.path)
    session.says(*(user(f"m{n}") for n in range(1, 60)))
    monkeypatch.setattr(store_entries, "_BATCH", 10)
    with dying(lcm._store, 60), pytest.raises(Died):
        chat.bootstrap(session.path)
    assert 10 < len(texts(chat)) < 60
    assert texts(chat) == [f"m{n}" for n in range(len(texts(chat)))]
    chat.bootstrap(session.path)
    assert texts(chat) == [f"m{n}" for n in range(60)]


def test_ic33_a_reading_without_a_message_moves_no_mark(chat: Conversation, session: Session) -> None:
    assert chat.bootstrap(session.path).reason == "no leaf-path messages in session"
    assert [state["offset"] for *_, state in chat._store.state.cursors("transcript:")] == [0]


def test_ic34_a_failure_stores_nothing_and_keeps_the_mark(lcm: Lossless, session: Session) -> None:
    chat = lcm.conversation("agent:main:main")
    session.says(user("one"))
    chat.bootstrap(session.path)
    before = chat._store.state.cursors("transcript:")
    session.says(user("two"))
    with dying(lcm._store, 12), pytest.raises(Died):
        chat.bootstrap(session.path)
    assert chat._store.state.cursors("transcript:") == before
    assert texts(chat) == ["one"]


def test_ic35_a_file_that_cannot_be_looked_at_for_a_moment_resets_nothing(
    lcm: Lossless, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = events(lcm)
    chat = lcm.conversation("agent:main:main")
    session.says(user("one"))
    chat.bootstrap(session.path)
    before = chat._store.state.cursors("transcript:")
    real = Path.stat

    def failing(self: Path, **options: bool) -> os.stat_result:
        if self.name == session.path.name:
            raise OSError(5, "Input/output error")
        return real(self, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", failing)
        assert chat.bootstrap(session.path).reason == "transcript unavailable"
        assert chat.after_turn([Message.user("live", event_id="l1")], window=100_000).stored
    assert chat._store.state.cursors("transcript:") == before
    assert "transcript.unavailable" in {event.name for event in told}


def test_ic36_a_transcript_that_is_not_there_yet_is_read_as_soon_as_it_is(
    chat: Conversation, session: Session, tmp_path: Path
) -> None:
    later = tmp_path / "later.jsonl"
    assert chat.bootstrap(later).reason == "transcript missing"
    session.says(user("hi"))
    session.path.rename(later)
    chat.after_turn(session.live(), window=100_000)
    assert texts(chat) == ["hi"]
    assert chat.bootstrap(later).reason == "already bootstrapped"


def test_ic37_after_nothing_but_the_hosts_notes_the_whole_transcript_is_the_conversations(
    chat: Conversation, session: Session
) -> None:
    chat.ingest([Message.system("Sender: Anna", event_id="n1")])
    session.says(user("one"), assistant("two"))
    chat.bootstrap(session.path)
    assert texts(chat) == ["Sender: Anna", "one", "two"]


def test_ic37_after_real_messages_an_unrelated_transcript_is_not_mixed_in(chat: Conversation, session: Session) -> None:
    chat.ingest([Message.user("quite another thing", event_id="x1")])
    session.says(user("one"), assistant("two"))
    done = chat.bootstrap(session.path)
    assert "quite another thing" not in [row.text for row in chat._store.messages.read(done.conversation or 0)], (
        "what the transcript tells has a conversation of its own"
    )
    assert sorted(chain(*family(chat))) == ["one", "quite another thing", "two"]


@pytest.mark.parametrize("named", [True, False])
def test_ic38_a_file_that_shrank_is_a_new_epoch_even_if_it_repeats_old_words(
    chat: Conversation, tmp_path: Path, named: bool
) -> None:
    old = Session(tmp_path / "s.jsonl", "s1", named=named)
    old.says(*(user(f"m{n}") for n in range(10)), user("the end"))
    chat.bootstrap(old.path)
    new = Session(tmp_path / "s.jsonl", "s1" if not named else "s9", named=named)
    new.says(user("the end"))
    done = chat.bootstrap(new.path)
    assert done.reason.startswith("new epoch")
    assert done.imported == 1
    assert family(chat) == [["the end"], old.texts()]
    new.says(user("and on"))
    chat.bootstrap(new.path)
    assert family(chat)[0] == ["the end", "and on"]


def test_ic39_another_header_on_the_same_path_is_a_new_epoch(chat: Conversation, session: Session) -> None:
    session.says(user("before"))
    chat.bootstrap(session.path)
    other = Session(session.path, "s2")
    other.says(*(user(f"after {n}") for n in range(5)))
    assert chat.bootstrap(session.path).reason.startswith("new epoch")
    assert family(chat) == [other.texts(), ["before"]]
    assert [hit.snippet for hit in chat.grep("before")] == ["before"], "recall spans both"


def test_ic40_an_edited_history_whose_end_came_again_under_new_ids_is_stored_once(
    chat: Conversation, session: Session
) -> None:
    session.says(*(user(f"m{n}") for n in range(6)))
    chat.bootstrap(session.path)
    lines = [json.loads(line) for line in session.path.read_text().splitlines()]
    for at in (5, 6):
        lines[at]["id"] = f"again-{at}"
        lines[at]["parentId"] = lines[at - 1]["id"]
    session.write(lines, "w")
    session.leaf = "again-6"
    session.says(user("new"))
    done = chat.bootstrap(session.path)
    assert (done.imported, texts(chat)) == (1, [*(f"m{n}" for n in range(6)), "new"])
    assert chat.bootstrap(session.path).reason == "already bootstrapped"


def test_ic17_entries_appended_again_under_fresh_ids_are_known_by_their_own_time(
    chat: Conversation, session: Session
) -> None:
    session.says(user("one"), assistant("two"))
    chat.bootstrap(session.path)
    session.write([session.entry(user("one"), id="twin", at=1), session.entry(user("one"), id="real", at=90)])
    assert chat.bootstrap(session.path).imported == 1
    assert texts(chat) == ["one", "two", "one"]


def test_ic41_abandoned_branches_are_recallable_and_not_shown(chat: Conversation, session: Session) -> None:
    session.says(user("root"), user("abandoned plan"))
    session.leaf = "s1-1"
    session.says(user("taken"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["root", "taken"]
    assert [hit.snippet for hit in chat.grep("abandoned")] == ["abandoned plan"]


def test_ic42_what_is_missing_before_what_is_stored_is_kept_beside_the_context(
    chat: Conversation, session: Session
) -> None:
    session.says(user("missing"), user("here"))
    chat.bootstrap(session.path.with_name("none.jsonl"))
    chat.ingest([session.live(named=True)[1]])
    chat.bootstrap(session.path)
    assert shown(chat) == ["here"]
    assert [(each.text, each.outside) for each in chat.messages()] == [("here", None), ("missing", "late")]


def test_ic43_a_fork_shows_only_the_newest_of_its_parent(tmp_path: Path, database: str) -> None:
    settings = Settings(bootstrap_max_tokens=100, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        fork = Session(tmp_path / "fork.jsonl", "s2", parent="s1")
        fork.says(*(user(f"m{n} " + "word " * 30) for n in range(10)))
        chat = lcm.conversation("agent:main:fork")
        done = chat.bootstrap(fork.path)
        assert done.imported == 10
        assert 7 <= done.outside < 10
        assert chat.context().tokens <= 100
        fork.says(user("and on"))
        chat.bootstrap(fork.path)
        assert shown(chat)[-1] == "and on"
        assert len(chat.messages()) == 11, "all of it is stored"


def test_ic43_what_a_fork_said_itself_is_all_in_its_context(tmp_path: Path, database: str) -> None:
    settings = Settings(bootstrap_max_tokens=100, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        fork = Session(tmp_path / "fork.jsonl", "s2", parent="s1")
        fork.says(*(user(f"m{n} " + "word " * 30) for n in range(10)))
        fork.write([fork.entry(user(f"own {n} " + "word " * 30), at=10_000 + n) for n in range(10)])
        chat = lcm.conversation("agent:main:fork")
        assert 7 <= chat.bootstrap(fork.path).outside < 10
        assert [text[:5] for text in shown(chat)[-10:]] == [f"own {n}" for n in range(10)]


def test_ic44_a_fork_whose_newest_message_is_too_large_shows_none_of_its_parent(tmp_path: Path, database: str) -> None:
    settings = Settings(bootstrap_max_tokens=10, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        fork = Session(tmp_path / "fork.jsonl", "s2", parent="s1")
        fork.says(user("small"), user("word " * 200))
        chat = lcm.conversation("agent:main:fork")
        chat.bootstrap(fork.path)
        assert shown(chat) == []
        assert len(texts(chat)) == 2


def test_ic45_large_content_leaves_a_transcripts_messages_as_it_does_a_live_one(
    chat: Conversation, session: Session
) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
    session.says(user("read it"), {"role": "assistant", "content": [call], "stopReason": "toolUse"})
    session.says(result("c1", "line of a log\n" * 20_000))
    chat.bootstrap(session.path)
    (file,) = chat.files()
    assert file.bytes == 14 * 20_000
    assert chat.context().tokens < 2_000


def test_ic46_history_keeps_its_times_and_the_messages_own_goes_first(chat: Conversation, session: Session) -> None:
    session.says(user("own time"))
    line = {"type": "message", "id": "x", "parentId": "s1-1", "timestamp": "2026-11-01T10:00:00.000Z"}
    session.write([{**line, "message": user("the line's time")}])
    chat.bootstrap(session.path)
    first, second = chat.messages()
    assert first.at.timestamp() * 1000 == session.said[0][1]["timestamp"]
    assert second.at.isoformat() == "2026-11-01T10:00:00+00:00"


def test_ic47_a_file_without_a_readable_message_is_told_and_not_taken_for_empty(
    lcm: Lossless, session: Session
) -> None:
    told = events(lcm)
    chat = lcm.conversation("agent:main:main")
    with session.path.open("a") as file:
        file.write("not json\n" * 3)
    done = chat.bootstrap(session.path)
    assert (done.reason, done.malformed) == ("no leaf-path messages in session", 3)
    assert [event.name for event in told] == ["transcript.unreadable"]
    session.says(user("one"))
    assert chat.bootstrap(session.path).imported == 1


def test_ic48_heartbeats_are_stored_out_of_the_context(chat: Conversation, session: Session) -> None:
    session.says(user("real"), assistant("yes"))
    session.says(user("Read HEARTBEAT.md if it exists."), assistant("HEARTBEAT_OK"))
    session.says(user("[OpenClaw heartbeat poll]"), assistant("heartbeat_ok "))
    done = chat.bootstrap(session.path)
    assert (done.imported, done.heartbeats, done.outside, done.offset) == (6, 4, 4, session.path.stat().st_size)
    assert [(each.text, each.outside) for each in chat.messages()][2:] == [
        ("Read HEARTBEAT.md if it exists.", "poll"),
        ("HEARTBEAT_OK", "poll"),
        ("[OpenClaw heartbeat poll]", "poll"),
        ("heartbeat_ok ", "poll"),
    ]
    assert [each.text for each in chat.context().messages] == ["real", "yes"]
    assert len(chat.grep("heartbeat_ok", ignore_case=False)) == 1
    explained = chat.explain(chat.messages()[3].id)
    assert explained is not None
    assert "heartbeat turn without any action" in str(explained)
    session.says(user("Read HEARTBEAT.md if it exists."), assistant("HEARTBEAT_OK, but the disk is full"))
    assert chat.bootstrap(session.path).imported == 2
    assert [each.text for each in chat.context().messages][2:] == [
        "Read HEARTBEAT.md if it exists.",
        "HEARTBEAT_OK, but the disk is full",
    ]


WORKED = ["Read HEARTBEAT.md if it exists.", "I mailed the invoice 4711 to Ana", "HEARTBEAT_OK"]


@pytest.mark.parametrize("prunes", [False, True])
def test_what_was_done_in_a_heartbeat_is_stored_shown_and_found(
    tmp_path: Path, database: str, session: Session, prunes: bool
) -> None:
    settings = Settings(prune_heartbeat_ok=prunes, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        chat = lcm.conversation("agent:main:main")
        session.says(user(WORKED[0]), assistant(WORKED[1]), assistant(WORKED[2]), user("thanks"))
        assert chat.bootstrap(session.path).heartbeats == 0
        assert [(each.text, each.outside) for each in chat.messages()] == [(text, None) for text in [*WORKED, "thanks"]]
        assert [hit.seq for hit in chat.grep("invoice 4711")] == [2]
        live = lcm.conversation("live")
        done = live.after_turn([Message.user(WORKED[0]), *map(Message.assistant, WORKED[1:])], window=100_000)
        assert (len(done.stored), done.skipped) == (3, 0)
        assert [each.text for each in live.context().messages] == WORKED


def test_a_heartbeat_that_a_host_and_its_transcript_tell_is_stored_once(chat: Conversation, session: Session) -> None:
    session.says(user("real"), assistant("yes"))
    chat.bootstrap(session.path)
    session.says(user("Read HEARTBEAT.md"), assistant("HEARTBEAT_OK"))
    done = chat.after_turn([Message.user("Read HEARTBEAT.md"), Message.assistant("HEARTBEAT_OK")], window=100_000)
    assert (done.stored, done.known) == ((), 2)
    assert [(each.text, each.outside) for each in chat.messages()][2:] == [
        ("Read HEARTBEAT.md", "poll"),
        ("HEARTBEAT_OK", "poll"),
    ]


def test_a_turn_that_is_only_a_heartbeat_is_stored_out_of_the_context(chat: Conversation) -> None:
    chat.ingest([Message.user("real"), Message.assistant("yes")])
    done = chat.after_turn([Message.user("Read HEARTBEAT.md"), Message.assistant("HEARTBEAT_OK")], window=100_000)
    assert (done.stored, done.skipped) == ((3, 4), 0)
    assert [each.text for each in chat.context().messages] == ["real", "yes"]
    assert len(chat.grep("HEARTBEAT_OK")) == 1


def test_ic48_stored_heartbeats_lose_their_words_when_asked_for(
    tmp_path: Path, database: str, session: Session
) -> None:
    settings = Settings(prune_heartbeat_ok=True, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        chat = lcm.conversation("agent:main:main")
        chat.ingest([Message.user("Read HEARTBEAT.md"), Message.assistant("HEARTBEAT_OK")])
        session.says(user("Read HEARTBEAT.md"), assistant("HEARTBEAT_OK"), user("real"))
        chat.bootstrap(session.path)
        assert [(each.text, each.outside) for each in chat.messages()] == [
            ("", "heartbeat"),
            ("", "heartbeat"),
            ("real", None),
        ]
        assert not chat.grep("HEARTBEAT")


def test_ic49_entries_of_another_conversation_are_stored_aside(lcm: Lossless, session: Session, tmp_path: Path) -> None:
    told = events(lcm)
    session.says(user("theirs"), assistant("their answer"))
    lcm.conversation("agent:one:main").bootstrap(session.path)
    chat = lcm.conversation("agent:two:main")
    chat.ingest([Message.user("ours", event_id="o1")])
    done = chat.bootstrap(session.path)
    assert done.reason.startswith("stored aside")
    assert done.imported == 2
    assert texts(chat) == ["ours"]
    assert shown(chat) == ["ours"]
    assert [event.name for event in told] == ["transcript.separate"]


def test_ic49_threads_of_one_channel_may_share_their_beginning(lcm: Lossless, tmp_path: Path) -> None:
    for thread in ("t1", "t2"):
        started = Session(tmp_path / f"{thread}.jsonl", "shared")
        started.says(user("announcement"), user(f"only in {thread}"))
        chat = lcm.conversation(f"agent:main:chat:{thread}")
        chat.ingest([Message.system("note", event_id="n")])
        chat.bootstrap(started.path)
        assert texts(chat)[1:] == ["announcement", f"only in {thread}"]


def test_ic50_a_transcript_of_deliveries_only_is_no_new_epoch(lcm: Lossless, session: Session, tmp_path: Path) -> None:
    chat = lcm.conversation("agent:main:main")
    session.says(user("one"))
    chat.bootstrap(session.path)
    deliveries = Session(tmp_path / "d.jsonl", "s2")
    deliveries.says({"role": "system", "content": "Delivered to Anna."})
    assert chat.bootstrap(deliveries.path).reason.startswith("stored aside")
    assert texts(chat) == ["one"]


def test_ic51_a_turn_reads_only_what_was_written_since(
    chat: Conversation, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.says(*(user("word " * 50) for _ in range(400)))
    chat.bootstrap(session.path)
    session.says(user("new"))
    read = 0
    lines = import_module("lossless.transcripts.lines")
    real = lines.lines

    def counting(*arguments: object, **named: object) -> Iterator[tuple[bytes, int]]:
        nonlocal read
        for line, end in real(*arguments, **named):
            read += len(line)
            yield line, end

    monkeypatch.setattr(lines, "lines", counting)
    chat.bootstrap(session.path)
    assert 0 < read < 1_000 < session.path.stat().st_size


def test_ic53_after_new_another_file_goes_on_with_the_same_conversation(chat: Conversation, session: Session) -> None:
    session.says(user("one"))
    chat.bootstrap(session.path)
    chat.new()
    session.path.rename(session.path.with_suffix(".jsonl.reset.2026"))
    follow = Session(session.path, "s2")
    follow.write([follow.entry(user("one"), at=50)])
    assert chat.bootstrap(follow.path).imported == 1
    assert texts(chat) == ["one", "one"]
    assert shown(chat) == ["one"]


def test_ic57_two_transcripts_that_are_both_there_are_not_mixed(
    chat: Conversation, session: Session, tmp_path: Path
) -> None:
    session.says(user("one"), assistant("two"))
    chat.bootstrap(session.path)
    other = Session(tmp_path / "other.jsonl", "s2")
    other.write([other.entry(user("one"), at=0)])
    chat.bootstrap(other.path)
    assert family(chat) == [["one"], ["one", "two"]] or family(chat) == [["one", "two"], ["one"]]


def test_ic57_a_transcript_that_begins_after_everything_goes_on_with_the_conversation(
    chat: Conversation, session: Session, tmp_path: Path
) -> None:
    session.says(user("one"), assistant("two"))
    chat.bootstrap(session.path)
    follow = Session(tmp_path / "next.jsonl", "s2")
    follow.write([follow.entry(user("three"), at=50)])
    chat.bootstrap(follow.path)
    assert texts(chat) == ["one", "two", "three"]
