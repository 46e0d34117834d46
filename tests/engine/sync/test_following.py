"""A host and its transcript over months: what was once lost, shown twice or shown where it must not be."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from lossless import Conversation, Lossless, Message, Settings
from lossless.engine.shared.promise import promise_violations
from tests.engine.sync.test_read import shown, texts
from tests.transcribing import Session, age, assistant, user


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "s1.jsonl")


def plain(path: Path, *said: str) -> Path:
    """A file of messages without ids, of which many begin with the same prompt."""
    path.parent.mkdir(exist_ok=True)
    lines = [{"role": "system", "content": "You are an agent."}, *({"role": "user", "content": text} for text in said)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    age(path)
    return path


@pytest.mark.parametrize("whole", [False, True])
def test_a_job_that_begins_each_night_with_the_same_large_prompt_goes_on(lcm: Lossless, whole: bool) -> None:
    prompt = Message.user("a line of the prompt\n" * 30_000, event_id=None if whole else "prompt")
    for run in ("r1", "r2"):
        chat = lcm.conversation("agent:main:cron:nightly", run)
        assert len(chat.ingest([prompt], whole=whole).stored) == 1


def test_after_a_reset_the_old_transcript_under_another_name_brings_nothing_back(
    chat: Conversation, session: Session
) -> None:
    session.says(user("old"), assistant("words"))
    chat.bootstrap(session.path)
    chat.reset()
    moved = session.path.rename(session.path.with_suffix(".jsonl.reset.2026"))
    assert chat.bootstrap(moved).imported == 0
    assert shown(chat) == []
    session.path = moved
    session.says(user("fresh"))
    chat.bootstrap(moved)
    assert shown(chat) == ["fresh"]


@pytest.mark.parametrize("verb", ["new", "reset", "end"])
def test_what_was_said_before_a_new_session_is_not_shown_in_it(chat: Conversation, session: Session, verb: str) -> None:
    chat.bootstrap(session.path)
    session.says(user("the old secret"), assistant("I will remember it"))
    verbs: dict[str, Callable[[], object]] = {"new": chat.new, "reset": chat.reset, "end": lambda: chat.end("idle")}
    verbs[verb]()
    session.says(user("fresh start"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["fresh start"]
    assert [hit.snippet for hit in chat.grep("old secret")] == ["the old secret"]


@pytest.mark.parametrize("verb", ["reset", "end"])
@pytest.mark.parametrize("delivered", ["by time", "by id", "by words"])
@pytest.mark.parametrize("read", ["before", "while empty", "never"])
def test_a_message_whose_line_is_written_after_a_reset_does_not_come_back(
    lcm: Lossless, chat: Conversation, session: Session, verb: str, delivered: str, read: str
) -> None:
    if read == "before":
        session.says(user("hello"), assistant("hi"))
    if read != "never":
        chat.bootstrap(session.path)
    late = [session.entry(user("the old secret")), session.entry(assistant("I keep it"))]
    told = session.live(len(session.said) - 2, named=delivered == "by id")
    chat.ingest([replace(each, at=None) for each in told] if delivered == "by words" else told)
    assert chat.reset() if verb == "reset" else chat.end("idle")
    session.write([*late, session.entry(user("fresh start"))])
    chat.bootstrap(session.path)
    if read == "never" and delivered == "by words":
        return  # nothing but equal words connects a file that nobody has named before with what was archived
    assert shown(chat) == texts(chat) == ["fresh start"]
    assert len(chat.grep("the old secret")) == 1
    session.says(assistant("and on"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["fresh start", "and on"]
    assert [
        sentence for row in lcm._store.conversations.of_owner() for sentence in promise_violations(lcm._store, row.id)
    ] == []


def test_the_same_words_after_a_reset_are_not_taken_for_those_before_it(chat: Conversation, session: Session) -> None:
    session.says(user("ping"), assistant("pong"))
    chat.bootstrap(session.path)
    chat.reset()
    session.says(user("ping"), assistant("pong"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["ping", "pong"]
    assert len(chat.grep("ping")) == 2


def test_a_host_that_only_delivers_prompts_is_shown_the_answers_in_their_place(
    chat: Conversation, session: Session
) -> None:
    chat.bootstrap(session.path)
    for turn in range(3):
        asked = [session.entry(user(f"question {turn}"))]
        chat.ingest([session.live()[-1]])
        session.write(asked)
        session.says(assistant(f"answer {turn}"))
    chat.bootstrap(session.path)
    assert shown(chat) == [f"{what} {turn}" for turn in range(3) for what in ("question", "answer")]


def test_files_without_ids_that_begin_alike_are_not_taken_for_one(chat: Conversation, tmp_path: Path) -> None:
    chat.bootstrap(plain(tmp_path / "monday" / "chat.jsonl", "monday"))
    done = chat.bootstrap(plain(tmp_path / "tuesday" / "chat.jsonl", "tuesday", "and on"))
    assert (done.imported, done.copies) == (3, 0)
    assert [hit.snippet for hit in chat.grep("tuesday")] == ["tuesday"]


def test_a_file_without_ids_that_is_written_anew_after_new_is_read_anew(chat: Conversation, tmp_path: Path) -> None:
    path = plain(tmp_path / "x" / "chat.jsonl", "old", "and older")
    chat.bootstrap(path)
    chat.new()
    chat.bootstrap(plain(path, "fresh"))
    assert shown(chat) == ["You are an agent.", "fresh"]
    assert len(texts(chat)) == 5


def test_times_of_lines_are_not_those_of_messages(chat: Conversation, tmp_path: Path) -> None:
    path, leaf = tmp_path / "claude.jsonl", None
    for turn in range(3):
        at = datetime(2026, 11, 15, tzinfo=UTC) + timedelta(minutes=turn)
        said = []
        for role in ("user", "assistant"):
            line = {"type": role, "uuid": f"{role}-{turn}", "parentUuid": leaf, "sessionId": "S"}
            content = [{"type": "text", "text": f"{role} {turn}"}]
            message = {"role": role, "content": content}
            if role == "assistant":
                message |= {"id": f"msg_{turn}", "type": "message", "model": "m", "stop_reason": "end_turn"}
            leaf = line["uuid"]
            said.append(json.dumps({**line, "timestamp": at.isoformat(), "message": message}) + "\n")
        with path.open("a") as file:
            file.writelines(said)
        age(path)
        chat.bootstrap(path)
        stamped = [Message.user(f"user {turn}", at=at - timedelta(milliseconds=40))]
        chat.after_turn([*stamped, Message.assistant(f"assistant {turn}", at=at)], window=100_000)
    assert texts(chat) == [f"{role} {turn}" for turn in range(3) for role in ("user", "assistant")]


def test_what_a_host_names_apart_is_apart(chat: Conversation, session: Session) -> None:
    session.says(user("hi"))
    chat.bootstrap(session.path)
    at = datetime(2026, 11, 16, tzinfo=UTC)
    chat.ingest([Message.user("ping", event_id=f"m{n}", at=at) for n in range(3)])
    assert texts(chat) == ["hi", "ping", "ping", "ping"]


def test_a_live_message_with_a_second_name_is_shown_once(chat: Conversation, session: Session) -> None:
    chat.bootstrap(session.path)
    session.says(user("please deploy"))
    prompt = [Message.user("please deploy", event_id="m1")]
    chat.ingest(prompt)
    assert [each.text for each in chat.assemble(100_000, live=prompt).messages] == ["please deploy"]


def test_the_transcript_a_host_announced_is_its_conversations(chat: Conversation, session: Session) -> None:
    chat.bootstrap(session.path)
    session.says(user("first"))
    second = [session.entry(user("second"))]
    chat.ingest([session.live()[-1]])
    session.write(second)
    session.says(user("third"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["first", "second", "third"]


def test_a_fork_whose_host_speaks_first_does_not_show_its_parent(tmp_path: Path, database: str) -> None:
    settings = Settings(bootstrap_max_tokens=100, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings) as lcm:
        fork = Session(tmp_path / "fork.jsonl", "s2", parent="s1")
        fork.says(*(user(f"m{n} " + "word " * 30) for n in range(600)))
        chat = lcm.conversation("agent:main:fork")
        chat.ingest([fork.live()[-1]])
        chat.bootstrap(fork.path)
        assert chat.context().tokens <= 100
        assert len(texts(chat)) == 600


def test_a_branch_does_not_come_back_behind_a_summary_of_what_followed_it(tmp_path: Path, database: str) -> None:
    settings = Settings(fresh_tail_count=2, large_files_dir=str(tmp_path / "files"))
    with Lossless.open(database, settings=settings, summarizer=lambda request: "A short summary.") as lcm:
        chat, session = lcm.conversation("k"), Session(tmp_path / "s.jsonl")
        words = " word" * 60
        session.says(user("root" + words))
        fork = session.leaf
        session.says(*(user(f"L{n}" + words) for n in range(4)))
        left = session.leaf
        chat.bootstrap(session.path)
        session.leaf = fork
        session.says(*(user(f"R{n}" + words) for n in range(12)))
        chat.bootstrap(session.path)
        assert chat.compact(2000, force=True).summaries
        session.leaf = left
        session.says(user("Lnew" + words))
        chat.bootstrap(session.path)
        assert shown(chat)[-1].startswith("Lnew")
        assert [promise_violations(lcm._store, each.id) for each in lcm.conversations()] == [[]]


def test_the_same_words_after_an_import_of_a_file_that_is_gone_are_new(chat: Conversation, session: Session) -> None:
    session.says(user("start"), assistant("working"), user("continue"))
    chat.bootstrap(session.path)
    session.path.unlink()
    chat.ingest([Message.user("continue")])
    assert texts(chat) == ["start", "working", "continue", "continue"]


def test_a_session_that_is_resumed_is_shown_again(chat: Conversation, session: Session, tmp_path: Path) -> None:
    session.says(user("one"))
    chat.bootstrap(session.path)
    other = Session(tmp_path / "other.jsonl", "s2")
    other.write([other.entry(user("one"), at=0)])
    other.write([other.entry(user("two"), at=50)])
    assert chat.bootstrap(other.path).reason.startswith("new epoch")
    session.says(user("back"))
    chat.bootstrap(session.path)
    assert shown(chat) == ["one", "back"]


def test_a_file_that_vanishes_stops_no_turn(chat: Conversation, session: Session) -> None:
    session.says(user("one"))
    chat.bootstrap(session.path)
    session.path.unlink()
    session.path.mkdir()
    chat.after_turn([Message.user("what now?")], window=100_000)
    assert texts(chat) == ["one", "what now?"]
