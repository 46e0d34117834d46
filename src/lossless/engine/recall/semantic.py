"""Combine full-text scores with vectors: find messages that say the same in other words.

Words come first. Vectors change the order of what they found, and add the nearest other messages. Missing vectors of
the best messages found by words are computed at once; the worker computes the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice

from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import SearchRequest
from lossless.engine.recall.vector_cache import MOST, cache_of
from lossless.search.embeddings import Embedder, cosines, load_embedder, without_names
from lossless.store.rows.types import ConversationRow
from lossless.store.store import Store

_WEIGHT = 0.65
"""The weight of a cosine; the best match by words has the score 1."""
_LONG_QUESTION = 30
"""The number of words from which a cosine counts less: the mean of many words says little about any of them."""
_NEAREST, _LEAST = 50, 0.25
"""The number of messages that vectors add, and their least cosine, which one message in 25 reaches by chance."""
_NEW = 200
"""The number of messages found by words whose missing vectors are computed at once."""
_BATCH, _PAGE = 500, 10_000


def fuse_scores(reader: Reader, request: SearchRequest, found: Mapping[int, float]) -> dict[int, float]:
    """Combine the scores of words, the best first, and vectors; return the best first."""
    model = load_embedder()
    (question,) = model.vectors([without_names(request.pattern)])
    known, near = _compare(reader, request, model.name, question, found)
    missing = list(islice((id for id in found if id not in known), _NEW))
    known |= _nearness(reader.store, model, question, missing)
    best = max(found.values(), default=0.0) or 1.0
    weight = _WEIGHT * min(1.0, _LONG_QUESTION / max(1, len(request.pattern.split())))
    scores = {
        id: found.get(id, 0.0) / best + weight * max(0.0, known.get(id, 0.0)) for id in dict.fromkeys([*found, *near])
    }
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], -pair[0])))


def _compare(
    reader: Reader, request: SearchRequest, model: str, question: bytes, found: Mapping[int, float]
) -> tuple[dict[int, float], list[int]]:
    """Return the cosines of the messages found by words and of the nearest others, and the ids of these."""
    store = reader.store
    rows = {row.id: row.messages for row in store.conversations.of_owner()}
    conversations = {id: rows[id] for id in reader.scope if id in rows}
    if sum(conversations.values()) > MOST or request.since is not None or request.before is not None:
        near = dict(nlargest(_NEAREST, _near(reader, request, model, question), key=lambda pair: pair[1]))
        others = [id for id in found if id not in near]
        stored = store.texts.vectors(model, others)
        return near | dict(zip(stored, cosines(question, list(stored.values())), strict=True)), list(near)
    import numpy as np

    ids, values = cache_of(store).cosines(store, model, question, conversations)
    wanted = np.fromiter(found, np.int64, len(found))
    places = np.searchsorted(ids, wanted)
    places[places == len(ids)] = 0
    is_there = ids[places] == wanted if len(ids) else np.zeros(len(wanted), bool)
    known = dict(zip(wanted[is_there].tolist(), values[places[is_there]].tolist(), strict=True))
    most = min(len(ids), 2 * _NEAREST + len(found))
    top = np.argpartition(-values, most - 1)[:most] if most else np.empty(0, np.int64)
    nearest = sorted(((float(values[each]), int(ids[each])) for each in top if values[each] >= _LEAST), reverse=True)
    near = {id: cosine for cosine, id in _existing(reader, request, model, nearest, known)}
    return known | near, list(near)


def _existing(
    reader: Reader,
    request: SearchRequest,
    model: str,
    nearest: Sequence[tuple[float, int]],
    known: Mapping[int, float],
) -> list[tuple[float, int]]:
    """Return the nearest messages that words did not find, as far as their vectors still exist."""
    others = [(cosine, id) for cosine, id in nearest if id not in known][: 2 * _NEAREST]
    ids = [id for _, id in others]
    places = reader.store.texts.places(
        "message", reader.scope, among=ids, include_recall=request.include_recall, limit=len(ids)
    )
    allowed = {id for _, id in places} & reader.store.texts.vectors(model, ids).keys()
    return [(cosine, id) for cosine, id in others if id in allowed][:_NEAREST]


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
    known = store.texts.vectors(model.name, ids) if ids else {}
    rows = store.texts.read("message", [id for id in ids if id not in known])
    if not rows and not known:
        return {}
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
