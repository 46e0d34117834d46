"""What is particular to PostgreSQL: servers that are not there, that die, and that come back."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from lossless import File, Lossless, Message, Settings
from lossless.engine.ingest import large_content
from lossless.engine.ingest.ingest import remove_unused
from lossless.errors import StoreError, StoreUnavailable
from tests import postgres
from tests.conftest import new_database

BATCH = [Message.user("one", event_id="1"), Message.user("two", event_id="2")]


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached") as error:
        Lossless.open("postgresql://me:hunter2@127.0.0.1:1/nowhere")
    assert "hunter2" not in str(error.value)
    assert error.value.code == "STORE_UNAVAILABLE"
    assert "Check that the server runs" in error.value.hint


@pytest.mark.parametrize(
    "address",
    [
        "host=127.0.0.1 port=1 user=me password=hunter2 dbname=nowhere",
        "host=127.0.0.1 port=1 password=the hunter2",
        "host=127.0.0.1 port=1 password='the hunter2",
        "password=hunter2 host=127.0.0.1 port=hunter2",
        "postgresql://me:hunter2/nowhere",
        "postgresql://127.0.0.1:1/nowhere?password=hunter2&nonsense=hunter2",
        "postgresql://127.0.0.1:1/nowhere?password=hun%ter2",
    ],
)
def test_no_way_to_write_an_address_shows_its_password(address: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as error:
        Lossless.open(address)
    assert "ter2" not in f"{error.value} {error.value.hint} {error.value!r}"


def test_an_address_may_be_written_as_words(postgres_url: str) -> None:
    told = urlsplit(postgres_url)
    address = f"host={told.hostname} port={told.port} user={told.username} password=hunter2 dbname={told.path[1:]}"
    with Lossless.open(address) as lcm:
        lcm.conversation("k").ingest(BATCH)
        assert "hunter2" not in f"{lcm!r} {lcm.location} {lcm.status()} {lcm.settings!r}"
    with Lossless.open(postgres_url) as lcm:
        assert len(lcm.conversation("k").messages()) == 2


def test_a_database_that_is_not_there_is_told(postgres_server: str) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist"):
        Lossless.open(new_database(postgres_server) + "_missing")


def test_a_server_that_dies_stores_nothing_half_and_the_batch_can_be_sent_again() -> None:
    with postgres.cluster() as server, Lossless.open(new_database(server.url)) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(BATCH[:1])
        server.stop()
        with pytest.raises(StoreUnavailable):
            chat.ingest(BATCH)
        server.start()
        assert chat.ingest(BATCH).stored == (2,)
        assert [m.text for m in chat.messages()] == ["one", "two"]


def test_a_connection_that_dies_in_the_middle_of_a_call_stores_nothing(postgres_url: str) -> None:
    with Lossless.open(postgres_url) as lcm:
        chat = lcm.conversation("k")
        with pytest.raises(StoreError), lcm._store.transaction():
            chat.ingest(BATCH)
            with psycopg.connect(postgres_url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            chat.messages()
        assert chat.messages() == []
        assert chat.ingest(BATCH).stored == (1, 2)


def test_everything_lives_in_a_schema_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("CREATE TABLE message (theirs TEXT); INSERT INTO message VALUES ('kept')")
        with Lossless.open(postgres_url) as lcm:
            lcm.conversation("k").ingest(BATCH)
        assert other.execute("SELECT theirs FROM public.message").fetchall() == [("kept",)]
        assert other.execute("SELECT count(*) FROM lossless.messages").fetchone() == (2,)


def test_a_payload_that_another_writer_is_about_to_commit_is_not_swept(postgres_url: str, tmp_path: Path) -> None:
    """One call fails and sweeps while another, referring to the same bytes, has not committed yet."""
    image = Message("user", (File("image/png", None, "iVBORw0KGgo="),))
    settings = Settings(large_files_dir=str(tmp_path / "files"))
    with Lossless.open(postgres_url, settings=settings) as one, Lossless.open(postgres_url, settings=settings) as two:
        sweeping = threading.Thread(target=fail_and_sweep, args=(one, image))
        with two._store.transaction():
            two.conversation("b").ingest([image])
            sweeping.start()
            sweeping.join(0.5)
            assert sweeping.is_alive()  # it waits for us
        sweeping.join()
        assert two.conversation("b").messages()[0].message == image


def fail_and_sweep(lcm: Lossless, message: Message) -> None:
    payload = large_content.extract(message, 1000, {})[1]
    remove_unused(lcm._store, lcm._files, payload)


def test_a_server_that_prefers_another_isolation_changes_nothing(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        name = urlsplit(postgres_url).path[1:]
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation TO 'repeatable read'".encode())
    with Lossless.open(postgres_url) as lcm:
        threads = [
            threading.Thread(target=lcm.conversation("k").ingest, args=([Message.user(str(n), event_id=str(n))],))
            for n in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(m.text for m in lcm.conversation("k").messages()) == [str(n) for n in range(6)]


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server: str) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        try:
            with pytest.raises(StoreUnavailable, match="LATIN1"):
                Lossless.open(urlunsplit(urlsplit(postgres_server)._replace(path="/latin")))
        finally:
            admin.execute("DROP DATABASE latin WITH (FORCE)")


def test_the_longest_keys_fit(postgres_url: str) -> None:
    with Lossless.open(postgres_url, owner="🙂" * 50) as lcm:
        assert lcm.conversation("🙂" * 250).ingest([Message.user("a")]).stored == (1,)
