"""Search messages and summaries by pattern or by words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lossless.engine.recall.reader import Reader
from lossless.engine.recall.search_request import Deadline, Finder, Page, SearchRequest, words
from lossless.engine.shared.cursor import Position
from lossless.ids import message_id
from lossless.model import Hit
from lossless.search.snippets import snippet
from lossless.store.rows.codec import moment
from lossless.store.rows.types import SPAN, TextKind, TextRow

_FIRST_PLACES, _PLACES = 1_000, 100_000
"""The number of places in the first query and in later ones: each query costs a scan of all texts."""
_TEXTS = 256
_CANDIDATES = 1_000
_HOUR = 3_600_000_000
_AGEING = 0.001

Keys = Mapping[int, str]


def match_pattern(
    reader: Reader,
    kind: TextKind,
    finder: Finder,
    request: SearchRequest,
    keys: Keys,
    start: Position | None,
    deadline: Deadline,
) -> Page:
    """Return the texts that a pattern matches, the newest first."""
    page, counting = Page([]), None
    for places, is_last in _batches(reader, kind, finder, request, start):
        texts = {
            row.id: row
            for row in reader.store.texts.read(kind, [id for _, id in places], include_recall=request.include_recall)
        }
        for at, id in places:
            span = finder.pattern.search(texts[id].text) if id in texts else None
            page.scanned += 1
            page.total += span is not None
            if span and len(page.hits) < request.limit:
                page.hits.append(_hit(kind, texts[id], keys, snippet(texts[id].text, *span)))
                page.after.append((at, id))
        is_full = page.total > request.limit
        if is_full:
            page.position, counting = page.after[-1], counting or deadline.for_counting()
        if is_last:
            break
        if counting and counting.is_over:
            page.is_counted = False
            break
        if deadline.is_over:
            page.complete, page.position = False, places[-1]
            break
    return page


def _batches(
    reader: Reader, kind: TextKind, finder: Finder, request: SearchRequest, start: Position | None
) -> Iterator[tuple[Sequence[tuple[int, int]], bool]]:
    """Yield batches of places, the newest first, and True with the last."""
    below, most = (start[0], start[1]) if start else None, _FIRST_PLACES
    while True:
        found = reader.store.texts.places(
            kind,
            reader.scope,
            holding=[(need.any_of, need.folded) for need in finder.needs],
            since=request.since,
            before=request.before,
            below=below,
            include_recall=request.include_recall,
            limit=most,
        )
        for first in range(0, len(found), _TEXTS):
            batch = found[first : first + _TEXTS]
            yield batch, len(found) < most and first + _TEXTS >= len(found)
        if len(found) < most:
            return
        below, most = found[-1], _PLACES


def match_words(
    reader: Reader, kind: TextKind, request: SearchRequest, keys: Keys, start: Position | None, now: int
) -> Page:
    """Return the texts that answer a question, in the requested order, among the best thousand."""
    shown, last = start or (0, 0)
    by_words = request.sort == "relevance" and request.mode == "full_text"
    wanted = shown + request.limit + 1 if by_words else _CANDIDATES
    scores = _scores(reader, kind, request, min(wanted, _CANDIDATES))
    ordered = _ordered(reader, kind, request, scores, now)
    # New messages may have changed the positions: continue after the last hit that was shown.
    first = ordered.index(last) + 1 if last in ordered else shown
    ids = ordered[first : first + request.limit]
    texts = {row.id: row for row in reader.store.texts.read(kind, ids, include_recall=request.include_recall)}
    find = words(request.pattern).search
    hits = [
        _hit(kind, texts[id], keys, snippet(texts[id].text, *(find(texts[id].text) or (0, 0))), scores[id])
        for id in ids
        if id in texts
    ]
    after: list[Position] = [(first + nth, id) for nth, id in enumerate(ids, 1)]
    more = len(ordered) > first + len(ids)
    return Page(hits, after[-1] if more else None, scanned=len(ids), after=after, total=len(ordered) - first)


def count_matches(reader: Reader, request: SearchRequest, kind: str) -> int:
    """Count the messages or summaries that contain any word of a question."""
    which: TextKind = "message" if kind == "message" else "summary"
    return reader.store.count_matches(
        which,
        request.pattern,
        reader.scope,
        since=request.since,
        before=request.before,
        include_recall=request.include_recall,
    )


def _scores(reader: Reader, kind: TextKind, request: SearchRequest, most: int) -> dict[int, float]:
    if kind == "message":
        messages = reader.store.search(
            request.pattern,
            conversation_ids=reader.scope,
            limit=most,
            since=request.since,
            before=request.before,
            include_recall=request.include_recall,
        )
        scores = {each.conversation_id * SPAN + each.seq: each.score for each in messages}
        if request.mode != "semantic":
            return scores
        from lossless.engine.recall.semantic import fuse_scores

        return fuse_scores(reader, request, scores)
    summaries = reader.store.search_summaries(request.pattern, conversation_ids=reader.scope, limit=_CANDIDATES)
    return {each.summary_id: each.score for each in summaries}


def _ordered(
    reader: Reader, kind: TextKind, request: SearchRequest, scores: Mapping[int, float], now: int
) -> list[int]:
    newest_first = reader.store.texts.places(
        kind,
        reader.scope,
        among=list(scores),
        since=request.since,
        before=request.before,
        include_recall=request.include_recall,
        limit=len(scores),
    )
    if request.sort == "recency":
        return [id for _, id in newest_first]
    times = {id: at for at, id in newest_first}

    def rank(id: int) -> float:
        hours = max(0, now - times[id]) / _HOUR if request.sort == "hybrid" else 0.0
        return scores[id] / (1 + hours * _AGEING)

    return sorted(times, key=rank, reverse=True)


def _hit(kind: TextKind, row: TextRow, keys: Keys, shown: str, score: float = 0.0) -> Hit:
    key = keys.get(row.conversation_id, "")
    if kind == "message":
        id, seq = message_id(row.id), row.id % SPAN
        return Hit(id, kind, row.conversation_id, key, moment(row.at), shown, score, seq, row.role)
    return Hit(row.public_id or "", kind, row.conversation_id, key, moment(row.at), shown, score, depth=row.depth)
