"""What has gone wrong elsewhere, one test each: given X, must Y. The names are those of the incident list.

Decorated, redacted, mirrored and re-appended copies are told apart by event ids, or by `whole` with a
canonicalizer that knows the host's dress. Where neither can tell, both copies are kept.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from lossless import Conversation, File, Lossless, Message, Settings, Text, ToolCall, ToolResult
from lossless.client import Lossless as Client
from lossless.errors import LosslessError
from lossless.events import Event
from lossless.model import instant
from lossless.search import regex
from lossless.store import migrate
from lossless.store.sqlite.store import SQLiteStore


def texts(chat: Conversation) -> list[str]:
    return [message.text for message in chat.messages()]


def seen(chat: Conversation) -> list[str]:
    return [message.text for message in chat.context().messages]


def result(text: str, call_id: str, event_id: str | None = None) -> Message:
    return Message.tool(text, call_id=call_id, name="exec", event_id=event_id)


@pytest.fixture
def told(database: str, tmp_path: Path) -> Iterator[tuple[Client, list[Event]]]:
    events: list[Event] = []
    with Lossless.open(
        database, settings=Settings(large_files_dir=str(tmp_path / "files")), on_event=events.append
    ) as lcm:
        yield lcm, events


TURN = [Message.user("hi", event_id="1"), Message.assistant("hello", event_id="2"), Message.user("hi", event_id="3")]


def test_ic01_a_restart_that_replays_the_whole_history_adds_nothing(chat: Conversation) -> None:
    chat.ingest(TURN)
    assert chat.ingest(TURN).stored == ()
    nameless = [Message.user("hi"), Message.assistant("hello"), Message.user("hi")]
    other = chat._lcm.conversation("without ids")
    other.ingest(nameless, whole=True)
    assert other.ingest(nameless, whole=True).stored == ()


def test_ic02_a_replay_with_new_messages_behind_it_adds_only_those(chat: Conversation) -> None:
    chat.ingest(TURN)
    assert chat.ingest([*TURN, Message.assistant("new", event_id="4")]).stored == (4,)
    assert texts(chat) == ["hi", "hello", "hi", "new"]


def test_ic03_equal_messages_with_different_ids_are_both_kept(chat: Conversation) -> None:
    chat.ingest([Message.user("ok", event_id="a"), Message.user("ok", event_id="b")])
    assert texts(chat) == ["ok", "ok"]


def test_ic04_the_same_id_twice_is_one_before_any_file_is_written(chat: Conversation, tmp_path: Path) -> None:
    image = Message("user", (File("image/png", None, "iVBORw0KGgo="),), event_id="e")
    chat.ingest([image])

    def written() -> set[tuple[int, int]]:
        return {(path.stat().st_ino, path.stat().st_mtime_ns) for path in (tmp_path / "files").rglob("*")}

    there = written()
    assert chat.ingest([image, image]).known == 2
    assert written() == there
    assert len(there) > 1


def test_ic05_equal_empty_results_are_matched_by_their_number(chat: Conversation) -> None:
    loop = [Message.user("go"), result("", "c"), result("", "c"), result("", "c")]
    chat.ingest(loop, whole=True)
    assert chat.ingest([*loop, result("", "c")], whole=True).stored == (5,)


def test_ic06_reading_the_same_file_again_is_a_new_message(chat: Conversation) -> None:
    chat.ingest([result("content", "c1", "e1")])
    assert chat.ingest([result("content", "c2", "e2")]).stored == (2,)


def test_ic07_live_and_transcript_copies_of_one_reply_are_one(chat: Conversation) -> None:
    chat.ingest([Message.assistant("reply", event_id="response-1")])
    assert chat.ingest([Message.assistant("reply", event_id="response-1", at="2026-01-01")]).stored == ()


def test_ic08_reused_tool_ids_lose_no_result(chat: Conversation) -> None:
    chat.ingest([result("first", "exec:101", "e1"), result("second", "exec:101", "e2")])
    chat.ingest([result("third", "exec:101", "e3"), result("first", "exec:101", "e4")])
    assert texts(chat) == ["first", "second", "third", "first"]


def test_ic09_two_messages_under_one_id_are_both_kept_and_told(told: tuple[Client, list[Event]]) -> None:
    lcm, events = told
    chat = lcm.conversation("k")
    chat.ingest([Message.user("a question", event_id="7")])
    assert chat.ingest([result("a result", "c", "7")]).collisions == 1
    assert chat.ingest([result("a result", "c", "7"), Message.user("a question", event_id="7")]).known == 2
    assert texts(chat) == ["a question", "a result"]
    assert [event.name for event in events] == ["ingest.collisions"]


def test_ic10_one_message_with_several_results_is_not_known_by_one_of_them(chat: Conversation) -> None:
    both = Message("tool", (ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"),))))
    one = Message("tool", (ToolResult("a", (Text("1"),)),))
    chat.ingest([one, both], whole=True)
    assert chat.ingest([one, both, both], whole=True).stored == (3,)
    assert [len(m.message.parts) for m in chat.messages()] == [1, 2, 2]


def redact(role: str, text: str) -> str:
    return re.sub(r"sk-\w+", "***", text)


def test_ic11_a_redacted_copy_is_one_with_its_raw_twin(lcm: Lossless) -> None:
    chat = lcm.conversation("k", canonicalize=redact)
    raw = [Message.user("deploy"), Message("assistant", (ToolCall("c", "sh", '{"key":"sk-abc"}'),))]
    chat.ingest(raw, whole=True)
    redacted = [raw[0], Message("assistant", (ToolCall("c", "sh", '{"key":"***"}'),))]
    assert chat.ingest(redacted, whole=True).stored == ()
    other_call = [raw[0], Message("assistant", (ToolCall("d", "sh", '{"key":"***"}'),))]
    assert chat.ingest(other_call, whole=True).stored == (3,)
    by_id = lcm.conversation("by id")
    by_id.ingest([Message.user("my key is sk-abc", event_id="e")])
    assert by_id.ingest([Message.user("my key is ***", event_id="e")]).stored == ()
    assert texts(by_id) == ["my key is sk-abc"]


def test_ic12_two_secrets_that_redact_alike_are_both_kept(lcm: Lossless) -> None:
    chat = lcm.conversation("k", canonicalize=redact)
    chat.ingest([Message.user("sk-one", event_id="1"), Message.user("sk-two", event_id="2")])
    assert texts(chat) == ["sk-one", "sk-two"]
    nameless = lcm.conversation("nameless", canonicalize=redact)
    nameless.ingest([Message.user("sk-one"), Message.user("sk-two")], whole=True)
    assert texts(nameless) == ["sk-one", "sk-two"]


def bare(role: str, text: str) -> str:
    return re.sub(r"^\[\d{2}:\d{2}\] ", "", text) if role == "user" else text


def test_ic13_a_decorated_copy_of_a_stored_turn_is_one_with_it(lcm: Lossless) -> None:
    chat = lcm.conversation("k", canonicalize=bare)
    chat.ingest([Message.user("hello"), Message.assistant("hi")], whole=True)
    assert chat.ingest([Message.user("[12:30] hello"), Message.assistant("hi")], whole=True).stored == ()
    injected = lcm.conversation("injected")
    injected.ingest([Message.user("hello"), Message.assistant("hi")], whole=True)
    again = Message.user("<relevant-memories>you like tea</relevant-memories>\nhello")
    assert injected.ingest([again, Message.assistant("hi")], whole=True).stored == ()
    by_id = lcm.conversation("by id")
    for dress in ("hello", "[12:30] hello", "hello ", "hello\n", "(metadata) hello", "HELLO", "hello!", "«hello»"):
        by_id.ingest([Message.user(dress, event_id="one event")])
    assert texts(by_id) == ["hello"]


def test_ic14_a_different_turn_that_quotes_an_earlier_one_is_kept(lcm: Lossless) -> None:
    chat = lcm.conversation("k", canonicalize=bare)
    chat.ingest([Message.user("hello")], whole=True)
    assert chat.ingest([Message.user("hello"), Message.user("you said:\nhello")], whole=True).stored == (2,)
    assert chat.ingest(
        [Message.user("hello"), Message.user("you said:\nhello"), Message.user("[a] hello")], whole=True
    ).stored == (3,)


def test_ic15_copies_that_differ_in_runs_of_spaces_are_one_where_the_host_says_so(lcm: Lossless) -> None:
    chat = lcm.conversation("k", canonicalize=lambda role, text: re.sub(" +", " ", text))
    chat.ingest([Message.user("a  b")], whole=True)
    assert chat.ingest([Message.user("a b")], whole=True).stored == ()
    assert chat.ingest([Message.user("a\nb")], whole=True).stored == (2,)
    plain = lcm.conversation("plain")
    plain.ingest([Message.user("a  b")], whole=True)
    assert plain.ingest([Message.user("a b")], whole=True).stored == (2,)


def test_ic16_a_delivery_mirror_has_the_id_of_its_original_and_others_are_kept(chat: Conversation) -> None:
    chat.ingest([Message.assistant("done", event_id="r1")])
    assert chat.ingest([Message.assistant("done", event_id="r1")]).stored == ()
    assert chat.ingest([Message.assistant("done", event_id="m1")]).stored == (2,)


def test_ic17_entries_appended_again_are_known_by_the_id_their_reader_gives_them(chat: Conversation) -> None:
    chat.ingest([Message.user("a", event_id="entry-1", at=1.0), Message.user("a", event_id="entry-2", at=2.0)])
    assert chat.ingest([Message.user("a", event_id="entry-1", at=1.0)]).stored == ()
    assert chat.ingest([Message.user("a", event_id="entry-3", at=1.0)]).stored == (3,)


def test_ic18_a_replay_of_large_content_is_known_and_a_second_upload_is_kept(chat: Conversation) -> None:
    upload = "line of a large file\n" * 20_000
    history = [Message.user("here"), Message.user(upload), Message.assistant("thanks")]
    chat.ingest(history, whole=True)
    assert chat.ingest(history, whole=True).stored == ()
    assert chat.ingest([*history, Message.user(upload)], whole=True).stored == (4,)
    assert texts(chat)[3] == upload


def test_ic19_a_batch_that_overlaps_here_and_there_is_stored_whole(chat: Conversation) -> None:
    chat.ingest([Message.user(t) for t in "abc"], whole=True)
    assert len(chat.ingest([Message.user(t) for t in "xby"], whole=True).stored) == 3


def test_ic20_bursts_of_equal_output_are_all_kept_and_rebroadcasts_are_known_by_their_ids(chat: Conversation) -> None:
    burst = [result("tick", f"c{n}", f"e{n}") for n in range(100)]
    assert len(chat.ingest(burst).stored) == 100
    assert chat.ingest(burst).stored == ()
    rebroadcast = [Message.user("same input", event_id="u1")] * 50
    assert chat.ingest(rebroadcast).stored == (101,)


def test_ic21_different_results_in_one_second_do_not_hinder_each_other(chat: Conversation) -> None:
    chat.ingest([Message.tool(f"out {n}", call_id=f"c{n}", at=1_700_000_000.0) for n in range(200)])
    assert len(texts(chat)) == 200


def test_ic22_unknown_roles_are_kept_verbatim_outside_the_context(chat: Conversation) -> None:
    chat.ingest([Message("narrator", (Text("meanwhile"),)), Message("developer", (Text("rules"),)), Message.user("hi")])
    assert [(m.role, m.outside) for m in chat.messages()] == [("narrator", "role"), ("developer", None), ("user", None)]
    assert seen(chat) == ["rules", "hi"]


def test_ic23_errored_empty_replies_are_kept_and_not_shown(chat: Conversation) -> None:
    chat.ingest(
        [
            Message.user("try"),
            Message("assistant", (), stop="error"),
            Message("assistant", (Text(""),), stop="aborted"),
            Message("assistant", (Text("half a"),), stop="aborted"),
            Message("assistant", (ToolCall("c", "n"),), stop="error"),
            Message("assistant", (), stop="stop"),
        ]
    )
    assert [m.outside for m in chat.messages()] == [None, "errored", "errored", None, None, None]


def leaked(message: Message) -> bool:
    return message.role == "assistant" and message.text.startswith("<runtime-context>")


def test_ic24_a_hosts_own_leak_is_skipped_and_a_quote_of_it_is_kept(lcm: Lossless) -> None:
    chat = lcm.conversation("k", skip=leaked)
    leak = Message.assistant("<runtime-context>internals")
    assert chat.ingest([leak]).skipped == 1
    assert list(lcm.conversations()) == []
    chat.ingest([Message.user("what is <runtime-context>?"), leak, Message.user("<runtime-context> it says")])
    assert len(texts(chat)) == 2


def test_ic25_one_message_that_cannot_be_written_costs_no_other(chat: Conversation) -> None:
    chat.ingest([Message.user("before")])
    chat.ingest([Message.user("a"), Message("user", (Text("b", {"x": object()}),)), Message.user("c")])
    assert texts(chat) == ["before", "a", "", "c"]


def test_ic26_a_call_with_nothing_new_is_no_error(chat: Conversation) -> None:
    chat.ingest(TURN)
    assert chat.ingest(TURN).known == 3
    assert chat.ingest([]).known == 0


def test_ic27_a_host_summary_that_quotes_a_message_drops_nothing(chat: Conversation) -> None:
    long = "the deploy key is kept in the vault under ops/deploy"
    chat.ingest([Message.user(f"Summary so far: '{long}'", event_id="s"), Message.user(long, event_id="m")])
    assert len(texts(chat)) == 2


def test_ic28_one_key_created_twice_at_once_is_one_conversation(database: str) -> None:
    gate = threading.Barrier(8)
    ids = []

    def create(number: int) -> None:
        with Lossless.open(database) as lcm:
            gate.wait()
            lcm.conversation("k").ingest([Message.user(str(number), event_id=str(number))])
            ids.append(lcm.conversation("k").status().id)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1
    with Lossless.open(database) as lcm:
        assert sorted(texts(lcm.conversation("k"))) == sorted(str(n) for n in range(8))


@pytest.fixture
def old_database(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    with Lossless.open(path) as lcm:
        lcm.conversation("k").ingest([Message.user("alpha beta", event_id="e1"), Message.user("gamma")])
    return path


DAMAGES = [
    "DROP TABLE search_message",
    "DROP TABLE search_message_data",
    "DROP TABLE search_message_idx",
    "DROP TABLE search_message_config",
    "DROP TABLE search_message_docsize",
    "DROP TABLE search_summary",
    "UPDATE search_message_data SET block = x'00ff00ff' WHERE id = 10",
    "DELETE FROM search_message_data WHERE id = 10",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_ic121_a_broken_search_index_is_made_anew_at_start(old_database: Path, damage: str) -> None:
    connection = apsw.Connection(str(old_database))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute(damage)
    connection.close()
    events: list[Event] = []
    store = SQLiteStore(old_database, on_event=events.append)
    assert [match.seq for match in store.search("beta")] == [1]
    assert store.check_search() == []
    assert store.damage() == []
    assert [event.name for event in events] == ["store.mended"]
    store.close()


def test_ic122_full_text_search_is_part_of_the_sqlite_we_ship() -> None:
    """Not applicable: the SQLite in the apsw wheel always has it."""
    assert "ENABLE_FTS5" in apsw.compile_options


@pytest.mark.parametrize("query", ["数据库 migration", "migration 数据库", "数据库migration"])
def test_ic123_mixed_queries_put_first_what_has_every_part(lcm: Lossless, query: str) -> None:
    chat = lcm.conversation("k")
    chat.ingest(
        [Message.user(t) for t in ("数据库 only", "the migration", "数据库migration done", "数 据 库", "nothing")]
    )
    chat.ingest([Message.user(f"filler number {n}") for n in range(20)])
    hits = [match.seq for match in lcm._store.search(query)]
    assert hits[0] == 3
    assert 5 not in hits
    assert [match.seq for match in lcm._store.search("库m")] in ([], [3])


@pytest.mark.parametrize("query", ["sub-agent", "agent:foo", "NOT", "*", "sub-agent NOT agent:foo *"])
def test_ic124_operators_are_words(lcm: Lossless, query: str) -> None:
    chat = lcm.conversation("k")
    chat.ingest([Message.user("the sub-agent is agent:foo, NOT agent:bar")])
    assert [match.seq for match in lcm._store.search(query)] == ([] if query == "*" else [1])


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*a){12}b", r"(.*)*x\d", r"(\w+\s?)*\d$"])
def test_ic125_evil_patterns_answer_in_bounded_time(pattern: str) -> None:
    import time

    start = time.process_time()
    regex.compile(pattern).search("a" * 5_000 + "!")
    assert time.process_time() - start < 1


def test_ic126_times_without_a_zone_are_utc_and_offsets_count() -> None:
    assert str(instant("2026-03-01 12:00:00")) == "2026-03-01 12:00:00+00:00"
    assert str(instant("2026-03-01T12:00:00Z")) == "2026-03-01 12:00:00+00:00"
    assert str(instant("2026-03-01T12:00:00+05:30")) == "2026-03-01 06:30:00+00:00"


def test_ic127_parallel_starts_migrate_once(old_database: Path, tmp_path: Path) -> None:
    step = tmp_path / "next.sql"
    step.write_text("CREATE TABLE once (x INT); INSERT INTO once VALUES (1)")
    newest = max(migrate.steps("sqlite")) + 1
    scripts = {**migrate.steps("sqlite"), newest: step}
    gate = threading.Barrier(6)
    stores = []

    def start() -> None:
        gate.wait()
        stores.append(SQLiteStore(old_database, scripts=scripts))

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.version() for store in stores] == [newest] * 6
    assert stores[0].all("SELECT count(*) FROM once") == [(1,)]
    for store in stores:
        store.close()


@pytest.mark.parametrize("table", ["item", "event", "search_message", "search_summary"])
def test_ic128_a_missing_derived_table_is_made_anew_from_the_messages(old_database: Path, table: str) -> None:
    connection = apsw.Connection(str(old_database))
    connection.execute(f"DROP TABLE {table}")
    connection.close()
    with Lossless.open(old_database, on_event=lambda event: None) as lcm:
        chat = lcm.conversation("k")
        assert seen(chat) == ["alpha beta", "gamma"]
        assert chat.ingest([Message.user("alpha beta", event_id="e1")]).known == 1
        assert lcm._store.check_search() == []


def test_ic128_a_missing_table_of_messages_is_told_and_not_papered_over(old_database: Path) -> None:
    connection = apsw.Connection(str(old_database))
    connection.execute("DROP TABLE message")
    connection.close()
    with pytest.raises(LosslessError, match="lost its table") as error:
        Lossless.open(old_database)
    assert error.value.code == "STORE_CORRUPT"


def test_ic129_two_profiles_do_not_mix(tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        with Lossless.open(home / "lcm.db") as lcm:
            lcm.conversation("k").ingest([Message.user(home.name), Message("user", (File(None, None, "QUJD"),))])
    for home in homes:
        with Lossless.open(home / "lcm.db") as lcm:
            assert texts(lcm.conversation("k"))[0] == home.name
        assert (home / "lcm-files").is_dir()
