"""The vectors in memory are those of the database, whenever they were made and whoever deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lossless import Conversation, Lossless, Message, Settings
from lossless.engine.recall import vector_cache
from lossless.engine.recall.vector_cache import VectorCache, cache_of
from lossless.search.embeddings import load_embedder

SAID = ("My sister plays the violin in an orchestra.", "The parser fails on an empty line.", "The invoice is open.")


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    with Lossless.open(database, settings=Settings(large_files_dir=str(tmp_path), semantic=True)) as lcm:
        lcm._background.wake = lambda: None  # type: ignore[method-assign]  # these tests drain by themselves
        yield lcm


def known(lcm: Lossless, chat: Conversation, cache: VectorCache) -> list[int]:
    model = load_embedder()
    (question,) = model.vectors(["music"])
    status = chat.status()
    ids, values = cache.cosines(lcm._store, model.name, question, {status.id: status.messages})
    assert len(ids) == len(values)
    return [int(id) % 1_000_000_000 for id in ids]


def test_new_vectors_are_seen_at_once_and_older_ones_after_a_while(
    lcm: Lossless, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = VectorCache()
    chat.ingest([Message.user(text) for text in SAID])
    assert known(lcm, chat, cache) == []
    lcm.drain()
    assert known(lcm, chat, cache) == [1, 2, 3]
    chat.ingest([Message.user(f"more {n}") for n in range(4)])
    base, model = chat.status().id * 1_000_000_000, load_embedder().name
    with lcm._store.transaction():
        lcm._store.texts.add_vectors(model, [(base + 6, b"\1" * 256)])
    assert known(lcm, chat, cache) == [1, 2, 3, 6]
    with lcm._store.transaction():
        lcm._store.texts.add_vectors(model, [(base + 4, b"\2" * 256), (base + 7, b"\3" * 256), (base + 5, b"short")])
    assert known(lcm, chat, cache) == [1, 2, 3, 6, 7]
    monkeypatch.setattr(vector_cache, "_CHECK_SECONDS", -1.0)
    assert known(lcm, chat, cache) == [1, 2, 3, 4, 6, 7]


def test_a_message_whose_vector_is_gone_is_not_found_by_it(lcm: Lossless, chat: Conversation) -> None:
    chat.ingest([Message.user(text) for text in SAID])
    lcm.drain()
    assert [hit.seq for hit in chat.grep("classical music concert", "semantic")] == [1]
    with lcm._store.transaction():
        lcm._store.run("DELETE FROM vector")
    assert 1 in known(lcm, chat, cache_of(lcm._store))
    assert not chat.grep("classical music concert", "semantic")


def test_more_vectors_than_fit_are_read_from_the_database(
    lcm: Lossless, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.ingest([Message.user(text) for text in SAID])
    lcm.drain()
    in_memory = [(hit.seq, round(hit.score, 3)) for hit in chat.grep("the music that my sister plays", "semantic")]
    monkeypatch.setattr("lossless.engine.recall.semantic.MOST", 2)
    from_database = [(hit.seq, round(hit.score, 3)) for hit in chat.grep("the music that my sister plays", "semantic")]
    assert in_memory == from_database
    assert in_memory


def test_the_conversations_used_last_are_kept(lcm: Lossless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "MOST", 4)
    cache, chats = VectorCache(), [lcm.conversation(f"k{n}") for n in range(3)]
    for chat in chats:
        chat.ingest([Message.user(text) for text in SAID])
    lcm.drain()
    for chat in chats:
        assert known(lcm, chat, cache) == [1, 2, 3]
    assert [conversation for _, conversation in cache._kept] == [chats[-1].status().id]
