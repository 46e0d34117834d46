"""Moving house: every row arrives, under its own id, in a database of either kind, and it is proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lossless import Lossless, Message, Settings
from lossless.engine.backup import copy_database
from lossless.errors import FileUnavailable, InvalidInput, StoreError, StoreUnavailable
from lossless.model import Migration
from lossless.store.sql.tables import TABLES
from lossless.store.sqlite.store import SQLiteStore
from lossless.store.store import Store
from tests import strategies
from tests.conftest import OpenStore
from tests.histories import lived_in, opened

DERIVED = {"recall_call", "event", "migration"}


class Killed(BaseException):
    """The process dies."""


@pytest.fixture
def elsewhere(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where to move: the other kind of database."""
    is_file = database.startswith("postgresql")
    return str(tmp_path / "moved.db") if is_file else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def home(database: str, tmp_path: Path) -> str:
    lived_in(database, tmp_path / "files")
    return database


def migrate(source: str, target: str, tmp_path: Path, progress: copy_database.Progress | None = None) -> Migration:
    with opened(source, tmp_path / "files") as lcm:
        return lcm.migrate(target, progress=progress)


def found(store: Store) -> set[str]:
    """The tables there are, but for those of the search index."""
    listed = (
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
        if isinstance(store, SQLiteStore)
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'lossless'"
    )
    return {name for (name,) in store.all(listed) if not name.startswith(("search_", "sqlite_"))}


def test_no_table_is_forgotten(open_store: OpenStore) -> None:
    store = open_store()
    assert found(store) - DERIVED == set(TABLES)
    assert len(TABLES) == len(set(TABLES))


def test_a_house_that_was_lived_in_has_something_in_every_table(home: str, open_store: OpenStore) -> None:
    store = open_store()
    assert [table for table in TABLES if not store.tables.count(table)] == []


def test_there_and_back_again_nothing_differs(home: str, elsewhere: str, tmp_path: Path) -> None:
    there = migrate(home, elsewhere, tmp_path)
    back = migrate(elsewhere, str(tmp_path / "back.db"), tmp_path)
    assert there.tables == back.tables
    assert there.digest == back.digest
    assert there.rows == sum(table.rows for table in there.tables) > 100
    assert not there.resumed


def test_what_was_moved_is_found_shown_and_goes_on(home: str, elsewhere: str, tmp_path: Path) -> None:
    with opened(home, tmp_path / "files") as before:
        shown = before.conversation("agent:main:main").context()
        said = before.conversation("agent:main:main").messages()
    migrate(home, elsewhere, tmp_path)
    with opened(elsewhere, tmp_path / "files") as lcm:
        chat = lcm.conversation("agent:main:main")
        assert chat.context() == shown
        assert chat.messages() == said
        assert lcm._store.check_search() == []
        # Known events are known, and new ids come behind the old ones.
        assert chat.ingest([Message.user("after the reset, again", event_id="new")]).stored == (2,)
        assert chat.ingest([Message.user("after the reset, again", event_id="new")]).known == 1
        ids = [each.id for each in lcm.conversations()]
        lcm.conversation("a new one").ingest([Message.user("hello")])
        assert lcm.conversation("a new one").status().id > max(ids)
        chat.ingest([Message.user(f"{n} " + "more words " * 20) for n in range(30)])
        assert chat.compact(window=1_000, force=True).summaries


def test_event_ids_are_known_after_the_move(home: str, elsewhere: str, tmp_path: Path) -> None:
    migrate(home, elsewhere, tmp_path)
    with opened(elsewhere, tmp_path / "files") as lcm:
        (old,) = [row for row in lcm._store.conversations.family("agent:main:main") if row.archive_cause]
        assert set(lcm._store.messages.known_events(old.id, ["default-0", "default-29", "nobody's"])) == {
            "default-0",
            "default-29",
        }


def test_owners_stay_apart(home: str, elsewhere: str, tmp_path: Path) -> None:
    migrate(home, elsewhere, tmp_path)
    for owner in ("default", "another"):
        with opened(elsewhere, tmp_path / "files", owner) as lcm:
            hits = lcm.grep("default 1:|another 1:")
            assert [hit.snippet.split()[0] for hit in hits] == [owner]
    with opened(elsewhere, tmp_path / "files", "a third") as lcm:
        assert list(lcm.conversations()) == []


def test_killed_after_any_batch_it_is_taken_up_again(
    home: str, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_database, "BATCH", 25)
    whole = migrate(home, str(tmp_path / "whole.db"), tmp_path)
    steps, kills = 0, 0

    def die(left: int) -> Callable[[str, int, int], None]:
        def progress(table: str, done: int, total: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        return progress

    while True:
        steps += 1
        try:
            done = migrate(home, elsewhere, tmp_path, die(steps))
            break
        except Killed:
            kills += 1
    assert kills > len(TABLES)
    assert done.resumed
    assert done.digest == whole.digest
    with opened(elsewhere, tmp_path / "files") as lcm:
        assert lcm._store.check_search() == []
        assert lcm._store.tables.moving_in() is None


def test_what_changed_since_it_was_broken_off_is_set_right(home: str, elsewhere: str, tmp_path: Path) -> None:
    def die(table: str, done: int, total: int) -> None:
        if table == "guard":
            raise Killed

    with pytest.raises(Killed):
        migrate(home, elsewhere, tmp_path, die)
    with opened(home, tmp_path / "files") as lcm:
        chat = lcm.conversation("agent:main:main")
        chat.reset()
        chat.ingest([Message.user(f"{n} " + "later words " * 20) for n in range(20)])
        chat.compact(window=1_000, force=True)
        (sub,) = lcm._store.conversations.family("agent:main:sub")
        with lcm._store.transaction():
            assert lcm._store.context.bury(sub.id, [1], "forgotten", 5) == [1]
    done = migrate(home, elsewhere, tmp_path)
    assert done.resumed
    assert done.digest == migrate(home, str(tmp_path / "whole.db"), tmp_path).digest
    with opened(elsewhere, tmp_path / "files") as lcm:
        assert lcm._store.check_search() == []
        assert list(lcm.grep("sub-agent's")) == []


def test_what_is_written_meanwhile_is_not_half_moved(home: str, elsewhere: str, tmp_path: Path) -> None:
    with opened(home, tmp_path / "files") as host, opened(home, tmp_path / "files") as lcm:

        def write(table: str, done: int, total: int) -> None:
            if table == "message":
                host.conversation("agent:main:main").ingest([Message.user("too late", event_id="late")])

        before = lcm.status().messages
        lcm.migrate(elsewhere, progress=write)
        assert lcm.status().messages == before + 1
    with opened(elsewhere, tmp_path / "files") as moved:
        assert moved.status().messages == before


def test_a_database_that_holds_anything_is_refused(home: str, elsewhere: str, tmp_path: Path) -> None:
    with opened(elsewhere, tmp_path / "files", "somebody") as lcm:
        lcm.conversation("mine").ingest([Message.user("mine")])
    with pytest.raises(InvalidInput, match="not empty"):
        migrate(home, elsewhere, tmp_path)
    with opened(elsewhere, tmp_path / "files", "somebody") as lcm:
        assert lcm.status().messages == 1


def test_half_of_another_database_is_refused(home: str, elsewhere: str, tmp_path: Path) -> None:
    def die(*_: object) -> None:
        raise Killed

    with opened(elsewhere, tmp_path / "files") as early:
        with pytest.raises(Killed):
            migrate(home, elsewhere, tmp_path, die)
        with pytest.raises(InvalidInput, match="unfinished migration itself"):
            early.migrate(tmp_path / "third.db")
    lived_in(tmp_path / "other.db", tmp_path / "files", turns=3)
    with pytest.raises(InvalidInput, match="part of another"):
        migrate(str(tmp_path / "other.db"), elsewhere, tmp_path)


def test_half_a_house_is_opened_by_nobody_but_the_same_move(home: str, elsewhere: str, tmp_path: Path) -> None:
    def die(table: str, done: int, total: int) -> None:
        if table == "message":
            raise Killed

    with pytest.raises(Killed):
        migrate(home, elsewhere, tmp_path, die)
    for read_only in (False, True):
        with pytest.raises(StoreUnavailable, match="migration into it was interrupted") as refused:
            Lossless.open(elsewhere, settings=Settings(), read_only=read_only)
        assert refused.value.hint == "Run the same `lcm migrate` to continue it; or remove it."
    assert migrate(home, elsewhere, tmp_path).resumed
    with opened(elsewhere, tmp_path / "files") as lcm:
        assert lcm.status().messages


def test_into_itself_or_into_memory_it_does_not_go(home: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not empty"):
        migrate(home, home, tmp_path)
    with pytest.raises(InvalidInput, match="in memory"):
        migrate(home, ":memory:", tmp_path)


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        ("UPDATE message SET text = 'forged' WHERE id = 1000000003", "table message, key 1000000003"),
        ("DELETE FROM item WHERE conversation_id = 1 AND summary_id IS NOT NULL", "table item, key"),
        ("UPDATE summary SET faithful = 0.125 WHERE id = 1", "table summary, key 1"),
    ],
)
def test_a_difference_is_found_and_named(home: str, elsewhere: str, tmp_path: Path, plant: str, told: str) -> None:
    with opened(elsewhere, tmp_path / "files") as vandal:
        store = vandal._store
        assert isinstance(store, Store)

        def forge(table: str, done: int, total: int) -> None:
            if table == "guard":
                with store.transaction():
                    assert store.run(plant)

        with pytest.raises(StoreError, match=told):
            migrate(home, elsewhere, tmp_path, forge)


def test_files_go_along_and_are_proved(tmp_path: Path, database: str) -> None:
    # Each database has its own directory where none is set.
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    big = "A large one. " * 1000
    with Lossless.open(source, settings=Settings(large_file_token_threshold=1000)) as lcm:
        chat = lcm.conversation("k")
        chat.ingest([Message.user(big), Message.user(big + "And another.")])
        (lost, kept) = chat.files()
        lcm._files.remove(lost.sha256)
        done = lcm.migrate(target)
    assert (done.files, done.missing_files) == (1, (lost.sha256,))
    with Lossless.open(target, settings=Settings()) as lcm:
        assert len(lcm.conversation("k").files.read(kept.id)) == kept.bytes
        with pytest.raises(FileUnavailable):
            lcm.conversation("k").files.read(lost.id)
        assert lcm._files.root == tmp_path / "b-files"


def test_an_empty_database_moves_too(database: str, elsewhere: str, tmp_path: Path) -> None:
    assert migrate(database, elsewhere, tmp_path).rows == 0


def test_progress_tells_how_far_it_is(home: str, elsewhere: str, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    done = migrate(home, elsewhere, tmp_path, lambda *step: told.append(step))
    assert {table: done for table, done, _ in told} == {table.name: table.rows for table in done.tables if table.rows}
    assert all(done <= total for _, done, total in told)


@given(history=st.lists(strategies.messages, max_size=12))
@hypothesis_settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_arrives_as_it_was(
    history: list[Message], emptied: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    where = tmp_path_factory.mktemp("moving")
    with opened(where / "a.db", where / "files") as lcm:
        lcm.conversation("k").ingest(history)
        there = lcm.migrate(postgres := emptied())
    with opened(postgres, where / "files") as lcm:
        assert [each.message for each in lcm.conversation("k").messages()] == history
        assert lcm.migrate(where / "b.db").digest == there.digest


def test_a_conversation_is_read_whole_by_its_owner_alone(home: str, open_store: OpenStore) -> None:
    mine, others = open_store(), open_store(owner="another")
    (first,) = {row.id for row in mine.conversations.family("agent:main:main") if row.archive_cause}
    assert list(mine.tables.part("pin", first, ("id",)))
    assert list(others.tables.part("pin", first, ("id",))) == []


def test_a_snapshot_stays_as_it_was(home: str, open_store: OpenStore) -> None:
    reader, writer = open_store(), open_store()
    with reader.snapshot(), reader.snapshot():
        before = reader.conversations.of_owner()
        with writer.transaction():
            writer.conversations.lock("a new one", None, 1)
        assert reader.conversations.of_owner() == before
    assert len(reader.conversations.of_owner()) == len(before) + 1


def test_a_database_in_memory_can_move_out(tmp_path: Path) -> None:
    with Lossless.open(":memory:", settings=Settings()) as lcm:
        lcm.conversation("k").ingest([Message.user("hello")])
        lcm.migrate(tmp_path / "lcm.db")
    with Lossless.open(tmp_path / "lcm.db", settings=Settings(), read_only=True) as lcm:
        assert lcm.conversation("k").messages()[0].text == "hello"
        lcm.migrate(tmp_path / "again.db")
