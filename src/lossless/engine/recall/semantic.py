"""Words and vectors together: who says something near a question, though in other words.

Words lead. What they find is moved by how near it is to the question, and the nearest messages join it. A vector that is
missing is made on the spot, for what the words found; the worker makes the others, so that they can join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nlargest

from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import Asked
from lossless.search.embeddings import Embedder, cosines, load_embedder, without_names
from lossless.store.base import ConversationRow
from lossless.store.store import Store

_WEIGHT = 0.3
"""Of a cosine, where the best match of the words has 1."""
_NEAREST, _LEAST = 50, 0.25
"""So many join what the words found, if they are as near as that: one in twenty-five messages is, by chance."""
_BATCH, _PAGE = 500, 10_000


def fused(reader: Reader, asked: Asked, found: Mapping[int, float]) -> dict[int, float]:
    """The scores of messages, from those that their words got and from their vectors."""
    model = load_embedder()
    (question,) = model.vectors([without_names(asked.pattern)])
    near = dict(nlargest(_NEAREST, _near(reader, asked, model.name, question), key=lambda pair: pair[1]))
    near |= _nearness(reader.store, model, question, [id for id in found if id not in near])
    best = max(found.values(), default=0.0) or 1.0
    return {id: found.get(id, 0.0) / best + _WEIGHT * max(0.0, cosine) for id, cosine in near.items()}


def _near(reader: Reader, asked: Asked, model: str, question: bytes) -> Iterator[tuple[int, float]]:
    """The messages in scope that are near a question, as far as they have vectors."""
    below = None
    while page := reader.store.texts.vectors_in(
        model,
        reader.scope,
        since=asked.since,
        before=asked.before,
        below=below,
        include_recall=asked.include_recall,
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
    """Makes the vectors that are missing, a batch at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._done: dict[int, int] = {}
        """Of a conversation, the seq up to which every message has one."""

    def step(self, idle_before: int) -> bool:
        """A batch of a conversation without an ingest since then; False if none lacks any."""
        waiting = (row for row in self._store.conversations.of_owner() if row.updated_at <= idle_before)
        return any(self._batch(row) for row in waiting if self._done.get(row.id, 0) < row.messages)

    def _batch(self, conversation: ConversationRow) -> bool:
        model, after = load_embedder(), self._done.get(conversation.id, 0)
        rows = self._store.texts.without_vector(conversation.id, model.name, after=after, limit=_BATCH)
        if rows:
            made = model.vectors([text for _, text in rows])
            with self._store.transaction():
                self._store.conversations.hold(conversation.id)  # whoever takes words away holds it, too
                self._store.texts.add_vectors(
                    model.name, [(id, data) for (id, _), data in zip(rows, made, strict=True)]
                )
        if len(rows) < _BATCH:
            self._done[conversation.id] = conversation.messages
        return bool(rows)
