"""What every store must do; each test runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lossless.errors import SchemaTooNew, StoreError, StoreReadOnly, StoreUnavailable
from lossless.store import migrate
from lossless.store.rows.types import SPAN, ConversationRow, FileRow, NewMessage
from lossless.store.store import Store
from tests.conftest import OpenStore

NOW = 1_790_000_000_000_000
VIEWS = [
    "conversations",
    "messages",
    "message_parts",
    "summaries",
    "summary_messages",
    "summary_parents",
    "context_items",
    "large_files",
    "expansion_grants",
]


def row(text: str, *, event_id: str | None = None, outside: str | None = None, parts: str | None = None) -> NewMessage:
    return NewMessage("user", text, parts, None, len(text), text.encode()[:16].ljust(16), None, NOW, event_id, outside)


def fill(store: Store, key: str, *rows: NewMessage) -> int:
    with store.transaction():
        conversation = store.conversations.lock(key, None, NOW)
        store.messages.append(conversation, rows, NOW)
    return conversation.id


def found(store: Store, question: str, **scope: object) -> list[int]:
    return [match.seq for match in store.search(question, **scope)]  # type: ignore[arg-type]  # passed through


def test_a_new_database_is_empty(store: Store) -> None:
    assert store.conversations.of_owner() == []
    assert store.conversations.active("k") is None
    assert store.search("anything") == []
    assert store.damage() == []


def test_rows_come_back_in_order_and_unchanged(store: Store) -> None:
    rows = [row(f"message {n}", event_id=f"e{n}") for n in range(5)]
    conversation = fill(store, "k", *rows)
    read = store.messages.read(conversation)
    assert [each.seq for each in read] == [1, 2, 3, 4, 5]
    assert [(r.text, r.event_id, r.digest, r.created_at, r.at) for r in read] == [
        (r.text, r.event_id, r.digest, r.created_at, r.at) for r in rows
    ]


def test_after_is_exclusive_and_limit_binds(store: Store) -> None:
    conversation = fill(store, "k", *(row(f"m{n}") for n in range(10)))
    assert [r.seq for r in store.messages.read(conversation, after=3, limit=4)] == [4, 5, 6, 7]
    assert store.messages.read(conversation, after=10) == []
    assert store.messages.read(conversation, after=SPAN * 5) == []
    assert [r.seq for r in store.messages.at(conversation, [2, 9, 77])] == [2, 9]


def test_seqs_go_on_where_they_stopped_after_reopening(open_store: OpenStore) -> None:
    first = open_store()
    conversation = fill(first, "k", row("a"), row("b"))
    first.close()
    second = open_store()
    fill(second, "k", row("c"))
    assert [(r.seq, r.text) for r in second.messages.read(conversation)] == [(1, "a"), (2, "b"), (3, "c")]


def test_a_rollback_leaves_no_row_no_item_no_word_and_no_seq(store: Store) -> None:
    conversation = fill(store, "k", row("kept"))
    with pytest.raises(RuntimeError), store.transaction():
        store.messages.append(store.conversations.lock("k", None, NOW), [row("vanished", event_id="e")], NOW)
        raise RuntimeError("after the write")
    assert [r.text for r in store.messages.read(conversation)] == ["kept"]
    assert len(store.context.items(conversation)) == 1
    assert found(store, "vanished") == []
    assert store.messages.known_events(conversation, ["e"]) == {}
    assert store.check_search() == []
    fill(store, "k", row("next"))
    assert [r.seq for r in store.messages.read(conversation)] == [1, 2]


def test_a_transaction_inside_a_transaction_is_the_same_one(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        with store.transaction():
            store.messages.append(store.conversations.lock("k", None, NOW), [row("x")], NOW)
        raise RuntimeError("the outer one fails")
    assert store.conversations.of_owner() == []


def test_known_events_tells_only_of_this_conversation(store: Store) -> None:
    one = fill(store, "one", row("a", event_id="shared"), row("b", event_id="mine"))
    two = fill(store, "two", row("c", event_id="shared"))
    assert {key: event.seq for key, event in store.messages.known_events(one, ["shared", "mine", "other"]).items()} == {
        "shared": 1,
        "mine": 2,
    }
    assert set(store.messages.known_events(two, ["shared", "mine"])) == {"shared"}
    assert store.messages.known_events(one, []) == {}


def test_items_hold_what_is_in_the_context_and_the_conversation_its_sum(store: Store) -> None:
    conversation = fill(store, "k", row("seen"), row("hidden", outside="role"), row("seen too"))
    assert [(i.ordinal, i.summary_id, i.tokens, i.depth) for i in store.context.items(conversation)] == [
        (1, None, 4, -2),
        (3, None, 8, -2),
    ]
    assert [r.text for r in store.context.messages(conversation)] == ["seen", "seen too"]
    assert store.conversations.of_owner()[0].context_tokens == 12


def test_the_same_key_is_one_conversation_and_remembers_its_session(store: Store) -> None:
    with store.transaction():
        first = store.conversations.lock("k", "s1", NOW)
    with store.transaction():
        second = store.conversations.lock("k", "s2", NOW)
    assert first.id == second.id
    assert store.conversations.of_owner()[0].session == "s2"


def test_cursors_are_set_and_replaced_with_their_rows(store: Store) -> None:
    conversation = fill(store, "k", row("a"))
    assert store.state.cursor(conversation, "file") is None
    with store.transaction():
        store.state.set_cursor(conversation, "file", {"offset": 12}, NOW)
    with pytest.raises(RuntimeError), store.transaction():
        store.state.set_cursor(conversation, "file", {"offset": 99}, NOW)
        raise RuntimeError
    assert store.state.cursor(conversation, "file") == {"offset": 12}


def test_a_copy_is_kept_once(store: Store) -> None:
    conversation = fill(store, "k", row("first", event_id="e"))
    with store.transaction():
        assert store.messages.keep_copy(conversation, 1, row("other words"))
        assert not store.messages.keep_copy(conversation, 1, row("other words"))
    assert store.messages.copies(conversation, 1) == [row("other words").digest]


def test_file_rows_belong_to_a_conversation(store: Store) -> None:
    one, two = fill(store, "one", row("a")), fill(store, "two", row("b"))
    file = FileRow("file_1", "ab" * 32, "n.txt", "text/plain", 10, 1, "about it", NOW)
    with store.transaction():
        store.files.add(one, file)
        store.files.add(one, file)
    assert store.files.get(one, "file_1") == file
    assert store.files.get(two, "file_1") is None
    assert store.files.is_used(file.sha256)
    assert not store.files.is_used("cd" * 32)


def test_another_owner_sees_nothing_and_touches_nothing(open_store: OpenStore) -> None:
    mine, theirs = open_store(owner="me"), open_store(owner="them")
    conversation = fill(mine, "k", row("my secret", event_id="e"))
    with mine.transaction():
        mine.files.add(conversation, FileRow("file_1", "ab" * 32, None, None, 1, 1, "s", NOW))
        mine.state.set_cursor(conversation, "c", 1, NOW)
        mine.messages.keep_copy(conversation, 1, row("copy"))
    assert theirs.conversations.of_owner() == []
    assert theirs.conversations.active("k") is None
    assert theirs.messages.read(conversation) == []
    assert theirs.messages.at(conversation, [1]) == []
    assert theirs.context.items(conversation) == []
    assert theirs.context.messages(conversation) == []
    assert theirs.messages.digests(conversation) == []
    assert theirs.messages.known_events(conversation, ["e"]) == {}
    assert theirs.files.get(conversation, "file_1") is None
    assert theirs.state.cursor(conversation, "c") is None
    assert theirs.messages.copies(conversation, 1) == []
    assert theirs.search("secret") == []
    assert theirs.search("secret", conversation_ids=[conversation]) == []
    assert theirs.files.of_conversation(conversation) == []
    assert fill(theirs, "k", row("theirs")) != conversation
    assert [r.text for r in mine.messages.read(conversation)] == ["my secret"]


def test_search_finds_words_by_their_stem_and_ranks_more_terms_first(store: Store) -> None:
    fill(store, "k", row("we connected the database"), row("the weather is fine"), row("connect it"), row("databases"))
    assert set(found(store, "connection")) == {1, 3}
    assert found(store, "connecting databases")[0] == 1
    assert found(store, "nothing like it there")[:1] == [3]


@pytest.mark.parametrize("term", ["数", "数据", "数据库", "の", "サーバ", "한국"])
def test_search_finds_cjk_terms_of_any_length(store: Store, term: str) -> None:
    fill(store, "k", row("昨天我们迁移了数据库。"), row("このサーバーの設定"), row("한국어 문서"), row("plain"))
    hits = found(store, term)
    assert len(hits) == 1
    assert term in store.messages.read(1)[hits[0] - 1].text


def test_search_looks_through_accents(store: Store) -> None:
    fill(store, "k", row("un café crème"), row("naïve résumé"))
    assert found(store, "cafe") == [1]
    assert found(store, "café") == [1]
    assert found(store, "resume") == [2]


def test_a_pasted_page_as_a_question_is_answered_in_time(store: Store) -> None:
    fill(store, "k", row("first words of the page"))
    assert found(store, "first " + " ".join(f"word{n}" for n in range(70_000))) == [1]


def test_search_in_a_phrase_wants_the_words_side_by_side(store: Store) -> None:
    fill(store, "k", row("the red car"), row("car of red paint"), row("数据库迁移"), row("库数据"))
    assert found(store, '"red car"') == [1]
    assert found(store, "数据库") == [3]


@pytest.mark.parametrize(
    "question",
    [
        "what's the plan?",
        'say "hi',
        "(python",
        "foo AND",
        "memory:safe",
        "docker-compose",
        "20.04",
        "NOT",
        "*",
        "-",
        '"',
        "",
        '""',
        "a* OR",
        "NEAR(a b)",
        "{x} : y",
        "c++",
        "\0",
        "\ud800",
        "'; DROP TABLE message; --",
        "%",
        "_",
        "\\",
        "&|!<->:*",
    ],
)
def test_no_question_is_an_error(store: Store, question: str) -> None:
    fill(store, "k", row("the plan is docker-compose on 20.04, memory safe, in python, foo, hi"))
    assert found(store, question) in ([1], [])


def test_punctuation_in_a_term_finds_the_same_punctuation_in_the_text(store: Store) -> None:
    fill(
        store,
        "k",
        row("run docker-compose up"),
        row("ubuntu 20.04 lts"),
        row("edit src/lossless/store.py now"),
        row("other"),
    )
    assert found(store, "docker-compose") == [1]
    assert found(store, "20.04") == [2]
    assert found(store, "src/lossless/store.py") == [3]
    assert found(store, "store") == [3]


def test_search_can_be_kept_to_conversations(store: Store) -> None:
    one, two, three = (fill(store, key, row("needle in here")) for key in ("one", "two", "three"))
    assert {m.conversation_id for m in store.search("needle")} == {one, two, three}
    assert {m.conversation_id for m in store.search("needle", conversation_ids=[one, three])} == {one, three}
    assert store.search("needle", conversation_ids=[]) == []
    assert len(store.search("needle", limit=2)) == 2


def test_a_very_long_text_is_stored_and_found(store: Store) -> None:
    text = " ".join(f"w{n}" for n in range(400_000)) + " veryend"
    conversation = fill(store, "k", row(text), row("x" * 3_000_000))
    assert store.messages.read(conversation)[0].text == text
    assert found(store, "veryend") == [1]
    assert found(store, "w1") == [1]
    assert store.check_search() == []


def test_the_index_is_checked_against_the_messages_and_made_anew(store: Store) -> None:
    fill(store, "k", row("alpha"), row("beta"), row("gamma"))
    assert store.check_search() == []
    with store.transaction():
        key = "rowid" if "sqlite" in type(store).__name__.lower() else "message_id"
        store.run(f"DELETE FROM search_message WHERE {key} = :id", id=SPAN + 2)
    assert found(store, "beta") == []
    assert store.check_search() == ["Words of 1 messages are missing from the index."]
    assert store.rebuild_search() == 3
    assert store.check_search() == []
    assert found(store, "beta") == [2]


def test_the_index_is_checked_while_somebody_writes(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    conversation = fill(store, "k", row("alpha"), row("beta"))
    with other.transaction():
        other.messages.append(other.conversations.lock("k", None, NOW), [row("gamma")], NOW)
        assert store.check_search() == []
        assert store.damage() == []
        assert other.check_search() == []  # with what it has written itself
    assert len(store.messages.read(conversation)) == 3
    assert store.check_search() == []


def test_words_under_a_wrong_message_are_found(store: Store) -> None:
    """The index has as many words as it should, at other places."""
    fill(store, "k", row("alpha"), row("beta"))
    with store.transaction():
        store.run("DELETE FROM search_message")
        store.index([(SPAN + 1, "beta"), (SPAN + 2, "alpha")])
    assert store.check_search() == [
        "Words of 2 messages are missing from the index.",
        "Words of 2 messages are left over in the index.",
    ]


def test_reading_only_never_writes(open_store: OpenStore) -> None:
    conversation = fill(open_store(), "k", row("kept"))
    reader = open_store(read_only=True)
    assert [r.text for r in reader.messages.read(conversation)] == ["kept"]
    assert found(reader, "kept") == [1]
    with pytest.raises(StoreReadOnly), reader.transaction():
        reader.messages.append(reader.conversations.lock("k", None, NOW), [row("no")], NOW)
    with pytest.raises(StoreError):
        reader.all("INSERT INTO conversation (owner, key, created_at, updated_at) VALUES ('a', 'b', 1, 1)")
    assert len(reader.messages.read(conversation)) == 1


def test_reading_only_what_is_not_there_creates_nothing(open_store: OpenStore) -> None:
    with pytest.raises(StoreUnavailable):
        open_store(read_only=True)


def test_a_newer_schema_is_refused_and_left_alone(open_store: OpenStore) -> None:
    store = open_store()
    fill(store, "k", row("kept"))
    with store.transaction():
        store.set_version(99)  # type: ignore[attr-defined]  # both dialects have it
    store.close()
    for read_only in (False, True):
        with pytest.raises(SchemaTooNew, match="99"):
            open_store(read_only=read_only)


def today(database: str) -> dict[int, Path]:
    return migrate.steps("postgres" if database.startswith("postgresql") else "sqlite")


def later(tmp_path: Path, database: str, sql: str) -> dict[int, Path]:
    """The migrations of today and one of tomorrow."""
    step = tmp_path / "later.sql"
    step.write_text(sql)
    return {**today(database), max(today(database)) + 1: step}


def test_a_database_of_any_earlier_schema_is_brought_to_today(open_store: OpenStore, database: str) -> None:
    scripts = today(database)
    old = open_store(scripts={1: scripts[1]})
    with old.transaction():  # by hand: today's verbs write today's columns
        old.run(
            "INSERT INTO conversation (id, owner, key, session, created_at, updated_at) VALUES (1, 'default', 'k', 's', 1, 2)"
        )
        old.messages.append(
            ConversationRow(1, "k", True, "s", 1, 0, 1, 2), [row("before"), row("see uploadQueue")], NOW
        )
    as_then = (
        "UPDATE search_message SET words = to_tsvector('words', 'see uploadQueue') WHERE message_id = 1000000002"
        if database.startswith("postgresql")
        else "INSERT OR REPLACE INTO search_message (rowid, text) VALUES (1000000002, 'see uploadQueue')"
    )
    with old.transaction():
        old.run(as_then)
    assert old.search("queue") == []
    old.close()
    new = open_store()
    assert new.version() == max(scripts)
    assert [r.text for r in new.messages.read(1)] == ["before", "see uploadQueue"]
    assert [match.seq for match in new.search("queue")] == [2]
    assert new.debts.get(1) is None
    assert new.conversations.sessions(1) == ["s"]
    assert new.check_search() == []
    assert new.damage() == []
    if not database.startswith("postgresql"):
        assert len(list(Path(database).parent.glob("*.before-*"))) == 1  # one copy, however many steps


def test_a_migration_keeps_a_copy_first(open_store: OpenStore, database: str, tmp_path: Path) -> None:
    old = open_store()
    fill(old, "k", row("before"))
    old.close()
    new = open_store(scripts=later(tmp_path, database, "CREATE TABLE tomorrow (x INT)"))
    version = max(today(database)) + 1
    assert new.version() == version
    assert new.all("SELECT * FROM tomorrow") == []
    assert [r.text for r in new.messages.read(1)] == ["before"]
    if database.startswith("postgresql"):
        assert new.all(f"SELECT text FROM lossless_before_v{version}.message") == [("before",)]
    else:
        import apsw

        copy = f"{database}.before-v{version}"
        assert apsw.Connection(copy).execute("SELECT text FROM message").fetchall() == [("before",)]
        assert Path(copy).stat().st_mode & 0o777 == 0o600


def test_a_failed_migration_changes_nothing(open_store: OpenStore, database: str, tmp_path: Path) -> None:
    old = open_store()
    fill(old, "k", row("before"))
    old.close()
    with pytest.raises(StoreError):
        open_store(scripts=later(tmp_path, database, "CREATE TABLE tomorrow (x INT); SELECT nonsense FROM nowhere"))
    again = open_store()
    assert again.version() == max(today(database))
    assert [r.text for r in again.messages.read(1)] == ["before"]


def test_many_openings_at_once_make_one_schema(open_store: OpenStore) -> None:
    stores: list[Store] = []
    errors: list[BaseException] = []
    gate = threading.Barrier(6)

    def start(number: int) -> None:
        gate.wait()
        try:
            store = open_store()
            fill(store, "k", row(f"from {number}"))
            stores.append(store)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=start, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = stores[0].conversations.active("k")
    assert found is not None  # its id need not be 1: whoever lost the race took a number too
    assert sorted(r.text for r in stores[0].messages.read(found.id)) == [f"from {n}" for n in range(6)]
    assert len(stores[0].conversations.of_owner()) == 1


def test_threads_share_a_store(store: Store) -> None:
    def write(name: str) -> None:
        for n in range(20):
            fill(store, name, row(f"{name} {n}"))
            store.messages.read(1)

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for conversation in store.conversations.of_owner():
        assert [r.text for r in store.messages.read(conversation.id)] == [f"{conversation.key} {n}" for n in range(20)]


@pytest.mark.parametrize("view", VIEWS)
def test_the_names_of_older_tools_can_be_read_and_not_written(store: Store, view: str) -> None:
    fill(store, "k", row("words"))
    rows = store.all(f"SELECT * FROM {view}")
    assert len(rows) == (1 if view in {"conversations", "messages", "message_parts", "context_items"} else 0)
    with pytest.raises(StoreError), store.transaction():
        store.run(f"INSERT INTO {view} DEFAULT VALUES")
    assert len(store.all(f"SELECT * FROM {view}")) == len(rows)


def test_views_speak_the_columns_of_older_tools(store: Store) -> None:
    parts = '[{"type":"tool_result","call_id":"c1","name":"read","span":[0,4]},{"type":"text","span":[5,3]}]'
    fill(store, "agent:main", row("out\n\nend", parts=parts, event_id="e"), row("plain"))
    assert store.all("SELECT session_key, active FROM conversations") == [("agent:main", 1)]
    assert store.all("SELECT seq, role, content, token_count, transcript_entry_id FROM messages ORDER BY seq") == [
        (1, "user", "out\n\nend", 8, "e"),
        (2, "user", "plain", 5, None),
    ]
    wanted = "SELECT ordinal, part_type, tool_call_id, tool_name, tool_output, text_content FROM message_parts"
    assert store.all(f"{wanted} ORDER BY message_id, ordinal") == [
        (0, "tool", "c1", "read", "out\n", None),
        (1, "text", None, None, None, "end"),
        (0, "text", None, None, None, "plain"),
    ]
    assert store.all("SELECT ordinal, item_type, message_id FROM context_items ORDER BY ordinal") == [
        (0, "message", SPAN + 1),
        (1, "message", SPAN + 2),
    ]
    assert store.all("SELECT created_at FROM messages")[0][0] == "2026-09-21 14:13:20"


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.conversations.of_owner()
    with pytest.raises(StoreUnavailable, match="closed"), store.transaction():
        pass
