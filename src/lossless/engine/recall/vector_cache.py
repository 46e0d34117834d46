"""Keep the vectors of conversations in memory, so that a question is compared with all of them at once.

A hundred thousand vectors take 26 MB. Vectors are added as they are made. A deleted one is still compared: callers
check that the vector of a message that was found only here still exists.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from lossless.store.rows.types import SPAN
from lossless.store.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST = 200_000
"""The number of vectors that are kept in memory; of larger histories they are read from the database."""
_PAGE, _ROWS = 20_000, 1_024
_CHECK_SECONDS = 10.0
"""How often a conversation whose vectors are still being made is looked through for new ones."""

_caches: WeakKeyDictionary[Store, VectorCache] = WeakKeyDictionary()
_lock = threading.Lock()


class _Vectors:
    """The vectors of one conversation, by ascending message id."""

    def __init__(self, size: int) -> None:
        import numpy as np

        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.data: NDArray[np.int8] = np.empty((0, size), np.int8)
        self.lengths: NDArray[np.float32] = np.empty(0, np.float32)
        self.checked = 0.0

    def add(self, rows: list[tuple[int, bytes]]) -> None:
        """Add vectors; those of another size, and those that are there, are skipped."""
        import numpy as np

        size = self.data.shape[1]
        known = set(self.ids.tolist()) if rows else set()
        rows = [(id, data) for id, data in rows if len(data) == size and id not in known]
        if not rows:
            return
        ids = np.concatenate([self.ids, np.fromiter((id for id, _ in rows), np.int64, len(rows))])
        new = np.frombuffer(b"".join(data for _, data in rows), np.int8).reshape(len(rows), size)
        data, order = np.concatenate([self.data, new]), np.argsort(ids)
        self.ids, self.data = ids[order], data[order]
        self.lengths = np.concatenate([np.linalg.norm(part.astype(np.float32), axis=1) for part in _parts(self.data)])

    def cosines(self, question: bytes) -> NDArray[np.float32]:
        import numpy as np

        one = np.frombuffer(question, np.int8).astype(np.float32)
        products = np.concatenate([part.astype(np.float32) @ one for part in _parts(self.data)])
        lengths: NDArray[np.float32] = self.lengths * np.float32(np.linalg.norm(one))
        return np.asarray(products / np.maximum(lengths, np.float32(1)), np.float32)


def _parts(data: NDArray[np.int8]) -> list[NDArray[np.int8]]:
    """Return stretches of the rows that fit into the cache of a processor as floats."""
    return [data[start : start + _ROWS] for start in range(0, max(1, len(data)), _ROWS)]


class VectorCache:
    """The vectors of a store that were used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], _Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def cosines(
        self, store: Store, model: str, question: bytes, conversations: dict[int, int]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the ids of all messages with a vector, ascending, and their cosines.

        `conversations` are the ids of the conversations with their numbers of messages.
        """
        import numpy as np

        with self._lock:
            found = [
                self._current(store, model, len(question), each, messages)
                for each, messages in sorted(conversations.items())
            ]
            self._evict()
            ids = [each.ids for each in found if len(each.ids)]
            values = [each.cosines(question) for each in found if len(each.ids)]
        if not ids:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return np.concatenate(ids), np.concatenate(values)

    def _current(self, store: Store, model: str, size: int, conversation: int, messages: int) -> _Vectors:
        kept = self._kept.setdefault((model, conversation), _Vectors(size))
        self._kept.move_to_end((model, conversation))
        above = int(kept.ids[-1]) if len(kept.ids) else conversation * SPAN
        kept.add(_read(store, model, conversation, above=above))
        # The worker makes the newest first, so that others may appear anywhere below.
        if len(kept.ids) < messages and time.monotonic() - kept.checked > _CHECK_SECONDS:
            kept.checked = time.monotonic()
            if store.texts.count_vectors(model, conversation) != len(kept.ids):
                kept.add(_read(store, model, conversation, above=conversation * SPAN))
        return kept

    def _evict(self) -> None:
        while len(self._kept) > 1 and sum(len(each.ids) for each in self._kept.values()) > MOST:
            self._kept.popitem(last=False)


def _read(store: Store, model: str, conversation: int, *, above: int) -> list[tuple[int, bytes]]:
    """Return the vectors of a conversation above an id."""
    rows: list[tuple[int, bytes]] = []
    below = None
    while page := store.texts.vectors_in(
        model, [conversation], above=above, below=below, include_recall=True, limit=_PAGE
    ):
        rows += page
        below = page[-1][0]
        if len(page) < _PAGE:
            break
    return rows


def cache_of(store: Store) -> VectorCache:
    """Return the cache of a store."""
    with _lock:
        return _caches.setdefault(store, VectorCache())
