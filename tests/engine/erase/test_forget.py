"""What was forgotten is nowhere: not in a row, an index, a page, a log, a file or an export, and nobody brings it back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from click.testing import CliRunner
from msgspec import structs

from lossless import AsyncLossless, Conversation, Lossless, Message, Settings, Text
from lossless.cli import cli
from lossless.engine.doctor.checks import CHECKS
from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault
from lossless.engine.shared.promise import promise_violations
from lossless.errors import InvalidInput, NotFound, StoreReadOnly
from lossless.model import Forgotten, StoredMessage, SummaryRequest, ToolCall
from lossless.store.sqlite.store import SQLiteStore
from lossless.store.store import Store
from lossless.tools import tools
from tests.engine.compaction.test_compaction import SMALL, WINDOW, assert_promise, expanded, short, turns

RAW, DEEP, LARGE = "zyzzyvaplum", "quixotrywharf", "jabberwockfjord"
WORDS = (RAW, DEEP, LARGE)


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Payloads of a server's database are kept in the test's own directory, too."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def opened(
    database: str, tmp_path: Path, *, model: Callable[[SummaryRequest], str] | None = None, **changes: object
) -> Lossless:
    settings = structs.replace(SMALL, large_file_token_threshold=1_000, **changes)
    return Lossless.open(database, settings=settings, summarizer=model or short)


def telling(request: SummaryRequest) -> str:
    """A summary that carries everything odd along, also from the summaries before it."""
    told = f"{request.previous or ''} {request.source}"
    return f"{short(request)} {' '.join(word for word in WORDS if word in told)}"


def large(word: str) -> str:
    return "\n".join(f"line {n} of a long log, nothing to see" for n in range(300)) + f"\n{word} at the end"


def history() -> list[Message]:
    """A long conversation: one odd word deep below summaries, one in a large file, one at the end."""
    said = turns(200)
    said[3] = Message.user(f"The deep word is {DEEP}. " + "And some more to say about it. " * 6, event_id="deep")
    said[9] = Message.tool(large(LARGE), call_id="c9", event_id="large")
    said[8] = Message("assistant", (ToolCall("c9", "logs", "{}"),), event_id="call")
    said.append(Message.user(f"The raw word is {RAW}.", event_id="raw"))
    said.append(Message.assistant("Noted.", event_id="noted"))
    return said


def grown(lcm: Lossless, key: str = "k") -> Conversation:
    chat = lcm.conversation(key)
    chat.ingest(history())
    chat.compact(WINDOW)
    assert {summary.depth for summary in chat.summaries()} >= {0, 1}
    return chat


def named(chat: Conversation, event_id: str) -> StoredMessage:
    return next(each for each in chat.messages() if each.event_id == event_id)


def raw_bytes(tmp_path: Path, database: str) -> Iterator[tuple[str, bytes]]:
    """Everything on disk, and on a server every row of every table."""
    for path in tmp_path.rglob("*"):
        if path.is_file():
            yield path.name, path.read_bytes()
    if database.startswith("postgresql"):
        with psycopg.connect(database, autocommit=True) as connection:
            for schema, table in connection.execute(
                "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'lossless%'"
            ).fetchall():
                rows = connection.execute(f"SELECT t::text FROM {schema}.{table} t".encode()).fetchall()
                yield f"{schema}.{table}", "\n".join(row[0] for row in rows).encode()
            yield from server_files(connection)


def server_files(connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[tuple[str, bytes]]:
    """The pages of a database that is on this machine: dead rows, indexes and samples of the planner included."""
    connection.execute("CHECKPOINT")
    found = connection.execute(
        "SELECT current_setting('data_directory'), oid FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert found is not None
    for path in Path(found[0], "base", str(found[1])).glob("*"):
        with suppress(FileNotFoundError, PermissionError):  # the server's own comings and goings
            yield f"page of {path.name}", path.read_bytes()


def assert_nowhere(tmp_path: Path, database: str, *words: str) -> None:
    for name, data in raw_bytes(tmp_path, database):
        for word in words:
            # An index keeps words without the letters they share with the one before.
            assert word[3:].encode() not in data, (word, name)


def forget_all(chat: Conversation) -> list[Forgotten]:
    return [chat.forget(named(chat, event_id).id, apply=True) for event_id in ("raw", "deep", "large")]


def test_three_forgotten_words_are_nowhere_and_the_rest_is_untouched(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        gone = {"raw", "deep", "large"}
        before = {each.seq: each for each in chat.messages() if each.event_id not in gone}
        assert len(list(lcm._files.root.rglob("*/*"))) == 1
        assert any(RAW[3:].encode() in data for _, data in raw_bytes(tmp_path, database))
        done = forget_all(chat)
        assert [each.messages for each in done] == [1, 1, 1]
        assert all(each.applied and each.complete and not each.left and each.sought for each in done)
        assert done[1].summaries
        assert len(done[2].files) == 1
        row = chat.status()
        assert promise_violations(lcm._store, row.id) == []
        assert_promise(chat)
        assert {each.seq: each for each in chat.messages() if each.seq in before} == before
        assert [each.outside for each in chat.messages() if each.seq not in before] == ["forgotten"] * 3
        for word in WORDS:
            assert not chat.grep(word)
            assert not chat.grep(word, scope="files")
            assert not chat.grep(word, mode="full_text")
            assert word not in chat.assemble(WINDOW).messages[0].text
        lcm.export(tmp_path / "after.zip")
    assert_nowhere(tmp_path, database, *WORDS)
    assert not list(lcm._files.root.rglob("*/*"))
    with opened(database, tmp_path) as lcm:
        assert lcm._store.damage() == []
        assert lcm._store.check_search() == []


def test_what_a_later_summary_was_told_of_it_goes_too(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path, model=telling) as lcm:
        chat = grown(lcm)
        telling_of = [each.id for each in chat.summaries() if DEEP in each.text]
        assert len(telling_of) > 2
        done = chat.forget(named(chat, "deep").id, apply=True)
        assert set(telling_of) <= {*done.summaries, *done.gone}
        assert not chat.grep(DEEP)
        assert_promise(chat)
    assert_nowhere(tmp_path, database, DEEP)


def test_summaries_made_anew_are_provisional_and_their_revisions_gone(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        done = chat.forget(named(chat, "deep").id, apply=True)
        anew = {each.id: each for each in chat.summaries() if each.id in done.summaries}
        assert 2 <= len(anew) < 5  # its leaf and what was made from it, and nothing that has no word of it
        assert {each.level for each in anew.values()} <= {"extractive", "cut"}
        assert all(each.revision == 2 and each.model == "extractive" for each in anew.values())
        store, row = lcm._store, chat.status()
        ids = [each.id for each in store.summaries.read(row.id)]
        assert store.summaries.revisions(row.id, ids) == {}
        lcm.drain()  # a model is there, and makes them anew from what is left
        assert {each.level for each in chat.summaries() if each.id in anew} <= {"normal", "aggressive"}
        assert not chat.grep(DEEP)


def test_a_plan_says_what_would_go_and_changes_nothing(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        before = chat.messages(), chat.summaries(), chat.context()
        told = chat.forget(f"msg#{named(chat, 'large').id}")
        assert (told.messages, told.applied, len(told.files)) == (1, False, 1)
        assert told.summaries
        assert told.beyond
        assert (chat.messages(), chat.summaries(), chat.context()) == before
    with Lossless.open(database, settings=lcm.settings, read_only=True) as reading:
        chat = reading.conversation("k")
        assert chat.forget(named(chat, "large").id) == told
        with pytest.raises(StoreReadOnly):
            chat.forget(named(chat, "large").id, apply=True)


def test_a_stretch_of_messages_goes_together(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        first, last = chat.messages()[0], chat.messages()[39]
        done = chat.forget(first.id, until=f"msg#{last.id}", apply=True)
        assert done.messages == 40
        assert done.gone  # leaves of which nothing is left
        assert [each.seq for each in chat.messages() if each.outside == "forgotten"] == list(range(1, 41))
        assert_promise(chat)
        assert promise_violations(lcm._store, chat.status().id) == []
        assert expanded(chat) == list(range(41, 403))
        with pytest.raises(NotFound):
            chat.forget("msg#9000000001")
        with pytest.raises(InvalidInput, match="not a message id"):
            chat.forget("some words")
        with pytest.raises(InvalidInput, match="not a range"):
            chat.forget(last.id, until=first.id)


def test_a_whole_conversation_goes_with_those_before_it_under_its_key(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        chat.pin(f"Always: {RAW}")
        chat.reset()
        chat.ingest([Message.user(f"Again {RAW}, and {DEEP}.", event_id="again")])
        other = lcm.conversation("other")
        other.ingest([Message.user("Something else altogether.", event_id="other")])
        assert lcm.forget("k").messages == 403
        done = lcm.forget("k", apply=True)
        assert (done.messages, done.pins, len(done.files), done.summaries) == (403, 1, 1, ())
        assert not lcm.grep("word")
        assert [each.text for each in chat.messages()] == [""]
        assert chat.summaries() == []
        for row in lcm._store.conversations.under_key("k"):
            assert promise_violations(lcm._store, row.id) == []
        assert other.messages()[0].text == "Something else altogether."
        with pytest.raises(NotFound):
            lcm.forget("nobody")
    assert_nowhere(tmp_path, database, *WORDS)


def test_sending_it_again_does_not_bring_it_back(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        forget_all(chat)
        again = chat.ingest(history())
        assert (again.stored, again.copies, again.collisions) == ((), 0, 0)
        others = [
            Message.user(f"Another text: {RAW}!", event_id="raw"),
            Message.tool(large(LARGE + " once more"), call_id="c9", event_id="large"),
        ]
        again = chat.ingest(others)
        assert (again.stored, again.known, again.copies) == ((), 2, 0)
        # Another speaker under the same id is another message, as ever.
        assert len(chat.ingest([Message.assistant("Who?", event_id="raw")]).stored) == 1
    assert_nowhere(tmp_path, database, *WORDS)


def test_a_host_that_sends_everything_each_time_does_not_bring_it_back(database: str, tmp_path: Path) -> None:
    said = [structs.replace(each, event_id=None) for each in turns(6)]
    said[4] = Message.user(f"Nobody should know of {RAW}.")
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(said, whole=True)
        chat.forget(chat.messages()[4].id, apply=True)
        more = [*said, Message.user("And on it goes.")]
        assert chat.ingest(more, whole=True).stored == (13,)
        assert chat.ingest(more[:-1], whole=True).stored == ()
    assert_nowhere(tmp_path, database, RAW)


def test_pins_of_every_session_of_the_key_go_with_the_words_they_quote(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("First plumbago"), Message.user("Answer in French.")])
        chat.pin("Be brief.")
        said = chat.messages()[0].id
        chat.reset()
        chat.ingest([Message.user("Something else"), Message.user("And more")])
        chat.pin("plumbago")
        chat.pin(chat.messages()[0].id)  # the same place in another session
        elsewhere = lcm.conversation("other")
        elsewhere.ingest([Message.user("Hello")])
        elsewhere.pin("plumbago")
        assert chat.forget(said).pins == 1
        done = chat.forget(said, apply=True)
        assert done.pins == 1
        assert [pin.text for pin in chat.pins()] == ["Be brief.", "Something else"]
        assert len(elsewhere.pins()) == 1
        assert lcm.forget("k", apply=True).pins == 2
        assert chat.pins() == []


def test_copies_pins_vectors_and_what_left_the_context_go_with_it(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path, semantic=True) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"First {RAW}", event_id="a"), Message.assistant("Yes.", event_id="b")])
        chat.ingest([Message.user(f"Second {RAW} in another dress", event_id="a")])
        chat.pin(chat.messages()[0].id)
        chat.pin(RAW)
        lcm.drain()
        chat.assemble(WINDOW)
        chat.new(9)
        done = chat.forget(chat.messages()[0].id, apply=True)
        assert (done.other_texts, done.pins, done.vectors) == (1, 2, 1)
        assert chat.pins() == []
        assert len(chat.detached()) == 1
        assert promise_violations(lcm._store, chat.status().id) == []
        chat.context(at=1)
    assert_nowhere(tmp_path, database, RAW)


def test_bytes_that_somebody_else_refers_to_stay_and_are_told(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        for key in ("a", "b"):
            lcm.conversation(key).ingest([Message.tool(large(LARGE), call_id="c", event_id="x")])
        chat = lcm.conversation("a")
        done = chat.forget(chat.messages()[0].id, apply=True)
        assert len(done.files) == 1
        assert done.elsewhere
        assert done.left == 0
        other = lcm.conversation("b")
        assert LARGE in other.messages()[0].text
        assert other.forget(other.messages()[0].id, apply=True).elsewhere == ()
    assert_nowhere(tmp_path, database, LARGE)


def test_payloads_that_another_database_may_need_stay_until_somebody_knows_better(
    database: str, tmp_path: Path
) -> None:
    with opened(database, tmp_path, large_files_dir=str(tmp_path / "shared")) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.tool(large(LARGE), call_id="c", event_id="x")])
        (path,) = (each for each in (tmp_path / "shared").rglob("*") if each.is_file())
        message = chat.messages()[0].id
        for done in (chat.forget(message), chat.forget(message, apply=True), chat.forget(message, apply=True)):
            assert f"{path}, which therefore stays" in done.beyond[-1]
            assert "--unshared" in done.beyond[-1]
            assert path.exists()
        done = chat.forget(message, apply=True, unshared=True)
        assert "it stays" not in done.beyond[-1]
    assert_nowhere(tmp_path, database, LARGE)


def test_in_memory_nothing_is_shared() -> None:
    with opened(":memory:", Path()) as lcm:
        lcm.conversation("k").ingest([Message.tool(large(LARGE), call_id="c", event_id="x")])
        assert "it stays" not in lcm.forget("k", apply=True).beyond[-1]
        assert not [each for each in lcm._files.root.rglob("*") if each.is_file()]


def test_the_same_words_of_somebody_else_stay_and_are_told(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"I say {RAW}", event_id="a"), Message.assistant(f"You say {RAW}", event_id="b")])
        done = chat.forget(chat.messages()[0].id, apply=True)
        assert f"msg#{chat.messages()[1].id}" in done.elsewhere
        assert done.left == 0
        assert chat.messages()[1].text == f"You say {RAW}"


def test_what_a_transplant_copied_goes_along(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        lcm.conversation("target").ingest([Message.user("Here.", event_id="here")])
        lcm.transplant("k", "target", apply=True)
        done = chat.forget(named(chat, "deep").id, apply=True)
        assert (done.messages, done.copied) == (2, 1)
        assert not lcm.grep(DEEP)
        target = lcm.conversation("target")
        assert promise_violations(lcm._store, target.status().id) == []
    with opened(database, tmp_path) as lcm:
        copied = lcm.conversation("target").messages()[5]
        assert "copied into target" in " ".join(lcm.conversation("target").forget(copied.id).beyond)
    assert_nowhere(tmp_path, database, DEEP)


def test_copies_that_were_kept_are_named_and_removed_when_asked(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"I say {RAW}", event_id="a"), Message.user(f"And {DEEP}", event_id="b")])
        with lcm._store.transaction():
            lcm._store.keep_copy_before(99)  # type: ignore[attr-defined]  # as a migration does
        first, second = (each.id for each in chat.messages())
        named_copies = chat.forget(first, apply=True).backups
        assert len(named_copies) == 1
        assert "99" in named_copies[0]
        assert chat.forget(second, apply=True, backups=True).backups == ()
    assert_nowhere(tmp_path, database, RAW, DEEP)


def test_others_read_meanwhile(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        with subprocess.Popen(
            [sys.executable, "-c", _READER, database], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdout is not None
            assert reader.stdin is not None
            assert reader.stdout.readline() == "402\n"
            done = forget_all(chat)
            told = reader.communicate("\n", timeout=60)[0]
            assert reader.returncode == 0
        assert all(each.complete and not each.left for each in done)
        assert told.split() == ["402", "0"]
        assert_nowhere(tmp_path, database, *WORDS)


_READER = f"""
import sys
from lossless import Lossless
with Lossless.open(sys.argv[1], read_only=True) as lcm:
    chat = lcm.conversation("k")
    print(len(chat.messages()), flush=True)
    sys.stdin.readline()
    print(len(chat.messages()), len(chat.grep({DEEP!r})), flush=True)
"""


def test_an_old_snapshot_keeps_bytes_alive_and_the_next_time_completes_it(tmp_path: Path) -> None:
    database = str(tmp_path / "lcm.db")
    with opened(database, tmp_path) as lcm, opened(database, tmp_path) as other:
        chat = grown(lcm)
        raw = named(chat, "raw").id
        assert isinstance(lcm._store, SQLiteStore)
        lcm._store._writer.set_busy_timeout(50)  # nobody has to wait for that reader here
        with other._store.snapshot():
            other._store.tables.count("message")
            assert not chat.forget(raw, apply=True).complete
        assert chat.forget(raw, apply=True).complete
    assert_nowhere(tmp_path, database, RAW)


def test_an_old_snapshot_on_a_server_does_too(emptied: Callable[[], str], tmp_path: Path) -> None:
    database = emptied()
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        raw = named(chat, "raw").id
        with psycopg.connect(database) as reading:
            reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reading.execute("SELECT 1")
            assert not chat.forget(raw, apply=True).complete
        assert chat.forget(raw, apply=True).complete
    assert_nowhere(tmp_path, database, RAW)


@pytest.mark.parametrize("moment", ["context.bury", "state.set_guard", "remove", "scrub"])
def test_killed_in_the_middle_it_is_completed_the_next_time(database: str, tmp_path: Path, moment: str) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        large_id = named(chat, "large").id
    environment = {
        **os.environ,
        "LCM_LARGE_FILE_TOKEN_THRESHOLD": "1000",
    }
    dead = subprocess.run(
        [sys.executable, "-c", _KILLED, database, str(large_id), moment],
        env=environment,
        check=False,
        capture_output=True,
    )
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        assert promise_violations(lcm._store, chat.status().id) == []
        done = chat.forget(large_id, apply=True)
        assert done.complete
        assert not chat.grep(LARGE)
        assert_promise(chat)
        assert not list(lcm._files.root.rglob("*/*"))
    assert_nowhere(tmp_path, database, LARGE)


_KILLED = """
import os, signal, sys
from lossless import Lossless
from lossless.engine.shared.file_store import Files

database, message, moment = sys.argv[1:]
with Lossless.open(database) as lcm:
    def die(*arguments, **options):
        os.kill(os.getpid(), signal.SIGKILL)
    if moment == "remove":
        Files.remove = die
    else:
        section, _, verb = moment.rpartition(".")
        setattr(getattr(lcm._store, section) if section else lcm._store, verb, die)
    lcm.conversation("k").forget(int(message), apply=True)
"""


def test_the_command_shows_first_and_does_it_when_told(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_LARGE_FILES_DIR", str(tmp_path / "files"))
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        first = named(chat, "deep").id
    run = CliRunner().invoke

    def lcm_forget(*arguments: str) -> str:
        done = run(cli, ["forget", "k", *arguments, "--db", database])
        assert done.exception is None, done.output
        return done.output

    told = lcm_forget(f"msg#{first}..msg#{first + 1}")
    assert told.startswith("would forget: 2 messages of k\n")
    assert told.endswith("Dry run: nothing was changed. --apply applies it. It cannot be undone.\n")
    assert lcm_forget(f"msg#{first}", "--apply").startswith("forgotten: 1 message of k\n")
    assert '"messages": 401' in lcm_forget("--all", "--json")
    assert run(cli, ["forget", "k", "--db", database]).exit_code == 2
    assert run(cli, ["forget", "k", "msg#1", "--all", "--db", database]).exit_code == 2
    assert_nowhere(tmp_path, database, DEEP)


def test_the_verbs_can_be_awaited(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncLossless.open(tmp_path / "lcm.db", settings=Settings()) as lcm:
            chat = lcm.conversation("k")
            await chat.ingest([Message.user(RAW, event_id="a"), Message("user", (Text(DEEP),), event_id="b")])
            done = await chat.forget((await chat.messages())[0].id, apply=True)
            assert done.messages == 1
            assert (await lcm.forget("k", apply=True)).messages == 1

    anyio.run(story)
    assert_nowhere(tmp_path, "", RAW, DEEP)


def test_forgetting_ends_in_time(tmp_path: Path) -> None:
    with opened(str(tmp_path / "lcm.db"), tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(turns(2_000))
        started = time.perf_counter()
        chat.forget(chat.messages()[0].id, until=chat.messages()[1_999].id, apply=True)
        assert time.perf_counter() - started < 30


def test_a_word_of_the_tables_own_is_no_false_alarm(tmp_path: Path) -> None:
    with opened(str(tmp_path / "lcm.db"), tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user("Does anything of the conversation continue?", event_id="a")])
        done = lcm.forget("k", apply=True)
    assert (done.left, done.elsewhere) == (0, ())


class Meanwhile:
    """A model that is still writing, from what it was shown, when the deep word is forgotten by somebody else."""

    def __init__(self, database: str, tmp_path: Path) -> None:
        self._database, self._tmp_path = database, tmp_path
        self.message = 0
        self.armed = False
        self.came = 0

    def __call__(self, request: SummaryRequest) -> str:
        written = telling(request)
        if self.armed and DEEP in (request.previous or "") and DEEP not in request.source:
            self.armed, self.came = False, self.came + 1
            with opened(self._database, self._tmp_path) as other:
                assert other.conversation("k").forget(self.message, apply=True).applied
        return written


def assert_gone(lcm: Lossless, chat: Conversation, database: str, tmp_path: Path) -> None:
    assert not chat.grep(DEEP)
    assert not [each.id for each in chat.summaries() if DEEP in each.text]
    assert promise_violations(lcm._store, chat.status().id) == []
    assert_promise(chat)
    assert not lcm._store.erase.holding([DEEP])


def test_a_summary_whose_previous_context_was_forgotten_while_it_was_written_is_refused(
    database: str, tmp_path: Path
) -> None:
    slow = Meanwhile(database, tmp_path)
    with opened(database, tmp_path, model=slow) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(history())
        slow.message, slow.armed = named(chat, "deep").id, True
        assert chat.compact(WINDOW).stop == "moved"
        assert slow.came == 1
        chat.compact(WINDOW)
        assert_gone(lcm, chat, database, tmp_path)


@pytest.mark.parametrize("verb", ["rewrite", "repair", "drain"])
def test_a_text_made_anew_from_forgotten_previous_context_is_refused(database: str, tmp_path: Path, verb: str) -> None:
    slow = Meanwhile(database, tmp_path)
    with opened(database, tmp_path, model=slow) as lcm:
        chat = grown(lcm)
        slow.message = named(chat, "deep").id
        if verb != "rewrite":  # as if no model had been there for those that follow
            store = lcm._store
            assert isinstance(store, Store)
            with store.transaction():
                for each in [row.id for row in store.summaries.read(chat.status().id) if not row.depth][1:4]:
                    store.run("UPDATE summary SET level = 'extractive', model = 'extractive' WHERE id = :id", id=each)
        slow.armed = True
        match verb:
            case "drain":
                lcm.drain()
            case "repair":
                chat.repair(apply=True)
            case _:
                chat.rewrite(all=True, apply=True)
        assert slow.came == 1
        assert_gone(lcm, chat, database, tmp_path)


def test_a_word_that_others_use_too_is_no_trace_of_what_was_forgotten(database: str, tmp_path: Path) -> None:
    common = "Please write about question words when this comes round again tomorrow."

    def chatty(request: SummaryRequest) -> str:
        return f"{short(request)} They write and come round again about words."

    with opened(database, tmp_path, model=chatty) as lcm:
        chat = lcm.conversation("k")
        said = turns(120)
        said[3] = Message.user(f"{common} {DEEP}", event_id="deep")
        said[150] = Message.user("Somebody else would write: come round again tomorrow, please.", event_id="other")
        chat.ingest(said)
        chat.compact(WINDOW)
        done = chat.forget(named(chat, "deep").id, apply=True)
        assert len(done.summaries) <= 1 + max(each.depth for each in chat.summaries())
        assert len([each for each in chat.summaries() if each.model != "extractive"]) > 10


def test_the_receipt_is_the_same_on_both_databases_and_whatever_the_punctuation(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(
            [
                Message.user('Is it "jabberwock!!", (quixotry), or zyzzyva?!', event_id="a"),
                Message.assistant("I see: jabberwock, quixotry - and zyzzyva.", event_id="b"),
                Message("assistant", (ToolCall("c1", "look", '{"at": "jabberwock"}'),), event_id="c"),
            ]
        )
        other, call = (each.id for each in chat.messages()[1:3])
        done = chat.forget(chat.messages()[0].id, apply=True)
        assert (done.sought, done.left, done.complete) == (4, 0, True)
        assert set(done.elsewhere) == {f"msg#{other}", f"msg#{call}"}


def test_the_ledger_of_grants_forgets_what_was_searched_for(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(f"The word is {RAW}.", event_id="a"), Message.user("Another.", event_id="b")])
        grant = chat.grant(max_tokens=5_000)
        kit = tools(chat, grant)
        kit.call("lcm_grep", {"pattern": RAW})
        kit.call("lcm_describe", {"id": f"msg#{chat.messages()[1].id}"})
        assert any(RAW in read.what for read in lcm._store.grants.reads(grant))
        done = chat.forget(chat.messages()[0].id, apply=True)
        reads = lcm._store.grants.reads(grant)
        assert not any(RAW in read.what for read in reads)
        assert [read.verb for read in reads] == ["lcm_grep", "lcm_describe"]
        assert reads[1].what.endswith(str(chat.messages()[1].id))
        assert done.elsewhere == ()
    assert_nowhere(tmp_path, database, RAW)


def test_hosts_write_while_summaries_are_rewritten(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lossless.summarizers import extractive

    rewritten, summarize = 0, extractive.summarize
    with opened(database, tmp_path) as lcm, opened(database, tmp_path) as host:
        chat = grown(lcm)
        if isinstance(host._store, SQLiteStore):
            host._store._writer.set_busy_timeout(0)  # whoever held the database now would be refused

        def meanwhile(request: SummaryRequest) -> str:
            nonlocal rewritten
            rewritten += 1
            host.conversation("k").ingest([Message.user(f"Meanwhile {rewritten}", event_id=f"m{rewritten}")])
            return summarize(request)

        monkeypatch.setattr(extractive, "summarize", meanwhile)
        done = chat.forget(named(chat, "deep").id, apply=True)
        assert done.complete
        assert rewritten >= 2
        assert len([each for each in chat.messages() if each.text.startswith("Meanwhile")]) == rewritten
        assert promise_violations(lcm._store, chat.status().id) == []
        assert_promise(chat)
    assert_nowhere(tmp_path, database, DEEP)


def test_nothing_looks_damaged_while_words_are_forgotten(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lossless.summarizers import extractive

    found, summarize = list[list[str]](), extractive.summarize
    with opened(database, tmp_path) as lcm, opened(database, tmp_path) as other:
        chat = grown(lcm)

        def meanwhile(request: SummaryRequest) -> str:
            proofs = [proof.key for proof in other.doctor.prove() if proof.broken or proof.missing]
            found.append([each.text for each in other.doctor().at_least("error")] + proofs)
            return summarize(request)

        monkeypatch.setattr(extractive, "summarize", meanwhile)
        first, last = (chat.messages()[at].id for at in (2, 45))  # whole leaves go, one keeps a part
        done = chat.forget(first, until=last, apply=True)
        assert done.gone
        assert len(found) >= 2
        assert not any(found)
        assert other.doctor().at_least("error") == ()


def test_no_summary_lists_a_file_that_was_forgotten(database: str, tmp_path: Path) -> None:
    with opened(database, tmp_path) as lcm:
        chat = grown(lcm)
        (file,) = chat.files()
        last, store = [each for each in chat.summaries() if each.depth == 0][-1], lcm._store
        assert isinstance(store, Store)
        with store.transaction():  # as one that was made from a text that named it
            store.run("UPDATE summary SET file_ids = :ids WHERE public_id = :id", ids=f'["{file.id}"]', id=last.id)
        done = chat.forget(named(chat, "large").id, apply=True)
        assert done.files == (file.id,)
        assert (done.left, done.elsewhere) == (0, ())
        assert store.all("SELECT file_ids FROM summary WHERE public_id = :id", id=last.id) == [("[]",)]


def test_a_file_that_is_forgotten_while_the_doctor_looks_is_not_called_missing(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, forgotten = CHECKS["F01"], list[Forgotten]()
    with opened(database, tmp_path) as lcm, opened(database, tmp_path) as other:
        chat = grown(lcm)

        def meanwhile(examination: Examination) -> Iterable[Fault]:
            if not forgotten:
                forgotten.append(chat.forget(named(chat, "large").id, apply=True))
            return check.run(examination)

        monkeypatch.setitem(CHECKS, "F01", structs.replace(check, run=meanwhile))
        assert not other.doctor().at_least("error")
        assert forgotten[0].files


def test_a_backup_and_a_forget_at_once_keep_no_host_waiting(emptied: Callable[[], str], tmp_path: Path) -> None:
    database, waited = emptied(), list[float]()
    with opened(database, tmp_path) as lcm, opened(database, tmp_path) as host:
        chat = grown(lcm)
        with psycopg.connect(database) as backup, ThreadPoolExecutor() as pool:
            backup.execute("LOCK TABLE lossless.message IN ACCESS SHARE MODE")  # as pg_dump does, until it is through
            forgetting = pool.submit(chat.forget, named(chat, "raw").id, apply=True)
            while not forgetting.done():
                started = time.perf_counter()
                host.conversation("other").ingest([Message.user(f"Turn {len(waited)}", event_id=f"t{len(waited)}")])
                waited.append(time.perf_counter() - started)
            assert not forgetting.result().complete
        assert max(waited) < 5  # not the 30 seconds of a lock's timeout
        assert chat.forget(named(chat, "raw").id, apply=True).complete
    assert_nowhere(tmp_path, database, RAW)


def test_a_file_too_large_to_be_written_anew_while_others_wait_is_overwritten_piece_by_piece(tmp_path: Path) -> None:
    database = str(tmp_path / "lcm.db")
    with opened(database, tmp_path) as lcm:
        assert isinstance(lcm._store, SQLiteStore)
        lcm._store.most_held = 0
        chat = grown(lcm)
        done = forget_all(chat)
        assert all(each.complete == (not each.left) for each in done)
        assert lcm._store.damage() == []
        assert lcm._store.check_search() == []
        lcm._store.most_held = 60
        assert chat.forget(named(chat, "raw").id, apply=True).complete
    assert_nowhere(tmp_path, database, *WORDS)
