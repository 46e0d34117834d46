"""What is particular to PostgreSQL: servers that are not there, that die, and that come back."""

from __future__ import annotations

import psycopg
import pytest

from lossless import Lossless, Message
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
