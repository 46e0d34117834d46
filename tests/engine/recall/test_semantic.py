"""Semantic search: words lead, and vectors find what was said in other words."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from lossless import Conversation, Hits, Lossless, Message, Settings
from lossless.engine.recall import semantic
from lossless.engine.recall.search_request import Sort
from lossless.errors import InvalidInput
from lossless.events import Event
from lossless.search.embeddings import cosines, load_embedder, without_names
from tests.conftest import OpenStore

SORTS: tuple[Sort, ...] = ("recency", "relevance", "hybrid")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SAID = (
    "We are researching adoption agencies, to have a family of our own.",
    "The parser fails on an empty line.",
    "My sister plays the violin in an orchestra.",
    "The invoice for March is still open.",
)


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    """The library, with vectors wanted and nobody in the background."""
    with Lossless.open(database, settings=Settings(large_files_dir=str(tmp_path), semantic=True)) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # these tests drain by themselves
        yield lcm


def said(*texts: str) -> list[Message]:
    return [Message.user(text, at=NOON + timedelta(hours=n)) for n, text in enumerate(texts)]


def snippets(hits: Hits) -> list[str]:
    return [hit.snippet for hit in hits]


def vectors(lcm: Lossless, chat: Conversation) -> int:
    return len(lcm._store.texts.vectors_in(load_embedder().name, [chat.status().id], limit=10_000))


def test_what_was_said_in_other_words_is_found(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest(said(*SAID))
    lcm.drain()
    assert not chat.grep("classical music concert", mode="full_text")
    hits = chat.grep("classical music concert", mode="semantic", sort="relevance")
    assert snippets(hits) == [SAID[2]]
    assert (hits[0].kind, hits[0].seq, hits[0].at) == ("message", 3, NOON + timedelta(hours=2))


def test_of_messages_with_the_same_words_the_nearer_comes_first(chat: Conversation) -> None:
    chat.ingest(said("The bank of the river is muddy after rain.", "filler", "filler", "The bank raised the mortgage."))
    hits = chat.grep("bank interest on a loan", mode="semantic", sort="relevance", scope="messages")
    assert hits[0].snippet == "The bank raised the mortgage."
    assert hits[0].score > hits[1].score > 0


def test_without_the_worker_the_words_that_match_are_weighed_and_nothing_is_written(
    lcm: Lossless, chat: Conversation
) -> None:
    chat.ingest(said(*SAID))
    assert snippets(chat.grep("violin", mode="semantic")) == [SAID[2]]
    assert vectors(lcm, chat) == 0


def test_sorts_limits_of_time_and_cursors_are_those_of_full_text(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest(said(*(f"The orchestra rehearses, part {n}." for n in range(30))))
    lcm.drain()
    found = chat.grep("orchestra", mode="semantic", scope="messages", sort="recency")
    assert [hit.seq for hit in found] == list(range(30, 0, -1))
    best = chat.grep("violin concert", mode="semantic", sort="relevance", since=NOON + timedelta(hours=20))
    assert {hit.seq for hit in best} <= set(range(21, 31))
    assert best
    for sort in SORTS:
        pages = [chat.grep("orchestra part", "semantic", "messages", sort=sort, limit=7)]
        while after := pages[-1].next_cursor:
            pages.append(chat.grep("orchestra part", "semantic", "messages", sort=sort, limit=7, cursor=after))
        whole = chat.grep("orchestra part", "semantic", "messages", sort=sort)
        assert [hit.id for page in pages for hit in page] == [hit.id for hit in whole]


def test_summaries_and_files_are_found_by_their_words(chat: Conversation) -> None:
    chat.ingest(said(*SAID))
    assert not chat.grep("violin", mode="semantic", scope="summaries")
    assert not chat.grep("violin", mode="semantic", scope="files")


def test_another_owner_finds_nothing_of_it(lcm: Lossless, chat: Conversation, database: str) -> None:
    chat.ingest(said(*SAID))
    lcm.drain()
    with Lossless.open(database, owner="other") as other:
        assert not other.grep("adopting children", mode="semantic")
        assert other._store.texts.vectors_in(load_embedder().name, [chat.status().id], limit=9) == []
        assert other._store.texts.vectors(load_embedder().name, [chat.messages()[0].id]) == {}
        assert other._store.texts.without_vector(chat.status().id, "another model", limit=9) == []


def test_nothing_of_a_conversation_out_of_scope_joins(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest(said(*SAID))
    others = [lcm.conversation(f"other {n}") for n in range(2)]
    for other in others:
        other.ingest(said("nothing much"))
    lcm.drain()
    assert not others[0].grep("adopting children", mode="semantic")
    assert len(lcm.grep("adopting children", mode="semantic")) == 1


def test_vectors_are_made_in_batches_the_newest_first_and_once(
    lcm: Lossless, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semantic, "_BATCH", 3)
    chat.ingest(said(*SAID, ""))
    worker = lcm.worker()
    assert worker.embed(idle=0)
    model = load_embedder().name
    assert [id for id, _ in lcm._store.texts.without_vector(chat.status().id, model, limit=9)] == [
        message.id for message in reversed(chat.messages(limit=2))
    ]
    assert worker.embed(idle=0)
    assert not worker.embed(idle=0)
    chat.ingest(said("one more"))
    assert worker.embed(idle=0)
    assert not worker.embed(idle=0)
    assert vectors(lcm, chat) == 6


def test_a_conversation_in_use_is_left_alone(database: str) -> None:
    clock = count(1_000_000.0, 0.001)
    with Lossless.open(database, settings=Settings(semantic=True), clock=lambda: next(clock)) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # stepped here
        lcm.conversation("k").ingest(said(*SAID))
        worker = lcm.worker()
        assert not worker.embed(idle=2)
        assert worker.embed(idle=0)


def test_vectors_of_another_model_are_made_anew(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest(said(*SAID))
    store = lcm._store
    with store.transaction():
        store.texts.add_vectors("another model", [(message.id, b"\1\2") for message in chat.messages()])
    assert chat.grep("violin", mode="semantic")
    lcm.drain()
    assert vectors(lcm, chat) == len(SAID)
    assert store.texts.vectors("another model", [message.id for message in chat.messages()]) == {}


def test_by_default_no_vectors_are_made(database: str) -> None:
    with Lossless.open(database) as lcm:
        chat = lcm.conversation("k")
        chat.ingest(said(*SAID))
        lcm.drain()
        assert vectors(lcm, chat) == 0


def test_ingesting_wakes_the_worker(database: str) -> None:
    woken: list[str] = []
    with Lossless.open(database, settings=Settings(semantic=True)) as lcm:
        lcm._background.wake = lambda: woken.append("now")  # type: ignore[method-assign]  # to see that it is called
        lcm.conversation("k").ingest(said("hello"))
    assert woken == ["now"]


def test_a_page_of_vectors_follows_the_other(store_with_vectors: tuple[Lossless, list[int]]) -> None:
    lcm, ids = store_with_vectors
    first = lcm._store.texts.vectors_in("m", [1], limit=3)
    rest = lcm._store.texts.vectors_in("m", [1], below=first[-1][0], limit=9)
    assert [id for id, _ in first + rest] == ids[::-1]
    assert lcm._store.texts.vectors_in("m", [1], before=0, limit=9) == []


@pytest.fixture
def store_with_vectors(lcm: Lossless, chat: Conversation) -> tuple[Lossless, list[int]]:
    chat.ingest(said(*SAID))
    ids = [message.id for message in chat.messages()]
    with lcm._store.transaction():
        lcm._store.texts.add_vectors("m", [(id, b"\0") for id in ids])
    return lcm, ids


def test_an_older_database_gets_its_table(open_store: OpenStore, database: str) -> None:
    from lossless.store import migrate

    scripts = migrate.steps("postgres" if database.startswith("postgresql") else "sqlite")
    if not database.startswith("postgresql"):  # there the tables of today are made for all tests at once
        open_store(scripts={n: path for n, path in scripts.items() if n < 5}).close()
    assert open_store().texts.vectors_in("m", [1], limit=1) == []


def test_without_the_extra_it_says_what_to_install(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    events: list[Event] = []
    with Lossless.open(database, settings=Settings(semantic=True), on_event=events.append) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # drained here
        chat = lcm.conversation("k")
        chat.ingest(said(*SAID))
        with pytest.raises(InvalidInput, match=r"pip install 'lossless\[semantic\]'"):
            chat.grep("violin", mode="semantic")
        assert chat.grep("violin", mode="full_text")
        lcm.drain()
    assert [event.name for event in events if event.level == "warning"] == ["semantic.unavailable"]


def test_loading_the_model_leaves_the_logging_of_others_alone() -> None:
    code = "import logging; from lossless.search.embeddings import load_embedder; load_embedder(); print(logging.getLogger().handlers)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert logging.getLogger("wordllama").handlers == []


def test_a_vector_is_two_hundred_and_fifty_six_bytes_whatever_the_text() -> None:
    made = load_embedder().vectors(["deploy", "", "😀", "\ud800", "x" * 1_000_000, "部署密钥"])
    assert {len(vector) for vector in made} == {256}
    assert made[1] == bytes(256)


def test_the_same_text_is_as_near_as_can_be_and_no_text_is_near_to_nothing() -> None:
    one, other, none = load_embedder().vectors(["the violin in the orchestra", "the orchestra's violins", ""])
    same, near, nothing = cosines(one, [one, other, none])
    assert same == pytest.approx(1.0)
    assert 0.5 < near < 1.0
    assert nothing == 0.0
    assert cosines(one, []) == []


def test_names_and_numbers_are_left_to_the_words() -> None:
    assert without_names("What did Caroline's sister play in 2023?") == "What did sister play in"
    assert without_names("Caroline") == "Caroline"
    assert without_names("2023!") == "2023!"
