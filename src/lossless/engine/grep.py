"""`grep`: find exact words, or what answers a question, in all that was ever said.

Texts are looked at from the newest on, a few at a time: what was found when the time is up is the newest there is, and a
cursor goes on behind it. A database skips the texts that a pattern cannot match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from msgspec.structs import astuple, replace

from lossless.engine import cursor as cursors
from lossless.engine.asked import Asked, Finder, Page, Watch
from lossless.engine.cursor import Position
from lossless.engine.filematches import in_files
from lossless.engine.matches import answering, matching
from lossless.engine.reading import Reader
from lossless.events import Hook
from lossless.model import Hit, Hits
from lossless.store.base import TextKind

SECONDS = 10.0


def grep(
    reader: Reader,
    asked: Asked,
    *,
    now: Callable[[], float],
    on_event: Hook,
    cursor: str | None = None,
    seconds: float = SECONDS,
) -> Hits:
    """What a reader finds: up to `limit` of each kind, the newest first unless another order was asked for.

    Ordered by relevance, messages come before summaries: their scores say nothing about each other.
    """
    finder = Finder.of(asked.pattern) if asked.mode == "regex" else None
    question = _question(reader, asked)
    started = dict[str, Position | None].fromkeys(asked.kinds)
    if cursor is not None:
        started = {**cursors.decode(cursor, question)}
    keys = {row.id: row.key for row in reader.store.conversations()}
    watch = Watch(now, now() + seconds)

    def page(kind: str, start: Position | None) -> Page:
        if kind == "file":
            return in_files(reader, finder, asked, keys, start, watch, on_event)
        which: TextKind = "message" if kind == "message" else "summary"
        if finder is not None:
            return matching(reader, which, finder, asked, keys, start, watch)
        return answering(reader, which, asked, keys, start, int(now() * 1_000_000))

    pages = {kind: page(kind, start) for kind, start in started.items()}
    hits = [hit for found in pages.values() for hit in found.hits]
    if asked.sort == "recency" and len(pages) > 1:
        hits.sort(key=lambda hit: hit.at, reverse=True)
    return Hits(
        _with_leaves(reader, hits),
        cursors.encode({kind: found.position for kind, found in pages.items() if found.position}, question),
        all(found.complete for found in pages.values()),
        sum(found.scanned for found in pages.values()),
        tuple(id for found in pages.values() for id in found.unavailable),
        asked.hint,
    )


def _question(reader: Reader, asked: Asked) -> list[object]:
    """What a cursor is bound to: everything but the limit, and the oldest conversation, which a family keeps."""
    return [reader.store.owner, min(reader.scope, default=0), *astuple(replace(asked, limit=0))]


def _with_leaves(reader: Reader, hits: Sequence[Hit]) -> list[Hit]:
    leaves: dict[str, str] = {}
    messages = sorted((hit for hit in hits if hit.seq is not None), key=lambda hit: hit.conversation)
    for conversation, group in groupby(messages, key=lambda hit: hit.conversation):
        ids = {hit.seq: hit.id for hit in group if hit.seq is not None}
        over = reader.store.leaves_over(conversation, list(ids))
        leaves |= {ids[seq]: leaf for seq, leaf in over.items()}
    return [replace(hit, leaf=leaves[hit.id]) if hit.id in leaves else hit for hit in hits]
