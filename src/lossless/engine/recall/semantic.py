"""Combine full-text scores with vectors: find messages that say the same in other words.

Words come first. Vectors change the order of what they found, and add the nearest other messages. Missing vectors of
messages found by words are computed at once; the worker computes the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nlargest

from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import SearchRequest
from lossless.search.embeddings import Embedder, cosines, load_embedder, without_names
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store

_WEIGHT = 0.3
"""The weight of a cosine; the best match by words has the score 1."""
_NEAREST, _LEAST = 50, 0.25
"""The number of messages that vectors add, and their least cosine, which one message in 25 reaches by chance."""
_BATCH, _PAGE = 500, 10_000


def fuse_scores(reader: Reader, request: SearchRequest, found: Mapping[int, float]) -> dict[int, float]:
    """Combine the scores of words and vectors."""
    model = load_embedder()
    (question,) = model.vectors([without_names(request.pattern)])
    near = dict(nlargest(_NEAREST, _near(reader, request, model.name, question), key=lambda pair: pair[1]))
    near |= _nearness(reader.store, model, question, [id for id in found if id not in near])
    best = max(found.values(), default=0.0) or 1.0
    return {id: found.get(id, 0.0) / best + _WEIGHT * max(0.0, cosine) for id, cosine in near.items()}


def _near(reader: Reader, request: SearchRequest, model: str, question: bytes) -> Iterator[tuple[int, float]]:
    """Yield the messages in scope that are near a question, as far as they have vectors."""
    below = None
    while page := reader.store.texts.vectors_in(
        model,
        reader.scope,
        since=request.since,
        before=request.before,
        below=below,
        include_recall=request.include_recall,
        limit=_PAGE,
    ):
        cosine = cosines(question, [data for _, data in page])
        yield from ((id, near) for (id, _), near in zip(page, cosine, strict=True) if near >= _LEAST)
        below = page[-1][0]


def _nearness(store: Store, model: Embedder, question: bytes, ids: list[int]) -> dict[int, float]:
    known = store.texts.vectors(model.name, ids)
    rows = store.texts.read("message", [id for id in ids if id not in known])
    known |= zip((row.id for row in rows), model.vectors([row.text for row in rows]), strict=True)
    return dict(zip(known, cosines(question, list(known.values())), strict=True))


class Vectors:
    """The worker that computes missing vectors, in batches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._done: dict[int, int] = {}
        """By conversation, the seq up to which every message has a vector."""

    def step(self, idle_before: int) -> bool:
        """Compute a batch for an idle conversation; return False if none is missing."""
        waiting = (row for row in self._store.conversations.of_owner() if row.updated_at <= idle_before)
        return any(self._batch(row) for row in waiting if self._done.get(row.id, 0) < row.messages)

    def _batch(self, conversation: ConversationRow) -> bool:
        model, after = load_embedder(), self._done.get(conversation.id, 0)
        rows = self._store.texts.without_vector(conversation.id, model.name, after=after, limit=_BATCH)
        if rows:
            made = model.vectors([text for _, text in rows])
            with self._store.transaction():
                self._store.conversations.hold(conversation.id)  # erasing words holds it, too
                self._store.texts.add_vectors(
                    model.name, [(id, data) for (id, _), data in zip(rows, made, strict=True)]
                )
        if len(rows) < _BATCH:
            self._done[conversation.id] = conversation.messages
        return bool(rows)
