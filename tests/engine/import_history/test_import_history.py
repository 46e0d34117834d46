"""History brought in from files: told first, then done, once, and whatever is in them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import apsw
import pytest

from lossless import AsyncLossless, Lossless, Message, Settings
from lossless.engine.import_history.watch import SCAN_INTERVAL, Watch
from lossless.errors import InvalidInput, StoreBusy, StoreReadOnly
from lossless.model import ImportedSource
from tests.imports.databases import CLAW, CLAW_06, HERMES, OldClaw
from tests.transcribing import Died, Session, assistant, dying, user
from tests.transcripts import files as written


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    directory = tmp_path / "sessions"
    directory.mkdir()
    return directory


def session(directory: Path, name: str, *texts: str) -> Session:
    made = Session(directory / f"{name}.jsonl", name)
    made.says(*map(user, texts))
    return made


def texts(lcm: Lossless, key: str) -> list[str]:
    return [each.text for each in lcm.conversation(key).messages()]


def statuses(lcm: Lossless, *paths: Path, **options: Any) -> list[str]:
    return [each.status for each in lcm.import_(paths, **options).sources]


def one(lcm: Lossless, path: Path, **options: Any) -> ImportedSource:
    (row,) = lcm.import_(path, **options).sources
    return row


# telling, then doing


def test_unless_told_so_nothing_is_written(lcm: Lossless, sessions: Path) -> None:
    session(sessions, "a", "one", "two")
    row = one(lcm, sessions)
    assert (row.status, row.kind, row.key, row.messages) == ("would-import", "openclaw", "openclaw:a", 2)
    assert list(lcm.conversations()) == []


def test_what_would_be_done_is_done(lcm: Lossless, sessions: Path) -> None:
    session(sessions, "a", "one", "two")
    session(sessions, "b", "three")
    planned = lcm.import_(sessions)
    done = lcm.import_(sessions, apply=True)
    assert [each.messages for each in done.sources] == [each.messages for each in planned.sources] == [2, 1]
    assert {each.status for each in done.sources} == {"imported"}
    assert texts(lcm, "openclaw:a") == ["one", "two"]
    assert statuses(lcm, sessions, apply=True) == statuses(lcm, sessions) == ["up-to-date"] * 2


def test_only_what_is_new_in_a_file_that_grew_is_told(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one", "two")
    lcm.import_(sessions, apply=True)
    a.says(user("three"))
    assert (one(lcm, sessions).messages, one(lcm, sessions).known) == (1, 0)
    assert one(lcm, sessions, apply=True).messages == 1
    assert texts(lcm, "openclaw:a") == ["one", "two", "three"]


def test_of_a_file_that_was_written_anew_what_is_stored_is_known(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one", "two")
    lcm.import_(sessions, apply=True)
    kept = a.path.read_text().splitlines()
    a.write([json.loads(kept[0]), json.loads(kept[2])], "w")
    a.says(user("three"))
    assert (one(lcm, sessions).messages, one(lcm, sessions).known) == (1, 1)
    row = one(lcm, sessions, apply=True)
    assert (row.messages, row.known) == (1, 1)


def test_a_second_look_at_many_files_opens_none_of_them(
    lcm: Lossless, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        session(sessions, f"s{number}", "hi")
    lcm.import_(sessions, apply=True)
    queries = _count(lcm, monkeypatch)
    monkeypatch.setattr("builtins.open", _refused)
    monkeypatch.setattr(Path, "open", _refused)
    assert set(statuses(lcm, sessions, apply=True)) == {"up-to-date"}
    assert len(queries) == 2, "one for the marks, one for the keys"


def _refused(*_: object, **__: object) -> None:
    raise AssertionError("a file was opened")


def _count(lcm: Lossless, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    verb = lcm._store.all

    def asking(sql: str, **given: object) -> object:
        asked.append(sql)
        return verb(sql, **given)

    monkeypatch.setattr(lcm._store, "all", asking)
    return asked


def test_an_import_that_died_goes_on(lcm: Lossless, sessions: Path) -> None:
    for name in ("a", "b"):
        session(sessions, name, *(f"{name}{number}" for number in range(5)))
    store: Any = lcm._store
    for after in range(0, 60, 7):
        with dying(store, after):
            try:
                lcm.import_(sessions, apply=True)
            except Died:
                continue
            break
    lcm.import_(sessions, apply=True)
    for name in ("a", "b"):
        assert texts(lcm, f"openclaw:{name}") == [f"{name}{number}" for number in range(5)]


def test_progress_is_told_in_bytes_and_ends_at_all_of_them(lcm: Lossless, sessions: Path) -> None:
    size = sum(session(sessions, name, "hi").path.stat().st_size for name in "ab")
    told: list[tuple[str, int, int]] = []
    lcm.import_(sessions, apply=True, progress=lambda *each: told.append(each))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == (str(sessions / "b.jsonl"), size, size)


def test_a_database_that_is_open_for_reading_is_enough_to_look(sessions: Path, tmp_path: Path) -> None:
    a = session(sessions, "a", "one")
    path = tmp_path / "lcm.db"
    with Lossless.open(path) as lcm:
        lcm.import_(sessions, apply=True)
    a.says(user("two"))
    with Lossless.open(path, read_only=True) as lcm:
        assert one(lcm, sessions).messages == 1
        with pytest.raises(StoreReadOnly):
            lcm.import_(sessions, apply=True)


def test_it_can_be_awaited(sessions: Path) -> None:
    session(sessions, "a", "one")

    async def story() -> str:
        async with AsyncLossless.open(":memory:") as lcm:
            return (await lcm.import_(sessions, apply=True)).sources[0].status

    assert anyio.run(story) == "imported"


# which files, and where they go


def test_one_key_is_for_one_transcript(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one")
    assert one(lcm, a.path, key="agent:main:main", apply=True).key == "agent:main:main"
    assert texts(lcm, "agent:main:main") == ["one"]
    session(sessions, "b", "two")
    with pytest.raises(InvalidInput, match="is one conversation, and 2 files"):
        lcm.import_(sessions, key="k")
    assert "of many conversations" in one(lcm, CLAW, key="k").reason


def test_what_a_host_reads_under_its_own_key_is_not_imported_again(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one")
    lcm.conversation("agent:main:main").bootstrap(a.path)
    assert one(lcm, sessions, apply=True).status == "up-to-date"
    a.says(user("two"))
    assert one(lcm, sessions, apply=True).key == "agent:main:main"
    assert [each.key for each in lcm.conversations()] == ["agent:main:main"]


def test_a_sub_agent_hangs_from_its_parent_whichever_comes_first(lcm: Lossless, sessions: Path) -> None:
    agent = {"isSidechain": True, "agentId": "a1"}
    written.put(sessions / "x" / "subagents" / "agent-a1.jsonl", written.prompt("s1", None, "look there", **agent))
    main = sessions / "x.jsonl"
    lcm.import_(sessions, apply=True)
    written.put(main, written.prompt("u1", None, "find it"))
    lcm.import_(sessions, apply=True)
    chat = lcm.conversation(f"claude-code:{written.SESSION}")
    assert [hit.snippet for hit in chat.grep("look there")] == ["look there"]


def test_older_files_and_those_beyond_the_limit_are_left(lcm: Lossless, sessions: Path) -> None:
    for number, name in enumerate("abc"):
        made = session(sessions, name, "hi")
        os.utime(made.path, (1_700_000_000 + number, 1_700_000_000 + number))
    since = lcm.import_(sessions, since="2023-11-14T22:13:21Z")
    assert ([each.key for each in since.sources], since.left) == (["openclaw:b", "openclaw:c"], 1)
    first = lcm.import_(sessions, limit=2, apply=True)
    assert ([each.key for each in first.sources], first.left) == (["openclaw:a", "openclaw:b"], 1)
    assert "imported" in statuses(lcm, sessions, limit=2, apply=True), "what is here already does not count"
    with pytest.raises(InvalidInput, match="not a time"):
        lcm.import_(sessions, since="yesterdy")
    with pytest.raises(InvalidInput, match="too little"):
        lcm.import_(sessions, limit=0)


def test_keys_that_are_to_be_left_alone_are_skipped(sessions: Path) -> None:
    session(sessions, "a", "one")
    for settings in (Settings(ignore_session_patterns=("openclaw:*",)), Settings(enabled=False)):
        with Lossless.open(":memory:", settings=settings) as lcm:
            row = one(lcm, sessions, apply=True)
            assert row.status == "skipped"
            assert row.reason
            assert list(lcm.conversations()) == []


def test_links_out_of_a_directory_are_not_followed_and_a_named_link_is(
    lcm: Lossless, sessions: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = session(outside, "secret", "do not read")
    (sessions / "link.jsonl").symlink_to(secret.path)
    (sessions / "dir").symlink_to(outside)
    (sessions / "loop.jsonl").symlink_to("loop.jsonl")
    (sessions / "link.db").symlink_to(CLAW)
    assert lcm.import_(sessions, apply=True).sources == ()
    assert one(lcm, sessions / "link.jsonl").path == str(secret.path)
    assert statuses(lcm, secret.path, outside, secret.path) == ["would-import"], "each file once"


def test_what_lies_in_a_directory_and_is_nothing_of_ours_is_skipped(lcm: Lossless, sessions: Path) -> None:
    (sessions / "sessions.json").write_text('{"agent:main:main": {"sessionId": "x"}}')
    (sessions / "empty.jsonl").write_text("")
    (sessions / "notes.txt").write_text("nobody asks for this one")
    other = apsw.Connection(str(sessions / "cookies.db"))
    other.execute("CREATE TABLE cookies (id)")
    other.close()
    (sessions / "noise.db").write_bytes(os.urandom(5000))
    Lossless.open(sessions / "ours.db").close()
    found = {Path(each.path).name: each for each in lcm.import_(sessions, apply=True).sources}
    assert sorted(found) == ["cookies.db", "empty.jsonl", "noise.db", "ours.db", "sessions.json"]
    assert {each.status for each in found.values()} == {"skipped"}
    assert "is already a database of lossless" in found["ours.db"].reason
    named = lcm.import_([sessions / name for name in found], apply=True)
    assert {each.status for each in named.sources} == {"error"}, "but somebody who names one is told"


def test_a_session_in_which_nothing_was_said_makes_no_conversation(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a")
    a.write([{"type": "model_change", "id": "m1", "parentId": None, "provider": "p", "modelId": "m"}])
    assert (one(lcm, sessions).status, one(lcm, sessions, apply=True).status) == ("skipped", "skipped")
    assert list(lcm.conversations()) == []
    a.leaf = "m1"
    a.says(user("one"))
    assert one(lcm, sessions, apply=True).messages == 1


# databases and archives


@pytest.mark.parametrize(("fixture", "kind", "count"), [(CLAW, "lossless-claw", 600), (HERMES, "hermes-lcm", 601)])
def test_a_database_of_another_system_comes_in_once(lcm: Lossless, fixture: Path, kind: str, count: int) -> None:
    row = one(lcm, fixture)
    assert (row.status, row.kind, row.messages) == ("would-import", kind, count)
    assert list(lcm.conversations()) == []
    told: list[int] = []
    done = one(lcm, fixture, apply=True, progress=lambda path, read, total: told.append(read))
    assert (done.status, done.messages) == ("imported", count)
    assert told == sorted(told)
    assert told[-1] == fixture.stat().st_size
    assert (one(lcm, fixture, apply=True).status, one(lcm, fixture).known) == ("up-to-date", count)


def test_a_database_is_found_in_a_directory_and_known_by_its_content(
    lcm: Lossless, sessions: Path, tmp_path: Path
) -> None:
    shutil.copyfile(CLAW, sessions / "whatever.db")
    assert one(lcm, sessions).kind == "lossless-claw"
    shutil.copyfile(CLAW, tmp_path / "backup-of-monday")
    assert one(lcm, tmp_path / "backup-of-monday").kind == "lossless-claw"


def test_an_archive_comes_in(lcm: Lossless, tmp_path: Path) -> None:
    with Lossless.open(":memory:") as other:
        other.conversation("k").ingest([Message.user("packed")])
        other.conversation("agent:x:cron:y").ingest([Message.user("not this one")])
        other.export(tmp_path / "memory.zip")
    row = one(lcm, tmp_path / "memory.zip", apply=True)
    assert (row.status, row.kind, row.messages, row.conversations) == ("imported", "lossless", 2, 2)
    assert texts(lcm, "k") == ["packed"]
    quiet = Settings(ignore_session_patterns=("agent:*:cron:**",))
    with Lossless.open(":memory:", settings=quiet) as third:
        row = one(third, tmp_path / "memory.zip", apply=True)
        assert row.messages == 1
        assert "not imported" in row.notes[0]
        assert [each.key for each in third.conversations()] == ["k"]


def test_a_database_that_its_owner_holds_is_told_and_the_rest_comes_in(
    lcm: Lossless, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_keyword_defaults("lossless.imports", "recognise"), "patience_ms", 1)
    session(sessions, "a", "one")
    old = OldClaw(sessions / "old.db", CLAW_06)
    old.path.chmod(0o600)
    owner = apsw.Connection(str(sessions / "old.db"))
    owner.execute("PRAGMA journal_mode = DELETE").fetchall()
    owner.execute("BEGIN EXCLUSIVE")
    found = {Path(each.path).name: each for each in lcm.import_(sessions, apply=True).sources}
    owner.close()
    assert (found["old.db"].status, found["a.jsonl"].status) == ("error", "imported")
    assert "held by the program it belongs to" in found["old.db"].reason


def _keyword_defaults(module: str, name: str) -> dict[str, Any]:
    defaults: dict[str, Any] = getattr(import_module(module), name).__kwdefaults__
    return defaults


def test_a_schema_from_the_future_is_refused_by_name(lcm: Lossless, tmp_path: Path) -> None:
    future = apsw.Connection(str(tmp_path / "future.db"))
    future.execute(CLAW_06.replace("seq INTEGER NOT NULL,", "place INTEGER NOT NULL,"))
    future.close()
    row = one(lcm, tmp_path / "future.db", apply=True)
    assert row.status == "error"
    assert "messages.seq" in row.reason
    assert list(lcm.conversations()) == []


# bad input


def test_one_bad_file_does_not_stop_the_rest(lcm: Lossless, sessions: Path, tmp_path: Path) -> None:
    session(sessions, "a", "one")
    session(sessions, "z", "two")
    (sessions / "m.jsonl").write_bytes('{"type":"session","id":"m"}\n'.encode("utf-16"))
    report = lcm.import_([sessions, tmp_path / "nowhere", Path("/proc/self/mem")], apply=True)
    told = {Path(each.path).name: each for each in report.sources}
    assert (told["a.jsonl"].status, told["z.jsonl"].status) == ("imported", "imported")
    assert told["m.jsonl"].reason.endswith("is in UTF-16.")
    assert told["nowhere"].reason == "It is not there."
    assert told["mem"].status == "error"
    assert len(report.errors) == 2


def test_what_may_not_be_read_is_told() -> None:
    with TemporaryDirectory() as name, Lossless.open(":memory:") as lcm:
        directory = Path(name)
        directory.chmod(0o755)
        session(directory, "open", "one")
        session(directory, "shut", "two").path.chmod(0)
        (directory / "closed").mkdir(mode=0)
        lcm.import_(directory)  # loads the modules: another user may not be able to read them
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            found = {Path(each.path).name: each for each in lcm.import_(directory, apply=True).sources}
        finally:
            if root:
                os.seteuid(0)
            (directory / "closed").chmod(0o700)
        assert found["open.jsonl"].status == "imported"
        assert (found["shut.jsonl"].status, found["closed"].status) == ("error", "error")
        assert "Permission denied" in found["shut.jsonl"].reason


def test_cut_and_interleaved_lines_are_counted_and_the_rest_is_read(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one", "two", "three")
    *before, two, three = a.path.read_text().splitlines()
    a.path.write_text("\n".join([*before, two[:40] + three, two[40:], two, three[:30]]))
    row = one(lcm, sessions, apply=True)
    assert row.skipped == {"malformed": 2}
    assert texts(lcm, "openclaw:a") == ["one", "two"], "the last line may still be on its way"
    assert one(lcm, sessions).status == "up-to-date"


def test_two_writers_of_one_file_lose_nothing(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one")
    for number in range(3):
        a.says(user(f"first writer {number}"))
        a.write([{**a.entry(user(f"second writer {number}")), "parentId": "a-1"}])
        lcm.import_(sessions, apply=True)
    said = [text for _, message in a.said for text in [message["content"][0]["text"]]]
    assert sorted(texts(lcm, "openclaw:a")) == sorted(said)


def test_a_line_that_is_too_long_is_passed_over(lcm: Lossless, sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_keyword_defaults("lossless.transcripts.lines", "records"), "longest", 2_000)
    session(sessions, "a", "one", "x" * 5_000, "three")
    assert one(lcm, sessions).skipped == {"too long": 1}
    assert one(lcm, sessions, apply=True).messages == 2
    assert texts(lcm, "openclaw:a") == ["one", "three"]


@pytest.mark.skipif(os.environ.get("LCM_TEST_PROFILE") != "slow", reason="takes its time: `make slow`")
@pytest.mark.slow
def test_a_line_of_two_hundred_megabytes_is_kept(sessions: Path, tmp_path: Path) -> None:
    session(sessions, "a", "one", "x" * (200 << 20), "three")
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        assert one(lcm, sessions, apply=True).messages == 3
        chat = lcm.conversation("openclaw:a")
        assert [len(each.text) for each in chat.messages()] == [3, 200 << 20, 5]


def test_bytes_that_are_no_text_are_counted_wherever_they_are(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one")
    with a.path.open("ab") as file:
        file.write(json.dumps(a.entry(user("caf?"))).encode().replace(b"caf?", "café".encode("latin-1")) + b"\n")
    a.says(user("three"))
    odd = Path(os.fsdecode(os.fsencode(sessions) + b"/\xff\xfe.jsonl"))
    os.rename(a.path, odd)
    row = one(lcm, sessions, apply=True)
    assert (row.messages, row.skipped) == (2, {"malformed": 1})
    assert one(lcm, sessions, apply=True).status == "up-to-date"


def test_the_order_of_the_file_counts_whatever_the_clock_says(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a")
    a.write([a.entry(user(text), at=at) for text, at in [("first", 9_000_000), ("second", 5), ("third", -80_000)]])
    lcm.import_(sessions, apply=True)
    assert texts(lcm, "openclaw:a") == ["first", "second", "third"]


def test_an_id_that_is_used_twice_costs_no_message_and_is_told(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one")
    a.write(
        [
            a.entry(user("two")),
            a.entry(assistant("no, I am two"), id="a-2"),
            a.entry(user("two, said better"), id="a-2"),
        ]
    )
    row = one(lcm, sessions, apply=True)
    assert texts(lcm, "openclaw:a") == ["one", "two", "no, I am two"]
    assert any("and another text; both are kept" in note for note in row.notes)
    assert any("ids of their own" in note for note in row.notes)


def test_heartbeats_are_stored_out_of_the_context_and_unknown_types_are_counted(lcm: Lossless, sessions: Path) -> None:
    a = session(sessions, "a", "one")
    a.says(user("[OpenClaw heartbeat poll]"), assistant("HEARTBEAT_OK"))
    a.write([{"type": "future", "id": "f1", "parentId": a.leaf}])
    for apply in (False, True):
        row = one(lcm, sessions, apply=apply)
        assert (row.messages, row.outside, row.skipped) == (3, 2, {"type future": 1})
    assert texts(lcm, "openclaw:a") == ["one", "[OpenClaw heartbeat poll]", "HEARTBEAT_OK"]


@pytest.mark.slow
def test_a_directory_of_many_files_is_looked_through_at_once(sessions: Path, tmp_path: Path) -> None:
    count = 10_000 if os.environ.get("LCM_TEST_PROFILE") == "slow" else 1_000
    for number in range(count):
        written.put(
            sessions / f"{number % 100}" / f"{number}.jsonl",
            written.pi_session(id=f"s{number}"),
            written.pi("e", None, "hi"),
        )
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        assert lcm.import_(sessions, apply=True).messages == count
        assert {each.status for each in lcm.import_(sessions).sources} == {"up-to-date"}


# following


class Clock:
    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watched(database: str, sessions: Path, clock: Clock) -> Iterator[tuple[Lossless, Watch]]:
    with Lossless.open(database, clock=clock) as lcm:
        yield lcm, lcm.watch(sessions)


def test_what_is_written_is_read_as_it_comes(watched: tuple[Lossless, Watch], sessions: Path, clock: Clock) -> None:
    lcm, watch = watched
    a = session(sessions, "a", "one")
    assert [row.messages for row in watch.step()] == [1]
    assert list(watch.step()) == []
    a.says(user("two"), assistant("three"))
    assert [row.messages for row in watch.step()] == [2]
    session(sessions, "b", "new here")
    assert list(watch.step()) == [], "new files are looked for now and then"
    clock.now += SCAN_INTERVAL
    assert [row.key for row in watch.step()] == ["openclaw:b"]
    a.path.unlink()
    assert list(watch.step()) == []
    assert texts(lcm, "openclaw:a") == ["one", "two", "three"]


def test_what_was_read_before_is_not_read_by_a_new_watch(
    watched: tuple[Lossless, Watch], sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lcm, _ = watched
    session(sessions, "a", "one")
    lcm.import_(sessions, apply=True)
    monkeypatch.setattr("builtins.open", _refused)
    assert list(lcm.watch(sessions).step()) == []


def test_a_file_that_fails_is_told_once_and_tried_again(
    watched: tuple[Lossless, Watch], sessions: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, watch = watched
    session(sessions, "a", "one")
    with monkeypatch.context() as patch:
        patch.setattr(
            "lossless.transcripts.recognise_program.open", _failing(OSError(5, "Input/output error")), raising=False
        )
        assert [(row.status, "Input/output" in row.reason) for row in watch.step()] == [("error", True)]
        for _ in range(5):
            clock.now += 60
            assert list(watch.step()) == []
    assert list(watch.step()) == [], "it rests"
    clock.now += 60
    assert [row.status for row in watch.step()] == ["imported"]


def test_a_database_that_fails_is_told_once_for_all_files(
    watched: tuple[Lossless, Watch], sessions: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lcm, watch = watched
    for name in "abc":
        session(sessions, name, "hi")
    busy = StoreBusy("Another process holds it.")
    with monkeypatch.context() as patch:
        patch.setattr(lcm._store, "transaction", _failing(busy))
        assert [row.reason for row in watch.step()] == ["Another process holds it."]
        clock.now += 1
        assert list(watch.step()) == []
    clock.now += 2
    assert [row.status for row in watch.step()] == ["imported"] * 3


def _failing(error: Exception) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> None:
        raise error

    return fails


def test_the_end_of_a_file_that_nobody_goes_on_with_is_read_after_a_minute(
    watched: tuple[Lossless, Watch], sessions: Path, clock: Clock
) -> None:
    lcm, watch = watched
    path = written.put(
        sessions / "x.jsonl",
        written.prompt("u1", None, "hello"),
        written.reply("u2", "u1", "msg_1", written.text("I was saying"), stop=None),
    )
    os.utime(path, (clock.now, clock.now))
    assert [row.messages for row in watch.step()] == [1]
    clock.now += 30
    assert list(watch.step()) == []
    clock.now += 31
    assert [row.messages for row in watch.step()] == [1]
    assert texts(lcm, f"claude-code:{written.SESSION}") == ["hello", "I was saying"]
